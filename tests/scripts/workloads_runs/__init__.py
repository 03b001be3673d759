"""What the tests of the workload programs share: running one of them, and saying what does not hold.

Does: runs a program of the build tree under an environment, reads its JSON, counts failed statements. Owns: the count.
Never: is a test itself. The environment has TERN_BUILD_DIR; TERN_SANITIZE may name a sanitizer.
"""
import json
import os
import subprocess
import sys

BUILD = os.environ["TERN_BUILD_DIR"]
SANITIZED = os.environ.get("TERN_SANITIZE", "none") not in ("", "none")
BACKENDS = ("tern",) if SANITIZED else ("tern", "boehm", "malloc")
KIB = 1 << 10
MIB = 1 << 20
OWN = ("GOGC", "GOMEMLIMIT", "GODEBUG", "GOMAXPROCS", "TERN_GOGC", "TERN_GOMEMLIMIT", "TERN_GOMAXPROCS")

failures = 0


def check(holds, statement):
    """One statement about the system; a false one is printed and makes the test fail."""
    global failures
    if not holds:
        failures += 1
        print("FALSE:", statement)


def finish():
    print(f"{failures} false" if failures else "all true")
    sys.exit(1 if failures else 0)


def run(program, *args, env=None, timeout=110):
    """Runs a workload program; `env` has the knobs, which are otherwise unset. TERN_GODEBUG is added to what there is."""
    environment = {k: v for k, v in os.environ.items() if k not in OWN}
    for name, value in (env or {}).items():
        if name == "TERN_GODEBUG" and environment.get(name):
            value = environment[name] + "," + value
        environment[name] = value
    return subprocess.run([os.path.join(BUILD, "workloads", program), *map(str, args)], env=environment,
                          capture_output=True, text=True, timeout=timeout)


def document(program, *args, env=None):
    """Runs `program --json`; returns its runs and its standard error."""
    done = run(program, "--json", *args, env=env)
    if done.returncode != 0:
        print(f"{program} {args} under {env} ended with {done.returncode}: {done.stderr.strip()}")
        sys.exit(1)
    result = json.loads(done.stdout)
    if set(result) != {"runs", "relations"}:
        print(f"{program} {args}: not a document of runs: {done.stdout}")
        sys.exit(1)
    return result["runs"], done.stderr


def one_run(program, *args, env=None):
    """Runs `program --json`; returns its one run and its standard error."""
    runs, log = document(program, *args, env=env)
    if len(runs) != 1:
        print(f"{program} {args}: {len(runs)} runs, not one")
        sys.exit(1)
    return runs[0], log


def blocks(*args, env=None):
    return one_run("blocks", *args, env=env)


def is_refused(done, *words, where):
    """A mistake is one line that names thing, value and what is accepted, and exit status 2."""
    check(done.returncode == 2, f"{where}: exit status {done.returncode}, not 2")
    check(done.stdout == "", f"{where}: nothing on standard output")
    check(done.stderr.count("\n") == 1, f"{where}: one line: {done.stderr!r}")
    for word in words:
        check(word in done.stderr, f"{where}: names {word!r}: {done.stderr!r}")


def near(value, wanted, share=0.10, least=1.0):
    """Within a share of what is wanted, or within `least` of it."""
    return abs(value - wanted) <= max(share * wanted, least)

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


def blocks(*args, env=None):
    """Runs `blocks --json`; returns its one run and its standard error."""
    done = run("blocks", "--json", *args, env=env)
    if done.returncode != 0:
        print(f"blocks {args} under {env} ended with {done.returncode}: {done.stderr.strip()}")
        sys.exit(1)
    document = json.loads(done.stdout)
    if set(document) != {"runs", "relations"} or len(document["runs"]) != 1:
        print(f"blocks {args}: not one run: {done.stdout}")
        sys.exit(1)
    return document["runs"][0], done.stderr


def near(value, wanted, share=0.10, least=1.0):
    """Within a share of what is wanted, or within `least` of it."""
    return abs(value - wanted) <= max(share * wanted, least)

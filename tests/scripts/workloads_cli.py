"""The command line and the environment of the workload programs: a mistake is one line that names thing, value and what
is accepted, and exit status 2; help has the knobs; JSON has every field for every backend."""
import sys

sys.dont_write_bytecode = True
from workloads_runs import BACKENDS, MIB, SANITIZED, blocks, check, finish, is_refused, run  # noqa: E402


# Options.
for args, words in (
    (("--size", "64KB"), ("--size", "64KB", "KiB")),
    (("--size", "1.5MiB"), ("--size", "1.5MiB", "KiB")),
    (("--size", "64kib"), ("--size", "64kib")),
    (("--size", " 64"), ("--size",)),
    (("--size", ""), ("--size",)),
    (("--size", "-1"), ("--size", "-1")),
    (("--size", "0"), ("--size", "0")),
    (("--size", "9223372036854775808"), ("--size", "9223372036854775808")),
    (("--size", "8", "--scan"), ("--size", "--scan", "16")),
    (("--count", "many"), ("--count", "many", "whole number")),
    (("--count", "-1"), ("--count", "-1")),
    (("--count", "99999999999999999999999"), ("--count", "99999999999999999999999")),
    (("--keep", "1KiB"), ("--keep", "1KiB")),
    (("--threads", "0"), ("--threads", "0", "1 to")),
    (("--threads", "1025"), ("--threads", "1025")),
    (("--backend", "mimalloc"), ("--backend", "mimalloc", "tern, boehm or malloc")),
    (("--boehm-divisor", "0"), ("--boehm-divisor", "0")),
    (("--boehm-max-heap", "much"), ("--boehm-max-heap", "much")),
    (("--no-such-option",), ("--no-such-option", "--help")),
    (("--size",), ("--size", "--help")),
    (("stray",), ("stray", "--help")),
):
    is_refused(run("blocks", *args), *words, where=f"blocks {args}")
is_refused(run("knobs", "--quick"), "--quick", where="knobs --quick")
is_refused(run("knobs", "stray"), "stray", where="knobs stray")

# The environment.
for name, value in (("GOGC", "50%"), ("GOGC", "abc"), ("GOGC", "2147483648"), ("GOMEMLIMIT", "1K"), ("GOMEMLIMIT", "1KB"),
                    ("GOMEMLIMIT", "1kib"), ("GOMEMLIMIT", "1.5GiB"), ("GOMEMLIMIT", "OFF"), ("GOMEMLIMIT", "1 MiB"),
                    ("GOMEMLIMIT", "-1"), ("GOMEMLIMIT", "9223372036854775808"), ("TERN_GOGC", "much"),
                    ("TERN_GOMEMLIMIT", "automatic"), ("TERN_GODEBUG", "nosuchkey=1"), ("GODEBUG", "gctrace=yes")):
    for program in ("blocks", "knobs"):
        is_refused(run(program, env={name: value}), name, value.split("=")[-1], where=f"{name}={value} {program}")
for name, value, field, wanted in (("GOGC", "+50", "gogc", 50), ("GOGC", "050", "gogc", 50), ("GOGC", "-5", "gogc", "off"),
                                   ("GOMEMLIMIT", "+16MiB", "memlimit_bytes", 16 * MIB),
                                   ("GOMEMLIMIT", "016384KiB", "memlimit_bytes", 16 * MIB),
                                   ("GOMEMLIMIT", "16777216", "memlimit_bytes", 16 * MIB),
                                   ("GOMEMLIMIT", "off", "memlimit_bytes", None), ("GOMEMLIMIT", "", "memlimit_bytes", None),
                                   ("GODEBUG", "nosuchkey=1", "gogc", 100)):
    r, _ = blocks("--count", 100, env={name: value})
    check(r[field] == wanted, f"{name}={value}: {field} is {r[field]}")
r, _ = blocks("--count", 100, env={"GOGC": "50", "TERN_GOGC": "70", "TERN_GOMEMLIMIT": "1GiB", "GOMEMLIMIT": "1MiB"})
check((r["gogc"], r["memlimit_bytes"]) == (70, 1024 * MIB), "names with TERN_ in front win")

# Help.
for program in ("biglive", "blocks", "knobs", "latency"):
    done = run(program, "--help")
    check(done.returncode == 0 and done.stderr == "", f"{program} --help succeeds")
    for word in ("--json", "GOGC", "GOMEMLIMIT", "GOMAXPROCS", "gctrace", "gcverify", "gcstress"):
        check(word in done.stdout, f"{program} --help names {word}")
    check(run(program, "--version").stdout.startswith(program + " (tern) "), f"{program} --version")

# Figures, as text and as JSON.
FIELDS = """workload backend gogc memlimit_bytes collections forced alloc_bytes allocs peak_heap_bytes peak_counted_bytes
peak_rss_bytes wall_ns cpu_ns gc_cpu_percent pause_max_ns pause_p99_ns pause_total_ns rss_before_bytes""".split()
NULLS = {"tern": {"memlimit_bytes"}, "boehm": {"gogc", "memlimit_bytes"},
         "malloc": {"gogc", "memlimit_bytes", "collections", "forced", "peak_heap_bytes", "peak_counted_bytes",
                    "gc_cpu_percent", "pause_max_ns", "pause_p99_ns", "pause_total_ns"}}
ROWS = ("collections", "forced", "peak heap", "peak RSS", "pause max", "pause p99", "GC CPU", "wall time")
for backend in BACKENDS:
    args = ("--backend", backend, "--count", 700, "--keep", 5, "--check")
    r, _ = blocks(*args)
    check(set(FIELDS) <= set(r), f"{backend}: fields missing: {set(FIELDS) - set(r)}")
    for field in FIELDS:
        check((r[field] is None) == (field in NULLS[backend]), f"{backend}: {field} is {r[field]}")
    check((r["workload"], r["backend"], r["allocs"]) == ("blocks", backend, 700), f"{backend}: says what it ran: {r}")
    check(r["peak_rss_bytes"] >= r["rss_before_bytes"] > 0 and r["wall_ns"] > 0 and r["cpu_ns"] > 0, f"{backend}: measures")
    check(abs(r["alloc_bytes"] - 700 * 65536) < MIB, f"{backend}: {r['alloc_bytes']} bytes allocated")
    text = run("blocks", *args).stdout
    for row in ROWS:
        check("\n  " + row + " " in text, f"{backend}: the text has a row {row!r}")
    for more in (("--scan",), ("--threads", 3), ("--threads", 3, "--scan", "--keep", 50), ("--collect", 2, "--release")):
        r, _ = blocks("--backend", backend, "--count", 900, "--check", *more)
        check(r["failed_allocations"] == 0, f"{backend} {more}: blocks are zeroed and kept ones unchanged")
if not SANITIZED:
    r, _ = blocks("--backend", "boehm", "--boehm-max-heap", "8MiB", "--keep", 256)
    check(r["failed_allocations"] > 0 and r["boehm_max_heap_bytes"] == 8 * MIB, "Boehm's maximum heap is a wall")
    r, _ = blocks("--backend", "boehm", "--boehm-divisor", 1)
    s, _ = blocks("--backend", "boehm", "--boehm-divisor", 16)
    check(r["collections"] < s["collections"], "Boehm's divisor is passed on")
finish()

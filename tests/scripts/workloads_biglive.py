"""The workload `biglive`: the live forest is whole at the end and has the same sum on every backend, with one thread that
makes garbage or several, with parked threads or none, typed or not, and under the checkers."""
import os
import sys

sys.dont_write_bytecode = True
from workloads_runs import BACKENDS, MIB, check, finish, is_refused, one_run, run  # noqa: E402

# A thread that sleeps in plain sight is never at a poll: with cooperative stops, as under ThreadSanitizer, it may not.
COOPERATIVE = os.environ.get("TERN_SANITIZE") == "thread"
NODE = 32
# ThreadSanitizer makes a node ten times as dear, and a cycle thirty times.
GARBAGE = "4MiB" if COOPERATIVE else "20MiB"
STRESSED = "128KiB" if COOPERATIVE else "1MiB"


def wanted(nodes):
    """The sum of what the nodes 0 to n - 1 hold: a number, and the number times a constant."""
    numbers = nodes * (nodes - 1) // 2
    return (numbers + numbers * 0x9E3779B97F4A7C15) % 2**53


# The program itself looks at every node, and fails when one is lost or overwritten.
for backend in BACKENDS:
    collector = backend != "malloc"
    for live, garbage, args in (
        ("2MiB", GARBAGE, ()),
        ("2MiB", GARBAGE, ("--threads", 3)),
        ("2MiB", GARBAGE, ("--typed", "--canary", "off")),
        ("2MiB", "3MiB", ("--parked", 5, "--threads", 2)),
        *(() if COOPERATIVE else (("2MiB", "3MiB", ("--parked", 5, "--parked-raw")),)),
        ("32B", "0B", ()),
        ("2097184B", "33B", ()),
    ):
        r, log = one_run("biglive", "--backend", backend, "--live", live, "--garbage", garbage, *args, env={"GOGC": "50"})
        where = f"{backend} --live {live} --garbage {garbage} {args}"
        check(log == "", f"{where}: nothing on standard error: {log}")
        check(r["checksum"] == wanted(r["keep"]), f"{where}: the sum is {r['checksum']}, not {wanted(r['keep'])}")
        check(r["allocs"] == r["count"] + 1, f"{where}: {r['allocs']} allocations: {r['count']} nodes and the array")
        check(("canary_worst_ns" in r) == ("--canary" not in args), f"{where}: the canary is reported where there is one")
        if garbage == GARBAGE:
            check((r["workload"], r["keep"]) == ("biglive", 2 * MIB // NODE), f"{where}: says what was run: {r}")
            check((r["collections"] or 0) > 0 if collector else r["collections"] is None,
                  f"{where}: {r['collections']} collections")
        for field in ("pause_max_ns", "pause_p99_ns", "pause_p50_ns", "stopping_max_ns", "gc_cpu_ns"):
            check((r[field] is not None) == collector, f"{where}: {field} is {r[field]}")

    r, _ = one_run("biglive", "--backend", backend, "--live", "2MiB", "--garbage", "2MiB", "--collect")
    check(("collect_wall_ns" in r, "collect_cpu_ns" in r) == (collector, collector), f"{backend}: one collection is measured")
    check(r["forced"] in (0, None), f"{backend}: and not counted among the program's own: {r['forced']}")
    text = run("biglive", "--backend", backend, "--live", "1MiB", "--garbage", "1MiB", "--parked", 2).stdout
    for row in ("collections", "pause max", "pause p99", "pause p50", "stopping max", "CPU time", "peak RSS", "canary worst",
                "checksum"):
        check("\n  " + row + " " in text, f"{backend}: the text has a row {row!r}")
    check("2 threads parked" in text, f"{backend}: the text says what was run: {text}")

# Under the checkers, pointers that the collector missed would be found.
for checker, live, garbage in (("gcverify=1", "1MiB", "6MiB"), ("gcstress=1", STRESSED, STRESSED),
                               ("gcverify=1,gcstress=7", STRESSED, STRESSED)):
    for args in ((), ("--typed",), ("--threads", 2, "--parked", 2)):
        r, _ = one_run("biglive", "--live", live, "--garbage", garbage, *args, env={"TERN_GODEBUG": checker, "GOGC": "20"})
        check(r["collections"] > 0, f"{checker} {args}: {r['collections']} collections")

for args, words in (
    (("--live", "31B"), ("--live", "31B", "at least 32")),
    (("--live", "1GB"), ("--live", "1GB", "GiB")),
    (("--garbage", "-1"), ("--garbage", "-1")),
    (("--threads", "0"), ("--threads", "1 to")),
    (("--parked", "many"), ("--parked", "many", "whole number")),
    (("--canary", "1"), ("--canary", "on nor off")),
    (("stray",), ("stray", "--help")),
):
    is_refused(run("biglive", *args), *words, where=f"biglive {args}")
finish()

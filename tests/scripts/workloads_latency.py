"""The workload `latency`: every push is measured, what is in the ring at the end is what was pushed last, on every backend
and under the checkers; of several runs the best comes first."""
import sys

sys.dont_write_bytecode = True
from workloads_runs import BACKENDS, KIB, check, document, finish, is_refused, one_run, run  # noqa: E402

PUSHES = ("push_p50_ns", "push_p99_ns", "push_p999_ns", "push_worst_ns")

# The program itself looks at every message that the ring holds, and fails when one is not as it was pushed. Less is pushed
# between two collections than the ring holds, so most of those have lived through one.
RING, COUNT = 8000, 40000
for backend in BACKENDS:
    collector = backend != "malloc"
    r, log = one_run("latency", "--backend", backend, "--ring", RING, "--pushes", COUNT, env={"GOGC": "40"})
    check((r["workload"], r["backend"], r["count"], r["keep"], r["size_bytes"]) == ("latency", backend, COUNT, RING, KIB),
          f"{backend}: the record says what was run: {r}")
    check(log == "", f"{backend}: nothing on standard error: {log}")
    check(0 < r["push_p50_ns"] <= r["push_p99_ns"] <= r["push_p999_ns"] <= r["push_worst_ns"] <= r["wall_ns"],
          f"{backend}: the shares of pushes are in order: {[r[name] for name in PUSHES]} in {r['wall_ns']}")
    check(r["allocs"] == COUNT + 1, f"{backend}: {r['allocs']} allocations: the messages and the ring")
    check(r["alloc_bytes"] >= COUNT * KIB, f"{backend}: {r['alloc_bytes']} bytes allocated")
    check(r["canary_worst_ns"] > 0, f"{backend}: the canary slept")
    check((r["collections"] or 0) > 0 if collector else r["collections"] is None, f"{backend}: {r['collections']} collections")
    for field in ("pause_max_ns", "pause_p99_ns", "pause_p50_ns", "stopping_max_ns"):
        check((r[field] is not None) == collector, f"{backend}: {field} is {r[field]}")
    for args in (("--ring", 1), ("--ring", 30000, "--pushes", 100), ("--size", 1), ("--size", 13), ("--size", "40KiB"),
                 ("--canary", "off")):
        r, _ = one_run("latency", "--backend", backend, "--ring", 100, "--pushes", 3000, *args)
        check(("canary_worst_ns" in r) == ("--canary" not in args), f"{backend} {args}: the canary is reported where there is one")

    runs, _ = document("latency", "--backend", backend, "--ring", 500, "--pushes", 5000, "--runs", 3)
    worst = [r["push_worst_ns"] for r in runs]
    check(len(runs) == 3 and worst == sorted(worst), f"{backend}: three runs, the best first: {worst}")
    text = run("latency", "--backend", backend, "--ring", 500, "--pushes", 5000, "--runs", 2).stdout
    for row in ("push worst", "push p99.9", "push p99", "push p50", "canary worst", "collections", "pause max", "CPU time"):
        check("\n  " + row + " " in text, f"{backend}: the text has a row {row!r}")
    check("the best of 2 runs" in text, f"{backend}: the text says that it is the best of two")

# Under the checkers, pointers that the collector missed would be found.
for checker in ("gcverify=1", "gcstress=1", "gcverify=1,gcstress=7"):
    r, _ = one_run("latency", "--ring", 1000, "--pushes", 8000, env={"TERN_GODEBUG": checker, "GOGC": "20"})
    check(r["collections"] > 0, f"{checker}: {r['collections']} collections")

# What the runs of itself say is passed on, and so is how they ended.
done = run("latency", "--runs", 2, "--ring", 100, "--pushes", 20000, "--json", env={"TERN_GODEBUG": "gctrace=1"})
traced = done.stderr.count("\ngc 1 @") + done.stderr.startswith("gc 1 @")
check(traced == 2, f"two runs, two first collections in the trace: {traced}")
is_refused(run("latency", "--runs", 2, env={"GOGC": "5%"}), "GOGC", "5%", where="GOGC=5% latency --runs 2")

for args, words in (
    (("--ring", "0"), ("--ring", "1 to")),
    (("--pushes", "1M"), ("--pushes", "1M", "whole number")),
    (("--size", "0"), ("--size",)),
    (("--canary", "maybe"), ("--canary", "maybe", "on nor off")),
    (("--runs", "0"), ("--runs", "1 to")),
    (("--backend", "glibc"), ("--backend", "glibc", "tern, boehm or malloc")),
    (("--no-such-option",), ("--no-such-option", "--help")),
    (("stray",), ("stray", "--help")),
):
    is_refused(run("latency", *args), *words, where=f"latency {args}")
finish()

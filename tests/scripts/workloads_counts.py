# ctest: timeout=300
"""How often the collector runs follows from the ratio, the limit and what is kept: for the articles' numbers and for
others. Counts are exact but for a block or two that a stale word keeps; so within a tenth, or one."""
import os
import random
import sys

sys.dont_write_bytecode = True
from workloads_runs import KIB, MIB, blocks, check, finish, near  # noqa: E402

SEED = 20260401


def expected(size, count, percent, kept):
    """The rule, step by step: before a block that would pass the goal, collect; the goal is what stayed and the ratio's
    share of it, at least 4 MiB times the ratio. kept(done) is how many of the blocks done so far are kept."""
    least = 4 * MIB * percent / 100
    heap, goal, collections = 0, least, 0
    for done in range(count):
        if heap + size > goal:
            collections += 1
            heap = kept(done) * size
            goal = max(least, heap * (1 + percent / 100))
        heap += size
    return collections


def handed_out(run):
    return run["alloc_bytes"] / run["allocs"]


# The articles' numbers.
for percent, ideal in ((50, 125), (100, 62.5), (400, 15.6)):
    r, _ = blocks(env={"GOGC": str(percent)})
    check(abs(r["collections"] - ideal) <= 0.1 * ideal, f"GOGC={percent}: {r['collections']} collections, ideal {ideal}")
    check(r["gogc"] == percent and r["memlimit_bytes"] is None, f"GOGC={percent}: the run says what it ran under")
    check(r["forced"] == 0 and r["failed_allocations"] == 0, f"GOGC={percent}: none forced, none failed")
    check(r["peak_heap_bytes"] <= 4 * MIB * percent / 100 + 64 * KIB, f"GOGC={percent}: peak heap {r['peak_heap_bytes']}")
    check(r["allocs"] >= 4000 and near(r["alloc_bytes"], 250 * MIB, 0.01), f"GOGC={percent}: {r['alloc_bytes']} allocated")
r, _ = blocks(env={"GOGC": "1600"})
check(r["collections"] in (3, 4), f"GOGC=1600: {r['collections']} collections")
r, log = blocks(env={"GOGC": "off"})
check(r["collections"] == 0 and r["gogc"] == "off", f"GOGC=off: {r['collections']} collections")
check(log.count("\n") == 1 and "grows without bound" in log, "GOGC=off and no limit: one line warns of it")
r, log = blocks(env={"GOGC": "off", "GOMEMLIMIT": "32MiB"})
check(8 <= r["collections"] <= 14, f"32 MiB: {r['collections']} collections")
check(log == "", f"32 MiB: nothing to warn of: {log}")

def growth(size, keep, percent):
    """Blocks between two collections."""
    live = keep * size
    return (max(4 * MIB * percent / 100, live * (1 + percent / 100)) - live) / size


# Others, drawn from a fixed seed; where a stale word, which may keep a block or two, is not a great part of the growth.
draw = random.Random(SEED)
print("seed", SEED)
for _ in range(9):
    size = draw.choice((4 * KIB, 12 * KIB, 24 * KIB, 40000, 96 * KIB, 200 * KIB, 1 * MIB))
    count = draw.randrange(64, 300) * MIB // size
    keep = draw.choice((0, 0, draw.randrange(1, 24 * MIB // size)))
    percent = draw.choice((30, 75, 120, 200, 350))
    while growth(size, keep, percent) < 40:
        percent += 50
    args = ("--size", size, "--count", count, "--keep", keep)
    r, _ = blocks(*args, env={"GOGC": str(percent)})
    wanted = expected(handed_out(r), count, percent, lambda done: min(done, keep))
    check(near(r["collections"], wanted), f"{args} GOGC={percent}: {r['collections']} collections, by the rule {wanted}")
    goal = max(4 * MIB * percent / 100, (keep + 2) * handed_out(r) * (1 + percent / 100))
    check(r["peak_heap_bytes"] <= 1.02 * goal + size, f"{args} GOGC={percent}: peak heap {r['peak_heap_bytes']}, goal {goal}")

# A limit over what is kept is kept: never passed by more than a block. Ratio and limit: the earlier one wins.
for limit, keep, size in ((12, 0, 64 * KIB), (20, 100, 64 * KIB), (48, 20, 1 * MIB), (24, 500, 16 * KIB), (10, 0, 500 * KIB)):
    for percent in ("off", "100", "1000"):
        args = ("--size", size, "--count", 300 * MIB // size, "--keep", keep)
        r, _ = blocks(*args, env={"GOGC": percent, "GOMEMLIMIT": f"{limit}MiB"})
        where = f"{args} GOGC={percent} GOMEMLIMIT={limit}MiB"
        check(r["memlimit_bytes"] == limit * MIB, f"{where}: the run says its limit")
        check(r["peak_counted_bytes"] <= limit * MIB + size,
              f"{where}: {r['peak_counted_bytes'] - limit * MIB} bytes past the limit")
        room = limit * MIB - keep * size
        check(r["collections"] >= 300 * MIB // room - 1, f"{where}: only {r['collections']} collections")
        if percent == "100":
            wanted = expected(handed_out(r), 300 * MIB // size, 100, lambda done: min(done, keep))
            check(r["collections"] >= 0.9 * wanted - 1, f"{where}: {r['collections']} collections, by the ratio {wanted}")

# Several threads share one heap and one goal. Either all run at once and fill their rings together, or one after the other:
# the count lies between the two. Much is kept, so that the block or two that each thread's stale words keep weigh little.
# (ThreadSanitizer has a MiB of its own on each thread's stack, and the goal grows with the stacks: fewer collections there.)
COUNT, KEEP = 6000, 400
# (Blocks that are scanned are marked beside the threads, and what these allocate meanwhile counts as live until the next
# cycle: the goal is higher by as much, the more so the more threads want the processors.)
LEAST_SHARE = 0.5 if os.environ.get("TERN_SANITIZE") == "thread" else 0.85
for threads in (2, 5):
    for scan in ((), ("--scan",)):
        r, _ = blocks("--threads", threads, "--count", COUNT, "--keep", KEEP, *scan, env={"GOGC": "100"})
        each, ring = COUNT // threads, KEEP // threads
        together = expected(64 * KIB, COUNT, 100, lambda done: min(done, KEEP))
        in_turn = expected(64 * KIB, COUNT, 100, lambda done: done // each * ring + min(done % each, ring))
        least = min(LEAST_SHARE, 0.5) if scan else LEAST_SHARE
        check(least * together - 1 <= r["collections"] <= 1.1 * in_turn + 1,
              f"{threads} threads {scan}: {r['collections']} collections, by the rule {together} to {in_turn}")
        check(r["failed_allocations"] == 0, f"{threads} threads {scan}: none failed")

finish()

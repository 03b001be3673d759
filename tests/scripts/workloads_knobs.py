# ctest: serial timeout=400 lanes=none
"""The demonstration: every relation holds, all three backends are in it, its tables fit 100 columns, and a pipe gets no
progress line. (Sanitizers change memory and time and cannot run on jemalloc: not there.)"""
import json
import sys

sys.dont_write_bytecode = True
from workloads_runs import check, finish, run  # noqa: E402

RELATIONS = {"gogc_falling", "gogc_near_ideal", "off_is_zero", "off_grows", "limit_brings_back", "limit_kept", "limit_steep",
             "spiral_finishes", "spiral_cpu_bounded", "spiral_says_so"}

done = run("knobs", "--json", env={"GOGC": "200"}, timeout=190)
check(done.returncode == 0, f"exit status {done.returncode}: {done.stderr}")
check(done.stderr == "", f"no progress line in a pipe: {done.stderr!r}")
check(done.stdout.count("\n") == 1, "one object, one line")
document = json.loads(done.stdout)
check(set(document["relations"]) == RELATIONS, f"relations: {set(document['relations'])}")
for name, holds in document["relations"].items():
    check(holds is True, f"relation {name} is {holds}")
runs = document["runs"]
check({r["backend"] for r in runs} == {"tern", "boehm", "malloc"}, "three backends")
tern = [r for r in runs if r["backend"] == "tern"]
falling = [r["collections"] for p in (50, 100, 400, 1600) for r in tern if r["gogc"] == p and r["memlimit_bytes"] is None]
check(len(falling) == 4 and falling == sorted(falling, reverse=True) and len(set(falling)) == 4, f"falling: {falling}")
check(any(r["gogc"] == "off" and r["memlimit_bytes"] is None and r["collections"] == 0 for r in tern), "off: none")
check(any(r["gogc"] == "off" and r["memlimit_bytes"] == 32 << 20 and 8 <= r["collections"] <= 14 for r in tern), "32 MiB")
check(any(r["backend"] == "boehm" and r["failed_allocations"] > 0 for r in runs), "Boehm's wall")

done = run("knobs", env={"GOGC": "200", "GOMEMLIMIT": "3GiB"}, timeout=190)
check(done.returncode == 0, f"exit status {done.returncode}: {done.stderr}")
check(done.stderr == "", f"no progress line in a pipe: {done.stderr!r}")
lines = done.stdout.split("\n")
check(max(map(len, lines)) <= 100, f"lines fit: {max(lines, key=len)!r}")
for word in ("tern", "Boehm", "malloc", "200 %", "3.0 GiB", "processors", "store mode", "marker", "WARNING", "without bound",
             "tern: memory limit of 8.0 MiB passed by"):
    check(word in done.stdout, f"the text has {word!r}")
for name in RELATIONS:
    check(any(line.split()[:2] == [name, "true"] for line in lines), f"the text says that {name} is true")
finish()

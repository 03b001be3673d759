"""The trace has one line for each collection, in Go's format to the letter, and its numbers are the statistics'."""
import re
import sys

sys.dont_write_bytecode = True
from workloads_runs import MIB, blocks, check, finish, near  # noqa: E402

# Milliseconds as Go writes them: three decimals below 0.1, then two figures, and whole ones from 10 on.
MS = r"(0|0\.0\d\d|0\.[1-9]\d|[1-9]\.\d|[1-9]\d+)"
LINE = re.compile(rf"^gc ([1-9]\d*) @(\d+\.\d{{3}})s (\d+)%: {MS}\+{MS}\+{MS} ms clock, {MS}\+{MS}/{MS}/{MS}\+{MS} ms cpu, "
                  r"(\d+)->(\d+)->(\d+) MB, (\d+) MB goal, (\d+) MB stacks, (\d+) MB globals, ([1-9]\d*) P( \(forced\))?$")

CASES = (
    ((), {"GOGC": "100"}),
    (("--keep", 64), {"GOGC": "50"}),
    (("--size", "24KiB", "--count", 6000, "--threads", 3), {"GOGC": "75"}),
    (("--collect", 5), {"GOGC": "400"}),
    (("--collect", 2), {"GOGC": "off"}),
    ((), {"GOGC": "off", "GOMEMLIMIT": "16MiB"}),
    (("--keep", 256, "--count", 1000), {"GOGC": "off", "GOMEMLIMIT": "8MiB"}),
    (("--count", 0), {"GOGC": "100"}),
)

for args, env in CASES:
    r, log = blocks(*args, env={**env, "GODEBUG": "gctrace=1"})
    where = f"{args} {env}"
    starts = [line for line in log.split("\n") if line.startswith("gc ")]
    lines = [m for m in map(LINE.match, starts) if m]
    check(len(lines) == len(starts), f"{where}: each line that begins with 'gc ' is a trace line: {starts[:3]}")
    check(len(lines) == r["collections"], f"{where}: {len(lines)} lines, {r['collections']} collections")
    check([int(m[1]) for m in lines] == list(range(1, len(lines) + 1)), f"{where}: numbered from 1 on")
    times = [float(m[2]) for m in lines]
    check(times == sorted(times), f"{where}: start times do not fall")
    check(sum(1 for m in lines if m[19]) == r["forced"], f"{where}: {r['forced']} forced")
    forced_at_end = [bool(m[19]) for m in lines]
    check(forced_at_end == sorted(forced_at_end), f"{where}: those that the program asked for are the last ones")
    check(all(int(m[18]) == r["processors"] for m in lines), f"{where}: processors")
    check(all(int(m[12]) >= int(m[14]) for m in lines), f"{where}: no more is live than there was")
    if lines:
        check(int(lines[-1][14]) == r["live_bytes"] // MIB, f"{where}: live at the last one")
        pauses = [float(m[4]) + float(m[6]) for m in lines]
        check(near(sum(pauses), r["pause_total_ns"] / 1e6, 0.10, 0.002 * len(lines)), f"{where}: sum of stops {sum(pauses)}")
        check(near(max(pauses), r["pause_max_ns"] / 1e6, 0.10, 0.01), f"{where}: longest stop {max(pauses)}")
        check(r["pause_count"] == len(lines), f"{where}: one stop for each")
        check(r["pause_p99_ns"] <= r["pause_max_ns"] <= r["pause_total_ns"], f"{where}: p99, longest, sum")
        peak = max(int(m[12]) for m in lines)
        check(peak <= r["peak_heap_bytes"] // MIB, f"{where}: peak heap {r['peak_heap_bytes']}, in the trace {peak} MB")
    if env.get("GOGC") == "100" and not args:
        check(all(int(m[15]) == 4 for m in lines), f"{where}: the goal is 4 MB")
        check(near(len(lines) and int(lines[-1][3]), r["gc_cpu_percent"], 0.5, 3), f"{where}: GC CPU share")

# Without the key there is no such line.
r, log = blocks(env={"GOGC": "100"})
check(log == "", f"without gctrace nothing is written: {log}")
finish()

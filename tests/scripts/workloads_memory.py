# ctest: lanes=none
"""What the statistics say was held from the kernel is what the kernel says: the peak of the resident set, less what it was
before the first allocation, is within a tenth or 4 MiB of the peak that was counted. (Sanitizers have memory of their
own: not there.)"""
import sys

sys.dont_write_bytecode = True
from workloads_runs import MIB, blocks, check, finish, near  # noqa: E402

CASES = (
    ((), {"GOGC": "50"}),
    ((), {"GOGC": "1600"}),
    ((), {"GOGC": "off"}),
    ((), {"GOGC": "off", "GOMEMLIMIT": "32MiB"}),
    (("--keep", 64), {"GOGC": "100"}),
    (("--keep", 1000), {"GOGC": "100"}),
    (("--keep", 256), {"GOGC": "off", "GOMEMLIMIT": "8MiB"}),
    (("--keep", 300, "--scan"), {"GOGC": "200"}),
    (("--size", "16KiB", "--count", 16000, "--keep", 2000), {"GOGC": "100"}),
    (("--size", "1000", "--count", 200000, "--keep", 30000), {"GOGC": "100"}),
    (("--size", "48B", "--count", 3000000, "--keep", 400000), {"GOGC": "100"}),
    (("--size", "5MiB", "--count", 80, "--keep", 10), {"GOGC": "100"}),
    (("--threads", 8, "--keep", 400), {"GOGC": "100"}),
)

for args, env in CASES:
    r, _ = blocks(*args, env=env)
    own = r["peak_rss_bytes"] - r["rss_before_bytes"]
    check(near(own, r["peak_counted_bytes"], 0.10, 4 * MIB),
          f"{args} {env}: {own / MIB:.1f} MiB resident, {r['peak_counted_bytes'] / MIB:.1f} counted")

# What is given back is gone from both.
for keep in (0, 64):
    r, _ = blocks("--keep", keep, "--release", env={"GOGC": "1600"})
    own = r["rss_after_bytes"] - r["rss_before_bytes"]
    check(r["total_bytes"] < 16 * MIB, f"--keep {keep} --release: {r['total_bytes']} still counted")
    check(near(own, r["total_bytes"], 0.10, 4 * MIB), f"--keep {keep} --release: {own} resident, {r['total_bytes']} counted")
finish()

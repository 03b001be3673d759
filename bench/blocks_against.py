#!/usr/bin/env python3
"""blocks, tern against Boehm and malloc, in one interleaved run.

Does: runs `blocks --keep 64` at GOGC=100 in turn on each contender, some rounds, and prints for each the collections, the
CPU time and the peak RSS less the RSS before the first allocation: medians, so that the machine's moods fall on all alike.
With --check: exits 1 unless tern has fewer collections and less CPU time than Boehm at equal or lower peak RSS.
Owns: nothing. Never: compares runs of different times. Calls: build/release/workloads/blocks.

How much memory Boehm takes follows from its divisor of free space, so it runs with its default and with the divisor whose
peak RSS comes nearest to tern's, found in a round before; that one tern is checked against, and equal means equal: a
peak that is a little higher does not hold. A last row gives Boehm tern's memory from the start; no setting of Boehm's does that for a heap that
grows, so it is shown and not judged.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys

MIB = 1 << 20
KNOBS = ("GOGC", "GOMEMLIMIT", "GODEBUG", "TERN_GOGC", "TERN_GOMEMLIMIT", "TERN_GODEBUG")
DIVISORS = (1, 2, 3, 4, 6)


def parse():
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    build = os.environ.get("TERN_BUILD_DIR", os.path.join(root, "build", "release"))
    parser = argparse.ArgumentParser(description="blocks: tern against Boehm and malloc, interleaved")
    parser.add_argument("--blocks", default=os.path.join(build, "workloads", "blocks"),
                        help="the program (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=7, help="rounds, at least 5 (default: %(default)s)")
    parser.add_argument("--keep", type=int, default=64, help="blocks kept in the ring (default: %(default)s)")
    parser.add_argument("--scan", action="store_true", help="blocks that may hold pointers")
    parser.add_argument("--gogc", default="100", help="tern's growth ratio (default: %(default)s)")
    parser.add_argument("--no-malloc", action="store_true", help="leave malloc out")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of a table")
    parser.add_argument("--check", action="store_true", help="exit 1 unless tern wins as it must")
    options = parser.parse_args()
    if options.rounds < 5:
        parser.error(f"--rounds {options.rounds}: a median wants at least 5")
    if not os.access(options.blocks, os.X_OK):
        parser.error(f"--blocks {options.blocks}: no such program; build the release first")
    return options


class Contender:
    def __init__(self, name, *args, gogc=None):
        self.name, self.args, self.gogc, self.runs = name, args, gogc, []

    def run(self, options):
        environment = {k: v for k, v in os.environ.items() if k not in KNOBS}
        if self.gogc:
            environment["GOGC"] = self.gogc
        command = [options.blocks, "--json", f"--keep={options.keep}", *(["--scan"] if options.scan else []), *self.args]
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"blocks_against: {' '.join(command)} ended with status {done.returncode}")
        run = json.loads(done.stdout)["runs"][0]
        run["own_rss_bytes"] = run["peak_rss_bytes"] - run["rss_before_bytes"]
        self.runs.append(run)
        return run

    def median(self, field):
        values = [run[field] for run in self.runs]
        return None if None in values else statistics.median(values)


def nearest_boehm(options, wanted):
    """Boehm under the divisor whose peak RSS comes nearest to what is wanted."""
    candidates = [Contender(f"Boehm, divisor {d}", "--backend=boehm", f"--boehm-divisor={d}") for d in DIVISORS]
    nearest = min(candidates, key=lambda c: abs(c.run(options)["own_rss_bytes"] - wanted))
    nearest.runs.clear()
    return nearest


def table(contenders):
    tern = contenders[0]
    print(f"  {'':<28} {'collections':>11} {'CPU ms':>8} {'least':>7} {'most':>7} {'x tern':>7} {'peak RSS MiB':>13}")
    for c in contenders:
        cpu = [run["cpu_ns"] / 1e6 for run in c.runs]
        collections = c.median("collections")
        print(f"  {c.name:<28} {'-' if collections is None else round(collections):>11} {statistics.median(cpu):>8.1f} "
              f"{min(cpu):>7.1f} {max(cpu):>7.1f} {c.median('cpu_ns') / tern.median('cpu_ns'):>7.2f} "
              f"{c.median('own_rss_bytes') / MIB:>13.1f}")


def judge(tern, boehm):
    """What does not hold, one line each."""
    false = []
    for field, unit, scale in (("collections", "collections", 1), ("cpu_ns", "ms of CPU", 1e6)):
        if tern.median(field) >= boehm.median(field):
            false.append(f"tern takes {tern.median(field) / scale:.1f} {unit}, {boehm.name} {boehm.median(field) / scale:.1f}")
    if tern.median("own_rss_bytes") > boehm.median("own_rss_bytes"):
        false.append(f"tern's peak RSS is {tern.median('own_rss_bytes') / MIB:.1f} MiB, "
                     f"{boehm.name}'s {boehm.median('own_rss_bytes') / MIB:.1f} MiB")
    return false


def main():
    options = parse()
    tern = Contender(f"tern, GOGC={options.gogc}", gogc=options.gogc)
    wanted = statistics.median(tern.run(options)["own_rss_bytes"] for _ in range(3))
    tern.runs.clear()
    boehm = nearest_boehm(options, wanted)
    contenders = [tern, Contender("Boehm, default", "--backend=boehm"), boehm,
                  Contender("Boehm, tern's peak at start", "--backend=boehm", f"--boehm-initial-heap={int(wanted)}")]
    if not options.no_malloc:
        contenders.append(Contender("malloc (calloc, free)", "--backend=malloc"))
    for _ in range(options.rounds):
        for contender in contenders:
            contender.run(options)

    false = judge(tern, boehm)
    if options.json:
        print(json.dumps({"runs": [run for c in contenders for run in c.runs], "relations": {"beats_boehm": not false}}))
    else:
        print(f"blocks --keep {options.keep}{' --scan' if options.scan else ''}: 4000 blocks of 64 KiB, {options.rounds} "
              "interleaved rounds, medians; RSS is the peak less\nwhat it was before the first allocation\n")
        table(contenders)
        print()
        for line in false or ["tern: fewer collections and less CPU time than Boehm at equal or lower peak RSS"]:
            print(("  false: " if false else "  true: ") + line)
    sys.exit(1 if options.check and false else 0)


if __name__ == "__main__":
    main()

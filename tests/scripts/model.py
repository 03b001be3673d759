#!/usr/bin/env python3
# ctest: serial timeout=900 lanes=none
"""The model of a cycle (tests/model/) holds with both protections, and with each alone while the contract is kept;
every fault put into it is found, and for the reason it was put there. docs/model.md says so too, row by row.

By hand: model.py [NAME...] runs some variants, model.py --table prints the table of docs/model.md (with names: its rows
for these), model.py --trail NAME tells the counterexample of one as a story."""
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "tests" / "model"
DOCUMENT = ROOT / "docs" / "model.md"
SECONDS = 120  # of one step of one variant; they take one to ten
MEMORY_MIB = 1024
WORKERS = 2  # verifiers at a time: each wants memory

OLD = "NO_NEW NO_RESCAN"  # the first protection alone
NEW = "NO_OLD"  # the second one alone
HOLDS = "holds"
# What the assertion that fails has in its text.
FREED = "frees what is in reach"
TWICE = "hands out twice"
READ = "reads what was freed"
GREY = "grey before the start"
NULL = "weak NULL of the living"
CELL = "cell of the freed"
REACHED = "state is reached"
REASONS = ((FREED, "((held&"), (READ, "==0)||((live&"), (TWICE, "((live&"), (GREY, "(grey==0)"), (NULL, "||deciding)"),
           (CELL, "<<cell)"), (REACHED, "!("))

# name: program and defines, result. Of those that hold with both protections no statement may be left unreached.
VARIANTS = {
    # Contract kept: both protections, the first alone, the second alone.
    "store": ("STORE", HOLDS),
    "store/longer": ("STORE FUEL=4 CYCLES=1", HOLDS),
    "store/old": (f"STORE FUEL=4 CYCLES=1 {OLD}", HOLDS),
    "store/new": (f"STORE FUEL=4 CYCLES=1 {NEW}", HOLDS),
    "chain": ("CHAIN FUEL=4", HOLDS),
    "chain/old": (f"CHAIN FUEL=4 CYCLES=1 {OLD}", HOLDS),
    "chain/new": (f"CHAIN FUEL=4 CYCLES=1 {NEW}", HOLDS),
    "flush": ("FLUSH", HOLDS),
    "flush/longer": ("FLUSH FUEL=4 CYCLES=1", HOLDS),
    "flush/old": (f"FLUSH {OLD}", HOLDS),
    "flush/new": (f"FLUSH {NEW}", HOLDS),
    "exchange": ("EXCHANGE", HOLDS),
    "exchange/old": (f"EXCHANGE {OLD}", HOLDS),
    "exchange/new": (f"EXCHANGE {NEW}", HOLDS),
    "move": ("MOVE", HOLDS),
    "move/old": (f"MOVE {OLD}", HOLDS),
    "move/new": (f"MOVE {NEW}", HOLDS),
    "move-two": ("MOVE_TWO", HOLDS),
    "move-two/old": (f"MOVE_TWO {OLD}", HOLDS),
    "move-two/new": (f"MOVE_TWO {NEW}", HOLDS),
    "allocate": ("ALLOCATE", HOLDS),
    "allocate/old": (f"ALLOCATE {OLD}", HOLDS),
    "allocate/new": (f"ALLOCATE {NEW}", HOLDS),
    "sweep": ("SWEEP FUEL=4", HOLDS),
    "weak": ("WEAK", HOLDS),
    "weak/old": (f"WEAK {OLD}", HOLDS),
    "weak/new": (f"WEAK {NEW}", HOLDS),
    # Pieces of the protections.
    "no-protection": (f"STORE FUEL=4 CYCLES=1 NO_OLD {OLD}", FREED),
    "only-rescan": ("STORE FUEL=4 CYCLES=1 NO_OLD NO_NEW", FREED),
    "only-new": ("STORE FUEL=4 CYCLES=1 NO_OLD NO_RESCAN", FREED),
    # Slips of the program: both protections, the first alone, the second alone.
    "slip-delete": ("STORE FUEL=4 CYCLES=1 SLIP_DELETE", HOLDS),
    "slip-delete/old": (f"STORE FUEL=4 CYCLES=1 SLIP_DELETE {OLD}", FREED),
    "slip-delete/new": (f"STORE FUEL=4 CYCLES=1 SLIP_DELETE {NEW}", HOLDS),
    "slip-insert": ("STORE FUEL=4 CYCLES=1 SLIP_INSERT", HOLDS),
    "slip-insert/old": (f"STORE FUEL=4 CYCLES=1 SLIP_INSERT {OLD}", HOLDS),
    "slip-insert/new": (f"STORE FUEL=4 CYCLES=1 SLIP_INSERT {NEW}", FREED),
    "slip-any": ("STORE FUEL=4 CYCLES=1 SLIP_ANY", HOLDS),
    "slip-any/old": (f"STORE FUEL=4 CYCLES=1 SLIP_ANY {OLD}", FREED),
    "slip-any/new": (f"STORE FUEL=4 CYCLES=1 SLIP_ANY {NEW}", FREED),
    "slip-any-chain": ("CHAIN FUEL=4 CYCLES=1 SLIP_ANY", HOLDS),
    "slip-two": ("STORE FUEL=4 CYCLES=1 SLIP_ANY SLIPS=2", FREED),
    "slip-race": ("STORE FUEL=4 CYCLES=1 SLIP_RACE", HOLDS),
    "slip-race/old": (f"STORE FUEL=4 CYCLES=1 SLIP_RACE {OLD}", FREED),
    "slip-race/new": (f"STORE FUEL=4 CYCLES=1 SLIP_RACE {NEW}", HOLDS),
    "slip-taken": ("TAKEN", HOLDS),
    "slip-taken/old": (f"TAKEN {OLD}", FREED),
    "slip-taken/new": (f"TAKEN {NEW}", HOLDS),
    "slip-put-away": ("PUT_AWAY FUEL=4 CYCLES=1", HOLDS),
    "slip-put-away/old": (f"PUT_AWAY FUEL=4 CYCLES=1 {OLD}", HOLDS),
    "slip-put-away/new": (f"PUT_AWAY FUEL=4 CYCLES=1 {NEW}", READ),
    "slip-hidden": ("HIDDEN", READ),
    # Faults of the collector that both protections together do not forgive.
    "buffers-unread": ("STORE FUEL=4 CYCLES=1 FAULT_BUFFERS_UNREAD", FREED),
    "decided-early": ("CHAIN FUEL=4 CYCLES=1 FAULT_DECIDED_EARLY", FREED),
    "flush-outside-s1": ("FLUSH FAULT_FLUSH_OUTSIDE_S1", GREY),
    "flag-once": ("MOVE CYCLES=1 FAULT_FLAG_ONCE", FREED),
    "move-outside-s1": ("MOVE_TWO CYCLES=1 FAULT_MOVE_OUTSIDE_S1", FREED),
    "white-allocation": ("SWEEP FUEL=4 FAULT_WHITE_ALLOCATION", TWICE),
    "open-mask-white": ("SWEEP FUEL=4 FAULT_OPEN_MASK_WHITE", TWICE),
    "bit-first": ("SWEEP FUEL=4 FAULT_BIT_FIRST", TWICE),
    "sweep-unclaimed": ("SWEEP FUEL=4 FAULT_SWEEP_UNCLAIMED", TWICE),
    "weak-outside-s1": ("WEAK FAULT_WEAK_OUTSIDE_S1", NULL),
    "weak-outside-s1/read": ("WEAK FAULT_WEAK_OUTSIDE_S1 NULL_UNCHECKED", READ),
    "weak-one-look": ("WEAK FAULT_WEAK_ONE_LOOK", NULL),
    "weak-one-look/read": ("WEAK FAULT_WEAK_ONE_LOOK NULL_UNCHECKED", READ),
    "swept-before-cleared": ("WEAK FAULT_SWEPT_BEFORE_CLEARED", CELL),
    # Faults that the second protection forgives, alone too, and the first alone does not.
    "flag-first": ("STORE FUEL=4 CYCLES=1 FAULT_FLAG_FIRST", HOLDS),
    "flag-first/old": (f"STORE FUEL=4 CYCLES=1 FAULT_FLAG_FIRST {OLD}", FREED),
    "flag-first/new": (f"STORE FUEL=4 CYCLES=1 FAULT_FLAG_FIRST {NEW}", HOLDS),
    "old-not-held": ("STORE FUEL=4 CYCLES=1 FAULT_OLD_NOT_HELD", HOLDS),
    "old-not-held/old": (f"STORE FUEL=4 CYCLES=1 FAULT_OLD_NOT_HELD {OLD}", FREED),
    "old-not-held/new": (f"STORE FUEL=4 CYCLES=1 FAULT_OLD_NOT_HELD {NEW}", HOLDS),
    "swapped-first": ("EXCHANGE CYCLES=1 FAULT_SWAPPED_FIRST", HOLDS),
    "swapped-first/old": (f"EXCHANGE CYCLES=1 FAULT_SWAPPED_FIRST {OLD}", READ),
    "swapped-first/new": (f"EXCHANGE CYCLES=1 FAULT_SWAPPED_FIRST {NEW}", HOLDS),
    "swapped-blindly": ("EXCHANGE CYCLES=1 FAULT_SWAPPED_BLINDLY", HOLDS),
    "swapped-blindly/old": (f"EXCHANGE CYCLES=1 FAULT_SWAPPED_BLINDLY {OLD}", READ),
    "swapped-blindly/new": (f"EXCHANGE CYCLES=1 FAULT_SWAPPED_BLINDLY {NEW}", HOLDS),
    "weak-not-recorded": ("WEAK FAULT_WEAK_NOT_RECORDED", HOLDS),
    "weak-not-recorded/old": (f"WEAK FAULT_WEAK_NOT_RECORDED {OLD}", FREED),
    "weak-not-recorded/new": (f"WEAK FAULT_WEAK_NOT_RECORDED {NEW}", HOLDS),
    # Either alone loses this one; both together do not.
    "move-one-outside-s1": ("MOVE CYCLES=1 FAULT_MOVE_OUTSIDE_S1", HOLDS),
    "move-one-outside-s1/old": (f"MOVE CYCLES=1 FAULT_MOVE_OUTSIDE_S1 {OLD}", FREED),
    "move-one-outside-s1/new": (f"MOVE CYCLES=1 FAULT_MOVE_OUTSIDE_S1 {NEW}", FREED),
    # With one slip of the program beside it, a flag that is tested too early gets through both.
    "flag-first/slip-insert": ("STORE FUEL=4 CYCLES=1 FAULT_FLAG_FIRST SLIP_INSERT", FREED),
    "flag-first/slip-put-away": ("PUT_AWAY FUEL=4 CYCLES=1 FAULT_FLAG_FIRST", READ),
    # The second alone forgives these, as far as these programs go; docs/model.md says what longer ones lose.
    "published-first/old": (f"CHAIN FUEL=5 CYCLES=1 FAULT_PUBLISHED_FIRST {OLD}", FREED),
    "published-first/new": (f"CHAIN FUEL=5 CYCLES=1 FAULT_PUBLISHED_FIRST {NEW}", HOLDS),
    "barrier-off-early/old": (f"CHAIN FUEL=4 CYCLES=1 FAULT_BARRIER_OFF_EARLY {OLD}", FREED),
    "barrier-off-early/new": (f"CHAIN FUEL=4 CYCLES=1 FAULT_BARRIER_OFF_EARLY {NEW}", HOLDS),
    "relative-count/old": (f"FLUSH FUEL=4 CYCLES=1 FAULT_RELATIVE_COUNT {OLD}", FREED),
    "relative-count/new": (f"FLUSH FUEL=4 CYCLES=1 FAULT_RELATIVE_COUNT {NEW}", HOLDS),
    # A departure that costs garbage and nothing else.
    "read-not-moved": ("CHAIN FAULT_READ_NOT_MOVED", HOLDS),
    "read-not-moved/old": (f"CHAIN FAULT_READ_NOT_MOVED {OLD}", HOLDS),
    # States that the variants above visit.
    "reach-late-entry": ("CHAIN REACH_LATE_ENTRY", REACHED),
    "reach-second-return": ("CHAIN REACH_SECOND_RETURN", REACHED),
    "reach-scan-within-chunk": ("MOVE_TWO REACH_SCAN_WITHIN_CHUNK", REACHED),
    "reach-slot-again": ("SWEEP FUEL=4 REACH_SLOT_AGAIN", REACHED),
    "reach-owned-page-swept": ("SWEEP FUEL=4 REACH_OWNED_PAGE_SWEPT", REACHED),
}
# What need not be reached: a mutator never ends; in `allocate` nobody finds its own page full, in `sweep` they do.
NEVER = {"": '"-end-"', "allocate": '"owned[me] = 255"'}


def options(name):
    return ["-DPROGRAM_" + word if i == 0 else "-D" + word for i, word in enumerate(VARIANTS[name][0].split())]


def run(command, directory):
    done = subprocess.run(["nice", *command], cwd=directory, timeout=SECONDS, text=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: exit status {done.returncode}\n{done.stdout}")
    return done.stdout


def verify(name, directory):
    """The result, the number of states, and the statements that were not reached."""
    for file in MODEL.glob("*.pml"):
        shutil.copy(file, directory)
    run(["spin", "-a", *options(name), "cycle.pml"], directory)
    # Compiling is half of the work: a counterexample is found before optimizing pays.
    optimize = "-O1" if VARIANTS[name][1] == HOLDS else "-O0"
    run(["gcc", optimize, "-w", "-DSAFETY", "-DNOFAIR", f"-DMEMLIM={MEMORY_MIB}", "-o", "pan", "pan.c"], directory)
    out = run(["./pan", "-m100000", "-w22"], directory)
    states = int(float(re.search(r"([\d.e+]+) states, stored", out)[1]))
    failed = re.search(r"pan:1: (.*) \(at depth", out)
    if failed:
        text = failed[1].replace(" ", "").removeprefix("assertionviolated")
        return next((reason for reason, mark in REASONS if text.startswith(mark) or mark in text[3:]), failed[1]), states, []
    if "errors: 0" not in out or "max search depth" in out or "Search not completed" in out:
        return out, states, []
    return HOLDS, states, re.findall(r'^\t(.*".*")$', out, re.M)


def try_one(name):
    with tempfile.TemporaryDirectory(prefix="tern-model-") as directory:
        try:
            return (name, *verify(name, directory))
        except (RuntimeError, subprocess.TimeoutExpired) as error:
            return name, str(error), 0, []


def tell_trail(name):
    with tempfile.TemporaryDirectory(prefix="tern-model-") as directory:
        result, _, _ = verify(name, directory)
        if result == HOLDS:
            print(f"{name}: holds, there is no trail")
            return
        story = run(["spin", "-t", "-T", *options(name), "cycle.pml"], directory)
        story = story[:story.find("spin: text of failed assertion")].rstrip().split("\n")
        print(*(line for line in story if not line.startswith("spin: warning")), f"{name}: {result}", sep="\n")


def main(arguments):
    if not shutil.which("spin") or not shutil.which("gcc"):
        print("spin or gcc is missing: skipped")
        return 77
    if "TERN_BUILD_DIR" in os.environ and os.environ.get("CI", "") not in ("true", "1"):
        print("minutes of searching: it is run with CI=true, and by hand")
        return 77
    if Path(os.environ.get("TERN_BUILD_DIR", "")).name in ("debug", "clang"):
        print("the model is the same for every build: it is run with the release")
        return 77
    option = arguments.pop(0) if arguments[:1] in (["--trail"], ["--table"]) else ""
    unknown = [name for name in arguments if name not in VARIANTS]
    if unknown or (option == "--trail" and len(arguments) != 1):
        print(*(f"no variant is named {name}: docs/model.md lists them" for name in unknown),
              "usage: model.py [--table] [NAME...] or model.py --trail NAME", sep="\n", file=sys.stderr)
        return 2
    if option == "--trail":
        tell_trail(arguments[0])
        return 0
    table = option == "--table"
    names = arguments or list(VARIANTS)
    document = DOCUMENT.read_text().split("\n")
    failures = 0
    with ThreadPoolExecutor(WORKERS) as pool:
        for name, result, states, unreached in pool.map(try_one, names):
            defines, wanted = VARIANTS[name]
            row = f"| {name} | {defines} | {result} |"
            if table:
                print(f"{row} {states:,} |" if result == HOLDS else f"{row} |", flush=True)
                continue
            wrong = [f"wanted: {wanted}"] if result != wanted else []
            if not re.search("NO_|SLIP|FAULT", defines):
                wrong += [f"not reached: {s}" for s in unreached if not s.endswith((NEVER[""], NEVER.get(name, "\n")))]
            if not any(line.startswith(row) for line in document):
                wrong += [f"docs/model.md has no such row: {row}"]
            failures += bool(wrong)
            print(f"{'FAILED' if wrong else 'ok':6} {name}: {result}, {states} states", *wrong, sep="\n       ", flush=True)
    if not table:
        print(f"{len(names)} variants, {failures} failed")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

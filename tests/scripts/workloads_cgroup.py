#!/usr/bin/env python3
"""In a container's memory cgroup TERN_GOMEMLIMIT=auto keeps a program alive.

ctest: serial timeout=280 lanes=none

A memory cgroup of 64 MiB is made below this process's own (v1 or v2); where that is not allowed the test says so and is
skipped. In it `blocks` allocates 4 GiB in all with 30 MiB live: with the limit from the cgroup it is not killed, run after
run (TERN_LONG=1: 20 runs, and 4 GiB of each kind); with GOGC=off and no limit it is. Pointer-free blocks, blocks that are scanned, and small objects in trees.

Seen to fail: TERN_GOMEMLIMIT=off in the runs that must live ("killed by signal 9").
"""
import os
import signal
import subprocess
import sys

from workloads_runs import BUILD, MIB, OWN, check, finish

LIMIT = 64 * MIB
LONG = bool(os.environ.get("TERN_LONG"))
RUNS = 20 if LONG else 2


def own_cgroups():
    """(version, directory) of this process's memory cgroups."""
    with open("/proc/self/cgroup", encoding="ascii") as file:
        for line in file:
            number, controllers, path = line.rstrip("\n").split(":", 2)
            if "memory" in controllers.split(","):
                yield 1, "/sys/fs/cgroup/memory" + path
                yield 1, "/sys/fs/cgroup/memory"
            elif number == "0":
                for root in ("/sys/fs/cgroup", "/sys/fs/cgroup/unified"):
                    yield 2, root + path
                    yield 2, root


def write(path, text):
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


def make():
    """A memory cgroup of LIMIT bytes without swap, or None and why."""
    why = "no memory controller"
    for version, parent in own_cgroups():
        directory = os.path.join(parent, f"tern-test-{os.getpid()}")
        try:
            os.mkdir(directory)
        except OSError as error:
            why = str(error)
            continue
        try:
            if version == 1:
                write(os.path.join(directory, "memory.limit_in_bytes"), str(LIMIT))
            else:
                write(os.path.join(directory, "memory.max"), str(LIMIT))
            for swap, value in (("memory.swappiness", "0"), ("memory.swap.max", "0")):
                if os.path.exists(os.path.join(directory, swap)):
                    write(os.path.join(directory, swap), value)
            return directory
        except OSError as error:
            why = str(error)
            os.rmdir(directory)
    print(f"skipped: no memory cgroup can be made here ({why})")
    sys.exit(77)


def run(directory, env, *args):
    """The exit status (below 0: the signal) of a program in the cgroup."""
    def enter():
        write(os.path.join(directory, "cgroup.procs"), str(os.getpid()))

    clean = {k: v for k, v in os.environ.items() if k not in OWN}
    done = subprocess.run(list(args), env={**clean, **env}, preexec_fn=enter, stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, text=True, check=False)
    return done.returncode, done.stderr.strip()


BLOCKS = (os.path.join(BUILD, "workloads", "blocks"), "--size", "64KiB", "--count", "65536", "--keep", "480")
SCANNED = (*BLOCKS, "--scan") if LONG else (*BLOCKS, "--scan", "--count", "16384")
TREES = (os.path.join(BUILD, "workloads", "biglive"), "--live", "30MiB", "--garbage", "4GiB" if LONG else "256MiB", "--canary=off")

group = make()
try:
    status, _ = run(group, {"GOGC": "off"}, *BLOCKS)
    check(status == -signal.SIGKILL, f"without a limit and with GOGC=off it is killed: status {status}")
    for gogc in ("100", "off"):
        for name, command in (("blocks", BLOCKS), ("scanned blocks", SCANNED), ("trees", TREES)):
            for n in range(RUNS if command is BLOCKS else max(1, RUNS // 4)):
                status, text = run(group, {"TERN_GOMEMLIMIT": "auto", "GOGC": gogc}, *command)
                check(status == 0, f"{name}, GOGC={gogc}, run {n}: status {status} {text}")
finally:
    os.rmdir(group)
finish()

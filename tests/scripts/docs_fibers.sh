#!/usr/bin/env bash
# The example of docs/fibers.md compiles without a warning, and says what it should: as it is, and with a collection at every
# slow path, all of them checked.
#
# Seen to fail with fiber_each that leaves parked fibers out: "TERN_GODEBUG=gcverify=1: exit status 134: ... a parked fiber's stack
# ... leads to it".
#
# ctest: lanes=none
# (A sanitizer's library wants a program that is instrumented, too.)
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
    echo "FAILED: $*" >&2
    exit 1
}

# It is the ```c block after the comment `<!-- example: fibers -->`.
awk '/^<!-- example: fibers -->/ {marked = 1; next}
     marked && /^```c$/ {inside = 1; next}
     inside && /^```/ {exit}
     inside' "$TERN_SOURCE_DIR/docs/fibers.md" >"$work/fibers.c"
[[ -s $work/fibers.c ]] || fail "docs/fibers.md has no \`\`\`c block after the mark 'example: fibers'"

library=$(find "$TERN_BUILD_DIR" -name libtern.so -print -quit)
[[ -n $library ]] || fail "there is no libtern.so in the build"
gcc -std=c11 -D_GNU_SOURCE -O2 -Wall -Wextra -Werror -I"$TERN_SOURCE_DIR/runtime/include" "$work/fibers.c" -o "$work/fibers" \
    "$library" "-Wl,-rpath,$(dirname "$library")" || fail "the example does not compile"

for debug in '' gcverify=1 gcverify=1,gcstress=1 gcverify=1,gcstress=1,gcstoptheworld=1; do
    said=$(TERN_GODEBUG=$debug "$work/fibers" 2>&1) || fail "TERN_GODEBUG=$debug: exit status $?: $said"
    [[ $said == "4095 values in order" ]] || fail "TERN_GODEBUG=$debug: it said: $said"
done

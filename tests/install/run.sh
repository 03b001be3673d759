#!/usr/bin/env bash
# The package as a stranger meets it: installed into an empty directory, then used from there and from nowhere else.
# ctest: timeout=300 lanes=none
set -euo pipefail

here=$TERN_SOURCE_DIR/tests/install
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
prefix=$work/prefix

fail() {
    echo "install: $*" >&2
    exit 1
}

step() {
    echo "-- $*"
}

step "cmake --install"
cmake --install "$TERN_BUILD_DIR" --prefix "$prefix" >"$work/install.log" || fail "$(cat "$work/install.log")"
library=$(find "$prefix" -name 'libtern.so.0')
[[ -n $library ]] || fail "no libtern.so.0 was installed: $(cat "$work/install.log")"
libdir=$(dirname "$library")
header=$prefix/include/tern/tern.h
for file in "$header" "$libdir/libtern.so" "$libdir/libtern.a" "$libdir/pkgconfig/tern.pc" "$libdir/cmake/Tern/TernConfig.cmake"; do
    [[ -e $file ]] || fail "$file was not installed"
done
if grep -rlF -e "$TERN_SOURCE_DIR" -e "$TERN_BUILD_DIR" "$prefix/include" "$libdir/pkgconfig" "$libdir/cmake"; then
    fail "the files above name the build tree"
fi

step "the header alone is C11 and C++17, without a warning"
strict=(-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror -fsyntax-only -I "$prefix/include")
printf '#include <tern/tern.h>\n#include <tern/tern.h>\n' >"$work/alone.c"
for compiler in gcc clang; do
    "$compiler" -std=c11 "${strict[@]}" "$work/alone.c"
    "$compiler" -std=c2x "${strict[@]}" "$work/alone.c"
done
for compiler in g++ clang++; do
    "$compiler" -x c++ -std=c++17 "${strict[@]}" "$work/alone.c"
    "$compiler" -x c++ -std=c++20 "${strict[@]}" "$work/alone.c"
done

step "both libraries define exactly what the header declares"
python3 - "$header" >"$work/declared" <<'END'
import re, sys
text = re.sub(r"/\*.*?\*/|//[^\n]*", "", open(sys.argv[1]).read(), flags=re.S)
print("\n".join(sorted(set(re.findall(r"^TERN_API\b[^;(]*?\b(\w+)\s*\(", text, flags=re.M)))))
END
[[ -s $work/declared ]] || fail "no declarations found in $header"
nm -D --defined-only --format=posix "$library" | awk '{print $1}' | sort >"$work/shared"
nm --defined-only --extern-only --format=posix "$libdir/libtern.a" | awk 'NF >= 2 && $2 != "N" {print $1}' | sort >"$work/static"
if grep -vE '^tern_' "$work/shared"; then
    fail "libtern.so exports the names above"
fi
diff "$work/declared" "$work/shared" || fail "header (<) and libtern.so (>) differ"
diff "$work/declared" "$work/static" || fail "header (<) and libtern.a (>) differ"

step "SONAME, RELRO, immediate binding, no text relocations, no executable stack"
readelf -dW "$library" >"$work/dynamic"
grep -q 'Library soname: \[libtern.so.0\]' "$work/dynamic" || fail "the SONAME is not libtern.so.0"
grep -q 'BIND_NOW' "$work/dynamic" || fail "not bound at start (-z now)"
! grep -q 'TEXTREL' "$work/dynamic" || fail "text relocations"
readelf -lW "$library" >"$work/segments"
grep -q 'GNU_RELRO' "$work/segments" || fail "no RELRO segment"
! grep -E 'GNU_STACK.* RWE' "$work/segments" || fail "executable stack"
if grep -E 'NEEDED' "$work/dynamic" | grep -vE 'lib(c|m|gcc_s)\.so|ld-linux'; then
    fail "needs a library that a host may not have"
fi

export PKG_CONFIG_PATH=$libdir/pkgconfig
version=$(pkg-config --modversion tern)
read -ra shared_flags < <(pkg-config --cflags --libs tern)
read -ra static_flags < <(pkg-config --static --cflags --libs tern)

# check NAME COMMAND...: runs a consumer; it prints the version on its first line.
check() {
    local name=$1 output
    shift
    output=$("$@") || fail "$name: exit status $?: $output"
    [[ ${output%%$'\n'*} == "$version" ]] || fail "$name: printed '$output', the package says $version"
}

# The same program as C and as C++, with the shared library, with the static one, and with no shared library at all.
for compiler in gcc clang g++ clang++; do
    language=(-std=c11)
    [[ $compiler != *++ ]] || language=(-x c++ -std=c++17)
    step "$compiler, by pkg-config"
    compile=("$compiler" "${language[@]}" -D_GNU_SOURCE -Wall -Wextra -Werror -O2 "$here/consumer.c" -x none)
    "${compile[@]}" -o "$work/shared-$compiler" "${shared_flags[@]}" "-Wl,-rpath,$libdir"
    check "$compiler, shared" "$work/shared-$compiler" shared
    "${compile[@]}" -o "$work/static-$compiler" "${static_flags[@]/#-ltern/-l:libtern.a}"
    check "$compiler, static" "$work/static-$compiler" static
    "${compile[@]}" -static -o "$work/alone-$compiler" "${static_flags[@]}"
    check "$compiler, -static" "$work/alone-$compiler" alone
done

if [[ -e $(gcc -print-file-name=libjemalloc.a) ]]; then
    step "a host on jemalloc of its own, linked statically beside libtern.a"
    gcc -D_GNU_SOURCE -O2 "$here/consumer.c" -o "$work/jemalloc" "${static_flags[@]/#-ltern/-l:libtern.a}" -l:libjemalloc.a -lstdc++ -lm
    check "host on jemalloc" "$work/jemalloc" own
fi

step "CMake's find_package"
{
    cmake -S "$here/find_package" -B "$work/find_package" -G Ninja "-DCMAKE_PREFIX_PATH=$prefix" "-DEXPECTED_VERSION=$version"
    cmake --build "$work/find_package"
} >"$work/cmake.log" 2>&1 || fail "$(cat "$work/cmake.log")"
check "find_package, shared" "$work/find_package/consumer_shared" shared
check "find_package, static" "$work/find_package/consumer_static" static

# The README's example is the ```c block after the comment `<!-- example: embed -->`.
awk '/^<!-- example: embed -->/ {marked = 1; next}
     marked && /^```c$/ {inside = 1; next}
     inside && /^```/ {exit}
     inside' "$TERN_SOURCE_DIR/README.md" >"$work/embed.c" 2>/dev/null || true
if [[ -s $work/embed.c ]]; then
    for compiler in gcc clang g++; do
        step "the README's example, $compiler"
        language=()
        [[ $compiler != g++ ]] || language=(-x c++)
        "$compiler" "${language[@]}" -Wall -Wextra -Werror "$work/embed.c" -x none -o "$work/embed-$compiler" \
            "${shared_flags[@]}" "-Wl,-rpath,$libdir"
        "$work/embed-$compiler" || fail "the README's example ($compiler): exit status $?"
    done
elif grep -q 'example: embed' "$TERN_SOURCE_DIR/README.md" 2>/dev/null; then
    fail "README.md has the mark 'example: embed' but no \`\`\`c block after it"
fi
step "done"

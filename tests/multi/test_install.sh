#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# An installed weft is complete: a program is built with nothing but pkg-config and runs with what was installed.
set -u
. "${WEFT_SRCDIR:?}/tests/harness/tap.sh"
cd "${WEFT_BUILDDIR:?}" || exit 99

prefix=$tap_dir/usr
install_it() { env -u MAKEFLAGS -u MAKELEVEL -u TESTS make -s -j2 install prefix="$prefix"; }
pc() { PKG_CONFIG_PATH=$prefix/lib/pkgconfig pkg-config "$@"; }
# The prefix in weft.pc is that of configure.
moved() { sed -i "s,^prefix=.*,prefix=$prefix," "$prefix/lib/pkgconfig/weft.pc"; }
build() {
    ${WEFT_TEST_CC:-cc} $(pc --cflags weft) -I"$WEFT_SRCDIR/examples" "$WEFT_SRCDIR/examples/all_reduce.c" \
        -o "$tap_dir/program" $(pc --libs weft)
}
run() { LD_LIBRARY_PATH=$prefix/lib timeout 30 "$prefix/bin/weft-run" -n 2 "$tap_dir/program"; }
soname() { readelf -d "$prefix/lib/libweft.so" | grep -q 'SONAME.*\[libweft\.so\.1\]'; }
# A program that was linked with a libweft.so.0: a stand-in, whose symbols have that version or none.
old_program() {
    mkdir -p "$tap_dir/old" && cd "$tap_dir/old" || return 1
    echo 'const char *weft_version(void); const char *weft_version(void) { return "old"; }' >old.c
    echo 'const char *weft_version(void); int main(void) { return !weft_version(); }' >main.c
    echo 'WEFT_0 { global: weft_*; local: *; };' >old.map
    ${WEFT_TEST_CC:-cc} -shared -fPIC old.c -o libweft.so.0 -Wl,-soname,libweft.so.0 ${1-} && ${WEFT_TEST_CC:-cc} main.c libweft.so.0 -o main &&
        LD_LIBRARY_PATH=$tap_dir/old ./main || return 1
    rm libweft.so.0
}
refused() { ! LD_LIBRARY_PATH=$1 "$tap_dir/old/main" >"$tap_dir/out" 2>&1 && cat "$tap_dir/out" && grep -q "$2" "$tap_dir/out"; }
old_refused() { (old_program) && refused "$prefix/lib" 'libweft\.so\.0: cannot open shared object file'; }
# Even if somebody gives the library the old name.
renamed_refused() {
    (old_program -Wl,--version-script=old.map) && ln -s "$prefix/lib/libweft.so.1" "$tap_dir/old/libweft.so.0" &&
        refused "$tap_dir/old" "version .WEFT_0' not found"
}
# weft_test is a function, its page belongs there.
no_leaks() { ! find "$prefix" \( -name '*test*' ! -name 'weft_test*.3' \) -o -name 'self.so' -o -name 'wrong_*' | grep .; }
cxx() { echo '#include <weft/weft.h>
int main() { return weft_version() == 0; }' >"$tap_dir/a.cc" && ${CXX:-c++} $(pc --cflags weft) "$tap_dir/a.cc" -o "$tap_dir/a" $(pc --libs weft); }

tap "make install" install_it || tap_end
tap "headers are installed" test -f "$prefix/include/weft/weft.h" -a -f "$prefix/include/weft/weft_types.h" -a -f "$prefix/include/weft/weft_plugin.h" -a -f "$prefix/include/weft/weft_compress.h" -a -f "$prefix/include/weft/weft_client.h"
tap "the library's soname is libweft.so.1" soname
tap "a program of another soname is not loaded" old_refused
tap "not even with the library under that name" renamed_refused
pages() {
    local page name status=0
    for page in "$WEFT_SRCDIR"/doc/man/*.[1-9]; do
        name=$(basename "$page")
        [ -f "$prefix/share/man/man${name##*.}/$name" ] || { echo "$name is not installed: doc/local.mk lacks it"; status=1; }
    done
    return $status
}
tap "every manual page is installed" pages
tap "weft.pc" moved
version() { [ "$(pc --modversion weft)" = "$(sed -n 's/^PACKAGE_VERSION = //p' Makefile)" ]; }
tap "weft.pc tells the version" version
tap "a program is built with pkg-config" build
tap "it runs with the installed launcher" run
tap "no tests are installed" no_leaks
if command -v "${CXX:-c++}" >/dev/null; then
    tap "a C++ program is built" cxx
fi
tap_end

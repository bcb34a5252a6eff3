#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# An installed weft is complete: a program is built with nothing but pkg-config and runs with what was installed.
set -u
. "${WEFT_SRCDIR:?}/tests/harness/tap.sh"
cd "${WEFT_BUILDDIR:?}" || exit 99

# DESTDIR, since libtool refuses another prefix than configure's for a library that is linked with another of this package.
prefix=$tap_dir$(sed -n 's/^prefix = //p' Makefile)
install_it() { env -u MAKEFLAGS -u MAKELEVEL -u TESTS make -s -j2 install DESTDIR="$tap_dir"; }
pc() { PKG_CONFIG_PATH=$prefix/lib/pkgconfig pkg-config "$@"; }
# The prefix in weft.pc is that of configure.
moved() { sed -i "s,^prefix=.*,prefix=$prefix," "$prefix/lib/pkgconfig/weft.pc" "$prefix/lib/pkgconfig/weft_zero.pc"; }
# EXAMPLE PACKAGE [LIBRARY]
build() {
    ${WEFT_TEST_CC:-cc} $(pc --cflags "$2") -I"$WEFT_SRCDIR/examples" "$WEFT_SRCDIR/examples/$1.c" -o "$tap_dir/$1" $(pc --libs "$2") ${3-}
}
run() { LD_LIBRARY_PATH=$prefix/lib timeout 60 "$prefix/bin/weft-run" -n 2 "$tap_dir/$1"; }
# FILE SONAME
soname() { readelf -d "$prefix/lib/$1" | grep -qF "SONAME" && readelf -d "$prefix/lib/$1" | grep -qF "[$2]"; }
# The hidden copy of src/base is no business of a program's, and libweft is not within libweft_zero.
zero_needs() {
    readelf -d "$prefix/lib/libweft_zero.so" | grep -q 'NEEDED.*\[libweft\.so\.1\]' &&
        ! nm -D --defined-only "$prefix/lib/libweft_zero.so" | grep -vE ' (A WEFT_ZERO_0|T weft_zero_[a-z0-9_]*)(@@WEFT_ZERO_0)?$'
}
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
# Each library has its own src/base: what fails in libweft_zero has to reach libweft's weft_thread_error.
texts() {
    cat >"$tap_dir/texts.c" <<'END'
#include <stdio.h>
#include <string.h>
#include <weft/weft_zero_config.h>
static int said(weft_status status, const char *words)
{
    if (status < 0 && strstr(weft_thread_error(), words))
        return 1;
    printf("%s: \"%s\" has no \"%s\"\n", weft_status_name(status), weft_thread_error(), words);
    return 0;
}
int main(void)
{
    weft_zero_ds_config *config;
    weft_zero *zero;
    return !(said(weft_zero_create(NULL, NULL, &zero), "create") && said(weft_zero_seal(NULL), "seal") &&
             said(weft_zero_export(NULL, NULL, "out", 0), "folder is NULL") && said(weft_zero_ds_keys(NULL, NULL), "visit is NULL") &&
             said(weft_zero_loss_scale(NULL, NULL), "loss_scale: the engine is NULL") &&
             said(weft_zero_ds_config_read("{\"zero_optimisation\": {}}", "a.json", 1, NULL, &config), "zero_optimization"));
}
END
    ${WEFT_TEST_CC:-cc} $(pc --cflags weft_zero) "$tap_dir/texts.c" -o "$tap_dir/texts" $(pc --libs weft_zero) &&
        LD_LIBRARY_PATH=$prefix/lib timeout 30 "$tap_dir/texts"
}
# weft_test is a function, its page belongs there.
no_leaks() { ! find "$prefix" \( -name '*test*' ! -name 'weft_test*.3' \) -o -name 'self.so' -o -name 'wrong_*' | grep .; }
cxx() { echo '#include <weft/weft.h>
#include <weft/weft_zero_config.h>
int main() { weft_zero_config config = WEFT_ZERO_CONFIG_INIT; return weft_version() == 0 || weft_zero_create(0, &config, 0) == 0; }' >"$tap_dir/a.cc" &&
    ${CXX:-c++} -Wall -Wextra -Werror $(pc --cflags weft_zero) "$tap_dir/a.cc" -o "$tap_dir/a" $(pc --libs weft_zero); }

tap "make install" install_it || tap_end
tap "headers are installed" test -f "$prefix/include/weft/weft.h" -a -f "$prefix/include/weft/weft_types.h" -a -f "$prefix/include/weft/weft_plugin.h" -a -f "$prefix/include/weft/weft_compress.h" -a -f "$prefix/include/weft/weft_client.h" \
    -a -f "$prefix/include/weft/weft_zero.h" -a -f "$prefix/include/weft/weft_zero_config.h"
tap "the library's soname is libweft.so.1" soname libweft.so libweft.so.1
tap "that of ZeRO is libweft_zero.so.0" soname libweft_zero.so libweft_zero.so.0
tap "it exports weft_zero_* alone and needs libweft.so.1" zero_needs
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
tap "weft.pc and weft_zero.pc" moved
version() { [ "$(pc --modversion "$1")" = "$(sed -n 's/^PACKAGE_VERSION = //p' Makefile)" ]; }
tap "weft.pc tells the version" version weft
tap "weft_zero.pc tells the version" version weft_zero
tap "a program is built with pkg-config" build all_reduce weft
tap "it runs with the installed launcher" run all_reduce
tap "a program of ZeRO is built with pkg-config" build zero1 weft_zero -lm
tap "it runs with the installed launcher, too" run zero1
tap "failures of ZeRO have their texts" texts
tap "no tests are installed" no_leaks
if command -v "${CXX:-c++}" >/dev/null; then
    tap "a C++ program is built" cxx
fi
tap_end

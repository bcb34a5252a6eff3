#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The library, the tools and the modules as they were linked: with the protection that configure found (make's WEFT_HARDENING),
# no stack that can be executed, no code that is patched when it is loaded.
set -u
cd "${WEFT_BUILDDIR:?}" || exit 99
. "${WEFT_SRCDIR:?}/tests/harness/tap.sh"
command -v readelf >/dev/null || { echo "no readelf (Debian package binutils)"; exit 77; }
wanted=" ${WEFT_TEST_HARDENING-} "
libraries=$(ls .libs/libweft.so .libs/libweft_zero.so .libs/bench_mpi_*.so 2>/dev/null)
programs=$(for p in weft-run weft-info weft-bench weft-topo weft-plan weft-sim weft-tune weft-codec; do ls ".libs/$p" 2>/dev/null || echo "$p"; done)

each() { # COMMAND FILE...: say which fail
    local check=$1 f status=0
    shift
    for f; do $check "$f" || { echo "$f: not so"; status=1; }; done
    return $status
}
relro() { readelf -lW "$1" | grep -q GNU_RELRO; }
now() { readelf -dW "$1" | grep -qE '\(BIND_NOW\)|FLAGS.*(BIND_)?NOW'; }
stack() { readelf -lW "$1" | grep -q 'GNU_STACK.* RW '; }
no_text_relocations() { ! readelf -dW "$1" | grep -q TEXTREL; }
canaries() { readelf --dyn-syms -W "$1" | grep -qE '__stack_chk_(fail|guard)'; }
fortified() { readelf --dyn-syms -W "$1" | grep -v __stack_chk | grep -qE '__[a-z]+_chk(@|$)'; }
# WORD TITLE COMMAND...: if configure found it.
if_found() {
    local word=$1 title=$2
    shift 2
    case $wanted in
    *" $word "*) tap "$title" "$@" ;;
    *) echo "ok $((++tap_number)) - $title # SKIP configure found no $word here, or a sanitizer has its place" ;;
    esac
}
# gcc and clang have them for Linux on x86-64 and aarch64: not to find them there is configure's mistake.
all_found() {
    local word
    for word in relro now $([ "${WEFT_SANITIZER:-no}" = no ] && echo stack-protector fortify); do
        case $wanted in *" $word "*) ;; *) echo "not found by configure: $word"; return 1 ;; esac
    done
}
optimised() { grep -q '^CFLAGS = .*-O[1-3s]' Makefile; }
case $(uname -m) in
x86_64 | aarch64)
    if ! grep -q 'disable-hardening' config.log && optimised; then
        tap "configure found all" all_found
    else
        echo "ok $((++tap_number)) - configure found all # SKIP --disable-hardening, or CFLAGS without optimisation"
    fi
    ;;
esac
if_found relro "addresses are read-only once loaded" each relro $libraries $programs
if_found now "they are all resolved when loading" each now $libraries $programs
if_found stack-protector "libweft.so and libweft_zero.so have canaries" each canaries .libs/libweft.so .libs/libweft_zero.so
if_found fortify "they check copies and formats" each fortified .libs/libweft.so .libs/libweft_zero.so
tap "no stack can be executed" each stack $libraries $programs
tap "no code is patched when loading" each no_text_relocations $libraries $programs
tap_end

#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 3000
# The tree is cross-compiled for aarch64 and its unit tests run under qemu, so that the NEON kernels are executed, not
# only compiled. Needs gcc-aarch64-linux-gnu and qemu-user-static; libraries come from Debian's arm64 packages.
set -u
. "${WEFT_SRCDIR:?}/tests/harness/tap.sh"
cd "${WEFT_BUILDDIR:?}" || exit 99

for tool in aarch64-linux-gnu-gcc qemu-aarch64-static; do
    command -v $tool >/dev/null || {
        echo "no $tool here (Debian packages gcc-aarch64-linux-gnu and qemu-user-static)"
        exit 77
    }
done
root=$PWD/sysroot-arm64
bash "$WEFT_SRCDIR/tests/harness/sysroot.sh" arm64 "$root" libc6-dev libhwloc-dev libssl-dev libjansson-dev libxxhash-dev libexpat1-dev libzstd-dev \
    libcunit1-dev || exit $?

export PKG_CONFIG_SYSROOT_DIR=$root PKG_CONFIG_LIBDIR=$root/usr/lib/aarch64-linux-gnu/pkgconfig
unset MAKEFLAGS MAKELEVEL MFLAGS TESTS TEST_SUITE_LOG VERBOSE CC CFLAGS
mkdir -p build-arm64
cd build-arm64 || exit 99

configure() {
    [ config.status -nt "$WEFT_SRCDIR/configure" ] && return 0
    "$WEFT_SRCDIR/configure" --host=aarch64-linux-gnu --enable-werror CC="aarch64-linux-gnu-gcc --sysroot=$root"
}
compile() { make -s -j"${JOBS:-2}" && make -s -j"${JOBS:-2}" check-programs; }
is_arm() { readelf -h .libs/libweft.so | grep -q AArch64; }

tap "configure" configure || tap_end
tap "compile" compile || tap_end
tap "the library is for aarch64" is_arm
for test in $(make -s print-unit-tests); do
    tap "$(basename "$test")" env WEFT_BUILDDIR="$PWD" WEFT_TEST_SLOW=10 WEFT_EMULATED=1 \
        timeout 900 qemu-aarch64-static -L "$root" "./$test"
done
tap_end

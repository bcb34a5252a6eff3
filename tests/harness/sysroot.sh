#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Unpack Debian packages of another architecture, with what they depend on, into a directory: a sysroot to cross-compile and
# emulate with. Needs no root and changes nothing of the system: apt works on lists of its own.
#   sysroot.sh ARCH DIRECTORY PACKAGE...
# Exits 77 with a sentence when the packages cannot be had.
set -u
arch=$1 dir=$2
shift 2
stamp=$dir/.packages
wanted="$arch $*"
[ "$(cat "$stamp" 2>/dev/null)" = "$wanted" ] && exit 0
command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || {
    echo "no sysroot for $arch: apt-get and dpkg-deb are needed"
    exit 77
}
rm -rf "$dir"
state=$dir/.apt
mkdir -p "$state/lists/partial" "$state/archives/partial" "$dir/usr/bin" "$dir/usr/lib" "$dir/usr/sbin"
: >"$state/status"
options=(-o APT::Architecture="$arch" -o APT::Architectures="$arch" -o Dir::State="$state" -o Dir::State::lists="$state/lists"
    -o Dir::State::status="$state/status" -o Dir::Cache="$state" -o Dir::Cache::archives="$state/archives"
    -o Debug::NoLocking=1 -o APT::Sandbox::User=root -o APT::Install-Recommends=0)
for step in update "install -y --download-only $*"; do
    if ! apt-get "${options[@]}" $step >"$state/log" 2>&1; then
        echo "no sysroot for $arch: apt-get $step: $(grep '^E:' "$state/log" | head -n 1)"
        exit 77
    fi
done
# As in Debian since /usr was merged.
for name in bin lib sbin; do ln -s "usr/$name" "$dir/$name"; done
for deb in "$state"/archives/*.deb; do
    dpkg-deb --fsys-tarfile "$deb" | tar -x --keep-directory-symlink -C "$dir" --exclude='./usr/share/*' --exclude='./dev/*' || exit 99
done
rm -rf "$state"
# Absolute links would leave the sysroot.
find "$dir" -type l -lname '/*' | while read -r link; do
    target=$dir$(readlink "$link")
    [ -e "$target" ] && ln -sfn "$(realpath --relative-to "$(dirname "$link")" "$target")" "$link"
done
echo "$wanted" >"$stamp"

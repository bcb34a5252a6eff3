#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Run a command in a small virtual machine that has RDMA devices: soft-RoCE (rxe), which is a module of Linux that few machines
# have loaded, and that needs root.
#
#     tests/harness/vm.sh [--deadline SECONDS] [--memory MIB] single|pair COMMAND [ARGUMENT...]
#
#   single   rxe0 on an interface of its own, 10.1.0.1
#   pair     rx0 at 10.2.0.1 and rx1 at 10.2.0.2, at the two ends of a pair of interfaces, and rx2 and rx3 at those of another,
#            10.3.0.1 and 10.3.0.2. rxe knows no network namespaces, so all are in one; routing policy makes what goes from one end to
#            the other leave by the wire
#
# The command sees the files of this machine, read-only, with the same paths; /tmp, /run and /dev/shm are its own and empty. It gets
# the WEFT_* variables, PATH, and the working directory. What it prints comes out here; its exit status is this script's. 77, with one
# line that says why: there can be no such machine here. It is emulated (TCG), never with KVM, which hangs where KVM is nested.
#
# Kernel and modules come from Debian's package; they are kept in a folder for the next time: WEFT_VM_CACHE, else
# $XDG_CACHE_HOME/weft-vm, else ~/.cache/weft-vm. A package that lies there is taken instead of being fetched.
set -u

deadline=300 memory=2048
while [ $# -gt 0 ]; do
    case $1 in
    --deadline) deadline=$2; shift 2 ;;
    --memory) memory=$2; shift 2 ;;
    *) break ;;
    esac
done
[ $# -ge 2 ] && { [ "$1" = single ] || [ "$1" = pair ]; } || {
    sed -n 's/^#     \(tests.*\)/usage: \1/p' "$0" >&2
    exit 2
}
net=$1
shift

skip() {
    echo "no virtual machine with soft-RoCE: $*"
    exit 77
}

[ "$(uname -m)" = x86_64 ] || skip "this is $(uname -m), its kernel is built for x86_64"
for tool in qemu-system-x86_64:qemu-system-x86 busybox:busybox-static cpio:cpio rdma:iproute2 ip:iproute2 dpkg-deb:dpkg; do
    command -v "${tool%%:*}" >/dev/null || [ -x "/sbin/${tool%%:*}" ] || [ -x "/usr/sbin/${tool%%:*}" ] ||
        skip "no ${tool%%:*} (Debian package ${tool##*:})"
done
busybox=$(command -v busybox)
! ldd "$busybox" >/dev/null 2>&1 || skip "busybox is not linked statically (Debian package busybox-static)"

cache=${WEFT_VM_CACHE:-${XDG_CACHE_HOME:-${HOME:-/root}/.cache}/weft-vm}
mkdir -p "$cache" 2>/dev/null && [ -w "$cache" ] || skip "the folder $cache cannot be written to (WEFT_VM_CACHE)"

# In the order in which they can be loaded.
modules='virtio_ring virtio virtio_pci_legacy_dev virtio_pci_modern_dev virtio_pci netfs fscache 9pnet 9pnet_virtio 9p configfs
    udp_tunnel ip6_udp_tunnel crc32_generic crc32c_generic ib_core ib_cm iw_cm rdma_cm ib_uverbs rdma_ucm rdma_rxe veth dummy'

# Prints the package's file; fetches it if there is none.
package() {
    local name file
    file=$(find "$cache" -maxdepth 1 -name 'linux-image-*-amd64_*.deb' | sort -V | tail -n 1)
    if [ -z "$file" ]; then
        name=$(LC_ALL=C apt-cache depends linux-image-amd64 2>/dev/null | sed -n 's/^ *Depends: *//p' | head -n 1)
        [ -n "$name" ] || return 1
        (cd "$cache" && timeout 120 apt-get download "$name") >"$cache/download.log" 2>&1
        file=$(find "$cache" -maxdepth 1 -name "${name}_*.deb" | head -n 1)
    fi
    [ -n "$file" ] && echo "$file"
}

write_init() {
    cat >"$1" <<'INIT'
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
for m in $(cat /modules/order); do insmod /modules/$m.ko 2>/dev/null; done
mount -t 9p -o trans=virtio,version=9p2000.L,ro,msize=262144,cache=loose hostroot /mnt || { echo "cannot mount the host" >/dev/ttyS1; poweroff -f; }
i=0
while read -r folder; do
    mkdir -p /keep$i && mount --bind "/mnt$folder" /keep$i
    i=$((i + 1))
done </job/folders
for t in tmp run dev/shm; do mount -t tmpfs -o mode=1777 tmpfs /mnt/$t 2>/dev/null; done
mount --rbind /dev /mnt/dev
mount -t tmpfs -o mode=1777 tmpfs /mnt/dev/shm
mount --rbind /proc /mnt/proc
mount --rbind /sys /mnt/sys
i=0
while read -r folder; do
    case $folder in /tmp/* | /run/*) mkdir -p "/mnt$folder" && mount --bind /keep$i "/mnt$folder" ;; esac
    i=$((i + 1))
done </job/folders
cp -r /job /mnt/run/weft-vm
chroot /mnt /bin/bash /run/weft-vm/run >/dev/ttyS1 2>&1
echo "weft-vm-status: $?" >/dev/ttyS1
sync
poweroff -f
INIT
    chmod 755 "$1"
}

# build PACKAGE: kernel and initramfs in $image.
build() {
    local work m at
    work=$(mktemp -d "$cache/build-XXXXXX") || return 1
    dpkg-deb -x "$1" "$work/package" || return 1
    mkdir -p "$work/root/bin" "$work/root/modules" "$work/root/proc" "$work/root/sys" "$work/root/dev" "$work/root/mnt"
    cp "$busybox" "$work/root/bin/busybox"
    write_init "$work/root/init"
    for m in $modules; do
        at=$(find "$work/package/lib/modules" "$work/package/usr/lib/modules" -name "$m.ko*" 2>/dev/null | head -n 1)
        [ -n "$at" ] || continue # built in, or of another kernel
        case $at in
        *.xz) xz -dc "$at" >"$work/root/modules/$m.ko" || return 1 ;;
        *) cp "$at" "$work/root/modules/$m.ko" ;;
        esac
        echo "$m" >>"$work/root/modules/order"
    done
    grep -qx rdma_rxe "$work/root/modules/order" || return 1
    mkdir "$work/image"
    cp "$work"/package/boot/vmlinuz-* "$work/image/kernel" || return 1
    (cd "$work/root" && find . | cpio -o -H newc --quiet | gzip -1) >"$work/image/initramfs" || return 1
    mv -T "$work/image" "$image" 2>/dev/null || [ -e "$image/initramfs" ] # somebody else was faster
    rm -rf "$work"
}

file=$(package) || skip "the kernel's package could not be fetched (apt-get download; $cache/download.log)"
image=$cache/$(basename "$file" .deb)-$(cksum <"$0" | cut -d ' ' -f 1)
[ -e "$image/initramfs" ] || build "$file" || skip "$file is no kernel with soft-RoCE, or $cache is full"

# ---- What to run ----

job=$(mktemp -d "${TMPDIR:-/tmp}/weft-vm-XXXXXX") || exit 99
trap 'rm -rf "$job"' EXIT
mkdir "$job/job"
printf '%s\n' "${WEFT_SRCDIR:-$PWD}" "${WEFT_BUILDDIR:-$PWD}" >"$job/job/folders"
{
    for v in $(compgen -e WEFT_) PATH ASAN_OPTIONS UBSAN_OPTIONS LSAN_OPTIONS; do
        [ -n "${!v+set}" ] && printf 'export %s=%q\n' "$v" "${!v}"
    done
    cat <<'RUN'
export PATH=$PATH:/usr/sbin:/sbin HOME=/tmp
ulimit -l unlimited
ip link set lo up
RUN
    if [ "$net" = single ]; then
        cat <<'RUN'
ip link add d0 type dummy && ip addr add 10.1.0.1/24 dev d0 && ip link set d0 up
rdma link add rxe0 type rxe netdev d0 || exit 99
RUN
    else
        cat <<'RUN'
for i in all default; do
    echo 0 >/proc/sys/net/ipv4/conf/$i/rp_filter
    echo 1 >/proc/sys/net/ipv4/conf/$i/accept_local
done
# wire NUMBER: interfaces w(2N) at 10.(2+N).0.1 and w(2N+1) at 10.(2+N).0.2
wire() {
    local net=10.$((2 + $1)).0 near=w$((2 * $1)) far=w$((2 * $1 + 1))
    ip link add $near type veth peer name $far
    ip link set $near mtu 4200 up
    ip link set $far mtu 4200 up
    ip addr add $net.1/32 dev $near
    ip addr add $net.2/32 dev $far
    ip route add $net.2 dev $near table $((101 + 2 * $1)) src $net.1
    ip route add $net.1 dev $far table $((102 + 2 * $1)) src $net.2
    ip rule add pref 10 iif lo from $net.1 to $net.2 lookup $((101 + 2 * $1))
    ip rule add pref 10 iif lo from $net.2 to $net.1 lookup $((102 + 2 * $1))
    ip neigh replace $net.2 lladdr "$(cat /sys/class/net/$far/address)" dev $near
    ip neigh replace $net.1 lladdr "$(cat /sys/class/net/$near/address)" dev $far
    rdma link add rx$((2 * $1)) type rxe netdev $near && rdma link add rx$((2 * $1 + 1)) type rxe netdev $far
}
ip rule add pref 100 lookup local
ip rule del pref 0
wire 0 && wire 1 || exit 99
RUN
    fi
    printf 'cd %q\n' "$PWD"
    printf '%q ' "$@"
    echo
} >"$job/job/run"
(cd "$job" && find job | cpio -o -H newc --quiet | gzip -1) >"$job/job.cpio"
cat "$image/initramfs" "$job/job.cpio" >"$job/initramfs"

timeout --kill-after=5 "$deadline" qemu-system-x86_64 -accel tcg,thread=multi -cpu max -m "$memory" -smp 2 -display none -no-reboot \
    -nodefaults -kernel "$image/kernel" -initrd "$job/initramfs" -append "console=ttyS0 quiet panic=-1" \
    -virtfs local,path=/,mount_tag=hostroot,security_model=none,readonly=on,multidevs=remap \
    -serial "file:$job/console" -serial "file:$job/output" >"$job/qemu" 2>&1 </dev/null
ended=$?
status=$(tr -d '\r' <"$job/output" 2>/dev/null | sed -n 's/^weft-vm-status: //p' | tail -n 1)
tr -d '\r' <"$job/output" 2>/dev/null | grep -v '^weft-vm-status: '
[ -n "$status" ] && exit "$status"
if [ $ended -eq 124 ] || [ $ended -eq 137 ]; then
    echo "vm.sh: ended after its deadline of $deadline s"
else
    echo "vm.sh: the machine ended without a status ($ended)"
fi
tail -n 20 "$job/qemu" "$job/console" 2>/dev/null
exit 99

# SPDX-License-Identifier: BSD-3-Clause
# Hosts as network namespaces, for tests. Source this file:
#
#     . "$WEFT_SRCDIR/tests/harness/hosts.sh"
#     hosts_create 4 [RATE]        # four hosts joined by a bridge; RATE as tbf takes it, e.g. 1gbit
#     hosts_on 0 ip addr           # run a command on host 0 (exec in a subshell: background it with &)
#     hosts_address 2              # its address: 10.89.0.3; IPv6: hosts_address6 2
#     hosts_second [RATE]          # eth1 of each on a second network
#     hosts_cut 2; hosts_join 2    # pull its cable, and put it back
#
# A namespace of its own holds the bridge, so nothing of the machine's network is touched; names contain the
# process id; everything is removed when the shell exits. Where namespaces are refused the test is skipped
# (exit 77) with a sentence that says why.

hosts_prefix=wt$$
hosts_count=0

hosts_skip() {
    echo "no network namespaces: $*"
    exit 77
}

hosts_name() { echo "$hosts_prefix-h$1"; }
hosts_address() { echo "10.89.$(($1 / 250)).$(($1 % 250 + 1))"; }
hosts_address6() { printf 'fd89::%x\n' $(($1 + 1)); }

hosts_on() {
    local host=$1
    shift
    ip netns exec "$(hosts_name "$host")" "$@"
}

# End what still runs on the hosts, then remove them: a namespace lives as long as a process in it.
hosts_remove() {
    local i name pids
    for ((i = 0; i < hosts_count; i++)); do
        name=$(hosts_name "$i")
        pids=$(ip netns pids "$name" 2>/dev/null)
        [ -n "$pids" ] && kill -KILL $pids 2>/dev/null
        ip netns del "$name" 2>/dev/null
    done
    ip netns del "$hosts_prefix-net" 2>/dev/null
    hosts_count=0
}

hosts_add() {
    local i=$1 rate=$2 name port=port$1
    name=$(hosts_name "$i")
    ip netns add "$name" || return 1
    hosts_count=$((i + 1))
    ip -n "$hosts_prefix-net" link add "$port" type veth peer name eth0 netns "$name" || return 1
    ip -n "$hosts_prefix-net" link set "$port" master bridge0 up || return 1
    ip -n "$name" addr add "$(hosts_address "$i")/16" dev eth0 || return 1
    # nodad: an address that is still being probed cannot be bound.
    ip -n "$name" addr add "$(hosts_address6 "$i")/64" dev eth0 nodad 2>/dev/null
    ip -n "$name" link set lo up || return 1
    ip -n "$name" link set eth0 up || return 1
    [ -n "$rate" ] || return 0
    ip netns exec "$name" tc qdisc add dev eth0 root tbf rate "$rate" burst 128kb latency 50ms || return 1
    ip netns exec "$hosts_prefix-net" tc qdisc add dev "$port" root tbf rate "$rate" burst 128kb latency 50ms
}

hosts_create() {
    local number=$1 rate=${2:-} i why
    command -v ip >/dev/null || hosts_skip "ip(8) is not installed (Debian package iproute2)"
    [ "$(id -u)" -eq 0 ] || hosts_skip "only root may make them here"
    why=$(ip netns add "$hosts_prefix-net" 2>&1) || hosts_skip "${why:-ip netns add failed}"
    trap hosts_remove EXIT
    trap 'exit 143' TERM INT HUP
    why=$(ip -n "$hosts_prefix-net" link add bridge0 type bridge 2>&1) || hosts_skip "no bridge: $why"
    ip -n "$hosts_prefix-net" link set bridge0 up
    for ((i = 0; i < number; i++)); do
        why=$(hosts_add "$i" "$rate" 2>&1) || hosts_skip "host $i: $why"
        hosts_count=$((i + 1))
    done
}

# A second network: eth1 of each host, on a bridge of its own, at 10.90.0.1 and so on.
hosts_second() {
    local rate=${1:-} i name why
    hosts_second_link() {
        ip -n "$hosts_prefix-net" link add "second$i" type veth peer name eth1 netns "$name" || return 1
        ip -n "$hosts_prefix-net" link set "second$i" master bridge1 up || return 1
        ip -n "$name" addr add "10.90.0.$((i + 1))/16" dev eth1 || return 1
        ip -n "$name" link set eth1 up || return 1
        [ -n "$rate" ] || return 0
        ip netns exec "$name" tc qdisc add dev eth1 root tbf rate "$rate" burst 128kb latency 50ms || return 1
        ip netns exec "$hosts_prefix-net" tc qdisc add dev "second$i" root tbf rate "$rate" burst 128kb latency 50ms
    }
    why=$(ip -n "$hosts_prefix-net" link add bridge1 type bridge 2>&1) || hosts_skip "no second bridge: $why"
    ip -n "$hosts_prefix-net" link set bridge1 up
    for ((i = 0; i < hosts_count; i++)); do
        name=$(hosts_name "$i")
        why=$(hosts_second_link 2>&1) || hosts_skip "second link of host $i: $why"
    done
}

hosts_cut() { ip -n "$hosts_prefix-net" link set "port$1" down; }
hosts_join() { ip -n "$hosts_prefix-net" link set "port$1" up; }

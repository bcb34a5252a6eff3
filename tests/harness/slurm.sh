# SPDX-License-Identifier: BSD-3-Clause
# Slurm on the hosts of hosts.sh, or several of its nodes on this host, for tests. Source this file after hosts.sh:
#
#     slurm_create 4               # hosts_create 4, then munge, slurmctld and a slurmd on each: nodes n1 to n4
#     slurm_create_here 4          # the same on this host, without hosts: node names do not resolve
#     slurm_run srun -n 4 ...      # a command as on the host of slurmctld
#
# Nothing runs as a service, and nothing outside of a folder of this test is written. Everything is ended when the shell exits.
# Where Slurm is not installed the test is skipped (exit 77) with a sentence that says so.

slurm_folder=
slurm_pids=()
slurm_inside=()

slurm_skip() {
    echo "no Slurm: $*"
    exit 77
}

# Whatever has this Slurm's configuration in its environment: daemons, steps, and what these have started.
slurm_processes() {
    local pid
    for pid in /proc/[0-9]*; do
        pid=${pid#/proc/}
        [ "$pid" -ne $$ ] && tr '\0' '\n' <"/proc/$pid/environ" 2>/dev/null | grep -qx "SLURM_CONF=$slurm_folder/slurm.conf" && echo "$pid"
    done
}

slurm_remove() {
    [ -n "$slurm_folder" ] || return 0
    local pid
    {
        for pid in "${slurm_pids[@]}"; do kill "$pid"; done
        for pid in "${slurm_pids[@]}"; do kill -KILL $(slurm_processes) "$pid"; wait "$pid"; done
    } 2>/dev/null
    rm -rf "$slurm_folder"
    slurm_folder=
}

slurm_run() { SLURM_CONF=$slurm_folder/slurm.conf "${slurm_inside[@]}" "$@"; }

# A daemon, in the place of the shell that would start it, so that its number is known: slurm_daemon NAME COMMAND...
slurm_daemon() {
    local log=$slurm_folder/$1.log
    shift
    (export SLURM_CONF=$slurm_folder/slurm.conf; exec "$@" >"$log" 2>&1) &
    slurm_pids+=($!)
}

slurm_munge() {
    mkdir -p "$slurm_folder/munge"
    head -c 1024 /dev/urandom >"$slurm_folder/munge/key"
    chmod 700 "$slurm_folder/munge" && chmod 600 "$slurm_folder/munge/key"
    munged --foreground --force --socket="$slurm_folder/munge.socket" --key-file="$slurm_folder/munge/key" --num-threads=1 \
        --pid-file="$slurm_folder/munge/pid" --seed-file="$slurm_folder/munge/seed" --log-file="$slurm_folder/munge/log" >"$slurm_folder/munge.log" 2>&1 &
    slurm_pids+=($!)
}

# slurm_conf CONTROLLER NODELINES: what all daemons read.
slurm_conf() {
    cat >"$slurm_folder/slurm.conf" <<END
ClusterName=weft
SlurmctldHost=$1
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$slurm_folder/munge.socket
CryptoType=crypto/munge
CredType=cred/munge
MpiDefault=none
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
ReturnToService=2
SlurmdParameters=config_overrides
SlurmctldPort=${slurm_port:-6817}
SlurmctldPidFile=$slurm_folder/slurmctld.pid
SlurmctldLogFile=$slurm_folder/slurmctld.log
StateSaveLocation=$slurm_folder/state
SlurmdPidFile=$slurm_folder/slurmd-%n.pid
SlurmdSpoolDir=$slurm_folder/spool-%n
SlurmdLogFile=$slurm_folder/slurmd-%n.log
TmpFS=$slurm_folder/tmp-%n
SchedulerType=sched/builtin
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
SlurmdTimeout=10
KillWait=2
MessageTimeout=20
$2
PartitionName=d Nodes=n[1-$slurm_nodes] Default=YES State=UP OverSubscribe=FORCE:8 MaxTime=UNLIMITED
END
}

slurm_installed() {
    local tool
    for tool in munged slurmctld slurmd srun; do
        command -v $tool >/dev/null || PATH=$PATH:/usr/sbin command -v $tool >/dev/null ||
            slurm_skip "$tool is not installed (Debian packages slurm-wlm and munge)"
    done
    export PATH=$PATH:/usr/sbin
}

# Until all nodes are there.
slurm_wait() {
    local i
    for ((i = 0; i < 150; i++)); do
        [ "$(slurm_run sinfo -h -N -t idle 2>/dev/null | wc -l)" -ge "$slurm_nodes" ] && return 0
        sleep 0.2
    done
    slurm_run sinfo 2>&1 | sed 's/^/# /'
    tail -n 3 "$slurm_folder"/*.log | sed 's/^/# /'
    return 1
}

slurm_begin() {
    slurm_installed
    slurm_nodes=$1
    slurm_folder=$(mktemp -d /tmp/weft-slurm-XXXXXX)
    mkdir -p "$slurm_folder/state"
    slurm_munge
}

slurm_create() {
    local i lines='' name
    slurm_begin "$1"
    hosts_create "$1"
    trap 'slurm_remove; hosts_remove' EXIT
    ip -n "$hosts_prefix-net" addr add 10.89.255.1/16 dev bridge0
    ip -n "$hosts_prefix-net" link set lo up
    for ((i = 0; i < $1; i++)); do
        lines+="NodeName=n$((i + 1)) NodeAddr=$(hosts_address $i) CPUs=4 State=UNKNOWN"$'\n'
        echo "$(hosts_address $i) n$((i + 1))" >>"$slurm_folder/hosts"
    done
    printf '10.89.255.1 ctl\n127.0.0.1 localhost\n' >>"$slurm_folder/hosts"
    slurm_conf "ctl(10.89.255.1)" "$lines"
    slurm_inside=(nsenter "--net=/run/netns/$hosts_prefix-net" unshare --uts --mount bash -c
        'hostname ctl; mount --bind "$0" /etc/hosts; exec "$@"' "$slurm_folder/hosts")
    slurm_daemon ctl "${slurm_inside[@]}" slurmctld -D -f "$slurm_folder/slurm.conf"
    for ((i = 0; i < $1; i++)); do
        name=n$((i + 1))
        mkdir -p "$slurm_folder/spool-$name" "$slurm_folder/tmp-$name"
        slurm_daemon "$name" nsenter "--net=/run/netns/$(hosts_name $i)" unshare --uts --mount bash -c \
            'hostname "$1"; mount --bind "$0/hosts" /etc/hosts; exec slurmd -D -N "$1" -f "$0/slurm.conf"' "$slurm_folder" "$name"
    done
    slurm_wait
}

slurm_create_here() {
    local i name host lines
    slurm_begin "$1"
    trap slurm_remove EXIT
    slurm_port=$((20000 + $$ % 2000 * 5))
    host=$(hostname)
    lines="NodeName=n[1-$1] NodeHostname=$host NodeAddr=127.0.0.1 Port=[$((slurm_port + 1))-$((slurm_port + $1))] CPUs=4 State=UNKNOWN"
    slurm_conf "$host(127.0.0.1)" "$lines"
    slurm_inside=()
    slurm_daemon ctl "${slurm_inside[@]}" slurmctld -D -f "$slurm_folder/slurm.conf"
    for ((i = 0; i < $1; i++)); do
        name=n$((i + 1))
        mkdir -p "$slurm_folder/spool-$name" "$slurm_folder/tmp-$name"
        slurm_daemon "$name" slurmd -D -N "$name" -f "$slurm_folder/slurm.conf"
    done
    slurm_wait
}

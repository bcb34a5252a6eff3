#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The manifest of examples/kubernetes: valid, and what it starts works. A pod is a network namespace with the host name, the
# variables, the files and the size of /dev/shm that the manifest gives it; the Service's names stand in its /etc/hosts.
# timeout: 300
set -u
. "${WEFT_SRCDIR:?}/tests/harness/tap.sh"
. "$WEFT_SRCDIR/tests/torch/setup.sh"
. "$WEFT_SRCDIR/tests/harness/hosts.sh"
manifest=$WEFT_SRCDIR/examples/kubernetes/torch.yaml slow=${WEFT_TEST_SLOW:-1}
tool() { "$python" "$WEFT_SRCDIR/tests/torch/kubernetes.py" "$@"; }
if ! "$python" -c 'import kubernetes_validate, yaml' 2>/dev/null; then
    echo "$python has no kubernetes-validate (tests/torch/tools.txt; ./bootstrap check installs it)"
    exit 77
fi
# torchrun, as an image would have it.
mkdir "$tap_dir/bin"
printf '#!/bin/sh\nexec "%s" -m torch.distributed.run "$@"\n' "$python" >"$tap_dir/bin/torchrun"
chmod +x "$tap_dir/bin/torchrun"
key=$("$WEFT_BUILDDIR/weft-run" --make-key -)

# What the kubelet does, in the pod's own mount and host name namespaces: FOLDER.
cat >"$tap_dir/kubelet" <<'END'
cd "$1" && hostname "$(cat hostname)" && mount --bind hosts /etc/hosts || exit 99
while read -r kind name path; do
    # A place under /mnt is made there; none of it is seen outside.
    case $path in /mnt/*) mountpoint -q /mnt || mount -t tmpfs tmpfs /mnt || exit 99; mkdir -p "$path" ;; esac
    case $kind in
    memory) mount -t tmpfs -o "size=$name" tmpfs "$path" || exit 99 ;;
    files) mount --bind -o ro "$2/$name" "$path" || exit 99 ;;
    esac
done <mounts
cd / && mapfile -d '' variables <"$1/env" && mapfile -d '' argv <"$1/argv" || exit 99
exec env -i HOME=/tmp PATH="$tap_dir/bin:$PATH" PYTHONPATH="$PYTHONPATH" WEFT_TORCH_LIBRARY="$WEFT_TORCH_LIBRARY" "${variables[@]}" "${argv[@]}"
END
# pods MANIFEST: all of them, until each has ended; what pod I has printed is in $tap_dir/pod.I.
export tap_dir
mkdir -p "$tap_dir/configmaps"
ln -s "$WEFT_SRCDIR/examples/torch" "$tap_dir/configmaps/weft-train-code"
prepare() {
    local i
    rm -f "$tap_dir/hosts"
    for ((i = 0; i < hosts_count; i++)); do
        mkdir -p "$tap_dir/$i" && tool pod "$1" $i "$tap_dir/$i" || return 1
        sed -i "s/@secret@/$key/" "$tap_dir/$i/env"
        echo "$(hosts_address $i) $(cat "$tap_dir/$i/hostname").$(cat "$tap_dir/$i/service") $(cat "$tap_dir/$i/hostname")" >>"$tap_dir/hosts"
    done
    for ((i = 0; i < hosts_count; i++)); do # the kubelet names the pod itself; the others are the Service's
        { echo '127.0.0.1 localhost'; awk -v own=$i 'NR - 1 != own { print $1, $2 } NR - 1 == own' "$tap_dir/hosts"; } >"$tap_dir/$i/hosts"
    done
}
pods() {
    local i pids=() failed=0
    prepare "$1" || return 1
    if [ "${late:-0}" -gt 0 ]; then # the cluster's names follow its pods after a while
        for ((i = 1; i < hosts_count; i++)); do cp "$tap_dir/$i/hosts" "$tap_dir/$i/later" && sed -i '/weft-train-0/d' "$tap_dir/$i/hosts"; done
        { sleep "$late"; for ((i = 1; i < hosts_count; i++)); do cat "$tap_dir/$i/later" >"$tap_dir/$i/hosts"; done; } &
    fi
    for ((i = 0; i < hosts_count; i++)); do
        hosts_on $i unshare --uts --mount timeout $((150 * slow)) bash "$tap_dir/kubelet" "$tap_dir/$i" "$tap_dir/configmaps" >"$tap_dir/pod.$i" 2>&1 &
        pids+=($!)
    done
    for i in "${!pids[@]}"; do wait "${pids[i]}" || failed=1; done
    [ $failed -eq 0 ] || { tail -n 30 "$tap_dir"/pod.*; return 1; }
}
# As written, with fewer steps.
trains() {
    sed 's/--steps 100/--steps 20/' "$manifest" >"$tap_dir/train.yaml" && pods "$tap_dir/train.yaml" && cat "$tap_dir"/pod.* &&
        grep -q "^ddp: weft, $1 ranks, 20 steps" "$tap_dir/pod.0"
}
# What the guide says to look with: weft-info in the place of the program.
looks() {
    ln -sf "$WEFT_BUILDDIR/weft-info" "$tap_dir/bin/weft-info"
    sed 's,/mnt/train/ddp.py --steps 100,--no-python weft-info --peers,' "$manifest" >"$tap_dir/look.yaml" && pods "$tap_dir/look.yaml" &&
        sed -n '/^<!-- peers -->$/,/^$/s/^    //p' "$WEFT_SRCDIR/doc/guide/kubernetes.md" >"$tap_dir/guide" && [ "$(wc -l <"$tap_dir/guide")" -eq 5 ] &&
        diff "$tap_dir/guide" <(grep -E '^(job|host|pairs|missing) ' "$tap_dir/pod.0")
}
# A pod that dies takes the run with it: the other one ends, with a failure that says why, long before a deadline.
dies() {
    local i pids=() began
    sed 's/--steps 100/--steps 1000000/' "$manifest" >"$tap_dir/long.yaml" && prepare "$tap_dir/long.yaml" || return 1
    for i in 0 1; do
        hosts_on $i unshare --uts --mount timeout $((150 * slow)) bash "$tap_dir/kubelet" "$tap_dir/$i" "$tap_dir/configmaps" >"$tap_dir/pod.$i" 2>&1 &
        pids+=($!)
    done
    for ((i = 0; i < 600 * slow; i++)); do # until all ranks have connections to the others
        [ "$(hosts_on 1 ss -Htn state established | grep -c 10.89)" -gt 8 ] && break
        sleep 0.1
    done
    sleep $((3 * slow))
    kill -KILL $(ip netns pids "$(hosts_name 1)")
    began=$SECONDS
    wait "${pids[0]}" && { echo "pod 0 succeeds"; return 1; }
    wait "${pids[1]}"
    tail -n 30 "$tap_dir/pod.0"
    echo "pod 0 ended after $((SECONDS - began)) s"
    [ $((SECONDS - began)) -le $((40 * slow)) ] && grep -q 'rank [23] on host weft-train-1' "$tap_dir/pod.0"
}
without_key() { # the secret is not there: ranks of several pods do not begin without it
    sed '/name: WEFT_JOB_KEY/,/key: key/d; s,/mnt/train/ddp.py --steps 100,--no-python weft-info --peers,' "$manifest" >"$tap_dir/open.yaml"
    ! grep -q WEFT_JOB_KEY "$tap_dir/open.yaml" || return 1
    pods "$tap_dir/open.yaml" >"$tap_dir/said" && return 1
    cat "$tap_dir/said"
    grep -q 'WEFT_JOB_KEY' "$tap_dir"/pod.0
}
more() { # a cluster of more pods: what the guide says to change
    sed "s/\(completions\|parallelism\): 2/\1: $1/; s/value: \"2\"/value: \"$1\"/; s/--steps 100/--steps 20/" "$manifest" |
        sed "/name: RANKS_PER_POD/,/value/s/value: .*/value: \"1\"/" >"$tap_dir/more.yaml"
    tool check "$tap_dir/more.yaml" && pods "$tap_dir/more.yaml" && cat "$tap_dir/pod.0" && grep -q "^ddp: weft, $1 ranks, 20 steps" "$tap_dir/pod.0"
}

tap "the manifest is valid, and what is not is refused" tool check "$manifest"
hosts_create 2
trap 'hosts_remove; rm -rf "$tap_dir"' EXIT
tap "two pods of two ranks train" trains 4
late=20 tap "pod 0's name that comes later" trains 4
tap "weft-info --peers within it" looks
tap "without a key they do not begin" without_key
tap "a pod dies" dies
hosts_remove
hosts_create 4
trap 'hosts_remove; rm -rf "$tap_dir"' EXIT
tap "four pods" more 4
tap_end

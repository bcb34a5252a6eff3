#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# ./bootstrap's commands in any order, on machines that are made up: dpkg, apt-get, pkg-config, autoreconf, make and sudo are
# replaced by small scripts, so that neither a network nor root is needed and nothing is installed or built.
# timeout: 180
set -u
. "${WEFT_SRCDIR:?}/tests/harness/tap.sh"
modules=$(sed -n "s/^modules='\(.*\)'$/\1/p" "$WEFT_SRCDIR/bootstrap")
state=$tap_dir/state bin=$tap_dir/bin
export state

# ---- A machine ---------------------------------------------------------------------------------------------

tool() { # NAME: a script from standard input
    { echo '#!/bin/bash'; cat; } >"$bin/$1" && chmod +x "$bin/$1"
}
mkdir -p "$bin"
for name in bash sh env cat sed grep awk sort head tail cut tr find xargs cksum mkdir rm touch chmod stat dirname ls date sleep seq; do
    ln -s "$(command -v $name)" "$bin/$name"
done
tool nproc <<<'echo 2'
tool id <<<'case $1 in -u) echo "${fake_uid:-$(cat $state/uid)}" ;; *) echo somebody ;; esac'
tool dpkg-query <<'END'
shift 3
for p; do grep -qx "$p" $state/installed && echo "ii  $p" || { echo "dpkg-query: no packages found matching $p" >&2; bad=1; }; done
exit ${bad:-0}
END
tool apt-get <<'END'
[ "$(id -u)" = 0 ] || { echo "E: Could not open lock file - open (13: Permission denied)"; exit 100; }
while [ "${1#-}" != "$1" ]; do [ "$1" = -o ] && shift; shift; done
for p; do
    [ "$p" = --print-uris ] || continue
    [ -e $state/lists ] && for p; do case $p in -* | install) ;; *) echo "'http://packages/$p.deb' $p.deb 1500000 SHA256:0" ;; esac; done
    exit
done
echo "$*" >>$state/apt.log
[ "$DEBIAN_FRONTEND" = noninteractive ] || { echo "a question"; exit 100; }
[ -e $state/broken ] && { cat $state/broken; exit 100; }
command=$1
shift
if [ -e $state/slow ]; then # until a sign of life has been seen, which the test looks for
    echo "Get:1 something"
    for _ in $(seq 300); do grep -q "still $(cat $state/slow)" $state/said && break; sleep 0.1; done
fi
if [ $command = update ]; then touch $state/lists; exit; fi
for p; do
    case $p in -*) continue ;; esac
    [ -e $state/lists ] && ! grep -qx "$p" $state/unknown || { echo "E: Unable to locate package $p"; exit 100; }
    wanted+=" $p"
done
for p in $wanted; do echo "$p" >>$state/installed; done
END
tool apt-cache <<'END'
[ -e $state/lists ] && ! grep -qx "$2" $state/unknown || exit 0
echo "$2:"; echo "  Candidate: 1.0"
END
tool pkg-config <<'END'
for m; do :; done
case $m in
hwloc | jansson) p=lib$m-dev ;; libcrypto) p=libssl-dev ;; libxxhash) p=libxxhash-dev ;; expat) p=libexpat1-dev ;; libzstd) p=libzstd-dev ;;
cunit) p=libcunit1-dev ;; ompi-c) p=libopenmpi-dev ;; mpich) p=libmpich-dev ;; *) exit 1 ;;
esac
grep -qx $p $state/installed && echo "1.0 -l$m"
END
for name in gcc clang python3; do
    tool $name <<<"grep -qx ${name/python3/python3} \$state/installed || exit 127
case \"\$*\" in *dumpversion*) echo 14.0.6 ;; *fuzzer*) grep -qx libclang-rt-14-dev \$state/installed ;; *) echo $name 1.0 ;; esac"
done
for name in autoconf automake libtoolize; do tool $name <<<'echo $0 $(cat $state/autotools)'; done
tool autoreconf <<'END'
echo autoreconf >>$state/log
mkdir -p build-aux
cat configure.ac Makefile.am $(find . -name local.mk -not -path './build*') m4/*.m4 >Makefile.in
cat >configure <<'END2'
#!/bin/bash
echo "configure $*" >>$state/log
for m in hwloc libcrypto jansson libxxhash; do pkg-config --exists $m >/dev/null || { echo "no $m"; exit 1; }; done
{ cat ../Makefile.in; echo "arguments $*"; for m in $modules; do echo "$m $(pkg-config --exists $m >/dev/null && echo yes || echo no)"; done; } >Makefile
touch config.status
END2
cat configure.ac >>configure
chmod +x configure
END
tool make <<'END'
dir=. targets=
while [ $# -gt 0 ]; do
    case $1 in -C) dir=$2; shift ;; -* | *=*) ;; *) targets+=" $1" ;; esac
    shift
done
echo "make -C $dir$targets" >>$state/log
case $targets in
'') for t in weft-run weft-bench; do printf '#!/bin/bash\necho measured\n' >$dir/$t; chmod +x $dir/$t; done ;;
' check-programs')
    grep -qx 'cunit yes' $dir/Makefile || { echo "undefined reference to CU_add_test" >&2; exit 2; } ;;
' tally')
    [ -e $state/bad ] && { echo "weft: 2 passed, 1 failed, 0 skipped"; exit 1; }
    echo "skipped:"; echo "weft: 3 passed, 0 failed, 1 skipped" ;;
esac
END
cat >"$tap_dir/sudo" <<'END'
#!/bin/bash
[ -e $state/no_sudo ] && { echo "sudo: a password is required"; exit 1; }
exec env -i PATH="$PATH" state="$state" fake_uid=0 "$@"
END
chmod +x "$tap_dir/sudo"

# A new machine with a clone on it: the user's id, and the packages that are installed.
machine() {
    local uid=$1
    shift
    rm -rf "$state" "$tap_dir/clone" "$bin/sudo"
    mkdir -p "$state" "$tap_dir/clone" && cd "$tap_dir/clone" || exit 99
    printf '%s\n' "$@" >"$state/installed"
    echo "$uid" >"$state/uid"
    echo 1 >"$state/autotools"
    touch "$state/unknown" "$state/log" "$state/apt.log"
    mkdir -p m4 include/weft src tests/torch
    cp "$WEFT_SRCDIR/bootstrap" bootstrap
    echo '# one' >configure.ac; echo '# two' >Makefile.am; echo '# three' >m4/weft.m4; echo '# four' >src/local.mk
    echo '#define WEFT_VERSION_MAJOR 1' >include/weft/weft.h
    cat >tests/torch/environment.sh <<'END'
#!/bin/bash
echo environment >>$state/log
[ -e $state/no_torch ] && { echo "PyTorch: pip could not install torch" >&2; exit 1; }
mkdir -p $1 && echo /opt/python >$1/.python_torch
END
    chmod +x tests/torch/environment.sh
}
give_sudo() { ln -sf "$tap_dir/sudo" "$bin/sudo"; }
boot() { env -i PATH="$bin" state="$state" modules="$modules" ${flags:+CONFIGURE_FLAGS="$flags"} ${pace:+BOOTSTRAP_PACE="$pace"} ./bootstrap "$@" >"$tap_dir/said" 2>&1 </dev/null; local status=$?; cat "$tap_dir/said"; return $status; }
says() { grep -qE -- "$1" "$tap_dir/said" || { echo "it does not say: $1"; return 1; }; }
# How often bootstrap has run a command, since the last `forget`.
runs() { local n; n=$(grep -c "^$1" "$state/log"); [ "$n" -eq "$2" ] || { echo "$1: $n times, not $2"; cat "$state/log"; return 1; }; }
forget() { : >"$state/log"; : >"$state/apt.log"; }
last() { [ "$(tail -n 1 "$tap_dir/said")" = "$1" ]; }
all_of_it='gcc make autoconf automake libtool libc6-dev pkg-config libhwloc-dev libssl-dev libjansson-dev libxxhash-dev libexpat1-dev libzstd-dev'
passed='weft: 3 passed, 0 failed, 1 skipped'

# ---- What must hold ----------------------------------------------------------------------------------------

bench_then_check() { machine 0; boot bench && says measured && boot check && last "$passed"; }
check_then_bench() { machine 0; boot check && last "$passed" && boot bench && says measured && runs configure 1; }
minimal_then_all() {
    machine 0
    boot check --minimal && last "$passed" && says 'libopenmpi-dev' && says 'PyTorch' && says '--minimal' || return 1
    ! grep -q openmpi "$state/installed" && runs environment 0 || return 1
    boot bench && boot check && ! says 'not installed, and' >/dev/null && grep -qx libopenmpi-dev "$state/installed"
    grep -qx 'ompi-c yes' build/Makefile && grep -q 'PYTHON_TORCH=/opt/python' build/Makefile
}
option_first() { machine 0; boot --minimal check && runs environment 0; }
nothing_twice() {
    machine 0
    boot check || return 1
    forget
    boot check && boot bench && boot build && boot check-multi && runs configure 0 && runs autoreconf 0 && [ ! -s "$state/apt.log" ]
}
comes_back() { # a package went away, and configure has noticed; then it came back by other hands
    machine 0
    boot check || return 1
    sed -i '/libexpat1-dev/d' "$state/installed"
    (cd build && env PATH="$bin" modules="$modules" ../configure) || return 1
    echo libexpat1-dev >>"$state/installed"
    boot bench && grep -qx 'expat yes' build/Makefile
}
came_by_hand() { # as bench, apt-get install libcunit1-dev, check
    machine 0
    boot bench && grep -qx 'cunit no' build/Makefile || return 1
    echo libcunit1-dev >>"$state/installed"
    boot check && grep -qx 'cunit yes' build/Makefile
}
flags_changed() { machine 0; boot build; forget; flags=--enable-werror; boot build; flags=; runs 'configure .*--enable-werror' 1 && boot build && runs configure 2; }
pulled() { # each of the files that configure and Makefile.in are made from, also with an old date
    local f
    machine 0
    boot build || return 1
    for f in configure.ac Makefile.am m4/weft.m4 m4/weft_more.m4 src/local.mk src/new/local.mk include/weft/weft.h; do
        forget
        mkdir -p "$(dirname $f)"
        echo '#define WEFT_VERSION_MINOR 2' >>$f
        touch -d '2001-01-01' $f
        boot build && runs autoreconf 1 && runs configure 1 || { echo "after a change of $f"; return 1; }
    done
    forget
    echo '/* a comment */' >>include/weft/weft.h
    boot build && runs autoreconf 0
    echo 2 >"$state/autotools"
    boot build && runs autoreconf 1
}
interrupted() { # configure fails once, and is not believed to have worked
    machine 0
    boot build && sed -i 's/^# one/# one\nfalse || exit 1/' configure.ac && ! boot build && says 'configure failed' || return 1
    echo '# one' >configure.ac
    boot build
}
moved() { machine 0; boot build; forget; cd .. && rm -rf elsewhere && mv clone elsewhere && cd elsewhere && boot build && runs configure 1; }
with_sudo() { machine 1000; give_sudo; boot check && last "$passed"; }
without_sudo() { machine 1000; ! boot bench && says 'apt-get install --no-install-recommends .*libhwloc-dev' && says 'root'; }
no_need_of_sudo() { machine 1000 $all_of_it; boot bench && says measured; }
sudo_refuses() { machine 1000; give_sudo; touch "$state/no_sudo"; ! boot bench && says 'sudo did not let' && says 'apt-get install'; }
apt_says() { # TEXT OF APT, WHAT IT MEANS
    machine 0
    echo "$1" >"$state/broken"
    ! boot bench && says "$1" && says "$2" && says 'The command was: apt-get install' && says 'run ./bootstrap again'
}
apt_explained() {
    apt_says "E: Could not get lock /var/lib/dpkg/lock-frontend" 'another program is installing' &&
        apt_says "E: dpkg was interrupted, you must manually run it" 'dpkg --configure -a' &&
        apt_says "E: Failed to fetch somewhere: Temporary failure resolving" 'could not be fetched' &&
        apt_says "E: You don't have enough free space" 'disk is full' &&
        apt_says "E: something new" 'what apt said is above'
}
unknown_needed() { machine 0; echo libhwloc-dev >"$state/unknown"; ! boot bench && says 'lacks a package'; }
unknown_wanted() { machine 0; echo clang-format-14 >"$state/unknown"; boot check && says 'clang-format-14: no package of this release' && last "$passed" && grep -qx mpich "$state/installed"; }
runtime() { machine 0; boot check && grep -qx libclang-rt-14-dev "$state/installed"; }
sign_of_life() { # nobody sees a terminal here either
    machine 0
    echo 'fetching the lists of packages, [0-9]* s: Get:1 something' >"$state/slow"
    ln -s "$tap_dir/said" "$state/said"
    pace=0.2 boot bench && says measured && says "^bootstrap: still $(cat "$state/slow")" && says 'installing; about [0-9]+ MB are fetched' || return 1
    machine 0 $all_of_it
    touch "$state/lists"
    boot check && says 'installing libcunit1-dev .*; about [0-9]+ MB are fetched' && ! says 'still' >/dev/null
}
no_torch() {
    machine 0
    touch "$state/no_torch"
    ! boot check && last "$passed" && says 'FAILED: PyTorch' && says '--minimal' && boot check --minimal && last "$passed"
}
fails() { machine 0; touch "$state/bad"; ! boot check && last 'weft: 2 passed, 1 failed, 0 skipped'; }
no_dpkg() {
    machine 0 $all_of_it libcunit1-dev
    mv "$bin/dpkg-query" "$bin/apt-get" "$tap_dir/"
    boot check --minimal && says 'no dpkg here' && last "$passed"
    local status=$?
    mv "$tap_dir/dpkg-query" "$tap_dir/apt-get" "$bin/"
    return $status
}
refused() { machine 0; ! boot chekc && says 'unknown command: chekc' && ! boot check bench && says 'one command at a time' && [ ! -s "$state/apt.log" ]; }
cleans() { machine 0; boot bench; boot clean && [ ! -e build ] && [ ! -e configure ] && [ ! -e build-aux ] && boot check && last "$passed"; }
same_modules() { # what m4/ asks for and what bootstrap compares
    local m
    for m in $(sed -n 's/.*\(WEFT_LIBRARY\|PKG_CHECK_MODULES\)(\[[A-Z0-9]*\], \[\([a-z0-9-]*\)[] ].*/\2/p; s/^WEFT_MPI_ONE(.*, \[\([a-z-]*\)\], .*/\1/p' "$WEFT_SRCDIR"/m4/weft*.m4); do
        echo "$m"
        grep -qw -- "$m" <<<"$modules" || return 1
    done | { cat; [ "${PIPESTATUS[0]}" -eq 0 ]; } >"$tap_dir/asked"
    cat "$tap_dir/asked"
    for m in $modules; do grep -qx -- "$m" "$tap_dir/asked" || { echo "$m is compared and not asked for"; return 1; }; done
    [ "$(wc -l <"$tap_dir/asked")" -eq "$(wc -w <<<"$modules")" ]
}
tap "bench, then check" bench_then_check
tap "check, then bench" check_then_bench
tap "check --minimal, then bench and check" minimal_then_all
tap "--minimal before the command" option_first
tap "what is there is not done again" nothing_twice
tap "a package that went and came back" comes_back
tap "a package that was installed by hand" came_by_hand
tap "other flags" flags_changed
tap "after git pull" pulled
tap "a configure that failed is run again" interrupted
tap "a clone that was moved" moved
tap "with sudo" with_sudo
tap "neither root nor sudo" without_sudo
tap "neither root nor sudo, and nothing is missing" no_need_of_sudo
tap "sudo refuses" sudo_refuses
tap "what apt says is explained" apt_explained
tap "a needed package that the release lacks" unknown_needed
tap "a wanted package that the release lacks" unknown_wanted
tap "clang's runtime by clang's version" runtime
tap "what takes long is announced with its size and gives signs of life" sign_of_life
tap "PyTorch cannot be had" no_torch
tap "a test fails" fails
tap "no dpkg" no_dpkg
tap "wrong commands" refused
tap "clean, then check" cleans
tap "what configure asks for is what bootstrap compares" same_modules
cd "$WEFT_SRCDIR" || exit 99
tap_end

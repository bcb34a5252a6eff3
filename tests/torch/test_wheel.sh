#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The wheel for other machines (frontends/torch/make-wheel): what is in it, and that it runs where there are neither weft's sources
# nor its build folder nor the libraries of the system that libweft was linked with. They are hidden by mounts.
# timeout: 600
set -u
. "${WEFT_SRCDIR:?}/tests/harness/tap.sh"
. "${WEFT_SRCDIR:?}/tests/torch/setup.sh"
"$python" -c 'import auditwheel' 2>/dev/null || { echo "$python has no auditwheel (./bootstrap check installs it)"; exit 77; }
venv=$tap_dir/venv dist=$tap_dir/dist first=$tap_dir/first.py
unset PYTHONPATH WEFT_TORCH_BUNDLE
export WEFT_CACHE_DIR=$tap_dir/cache

make() { "$WEFT_SRCDIR/frontends/torch/make-wheel" --python "$python" "$dist" && wheel=$(echo "$dist"/*.whl) && [ -f "$wheel" ]; }
verdict() { # it is for any machine with a glibc of some version; auditwheel gives it that tag only when it holds what it needs
    PATH=$("$python" -c 'import sysconfig; print(sysconfig.get_path("scripts"))'):$PATH "$python" -m auditwheel show "$wheel" | tr '\n' ' ' >"$tap_dir/verdict"
    cat "$tap_dir/verdict"
    echo "# $(basename "$wheel"): $(grep -o 'This constrains [^.]*' "$tap_dir/verdict")" >&3
    case $(basename "$wheel") in *manylinux*) grep -q 'constrains the platform tag to "manylinux' "$tap_dir/verdict" ;; *) return 1 ;; esac
}
holds() {
    "$python" -m zipfile -l "$wheel" | awk '{ print $1 }' >"$tap_dir/members"
    cat "$tap_dir/members"
    for f in 'weft/lib/libweft\.so\.1' 'weft/lib/libweft_zero\.so\.0' 'weft/zero/__init__\.py' 'weft/include/weft/weft\.h' 'weft/include/weft/weft_types\.h' 'weft/_C\..*\.so' 'weft/csrc/.*\.hpp' 'weft/csrc/.*\.cpp' 'weft/_C\.pyi' 'weft_torch-.*\.dist-info/\(licenses/\)\?LICENSE' \
        'weft_torch\.libs/libhwloc-.*\.so.*' 'weft_torch\.libs/libjansson-.*\.so.*'; do
        grep -q "^$f\$" "$tap_dir/members" || { echo "no member $f"; return 1; }
    done
    ! grep -E 'libtorch|libc10|_source_tree' "$tap_dir/members"
}
same_version() { # the package, the header and the library
    local package header
    package=$(sed -n 's/^__version__ = "\(.*\)"$/\1/p' "$WEFT_SRCDIR/frontends/torch/weft/__init__.py")
    header=$(awk '/define WEFT_VERSION_(MAJOR|MINOR|PATCH)/ { v = v dot $3; dot = "." } END { print v }' "$WEFT_SRCDIR/include/weft/weft.h")
    echo "package $package, header $header, wheel $(basename "$wheel"), pyproject $(grep '^version' "$WEFT_SRCDIR/frontends/torch/pyproject.toml")"
    [ "$package" = "$header" ] && case $(basename "$wheel") in "weft_torch-$package-"*) ;; *) return 1 ;; esac
    grep -q "^version = \"$package\"\$" "$WEFT_SRCDIR/frontends/torch/pyproject.toml"
}
relocatable() { # nothing in it says where it was built
    "$python" -m zipfile -e "$wheel" "$tap_dir/open" || return 1
    local f path status=0
    find "$tap_dir/open" -name '*.so*' >"$tap_dir/objects"
    while read -r f; do
        path=$(readelf -d "$f" | sed -n 's/.*R\(UN\)\?PATH.*\[\(.*\)\]/\2/p')
        echo "$f: search path '$path'"
        case ":$path" in *:/*) status=1 ;; esac
    done <"$tap_dir/objects"
    return $status
}
install() {
    # With the pip of the packages that it sees: making one of its own takes longer than all the rest.
    "$python" -m venv --without-pip "$venv" && "$python" "$WEFT_SRCDIR/tests/torch/see_packages.py" "$venv/bin/python" &&
        "$venv/bin/python" -m pip install -q --no-deps --no-index "$wheel"
}

# What follows runs in a mount namespace of its own.
elsewhere() {
    local hidden="$WEFT_SRCDIR/include $WEFT_SRCDIR/src $WEFT_SRCDIR/plugins $WEFT_SRCDIR/frontends $WEFT_BUILDDIR/.libs $WEFT_BUILDDIR/torch-site"
    local libraries
    libraries=$(ldconfig -p | awk '/lib(hwloc|jansson|udev|weft)\.so/ { print $NF }' | sort -u)
    unshare $namespaces bash -c '
        set -e
        hidden=$1 libraries=$2
        shift 2
        for d in $hidden; do [ ! -d "$d" ] || mount -t tmpfs -o mode=755 tmpfs "$d"; done
        for f in $libraries; do mount --bind /dev/null "$(readlink -f "$f")"; done
        cd /
        unset WEFT_TORCH_LIBRARY WEFT_SRCDIR WEFT_BUILDDIR LD_LIBRARY_PATH CXX
        exec "$@"' sh "$hidden" "$libraries" "$@"
}
libraries_are_hidden() { # else the next cases prove nothing
    elsewhere "$venv/bin/python" -c 'import ctypes
for name in ("libhwloc.so.15", "libjansson.so.4"):
    try:
        ctypes.CDLL(name)
    except OSError as problem:
        print(problem)
    else:
        raise SystemExit(f"{name} can be loaded")'
}
run_first() { # two ranks, both print the sum
    awk '/^```python/ { on = !seen++; next } /^```/ { on = 0 } on' "$WEFT_SRCDIR/frontends/torch/README.md" >"$first"
    elsewhere "$venv/bin/python" -m torch.distributed.run --standalone --nproc-per-node 2 "$first" >"$tap_dir/out" 2>&1
    cat "$tap_dir/out"
    grep -q 'rank 0: tensor(\[3., 3., 3., 3.\])' "$tap_dir/out" && grep -q 'rank 1: tensor(\[3., 3., 3., 3.\])' "$tap_dir/out"
}
info() { # the adapter and the library are the wheel's
    elsewhere "$venv/bin/python" -c 'import os, weft
i = weft.info()
print(i)
here = os.path.dirname(weft.__file__)
assert str(i.adapter).startswith(here), i.adapter
with open("/proc/self/maps") as maps:
    libraries = {line.split()[-1] for line in maps if "libweft.so" in line}
assert libraries == {os.path.join(here, "lib/libweft.so.1")}, libraries'
}
zero() { # so is libweft_zero, which trains
    elsewhere "$venv/bin/python" -c 'import os, torch, weft
from weft import zero
engine = zero.initialize(torch.nn.Linear(3, 3), "sgd", lr=0.5)
before = engine.full_state_dict()["bias"]
engine.backward(engine(torch.ones(1, 3)).sum())
engine.step()
assert torch.allclose(engine.full_state_dict()["bias"], before - 0.5)
with open("/proc/self/maps") as maps:
    libraries = {line.split()[-1] for line in maps if "libweft" in line and "/lib/" in line}
here = os.path.join(os.path.dirname(weft.__file__), "lib")
assert libraries == {os.path.join(here, n) for n in ("libweft.so.1", "libweft_zero.so.0")}, libraries'
}
another_version() {
    local init
    init=$(echo "$venv"/lib/python*/site-packages/weft/__init__.py)
    sed -i 's/^__version__ = .*/__version__ = "0.0.9"/' "$init"
    "$venv/bin/python" -c 'import weft; weft.info()' >"$tap_dir/out" 2>&1 && return 1
    cat "$tap_dir/out"
    grep -q 'this package is of version 0.0.9' "$tap_dir/out" && grep -q 'Remove that one' "$tap_dir/out"
}

exec 3>&1
tap "make-wheel" make || tap_end
tap "auditwheel's verdict" verdict
tap "it holds the library, its header, its dependencies and the licence" holds
tap "package, header and wheel are of one version" same_version
tap "no object in it searches a folder of this machine" relocatable
tap "pip install of the wheel" install || tap_end
namespaces="--mount --propagation private"
[ "$(id -u)" -eq 0 ] || namespaces="--user --map-root-user $namespaces"
if unshare $namespaces true 2>/dev/null; then
    tap "weft's sources and the system's libraries are hidden" libraries_are_hidden
    tap "the README's program without them" run_first
    tap "adapter and library are the wheel's" info
    tap "weft.zero trains with the wheel's" zero
else
    for what in "sources and libraries are hidden" "the README's program without them" "adapter and library are the wheel's" "weft.zero trains with the wheel's"; do
        tap_number=$((tap_number + 1))
        echo "ok $tap_number - $what # SKIP this user may make no mount namespace"
    done
fi
tap "a library of another version is refused" another_version
tap_end

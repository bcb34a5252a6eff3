#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Find or make a Python that has what tests/torch needs, and write its path into FOLDER/.python_torch: python3 itself where it
# has torch and the tools; else a virtual environment, FOLDER/venv, with what is missing. Nothing is changed outside FOLDER.
#   environment.sh FOLDER
# Exits 1, with a reason, when something could not be had; .python_torch then names a Python that at least has torch, if any.
set -u
here=$(cd "$(dirname "$0")" && pwd) || exit 1
mkdir -p "${1:?usage: environment.sh FOLDER}" && folder=$(cd "$1" && pwd -P) || exit 1
venv=$folder/venv answer=$folder/.python_torch log=$folder/venv.log
version=$(sed -n 's/^torch==//p' "$here/requirements.txt")

say() { echo "PyTorch: $*"; }
fail() {
    rm -f "$venv/.complete"
    say "$*" >&2
    exit 1
}
has_torch() { TORCH_DEVICE_BACKEND_AUTOLOAD=0 "$1" -c 'import torch.distributed as d; assert d.is_available()' 2>/dev/null; }
# The names in tools.txt are also those of the modules, with _ for -.
has_tools() {
    local name
    for name in $(sed -n 's/^\([a-z-]*\)==.*/\1/p' "$here/tools.txt" | tr - _); do
        "$1" -c "import importlib.util, sys; sys.exit(not importlib.util.find_spec('$name'))" || return 1
    done
}
pip_install() {
    timeout 3600 "$venv/bin/python" -m pip install --disable-pip-version-check "$@" >"$log" 2>&1
}
# What pip's last lines mean for somebody who wants to go on.
pip_failed() {
    tail -n 15 "$log" >&2
    fail "pip could not install $1. Look at the network, the proxy, the disk's free space and pip's configuration (pip config list;
    pip's settings may stand in the environment, e.g. PIP_INDEX_URL), then run this again; all of pip's output is in $log"
}

base=$(python3 -c 'import sys; print(sys.executable)' 2>/dev/null) || fail "there is no python3"
case $base in "$venv"/*) base=$("$base" -c 'import sys; print(sys._base_executable)') ;; esac
stamp=$(cat "$here/requirements.txt" "$here/tools.txt"; echo "$base"; "$base" -V)
if [ "$(cat "$venv/.complete" 2>/dev/null)" = "$stamp" ] && has_torch "$venv/bin/python"; then
    echo "$venv/bin/python" >"$answer"
    exit 0
fi
rm -f "$answer"
own=no numpy=
if has_torch "$base"; then
    echo "$base" >"$answer"
    has_tools "$base" && exit 0
    own=yes
fi

say "making the virtual environment $venv"
rm -rf "$venv"
"$base" -m venv "$venv" >"$log" 2>&1 || {
    tail -n 5 "$log" >&2
    fail "$base cannot make virtual environments (Debian package python3-venv)"
}
if [ $own = yes ]; then
    # All that python3 sees: --system-site-packages would show the system's packages, not those of a virtual environment
    # that python3 is of.
    "$base" "$here/see_packages.py" "$venv/bin/python" || fail "$venv cannot be made to see the packages of $base"
    say "$base has torch; fetching the tools that its tests want: $(sed -n 's/==/ /p' "$here/tools.txt" | paste -sd, | sed 's/,/, /g')"
    "$base" -c 'import numpy' 2>/dev/null || numpy=$(grep '^numpy' "$here/requirements.txt")
    { echo "$numpy"; cat "$here/tools.txt"; } >"$venv/requirements.txt"
    pip_install -r "$venv/requirements.txt" || pip_failed "them"
else
    sed "s/^torch==.*/&+cpu/; s,^-r ,&$here/," "$here/requirements.txt" >"$venv/requirements.txt"
    say "fetching torch $version+cpu (about 200 MB) and tools for the tests of weft's PyTorch backend"
    if ! pip_install -r "$venv/requirements.txt"; then
        grep -q 'No matching distribution found for torch' "$log" || pip_failed "torch $version+cpu"
        say "pip's indexes have no torch $version+cpu: fetching torch $version, which on x86 comes with CUDA (some 3 GB). To avoid"
        say "that, name PyTorch's index of builds for CPUs in PIP_EXTRA_INDEX_URL."
        pip_install -r "$here/requirements.txt" || pip_failed "torch $version"
    fi
fi
has_torch "$venv/bin/python" || fail "torch is installed in $venv, and cannot be imported: $("$venv/bin/python" -c 'import torch' 2>&1 | tail -n 1)"
echo "$stamp" >"$venv/.complete"
echo "$venv/bin/python" >"$answer"

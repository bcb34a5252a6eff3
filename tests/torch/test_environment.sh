#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The Python that environment.sh finds or makes: with pip and virtual environments as they are, and packages that are made
# here and hold nothing but a version, so that no network is needed.
# timeout: 300
set -u
. "${WEFT_SRCDIR:?}/tests/harness/tap.sh"
cd "$tap_dir" || exit 99
python3=$(python3 -c 'import sys; print(sys._base_executable)')
"$python3" -c 'import ensurepip, venv' 2>/dev/null || {
    echo "$python3 cannot make virtual environments (Debian package python3-venv)"
    exit 77
}
export PIP_NO_INDEX=1 PIP_FIND_LINKS=$tap_dir/index PIP_CONFIG_FILE=/dev/null
unset PYTHONPATH PIP_EXTRA_INDEX_URL PIP_INDEX_URL VIRTUAL_ENV
mkdir -p index held tree/tests/torch
cp "$WEFT_SRCDIR"/tests/torch/{environment.sh,see_packages.py,requirements.txt,tools.txt} tree/tests/torch/

"$python3" - index tree/tests/torch/requirements.txt tree/tests/torch/tools.txt <<'END' || exit 99
import re, sys, zipfile
from pathlib import Path

# torch in both builds, and whatever else the files name, as wheels.
folder, *files = map(Path, sys.argv[1:])
pins = [m.groups() for f in files for m in re.finditer(r"^([a-z-]+)==([^;\s]+)", f.read_text(), re.M)]
pins += [(n, v + "+cpu") for n, v in pins if n == "torch"]
assert len({n for n, _ in pins}) >= 5, pins
for name, version in pins:
    name = name.replace("-", "_")
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as out:
        out.writestr(f"{name}/__init__.py", f"__version__ = {version!r}\n")
        out.writestr(f"{name}/__main__.py", f"print({version!r})\n")
        if name == "torch":
            out.writestr("torch/distributed/__init__.py", "def is_available():\n    return True\n")
        out.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
        out.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        out.writestr(f"{info}/RECORD", "")
END
version=$(sed -n 's/^torch==//p' tree/tests/torch/requirements.txt)

# With DIRECTORY/bin first in PATH.
environment() { PATH=$1:$PATH timeout 250 tree/tests/torch/environment.sh build >said 2>&1; local status=$?; cat said; return $status; }
chosen() { cat build/.python_torch; }
torch_of() { "$1" -c 'import torch; print(torch.__version__)'; }
is() { [ "$1" = "$2" ] || { echo "'$1' is not '$2'"; return 1; }; }
has_all() { for m in torch ruff mypy numpy; do "$1" -m $m || return 1; done; }
hide() { mv index/$1 held/; }
show() { mv held/* index/; }

cpu_build() { environment "$tap_dir/bare/bin" && is "$(chosen)" "$PWD/build/venv/bin/python" && is "$(torch_of "$(chosen)")" "$version+cpu" && has_all "$(chosen)"; }
once() { hide 'torch*'; environment "$tap_dir/bare/bin" && is "$(wc -c <said)" 0; local status=$?; show; return $status; }
newer_pins() {
    echo "# another" >>tree/tests/torch/tools.txt
    environment "$tap_dir/bare/bin" && grep -q 'making the virtual environment' said
}
plain_build() {
    rm -rf build
    hide "torch-$version+cpu*"
    environment "$tap_dir/bare/bin" && is "$(torch_of "$(chosen)")" "$version" && grep -q CUDA said
    local status=$?
    show
    return $status
}
no_network() { # nothing is left that would be taken for an environment
    rm -rf build
    hide '*'
    ! environment "$tap_dir/bare/bin" && grep -q 'could not install' said && [ ! -e build/.python_torch ]
    local status=$?
    show
    return $status
}
own_torch() { # in a virtual environment, where most have it
    rm -rf build
    "$python3" -m venv own && own/bin/python -m pip install -q "torch==$version" numpy || return 1
    environment "$tap_dir/own/bin" && is "$(chosen)" "$PWD/build/venv/bin/python" && is "$(torch_of "$(chosen)")" "$version+cpu" && has_all "$(chosen)" &&
        [ ! -e own/lib/python*/site-packages/ruff ]
}
own_torch_no_network() { # the torch is used
    rm -rf build
    hide 'ruff*'
    ! environment "$tap_dir/own/bin" && grep -q 'could not install' said && is "$(chosen)" "$tap_dir/own/bin/python3"
    local status=$?
    show
    return $status
}
own_everything() {
    rm -rf build
    own/bin/python -m pip install -q -r tree/tests/torch/tools.txt || return 1
    environment "$tap_dir/own/bin" && is "$(chosen)" "$tap_dir/own/bin/python3" && [ ! -e build/venv ]
}
nested() { # as test_package.sh does with what own_torch made
    rm -rf build
    own/bin/python -m pip uninstall -q -y ruff && environment "$tap_dir/own/bin" || return 1
    "$(chosen)" -m venv third && "$(chosen)" tree/tests/torch/see_packages.py third/bin/python && has_all third/bin/python
}

tap "a Python without anything" "$python3" -m venv --without-pip bare || tap_end
tap "the CPU build of torch comes first" cpu_build
tap "once made it is kept" once
tap "other requirements make it again" newer_pins
tap "without a CPU build the plain one is taken, and said" plain_build
tap "nothing to be had: a reason, and no half environment" no_network
tap "a torch that is there is used, the tools are added" own_torch
tap "a torch that is there is used without the tools" own_torch_no_network
tap "a Python that has everything is used as it is" own_everything
tap "an environment of an environment sees both" nested
cd "$WEFT_SRCDIR" || exit 99
tap_end

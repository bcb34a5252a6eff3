# SPDX-License-Identifier: BSD-3-Clause
# Which Python has PyTorch. Source this file: $python is that of make's variable PYTHON_TORCH (configure and ./bootstrap set it),
# else the python3 that is first in PATH.

python=${WEFT_TEST_PYTHON_TORCH:-$(command -v python3)}
python_why_not="${python:-python3} has no PyTorch (./bootstrap check installs one; or make check PYTHON_TORCH=…)"
# Leaves in $python_versions which Python and PyTorch they are. Importing it takes seconds of a processor: what could be imported for
# one test is not for the next.
python_has_torch() {
    local known=${WEFT_BUILDDIR:-/nonexistent}/torch-python
    [ -n "$python" ] || return 1
    python_versions=$("$python" -c 'import importlib.metadata as m, sys; print(sys.executable, sys.version.split()[0], m.version("torch"))' 2>/dev/null)
    [ -n "$python_versions" ] && [ "$(cat "$known" 2>/dev/null)" = "$python_versions" ] && return 0
    TORCH_DEVICE_BACKEND_AUTOLOAD=0 "$python" -c 'import torch.distributed as d; assert d.is_available()' 2>/dev/null || return 1
    [ -z "$python_versions" ] || [ ! -d "${known%/*}" ] || echo "$python_versions" >"$known"
}

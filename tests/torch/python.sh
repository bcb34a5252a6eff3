# SPDX-License-Identifier: BSD-3-Clause
# Which Python has PyTorch. Source this file: $python is that of make's variable PYTHON_TORCH (configure and ./bootstrap set it),
# else the python3 that is first in PATH.

python=${WEFT_TEST_PYTHON_TORCH:-$(command -v python3)}
python_why_not="${python:-python3} has no PyTorch (./bootstrap check installs one; or make check PYTHON_TORCH=…)"
python_has_torch() {
    [ -n "$python" ] && TORCH_DEVICE_BACKEND_AUTOLOAD=0 "$python" -c 'import torch.distributed as d; assert d.is_available()' 2>/dev/null
}

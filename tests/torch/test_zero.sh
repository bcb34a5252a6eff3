#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# weft.zero: parity of all stages, modules of all kinds, and both faces.
# timeout: 900
set -u
. "${WEFT_SRCDIR:?}/tests/torch/setup.sh"
status=0
python_weft "$WEFT_SRCDIR/tests/torch/zero.py" --sizes 2,4 --seconds 150 || status=1
python_weft "$WEFT_SRCDIR/tests/torch/zero_modules.py" --sizes 2,4 --seconds 150 || status=1
python_weft "$WEFT_SRCDIR/tests/torch/zero_faces.py" --sizes 2,4 --seconds 150 || status=1
python_weft "$WEFT_SRCDIR/tests/torch/zero_calls.py" --sizes 2 --seconds 150 || status=1
python_weft "$WEFT_SRCDIR/tests/torch/zero_saves.py" --sizes 2,4 --seconds 100 || status=1
# Without torch.distributed the ranks are the launcher's.
if "$WEFT_BUILDDIR/weft-run" -n 2 "$python" "$WEFT_SRCDIR/examples/torch/zero3.py" --steps 20 >"$WEFT_BUILDDIR/torch-zero.log" 2>&1 &&
    grep -q 'stage 3, 2 ranks' "$WEFT_BUILDDIR/torch-zero.log"; then
    echo "ok - the example under weft-run"
else
    echo "not ok - the example under weft-run"
    sed 's/^/# /' "$WEFT_BUILDDIR/torch-zero.log"
    status=1
fi
echo 1..1
exit $status

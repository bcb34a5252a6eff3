#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# weft.zero: models built without memory, weights from files, and checkpoints of torch's DCP and of DeepSpeed, and the guide.
# timeout: 600
set -u
. "${WEFT_SRCDIR:?}/tests/torch/setup.sh"
status=0
python_weft "$WEFT_SRCDIR/tests/torch/zero_more.py" --sizes 2,4 --seconds 150 || status=1
python_weft "$WEFT_SRCDIR/tests/torch/zero_guide.py" --sizes 2,4 --seconds 150 || status=1
example() { # PROGRAM NEEDS WORDS LAUNCHER…
    local program=$1 needs=$2 words=$3
    shift 3
    if ! TORCH_DEVICE_BACKEND_AUTOLOAD=0 "$python" -c "import $needs" 2>/dev/null; then
        echo "ok - $program # SKIP $needs cannot be imported"
    elif "$@" "$WEFT_SRCDIR/examples/torch/$program" >"$WEFT_BUILDDIR/torch-zero-more.log" 2>&1 &&
        grep -q "$words" "$WEFT_BUILDDIR/torch-zero-more.log"; then
        echo "ok - $program"
    else
        echo "not ok - $program"
        sed 's/^/# /' "$WEFT_BUILDDIR/torch-zero-more.log"
        status=1
    fi
}
example zero_hf.py "transformers, safetensors" 'stage 3, 2 ranks' "$WEFT_BUILDDIR/weft-run" -n 2 "$python"
example zero_trainer.py "transformers, accelerate" 'stage 3, 2 ranks' "$WEFT_BUILDDIR/weft-run" -n 2 "$python"
example zero_accelerate.py accelerate 'stage 3, 2 ranks' "$python" -m torch.distributed.run --standalone --nproc-per-node 2
echo 1..3
exit $status

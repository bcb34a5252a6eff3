#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# weft.zero: configurations whose values are "auto", compiled models, and a GPT that learns in every stage.
# timeout: 900
set -u
. "${WEFT_SRCDIR:?}/tests/torch/setup.sh"
export TORCHINDUCTOR_CACHE_DIR=$WEFT_BUILDDIR/torch-inductor
python_weft "$WEFT_SRCDIR/tests/torch/zero_training.py" --sizes 2 --seconds 500

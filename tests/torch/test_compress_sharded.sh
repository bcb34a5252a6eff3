#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# FSDP2 with compressed gradients, and its checkpoints.
# timeout: 300
set -u
. "${WEFT_SRCDIR:?}/tests/torch/setup.sh"
python_weft "$WEFT_SRCDIR/tests/torch/compress_sharded.py" --sizes 2,4 --seconds 120

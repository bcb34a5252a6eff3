#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# DDP, FSDP, DTensor, pipelines, checkpoints, operations and groups on weft: results equal to Gloo's.
# timeout: 900
set -u
. "${WEFT_SRCDIR:?}/tests/torch/setup.sh"
python_weft "$WEFT_SRCDIR/tests/torch/integration.py" --quick

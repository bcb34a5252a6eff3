#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Compressed gradients: codecs of single calls, DDP's hooks in Python and in C++, what is refused.
# timeout: 600
set -u
. "${WEFT_SRCDIR:?}/tests/torch/setup.sh"
python_weft "$WEFT_SRCDIR/tests/torch/compress.py" --sizes 2,4 --seconds 250

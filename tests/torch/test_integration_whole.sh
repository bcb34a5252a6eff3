#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The same with torch.compile and two hundred groups, then the examples.
# timeout: 2400
set -u
. "${WEFT_SRCDIR:?}/tests/torch/setup.sh"
status=0
python_weft "$WEFT_SRCDIR/tests/torch/integration.py" || status=1
python_weft "$WEFT_SRCDIR/tests/torch/integration_examples.py" || status=1
exit $status

#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Meshes that follow the topology, for ranks that are interleaved over two nodes.
# timeout: 300
set -u
. "${WEFT_SRCDIR:?}/tests/torch/setup.sh"
python_weft "$WEFT_SRCDIR/tests/torch/mesh.py" --size 4 --seconds 100

#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# torchrun starts two ranks; one of them kills itself half-way; torchrun restarts both, and they go on from what they saved.
#
#     examples/torch/elastic_torchrun.sh [--backend gloo]
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3}" -m torch.distributed.run --standalone --nproc-per-node 2 --max-restarts 1 --monitor-interval 0.2 \
    "$(dirname "$0")/elastic.py" --folder "$folder" "$@"

#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The Python of the PyTorch front end under ruff, and the package under mypy --strict, where they are installed.
# timeout: 300
set -u
. "${WEFT_SRCDIR:?}/tests/torch/setup.sh"
cd "$WEFT_SRCDIR" || exit 99

missing=''
for tool in ruff mypy; do command -v $tool >/dev/null || missing="$missing $tool"; done
[ -z "$missing" ] || { echo "not installed:$missing (pip install ruff mypy)"; exit 77; }

status=0
check() { # TITLE COMMAND…
    local title=$1
    shift
    if "$@" >"$WEFT_BUILDDIR/torch-lint.log" 2>&1; then echo "ok - $title"; else echo "not ok - $title"; sed 's/^/# /' "$WEFT_BUILDDIR/torch-lint.log"; status=1; fi
}
check "ruff, the package" ruff check --no-cache --config frontends/torch/pyproject.toml frontends/torch
check "ruff, tests and examples" ruff check --no-cache --config tests/torch/pyproject.toml tests/torch examples/torch
check "mypy --strict, the package" mypy --python-executable "$python" --cache-dir "$WEFT_BUILDDIR/torch-mypy" \
    --config-file frontends/torch/pyproject.toml frontends/torch/weft
echo 1..3
exit $status

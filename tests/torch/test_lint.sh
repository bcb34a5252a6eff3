#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The Python of the PyTorch front end under ruff, and the package under mypy --strict, where the Python of the tests has them.
# timeout: 300
set -u
. "${WEFT_SRCDIR:?}/tests/torch/setup.sh"
cd "$WEFT_SRCDIR" || exit 99

missing=''
for tool in ruff mypy; do "$python" -m $tool --version >/dev/null 2>&1 || missing="$missing $tool"; done
[ -z "$missing" ] || { echo "$python has not got:$missing (./bootstrap check installs them; their versions are in tests/torch/tools.txt)"; exit 77; }

status=0
check() { # TITLE COMMAND…
    local title=$1
    shift
    if "$@" >"$WEFT_BUILDDIR/torch-lint.log" 2>&1; then echo "ok - $title"; else echo "not ok - $title"; sed 's/^/# /' "$WEFT_BUILDDIR/torch-lint.log"; status=1; fi
}
check "ruff, the package" "$python" -m ruff check --no-cache --config frontends/torch/pyproject.toml frontends/torch
check "ruff, tests and examples" "$python" -m ruff check --no-cache --config tests/torch/pyproject.toml tests/torch examples/torch
check "mypy --strict, the package" "$python" -m mypy --python-executable "$python" --cache-dir "$WEFT_BUILDDIR/torch-mypy" \
    --config-file frontends/torch/pyproject.toml frontends/torch/weft
echo 1..3
exit $status

#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The Python of the PyTorch front end under ruff, the package under mypy --strict, where the Python of the tests has them, and what
# was compiled.
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
check "ruff, tests and examples" "$python" -m ruff check --no-cache --config tests/torch/pyproject.toml tests/torch tests/bench examples/torch
check "mypy --strict, the package" "$python" -m mypy --python-executable "$python" --cache-dir "$WEFT_BUILDDIR/torch-mypy" \
    --config-file frontends/torch/pyproject.toml frontends/torch/weft
check "_C.pyi says what the module has" "$python" tests/torch/stubs.py
# As tests/lint/hardening.sh has it of the library.
hardened() {
    local f
    f=$(echo "$WEFT_BUILDDIR"/torch-site/weft/_C.*.so)
    readelf -lW "$f" | grep -q GNU_RELRO || { echo "$f: addresses are not read-only once loaded"; return 1; }
    readelf -dW "$f" | grep -qE 'BIND_NOW|FLAGS.*NOW' || { echo "$f: they are not all resolved when loading"; return 1; }
    readelf -lW "$f" | grep -q 'GNU_STACK.* RW ' || { echo "$f: its stack can be executed"; return 1; }
    readelf --dyn-syms -W "$f" | grep -q __stack_chk_fail || { echo "$f: no canaries"; return 1; }
    # Few functions of C++ have checked forms: read() into an array is one.
    readelf --dyn-syms -W "$f" | grep -v __stack_chk | grep -qE '__[a-z0-9]+_chk(@|$)' || { echo "$f: copies are not checked"; return 1; }
}
check "the extension is protected as the library is" hardened
echo 1..5
exit $status

#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The adapter's C++ without an interpreter, with threads for ranks; in a build with sanitizers it is compiled with them as well.
# torch is not: what it does by itself is suppressed.
# timeout: 600
set -u
. "${WEFT_SRCDIR:?}/tests/torch/python.sh"
if ! python_has_torch; then
    echo "$python_why_not"
    exit 77
fi
command -v g++ >/dev/null || { echo "g++ is not installed, which the PyTorch adapter is compiled with"; exit 77; }

here=$WEFT_SRCDIR/tests/torch/cxx
flags=''
case ${WEFT_SANITIZER:-no} in
no) ;;
*) flags="-O1 -g -fno-omit-frame-pointer -fsanitize=${WEFT_SANITIZER} -fno-sanitize=vptr" ;;
esac
export CXX=$WEFT_SRCDIR/tests/torch/kept_cxx.sh WEFT_TEST_OBJECTS=$WEFT_BUILDDIR/torch-objects WEFT_TORCH_LIBRARY=$WEFT_BUILDDIR OMP_NUM_THREADS=1
"$python" "$WEFT_SRCDIR/tests/torch/cxx.py" "$WEFT_BUILDDIR/torch-cxx" $flags || { echo "the tests could not be compiled"; exit 1; }
export TSAN_OPTIONS="suppressions=$here/tsan.supp ${TSAN_OPTIONS:-}" LSAN_OPTIONS="suppressions=$here/lsan.supp ${LSAN_OPTIONS:-}"
# The interceptors of a sanitizer are found before the libraries that torch brings.
exec "$WEFT_BUILDDIR/torch-cxx/test_adapter"

#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The adapter within Python under the address sanitizer: only the adapter is compiled with it, so its runtime is preloaded. What
# Python and torch leave when they end is not looked at.
# timeout: 900
set -u
. "${WEFT_SRCDIR:?}/tests/torch/setup.sh"

runtime=$(g++ -print-file-name=libasan.so)
case $runtime in
/*) ;;
*) echo "g++ has no libasan.so (Debian package libasan8, which comes with g++)"; exit 77 ;;
esac
site=$WEFT_BUILDDIR/torch-asan
rm -rf "$site"
PYTHONPATH='' WEFT_TORCH_CXXFLAGS="-O1 -g -fno-omit-frame-pointer -fsanitize=address" \
    "$python" -m pip install -q --no-build-isolation --no-deps --no-index --target "$site" "$WEFT_SRCDIR/frontends/torch" ||
    { echo "pip could not install $WEFT_SRCDIR/frontends/torch"; exit 1; }
nm -D "$site"/weft/_C.*.so | grep -q __asan_report || { echo "the adapter was not compiled with the sanitizer"; exit 1; }

# C++ exceptions are intercepted from the start only when the C++ library is there from the start.
export PYTHONPATH=$site LD_PRELOAD="$runtime $(g++ -print-file-name=libstdc++.so.6)"
export ASAN_OPTIONS=detect_leaks=0:detect_odr_violation=0:halt_on_error=1:abort_on_error=0 WEFT_TEST_SLOW=$((3 * ${WEFT_TEST_SLOW:-1}))
status=0
for what in backend coalescing; do
    "$python" "$WEFT_SRCDIR/tests/torch/$what.py" --size 2 || status=1
done
exit $status

# SPDX-License-Identifier: BSD-3-Clause
# For tests of the PyTorch backend. Source this file: it ends the test as skipped where there is no PyTorch, else leaves $python,
# which has the package weft, built against the library under test, without touching what is installed.

. "$WEFT_SRCDIR/tests/torch/python.sh"
if ! python_has_torch; then
    echo "$python_why_not"
    exit 77
fi
if ! command -v g++ >/dev/null; then
    echo "g++ is not installed, which the PyTorch adapter is compiled with"
    exit 77
fi
if [ "${WEFT_SANITIZER:-no}" != no ]; then
    echo "the interpreter is not built with the sanitizer"
    exit 77
fi

# The adapter refers to the library in the build folder, so that what is tested is what was built last.
export WEFT_TORCH_BUNDLE=0 WEFT_TORCH_LIBRARY=$WEFT_BUILDDIR WEFT_CACHE_DIR=$WEFT_BUILDDIR/torch-cache PYTHONPATH=$WEFT_BUILDDIR/torch-site
# It is compiled once for all tests that make it from the same sources.
export CXX=$WEFT_SRCDIR/tests/torch/kept_cxx.sh WEFT_TEST_OBJECTS=$WEFT_BUILDDIR/torch-objects
export OMP_NUM_THREADS=1 PYTHONWARNINGS=ignore::FutureWarning
python_weft() { "$python" "$@"; }

# Install into a folder of the build, when sources or interpreter are other ones than last time. One test at a time does it.
install_weft() {
    local site=$WEFT_BUILDDIR/torch-site stamp
    stamp=$({ cd "$WEFT_SRCDIR" && cat frontends/torch/*.* frontends/torch/weft/*.py* frontends/torch/weft/*/*.py frontends/torch/csrc/* include/weft/*.h
        echo "${python_versions:-$(TORCH_DEVICE_BACKEND_AUTOLOAD=0 "$python" -c 'import sys, torch; print(sys.version, torch.__version__)')}"
    } 2>&1 | sha256sum)
    [ "$(cat "$site/.stamp" 2>/dev/null)" = "$stamp" ] && return 0
    rm -rf "$site"
    PYTHONPATH='' "$python" -m pip install -q --no-build-isolation --no-deps --no-index --target "$site" "$WEFT_SRCDIR/frontends/torch" || return 1
    echo "$stamp" >"$site/.stamp"
}
exec 9>"$WEFT_BUILDDIR/torch-site.lock"
flock 9
install_weft || { echo "pip could not install $WEFT_SRCDIR/frontends/torch"; exit 1; }
flock -u 9

#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# timeout: 600
# test_fuzz.sh with seconds where the long tier has minutes, and from the same seed every time: a change that breaks nothing passes.
# Without optimisation, as compiling takes longer than running.
WEFT_TEST_FUZZ_SEED=${WEFT_TEST_FUZZ_SEED-1} WEFT_TEST_FUZZ_SECONDS=${WEFT_TEST_FUZZ_SECONDS-2} \
    WEFT_TEST_FUZZ_OPTIMISE=${WEFT_TEST_FUZZ_OPTIMISE--O0} exec "${BASH:-bash}" "${WEFT_SRCDIR:?}/tests/fuzz/test_fuzz.sh"

#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The transport verbs, over soft-RoCE in a virtual machine: the transport suite, ranks on two hosts' adapters, rails and processes
# that are lost, wrong settings. tests/multi/verbs_inside.sh is what runs there.
# timeout: 600
set -u
cd "${WEFT_BUILDDIR:?}" || exit 99
[ -e .libs/verbs.so ] || { echo "libibverbs was not found when this was configured (Debian package libibverbs-dev)"; exit 77; }
export WEFT_TEST_SLOW=$((3 * ${WEFT_TEST_SLOW:-1})) # it is emulated
exec "${WEFT_SRCDIR:?}/tests/harness/vm.sh" --deadline $((190 * WEFT_TEST_SLOW)) pair bash "$WEFT_SRCDIR/tests/multi/verbs_inside.sh"

#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The transport suite over verbs on one rail, with short queues and nothing inline, and on two rails, in a virtual machine.
# timeout: 600
set -u
cd "${WEFT_BUILDDIR:?}" || exit 99
[ -e .libs/verbs.so ] || { echo "libibverbs was not found when this was configured (Debian package libibverbs-dev)"; exit 77; }
export WEFT_TEST_SLOW=$((3 * ${WEFT_TEST_SLOW:-1})) # it is emulated
exec "${WEFT_SRCDIR:?}/tests/harness/vm.sh" --deadline $((190 * WEFT_TEST_SLOW)) pair tests/conform/transport_verbs_long

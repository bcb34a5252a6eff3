# SPDX-License-Identifier: BSD-3-Clause
# The parts of libweft_zero, and engines over real ranks.

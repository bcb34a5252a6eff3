/* SPDX-License-Identifier: BSD-3-Clause */
#include "zero/optim.h"
int wi_zero_placeholder;

/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks of what errors say. */
#ifndef WT_SAYS_H
#define WT_SAYS_H

#include <string.h>
#include <weft/weft.h>

#include "harness.h"

#define WT_CHECK_IN(what, text)                                                                    \
    do {                                                                                           \
        if (!strstr(text, what))                                                                   \
            wt_fail(__FILE__, __LINE__, "\"%s\" is not in: %s", what, text);                       \
    } while (0)
/* The call fails with this status, and the text is in the thread's error. */
#define SAYS(call, status, text)                                                                   \
    do {                                                                                           \
        WT_CHECK_STATUS(call, status);                                                             \
        WT_CHECK_IN(text, weft_thread_error());                                                    \
    } while (0)

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* Failures of this library in libweft's place for them: each library has its own src/base, and programs ask weft_thread_error. */
#ifndef WI_ZERO_PUBLISH_H
#define WI_ZERO_PUBLISH_H

#include <weft/weft.h>

/* At the end of each public call: the text of a failure since wi_fail_count() was `since` becomes the thread's. Returns status. */
weft_status wi_zero_publish(unsigned since, weft_status status);

#endif

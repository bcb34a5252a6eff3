/* SPDX-License-Identifier: BSD-3-Clause */
#include "zero/common/publish.h"

#include <weft/weft_client.h>

#include "base/status.h"

weft_status wi_zero_publish(unsigned since, weft_status st)
{
    if (st < 0 && wi_fail_count() != since)
        weft_thread_error_set(st, wi_fail_text());
    return st;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* The calling thread's newest failure text. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* strerror_r that returns a string */
#endif
#include "base/status.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"

#define FAIL_TEXT_BYTES 1024

static _Thread_local char fail_text[FAIL_TEXT_BYTES];
static _Thread_local unsigned fail_count;

/* The arguments may point into fail_text itself, hence the second buffer. */
static void fail_record(const char *format, va_list ap, const char *suffix)
{
    char text[FAIL_TEXT_BYTES];
    int written = vsnprintf(text, sizeof(text), format, ap);

    fail_count++;
    if (written < 0)
        text[0] = '\0';
    snprintf(fail_text, sizeof(fail_text), "%s%s%s", text, *suffix ? ": " : "", suffix);
}

weft_status wi_fail(weft_status status, const char *format, ...)
{
    va_list ap;

    va_start(ap, format);
    fail_record(format, ap, "");
    va_end(ap);
    wi_log(WEFT_LOG_DEBUG, "base.fail", "%s: %s", weft_status_name(status), fail_text);
    return status;
}

const char *wi_fail_text(void)
{
    return fail_text;
}

void wi_fail_clear(void)
{
    fail_text[0] = '\0';
}

unsigned wi_fail_count(void)
{
    return fail_count;
}

const char *wi_fail_text_since(unsigned count, weft_status status)
{
    return fail_count != count && *fail_text ? fail_text : weft_status_text(status);
}

static weft_status status_of_errno(int err)
{
    switch (err) {
    case ENOMEM:
        return WEFT_ENOMEM;
    case EMFILE:
    case ENFILE:
        return WEFT_ENOFILES;
    case ENOSPC:
        return WEFT_ENOSPC;
    default:
        return WEFT_ESYS;
    }
}

weft_status wi_fail_errno(int err, const char *format, ...)
{
    weft_status status = status_of_errno(err);
    char buffer[128];
    va_list ap;

    va_start(ap, format);
    fail_record(format, ap, strerror_r(err, buffer, sizeof(buffer)));
    va_end(ap);
    wi_log(WEFT_LOG_DEBUG, "base.fail", "%s: %s", weft_status_name(status), fail_text);
    return status;
}

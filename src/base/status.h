/* SPDX-License-Identifier: BSD-3-Clause */
/* Errors inside the library: how a failure's details reach the user. */
#ifndef WI_BASE_STATUS_H
#define WI_BASE_STATUS_H

#include <weft/weft.h>

/* Forward a failure. Only before the function owns resources. */
#define WI_TRY(expr)                                                                               \
    do {                                                                                           \
        weft_status wi_try_st = (expr);                                                            \
        if (wi_try_st < 0)                                                                         \
            return wi_try_st;                                                                      \
    } while (0)

/* Record why the calling thread's current call fails (thread-local, newest wins) and return `status`. The
 * detector calls this; everybody else forwards the status. comm copies the text into its weft_error. */
weft_status wi_fail(weft_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The recorded text ("" if none), and forget it. */
const char *wi_fail_text(void);
void wi_fail_clear(void);
/* How often the calling thread has recorded one: whether what was called since has explained its failure shows without the newest
 * text being forgotten, which is still the program's to read. */
unsigned wi_fail_count(void);
/* The text, if one was recorded since the count was `count`; else that of the status. */
const char *wi_fail_text_since(unsigned count, weft_status status);

/* Map errno to a status (ENOMEM, EMFILE/ENFILE, ENOSPC, else ESYS) and record "<what>: <strerror>". */
weft_status wi_fail_errno(int err, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif

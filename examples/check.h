/* What the examples do with a failure: print it and end.
 * SPDX-License-Identifier: BSD-3-Clause */
#ifndef WEFT_EXAMPLE_CHECK_H
#define WEFT_EXAMPLE_CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <weft/weft.h>

/* `comm` may be NULL: then the calling thread's newest failure is shown. */
static inline void check(weft_status status, const weft_comm *comm, const char *what)
{
    weft_error error = WEFT_ERROR_INIT;

    if (status >= 0)
        return;
    if (comm && weft_last_error(comm, &error) == WEFT_SUCCESS && error.message)
        fprintf(stderr, "%s: %s: %s (%s)\n", what, weft_status_text(status), error.message,
                error.advice ? error.advice : "");
    else
        fprintf(stderr, "%s: %s: %s\n", what, weft_status_text(status), weft_thread_error());
    exit(1);
}

#define CHECK(call) check((call), comm, #call)

static inline void expect(int good, const char *what)
{
    if (good)
        return;
    fprintf(stderr, "wrong result: %s\n", what);
    exit(1);
}

#endif

/* Settings that a test gave and the library does not know.
 * SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>
#include <weft/weft.h>

#include "tests/harness/harness.h"

struct search {
    const char *setting; /* NAME=value, with WEFT_ or without */
    int found;
};

static void compare(void *arg, const char *name, const char *value, const char *default_value, const char *origin,
                    const char *help)
{
    struct search *s = arg;
    size_t n = strcspn(s->setting, "=");

    (void)value, (void)default_value, (void)origin, (void)help;
    if (strncmp(s->setting, "WEFT_", 5) != 0)
        name += 5;
    s->found |= strlen(name) == n && !strncmp(name, s->setting, n);
}

void wt_check_settings(struct weft_context *context, const char *const *settings)
{
    for (; settings && *settings; settings++) {
        struct search s = {*settings, 0};
        WT_CHECK_OK(weft_context_settings(context, compare, &s));
        if (!s.found)
            wt_fail(__FILE__, __LINE__, "%s: no such setting", *settings);
    }
}

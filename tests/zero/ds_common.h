/* SPDX-License-Identifier: BSD-3-Clause */
/* What tests of configurations share: reading texts that are right, or wrong in one way; looking into the normalised text. */
#ifndef WEFT_TESTS_ZERO_DS_COMMON_H
#define WEFT_TESTS_ZERO_DS_COMMON_H

#include <jansson.h>
#include <stdarg.h>
#include <weft/weft_zero_config.h>

#include "base/status.h"
#include "tests/unit/unit.h"

__attribute__((unused)) static weft_zero_ds_config *wt_ds_read(const char *text, int nranks)
{
    weft_zero_ds_config *c = NULL;
    weft_status st = weft_zero_ds_config_read(text, "ds.json", nranks, NULL, &c);

    if (st != WEFT_SUCCESS)
        printf("# %s\n", wi_fail_text());
    CU_ASSERT_EQUAL_FATAL(st, WEFT_SUCCESS);
    return c;
}

/* A configuration of one rank with these members beside the batch size. */
__attribute__((unused, format(printf, 1, 2))) static weft_zero_ds_config *wt_ds_with(const char *format, ...)
{
    char members[2048], text[2200];
    va_list ap;

    va_start(ap, format);
    vsnprintf(members, sizeof(members), format, ap);
    va_end(ap);
    snprintf(text, sizeof(text), "{\"train_micro_batch_size_per_gpu\": 1, %s}", members);
    return wt_ds_read(text, 1);
}

/* It is refused with a text that has `why` in it, and nothing is returned. */
__attribute__((unused)) static void wt_ds_refused(const char *text, int nranks, const char *why)
{
    weft_zero_ds_config *c = NULL;
    weft_status st = weft_zero_ds_config_read(text, "ds.json", nranks, NULL, &c);

    CU_ASSERT_EQUAL(st, WEFT_EINVAL);
    CU_ASSERT_PTR_NULL(c);
    CU_ASSERT(!strncmp(wi_fail_text(), "ds.json", 7));
    if (!strstr(wi_fail_text(), why)) {
        printf("# wanted: %s\n# got: %s\n", why, wi_fail_text());
        CU_FAIL("another text");
    }
    weft_zero_ds_config_free(c);
}

__attribute__((unused)) static void wt_ds_refused_with(const char *members, const char *why)
{
    char text[2200];

    snprintf(text, sizeof(text), "{%s, \"train_micro_batch_size_per_gpu\": 1}", members);
    wt_ds_refused(text, 1, why);
}

__attribute__((unused)) static int wt_ds_warnings(const weft_zero_ds_config *c)
{
    int n = 0;

    while (weft_zero_ds_config_warning(c, n))
        n++;
    return n;
}

__attribute__((unused)) static void wt_ds_warned(const weft_zero_ds_config *c, const char *what)
{
    for (int i = 0; weft_zero_ds_config_warning(c, i); i++)
        if (strstr(weft_zero_ds_config_warning(c, i), what))
            return;
    printf("# no warning: %s\n", what);
    CU_FAIL("a warning is missing");
}

/* What stands at "a.b.c" in the normalised text; json NULL: nothing. */
__attribute__((unused)) static void wt_ds_text_has(const weft_zero_ds_config *c, const char *path, const char *json)
{
    json_t *root = json_loads(weft_zero_ds_config_text(c), 0, NULL), *at = root;
    char name[128], *dumped;

    CU_ASSERT_PTR_NOT_NULL_FATAL(root);
    for (const char *from = path; at && from; from = strchr(from, '.') ? strchr(from, '.') + 1 : NULL) {
        snprintf(name, sizeof(name), "%.*s", (int)strcspn(from, "."), from);
        at = json_object_get(at, name);
    }
    dumped = at ? json_dumps(at, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;
    if (!json != !dumped || (json && strcmp(json, dumped))) {
        printf("# %s is %s, not %s\n", path, dumped ? dumped : "not there", json ? json : "nothing");
        CU_FAIL("another value");
    }
    free(dumped);
    json_decref(root);
}

__attribute__((unused)) static int wt_ds_same(const char *a, const char *b)
{
    return a && b ? !strcmp(a, b) : a == b;
}

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* Parts of a model (config.model) and their folders of checkpoints: each part has its own. Their tensors may have the same names,
 * and each part commits its versions by itself. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/status.h"
#include "zero/tensors.h"

/* One number for all ways to name a folder, which need not exist. */
static uint64_t folder_number(const char *folder)
{
    char here[PATH_MAX] = "", *real = realpath(folder, NULL);
    uint64_t hash = 3;

    if (real) {
        hash = wi_hash64(real, strlen(real), hash);
        free(real);
        return hash;
    }
    if (*folder != '/' && getcwd(here, sizeof here))
        hash = wi_hash64(here, strlen(here), hash);
    return wi_hash64(folder, strlen(folder), hash);
}

weft_status wi_zero_parts_apart(weft_zero *zero, const char *folder, const char *call)
{
    uint64_t mine = folder_number(folder), *all;
    weft_call_options options;
    weft_call request;
    int n;

    if (!zero->model)
        return WEFT_SUCCESS;
    WI_TRY(weft_comm_size(zero->model, &n));
    all = wi_calloc((size_t)n, sizeof *all);
    if (!all)
        return wi_fail(WEFT_ENOMEM, "zero: %s: out of memory", call);
    wi_zero_call(&request, &options, WEFT_KIND_ALL_GATHER, &mine, all, 1, WEFT_UINT64, "folders of a model's parts");
    weft_status st = weft_issue(zero->model, &request, NULL);

    if (st < 0)
        st = wi_zero_broke(zero, st, "%s: folders of a model's parts", call);
    for (int a = 0; st >= 0 && a < n; a++)
        for (int b = a + 1; st >= 0 && b < n; b++)
            if (all[a] == all[b])
                st = wi_fail(
                    WEFT_EINVAL,
                    "zero: %s: ranks %d and %d of config.model, which have different parts of it, %s one folder; give "
                    "each part a folder of its own, \"%.200s/part%d\" say",
                    call, a, b, strcmp(call, "load") ? "save into" : "load from", folder, a);
    wi_free(all);
    return st;
}

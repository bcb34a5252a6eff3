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

/* How a rank has fared, and its folder. */
struct part {
    uint64_t folder;
    int64_t status;
};

static weft_status compare(const struct part *all, int n, const char *folder, const char *call)
{
    for (int a = 0; a < n; a++)
        if (all[a].status < 0)
            return wi_fail((weft_status)all[a].status,
                           "zero: %s: rank %d of config.model, which has another part of it, has failed: %s", call, a,
                           weft_status_text((weft_status)all[a].status));
    for (int a = 0; a < n; a++)
        for (int b = a + 1; b < n; b++)
            if (all[a].folder == all[b].folder)
                return wi_fail(
                    WEFT_EINVAL,
                    "zero: %s: ranks %d and %d of config.model, which have different parts of it, %s one folder; give "
                    "each part a folder of its own, \"%.200s/part%d\" say",
                    call, a, b, strcmp(call, "load") ? "save into" : "load from", folder, a);
    return WEFT_SUCCESS;
}

weft_status wi_zero_parts_apart(weft_zero *zero, weft_status own, const char *folder, const char *call)
{
    struct part mine = {folder ? folder_number(folder) : 0, own}, *all;
    weft_call_options options;
    weft_call request;
    int n;

    if (!zero->model)
        return own;
    WI_TRY(weft_comm_size(zero->model, &n));
    all = wi_calloc((size_t)n, sizeof *all);
    if (!all)
        return wi_fail(WEFT_ENOMEM, "zero: %s: out of memory", call);
    wi_zero_call(&request, &options, WEFT_KIND_ALL_GATHER, &mine, all, sizeof mine / sizeof(uint64_t), WEFT_UINT64,
                 "folders of a model's parts");
    weft_status st = weft_issue(zero->model, &request, NULL);

    if (st < 0)
        st = wi_zero_broke(zero, st, "%s: folders of a model's parts", call);
    else
        st = own < 0 ? own : compare(all, n, folder, call);
    wi_free(all);
    return st;
}

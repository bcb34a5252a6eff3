/* SPDX-License-Identifier: BSD-3-Clause */
/* Whether all ranks mean the same: configurations, models, and how they fared. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/status.h"
#include "base/text.h"
#include "zero/common/config_fields.h"
#include "zero/zero.h"

weft_status wi_zero_gather_bytes(weft_zero *zero, const void *mine, void *all, size_t bytes, const char *label)
{
    weft_call_options options = WEFT_CALL_OPTIONS_INIT;
    weft_call call = WEFT_CALL_INIT;

    options.label = label;
    call.kind = WEFT_KIND_ALL_GATHER;
    call.dtype = WEFT_UINT8;
    call.src = mine;
    call.dst = all;
    call.count = bytes;
    call.options = &options;
    weft_status st = weft_issue(zero->world, &call, NULL);

    return st < 0 ? wi_zero_broke(zero, st, "%s", label) : st;
}

weft_status wi_zero_agree(weft_zero *zero, weft_status own, const char *call)
{
    enum { TEXT = 240 };
    struct fared {
        int32_t status;
        char text[TEXT];
    } mine = {own, ""}, *all = wi_calloc((size_t)zero->nranks, sizeof *all);
    weft_status st = all ? WEFT_SUCCESS : wi_fail(WEFT_ENOMEM, "zero: %s: out of memory", call);

    if (own < 0)
        snprintf(mine.text, sizeof mine.text, "%.*s", TEXT - 1, wi_fail_text());
    if (all)
        st = wi_zero_gather_bytes(zero, &mine, all, sizeof mine, call);
    for (int r = 0; st >= 0 && own >= 0 && r < zero->nranks; r++) {
        if (all[r].status >= 0)
            continue;
        all[r].text[TEXT - 1] = '\0';
        wi_text_sanitize(all[r].text, TEXT);
        st = wi_fail((weft_status)all[r].status, "rank %d: %s", r, all[r].text);
    }
    wi_free(all);
    return own < 0 ? own : st;
}

/* ---- Configurations ---- */

weft_status wi_zero_compare_config(weft_zero *zero)
{
    double mine[WI_ZERO_NFIELDS], *all = wi_calloc((size_t)zero->nranks, sizeof mine);

    if (!all)
        return wi_fail(WEFT_ENOMEM, "zero: create: out of memory");
    for (int i = 0; i < WI_ZERO_NFIELDS; i++) {
        const struct wi_zero_field *field = &wi_zero_fields[i];
        int counts = field->flags & WI_ZERO_AGREED && (zero->config.offload_folder || !(field->flags & WI_ZERO_FILED));

        mine[i] = counts ? wi_zero_field_number(&zero->config, field) : 0;
    }
    weft_status st = wi_zero_gather_bytes(zero, mine, all, sizeof mine, "create");

    for (int r = 1; st >= 0 && r < zero->nranks; r++)
        for (int i = 0; st >= 0 && i < WI_ZERO_NFIELDS; i++)
            if (all[r * WI_ZERO_NFIELDS + i] != all[i])
                st = wi_fail(WEFT_EMISMATCH, "zero: create: %s%s of rank %d is not that of rank 0 (%.17g, %.17g)",
                             wi_zero_fields[i].name,
                             wi_zero_fields[i].kind == WI_ZERO_FIELD_HANDLE ? " (whether it is set)" : "", r,
                             all[r * WI_ZERO_NFIELDS + i], all[i]);
    wi_free(all);
    return st;
}

/* ---- Models ---- */

enum { MODEL_TEXT = 160 };

static void describe_param(const weft_zero *zero, int i, char *text)
{
    const struct wi_zero_param *p = &zero->params[i];
    int at = snprintf(text, MODEL_TEXT, "parameter %d, \"%.60s\", %s [", i, p->name, weft_dtype_name(p->dtype));

    for (int d = 0; d < p->ndims && at < MODEL_TEXT; d++)
        at += snprintf(text + at, (size_t)(MODEL_TEXT - at), "%s%zu", d ? ", " : "", p->shape[d]);
    if (at < MODEL_TEXT)
        snprintf(text + at, (size_t)(MODEL_TEXT - at), "]%s%s in unit %d, %s",
                 p->flags & WEFT_ZERO_FROZEN ? " frozen" : "", p->flags & WEFT_ZERO_WHOLE ? " whole" : "", p->unit,
                 p->ops ? wi_optim_name(p->ops->kind) : "not trained");
}

static uint64_t hash_param(const struct wi_zero_param *p)
{
    uint64_t facts[] = {(uint64_t)p->dtype,
                        (uint64_t)p->ndims,
                        p->flags,
                        (uint64_t)p->group,
                        (uint64_t)p->unit,
                        p->cut,
                        (uint64_t)(p->saved != NULL),
                        p->ops ? (uint64_t)p->ops->kind : 0};
    uint64_t hash = wi_hash64(p->name, strlen(p->name), 7);

    if (p->saved && !(p->flags & WEFT_ZERO_EXPERT)) /* experts' are other ones */
        hash = wi_hash64(p->saved, strlen(p->saved), hash);

    hash = wi_hash64(facts, sizeof facts, hash);
    return wi_hash64(p->shape, sizeof p->shape[0] * (size_t)p->ndims, hash);
}

/* What a rank has said of its model: how much, and the hash of all of it. */
struct model {
    uint64_t nparams, nunits, hash;
};

static struct model sum_up(const weft_zero *zero, uint64_t *hashes)
{
    struct model model = {(uint64_t)zero->nparams, (uint64_t)zero->nunits, 11};

    for (int i = 0; i < zero->nparams; i++)
        hashes[i] = hash_param(&zero->params[i]);
    for (int u = 0; u < zero->nunits; u++)
        hashes[zero->nparams + u] = wi_hash64(zero->units[u].name, strlen(zero->units[u].name), 13);
    model.hash = wi_hash64(hashes, sizeof *hashes * (size_t)(zero->nparams + zero->nunits), model.hash);
    return model;
}

/* Ranks whose models are of one length find the first entry that is not rank 0's, and say what they have there. */
static weft_status first_difference(weft_zero *zero, const uint64_t *hashes, int odd)
{
    size_t n = (size_t)(zero->nparams + zero->nunits);
    uint64_t *theirs = wi_calloc((size_t)zero->nranks * n, sizeof *theirs);
    char *texts = wi_calloc((size_t)zero->nranks, MODEL_TEXT), mine[MODEL_TEXT] = "";
    weft_status st = theirs && texts ? WEFT_SUCCESS : wi_fail(WEFT_ENOMEM, "zero: seal: out of memory");
    size_t at = 0;

    if (st >= 0)
        st = wi_zero_gather_bytes(zero, hashes, theirs, n * sizeof *theirs, "seal: what differs");
    while (st >= 0 && at < n && theirs[(size_t)odd * n + at] == theirs[at])
        at++;
    if (st >= 0 && at < (size_t)zero->nparams)
        describe_param(zero, (int)at, mine);
    else if (st >= 0 && at < n)
        snprintf(mine, sizeof mine, "unit %zu, \"%.60s\"", at - (size_t)zero->nparams,
                 zero->units[at - (size_t)zero->nparams].name);
    if (st >= 0)
        st = wi_zero_gather_bytes(zero, mine, texts, MODEL_TEXT, "seal: how it differs");
    if (st >= 0) {
        char *first = texts, *other = texts + (size_t)odd * MODEL_TEXT;

        first[MODEL_TEXT - 1] = other[MODEL_TEXT - 1] = '\0';
        wi_text_sanitize(first, MODEL_TEXT);
        wi_text_sanitize(other, MODEL_TEXT);
        st = wi_fail(WEFT_EMISMATCH, "zero: seal: rank %d has another model than rank 0: %s; rank 0: %s", odd, other,
                     first);
    }
    wi_free(theirs);
    wi_free(texts);
    return st;
}

weft_status wi_zero_compare_model(weft_zero *zero)
{
    uint64_t *hashes = wi_calloc((size_t)(zero->nparams + zero->nunits) + 1, sizeof *hashes);
    struct model mine, *all = wi_calloc((size_t)zero->nranks, sizeof *all);
    weft_status st = hashes && all ? WEFT_SUCCESS : wi_fail(WEFT_ENOMEM, "zero: seal: out of memory");

    if (st >= 0) {
        mine = sum_up(zero, hashes);
        st = wi_zero_gather_bytes(zero, &mine, all, sizeof mine, "seal");
    }
    for (int r = 1; st >= 0 && r < zero->nranks; r++)
        if (all[r].nparams != all[0].nparams || all[r].nunits != all[0].nunits)
            st = wi_fail(WEFT_EMISMATCH,
                         "zero: seal: rank %d has %llu parameters in %llu units, rank 0 has %llu in %llu", r,
                         (unsigned long long)all[r].nparams, (unsigned long long)all[r].nunits,
                         (unsigned long long)all[0].nparams, (unsigned long long)all[0].nunits);
    for (int r = 1; st >= 0 && r < zero->nranks; r++)
        if (all[r].hash != all[0].hash)
            st = first_difference(zero, hashes, r);
    wi_free(hashes);
    wi_free(all);
    return st;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Programs from files: reading, finding by name, and what they ask of a call. */
#include "comm/plans.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/status.h"
#include "import/import.h"

#define MAX_FILES 64
#define PREFIX "file:"

struct program {
    struct wi_algo algo;
    char name[WI_ALGO_SPEC_BYTES];
    struct wi_import *import;
    const char *path;
    int peer_buf[2]; /* do ranks use other ranks' SRC, DST? */
};

struct wi_plans {
    int count;
    struct program *list;
    char *paths; /* cut at the commas */
    uint64_t hash;
};

/* ---- Reading ---- */

/* Stores into the memory of other ranks, and sums that read it, need it mapped; for copies it is enough to get it. */
static weft_status find_needs(struct program *p, unsigned *found)
{
    const struct wi_sched *const *scheds = (const struct wi_sched *const *)p->import->scheds;
    unsigned needs = WI_ALGO_UNIFORM;
    weft_status st;

    if (p->import->coll == WI_COLL_ALL_REDUCE || p->import->coll == WI_COLL_REDUCE ||
        p->import->coll == WI_COLL_REDUCE_SCATTER)
        needs |= WI_ALGO_COMMUTATIVE;
    for (int r = 0; r < p->import->nranks; r++) {
        const struct wi_sched *s = p->import->scheds[r];
        if (s->mapped)
            needs |= WI_ALGO_MAPPED;
        for (uint32_t i = 0; i < s->nsteps; i++) {
            const struct wi_step *step = &s->steps[i];
            int plain = step->kind == WI_STEP_COPY && step->ndst == 1;
            for (uint32_t k = 0; k < (uint32_t)step->ndst + step->nsrc; k++) {
                int stored = k < step->ndst;
                const struct wi_region *region = &s->regions[stored ? step->dst + k : step->src + k - step->ndst];
                if (region->rank == WI_SELF || region->buf == WI_TMP)
                    continue;
                p->peer_buf[region->buf] = 1;
                needs |= stored || !plain ? WI_ALGO_PEER_MEM : WI_ALGO_PEER_GET;
            }
        }
    }
    st = wi_sched_check(scheds, p->import->nranks, WI_SCHED_ALIKE); /* all else was proved when it was read */
    if (st == WEFT_ENOMEM)
        return st;
    if (st < 0) {
        needs |= WI_ALGO_EXACT;
        wi_fail_clear();
    }
    *found = needs;
    return WEFT_SUCCESS;
}

/* Which of the two flavours a call wants is known on the root only where there is one. */
static int alike(const struct program *a, const struct program *b)
{
    return !strcmp(a->name, b->name) && a->import->coll == b->import->coll && a->import->nranks == b->import->nranks &&
           (wi_coll_has_root(a->import->coll) ? a->import->root == b->import->root
                                              : a->import->in_place == b->import->in_place);
}

static weft_status take(struct wi_plans *plans, const char *path, struct wi_import *import)
{
    struct program *p = &plans->list[plans->count++];

    p->import = import;
    p->path = path;
    if (strlen(import->name) + sizeof PREFIX > sizeof p->name)
        return wi_fail(WEFT_ECONFIG, "WEFT_PLANS: %s: the name \"%s\" has more than %zu characters", path, import->name,
                       sizeof p->name - sizeof PREFIX);
    snprintf(p->name, sizeof p->name, PREFIX "%.*s", (int)(sizeof p->name - sizeof PREFIX), import->name);
    for (struct program *other = plans->list; other < p; other++)
        if (alike(other, p))
            return wi_fail(WEFT_ECONFIG, "WEFT_PLANS: %s and %s both have a program \"%s\" for %s of %d ranks",
                           other->path, path, import->name, wi_coll_name(import->coll), import->nranks);
    p->algo = (struct wi_algo){.name = p->name, .coll = import->coll, .summary = "from a file"};
    WI_TRY(find_needs(p, &p->algo.needs));
    plans->hash += import->hash;
    wi_log(WEFT_LOG_INFO, "plans.read", "%s: %s, %s of %d ranks, proved", path, p->name, wi_coll_name(import->coll),
           import->nranks);
    return WEFT_SUCCESS;
}

static weft_status read_one(struct wi_plans *plans, const char *path)
{
    const char *paths[] = {path};
    struct wi_import *import, *variant;
    weft_status st;
    char why[1024];

    if (plans->count + 2 > MAX_FILES)
        return wi_fail(WEFT_ECONFIG, "WEFT_PLANS: more than %d programs", MAX_FILES - 2);
    if (wi_import_files(paths, 1, &import) < 0) {
        snprintf(why, sizeof why, "%s", wi_fail_text());
        return wi_fail(WEFT_ECONFIG, "WEFT_PLANS: %s", why);
    }
    variant = import->in_place_variant;
    import->in_place_variant = NULL;
    if (import->variant_refused[0])
        wi_log(WEFT_LOG_WARN, "plans.half", "for calls %s only: %s",
               import->in_place ? "in place" : "that are not in place", import->variant_refused);
    st = take(plans, path, import);
    if (!variant)
        return st;
    if (st < 0)
        wi_import_free(variant);
    return st < 0 ? st : take(plans, path, variant);
}

weft_status wi_plans_read(const char *paths, struct wi_plans **out)
{
    struct wi_plans *plans = wi_calloc(1, sizeof *plans);
    weft_status st = WEFT_SUCCESS;
    char *save = NULL;

    if (plans) {
        plans->paths = wi_strdup(paths);
        plans->list = wi_calloc(MAX_FILES, sizeof *plans->list);
    }
    if (!plans || !plans->paths || !plans->list) {
        wi_plans_free(plans);
        return wi_fail(WEFT_ENOMEM, "WEFT_PLANS");
    }
    for (char *t = strtok_r(plans->paths, ",", &save); t && st >= 0; t = strtok_r(NULL, ",", &save))
        st = read_one(plans, t);
    if (st < 0) {
        wi_plans_free(plans);
        return st;
    }
    *out = plans;
    return WEFT_SUCCESS;
}

void wi_plans_free(struct wi_plans *plans)
{
    if (!plans)
        return;
    for (int i = 0; i < plans->count; i++)
        wi_import_free(plans->list[i].import);
    wi_free(plans->list);
    wi_free(plans->paths);
    wi_free(plans);
}

uint64_t wi_plans_hash(const struct wi_plans *plans)
{
    return plans->hash;
}

/* ---- Finding ---- */

static weft_status none_of(const struct wi_plans *plans, enum wi_coll coll, const char *name)
{
    char there[256] = "";
    size_t at = 0;

    for (int i = 0; i < plans->count && at < sizeof there; i++)
        if (plans->list[i].algo.coll == coll)
            at += (size_t)snprintf(there + at, sizeof there - at, "%s%s", at ? ", " : "", plans->list[i].name);
    return wi_fail(WEFT_ENOTFOUND, "no program \"%s\" for %s in WEFT_PLANS (there are: %s)", name, wi_coll_name(coll),
                   at ? there : "none");
}

/* Ranks other than the root do not know whether the root's call is in place. */
static const char *misfit(const struct program *p, const struct wi_plan_query *q, int nranks, char *text, size_t bytes)
{
    const struct wi_import *import = p->import;

    if (import->nranks != nranks)
        snprintf(text, bytes, "it is for %d ranks, and these are %d", import->nranks, nranks);
    else if (wi_coll_has_root(import->coll) && import->root != q->root)
        snprintf(text, bytes, "its root is rank %d, not %d", import->root, q->root);
    else if (import->in_place != q->own_in_place && (!wi_coll_has_root(import->coll) || q->is_root))
        snprintf(text, bytes, "it is for calls %s", import->in_place ? "in place" : "that are not in place");
    else
        return NULL;
    return text;
}

weft_status wi_plans_find(const void *arg, const struct wi_plan_query *q, int nranks, const char *name,
                          const struct wi_algo **algo)
{
    const struct wi_plans *plans = arg;
    char text[128] = "";

    for (int i = 0; i < plans->count; i++) {
        struct program *p = &plans->list[i];
        if (p->algo.coll != q->coll || strcmp(p->name, name) != 0)
            continue;
        if (p->import->nranks == nranks)
            *algo = &p->algo;
        if (!misfit(p, q, nranks, text, sizeof text))
            return WEFT_SUCCESS;
    }
    if (text[0])
        return wi_fail(WEFT_ENOTSUP, "algorithm \"%s\" cannot do this %s: %s", name, wi_coll_name(q->coll), text);
    return none_of(plans, q->coll, name);
}

weft_status wi_plans_exists(const struct wi_plans *plans, enum wi_coll coll, const char *name)
{
    if (!plans)
        return wi_fail(WEFT_ENOTFOUND, "no algorithm \"%s\": WEFT_PLANS names no files", name);
    for (int i = 0; i < plans->count; i++)
        if (plans->list[i].algo.coll == coll && strcmp(plans->list[i].name, name) == 0)
            return WEFT_SUCCESS;
    return none_of(plans, coll, name);
}

static const struct program *program_of(const struct wi_plans *plans, const struct wi_algo *algo)
{
    for (int i = 0; i < plans->count; i++)
        if (&plans->list[i].algo == algo)
            return &plans->list[i];
    return NULL;
}

struct wi_sched *wi_plans_schedule(const struct wi_plans *plans, const struct wi_algo *algo, int rank)
{
    const struct program *p = program_of(plans, algo);

    return p ? p->import->scheds[rank] : NULL;
}

int wi_plans_touches(const struct wi_plans *plans, const struct wi_algo *algo, int rank, int buf)
{
    const struct program *p = program_of(plans, algo);

    return p && p->peer_buf[buf] && p->import->scheds[rank]->buf_blocks[buf] > 0;
}

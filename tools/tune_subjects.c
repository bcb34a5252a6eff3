/* SPDX-License-Identifier: BSD-3-Clause */
/* weft-tune: the algorithms that are measured, and the communicators and buffers they are measured with.
 *
 * An algorithm is measured as programs get it: by a communicator whose WEFT_ALGO names it. One communicator names one
 * algorithm of every collective, so there are as many as the collective with most algorithms has, and they live as long as
 * the run: rounds over all points would else open each of them again and again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "weft_tune.h"

#define PEER (WI_ALGO_PEER_MEM | WI_ALGO_PEER_GET)

/* All that could ever be chosen for this collective. Those that reach into other ranks' memory come first, so that few
 * slots need such memory. */
static weft_status find_subjects(struct tune *t, enum wi_coll coll)
{
    struct wi_plan_query q = {.coll = coll, .bytes = 1u << 20, .memory = WI_MEMORY_MAPPED};
    struct wi_plan_candidate *list;
    int n;

    WI_TRY(wi_plan_candidates(t->planner, &q, &list, &n));
    for (int peer = 1; peer >= 0; peer--) {
        for (int i = 0; i < n && t->nsubjects[coll] < TUNE_MAX_ALGOS; i++) {
            struct tune_subject *s = &t->subjects[coll][t->nsubjects[coll]];
            if (list[i].why_not || ((list[i].choice.needs & PEER) != 0) != peer)
                continue;
            strcpy(s->name, wi_algo_choice_name(&list[i].choice));
            s->needs = list[i].choice.needs;
            t->nsubjects[coll]++;
        }
    }
    wi_free(list);
    return WEFT_SUCCESS;
}

static int gather_for(void *arg, const void *mine, size_t bytes, void *all, uint64_t timeout_ns)
{
    const struct tune *t = arg;

    (void)timeout_ns;
    return weft_all_gather(t->comm, mine, all, bytes, WEFT_UINT8, NULL) != WEFT_SUCCESS;
}

static weft_status open_slot(struct tune *t, struct tune_slot *s, const char *setting)
{
    const char *settings[] = {setting, NULL};
    weft_context_config cc = WEFT_CONTEXT_CONFIG_INIT;
    weft_oob oob = {sizeof oob, t->rank, t->nranks, gather_for, t};

    cc.flags = WEFT_CONTEXT_NO_PROGRESS_THREAD;
    cc.settings = settings;
    WI_TRY(weft_context_create(&cc, &s->ctx));
    return weft_comm_create_oob(s->ctx, &oob, NULL, &s->comm);
}

/* "all_reduce:ring,reduce:chain,...": the number-th algorithm of each. */
static void rules_of(const struct tune *t, int number, char *text, size_t capacity)
{
    size_t at = (size_t)snprintf(text, capacity, "WEFT_ALGO=");
    int n = 0;

    for (int c = 0; c < WI_NUM_COLLS; c++)
        if (number < t->nsubjects[c] && at < capacity)
            at += (size_t)snprintf(text + at, capacity - at, "%s%s:%s", n++ ? "," : "", wi_coll_name((enum wi_coll)c),
                                   t->subjects[c][number].name);
}

weft_status tune_open_subjects(struct tune *t)
{
    char setting[4096];

    for (int c = 0; c < WI_NUM_COLLS; c++) {
        if (t->o.colls[c])
            WI_TRY(find_subjects(t, (enum wi_coll)c));
        if (t->nsubjects[c] > t->nslots)
            t->nslots = t->nsubjects[c];
    }
    for (int i = 0; i < t->nslots; i++) {
        rules_of(t, i, setting, sizeof setting);
        WI_TRY(open_slot(t, &t->slots[i], setting));
    }
    if (!t->chooser)
        return WEFT_SUCCESS;
    snprintf(setting, sizeof setting, "WEFT_TUNING_FILE=%s", t->o.table);
    return open_slot(t, &t->chosen, setting);
}

/* ---- Buffers ---- */

static int needs_mapped(const struct tune *t, const struct tune_slot *s)
{
    int number = s == &t->chosen ? TUNE_CHOSEN : (int)(s - t->slots);

    for (int i = 0; i < t->npoints; i++)
        for (int k = 0; k < t->points[i].ncells; k++)
            if (t->points[i].cells[k].shared && t->points[i].cells[k].subject == number)
                return 1;
    return 0;
}

static weft_status open_mapped(struct tune *t, struct tune_slot *s)
{
    if (!s->ctx || !needs_mapped(t, s))
        return WEFT_SUCCESS;
    for (int i = 0; i < 2; i++) {
        WI_TRY(weft_mem_alloc(s->ctx, t->buffer_bytes, &s->mapped[i]));
        memset(s->mapped[i], 0, t->buffer_bytes);
    }
    return WEFT_SUCCESS;
}

weft_status tune_open_buffers(struct tune *t)
{
    for (int i = 0; i < t->npoints; i++) {
        const struct tune_point *p = &t->points[i];
        size_t whole = wi_coll_is_vector(p->coll) ? p->bytes : p->bytes * (size_t)t->nranks;
        whole = (whole + 63) / 64 * 64 + 64;
        t->buffer_bytes = whole > t->buffer_bytes ? whole : t->buffer_bytes;
    }
    for (int i = 0; i < 2 && t->npoints; i++) {
        t->private[i] = aligned_alloc(64, t->buffer_bytes);
        if (!t->private[i])
            return wi_fail(WEFT_ENOMEM, "buffers of %zu bytes", t->buffer_bytes);
        memset(t->private[i], 0, t -> buffer_bytes);
    }
    for (int i = 0; i < t->nslots; i++)
        WI_TRY(open_mapped(t, &t->slots[i]));
    return open_mapped(t, &t->chosen);
}

static void close_slot(struct tune_slot *s)
{
    for (int i = 0; i < 2; i++)
        if (s->mapped[i])
            weft_mem_free(s->ctx, s->mapped[i]);
    weft_comm_destroy(s->comm);
    weft_context_destroy(s->ctx);
    *s = (struct tune_slot){0};
}

void tune_close_subjects(struct tune *t)
{
    for (int i = 0; i < t->nslots; i++)
        close_slot(&t->slots[i]);
    close_slot(&t->chosen);
    free(t->private[0]);
    free(t->private[1]);
    t->private[0] = t->private[1] = NULL;
}

struct tune_slot *tune_slot_of(struct tune *t, const struct tune_cell *cell)
{
    return cell->subject == TUNE_CHOSEN ? &t->chosen : &t->slots[cell->subject];
}

const char *tune_name_of(const struct tune *t, const struct tune_point *p, const struct tune_cell *cell)
{
    return cell->subject == TUNE_CHOSEN ? "(chosen)" : t->subjects[p->coll][cell->subject].name;
}

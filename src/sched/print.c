/* SPDX-License-Identifier: BSD-3-Clause */
/* A schedule as text; tests/golden/README has the grammar. */
#include "sched/internal.h"

#include <errno.h>

#include "base/status.h"

static void print_regions(const struct wi_sched *sched, uint32_t first, unsigned n, FILE *out)
{
    char text[WI_REGION_TEXT_BYTES];

    for (unsigned i = 0; i < n; i++)
        fprintf(out, " %s", wi_sched_region_text(&sched->regions[first + i], text));
}

static void print_step(const struct wi_sched *sched, uint32_t number, const struct wi_step *step, FILE *out)
{
    fprintf(out, "  %u %s", number, wi_sched_step_names[step->kind]);
    print_regions(sched, step->dst, step->ndst, out);
    if (step->ndst && step->nsrc)
        fputs(" <-", out);
    print_regions(sched, step->src, step->nsrc, out);
    if (step->kind == WI_STEP_SIGNAL)
        fprintf(out, " %u", step->ordinal);
    if (step->kind == WI_STEP_WAIT)
        fprintf(out, " rank %d lane %u signal %u", step->peer, step->lane, step->ordinal);
    if (step->flags & WI_STEP_RECV_LEFT)
        fputs(" left", out);
    if (step->flags & WI_STEP_FINAL)
        fputs(" final", out);
    if (step->dep_lane != WI_NO_DEP)
        fprintf(out, " after %d.%u", step->dep_lane, step->dep_step);
    fputc('\n', out);
}

static void print_peer(const char *what, int peer, FILE *out)
{
    if (peer == WI_NO_PEER)
        fprintf(out, " %s -", what);
    else
        fprintf(out, " %s %d", what, peer);
}

static void print_packs(const struct wi_sched *sched, FILE *out)
{
    for (uint32_t i = 0; i < sched->buf_blocks[WI_PACK]; i++) {
        const struct wi_pack *p = &sched->packs[i];
        fprintf(out, "image %u of %s %u", i, wi_sched_buf_names[p->buf], p->block);
        if (p->residual != WI_NO_RESIDUAL)
            fprintf(out, " residual %u", p->residual);
        fputc('\n', out);
    }
}

static void print_lanes(const struct wi_sched *sched, FILE *out)
{
    fprintf(out, "coll %s algo %s rank %d nranks %d root %d in_place %d blocks %u tmp %u ll %d%s",
            wi_coll_name((enum wi_coll)sched->coll), sched->algo, sched->rank, sched->nranks, sched->root,
            sched->in_place, sched->nblocks, sched->buf_blocks[WI_TMP], sched->ll,
            sched->tmp_like_src ? " tmp_like_src 1" : "");
    if (sched->lossy)
        fprintf(out, " pack %u lossy %u", sched->buf_blocks[WI_PACK], sched->lossy);
    fputc('\n', out);
    print_packs(sched, out);
    for (uint32_t i = 0; i < sched->nlanes; i++) {
        const struct wi_lane *lane = &sched->lanes[i];
        fprintf(out, "lane %u", i);
        print_peer("send", lane->send_peer, out);
        print_peer("recv", lane->recv_peer, out);
        fprintf(out, " chan %u\n", lane->chan);
        for (uint32_t k = 0; k < lane->nsteps; k++)
            print_step(sched, k, &sched->steps[lane->first_step + k], out);
    }
}

static void print_stage(const char *when, const struct wi_sched_stage *s, FILE *out)
{
    if (!s)
        return;
    fprintf(out, "stage %s src %s %lld dst %s %lld final %d\nranks", when, wi_sched_buf_names[s->at[WI_SRC].buf],
            (long long)s->at[WI_SRC].offset, wi_sched_buf_names[s->at[WI_DST].buf], (long long)s->at[WI_DST].offset,
            s->final);
    for (int i = 0; i < s->sched->nranks; i++)
        fprintf(out, " %d", s->ranks[i]);
    fputc('\n', out);
    for (uint32_t i = 0; i < s->nshares; i++) {
        fputs("share", out);
        for (uint32_t k = s->start[i]; k < s->start[i + 1]; k++)
            fprintf(out, " %u", s->item[k]);
        fputc('\n', out);
    }
    print_lanes(s->sched, out);
    fputs("end_stage\n", out);
}

weft_status wi_sched_print(const struct wi_sched *sched, FILE *out)
{
    fprintf(out, "weft-schedule %d\n", sched->staged ? 2 : 1);
    print_lanes(sched, out);
    if (sched->staged) {
        fprintf(out, "slots %u\n", sched->slot_items);
        print_stage("before", sched->before, out);
        print_stage("after", sched->after, out);
    }
    fputs("end\n", out);
    if (ferror(out))
        return wi_fail_errno(errno ? errno : EIO, "schedule: print");
    return WEFT_SUCCESS;
}

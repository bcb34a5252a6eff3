/* SPDX-License-Identifier: BSD-3-Clause */
/* JSON for tools, DOT for eyes. Names are plain ASCII without quotes (the builder sees to it): nothing needs escaping.
 */
#include "sched/internal.h"

#include <errno.h>

#include "base/status.h"

static weft_status written(FILE *out)
{
    return ferror(out) ? wi_fail_errno(errno ? errno : EIO, "schedule: export") : WEFT_SUCCESS;
}

/* ---- JSON ---- */

static void json_regions(const struct wi_sched *sched, const char *key, uint32_t first, unsigned n, FILE *out)
{
    if (n == 0)
        return;
    fprintf(out, ", \"%s\": [", key);
    for (unsigned i = 0; i < n; i++) {
        const struct wi_region *r = &sched->regions[first + i];
        fprintf(out, "%s{\"buf\": \"%s\", \"rank\": %d, \"first\": %u, \"count\": %u}", i ? ", " : "",
                wi_sched_buf_names[r->buf], wi_sched_owner(sched, r), r->first, r->count);
    }
    fputc(']', out);
}

static void json_step(const struct wi_sched *sched, const struct wi_step *step, FILE *out)
{
    fprintf(out, "        {\"kind\": \"%s\"", wi_sched_step_names[step->kind]);
    json_regions(sched, "dst", step->dst, step->ndst, out);
    json_regions(sched, "src", step->src, step->nsrc, out);
    if (step->kind == WI_STEP_WAIT)
        fprintf(out, ", \"rank\": %d, \"lane\": %u", step->peer, step->lane);
    if (step->kind == WI_STEP_WAIT || step->kind == WI_STEP_SIGNAL)
        fprintf(out, ", \"signal\": %u", step->ordinal);
    if (step->flags & WI_STEP_RECV_LEFT)
        fputs(", \"left\": true", out);
    if (step->flags & WI_STEP_FINAL)
        fputs(", \"final\": true", out);
    if (step->dep_lane != WI_NO_DEP)
        fprintf(out, ", \"after\": {\"lane\": %d, \"step\": %u}", step->dep_lane, step->dep_step);
    fputc('}', out);
}

static void json_peer(const char *key, int peer, FILE *out)
{
    if (peer == WI_NO_PEER)
        fprintf(out, "\"%s\": null, ", key);
    else
        fprintf(out, "\"%s\": %d, ", key, peer);
}

static void json_lane(const struct wi_sched *sched, const struct wi_lane *lane, FILE *out)
{
    fputs("    {", out);
    json_peer("send", lane->send_peer, out);
    json_peer("recv", lane->recv_peer, out);
    fprintf(out, "\"chan\": %u, \"steps\": [", lane->chan);
    for (uint32_t k = 0; k < lane->nsteps; k++) {
        fputs(k ? ",\n" : "\n", out);
        json_step(sched, &sched->steps[lane->first_step + k], out);
    }
    fputs("]}", out);
}

static const char *json_bool(int value)
{
    return value ? "true" : "false";
}

static void json_packs(const struct wi_sched *sched, const struct wi_sched_stats *stats, FILE *out)
{
    fprintf(out, "  \"lossy\": %u, \"images_sent\": %llu, \"blocks_encoded\": %llu, \"blocks_decoded\": %llu,\n",
            sched->lossy, (unsigned long long)stats->images_sent, (unsigned long long)stats->blocks_encoded,
            (unsigned long long)stats->blocks_decoded);
    fputs("  \"images\": [", out);
    for (uint32_t i = 0; i < sched->buf_blocks[WI_PACK]; i++) {
        const struct wi_pack *p = &sched->packs[i];
        fprintf(out, "%s{\"buf\": \"%s\", \"block\": %u, \"residual\": ", i ? ", " : "", wi_sched_buf_names[p->buf],
                p->block);
        if (p->residual == WI_NO_RESIDUAL)
            fputs("null}", out);
        else
            fprintf(out, "%u}", p->residual);
    }
    fputs("],\n", out);
}

/* All but what stands around it: "coll" to the lanes. */
static void json_body(const struct wi_sched *sched, FILE *out)
{
    struct wi_sched_stats stats;

    wi_sched_stats(sched, &stats);
    fprintf(out, "  \"coll\": \"%s\", \"algo\": \"%s\", \"rank\": %d, \"nranks\": %d, \"root\": %d,\n",
            wi_coll_name((enum wi_coll)sched->coll), sched->algo, sched->rank, sched->nranks, sched->root);
    fprintf(out, "  \"in_place\": %s, \"mapped\": %s, \"peer_src\": %s, \"peer_dst\": %s, \"ll\": %s,\n",
            json_bool(sched->in_place), json_bool(sched->mapped), json_bool(sched->peer_src),
            json_bool(sched->peer_dst), json_bool(sched->ll));
    fprintf(out, "  \"blocks\": %u, \"src_blocks\": %u, \"dst_blocks\": %u, \"tmp_blocks\": %u,\n", sched->nblocks,
            sched->buf_blocks[WI_SRC], sched->buf_blocks[WI_DST], sched->buf_blocks[WI_TMP]);
    fprintf(out,
            "  \"stats\": {\"steps_critical\": %u, \"blocks_sent\": %llu, \"blocks_received\": %llu, "
            "\"blocks_reduced\": %llu, \"blocks_copied\": %llu},\n",
            stats.steps_critical, (unsigned long long)stats.blocks_sent, (unsigned long long)stats.blocks_received,
            (unsigned long long)stats.blocks_reduced, (unsigned long long)stats.blocks_copied);
    if (sched->lossy)
        json_packs(sched, &stats, out);
    fputs("  \"lanes\": [", out);
    for (uint32_t i = 0; i < sched->nlanes; i++) {
        fputs(i ? ",\n" : "\n", out);
        json_lane(sched, &sched->lanes[i], out);
    }
    fputc(']', out);
}

static void json_place(const struct wi_sched_stage *s, unsigned buf, FILE *out)
{
    fprintf(out, "\"%s\": {\"buf\": \"%s\", \"offset\": %lld}, ", wi_sched_buf_names[buf],
            wi_sched_buf_names[s->at[buf].buf], (long long)s->at[buf].offset);
}

static void json_stage(const char *when, const struct wi_sched_stage *s, FILE *out)
{
    if (!s) {
        fprintf(out, ",\n\"%s\": null", when);
        return;
    }
    fprintf(out, ",\n\"%s\": {", when);
    json_place(s, WI_SRC, out);
    json_place(s, WI_DST, out);
    fprintf(out, "\"final\": %s, \"ranks\": [", json_bool(s->final));
    for (int i = 0; i < s->sched->nranks; i++)
        fprintf(out, "%s%d", i ? ", " : "", s->ranks[i]);
    fputs("], \"shares\": [", out);
    for (uint32_t i = 0; i < s->nshares; i++) {
        fputs(i ? ", [" : "[", out);
        for (uint32_t k = s->start[i]; k < s->start[i + 1]; k++)
            fprintf(out, "%s%u", k > s->start[i] ? ", " : "", s->item[k]);
        fputc(']', out);
    }
    fputs("], \"schedule\": {\n", out);
    json_body(s->sched, out);
    fputs("}}", out);
}

weft_status wi_sched_json(const struct wi_sched *sched, FILE *out)
{
    fprintf(out, "{\n  \"format\": \"weft-schedule\", \"version\": %d,\n", sched->staged ? 2 : 1);
    json_body(sched, out);
    if (sched->staged) {
        fprintf(out, ",\n  \"slot_items\": %u", sched->slot_items);
        json_stage("before", sched->before, out);
        json_stage("after", sched->after, out);
    }
    fputs("\n}\n", out);
    return written(out);
}

/* ---- DOT ---- */

static void dot_label(const struct wi_sched *sched, uint32_t number, const struct wi_step *step, FILE *out)
{
    char text[WI_REGION_TEXT_BYTES];

    fprintf(out, "%u %s", number, wi_sched_step_names[step->kind]);
    for (unsigned i = 0; i < step->ndst; i++)
        fprintf(out, "\\n%s", wi_sched_region_text(&sched->regions[step->dst + i], text));
    for (unsigned i = 0; i < step->nsrc; i++)
        fprintf(out, "\\n%s%s", step->ndst ? "<- " : "", wi_sched_region_text(&sched->regions[step->src + i], text));
    if (step->kind == WI_STEP_SIGNAL)
        fprintf(out, " %u", step->ordinal);
    if (step->flags & WI_STEP_RECV_LEFT)
        fputs("\\nleft", out);
    if (step->flags & WI_STEP_FINAL)
        fputs("\\nfinal", out);
}

static void dot_lane(const struct wi_sched *sched, uint32_t lane, FILE *out)
{
    const struct wi_lane *l = &sched->lanes[lane];

    fprintf(out, "    subgraph cluster_r%d_l%u {\n      label=\"lane %u\"; style=dashed;\n", sched->rank, lane, lane);
    for (uint32_t k = 0; k < l->nsteps; k++) {
        fprintf(out, "      r%d_%u_%u [label=\"", sched->rank, lane, k);
        dot_label(sched, k, &sched->steps[l->first_step + k], out);
        fputs("\"];\n", out);
        if (k)
            fprintf(out, "      r%d_%u_%u -> r%d_%u_%u;\n", sched->rank, lane, k - 1, sched->rank, lane, k);
    }
    fputs("    }\n", out);
}

static void dot_dependencies(const struct wi_sched *sched, FILE *out)
{
    for (uint32_t i = 0; i < sched->nlanes; i++) {
        for (uint32_t k = 0; k < sched->lanes[i].nsteps; k++) {
            const struct wi_step *step = &sched->steps[sched->lanes[i].first_step + k];
            if (step->dep_lane != WI_NO_DEP)
                fprintf(out, "    r%d_%d_%u -> r%d_%u_%u [style=dotted];\n", sched->rank, step->dep_lane,
                        step->dep_step, sched->rank, i, k);
        }
    }
}

/* Position of the nth step of a lane for which `is` holds; WI_NOWHERE if there are fewer. */
static uint32_t nth(const struct wi_sched *sched, uint32_t lane, uint32_t n, int (*is)(unsigned kind))
{
    for (uint32_t k = 0; k < sched->lanes[lane].nsteps; k++) {
        if (is(sched->steps[sched->lanes[lane].first_step + k].kind) && n-- == 0)
            return k;
    }
    return WI_NOWHERE;
}

static int is_signal(unsigned kind)
{
    return kind == WI_STEP_SIGNAL;
}

/* The lane of `to` that receives what `from` sends on `chan`. */
static uint32_t receiving_lane(const struct wi_sched *to, int from, uint32_t chan)
{
    for (uint32_t i = 0; i < to->nlanes; i++) {
        if (to->lanes[i].recv_peer == from && to->lanes[i].chan == chan)
            return i;
    }
    return WI_NOWHERE;
}

static void dot_messages(const struct wi_sched *const scheds[], int nranks, int rank, uint32_t lane, FILE *out)
{
    const struct wi_sched *s = scheds[rank];
    const struct wi_lane *l = &s->lanes[lane];

    if (l->send_peer < 0 || l->send_peer >= nranks)
        return;
    uint32_t other = receiving_lane(scheds[l->send_peer], rank, l->chan);
    for (uint32_t k = 0, n = 0; other != WI_NOWHERE && k < l->nsteps; k++) {
        if (!wi_sched_is_send(s->steps[l->first_step + k].kind))
            continue;
        uint32_t at = nth(scheds[l->send_peer], other, n++, wi_sched_is_recv);
        if (at != WI_NOWHERE)
            fprintf(out, "  r%d_%u_%u -> r%d_%u_%u [color=blue, constraint=false];\n", rank, lane, k, l->send_peer,
                    other, at);
    }
}

static void dot_waits(const struct wi_sched *const scheds[], int nranks, int rank, uint32_t lane, FILE *out)
{
    const struct wi_sched *s = scheds[rank];
    const struct wi_lane *l = &s->lanes[lane];

    for (uint32_t k = 0; k < l->nsteps; k++) {
        const struct wi_step *step = &s->steps[l->first_step + k];
        if (step->kind != WI_STEP_WAIT || step->peer >= nranks || step->lane >= scheds[step->peer]->nlanes)
            continue;
        uint32_t at = nth(scheds[step->peer], step->lane, step->ordinal, is_signal);
        if (at != WI_NOWHERE)
            fprintf(out, "  r%d_%u_%u -> r%d_%u_%u [color=red, constraint=false];\n", step->peer, step->lane, at, rank,
                    lane, k);
    }
}

/* A mapped stage is one node, before the lanes or after them. */
static void dot_stage(const struct wi_sched *sched, const char *when, const struct wi_sched_stage *s, FILE *out)
{
    if (!s)
        return;
    fprintf(out, "    r%d_%s [shape=ellipse, label=\"%s: %s/%s, ranks", sched->rank, when, when,
            wi_coll_name((enum wi_coll)s->sched->coll), s->sched->algo);
    for (int i = 0; i < s->sched->nranks; i++)
        fprintf(out, " %d", s->ranks[i]);
    fputs("\"];\n", out);
    for (uint32_t i = 0; i < sched->nlanes; i++) {
        uint32_t n = sched->lanes[i].nsteps;
        if (n && s == sched->before)
            fprintf(out, "    r%d_before -> r%d_%u_0;\n", sched->rank, sched->rank, i);
        else if (n)
            fprintf(out, "    r%d_%u_%u -> r%d_after;\n", sched->rank, i, n - 1, sched->rank);
    }
}

weft_status wi_sched_dot(const struct wi_sched *const scheds[], int nranks, FILE *out)
{
    if (nranks < 1)
        return wi_fail(WEFT_EINVAL, "schedule: DOT of %d ranks", nranks);
    fprintf(out, "digraph \"%s/%s\" {\n  node [shape=box, fontname=monospace];\n",
            wi_coll_name((enum wi_coll)scheds[0]->coll), scheds[0]->algo);
    for (int r = 0; r < nranks; r++) {
        fprintf(out, "  subgraph cluster_r%d {\n    label=\"rank %d\";\n", scheds[r]->rank, scheds[r]->rank);
        for (uint32_t i = 0; i < scheds[r]->nlanes; i++)
            dot_lane(scheds[r], i, out);
        dot_dependencies(scheds[r], out);
        dot_stage(scheds[r], "before", scheds[r]->before, out);
        dot_stage(scheds[r], "after", scheds[r]->after, out);
        fputs("  }\n", out);
    }
    for (int r = 0; r < nranks; r++) {
        for (uint32_t i = 0; i < scheds[r]->nlanes; i++) {
            dot_messages(scheds, nranks, r, i, out);
            dot_waits(scheds, nranks, r, i, out);
        }
    }
    fputs("}\n", out);
    return written(out);
}

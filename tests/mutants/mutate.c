/* SPDX-License-Identifier: BSD-3-Clause */
/* The schedule is taken apart into an editable form, changed in one place, and built and sealed again. Changes are numbered in
 * the order in which `walk` comes to them. */
#include "mutate.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "sched/internal.h"

struct edit_step {
    struct wi_step step;       /* dependencies by index in the lane, as long as nothing moves; src, dst unused */
    struct wi_region *regions; /* destinations, then sources; room for one more */
};

struct edit_lane {
    struct wi_lane lane;
    struct edit_step *steps; /* room for one more */
    uint32_t nsteps;
};

struct edit {
    const struct wi_sched *from;
    struct wi_sched_spec spec;
    struct edit_lane *lanes; /* room for one more */
    uint32_t nlanes;
    /* The walk. */
    uint32_t want, at;
    uint8_t done;
    struct mutation *m;
    uint32_t lane, step; /* being looked at */
};

static const char *const texts[] = {
#define MUTATION_TEXT(name, text) text,
    MUTATION_LIST(MUTATION_TEXT)
#undef MUTATION_TEXT
};

const char *mutation_text(enum mutation_kind kind)
{
    return texts[kind];
}

/* ---- The editable form ---- */

static void *room(size_t n, size_t bytes)
{
    void *p = calloc(n + 2, bytes);

    if (!p)
        abort(); /* a test */
    return p;
}

static void take_apart(struct edit *e, const struct wi_sched *s)
{
    *e = (struct edit){.from = s, .nlanes = s->nlanes, .lanes = room(s->nlanes, sizeof *e->lanes)};
    e->spec = (struct wi_sched_spec){.coll = s->coll,
                                     .algo = s->algo,
                                     .rank = s->rank,
                                     .nranks = s->nranks,
                                     .root = s->root,
                                     .in_place = s->in_place,
                                     .nblocks = s->nblocks,
                                     .share_blocks = s->nblocks,
                                     .tmp_blocks = s->buf_blocks[WI_TMP],
                                     .pack_blocks = s->buf_blocks[WI_PACK],
                                     .lossy = s->lossy,
                                     .no_ll = s->mapped && !s->ll};
    for (uint32_t i = 0; i < s->nlanes; i++) {
        struct edit_lane *l = &e->lanes[i];
        l->lane = s->lanes[i];
        l->nsteps = s->lanes[i].nsteps;
        l->steps = room(l->nsteps, sizeof *l->steps);
        for (uint32_t k = 0; k < l->nsteps; k++) {
            const struct wi_step *st = &s->steps[s->lanes[i].first_step + k];
            l->steps[k].step = *st;
            l->steps[k].step.flags &= (uint8_t) ~(WI_STEP_FUSED_COPY | WI_STEP_FUSED_COPY_SECOND);
            l->steps[k].regions = room((size_t)st->ndst + st->nsrc, sizeof(struct wi_region));
            for (unsigned j = 0; j < st->ndst; j++)
                l->steps[k].regions[j] = s->regions[st->dst + j];
            for (unsigned j = 0; j < st->nsrc; j++)
                l->steps[k].regions[st->ndst + j] = s->regions[st->src + j];
        }
    }
}

static void throw_away(struct edit *e)
{
    for (uint32_t i = 0; i < e->nlanes; i++) {
        for (uint32_t k = 0; k < e->lanes[i].nsteps; k++)
            free(e->lanes[i].steps[k].regions);
        free(e->lanes[i].steps);
    }
    free(e->lanes);
}

static struct wi_sched *put_together(const struct edit *e)
{
    struct wi_sched_builder *b;
    struct wi_sched *s = NULL;

    if (wi_sched_begin(&e->spec, &b) < 0)
        return NULL;
    for (uint32_t i = 0; i < e->spec.pack_blocks; i++) {
        const struct wi_pack *p = &e->from->packs[i];
        wi_sched_image(b, i, (enum wi_buf)p->buf, p->block, p->residual);
    }
    for (uint32_t i = 0; i < e->nlanes; i++) {
        const struct edit_lane *l = &e->lanes[i];
        uint32_t lane = wi_sched_lane(b, l->lane.send_peer, l->lane.recv_peer, l->lane.chan);
        uint16_t ordinal = 0;
        for (uint32_t k = 0; k < l->nsteps; k++) {
            struct wi_step st = l->steps[k].step;
            if (st.kind == WI_STEP_SIGNAL) /* the others count on */
                st.ordinal = ordinal++;
            wi_sched_step_add(b, lane, &st, l->steps[k].regions, l->steps[k].regions + st.ndst);
        }
    }
    return wi_sched_seal(b, &s) < 0 ? NULL : s;
}

/* ---- The walk: `may` numbers a change and says whether it is the one ---- */

static int may(struct edit *e, enum mutation_kind kind, const char *format, ...) __attribute__((format(printf, 3, 4)));

static int may(struct edit *e, enum mutation_kind kind, const char *format, ...)
{
    va_list ap;
    int n = 0;

    if (e->done || e->at++ != e->want)
        return 0;
    e->done = 1;
    e->m->kind = kind;
    e->m->step_kind = -1;
    if (e->step != WI_NOWHERE) {
        e->m->step_kind = e->lanes[e->lane].steps[e->step].step.kind;
        n = snprintf(e->m->what, sizeof e->m->what, "lane %u step %u (%s): ", e->lane, e->step,
                     wi_sched_step_names[e->m->step_kind]);
    } else if (e->lane != WI_NOWHERE) {
        n = snprintf(e->m->what, sizeof e->m->what, "lane %u: ", e->lane);
    }
    va_start(ap, format);
    vsnprintf(e->m->what + n, sizeof e->m->what - (size_t)n, format, ap);
    va_end(ap);
    return 1;
}

static struct edit_step copy_of(const struct edit_step *s)
{
    struct edit_step c = *s;
    size_t n = (size_t)s->step.ndst + s->step.nsrc;

    c.regions = room(n, sizeof *c.regions);
    memcpy(c.regions, s->regions, n * sizeof *c.regions);
    return c;
}

/* Steps of `lane` from `at` on have moved by `by`: those that name them follow. */
static void follow(struct edit *e, uint32_t lane, uint32_t at, int by)
{
    for (uint32_t i = 0; i < e->nlanes; i++) {
        for (uint32_t k = 0; k < e->lanes[i].nsteps; k++) {
            struct wi_step *st = &e->lanes[i].steps[k].step;
            if (st->dep_lane == (int32_t)lane && st->dep_step >= at)
                st->dep_step = (uint32_t)((int)st->dep_step + by);
        }
    }
}

static void insert(struct edit *e, uint32_t lane, uint32_t at, struct edit_step s)
{
    struct edit_lane *l = &e->lanes[lane];

    l->steps = realloc(l->steps, (l->nsteps + 2) * sizeof *l->steps);
    if (!l->steps)
        abort();
    memmove(&l->steps[at + 1], &l->steps[at], (l->nsteps - at) * sizeof *l->steps);
    l->steps[at] = s;
    l->nsteps++;
    follow(e, lane, at, 1);
}

static struct edit_step take_out(struct edit *e, uint32_t lane, uint32_t at)
{
    struct edit_lane *l = &e->lanes[lane];
    struct edit_step s = l->steps[at];

    memmove(&l->steps[at], &l->steps[at + 1], (--l->nsteps - at) * sizeof *l->steps);
    follow(e, lane, at + 1, -1);
    return s;
}

static void become_nop(struct edit_step *s)
{
    s->step.kind = WI_STEP_NOP;
    s->step.nsrc = s->step.ndst = s->step.flags = 0;
}

static int is_local(const struct wi_step *st)
{
    return st->kind == WI_STEP_COPY || st->kind == WI_STEP_REDUCE;
}

/* ---- The order of steps ---- */

/* The steps that named one of the two name it in its new place. */
static void swap_steps(struct edit *e, uint32_t lane, uint32_t at)
{
    struct edit_step *s = &e->lanes[lane].steps[at], was = s[0];

    s[0] = s[1];
    s[1] = was;
    for (uint32_t i = 0; i < e->nlanes; i++) {
        for (uint32_t k = 0; k < e->lanes[i].nsteps; k++) {
            struct wi_step *st = &e->lanes[i].steps[k].step;
            if (st->dep_lane == (int32_t)lane && (st->dep_step == at || st->dep_step == at + 1))
                st->dep_step = 2 * at + 1 - st->dep_step;
        }
    }
}

static void move_step(struct edit *e, uint32_t to, uint32_t at)
{
    struct edit_step s = take_out(e, e->lane, e->step);

    insert(e, to, at < e->lanes[to].nsteps ? at : e->lanes[to].nsteps, s);
}

static void walk_order(struct edit *e)
{
    struct edit_lane *l = &e->lanes[e->lane];
    struct wi_step *st = &l->steps[e->step].step;
    uint32_t next = (e->lane + 1) % e->nlanes;

    if (st->kind != WI_STEP_NOP && may(e, MUTATION_DROP_STEP, "dropped"))
        become_nop(&l->steps[e->step]);
    if (st->kind != WI_STEP_NOP && may(e, MUTATION_TWICE, "twice"))
        insert(e, e->lane, e->step + 1, copy_of(&l->steps[e->step]));
    if (e->step + 1 < l->nsteps && may(e, MUTATION_SWAP, "after the next one"))
        swap_steps(e, e->lane, e->step);
    if (next != e->lane && may(e, MUTATION_OTHER_LANE, "to lane %u, same place", next))
        move_step(e, next, e->step);
    if (next != e->lane && may(e, MUTATION_OTHER_LANE, "to the end of lane %u", next))
        move_step(e, next, UINT32_MAX);
    if (l->nsteps > 1 && may(e, MUTATION_OWN_LANE, "to a lane of its own")) {
        struct edit_lane own = {.lane = l->lane, .steps = room(1, sizeof *own.steps)};
        if (is_local(st) || st->kind >= WI_STEP_SIGNAL)
            own.lane.send_peer = own.lane.recv_peer = WI_NO_PEER;
        else /* the other end does not know the channel */
            own.lane.chan = (own.lane.chan + 1) % WI_SCHED_MAX_CHANS;
        e->lanes = realloc(e->lanes, (e->nlanes + 2) * sizeof *e->lanes);
        if (!e->lanes)
            abort();
        e->lanes[e->nlanes++] = own;
        move_step(e, e->nlanes - 1, 0);
    }
}

/* ---- Fields of a step ---- */

static void walk_kind(struct edit *e, struct edit_step *s)
{
    static const struct {
        uint8_t from, to;
    } changes[] = {
        {WI_STEP_RECV, WI_STEP_RECV_SEND},
        {WI_STEP_RECV_SEND, WI_STEP_RECV},
        {WI_STEP_RECV_REDUCE, WI_STEP_RECV_REDUCE_SEND},
        {WI_STEP_RECV_REDUCE_SEND, WI_STEP_RECV_REDUCE},
        {WI_STEP_RECV_REDUCE, WI_STEP_RECV},
        {WI_STEP_RECV_REDUCE_SEND, WI_STEP_RECV_SEND},
        {WI_STEP_COPY, WI_STEP_REDUCE},
        {WI_STEP_SIGNAL, WI_STEP_WAIT},
    };

    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        if (s->step.kind != changes[i].from || !may(e, MUTATION_KIND, "becomes %s", wi_sched_step_names[changes[i].to]))
            continue;
        s->step.kind = changes[i].to;
        if (changes[i].to == WI_STEP_RECV || changes[i].to == WI_STEP_RECV_SEND)
            s->step.nsrc = 0, s->step.flags = 0;
        if (changes[i].to == WI_STEP_WAIT)
            s->step.peer = (e->spec.rank + 1) % e->spec.nranks;
    }
}

static void walk_wait(struct edit *e, struct wi_step *st)
{
    for (int r = 0; st->kind == WI_STEP_WAIT && r < e->spec.nranks; r++) {
        if (r != st->peer && r != e->spec.rank && may(e, MUTATION_WAIT_RANK, "rank %d -> %d", st->peer, r))
            st->peer = r;
    }
    for (uint16_t k = 0; st->kind == WI_STEP_WAIT && k < WI_SCHED_MAX_MAPPED_LANES; k++) {
        if (k != st->lane && may(e, MUTATION_WAIT_LANE, "lane %u -> %u", st->lane, k))
            st->lane = k;
    }
    for (uint16_t k = 0; st->kind == WI_STEP_WAIT && k < WI_SCHED_MAX_SIGNALS; k++) {
        if (k != st->ordinal && may(e, MUTATION_WAIT_ORDINAL, "signal %u -> %u", st->ordinal, k))
            st->ordinal = k;
    }
}

static void walk_dependency(struct edit *e, struct wi_step *st)
{
    if (st->dep_lane != WI_NO_DEP && may(e, MUTATION_DEPENDENCY, "dependency dropped"))
        st->dep_lane = WI_NO_DEP;
    if (st->dep_lane != WI_NO_DEP && st->dep_step > 0 &&
        may(e, MUTATION_DEPENDENCY, "after %d.%u instead of %u", st->dep_lane, st->dep_step - 1, st->dep_step))
        st->dep_step--;
    if (st->dep_lane != WI_NO_DEP &&
        may(e, MUTATION_DEPENDENCY, "after %d.%u instead of %u", st->dep_lane, st->dep_step + 1, st->dep_step))
        st->dep_step++;
    uint32_t next = (e->lane + 1) % e->nlanes, n = e->lanes[next].nsteps, at = e->step < n ? e->step : n - 1;
    if (next != e->lane && n && (int32_t)next != st->dep_lane && may(e, MUTATION_DEPENDENCY, "after %u.%u", next, at)) {
        st->dep_lane = (int32_t)next;
        st->dep_step = at;
    }
}

static void walk_flags(struct edit *e, struct wi_step *st)
{
    if (wi_sched_is_reducing(st->kind) && may(e, MUTATION_FLAG, "FINAL flipped"))
        st->flags ^= WI_STEP_FINAL;
    if (wi_sched_is_reducing(st->kind) && st->kind != WI_STEP_REDUCE && may(e, MUTATION_FLAG, "RECV_LEFT flipped"))
        st->flags ^= WI_STEP_RECV_LEFT;
}

/* ---- Operands ---- */

static void walk_region(struct edit *e, struct edit_step *s, unsigned i)
{
    struct wi_region *r = &s->regions[i];
    const char *side = i < s->step.ndst ? "dst" : "src";
    unsigned k = i < s->step.ndst ? i : i - s->step.ndst;
    int owner = r->rank == WI_SELF ? e->spec.rank : r->rank;

    for (uint8_t buf = 0; buf < WI_NUM_BUFS; buf++) {
        if (buf != r->buf && may(e, MUTATION_BUFFER, "%s %u in %s", side, k, wi_sched_buf_names[buf]))
            r->buf = buf;
    }
    if (r->first && may(e, MUTATION_BLOCK, "%s %u at block %u", side, k, r->first - 1))
        r->first--;
    if (may(e, MUTATION_BLOCK, "%s %u at block %u", side, k, r->first + 1))
        r->first++;
    if (r->first > 1 && may(e, MUTATION_BLOCK, "%s %u at block 0", side, k))
        r->first = 0;
    if (r->count > 1 && may(e, MUTATION_COUNT, "%s %u has %u blocks", side, k, r->count - 1))
        r->count--;
    if (may(e, MUTATION_COUNT, "%s %u has %u blocks", side, k, r->count + 1))
        r->count++;
    for (int o = 0; is_local(&s->step) && e->from->mapped && o < e->spec.nranks; o++) {
        if (o != owner && may(e, MUTATION_OWNER, "%s %u is rank %d's", side, k, o))
            r->rank = o == e->spec.rank ? WI_SELF : o;
    }
}

static void remove_region(struct edit_step *s, unsigned i)
{
    unsigned n = (unsigned)s->step.ndst + s->step.nsrc;

    memmove(&s->regions[i], &s->regions[i + 1], (n - i - 1) * sizeof *s->regions);
}

static void walk_sources(struct edit *e, struct edit_step *s)
{
    struct wi_region *src = s->regions + s->step.ndst;

    for (unsigned i = 0; i < s->step.nsrc; i++) {
        for (unsigned k = i + 1; k < s->step.nsrc; k++) {
            if (may(e, MUTATION_OPERANDS, "sources %u and %u change places", i, k)) {
                struct wi_region was = src[i];
                src[i] = src[k];
                src[k] = was;
            }
        }
        if (s->step.kind == WI_STEP_REDUCE && s->step.nsrc > 1 && may(e, MUTATION_OPERANDS, "without source %u", i)) {
            remove_region(s, s->step.ndst + i);
            s->step.nsrc--;
        }
        if (s->step.kind == WI_STEP_REDUCE && may(e, MUTATION_OPERANDS, "source %u twice", i)) {
            memmove(&src[i + 1], &src[i], (s->step.nsrc - i) * sizeof *src);
            s->step.nsrc++;
        }
    }
}

static void walk_destinations(struct edit *e, struct edit_step *s)
{
    for (unsigned i = 0; s->step.ndst > 1 && i < s->step.ndst; i++) {
        if (may(e, MUTATION_OPERANDS, "without destination %u", i)) {
            remove_region(s, i);
            s->step.ndst--;
        }
    }
    for (uint8_t buf = WI_DST; is_local(&s->step) && buf <= WI_TMP; buf++) {
        if (may(e, MUTATION_OPERANDS, "also stores in %s", wi_sched_buf_names[buf])) {
            struct wi_region more = {buf, WI_SELF, 0, s->regions[0].count};
            memmove(&s->regions[s->step.ndst + 1], &s->regions[s->step.ndst], s->step.nsrc * sizeof more);
            s->regions[s->step.ndst++] = more;
        }
    }
}

static void walk_counts(struct edit *e, struct edit_step *s)
{
    unsigned n = (unsigned)s->step.ndst + s->step.nsrc;
    int by = 0;

    if (n < 2)
        return;
    if (may(e, MUTATION_COUNT, "all operands one block longer"))
        by = 1;
    if (s->regions[0].count > 1 && may(e, MUTATION_COUNT, "all operands one block shorter"))
        by = -1;
    for (unsigned i = 0; i < n; i++)
        s->regions[i].count = (uint32_t)((int)s->regions[i].count + by);
}

static void walk_step(struct edit *e)
{
    struct edit_step *s = &e->lanes[e->lane].steps[e->step];
    unsigned n = (unsigned)s->step.ndst + s->step.nsrc;

    walk_kind(e, s);
    walk_wait(e, &s->step);
    walk_dependency(e, &s->step);
    walk_flags(e, &s->step);
    for (unsigned i = 0; i < n && !e->done; i++)
        walk_region(e, s, i);
    if (!e->done)
        walk_counts(e, s);
    if (!e->done)
        walk_sources(e, s);
    if (!e->done)
        walk_destinations(e, s);
    if (!e->done)
        walk_order(e); /* last: it may move the step */
}

/* ---- Lanes and the head ---- */

static void walk_lane(struct edit *e)
{
    struct wi_lane *l = &e->lanes[e->lane].lane;

    for (uint32_t chan = 0; (l->send_peer >= 0 || l->recv_peer >= 0) && chan < e->from->nchans + 1; chan++) {
        if (chan != l->chan && may(e, MUTATION_CHANNEL, "channel %u -> %u", l->chan, chan))
            l->chan = chan;
    }
    for (int r = WI_NO_PEER; l->send_peer >= 0 && r < e->spec.nranks; r++) {
        if (r != l->send_peer && r != e->spec.rank && may(e, MUTATION_PEER, "sends to %d, not %d", r, l->send_peer))
            l->send_peer = r;
    }
    for (int r = WI_NO_PEER; l->recv_peer >= 0 && r < e->spec.nranks; r++) {
        if (r != l->recv_peer && r != e->spec.rank &&
            may(e, MUTATION_PEER, "receives from %d, not %d", r, l->recv_peer))
            l->recv_peer = r;
    }
}

static void walk_head(struct edit *e)
{
    struct wi_sched_spec *s = &e->spec;

    if (may(e, MUTATION_HEAD, "root"))
        s->root = (s->root + 1) % s->nranks;
    if (may(e, MUTATION_HEAD, "another block"))
        s->nblocks++, s->share_blocks++;
    if (s->nblocks > 1 && may(e, MUTATION_HEAD, "a block less"))
        s->nblocks--, s->share_blocks--;
    if (may(e, MUTATION_HEAD, "another block of scratch"))
        s->tmp_blocks++;
    if (s->tmp_blocks && may(e, MUTATION_HEAD, "a block of scratch less"))
        s->tmp_blocks--;
    if (may(e, MUTATION_HEAD, "in place"))
        s->in_place = !s->in_place;
}

static void walk(struct edit *e)
{
    e->lane = e->step = WI_NOWHERE;
    walk_head(e);
    for (uint32_t lane = 0; lane < e->nlanes && !e->done; lane++) {
        e->lane = lane;
        e->step = WI_NOWHERE;
        walk_lane(e);
        for (uint32_t step = 0; step < e->lanes[lane].nsteps && !e->done; step++) {
            e->step = step;
            walk_step(e);
        }
    }
}

uint32_t mutation_count(const struct wi_sched *sched)
{
    struct mutation m;
    struct edit e;

    take_apart(&e, sched);
    e.want = UINT32_MAX;
    e.m = &m;
    walk(&e);
    throw_away(&e);
    return e.at;
}

struct wi_sched *mutation_make(const struct wi_sched *sched, uint32_t n, struct mutation *m)
{
    struct edit e;

    take_apart(&e, sched);
    e.want = n;
    e.m = m;
    *m = (struct mutation){.kind = NUM_MUTATIONS, .step_kind = -1};
    walk(&e);
    struct wi_sched *mutant = put_together(&e);
    throw_away(&e);
    return mutant;
}

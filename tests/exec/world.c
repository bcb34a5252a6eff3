/* SPDX-License-Identifier: BSD-3-Clause */
#define _GNU_SOURCE
#include "world.h"

#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "exec/ll.h"
#include "tests/harness/late.h"

#define IDLE_MAX 20000 /* rounds in which nothing moved, for each rank: far more than the fake transport draws */

struct world {
    const struct form *form;
    const struct world_knobs *knobs;
    struct call *const *calls;
    struct world_seen *seen;
    uint64_t rng;
    struct fake *fake;
    struct wi_workers *workers; /* ENGINE_WORKERS */
    struct weft_plugin plugin;
    struct wi_transport transport;
    struct wi_mesh mesh[MAX_RANKS];
    struct wi_mesh_rank mesh_ranks[MAX_RANKS];
    struct wi_link links[MAX_RANKS];
    int32_t map_of[MAX_RANKS], map_ranks[MAX_RANKS][MAX_RANKS]; /* one group of all ranks, or those of the form */
    struct wi_exec *exec[MAX_RANKS];
    struct weft_comm *comm[MAX_RANKS];
    struct wi_prog *programs[MAX_RANKS][WI_CACHED_PROGRAMS];
    unsigned char *peers[MAX_CALLS][2][MAX_RANKS];
    struct wi_exchange exchange[MAX_CALLS][MAX_RANKS];
    int closed[MAX_CALLS][MAX_RANKS]; /* how often the first gate is still found closed */
    int entered[MAX_RANKS];           /* calls that a rank has begun */
    /* Of DRIVE_ALONE: whose turn it is. */
    pthread_mutex_t lock;
    pthread_cond_t turn[MAX_RANKS];
    int running, left;
    uint64_t passed;
    uint8_t ended[MAX_RANKS];
};

static char wrong[1024];

__attribute__((format(printf, 1, 2))) static void complain(const char *format, ...)
{
    va_list ap;

    if (wrong[0])
        return;
    va_start(ap, format);
    vsnprintf(wrong, sizeof wrong, format, ap);
    va_end(ap);
}

/* ---- Creation ---- */

/* As if trials had shown that it is faster. */
static void stream(struct wi_exec *exec)
{
    for (int i = 0; i < WI_AUTOTUNE_CLASSES; i++) {
        exec->store_tuning.classes[i].best = 1;
        exec->store_tuning.classes[i].turn = UINT32_MAX / 2; /* it is no trial */
        exec->store_tuning.classes[i].period = UINT32_MAX;
    }
}

static void map_rank(struct world *w, struct wi_mesh *m)
{
    int32_t *ranks = w->map_ranks[m->rank];

    for (int r = w->form->nranks; r-- > 0;) /* group[] is 0 where there is one group of all */
        if (w->form->group[r] == w->form->group[m->rank])
            w->map_of[m->rank] = r;
    for (int r = 0; r < w->form->nranks; r++)
        if (w->form->group[r] == w->form->group[m->rank])
            ranks[m->nmapped++] = r;
    m->map_of = w->map_of;
    m->map_ranks = ranks;
    m->all_mapped = m->nmapped == m->nranks;
    m->slot_bytes = w->knobs->fake.slot_bytes;
    m->slots = w->knobs->fake.depth;
    if (m->nmapped == 1)
        return;
    m->mapped_group = &m->groups[0];
    fake_ops.mapped(m->groups[0].group, &m->mapped);
}

static int create_rank(struct world *w, int r)
{
    struct wi_exec_config config = {.name = "test", .timeout_ns = UINT64_MAX, .eager_bytes = 1024, .early_bytes = 8192};
    struct wi_mesh *m = &w->mesh[r];

    *m = (struct wi_mesh){.rank = r,
                          .nranks = w->form->nranks,
                          .nnodes = 1,
                          .ranks = w->mesh_ranks,
                          .links = w->links,
                          .ngroups = 1,
                          .groups = {{&w->transport, fake_group(w->fake, r)}}};
    if (w->knobs->fake.mapped)
        map_rank(w, m);
    for (int i = 0; i < w->form->nranks; i++)
        w->links[i] = (struct wi_link){&fake_ops, m->groups[0].group, 0};
    w->comm[r] = calloc(1, sizeof *w->comm[r]);
    config.engine = w->knobs->engine == ENGINE_LATE ? wt_late_engine(NULL) : wi_engine_host(w->workers);
    if (!w->comm[r] || wi_exec_create(m, &config, &w->exec[r]) < 0)
        return 0;
    if (w->knobs->stream)
        stream(w->exec[r]);
    w->comm[r]->exec = w->exec[r];
    w->comm[r]->mesh = m;
    w->comm[r]->rank = r;
    w->comm[r]->nranks = w->form->nranks;
    w->comm[r]->nt_bytes = w->knobs->nt_bytes;
    return 1;
}

static int create(struct world *w)
{
    wt_late.seed = w->knobs->seed;
    wt_late.made = wt_late.posted = wt_late.late = wt_late.parts = 0;
    if (w->knobs->engine == ENGINE_WORKERS)
        w->workers = wi_workers_create(2, 1000);
    w->fake = fake_create(w->form->nranks, &w->knobs->fake);
    w->plugin = (struct weft_plugin){.name = "fake"};
    w->transport = (struct wi_transport){.plugin = &w->plugin, .ops = fake_ops};
    for (int r = 0; w->fake && r < w->form->nranks; r++) {
        snprintf(w->mesh_ranks[r].node.name, sizeof w->mesh_ranks[r].node.name, "here");
        if (!create_rank(w, r))
            return 0;
    }
    for (int i = 0; i < w->knobs->ncalls; i++)
        for (int buf = 0; buf < 2; buf++)
            for (int r = 0; r < w->form->nranks; r++)
                w->peers[i][buf][r] = call_base(&w->calls[i]->rank[r], buf, 0);
    return w->fake != NULL;
}

/* After a failure operations may still hold what the transport does not use any more. */
static void destroy(struct world *w)
{
    for (int r = 0; r < w->form->nranks; r++) {
        for (int i = 0; w->exec[r] && i < w->knobs->ncalls; i++)
            for (int k = 0; k < 2; k++)
                if (w->calls[i]->rank[r].op[k].bind.sched)
                    wi_op_release(w->exec[r], &w->calls[i]->rank[r].op[k]);
        for (int i = 0; i < WI_CACHED_PROGRAMS; i++)
            wi_prog_put(w->programs[r][i]);
        wi_exec_destroy(w->exec[r]);
        free(w->comm[r]);
    }
    wi_workers_destroy(w->workers);
    fake_destroy(w->fake);
}

/* ---- One call of one rank ---- */

static void mix(const void *left, const void *right, void *out, size_t count, weft_dtype dtype, void *arg)
{
    (void)arg;
    plain_combine(PLAIN_MIX, dtype, left, right, out, count * weft_dtype_bytes(dtype));
}

static size_t largest(const size_t *counts, int n)
{
    size_t most = 0;

    for (int i = 0; counts && i < n; i++)
        most = counts[i] > most ? counts[i] : most;
    return most;
}

/* Elements of the vector, or of the largest share that a rank knows of. */
static size_t known(const struct call_rank *k)
{
    const struct wi_call *a = &k->args;
    size_t most = a->count > a->recv_count ? a->count : a->recv_count;
    size_t sent = largest(a->send_counts, k->call->form->nranks), got = largest(a->recv_counts, k->call->form->nranks);

    most = sent > most ? sent : most;
    return got > most ? got : most;
}

/* Mapped: of all ranks, who have told each other. */
static size_t share(const struct world *w, const struct call *c, int r)
{
    size_t most = known(&c->rank[r]);

    for (int i = 0; form_is_mapped(w->form) && i < w->form->nranks; i++)
        most = known(&c->rank[i]) > most ? known(&c->rank[i]) : most;
    return most * c->elem_bytes;
}

static void note(struct world *w, const struct wi_op *op)
{
    struct world_seen *s = w->seen;

    s->staged += op->bind.nstages > 1;
    s->sliced += op->bind.nslices > 1;
    s->fragmented += op->bind.nfragments > 1;
    s->ll += op->bind.ll;
    s->nt += op->bind.nt && op->bind.mapped;
    s->adds += op->bind.adds;
    s->scaled += op->bind.stage[0]->scaled;
    s->packed += op->bind.packing != NULL;
    s->coded += op->bind.coding.image_bytes != 0;
    s->variable += op->bind.coding.variable;
    s->v += op->bind.layout.blocks[WI_SRC].extent || op->bind.layout.blocks[WI_DST].extent;
    s->kept += op->bind.stage[0]->refs > 2;
    s->peers += op->bind.sched->peer_src || op->bind.sched->peer_dst;
    for (uint32_t i = 0; i < op->bind.stage[0]->nsteps; i++)
        s->fused += op->bind.stage[0]->steps[i].flags & WI_STEP_FUSED_COPY &&
                    op->bind.stage[0]->units[op->bind.stage[0]->steps[i].unit].bytes * op->bind.scale >=
                        WI_FUSED_COPY_MIN_BYTES;
}

static weft_status lay_out(struct world *w, struct call *c, int r, struct wi_op *op)
{
    struct call_rank *k = &c->rank[r];
    struct wi_prog **programs = w->knobs->keep_programs ? w->programs[r] : NULL;
    int beside = op == &k->op[1];

    op->bind.sched = wi_sched_get(beside ? w->form->beside[r] : w->form->sched[r]);
    op->bind.peer_base[WI_SRC] = w->peers[c->number][WI_SRC];
    op->bind.peer_base[WI_DST] = w->peers[c->number][WI_DST];
    op->bind.get = w->knobs->get != 0;
    op->bind.put = w->knobs->put != 0;
    op->bind.adds = c->adds != 0;
    if (w->form->packed && !beside)
        WI_TRY(wi_op_lay_out_packed(w->comm[r], op, &k->args, programs));
    else
        WI_TRY(wi_op_lay_out(w->comm[r], op, &k->args, share(w, c, r), w->knobs->slice_bytes[c->number],
                             beside ? NULL : programs));
    note(w, op);
    return WEFT_SUCCESS;
}

static void begin(struct call *c, int r, struct wi_op *op, struct world *w)
{
    struct call_rank *k = &c->rank[r];

    memset(op, 0, sizeof *op);
    op->bind.base[WI_SRC] = call_base(k, WI_SRC, 0);
    op->bind.base[WI_DST] = call_base(k, WI_DST, 0);
    wi_call_info(w->comm[r], &k->args, &op->info);
    if (c->codec.block)
        wi_coding_init(&op->bind.coding, &c->codec, c->dtype, r);
    for (int i = 0; i < 2; i++)
        op->bind.coding.residual[i] = k->residual[i][0];
    op->bind.redop = (struct wi_redop){.dtype = (uint8_t)c->dtype,
                                       .op = c->op == PLAIN_AVG ? WEFT_AVG : WEFT_SUM,
                                       .user = c->op == PLAIN_MIX,
                                       .commutative = c->op != PLAIN_MIX,
                                       .divisor = (uint32_t)w->form->nranks,
                                       .elem_bytes = (uint32_t)c->elem_bytes,
                                       .fn = mix};
}

/* ---- Gates: what every rank tells every other one before its schedule is known ---- */

static unsigned char record_byte(const struct call *c, int rank, size_t i)
{
    return (unsigned char)(c->number * 59 + rank * 31 + (int)i * 7 + 1);
}

static struct call *call_of(const struct world *w, int rank, const struct wi_op *op)
{
    for (int i = 0; i < w->knobs->ncalls; i++)
        if (op == &w->calls[i]->rank[rank].op[0])
            return w->calls[i];
    return NULL;
}

static int poll_exchange(struct wi_exec *exec, struct wi_op *op, int *moved)
{
    struct world *w = op->gate.arg;
    const struct call *c = call_of(w, exec->rank, op);
    struct wi_exchange *x = &w->exchange[c->number][exec->rank];
    int got = wi_ll_exchange(exec, op, x, moved);

    for (int r = 0; got > 0 && r < w->form->nranks; r++)
        for (size_t i = 0; i < x->record_bytes; i++)
            if (exec->ll_received[(size_t)r * exec->ll_bytes + i] != record_byte(c, r, i))
                complain("call %d: rank %d got byte %zu of the record of rank %d wrong", c->number, exec->rank, i, r);
    w->seen->gated += got > 0;
    return got;
}

static int poll_count(struct wi_exec *exec, struct wi_op *op, int *moved)
{
    struct world *w = op->gate.arg;

    *moved = 1;
    return --w->closed[call_of(w, exec->rank, op)->number][exec->rank] < 0;
}

static const struct wi_gate_ops counting = {.name = "the counting gate", .poll = poll_count};
static const struct wi_gate_ops exchanging = {.name = "the exchange", .agreed = 1, .poll = poll_exchange};

static weft_status behind_last(struct wi_exec *exec, struct wi_op *op)
{
    struct world *w = op->gate.arg;

    return lay_out(w, call_of(w, exec->rank, op), exec->rank, op);
}

static weft_status behind_first(struct wi_exec *exec, struct wi_op *op)
{
    struct world *w = op->gate.arg;

    w->seen->gates++;
    if (!w->knobs->gate)
        return behind_last(exec, op);
    op->gate.opened = behind_last;
    wi_gate_close(exec, op, &exchanging, w, 0);
    return WEFT_SUCCESS;
}

static void close_gate(struct world *w, const struct call *c, int r, struct wi_op *op)
{
    struct wi_exchange *x = &w->exchange[c->number][r];

    *x = (struct wi_exchange){.record_bytes = (uint16_t)w->knobs->gate};
    for (size_t i = 0; i < x->record_bytes; i++)
        x->record[i] = record_byte(c, r, i);
    w->closed[c->number][r] = (int)fake_random(&w->rng, 8);
    op->gate.opened = w->knobs->gate_first ? behind_first : behind_last;
    wi_gate_close(w->exec[r], op, w->knobs->gate_first ? &counting : &exchanging, w, 0);
}

/* Rank r is through with call i: of a barrier all ranks have begun theirs. */
static void judge_left(const struct world *w, int r, int i)
{
    for (int o = 0; o < w->form->nranks && w->form->coll == WI_COLL_BARRIER; o++)
        if (w->entered[o] <= i)
            complain("rank %d leaves barrier %d before rank %d has entered it", r, i, o);
}

/* ---- Queued ---- */

static void judge(struct world *w, int r, weft_status st)
{
    struct wi_error error;

    if (st >= 0 && !w->exec[r]->broken)
        return;
    wi_exec_error(w->exec[r], &error);
    complain("%s", error.message[0] ? error.message : wi_fail_text());
}

static void issue(struct world *w, struct call *c, int r)
{
    struct call_rank *k = &c->rank[r];

    w->entered[r]++;
    for (int i = 0; i < 1 + w->form->packed; i++) {
        struct wi_op *op = &k->op[i];
        weft_status st = WEFT_SUCCESS;
        begin(c, r, op, w);
        if (i)
            op->bind.parts_from = WI_PACK_BELOW;
        if (w->knobs->gate || w->knobs->gate_first)
            close_gate(w, c, r, op);
        else
            st = lay_out(w, c, r, op);
        if (st >= 0)
            st = wi_exec_issue(w->exec[r], op);
        judge(w, r, st);
    }
}

static int is_done(const struct world *w, int r, int i)
{
    const struct call_rank *k = &w->calls[i]->rank[r];

    return k->op[0].state == WI_OP_DONE && (!w->form->packed || k->op[1].state == WI_OP_DONE);
}

static int whose_turn(struct world *w, int last)
{
    int n = w->form->nranks, r = w->knobs->turns ? (int)fake_random(&w->rng, (uint32_t)n) : (last + 1) % n;

    return r == w->knobs->slow && fake_random(&w->rng, 16) ? (r + 1) % n : r;
}

/* Threads of a pool have work: the system decides when they do it, so that rounds say nothing. */
static int awaits_workers(const struct world *w)
{
    for (int r = 0; w->workers && r < w->form->nranks; r++)
        if (w->exec[r]->posted)
            return 1;
    return 0;
}

/* The fragment ahead has left the stage, and this one has moved in it since. Of several lanes some may have before. */
static int overlaps(const struct wi_fragment *ahead, const struct wi_fragment *f)
{
    return ahead->stage > f->stage && f->prog->mapped && f->prog->nlanes == 1 && f->lane[0].step;
}

static void note_overlap(struct world *w, int r)
{
    int seen = 0;

    for (const struct wi_op *op = w->exec[r]->running.head; op; op = op->next)
        for (const struct wi_fragment *f = op->run.first; f && f->next; f = f->next)
            seen |= overlaps(f, f->next);
    w->seen->overlapped += (uint64_t)seen;
}

static void drive(struct world *w)
{
    int left_calls[MAX_RANKS] = {0}, left = w->form->nranks, r = 0;
    uint64_t idle = 0;

    while (left && !wrong[0]) {
        int moved = 0;
        r = whose_turn(w, r);
        if (w->entered[r] < w->knobs->ncalls && fake_random(&w->rng, 4) == 0) {
            issue(w, w->calls[w->entered[r]], r);
            moved = 1;
        } else {
            wi_exec_progress(w->exec[r], NULL, &moved);
            judge(w, r, WEFT_SUCCESS);
            note_overlap(w, r);
        }
        while (left_calls[r] < w->entered[r] && is_done(w, r, left_calls[r])) {
            judge_left(w, r, left_calls[r]);
            left -= ++left_calls[r] == w->knobs->ncalls;
        }
        if (!moved && awaits_workers(w))
            sched_yield(); /* the test's own deadline ends it */
        else
            idle = moved ? 0 : idle + 1;
        if (idle > (uint64_t)IDLE_MAX * (uint64_t)w->form->nranks)
            complain("no progress: %d ranks do not come to an end", left);
    }
    for (int i = 0; i < 4096 && left == 0; i++) { /* what is left to the transport */
        struct weft_peer_failure none;
        fake_ops.progress(fake_group(w->fake, i % w->form->nranks), &none);
    }
}

/* ---- Alone ---- */

struct worker {
    struct world *w;
    int rank;
    pthread_t thread;
};

/* With the lock held. */
static void pass_on(struct world *w, int rank)
{
    int next = rank;

    if (!w->left)
        return;
    while (next == rank || w->ended[next])
        next = whose_turn(w, next);
    w->running = next;
    pthread_cond_signal(&w->turn[next]);
}

static void await_turn(struct world *w, int rank)
{
    while (w->running != rank)
        pthread_cond_wait(&w->turn[rank], &w->lock);
}

static void sleep_in_turn(void *arg, int rank)
{
    struct world *w = arg;

    pthread_mutex_lock(&w->lock);
    if (awaits_workers(w))
        sched_yield();
    else if (++w->passed > (uint64_t)IDLE_MAX * (uint64_t)w->form->nranks) {
        complain("no progress: %d ranks do not come to an end", w->left);
        for (int r = 0; r < w->form->nranks; r++)
            wi_exec_abort(w->exec[r], "no progress");
    }
    if (w->left > 1) {
        pass_on(w, rank);
        await_turn(w, rank);
    }
    pthread_mutex_unlock(&w->lock);
}

/* As a blocking call does that is like an earlier one. */
static void run_alone(struct world *w, struct call *c, int r)
{
    struct wi_op *op = &c->rank[r].op[0];
    struct wi_record *e = wi_recorder_add(&w->exec[r]->recorder);
    weft_status st;

    w->entered[r]++;
    begin(c, r, op, w);
    st = lay_out(w, c, r, op);
    if (st >= 0) {
        op->run.alone = 1;
        op->state = WI_OP_RUNNING;
        op->status = WEFT_INPROGRESS;
        wi_exec_number(w->exec[r], &op->info);
        wi_exec_board(w->exec[r], &op->info);
        *e = (struct wi_record){.info = op->info, .algo = op->bind.sched->algo, .serial = e->serial};
        op->record = e;
        w->seen->alone += op->bind.stage[0]->alone && !op->bind.nt;
        st = wi_exec_run_alone(w->exec[r], op);
        judge_left(w, r, c->number);
    }
    judge(w, r, st);
}

static void *work(void *arg)
{
    struct worker *k = arg;
    struct world *w = k->w;

    pthread_mutex_lock(&w->lock);
    await_turn(w, k->rank);
    pthread_mutex_unlock(&w->lock);
    for (int i = 0; i < w->knobs->ncalls && !w->exec[k->rank]->broken; i++)
        run_alone(w, w->calls[i], k->rank);
    pthread_mutex_lock(&w->lock);
    w->ended[k->rank] = 1;
    w->left--;
    pass_on(w, k->rank);
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

/* One rank runs at a time: on one core a turn is passed on without waking another. */
static void drive_alone(struct world *w)
{
    struct worker workers[MAX_RANKS];
    cpu_set_t before, one;
    int n = 0, cpu = sched_getcpu(), bound = cpu >= 0 && sched_getaffinity(0, sizeof before, &before) == 0;

    CPU_ZERO(&one);
    if (bound)
        CPU_SET((unsigned)cpu, &one);
    bound = bound && sched_setaffinity(0, sizeof one, &one) == 0; /* threads have their maker's */
    pthread_mutex_init(&w->lock, NULL);
    fake_on_sleep(w->fake, sleep_in_turn, w);
    w->left = w->form->nranks;
    w->running = -1;
    for (; n < w->form->nranks; n++) {
        pthread_cond_init(&w->turn[n], NULL);
        workers[n] = (struct worker){w, n, 0};
        if (pthread_create(&workers[n].thread, NULL, work, &workers[n])) {
            complain("no thread for rank %d", n);
            break;
        }
    }
    pthread_mutex_lock(&w->lock);
    for (int r = n; r < w->form->nranks; r++)
        w->ended[r] = 1;
    w->left = n;
    pass_on(w, -1);
    pthread_mutex_unlock(&w->lock);
    for (int r = 0; r < n; r++)
        pthread_join(workers[r].thread, NULL);
    for (int r = 0; r < n; r++)
        pthread_cond_destroy(&w->turn[r]);
    pthread_mutex_destroy(&w->lock);
    if (bound)
        sched_setaffinity(0, sizeof before, &before);
}

/* ---- A run ---- */

static void add_seen(struct world *w)
{
    const uint64_t *from = (const void *)fake_seen(w->fake);
    uint64_t *to = (void *)&w->seen->fake;

    for (size_t i = 0; i < sizeof w->seen->fake / sizeof *to; i++)
        to[i] += from[i];
    for (int i = 0; i < w->knobs->ncalls; i++)
        for (int r = 0; r < w->form->nranks; r++)
            w->seen->streamed += w->calls[i]->rank[r].op[0].run.slot_nt;
    w->seen->posted += wt_late.posted;
    w->seen->late += wt_late.late;
    w->seen->parts += wt_late.parts;
    w->seen->runs++;
    w->seen->calls += (uint64_t)w->knobs->ncalls;
}

const char *world_run(const struct form *form, const struct world_knobs *knobs, struct call *const *calls,
                      struct world_seen *seen)
{
    struct world w = {.form = form,
                      .knobs = knobs,
                      .calls = calls,
                      .seen = seen,
                      .rng = (knobs->seed + 11) * 0x9e3779b97f4a7c15ull | 1};
    const char *says;

    wrong[0] = '\0';
    if (!create(&w))
        complain("the executors could not be made: %s", wi_fail_text());
    else if (knobs->drive == DRIVE_ALONE)
        drive_alone(&w);
    else
        drive(&w);
    for (int i = 0; i < knobs->ncalls && !wrong[0]; i++) {
        says = call_interpret(calls[i]);
        if (says)
            complain("the plain interpreter: %s", says);
        else if ((says = call_compare(calls[i])) != NULL)
            complain("%s", says);
    }
    if (w.fake) {
        says = fake_judge(w.fake, !wrong[0]);
        if (says) /* it comes first: what differs is its consequence */
            snprintf(wrong, sizeof wrong, "%s", says);
        add_seen(&w);
    }
    destroy(&w);
    return wrong[0] ? wrong : NULL;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* The executor: what every registered algorithm leaves in memory, lowered and run over a fake transport, against a plain
 * interpreter of its schedule. A sample; exec_long.c runs all forms. */
#include "base/alloc.h"
#include "base/status.h"
#include "cases.h"
#include "tests/unit/unit.h"

/* Random calls of each algorithm: fewer where a sanitizer makes them ten times slower. */
#ifdef __SANITIZE_ADDRESS__
#define RUNS(n) (((n) + 1) / 2)
#else
#define RUNS(n) (n)
#endif

static void show(const struct campaign *c)
{
    const struct world_seen *s = &c->seen;

#define N(of) (unsigned long long)s->of
    printf("# %lu forms, %llu runs, %llu calls; cut into slices %llu, fragments %llu, ll %llu, alone %llu, gated %llu, "
           "nt %llu, slots streamed %llu, kept %llu, scaled %llu, fused %llu, packed %llu, coded %llu, "
           "of a variable rate %llu, added %llu, v %llu, peers %llu\n",
           c->forms, N(runs), N(calls), N(sliced), N(fragmented), N(ll), N(alone), N(gated), N(nt), N(streamed),
           N(kept), N(scaled), N(fused), N(packed), N(coded), N(variable), N(adds), N(v), N(peers));
    printf("# %llu messages, in sinks %llu, pieces %llu, late %llu, shorter than their room %llu, received early %llu, "
           "gets %llu, puts %llu, sleeps %llu\n",
           N(fake.messages), N(fake.sinks), N(fake.pieces), N(fake.late), N(fake.up_to), N(fake.waited), N(fake.gets),
           N(fake.puts), N(fake.sleeps));
    printf("# gates of their own: %llu; late engine: %llu works, %llu polls without result, %llu parts\n", N(gates),
           N(posted), N(late), N(parts));
#undef N
}

static void finish(const struct campaign *c)
{
    CU_ASSERT_EQUAL(c->failed, 0);
    CU_ASSERT(c->seen.gates > 10);
    CU_ASSERT(c->seen.posted > 100 && c->seen.late > 100 && c->seen.parts > c->seen.posted);
    show(c);
}

/* ---- The interpreter ---- */

/* Mapped stages before and after messages. */
static const struct {
    enum wi_coll coll;
    const char *spec;
} staged[] = {
    {WI_COLL_ALL_REDUCE, "node:ring/flat"},
    {WI_COLL_ALL_REDUCE, "node:rhalving/flat"},
    {WI_COLL_ALL_REDUCE, "node:rdouble@leader/flat2"},
    {WI_COLL_ALL_REDUCE, "rack:ring/node:linear/flat"},
    {WI_COLL_REDUCE, "node:rsgather/flat"},
    {WI_COLL_REDUCE, "node:linear@leader/flat2"},
    {WI_COLL_BROADCAST, "node:scatter_ring/flat"},
    {WI_COLL_BROADCAST, "node:knomial@leader/flat"},
    {WI_COLL_ALL_GATHER, "node:ring/flat"},
    {WI_COLL_ALL_GATHER, "node:linear@leader/flat"},
    {WI_COLL_ALL_GATHER_V, "node:ring/flat"},
    {WI_COLL_REDUCE_SCATTER, "node:ring/flat"},
    {WI_COLL_REDUCE_SCATTER, "node:pairwise@leader/flat"},
    {WI_COLL_REDUCE_SCATTER_V, "node:ring/flat"},
    {WI_COLL_BARRIER, "node:dissem/flat"},
    {WI_COLL_BARRIER, "node:dissem@leader/flat"},
    {WI_COLL_ALL_REDUCE, "node:coded2/flat"},
    {WI_COLL_ALL_REDUCE, "node:coded2@leader/flat2"},
    {WI_COLL_ALL_REDUCE, "rack:coded2/node:linear/flat"},
    {WI_COLL_ALL_GATHER_V, "node:coded/flat"},
    {WI_COLL_REDUCE_SCATTER, "node:coded@leader/flat"},
    {WI_COLL_REDUCE_SCATTER_V, "node:coded/flat"},
    {WI_COLL_BROADCAST, "node:coded@leader/flat"},
};

static void definitions(void)
{
    struct campaign c = {.runs = RUNS(2), .seed = 1};

    for (const struct wi_algo *const *a = wi_algos; *a; a++)
        for (int n = 2; n <= MAX_RANKS && c.failed < 5; n += n == 9 ? 7 : 1)
            campaign_defined(&c, *a, n);
    CU_ASSERT_EQUAL(c.failed, 0);
    CU_ASSERT(c.forms > 1000);
    c.forms = 0;
    for (size_t i = 0; i < sizeof staged / sizeof *staged; i++)
        for (size_t s = 0; s < nshapes; s++, c.wide = !c.wide)
            campaign_spec_defined(&c, staged[i].spec, staged[i].coll, &shapes[s]);
    CU_ASSERT_EQUAL(c.failed, 0);
    CU_ASSERT(c.forms > 100);
}

/* ---- The transport ---- */

static int idle_sleep(struct weft_xfer *x, void *group)
{
    struct weft_peer_failure none;

    for (int i = 0; i < 1000 && x->state == WEFT_XFER_PENDING; i++)
        fake_ops.progress(group, &none);
    return x->state;
}

/* What is wrong after a message of 8 bytes; `harm`: 1: the sender changes them, 2: the receiver does, 3: nobody receives. */
static const char *send_one(int harm, uint64_t seed, unsigned char *got)
{
    static char said[256];
    struct fake_knobs knobs = {.seed = seed, .late = 7, .pieces = 1};
    struct fake *f = fake_create(2, &knobs);
    unsigned char bytes[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    struct weft_xfer out = {.buf = bytes, .bytes = 8, .peer = 1, .granule = 1, .state = WEFT_XFER_PENDING};
    struct weft_xfer in = {.buf = got, .bytes = 8, .peer = 0, .granule = 1, .state = WEFT_XFER_PENDING};
    const char *wrong;

    CU_ASSERT_PTR_NOT_NULL_FATAL(f);
    CU_ASSERT_EQUAL(fake_ops.send(fake_group(f, 0), &out), WEFT_SUCCESS);
    if (harm == 1)
        bytes[3] = 9;
    if (harm != 3)
        CU_ASSERT_EQUAL(fake_ops.recv(fake_group(f, 1), &in), WEFT_SUCCESS);
    for (int i = 0; i < 1000 && harm == 2 && got[0] != 1; i++)
        fake_ops.progress(fake_group(f, 1), &(struct weft_peer_failure){0});
    if (harm == 2)
        got[0] = 9;
    if (harm != 3)
        CU_ASSERT_EQUAL(idle_sleep(&in, fake_group(f, 1)), WEFT_SUCCESS);
    idle_sleep(&out, fake_group(f, 0));
    wrong = fake_judge(f, 1);
    snprintf(said, sizeof said, "%s", wrong ? wrong : "");
    fake_destroy(f);
    return said;
}

static void transport_judges(void)
{
    unsigned char got[8] = {0};

    for (uint64_t seed = 1; seed < 20; seed++) {
        CU_ASSERT_STRING_EQUAL(send_one(0, seed, got), "");
        CU_ASSERT(got[0] == 1 && got[7] == 8);
        CU_ASSERT_PTR_NOT_NULL(strstr(send_one(1, seed, got), "rank 0 changed a buffer of 8 bytes while it was sent"));
        CU_ASSERT_PTR_NOT_NULL(strstr(send_one(2, seed, got), "rank 1 changed a buffer of 8 bytes that it receives"));
        CU_ASSERT_PTR_NOT_NULL(strstr(send_one(3, seed, got), "was not received"));
    }
}

/* ---- The executor ---- */

static void all_of(struct campaign *c, int mapped)
{
    for (const struct wi_algo *const *a = wi_algos; *a; a++)
        for (int n = 2; n <= 9 && c->failed < 5; n++)
            if (!((*a)->needs & WI_ALGO_MAPPED) == !mapped)
                campaign_algo(c, *a, n);
    finish(c);
}

static void messages(void)
{
    struct campaign c = {.runs = RUNS(2), .seed = 1};

    all_of(&c, 0);
    CU_ASSERT(c.seen.sliced > 100 && c.seen.v > 100 && c.seen.scaled > 100 && c.seen.kept > 100);
    CU_ASSERT(c.seen.coded > 100);
    CU_ASSERT(c.seen.variable > 20);
    CU_ASSERT(c.seen.adds > 20);
    CU_ASSERT(c.seen.fake.sinks > 100 && c.seen.fake.late > 100 && c.seen.fake.waited > 100);
}

static void mapped(void)
{
    struct campaign c = {.runs = RUNS(4), .seed = 1};

    all_of(&c, 1);
    CU_ASSERT(c.seen.fragmented > 100 && c.seen.ll > 100 && c.seen.alone > 100 && c.seen.gated > 100);
    CU_ASSERT(c.seen.nt > 100 && c.seen.streamed > 100 && c.seen.fused > 10 && c.seen.v > 100 && c.seen.kept > 100);
    CU_ASSERT(c.seen.adds > 20);
    CU_ASSERT(c.seen.peers > 100 && c.seen.fake.gets > 100 && c.seen.fake.puts > 10 && c.seen.fake.sleeps > 100);
}

/* In groups of several sizes, one rank by itself among them. */
static void stages(void)
{
    struct campaign c = {.runs = RUNS(3), .seed = 1};

    for (size_t i = 0; i < sizeof staged / sizeof *staged; i++)
        for (size_t s = 0; s < nshapes; s++) {
            unsigned long before = c.forms;
            c.wide = (int)(i + s) % 3 == 0;
            campaign_spec(&c, staged[i].spec, staged[i].coll, &shapes[s]);
            CU_ASSERT(c.forms > before);
        }
    CU_ASSERT(c.seen.staged > 100 && c.seen.fragmented > 100 && c.seen.nt > 100 && c.seen.v > 100 && c.seen.kept > 100);
    printf("# fragments in different stages after %llu rounds\n", (unsigned long long)c.seen.overlapped);
    CU_ASSERT(c.seen.overlapped > 1000);
    finish(&c);
}

/* A fragment is what the plan says, but no more of a block than is wanted at once (WEFT_COMM_SLICE_BYTES). */
static void slices_of_stages(void)
{
    struct wi_plan plan = {.slice_bytes = 256 << 10, .pipeline = {.fragment_bytes = 1 << 20}};
    struct wi_op op = {0};
    struct form f;

    CU_ASSERT_EQUAL_FATAL(form_build_spec(&f, "node:ring/flat", WI_COLL_ALL_REDUCE, &shapes[0], 0, 0), 1);
    op.bind.sched = f.sched[0];
    CU_ASSERT_EQUAL_FATAL(f.sched[0]->nblocks, 4);
    CU_ASSERT_EQUAL(wi_op_slice(&op, &plan), 256 << 10);
    plan.pipeline.fragment_bytes = (400 << 10) + 1;
    CU_ASSERT_EQUAL(wi_op_slice(&op, &plan), (100 << 10) + 1);
    plan.slice_bytes = 64 << 10;
    CU_ASSERT_EQUAL(wi_op_slice(&op, &plan), 64 << 10);
    plan.pipeline.fragment_bytes = 0; /* not priced: as other operations are cut */
    CU_ASSERT_EQUAL(wi_op_slice(&op, &plan), 64 << 10);
    form_put(&f);
}

/* ---- Programs of stages that are kept ---- */

struct laid_out {
    struct weft_comm *comm;
    struct wi_exec *exec;
    struct wi_mesh mesh;
    struct form f;
    struct wi_prog *programs[WI_CACHED_PROGRAMS];
    struct wi_op op[2]; /* the newest two */
};

static void release(struct wi_op *op)
{
    for (uint32_t i = 0; i < op->bind.nstages; i++)
        wi_prog_put(op->bind.stage[i]);
    for (size_t i = 0; i < sizeof op->owned / sizeof op->owned[0]; i++)
        wi_free(op->owned[i]);
    memset(op, 0, sizeof *op);
}

/* Rank 0's call of so many elements; that before it stays bound. Bit i: stage i runs the program that it ran there. */
static unsigned lay_out(struct laid_out *l, size_t count, size_t slice_bytes)
{
    size_t counts[MAX_RANKS];
    struct wi_call call = {.coll = (uint8_t)l->f.coll, .dtype = WEFT_FLOAT32, .count = count, .recv_counts = counts};
    struct wi_binding *now = &l->op[0].bind, *before = &l->op[1].bind;
    unsigned same = 0;

    for (int r = 0; r < MAX_RANKS; r++)
        counts[r] = count;
    release(&l->op[1]);
    l->op[1] = l->op[0];
    memset(&l->op[0], 0, sizeof l->op[0]);
    now->sched = l->f.sched[0];
    CU_ASSERT_EQUAL_FATAL(wi_op_lay_out(l->comm, &l->op[0], &call, count * 4, slice_bytes, l->programs), WEFT_SUCCESS);
    for (uint32_t i = 0; i < now->nstages; i++)
        same |= (unsigned)(now->stage[i] == before->stage[i]) << i;
    return same;
}

static void begin_laying_out(struct laid_out *l, const char *spec, enum wi_coll coll)
{
    memset(l, 0, sizeof *l);
    l->comm = calloc(1, sizeof *l->comm);
    l->exec = calloc(1, sizeof *l->exec);
    CU_ASSERT_FATAL(l->comm && l->exec);
    CU_ASSERT_EQUAL_FATAL(form_build_spec(&l->f, spec, coll, &shapes[0], 0, 0), 1);
    l->comm->mesh = &l->mesh;
    l->comm->exec = l->exec;
    l->comm->nranks = l->f.nranks;
    l->comm->nt_bytes = SIZE_MAX;
    l->exec->nmapped = 2;
    l->mesh.slot_bytes = 1 << 20;
}

static void end_laying_out(struct laid_out *l)
{
    release(&l->op[0]);
    release(&l->op[1]);
    for (size_t i = 0; i < WI_CACHED_PROGRAMS; i++)
        wi_prog_put(l->programs[i]);
    form_put(&l->f);
    free(l->exec);
    free(l->comm);
}

/* Every stage's program serves calls that are cut alike, and no others. */
static void stages_are_kept(void)
{
    struct laid_out l;

    begin_laying_out(&l, "node:ring/flat", WI_COLL_ALL_REDUCE);
    CU_ASSERT_EQUAL(lay_out(&l, 1000, 256), 0);
    CU_ASSERT_EQUAL(l.op[0].bind.nstages, 3);
    CU_ASSERT_EQUAL(lay_out(&l, 1000, 256), 7);
    CU_ASSERT_EQUAL(lay_out(&l, 1000, 256), 7);
    CU_ASSERT_EQUAL(lay_out(&l, 999, 256), 0); /* the last block is shorter */
    CU_ASSERT_EQUAL(lay_out(&l, 999, 512), 2); /* other fragments, of which the program of the messages says nothing */
    CU_ASSERT_EQUAL(lay_out(&l, 999, 512), 7);
    CU_ASSERT_EQUAL(lay_out(&l, 1200, 512), 0);
    end_laying_out(&l);

    begin_laying_out(&l, "node:ring/flat", WI_COLL_ALL_GATHER);
    CU_ASSERT_EQUAL(lay_out(&l, 100, 256), 0);
    CU_ASSERT_EQUAL(lay_out(&l, 100, 256), (1u << l.op[0].bind.nstages) - 1);
    l.f.coll = WI_COLL_ALL_GATHER_V; /* of as many elements: the lengths and places are the call's own */
    CU_ASSERT_EQUAL(lay_out(&l, 100, 256), 0);
    CU_ASSERT_EQUAL(lay_out(&l, 100, 256), 1); /* the messages'; stages are made for each call */
    CU_ASSERT_EQUAL(lay_out(&l, 101, 256), 0);
    end_laying_out(&l);
}

/* Slots that are too short, on whatever rank: then all ranks have the same in messages, which is proved. */
static void stages_that_do_not_fit(void)
{
    struct weft_comm *comm = calloc(1, sizeof *comm);
    struct wi_sched *flat[MAX_RANKS];
    struct wi_mesh mesh = {0};
    struct form f;

    CU_ASSERT_PTR_NOT_NULL_FATAL(comm);
    CU_ASSERT_EQUAL_FATAL(form_build_spec(&f, "node:ring/flat", WI_COLL_REDUCE_SCATTER, &shapes[3], 0, 0), 1);
    comm->mesh = &mesh;
    mesh.map_of = f.group;
    for (int fits = 0; fits < 2; fits++) {
        mesh.slot_bytes = f.sched[0]->slot_items * (size_t)WEFT_LINE_BYTES - !fits;
        for (int r = 0; r < f.nranks; r++) {
            comm->rank = r;
            flat[r] = wi_sched_get(f.sched[r]);
            CU_ASSERT_EQUAL(wi_fit_stages(comm, &flat[r], 0), WEFT_SUCCESS);
            CU_ASSERT_EQUAL(flat[r] == f.sched[r], fits);
            CU_ASSERT_EQUAL(flat[r]->staged, fits);
        }
        if (!fits)
            CU_ASSERT_EQUAL(wi_sched_check((const struct wi_sched *const *)flat, f.nranks, 0), WEFT_SUCCESS);
        for (int r = 0; r < f.nranks; r++)
            wi_sched_put(flat[r]);
    }
    form_put(&f);
    free(comm);
}

/* Among two ranks, with signals on each of its lanes. */
static struct wi_sched *signalling(int rank, uint32_t nlanes)
{
    struct wi_sched_spec spec = {
        .coll = WI_COLL_BARRIER, .algo = "signalling", .rank = rank, .nranks = 2, .nblocks = 1, .no_ll = 1};
    struct wi_sched_builder *b;
    struct wi_sched *sched = NULL;

    CU_ASSERT_EQUAL_FATAL(wi_sched_begin(&spec, &b), WEFT_SUCCESS);
    for (uint32_t l = 0; l < nlanes; l++) {
        wi_sched_lane(b, WI_NO_PEER, WI_NO_PEER, 0);
        wi_sched_signal(b, l);
        wi_sched_wait(b, l, 1 - rank, l, 0);
    }
    CU_ASSERT_EQUAL_FATAL(wi_sched_seal(b, &sched), WEFT_SUCCESS);
    return sched;
}

static void is_refused(const struct weft_comm *comm, const struct wi_sched *whole, const char *why)
{
    struct wi_sched *sched = wi_sched_get((struct wi_sched *)(uintptr_t)whole);

    CU_ASSERT_EQUAL(wi_fit_stages(comm, &sched, 0), why ? WEFT_ENOTSUP : WEFT_SUCCESS);
    CU_ASSERT(!why || strstr(wi_fail_text(), why) != NULL);
    if (!why)
        wi_sched_put(sched);
}

/* What an algorithm asks for that this communicator has not, in either stage. */
static void stages_that_are_refused(void)
{
    static const int32_t apart[MAX_RANKS] = {0, 1, 2, 3, 4, 5, 6, 7};
    struct weft_comm *comm = calloc(1, sizeof *comm);
    struct wi_mesh mesh = {.slot_bytes = 1 << 20};
    struct form f;

    CU_ASSERT_PTR_NOT_NULL_FATAL(comm);
    comm->mesh = &mesh;
    CU_ASSERT_EQUAL_FATAL(form_build_spec(&f, "node:ring/flat", WI_COLL_ALL_REDUCE, &shapes[0], 0, 0), 1);
    CU_ASSERT_FATAL(f.sched[0]->before && f.sched[0]->after);
    for (int after = 0; after < 2; after++) {
        struct wi_sched_stage **none = after ? &f.sched[0]->before : &f.sched[0]->after, *other = *none;
        struct wi_sched_stage *stage = after ? f.sched[0]->after : f.sched[0]->before;
        *none = NULL;
        mesh.map_of = (int32_t *)(uintptr_t)apart;
        is_refused(comm, f.sched[0], "needs ranks 0 and 1 in one shared-memory group");
        mesh.map_of = f.group;
        for (uint32_t nlanes = WI_SCHED_MAX_MAPPED_LANES / 2; nlanes <= WI_SCHED_MAX_MAPPED_LANES; nlanes++) {
            int fits = nlanes == WI_SCHED_MAX_MAPPED_LANES / 2;
            struct wi_sched *own = stage->sched;
            stage->sched = signalling(0, nlanes);
            is_refused(comm, f.sched[0], fits ? NULL : "algorithm signalling signals on more than 2 lanes");
            wi_sched_put(stage->sched);
            stage->sched = own;
        }
        *none = other;
    }
    form_put(&f);
    free(comm);
}

static void hierarchical(void)
{
    static const struct {
        enum wi_coll coll;
        const char *spec;
    } usual[] = {
        {WI_COLL_ALL_REDUCE, "node:ring/rdouble"},
        {WI_COLL_ALL_REDUCE, "node:rdouble@leader*3/knomial"},
        {WI_COLL_ALL_REDUCE, "rack:ring/node:rdouble/linear"},
        {WI_COLL_REDUCE, "node:chain/linear"},
        {WI_COLL_BROADCAST, "node:scatter_ring/knomial"},
        {WI_COLL_ALL_GATHER, "node:ring/rdouble"},
        {WI_COLL_ALL_GATHER_V, "node:ring/rdouble"},
        {WI_COLL_REDUCE_SCATTER, "node:ring/rhalving"},
        {WI_COLL_REDUCE_SCATTER_V, "node:ring/linear"},
        {WI_COLL_REDUCE_SCATTER_V, "node:pairwise@leader"},
        {WI_COLL_ALL_TO_ALL, "node:pairwise/linear"},
        {WI_COLL_ALL_TO_ALL, "node:pairwise@leader"},
        {WI_COLL_ALL_TO_ALL_V, "node:pairwise"},
        {WI_COLL_ALL_TO_ALL_V, "node:linear@leader"},
        {WI_COLL_BARRIER, "node:dissem"},
        {WI_COLL_ALL_REDUCE, "node:coded*2/linear"},
        {WI_COLL_ALL_REDUCE, "node:coded2@leader*3/knomial"},
        {WI_COLL_ALL_REDUCE, "rack:coded2/node:rdouble/linear"},
        {WI_COLL_ALL_GATHER_V, "node:coded@leader"},
        {WI_COLL_REDUCE_SCATTER, "node:coded"},
        {WI_COLL_REDUCE_SCATTER_V, "node:coded@leader"},
        {WI_COLL_BROADCAST, "node:coded_chain@leader"},
    };
    struct campaign c = {.runs = RUNS(3), .seed = 1};

    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++) {
        unsigned long before = c.forms;
        for (size_t s = 0; s < nshapes && c.failed < 5; s++)
            campaign_spec(&c, usual[i].spec, usual[i].coll, &shapes[s]);
        if (c.forms == before)
            printf("# %s %s: there is no such form\n", wi_coll_name(usual[i].coll), usual[i].spec);
        CU_ASSERT(c.forms > before);
    }
    finish(&c);
    CU_ASSERT(c.seen.packed > 100 && c.seen.fake.up_to > 100 && c.seen.sliced > 100);
}

/* Stores to other ranks' buffers, and puts, go in parts. */
static void long_parts(void)
{
    static const char *const names[] = {"direct", "pull", "split"};
    struct campaign c = {.seed = 1};
    struct form f;

    for (const struct wi_algo *const *a = wi_algos; *a; a++)
        for (int i = 0; i < 3; i++) {
            if (strcmp((*a)->name, names[i]) != 0 || form_build(&f, *a, (*a)->coll, 2, 1, 0) <= 0)
                continue;
            for (int run = 0; run < 9; run++) /* three by each engine */
                c.failed += form_run(&f, SIZE_HUGE, DRIVE_QUEUED, (enum engine)(run % 3), c.seed++, &c.seen) != 0;
            form_put(&f);
            c.forms++;
        }
    finish(&c);
    CU_ASSERT(c.forms >= 8 && c.seen.fake.gets > 10 && c.seen.fake.puts > 10);
}

/* As plans from files have them: every share is cut into three blocks. */
static struct wi_sched *gather_cut(int rank, int nranks, int through_slots)
{
    struct wi_sched_spec spec = {.coll = WI_COLL_ALL_GATHER,
                                 .algo = "cut",
                                 .rank = rank,
                                 .nranks = nranks,
                                 .share_blocks = 3,
                                 .tmp_blocks = through_slots ? 3 : 0};
    struct wi_sched_builder *b;
    struct wi_sched *s = NULL;
    uint32_t lane = 0;

    CU_ASSERT_EQUAL_FATAL(wi_sched_begin(&spec, &b), WEFT_SUCCESS);
    for (int i = 1; i < nranks && !through_slots; i++) {
        int to = (rank + i) % nranks, from = (rank + nranks - i) % nranks;
        lane = wi_sched_lane(b, to, from, 0);
        wi_sched_send(b, lane, wi_at(WI_SRC, 0, 3));
        wi_sched_recv(b, lane, wi_at(WI_DST, 3 * (uint32_t)from, 3));
    }
    lane = wi_sched_lane(b, WI_NO_PEER, WI_NO_PEER, 0);
    if (through_slots) { /* before the own copy: both may be made at once */
        wi_sched_copy(b, lane, wi_at(WI_TMP, 0, 3), wi_at(WI_SRC, 0, 3));
        wi_sched_signal(b, lane);
    }
    wi_sched_copy(b, lane, wi_at(WI_DST, 3 * (uint32_t)rank, 3), wi_at(WI_SRC, 0, 3));
    for (int i = 1; i < nranks && through_slots; i++) {
        int from = (rank + i) % nranks;
        wi_sched_wait(b, lane, from, lane, 0);
        wi_sched_copy(b, lane, wi_at(WI_DST, 3 * (uint32_t)from, 3), wi_at_rank(WI_TMP, from, 0, 3));
    }
    CU_ASSERT_EQUAL_FATAL(wi_sched_seal(b, &s), WEFT_SUCCESS);
    return s;
}

static void cut_shares(void)
{
    struct campaign c = {.runs = 24, .seed = 1};

    for (int through_slots = 0; through_slots < 2; through_slots++)
        for (int n = 2; n <= 5; n++) {
            struct form f = {.coll = WI_COLL_ALL_GATHER, .name = "cut", .nranks = n};
            for (int r = 0; r < n; r++)
                f.sched[r] = gather_cut(r, n, through_slots);
            CU_ASSERT_EQUAL(wi_sched_check((const struct wi_sched *const *)f.sched, n, 0), WEFT_SUCCESS);
            for (int i = 0; through_slots && n == 2 && i < 12; i++) /* fragments of 16 KiB */
                c.failed += form_run(&f, SIZE_HUGE, DRIVE_QUEUED, (enum engine)(i % 3), c.seed++, &c.seen) != 0;
            campaign_form(&c, &f);
        }
    finish(&c);
    CU_ASSERT(c.seen.fused > 10);
}

static const struct wt_case cases[] = {
    {"the plain interpreter does what collectives are defined to do", definitions},
    {"the fake transport judges", transport_judges},
    {"algorithms of messages", messages},
    {"mapped algorithms", mapped},
    {"stages", stages},
    {"slices of stages", slices_of_stages},
    {"programs of stages are kept", stages_are_kept},
    {"stages that do not fit", stages_that_do_not_fit},
    {"stages that are refused", stages_that_are_refused},
    {"hierarchical algorithms", hierarchical},
    {"long stores and puts to other ranks", long_parts},
    {"shares that a schedule cuts", cut_shares},
};
WT_UNIT_MAIN("exec", cases)

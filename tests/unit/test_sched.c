/* SPDX-License-Identifier: BSD-3-Clause */
/* Schedules: builder, seal, text, JSON, DOT, facts, reference counts. */
#include "unit.h"

#include <jansson.h>

#include "base/alloc.h"
#include "base/status.h"
#include "sched_samples.h"

#define NO WI_NO_PEER

/* Shows the text that was found when it is not the one wanted. */
static void assert_refused(weft_status st, weft_status want, const char *text)
{
    if (st != want || !strstr(wi_fail_text(), text))
        printf("# wanted \"%s\", found %d \"%s\"\n", text, st, wi_fail_text());
    CU_ASSERT_EQUAL(st, want);
    CU_ASSERT_PTR_NOT_NULL(strstr(wi_fail_text(), text));
}

static struct wi_sched_builder *begin(enum wi_coll coll, int rank, int nranks, uint32_t nblocks, uint32_t tmp_blocks)
{
    struct wi_sched_spec spec = {
        .coll = coll, .algo = "test", .rank = rank, .nranks = nranks, .nblocks = nblocks, .tmp_blocks = tmp_blocks};
    struct wi_sched_builder *b = NULL;

    CU_ASSERT_EQUAL_FATAL(wi_sched_begin(&spec, &b), WEFT_SUCCESS);
    return b;
}

static void assert_seal_refused(struct wi_sched_builder *b, const char *text)
{
    struct wi_sched *sched = NULL;

    wi_fail_clear();
    assert_refused(wi_sched_seal(b, &sched), WEFT_EINVAL, text);
    CU_ASSERT_PTR_NULL(sched);
}

static struct wi_sched *seal(struct wi_sched_builder *b)
{
    struct wi_sched *sched = NULL;
    weft_status st = wi_sched_seal(b, &sched);

    if (st)
        printf("# %s\n", wi_fail_text());
    CU_ASSERT_EQUAL_FATAL(st, WEFT_SUCCESS);
    return sched;
}

static char *printed(const struct wi_sched *sched, size_t *bytes)
{
    char *text = NULL;
    FILE *f = open_memstream(&text, bytes);

    CU_ASSERT_PTR_NOT_NULL_FATAL(f);
    CU_ASSERT_EQUAL(wi_sched_print(sched, f), WEFT_SUCCESS);
    fclose(f);
    return text;
}

/* ---- Names ---- */

static void names_are_found_again(void)
{
    enum wi_coll coll;

    for (int i = 0; i < WI_NUM_COLLS; i++) {
        CU_ASSERT_EQUAL(wi_coll_parse(wi_coll_name((enum wi_coll)i), &coll), 0);
        CU_ASSERT_EQUAL((int)coll, i);
    }
    CU_ASSERT_STRING_EQUAL(wi_coll_name(WI_NUM_COLLS), "?");
    CU_ASSERT_EQUAL(wi_coll_parse("all_reduc", &coll), -1);
    CU_ASSERT_EQUAL(wi_coll_parse(NULL, &coll), -1);
}

/* ---- Begin ---- */

static void begin_refuses_bad_specs(void)
{
    static const struct {
        struct wi_sched_spec spec;
        const char *text;
    } bad[] = {
        {{.coll = WI_NUM_COLLS, .algo = "a", .nranks = 1, .nblocks = 1}, "unknown collective"},
        {{.algo = NULL, .nranks = 1, .nblocks = 1}, "algorithm name"},
        {{.algo = "", .nranks = 1, .nblocks = 1}, "algorithm name"},
        {{.algo = "two words", .nranks = 1, .nblocks = 1}, "algorithm name"},
        {{.algo = "abcdefghijklmnopqrstuvwx", .nranks = 1, .nblocks = 1}, "algorithm name"},
        {{.algo = "a", .nranks = 0, .nblocks = 1}, "0 ranks"},
        {{.algo = "a", .nranks = 2, .rank = 2, .nblocks = 1}, "rank 2 is not one of 2"},
        {{.algo = "a", .nranks = 2, .rank = -1, .nblocks = 1}, "rank -1"},
        {{.algo = "a", .nranks = 2, .root = 2, .nblocks = 1}, "root 2"},
        {{.algo = "a", .nranks = 2, .nblocks = 0}, "0 blocks"},
        {{.algo = "a", .nranks = 2, .nblocks = 1, .tmp_blocks = UINT32_MAX}, "of tmp"},
        {{.coll = WI_COLL_ALL_TO_ALL, .algo = "a", .nranks = 2, .in_place = 1}, "cannot be in place"},
    };
    struct wi_sched_builder *b = NULL;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        wi_fail_clear();
        assert_refused(wi_sched_begin(&bad[i].spec, &b), WEFT_EINVAL, bad[i].text);
        CU_ASSERT_PTR_NULL(b);
    }
}

/* ---- Seal ---- */

static void seal_lays_out_what_was_built(void)
{
    struct wi_sched_builder *b = begin(WI_COLL_ALL_REDUCE, 0, 3, 4, 2);
    uint32_t first = wi_sched_lane(b, 1, 2, 3), second = wi_sched_lane(b, NO, NO, 0);
    uint32_t copy = wi_sched_copy(b, second, wi_at(WI_TMP, 0, 2), wi_at(WI_SRC, 1, 2));
    uint32_t sent = wi_sched_send(b, first, wi_at(WI_TMP, 1, 1));
    wi_sched_after(b, first, second, copy);
    wi_sched_recv_reduce(b, first, wi_at(WI_DST, 3, 1), wi_at(WI_SRC, 3, 1), WI_STEP_RECV_LEFT | WI_STEP_FINAL);
    struct wi_sched *s = seal(b);

    CU_ASSERT_EQUAL(s->nlanes, 2);
    CU_ASSERT_EQUAL(s->nsteps, 3);
    CU_ASSERT_EQUAL(s->nregions, 5);
    CU_ASSERT_EQUAL(s->nchans, 4);
    CU_ASSERT_EQUAL(s->mapped + s->peer_src + s->peer_dst + s->ll, 0);
    CU_ASSERT_EQUAL(s->buf_blocks[WI_SRC], 4);
    CU_ASSERT_EQUAL(s->buf_blocks[WI_TMP], 2);
    CU_ASSERT_STRING_EQUAL(s->algo, "test");
    const struct wi_lane *l = &s->lanes[first];
    const struct wi_step *step = &s->steps[l->first_step + sent];
    CU_ASSERT_EQUAL(l->send_peer, 1);
    CU_ASSERT_EQUAL(l->recv_peer, 2);
    CU_ASSERT_EQUAL(step->kind, WI_STEP_SEND);
    CU_ASSERT_EQUAL(step->dep_lane, (int32_t)second);
    CU_ASSERT_EQUAL(step->dep_step, copy);
    CU_ASSERT_EQUAL(s->regions[step->src].buf, WI_TMP);
    CU_ASSERT_EQUAL(s->regions[step->src].first, 1);
    step++;
    CU_ASSERT_EQUAL(step->flags, WI_STEP_RECV_LEFT | WI_STEP_FINAL);
    CU_ASSERT_EQUAL(step->dep_lane, WI_NO_DEP);
    CU_ASSERT_EQUAL(s->regions[step->dst].buf, WI_DST);
    wi_sched_put(s);
}

/* A second dependency becomes a NOP; what was returned earlier still names the step itself. */
static void second_dependency_keeps_indices(void)
{
    struct wi_sched_builder *b = begin(WI_COLL_ALL_REDUCE, 0, 4, 1, 3);
    uint32_t a = wi_sched_lane(b, NO, 1, 0), c = wi_sched_lane(b, NO, 2, 0), d = wi_sched_lane(b, 3, NO, 0),
             e = wi_sched_lane(b, 1, NO, 0);
    uint32_t x = wi_sched_recv(b, a, wi_at(WI_TMP, 0, 1)), y = wi_sched_recv(b, c, wi_at(WI_TMP, 1, 1));
    uint32_t out = wi_sched_send(b, d, wi_at(WI_TMP, 0, 1));
    wi_sched_after(b, d, a, x);
    wi_sched_after(b, d, c, y);
    wi_sched_after(b, d, d, 0); /* of itself: refused below, in a schedule of its own */
    wi_sched_send(b, e, wi_at(WI_TMP, 1, 1));
    wi_sched_after(b, e, d, out);
    struct wi_sched *s = NULL;
    assert_refused(wi_sched_seal(b, &s), WEFT_EINVAL, "own lane");

    b = begin(WI_COLL_ALL_REDUCE, 0, 4, 1, 3);
    a = wi_sched_lane(b, NO, 1, 0), c = wi_sched_lane(b, NO, 2, 0), d = wi_sched_lane(b, 3, NO, 0);
    e = wi_sched_lane(b, 1, NO, 0);
    x = wi_sched_recv(b, a, wi_at(WI_TMP, 0, 1)), y = wi_sched_recv(b, c, wi_at(WI_TMP, 1, 1));
    uint32_t early = wi_sched_send(b, d, wi_at(WI_SRC, 0, 1));
    out = wi_sched_send(b, d, wi_at(WI_TMP, 0, 1));
    wi_sched_after(b, d, a, x);
    wi_sched_after(b, d, c, y);
    wi_sched_after(b, d, d, early); /* said by the lane's order */
    wi_sched_send(b, e, wi_at(WI_TMP, 1, 1));
    wi_sched_after(b, e, d, out);
    s = seal(b);
    const struct wi_step *steps = &s->steps[s->lanes[d].first_step];
    CU_ASSERT_EQUAL(s->lanes[d].nsteps, 3);
    CU_ASSERT_EQUAL(steps[0].kind, WI_STEP_SEND);
    CU_ASSERT_EQUAL(steps[1].kind, WI_STEP_NOP);
    CU_ASSERT_EQUAL(steps[1].dep_lane, (int32_t)a);
    CU_ASSERT_EQUAL(steps[2].kind, WI_STEP_SEND);
    CU_ASSERT_EQUAL(steps[2].dep_lane, (int32_t)c);
    CU_ASSERT_EQUAL(s->steps[s->lanes[e].first_step].dep_step, 2);
    CU_ASSERT_EQUAL(out, 1);
    wi_sched_put(s);
}

static void seal_derives_mapped_facts(void)
{
    static const struct {
        const char *name;
        int mapped, peer_src, peer_dst, ll;
    } want[] = {{"ring", 0, 0, 0, 0},
                {"one_shot", 1, 0, 0, 1},
                {"direct", 1, 1, 1, 0},
                {"mapped_barrier", 1, 0, 0, 0},
                {"push_chain", 1, 0, 0, 0}};
    struct wi_sched *s;

    for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
        for (int r = 0; r < 3; r++) {
            CU_ASSERT_EQUAL_FATAL(sample_build(sample_find(want[i].name), r, 3, 0, 0, &s), WEFT_SUCCESS);
            CU_ASSERT_EQUAL(s->mapped, want[i].mapped);
            CU_ASSERT_EQUAL(s->peer_src, want[i].peer_src);
            CU_ASSERT_EQUAL(s->peer_dst, want[i].peer_dst);
            CU_ASSERT_EQUAL(s->ll, want[i].ll);
            wi_sched_put(s);
        }
    }
}

/* What keeps a schedule from running over ll lines. */
static void ll_needs_one_publication(void)
{
    struct wi_region dst = wi_at(WI_DST, 0, 1), two[2] = {wi_at(WI_SRC, 0, 1), wi_at_rank(WI_TMP, 1, 0, 1)};

    for (int variant = 0; variant < 7; variant++) {
        struct wi_sched_spec spec = {.algo = "test", .nranks = 2, .nblocks = 1, .tmp_blocks = 2, .no_ll = variant == 6};
        struct wi_sched_builder *b;
        CU_ASSERT_EQUAL_FATAL(wi_sched_begin(&spec, &b), WEFT_SUCCESS);
        uint32_t lane = wi_sched_lane(b, NO, NO, 0);
        if (variant == 1)
            wi_sched_wait(b, lane, 1, 0, 1); /* before its signal */
        wi_sched_copy(b, lane, wi_at(WI_TMP, 0, 1), wi_at(WI_SRC, 0, 1));
        wi_sched_signal(b, lane);
        if (variant == 2)
            wi_sched_signal(b, lane); /* a second one */
        if (variant == 3)
            wi_sched_copy(b, lane, wi_at(WI_TMP, 1, 1), wi_at(WI_SRC, 0, 1)); /* publishes too late */
        if (variant != 4)                                                     /* reads without */
            wi_sched_wait(b, lane, 1, 0, 0);
        wi_sched_reduce(b, lane, &dst, 1, two, 2, WI_STEP_FINAL);
        if (variant == 5)
            wi_sched_lane(b, NO, NO, 0);
        struct wi_sched *s = seal(b);
        CU_ASSERT_EQUAL(s->ll, variant == 0);
        wi_sched_put(s);
    }
}

/* ---- Form errors ---- */

static struct wi_sched_builder *lane01(uint32_t *lane)
{
    struct wi_sched_builder *b = begin(WI_COLL_ALL_REDUCE, 0, 4, 4, 2);

    *lane = wi_sched_lane(b, 1, 3, 0);
    return b;
}

static void seal_refuses_bad_lanes(void)
{
    static const struct {
        int send, recv;
        uint32_t chan;
        const char *text;
    } bad[] = {
        {4, NO, 0, "send peer 4"},
        {NO, 9, 0, "receive peer 9"},
        {0, NO, 0, "the rank itself"},
        {1, 3, 8, "channel 8"},
        {-2, NO, 0, "send peer -2"},
        {1, 2, 0, "lane 0 sends to rank 1"},
        {2, 3, 0, "lane 0 receives from rank 3"},
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        uint32_t lane;
        struct wi_sched_builder *b = lane01(&lane);
        wi_sched_lane(b, bad[i].send, bad[i].recv, bad[i].chan);
        assert_seal_refused(b, bad[i].text);
    }
}

static void seal_refuses_bad_regions(void)
{
    static const struct {
        struct wi_region dst, src;
        const char *text;
    } bad[] = {
        {{WI_DST, WI_SELF, 4, 1}, {WI_SRC, WI_SELF, 0, 1}, "dst[4:1]: out of bounds"},
        {{WI_DST, WI_SELF, 3, 2}, {WI_SRC, WI_SELF, 0, 2}, "out of bounds"},
        {{WI_DST, WI_SELF, UINT32_MAX, 2}, {WI_SRC, WI_SELF, 0, 2}, "out of bounds"},
        {{WI_DST, WI_SELF, 0, 0}, {WI_SRC, WI_SELF, 0, 0}, "out of bounds"},
        {{WI_TMP, WI_SELF, 2, 1}, {WI_SRC, WI_SELF, 0, 1}, "tmp[2:1]: out of bounds"},
        {{3, WI_SELF, 0, 1}, {WI_SRC, WI_SELF, 0, 1}, "no such buffer"},
        {{WI_DST, 4, 0, 1}, {WI_SRC, WI_SELF, 0, 1}, "not another one of 4"},
        {{WI_DST, -2, 0, 1}, {WI_SRC, WI_SELF, 0, 1}, "not another one of 4"},
        {{WI_DST, WI_SELF, 0, 2}, {WI_SRC, WI_SELF, 0, 1}, "src[0:1]: 1 blocks, the step's first region has 2"},
        {{WI_SRC, WI_SELF, 0, 1}, {WI_TMP, WI_SELF, 0, 1}, "src[0:1]: src is written"},
        {{WI_SRC, 2, 0, 1}, {WI_TMP, WI_SELF, 0, 1}, "src@2[0:1]: src is written"},
        {{WI_DST, WI_SELF, 1, 2}, {WI_DST, WI_SELF, 2, 2}, "overlap in part"},
        {{WI_DST, WI_SELF, 0, 4}, {WI_DST, WI_SELF, 1, 4}, "out of bounds"},
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct wi_sched_builder *b = begin(WI_COLL_ALL_REDUCE, 0, 4, 4, 2);
        uint32_t lane = wi_sched_lane(b, NO, NO, 0);
        wi_sched_reduce(b, lane, &bad[i].dst, 1, &bad[i].src, 1, 0);
        assert_seal_refused(b, bad[i].text);
    }
}

static void seal_refuses_bad_steps(void)
{
    struct wi_region dst[2] = {wi_at(WI_DST, 0, 2), wi_at(WI_DST, 1, 2)};
    struct wi_region src = wi_at(WI_SRC, 0, 2);

    for (int variant = 0; variant < 15; variant++) {
        static const char *const text[] = {"no peer to send to",
                                           "no peer to receive from",
                                           "destinations dst[1:2] and dst[0:2] overlap",
                                           "flags",
                                           "waits for rank 4",
                                           "its own rank",
                                           "lane 4 of rank 1",
                                           "signal 7 of rank 1",
                                           "more than 7 signals",
                                           "the step's first region has",
                                           "a lane with peers",
                                           "copied onto itself",
                                           "do not fit its kind",
                                           "lane 0 has no step",
                                           "lane 1, but there are 1 lanes"};
        struct wi_sched_builder *b = begin(WI_COLL_ALL_REDUCE, 0, 4, 4, 2);
        uint32_t lane = variant < 9 ? wi_sched_lane(b, NO, NO, 0) : wi_sched_lane(b, 1, 3, 0);
        switch (variant) {
        case 0:
            wi_sched_send(b, lane, wi_at(WI_SRC, 0, 1));
            break;
        case 1:
            wi_sched_recv(b, lane, wi_at(WI_DST, 0, 1));
            break;
        case 2:
            wi_sched_reduce(b, lane, dst, 2, &src, 1, 0);
            break;
        case 3:
            wi_sched_reduce(b, lane, dst, 1, &src, 1, WI_STEP_RECV_LEFT);
            break;
        case 4:
            wi_sched_wait(b, lane, 4, 0, 0);
            break;
        case 5:
            wi_sched_wait(b, lane, 0, 0, 0);
            break;
        case 6:
            wi_sched_wait(b, lane, 1, 4, 0);
            break;
        case 7:
            wi_sched_wait(b, lane, 1, 0, 7);
            break;
        case 8:
            for (int i = 0; i < 8; i++)
                wi_sched_signal(b, lane);
            break;
        case 9:
            wi_sched_recv_reduce(b, lane, wi_at(WI_DST, 0, 1), src, 0);
            break;
        case 10:
            wi_sched_send(b, lane, wi_at_rank(WI_SRC, 1, 0, 1));
            break;
        case 11:
            wi_sched_copy(b, lane, dst[0], wi_at(WI_DST, 0, 2));
            break;
        case 12:
            wi_sched_reduce(b, lane, dst, 1, &src, 0, 0);
            break;
        case 13:
            wi_sched_after(b, lane, 1, 0);
            break;
        default:
            wi_sched_copy(b, 1, dst[0], src);
            break;
        }
        assert_seal_refused(b, text[variant]);
    }
}

static void seal_refuses_bad_dependencies(void)
{
    static const char *const text[] = {"depends on lane 7", "a step that lane 1 does not have", "in a circle"};

    for (int variant = 0; variant < 3; variant++) {
        struct wi_sched_builder *b = begin(WI_COLL_ALL_REDUCE, 0, 4, 4, 2);
        uint32_t a = wi_sched_lane(b, NO, NO, 0), c = wi_sched_lane(b, NO, NO, 0);
        wi_sched_copy(b, a, wi_at(WI_TMP, 0, 1), wi_at(WI_SRC, 0, 1));
        wi_sched_after(b, a, variant == 0 ? 7 : c, variant == 1 ? 1 : 0);
        wi_sched_copy(b, c, wi_at(WI_TMP, 1, 1), wi_at(WI_SRC, 0, 1));
        wi_sched_after(b, c, a, 0);
        assert_seal_refused(b, text[variant]);
    }
}

static void lanes_of_two_kinds_do_not_mix(void)
{
    struct wi_sched_builder *b = begin(WI_COLL_ALL_REDUCE, 0, 4, 4, 2);
    uint32_t lane = 0;

    for (int i = 0; i < 5; i++)
        lane = wi_sched_lane(b, NO, NO, 0);
    wi_sched_signal(b, lane);
    assert_seal_refused(b, "5 lanes, at most 4");
    b = begin(WI_COLL_ALL_REDUCE, 0, 4, 4, 2);
    wi_sched_signal(b, wi_sched_lane(b, 1, NO, 0));
    assert_seal_refused(b, "lane 0: a lane with peers");
}

/* Buffers that a rank's caller does not give have no blocks. */
static void buffers_fit_the_collective(void)
{
    static const struct {
        enum wi_coll coll;
        uint32_t src_root, dst_root, src_other, dst_other;
    } want[] = {
        {WI_COLL_ALL_REDUCE, 5, 5, 5, 5}, {WI_COLL_REDUCE, 5, 5, 5, 0},         {WI_COLL_BROADCAST, 5, 5, 0, 5},
        {WI_COLL_ALL_GATHER, 1, 3, 1, 3}, {WI_COLL_REDUCE_SCATTER, 3, 1, 3, 1}, {WI_COLL_ALL_TO_ALL, 3, 3, 3, 3},
        {WI_COLL_GATHER_V, 1, 3, 1, 0},   {WI_COLL_SCATTER, 3, 1, 0, 1},        {WI_COLL_SCAN, 5, 5, 5, 5},
    };

    for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
        for (int r = 0; r < 2; r++) {
            struct wi_sched *s = seal(begin(want[i].coll, r, 3, 5, 0));
            CU_ASSERT_EQUAL(s->buf_blocks[WI_SRC], r ? want[i].src_other : want[i].src_root);
            CU_ASSERT_EQUAL(s->buf_blocks[WI_DST], r ? want[i].dst_other : want[i].dst_root);
            wi_sched_put(s);
        }
    }
}

static void limits_hold(void)
{
    struct wi_sched *s = NULL;
    struct wi_sched_builder *b = begin(WI_COLL_ALL_REDUCE, 0, 2, 1, 0);

    for (int i = 0; i < 1025; i++)
        wi_sched_lane(b, NO, NO, 0);
    assert_refused(wi_sched_seal(b, &s), WEFT_ENOTSUP, "more than 1024 lanes");
    b = begin(WI_COLL_ALL_REDUCE, 0, 2, 1, 0);
    uint32_t lane = wi_sched_lane(b, NO, NO, 0);
    for (int i = 0; i < 65537; i++)
        wi_sched_copy(b, lane, wi_at(WI_DST, 0, 1), wi_at(WI_SRC, 0, 1));
    assert_refused(wi_sched_seal(b, &s), WEFT_ENOTSUP, "more than 65536 steps");
}

static void references_are_counted(void)
{
    struct wi_sched *s;

    CU_ASSERT_EQUAL_FATAL(sample_build(sample_find("ring"), 1, 4, 0, 0, &s), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(s->refs, 1);
    CU_ASSERT_PTR_EQUAL(wi_sched_get(s), s);
    CU_ASSERT_EQUAL(s->refs, 2);
    wi_sched_put(s);
    CU_ASSERT_EQUAL(s->refs, 1);
    wi_sched_put(s);
    wi_sched_put(NULL);
    wi_sched_abandon(NULL);
    wi_sched_abandon(begin(WI_COLL_SCAN, 0, 2, 1, 0));
}

/* ---- Text ---- */

static int equal(const struct wi_sched *a, const struct wi_sched *b)
{
    return a->coll == b->coll && a->in_place == b->in_place && a->mapped == b->mapped && a->peer_src == b->peer_src &&
           a->peer_dst == b->peer_dst && a->ll == b->ll && a->rank == b->rank && a->nranks == b->nranks &&
           a->root == b->root && !strcmp(a->algo, b->algo) && a->nblocks == b->nblocks &&
           !memcmp(a->buf_blocks, b->buf_blocks, sizeof(a->buf_blocks)) && a->nlanes == b->nlanes &&
           a->nsteps == b->nsteps && a->nregions == b->nregions && a->nchans == b->nchans &&
           !memcmp(a->lanes, b->lanes, a->nlanes * sizeof(*a->lanes)) &&
           !memcmp(a->steps, b->steps, a->nsteps * sizeof(*a->steps)) &&
           !memcmp(a->regions, b->regions, a->nregions * sizeof(*a->regions));
}

static void round_trip(const struct wi_sched *s)
{
    size_t bytes, again_bytes;
    struct wi_sched *parsed = NULL;
    char *text = printed(s, &bytes);
    weft_status st = wi_sched_parse(text, bytes, &parsed);

    if (st)
        printf("# %s\n%s", wi_fail_text(), text);
    CU_ASSERT_EQUAL_FATAL(st, WEFT_SUCCESS);
    CU_ASSERT(equal(s, parsed));
    char *again = printed(parsed, &again_bytes);
    CU_ASSERT_STRING_EQUAL(text, again);
    wi_sched_put(parsed);
    free(text);
    free(again);
}

static void samples_survive_the_round_trip(void)
{
    struct wi_sched *s;

    for (unsigned i = 0; i < nsamples; i++) {
        for (int nranks = 2; nranks <= 5; nranks++) {
            for (int r = 0; r < nranks; r++) {
                for (int in_place = 0; in_place <= !!(samples[i].flags & SAMPLE_IN_PLACE); in_place++) {
                    CU_ASSERT_EQUAL_FATAL(sample_build(&samples[i], r, nranks, 0, in_place, &s), WEFT_SUCCESS);
                    round_trip(s);
                    wi_sched_put(s);
                }
            }
        }
    }
}

static const char golden[] = "weft-schedule 1\n"
                             "coll all_reduce algo ring rank 0 nranks 4 root 0 in_place 0 blocks 4 tmp 2 ll 0\n"
                             "lane 0 send 1 recv 3 chan 0\n"
                             "  0 send src[0:1]\n"
                             "  1 recv_reduce_send dst[3:1] <- src[3:1] left final\n"
                             "  2 recv_reduce tmp[0:2] <- src[2:2] after 1.1\n"
                             "  3 recv_send dst[1:1]\n"
                             "lane 1 send - recv - chan 2\n"
                             "  0 nop\n"
                             "  1 copy dst[0:1] dst[1:1] <- src[1:1]\n"
                             "  2 reduce dst[2:1] <- tmp[0:1] tmp[1:1] final after 0.2\n"
                             "end\n";

static void text_is_as_documented(void)
{
    struct wi_sched *s = NULL;
    size_t bytes;

    CU_ASSERT_EQUAL_FATAL(wi_sched_parse(golden, strlen(golden), &s), WEFT_SUCCESS);
    char *text = printed(s, &bytes);
    CU_ASSERT_STRING_EQUAL(text, golden);
    CU_ASSERT_EQUAL(s->lanes[0].recv_peer, 3);
    CU_ASSERT_EQUAL(s->steps[1].flags, WI_STEP_RECV_LEFT | WI_STEP_FINAL);
    CU_ASSERT_EQUAL(s->steps[5].ndst, 2);
    CU_ASSERT_EQUAL(s->steps[6].dep_step, 2);
    free(text);
    wi_sched_put(s);
}

static void text_may_have_comments_and_blanks(void)
{
    static const char text[] = "# golden\n\nweft-schedule  1\r\n"
                               "coll barrier algo x rank 1 nranks 2 root 0 in_place 0 blocks 1 tmp 0 ll 0\n"
                               "   # the only lane\nlane 0 send - recv - chan 0\n\t0 signal 0\n"
                               "0 wait\n";
    static const char good[] =
        "weft-schedule 1\ncoll barrier algo x rank 1 nranks 2 root 0 in_place 0 blocks 1 tmp 0 ll 0\n"
        "# c\n\nlane 0 send - recv - chan 0\n\t0   signal 0\n1 wait rank 0 lane 0 signal 0\nend\n\n# over\n";
    struct wi_sched *s = NULL;

    assert_refused(wi_sched_parse(text, strlen(text), &s), WEFT_EINVAL, "line 8: step 0 out of turn");
    CU_ASSERT_EQUAL_FATAL(wi_sched_parse(good, strlen(good), &s), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(s->nsteps, 2);
    wi_sched_put(s);
}

/* Replace the first `from` of the golden text. */
static void assert_text_refused(const char *from, const char *to, const char *text)
{
    char changed[2048];
    const char *at = strstr(golden, from);
    struct wi_sched *s = NULL;

    CU_ASSERT_PTR_NOT_NULL_FATAL(at);
    snprintf(changed, sizeof(changed), "%.*s%s%s", (int)(at - golden), golden, to, at + strlen(from));
    wi_fail_clear();
    weft_status st = wi_sched_parse(changed, strlen(changed), &s);
    if (st == WEFT_SUCCESS || !strstr(wi_fail_text(), text))
        printf("# \"%s\": wanted \"%s\", found \"%s\"\n", to, text, wi_fail_text());
    CU_ASSERT(st < 0);
    CU_ASSERT_PTR_NOT_NULL(strstr(wi_fail_text(), text));
    CU_ASSERT_PTR_NULL(s);
}

static void parse_names_line_and_cause(void)
{
    static const char *const bad[][3] = {
        {"weft-schedule 1", "weft-sched 1", "line 1: \"weft-schedule\" expected, found weft-sched"},
        {"weft-schedule 1", "weft-schedule 2", "line 1: version 2"},
        {"weft-schedule 1", "weft-schedule", "line 1: the version must be a number"},
        {"weft-schedule 1", "weft-schedule 1 x", "line 1: x is too much"},
        {"all_reduce", "all_red", "line 2: unknown collective all_red"},
        {"algo ring", "algo ri\"ng", "line 2: schedule: algorithm name"},
        {"algo ring", "algo abcdefghijklmnopqrstuvwxyz", "line 2: the algorithm's name"},
        {"rank 0", "rank 4", "line 2: schedule all_reduce/ring: rank 4"},
        {"rank 0", "rank -1", "line 2: rank must be a number"},
        {"nranks 4", "nranks 4097", "line 2: nranks must be a number from 0 to 4096"},
        {"nranks 4", "nranks 04", "line 2: nranks"},
        {"root 0", "rot 0", "line 2: \"root\" expected"},
        {"in_place 0", "in_place 2", "line 2: in_place"},
        {"blocks 4", "blocks 99999999999999999999", "line 2: blocks"},
        {"ll 0", "ll 1", "not fit for ll"},
        {"ll 0\n", "\n", "line 2: \"ll\" expected, found the end of the line"},
        {"lane 0", "lane 1", "line 3: lane 1 out of turn, the next is 0"},
        {"send 1", "send 9", "line 3: schedule all_reduce/ring of rank 0/4: lane 0: send peer 9"},
        {"send 1", "send +1", "line 3: send must be a number"},
        {"chan 0", "chan 8", "line 3: chan must be a number from 0 to 7"},
        {"lane 0 send 1 recv 3 chan 0\n", "", "line 3: a step before the first lane"},
        {"0 send src", "1 send src", "line 4: step 1 out of turn, the next is 0"},
        {"0 send src", "0 sent src", "line 4: unknown step sent"},
        {"src[0:1]", "src[4:1]",
         "line 4: schedule all_reduce/ring of rank 0/4: lane 0 step 0 (send): src[4:1]: out of bounds"},
        {"src[0:1]", "src[0:1", "line 4: malformed region"},
        {"src[0:1]", "src[0:1]x", "line 4: malformed region"},
        {"src[0:1]", "src[:1]", "line 4: malformed region"},
        {"src[0:1]", "src[0:4294967296]", "line 4: malformed region"},
        {"src[0:1]", "buf[0:1]", "line 4: a region of src, dst or tmp expected"},
        {"src[0:1]", "src@0[0:1]", "line 4: region src@0[0:1] names its own rank"},
        {"src[0:1]", "src@x[0:1]", "line 4: malformed rank"},
        {"src[0:1]", "src@2[0:1]", "line 3: schedule all_reduce/ring of rank 0/4: lane 0: a lane with peers"},
        {"src[0:1]", "", "line 4: schedule all_reduce/ring of rank 0/4: lane 0 step 0 (send): 0 destinations"},
        {"<- src[3:1]", "<-", "line 5: a region expected after <-"},
        {"left final", "final left", "line 5: left is not understood here"},
        {"left final", "left final final", "line 5: final is not understood here"},
        {"after 1.1", "after 1", "line 6: LANE.STEP expected"},
        {"after 1.1", "after 1.9",
         "line 6: schedule all_reduce/ring of rank 0/4: lane 0 step 2 (recv_reduce): depends on a step"},
        {"after 1.1", "after 0.0", "line 6: the step depends on its own lane"},
        {"after 1.1", "after 9.0", "line 6: schedule"},
        {"after 1.1", "after 1.2", "in a circle"},
        {"nop", "signal 0", "line 3: schedule all_reduce/ring of rank 0/4: lane 0: a lane with peers"},
        {"nop", "signal 7", "line 9: signal must be a number from 0 to 6"},
        {"nop", "wait rank 1 lane 4 signal 0", "line 9: lane must be a number from 0 to 3"},
        {"nop", "\001", "line 9: byte 0x1 in a word"},
        {"nop", "\303\244", "line 9: byte 0xc3 in a word"},
        {"nop", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "line 9: a word of more than 63"},
        {"end\n", "", "line 12: \"end\" expected, found the end of the text"},
        {"end\n", "end end\n", "line 12: end is too much"},
        {"end\n", "end\nlane 2\n", "line 13: text after"},
        {"end\n", "stop\n", "line 12: \"lane\", \"end\" or a step's number expected, found stop"},
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_text_refused(bad[i][0], bad[i][1], bad[i][2]);
}

static void parse_survives_every_cut(void)
{
    struct wi_sched *s = NULL;

    for (size_t n = 0; n < strlen(golden) - 1; n++) {
        /* Of exactly n bytes, so that a read past them is seen. */
        char *cut = malloc(n + 1);
        memcpy(cut, golden, n);
        cut = realloc(cut, n ? n : 1);
        CU_ASSERT_EQUAL(wi_sched_parse(cut, n, &s), WEFT_EINVAL);
        free(cut);
    }
    CU_ASSERT_EQUAL(wi_sched_parse(golden, strlen(golden) - 1, &s), WEFT_SUCCESS); /* no last newline */
    wi_sched_put(s);
    CU_ASSERT_EQUAL(wi_sched_parse(NULL, 0, &s), WEFT_EINVAL);
}

static void print_reports_a_full_disk(void)
{
    struct wi_sched *s;
    FILE *full = fopen("/dev/full", "w");

    if (!full) {
        wt_skip("no /dev/full");
        return;
    }
    setvbuf(full, NULL, _IONBF, 0);
    CU_ASSERT_EQUAL_FATAL(sample_build(sample_find("ring"), 0, 4, 0, 0, &s), WEFT_SUCCESS);
    CU_ASSERT(wi_sched_print(s, full) < 0);
    CU_ASSERT(wi_sched_json(s, full) < 0);
    fclose(full);
    wi_sched_put(s);
}

/* ---- JSON and DOT ---- */

static void json_holds_every_step(void)
{
    for (unsigned i = 0; i < nsamples; i++) {
        struct wi_sched *s;
        char *text = NULL;
        size_t bytes = 0;
        CU_ASSERT_EQUAL_FATAL(sample_build(&samples[i], 1, 4, 0, 0, &s), WEFT_SUCCESS);
        FILE *f = open_memstream(&text, &bytes);
        CU_ASSERT_EQUAL(wi_sched_json(s, f), WEFT_SUCCESS);
        fclose(f);
        json_error_t error;
        json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &error);
        if (!root)
            printf("# line %d: %s\n%s", error.line, error.text, text);
        CU_ASSERT_PTR_NOT_NULL_FATAL(root);
        CU_ASSERT_STRING_EQUAL(json_string_value(json_object_get(root, "coll")), wi_coll_name((enum wi_coll)s->coll));
        CU_ASSERT_EQUAL(json_integer_value(json_object_get(root, "nranks")), 4);
        CU_ASSERT_EQUAL(json_is_true(json_object_get(root, "mapped")), s->mapped);
        json_t *lanes = json_object_get(root, "lanes");
        CU_ASSERT_EQUAL(json_array_size(lanes), s->nlanes);
        size_t nsteps = 0, nregions = 0;
        for (size_t k = 0; k < json_array_size(lanes); k++) {
            json_t *steps = json_object_get(json_array_get(lanes, k), "steps");
            nsteps += json_array_size(steps);
            for (size_t n = 0; n < json_array_size(steps); n++)
                nregions += json_array_size(json_object_get(json_array_get(steps, n), "src")) +
                            json_array_size(json_object_get(json_array_get(steps, n), "dst"));
        }
        CU_ASSERT_EQUAL(nsteps, s->nsteps);
        CU_ASSERT_EQUAL(nregions, s->nregions);
        json_decref(root);
        free(text);
        wi_sched_put(s);
    }
}

static unsigned count_text(const char *text, const char *what)
{
    unsigned n = 0;

    for (const char *s = text; (s = strstr(s, what)) != NULL; s += strlen(what))
        n++;
    return n;
}

static char *dot_of(const char *name, int nranks, uint32_t *nsteps)
{
    struct wi_sched *s[8];
    char *text = NULL;
    size_t bytes = 0;

    CU_ASSERT_EQUAL_FATAL(sample_build_all(sample_find(name), nranks, 0, 0, s), WEFT_SUCCESS);
    FILE *f = open_memstream(&text, &bytes);
    CU_ASSERT_EQUAL(wi_sched_dot((const struct wi_sched *const *)s, nranks, f), WEFT_SUCCESS);
    fclose(f);
    *nsteps = 0;
    for (int r = 0; r < nranks; r++)
        *nsteps += s[r]->nsteps;
    samples_put(s, nranks);
    return text;
}

static void dot_draws_messages_and_signals(void)
{
    uint32_t nsteps;
    char *text = dot_of("ring", 4, &nsteps);

    CU_ASSERT_EQUAL(count_text(text, "[label="), nsteps);
    CU_ASSERT_EQUAL(count_text(text, "color=blue"), 4 * 6); /* 2(P-1) messages per rank */
    CU_ASSERT_EQUAL(count_text(text, "color=red"), 0);
    CU_ASSERT_EQUAL(count_text(text, "{"), count_text(text, "}"));
    free(text);
    text = dot_of("direct", 4, &nsteps);
    CU_ASSERT_EQUAL(count_text(text, "[label="), nsteps);
    CU_ASSERT_EQUAL(count_text(text, "color=red"), 4 * 3 * 2);
    CU_ASSERT_EQUAL(count_text(text, "{"), count_text(text, "}"));
    free(text);
    text = dot_of("flat_reduce_scatter", 3, &nsteps);
    CU_ASSERT_EQUAL(count_text(text, "style=dotted"), 3 * 2);
    free(text);
}

/* ---- Facts ---- */

static void facts_count_blocks_and_chains(void)
{
    static const struct {
        const char *name;
        int rank;
        struct wi_sched_stats want;
    } cases[] = {
        {"ring", 2, {6, 6, 6, 3, 0}},           {"chain_reduce", 1, {1, 6, 6, 3, 0}},
        {"tree_broadcast", 0, {1, 6, 0, 0, 3}}, {"flat_reduce_scatter", 1, {1, 3, 3, 3, 0}},
        {"barrier", 0, {2, 2, 2, 0, 0}},        {"one_shot", 0, {1, 0, 0, 9, 3}},
        {"direct", 3, {2, 0, 0, 3, 0}},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct wi_sched_stats got;
        struct wi_sched *s;
        CU_ASSERT_EQUAL_FATAL(sample_build(sample_find(cases[i].name), cases[i].rank, 4, 0, 0, &s), WEFT_SUCCESS);
        wi_sched_stats(s, &got);
        const struct wi_sched_stats *w = &cases[i].want;
        if (memcmp(&got, w, sizeof(got)))
            printf("# %s: %u %lu %lu %lu %lu\n", cases[i].name, got.steps_critical, (unsigned long)got.blocks_sent,
                   (unsigned long)got.blocks_received, (unsigned long)got.blocks_reduced,
                   (unsigned long)got.blocks_copied);
        CU_ASSERT_EQUAL(got.steps_critical, w->steps_critical);
        CU_ASSERT_EQUAL(got.blocks_sent, w->blocks_sent);
        CU_ASSERT_EQUAL(got.blocks_received, w->blocks_received);
        CU_ASSERT_EQUAL(got.blocks_reduced, w->blocks_reduced);
        CU_ASSERT_EQUAL(got.blocks_copied, w->blocks_copied);
        wi_sched_put(s);
    }
}

/* ---- Memory ---- */

/* Fail the nth allocation for n = 1, 2, … until all goes well. */
static void every_allocation_may_fail(void)
{
    for (unsigned i = 0; i < nsamples; i++) {
        for (long n = 1;; n++) {
            struct wi_sched *s = NULL;
            CU_ASSERT_FATAL(n < 1000);
            wi_alloc_fail_nth(n);
            weft_status st = sample_build(&samples[i], 1, 4, 0, 0, &s);
            wi_alloc_fail_nth(0);
            if (st == WEFT_SUCCESS) {
                wi_sched_put(s);
                CU_ASSERT(n > 2);
                break;
            }
            CU_ASSERT_EQUAL(st, WEFT_ENOMEM);
            CU_ASSERT_PTR_NULL(s);
        }
    }
}

static void parse_may_run_out_of_memory(void)
{
    for (long n = 1;; n++) {
        struct wi_sched *s = NULL;
        CU_ASSERT_FATAL(n < 1000);
        wi_alloc_fail_nth(n);
        weft_status st = wi_sched_parse(golden, strlen(golden), &s);
        wi_alloc_fail_nth(0);
        if (st == WEFT_SUCCESS) {
            wi_sched_put(s);
            CU_ASSERT(n > 5);
            return;
        }
        CU_ASSERT_EQUAL(st, WEFT_ENOMEM);
        CU_ASSERT_PTR_NULL(s);
    }
}

static const struct wt_case cases[] = {
    {"names are found again", names_are_found_again},
    {"begin refuses bad specs", begin_refuses_bad_specs},
    {"seal lays out what was built", seal_lays_out_what_was_built},
    {"second dependency keeps indices", second_dependency_keeps_indices},
    {"seal derives mapped facts", seal_derives_mapped_facts},
    {"ll needs one publication", ll_needs_one_publication},
    {"seal refuses bad lanes", seal_refuses_bad_lanes},
    {"seal refuses bad regions", seal_refuses_bad_regions},
    {"seal refuses bad steps", seal_refuses_bad_steps},
    {"seal refuses bad dependencies", seal_refuses_bad_dependencies},
    {"lanes of two kinds do not mix", lanes_of_two_kinds_do_not_mix},
    {"buffers fit the collective", buffers_fit_the_collective},
    {"limits hold", limits_hold},
    {"references are counted", references_are_counted},
    {"samples survive the round trip", samples_survive_the_round_trip},
    {"text is as documented", text_is_as_documented},
    {"text may have comments and blanks", text_may_have_comments_and_blanks},
    {"parse names line and cause", parse_names_line_and_cause},
    {"parse survives every cut", parse_survives_every_cut},
    {"print reports a full disk", print_reports_a_full_disk},
    {"json holds every step", json_holds_every_step},
    {"dot draws messages and signals", dot_draws_messages_and_signals},
    {"facts count blocks and chains", facts_count_blocks_and_chains},
    {"every allocation may fail", every_allocation_may_fail},
    {"parse may run out of memory", parse_may_run_out_of_memory},
};
WT_UNIT_MAIN("sched", cases)

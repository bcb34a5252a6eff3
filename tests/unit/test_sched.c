/* SPDX-License-Identifier: BSD-3-Clause */
/* Schedules: builder, seal, facts, reference counts. */
#include "unit.h"

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
        {{.algo = "abcdefghijklmnopqrstuvwxabcdefghijklmnopqrstuvwxabcdefghijklmnop", .nranks = 1, .nblocks = 1},
         "algorithm name"},
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
        {{WI_NUM_BUFS, WI_SELF, 0, 1}, {WI_SRC, WI_SELF, 0, 1}, "no such buffer"},
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

/* Messages move a region in one piece, and where the vector's blocks begin again the last one may have been short. */
static void scratch_is_cut_like_the_vector(void)
{
    static const struct {
        uint32_t first, count;
        const char *text; /* NULL: right */
    } regions[] = {
        {0, 4, NULL},
        {6, 2, NULL},
        {3, 2, "tmp[3:2]: goes past block 4, where the vector's 4 blocks begin again"},
        {0, 5, "tmp[0:5]: goes past block 4"},
    };

    for (int mapped = 0; mapped < 2; mapped++) {
        for (size_t i = 0; i < sizeof(regions) / sizeof(regions[0]); i++) {
            struct wi_sched_builder *b = begin(WI_COLL_ALL_REDUCE, 0, 4, 4, 12);
            uint32_t lane = wi_sched_lane(b, NO, NO, 0);
            struct wi_sched *s = NULL;
            wi_sched_copy(b, lane, wi_at(WI_TMP, regions[i].first, regions[i].count),
                          wi_at(WI_TMP, regions[i].first < 4 ? 8 : 0, regions[i].count < 4 ? regions[i].count : 4));
            if (mapped)
                wi_sched_signal(b, lane);
            if (regions[i].text && (!mapped || regions[i].count > 4)) {
                assert_seal_refused(b, mapped ? "the step's first region has" : regions[i].text);
                continue;
            }
            CU_ASSERT_EQUAL(wi_sched_seal(b, &s), WEFT_SUCCESS);
            wi_sched_put(s);
        }
    }
}

/* Over ll lines scratch is not where a schedule says: it is published from where it came, and has one reader, the line. */
static void ll_lines_carry_copies_only(void)
{
    static const struct {
        int fit;
        const char *coll, *lanes;
    } tries[] = {
        {1, "all_reduce",
         "0 copy tmp[0:1] <- src[0:1]\n1 signal 0\n2 wait rank 1 lane 0 signal 0\n"
         "3 reduce dst[0:1] <- src[0:1] tmp@1[0:1] final\n"},
        {0, "all_reduce", /* reads its own scratch */
         "0 copy tmp[0:1] <- src[0:1]\n1 signal 0\n2 wait rank 1 lane 0 signal 0\n"
         "3 reduce dst[0:1] <- tmp[0:1] tmp@1[0:1] final\n"},
        {0, "scatter", /* writes it twice */
         "0 copy tmp[0:1] <- src[0:1]\n1 copy tmp[0:1] <- src[1:1]\n2 signal 0\n3 copy dst[0:1] <- src[0:1]\n"},
        {0, "broadcast", "0 copy tmp[0:1] dst[0:1] <- src[0:1]\n1 signal 0\n"},
        {0, "all_reduce", /* in place that would change what is published */
         "0 copy tmp[0:1] <- src[0:1]\n1 copy dst[0:1] <- src[0:1]\n2 signal 0\n3 wait rank 1 lane 0 signal 0\n"
         "4 reduce dst[0:1] <- src[0:1] tmp@1[0:1] final\n"},
    };

    for (size_t i = 0; i < sizeof(tries) / sizeof(tries[0]); i++) {
        struct wi_sched *s = NULL;
        char text[1024];
        int n = snprintf(text, sizeof(text),
                         "weft-schedule 1\ncoll %s algo test rank 0 nranks 2 root 0 in_place 0 blocks 1 tmp 1 ll 1\n"
                         "lane 0 send - recv - chan 0\n%send\n",
                         tries[i].coll, tries[i].lanes);
        weft_status st = wi_sched_parse(text, (size_t)n, &s);
        if ((st == WEFT_SUCCESS) != tries[i].fit)
            printf("# schedule %zu: %s\n", i, st < 0 ? wi_fail_text() : "is fit");
        CU_ASSERT_EQUAL(st, tries[i].fit ? WEFT_SUCCESS : WEFT_EINVAL);
        CU_ASSERT(tries[i].fit || strstr(wi_fail_text(), "not fit for ll lines"));
        wi_sched_put(s);
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

/* ---- Facts ---- */

static void facts_count_blocks_and_chains(void)
{
    static const struct {
        const char *name;
        int rank;
        struct wi_sched_stats want;
    } cases[] = {
        {"ring", 2, {6, 6, 6, 3, 0, 0, 0, 0}},           {"chain_reduce", 1, {1, 6, 6, 3, 0, 0, 0, 0}},
        {"tree_broadcast", 0, {1, 6, 0, 0, 3, 0, 0, 0}}, {"flat_reduce_scatter", 1, {1, 3, 3, 3, 0, 0, 0, 0}},
        {"barrier", 0, {2, 2, 2, 0, 0, 0, 0, 0}},        {"one_shot", 0, {1, 0, 0, 9, 3, 0, 0, 0}},
        {"direct", 3, {2, 0, 0, 3, 0, 0, 0, 0}},
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

static const struct wt_case cases[] = {
    {"names are found again", names_are_found_again},
    {"begin refuses bad specs", begin_refuses_bad_specs},
    {"seal lays out what was built", seal_lays_out_what_was_built},
    {"second dependency keeps indices", second_dependency_keeps_indices},
    {"seal derives mapped facts", seal_derives_mapped_facts},
    {"ll needs one publication", ll_needs_one_publication},
    {"seal refuses bad lanes", seal_refuses_bad_lanes},
    {"seal refuses bad regions", seal_refuses_bad_regions},
    {"scratch is cut like the vector", scratch_is_cut_like_the_vector},
    {"ll lines carry copies only", ll_lines_carry_copies_only},
    {"seal refuses bad steps", seal_refuses_bad_steps},
    {"seal refuses bad dependencies", seal_refuses_bad_dependencies},
    {"lanes of two kinds do not mix", lanes_of_two_kinds_do_not_mix},
    {"buffers fit the collective", buffers_fit_the_collective},
    {"limits hold", limits_hold},
    {"references are counted", references_are_counted},
    {"facts count blocks and chains", facts_count_blocks_and_chains},
    {"every allocation may fail", every_allocation_may_fail},
};
WT_UNIT_MAIN("sched", cases)

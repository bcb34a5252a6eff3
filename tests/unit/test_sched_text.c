/* SPDX-License-Identifier: BSD-3-Clause */
/* Schedules as text, JSON and DOT. */
#include "unit.h"

#include <jansson.h>

#include "algo/algo.h"
#include "base/alloc.h"
#include "base/status.h"
#include "sched_samples.h"

/* Shows the text that was found when it is not the one wanted. */
static void assert_refused(weft_status st, weft_status want, const char *text)
{
    if (st != want || !strstr(wi_fail_text(), text))
        printf("# wanted \"%s\", found %d \"%s\"\n", text, st, wi_fail_text());
    CU_ASSERT_EQUAL(st, want);
    CU_ASSERT_PTR_NOT_NULL(strstr(wi_fail_text(), text));
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

/* ---- Text ---- */

static int equal(const struct wi_sched *a, const struct wi_sched *b)
{
    return a->coll == b->coll && a->in_place == b->in_place && a->mapped == b->mapped && a->peer_src == b->peer_src &&
           a->peer_dst == b->peer_dst && a->ll == b->ll && a->rank == b->rank && a->nranks == b->nranks &&
           a->root == b->root && a->tmp_like_src == b->tmp_like_src && !strcmp(a->algo, b->algo) &&
           a->nblocks == b->nblocks && !memcmp(a->buf_blocks, b->buf_blocks, sizeof(a->buf_blocks)) &&
           a->nlanes == b->nlanes && a->nsteps == b->nsteps && a->nregions == b->nregions && a->nchans == b->nchans &&
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

static void scratch_cut_like_the_source_is_said(void)
{
    static const int32_t node[] = {0, 0, 1, 1};
    static const struct wi_algo_levels levels = {1, {{"node", 2, node}}};
    struct wi_hier_spec spec;
    struct wi_algo_args args = {.nranks = 4, .levels = &levels, .spec = &spec};
    struct wi_sched *s = NULL;
    size_t bytes;

    CU_ASSERT_EQUAL_FATAL(wi_hier_parse(WI_COLL_REDUCE_SCATTER, "node:ring", &levels, &spec), WEFT_SUCCESS);
    CU_ASSERT_EQUAL_FATAL(wi_algo_hier(WI_COLL_REDUCE_SCATTER)->build(&args, &s), WEFT_SUCCESS);
    char *text = printed(s, &bytes);
    CU_ASSERT(s->tmp_like_src);
    CU_ASSERT_PTR_NOT_NULL(strstr(text, " ll 0 tmp_like_src 1\n"));
    round_trip(s);
    free(text);
    wi_sched_put(s);
    CU_ASSERT_EQUAL_FATAL(wi_hier_parse(WI_COLL_ALL_REDUCE, "node:ring", &levels, &spec), WEFT_SUCCESS);
    CU_ASSERT_EQUAL_FATAL(wi_algo_hier(WI_COLL_ALL_REDUCE)->build(&args, &s), WEFT_SUCCESS);
    CU_ASSERT(!s->tmp_like_src);
    wi_sched_put(s);
    assert_text_refused("ll 0\n", "ll 0 tmp_like_src 2\n", "tmp_like_src");
    assert_text_refused("ll 0\n", "ll 0 tmp_like_src 1 x\n", "x is too much");
    assert_text_refused("ll 0\n", "ll 0 tmp_like_dst 1\n", "tmp_like_dst is too much");
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

static void parse_names_line_and_cause(void)
{
    static const char *const bad[][3] = {
        {"weft-schedule 1", "weft-sched 1", "line 1: \"weft-schedule\" expected, found weft-sched"},
        {"weft-schedule 1", "weft-schedule 3", "line 1: version 3"},
        {"weft-schedule 1", "weft-schedule", "line 1: the version must be a number"},
        {"weft-schedule 1", "weft-schedule 1 x", "line 1: x is too much"},
        {"all_reduce", "all_red", "line 2: unknown collective all_red"},
        {"algo ring", "algo ri\"ng", "line 2: schedule: algorithm name"},
        {"algo ring", "algo abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz",
         "line 2: a word of more than 63 characters"},
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
        {"src[0:1]", "buf[0:1]", "line 4: a region of src, dst, tmp or pack expected"},
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

/* ---- Memory ---- */

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
    {"samples survive the round trip", samples_survive_the_round_trip},
    {"text is as documented", text_is_as_documented},
    {"scratch cut like the source is said", scratch_cut_like_the_source_is_said},
    {"text may have comments and blanks", text_may_have_comments_and_blanks},
    {"parse names line and cause", parse_names_line_and_cause},
    {"parse survives every cut", parse_survives_every_cut},
    {"print reports a full disk", print_reports_a_full_disk},
    {"json holds every step", json_holds_every_step},
    {"dot draws messages and signals", dot_draws_messages_and_signals},
    {"parse may run out of memory", parse_may_run_out_of_memory},
};
WT_UNIT_MAIN("sched_text", cases)

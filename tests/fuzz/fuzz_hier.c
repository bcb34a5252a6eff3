/* SPDX-License-Identifier: BSD-3-Clause */
/* Specs of hierarchical algorithms, as WEFT_ALGO, tuning tables and calls give them: any text is refused with a reason, or is a
 * spec that can be printed, read again to the same, and built for every rank.
 *
 * First byte: the collective, and (bit 7) whether the levels are known; the rest is the text. */
#include <string.h>

#include "algo/algo.h"
#include "base/status.h"
#include "sched/sched.h"
#include "tests/fuzz/require.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

#define NRANKS 6

static const int32_t racks[NRANKS] = {0, 0, 0, 0, 1, 1}, nodes[NRANKS] = {0, 0, 1, 1, 2, 2};
static const struct wi_algo_levels levels = {2, {{"rack", 2, racks}, {"node", 3, nodes}}};

static void judge(enum wi_coll coll, const struct wi_hier_spec *s)
{
    require(s->nlevels >= 1 && s->nlevels <= WI_ALGO_MAX_LEVELS && s->nchunks <= 64);
    require(memchr(s->text, 0, sizeof s->text) != NULL && s->up[0] != NULL);
    for (int i = 0; i < s->nlevels; i++)
        require(s->at[i].has_leader <= 1);
    for (int i = 0; i <= s->nlevels; i++)
        require(i < s->nlevels || s->up[i] || s->down[i] || coll == WI_COLL_BARRIER);
}

static void build_all(enum wi_coll coll, const char *text)
{
    struct wi_algo_choice choice;

    if (wi_algo_choose(coll, text, &levels, NRANKS, &choice) < 0)
        return;
    for (int rank = 0; rank < NRANKS; rank++) {
        struct wi_algo_args args = {.rank = rank, .nranks = NRANKS, .root = 3, .levels = &levels, .spec = &choice.spec};
        struct wi_sched *sched = NULL;
        wi_fail_clear();
        if (choice.algo->build(&args, &sched) < 0) {
            require(!sched && wi_fail_text()[0]);
            continue;
        }
        require(sched->rank == rank && sched->nranks == NRANKS && memchr(sched->algo, 0, sizeof sched->algo));
        wi_sched_put(sched);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    const struct wi_algo_levels *known = bytes && data[0] & 0x80 ? &levels : NULL;
    enum wi_coll coll = bytes ? (enum wi_coll)(data[0] % 0x80 % WI_NUM_COLLS) : WI_COLL_BARRIER;
    struct wi_hier_spec spec, again;
    char text[300], printed[WI_ALGO_SPEC_BYTES];

    if (bytes < 1 || bytes > sizeof text)
        return 0;
    memcpy(text, data + 1, bytes - 1);
    text[bytes - 1] = '\0';
    wi_fail_clear();
    if (wi_hier_parse(coll, text, known, &spec) < 0) {
        require(wi_fail_text()[0] != 0);
        return 0;
    }
    judge(coll, &spec);
    require(wi_algo_text(NULL, &spec, printed) == printed && memchr(printed, 0, sizeof printed) != NULL);
    require(wi_hier_parse(coll, printed, known, &again) == WEFT_SUCCESS && wi_hier_same(&spec, &again));
    if (known)
        build_all(coll, text);
    return 0;
}

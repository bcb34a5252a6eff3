/* How mapped operations are cut so that their scratch fits into a slot, for numbers of ranks that no test can start.
 * SPDX-License-Identifier: BSD-3-Clause */
#include <stdint.h>

#include "base/status.h"
#include "comm/comm.h"
#include "plugins/shm/arena.h"
#include "tests/unit/unit.h"

static const int numbers[] = {1, 2, 3, 63, 64, 65, 66, 100, 2047, 2048, 2049, 4095, 4096};
#define NNUMBERS (sizeof numbers / sizeof *numbers)

static struct wi_sched *build(const struct wi_algo *algo, int nranks)
{
    struct wi_algo_args args = {.rank = nranks - 1, .nranks = nranks};
    struct wi_sched *sched = NULL;

    CU_ASSERT_EQUAL_FATAL(algo->build(&args, &sched), WEFT_SUCCESS);
    return sched;
}

static size_t slot_for(int nranks, size_t setting)
{
    struct wi_shm_layout layout;

    CU_ASSERT_EQUAL_FATAL(wi_shm_layout_init(&layout, (uint32_t)nranks, 8, setting, 65536), WEFT_SUCCESS);
    CU_ASSERT(layout.slot_bytes >= setting && layout.slot_bytes % WI_SHM_PAGE == 0);
    CU_ASSERT(layout.rings_at >= 8 * layout.slot_bytes);
    return layout.slot_bytes;
}

static void scratch_fits_the_smallest_slot(void)
{
    for (const struct wi_algo *const *a = wi_algos; *a; a++)
        for (size_t i = 0; i < NNUMBERS && (*a)->needs & WI_ALGO_MAPPED; i++) {
            struct wi_sched *sched = build(*a, numbers[i]);
            CU_ASSERT((size_t)sched->buf_blocks[WI_TMP] * WEFT_LINE_BYTES <= WEFT_SLOT_MIN_BYTES(numbers[i]));
            wi_sched_put(sched);
        }
    CU_ASSERT_EQUAL(slot_for(2, 128u << 10), 128u << 10);
    CU_ASSERT_EQUAL(slot_for(64, 4096), 8192); /* 65 lines */
    CU_ASSERT(slot_for(4096, 128u << 10) >= WEFT_SLOT_MIN_BYTES(4096));
}

/* The geometry of one call, of a schedule of `nranks`. */
static weft_status lay_out(struct wi_sched *sched, int nranks, size_t slot, size_t count, struct wi_op *op)
{
    struct wi_exec exec = {.nranks = nranks, .map = {.slot_bytes = slot}, .ll_bytes = 280};
    struct weft_comm comm = {.exec = &exec, .nranks = nranks, .nt_bytes = SIZE_MAX};
    struct wi_call call = {.coll = sched->coll, .dtype = WEFT_FLOAT32, .op = WEFT_SUM, .count = count};

    memset(op, 0, sizeof *op);
    op->bind.sched = sched;
    return wi_op_lay_out(&comm, op, &call, count * 4, 64u << 10, NULL);
}

static void check_cut(struct wi_sched *sched, int nranks, size_t slot, size_t count)
{
    size_t tmp = sched->buf_blocks[WI_TMP];
    struct wi_op op;

    CU_ASSERT_EQUAL_FATAL(lay_out(sched, nranks, slot, count, &op), WEFT_SUCCESS);
    CU_ASSERT(op.bind.nfragments == 1 || op.bind.nfragments * op.bind.fragment_bytes >= op.bind.block_bytes);
    CU_ASSERT(op.bind.ll || tmp * op.bind.layout.slot_stride <= slot);
    CU_ASSERT_EQUAL(op.bind.slot_bytes, tmp * op.bind.layout.slot_stride);
    CU_ASSERT(op.bind.nfragments == 1 || op.bind.fragment_bytes % WEFT_LINE_BYTES == 0);
    CU_ASSERT(op.bind.nfragments == 1 || op.bind.layout.slot_stride >= op.bind.fragment_bytes);
    wi_prog_put(op.bind.stage[0]);
}

static void slices_fit_their_slots(void)
{
    static const size_t counts[] = {1, 5, 15, 16, 17, 33, 1000, 20000, 1u << 20};

    for (const struct wi_algo *const *a = wi_algos; *a; a++)
        for (size_t i = 0; i < NNUMBERS && (*a)->needs & WI_ALGO_MAPPED; i++) {
            struct wi_sched *sched = build(*a, numbers[i]);
            for (size_t k = 0; k < sizeof counts / sizeof *counts; k++)
                for (size_t setting = 4096; setting <= 128u << 10; setting *= 32)
                    check_cut(sched, numbers[i], slot_for(numbers[i], setting), counts[k]);
            wi_sched_put(sched);
        }
}

/* As a plan from a file may have. */
static void too_much_scratch_is_named(void)
{
    const struct wi_algo *algo = wi_algo_find(WI_COLL_ALL_TO_ALL, "flat");
    struct wi_sched *sched = build(algo, 200);
    struct wi_op op;

    CU_ASSERT_EQUAL(lay_out(sched, 200, 4096, 5, &op), WEFT_SUCCESS); /* 20 bytes of each block do fit */
    CU_ASSERT_EQUAL(op.bind.nfragments, 1);
    wi_prog_put(op.bind.stage[0]);
    CU_ASSERT_EQUAL(lay_out(sched, 200, 4096, 6, &op), WEFT_ENOTSUP);
    CU_ASSERT_PTR_NOT_NULL(strstr(wi_fail_text(), "flat needs 12800 bytes of scratch"));
    CU_ASSERT_PTR_NOT_NULL(strstr(wi_fail_text(), "slots have 4096"));
    CU_ASSERT_PTR_NOT_NULL(strstr(wi_fail_text(), "WEFT_SHM_SLOT_BYTES"));
    wi_sched_put(sched);
}

static const struct wt_case cases[] = {
    {"the scratch of every mapped algorithm fits the smallest slot", scratch_fits_the_smallest_slot},
    {"slices fit their slots, also of 4,096 ranks", slices_fit_their_slots},
    {"more scratch than a slot has lines is refused by name", too_much_scratch_is_named},
};
WT_UNIT_MAIN("slots", cases)

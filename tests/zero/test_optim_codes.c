/* SPDX-License-Identifier: BSD-3-Clause */
/* Moments of one or two bytes: what is lost, what must not be, and updates with them. */
#include "../unit/unit.h"
#include "optim_common.h"

enum { MOST = 100000, BLOCKS = MOST / WI_OPTIM_BLOCK + 1 };

static char memory[2][2 * MOST];
static float scales[2][BLOCKS], values[MOST], decoded[MOST];

static struct wi_optim_codes codes_of(int eight)
{
    return (struct wi_optim_codes){{memory[0], memory[1]}, {eight ? scales[0] : NULL, eight ? scales[1] : NULL}};
}

static void fill(int m, size_t elems, float most)
{
    for (size_t i = 0; i < elems; i++) {
        float v = wt_uniform() * most * powf(10, -6 * fabsf(wt_uniform()));

        values[i] = i % 11 == 3 ? 0 : m ? fabsf(v) : v;
    }
}

/* bfloat16 loses half of 2^-7 of a value at most. Codes lose by decade: their steps are .9 of a decade / 2^(decade + m). */
static void losses(void)
{
    for (int eight = 0; eight < 2; eight++)
        for (int m = 0; m < 2; m++)
            for (float most = 1e-20f; most < 1e20f; most *= 1e13f) {
                const struct wi_optim_codes codes = codes_of(eight);
                size_t elems = 1000;

                fill(m, elems, most);
                wi_optim_encode(&codes, m, 0, elems, values);
                wi_optim_decode(&codes, m, 0, elems, decoded);
                for (size_t i = 0; i < elems; i++) {
                    double scale = eight ? fabs((double)scales[m][i / WI_OPTIM_BLOCK]) : 1,
                           x = fabs((double)values[i]) / scale;
                    double decade = fmin(fmax(floor(log10(x)) + 7, 0), 6),
                           loss = fabs((double)decoded[i] - (double)values[i]);
                    double bound =
                        !eight ? 0x1p-8 * fabs((double)values[i])
                               : scale * fmax(.9 * pow(10, decade - 6) / ldexp(1, (int)decade + m) * .5001, 6e-7);

                    if (eight && x > .99) /* the last step ends at 1 for one sign, and before it for the other */
                        bound = scale * .0141;
                    CU_ASSERT(loss <= bound * (1 + 1e-6));
                    CU_ASSERT((values[i] != 0) || decoded[i] == 0);
                    CU_ASSERT(!m || values[i] == 0 || decoded[i] > 0); /* nothing is divided by 0 that was not before */
                }
            }
}

/* What was decoded is encoded as it was: a checkpoint changes nothing. */
static void again(void)
{
    static float twice[MOST];

    for (int eight = 0; eight < 2; eight++)
        for (int m = 0; m < 2; m++) {
            const struct wi_optim_codes codes = codes_of(eight);

            for (int round = 0; round < 50; round++) {
                fill(m, 1000, round % 2 ? 1 : 1e-9f);
                wi_optim_encode(&codes, m, 0, 1000, values);
                wi_optim_decode(&codes, m, 0, 1000, decoded);
                wi_optim_encode(&codes, m, 0, 1000, decoded);
                wi_optim_decode(&codes, m, 0, 1000, twice);
                CU_ASSERT(memcmp(decoded, twice, sizeof *twice * 1000) == 0);
                wi_optim_decode(&codes, m, 300, 500, twice); /* from within a block */
                CU_ASSERT(memcmp(decoded + 300, twice, sizeof *twice * 500) == 0);
            }
        }
}

static void special(void)
{
    const struct wi_optim_codes codes = codes_of(1);

    memset(values, 0, sizeof values);
    for (int m = 0; m < 2; m++) {
        wi_optim_encode(&codes, m, 0, 600, values);
        wi_optim_decode(&codes, m, 0, 600, decoded);
        for (int i = 0; i < 600; i++)
            CU_ASSERT(decoded[i] == 0 && !signbit(decoded[i]));
        /* Its block is of no use any more, and says so; the next one is as it was. */
        values[100] = m ? INFINITY : NAN;
        values[300] = 5;
        wi_optim_encode(&codes, m, 0, 600, values);
        wi_optim_decode(&codes, m, 0, 600, decoded);
        for (int i = 0; i < 600; i++)
            CU_ASSERT(i < 256 ? isnan(decoded[i]) : decoded[i] == (i == 300 ? 5 : 0));
        values[100] = values[300] = 0;
    }
}

/* An update is that of decoded moments, encoded again, whatever the threads and instruction sets. */
static void updates(void)
{
    static const weft_zero_optimizer kinds[] = {WEFT_ZERO_ADAMW, WEFT_ZERO_ADAM, WEFT_ZERO_LION, WEFT_ZERO_SGD};
    static float weight[2][MOST], moment[2][MOST], grad[MOST], first[3][MOST];
    static uint16_t out[2][MOST];
    const weft_zero_hyper h = {.bytes = sizeof h, .lr = 1e-2, .beta1 = .9, .beta2 = .99, .eps = 1e-8, .momentum = .9};
    float *scratch = malloc(wi_optim_coded_bytes(3));

    CU_ASSERT_PTR_NOT_NULL_FATAL(scratch);
    for (int c = 0; c < 8; c++) {
        int eight = c % 2, moments = wi_optim_find(kinds[c / 2])->moments, all = 0;
        struct wi_optim_codes codes = codes_of(eight);
        struct wi_optim optim;

        if (moments < 2)
            codes.codes[1] = codes.scales[1] = NULL;
        CU_ASSERT_EQUAL_FATAL(wi_optim_prepare(&optim, kinds[c / 2], &h, 5, .5), WEFT_SUCCESS);
        for (int isa = 0; isa < WT_ISAS; isa++) {
            if (wi_isa_force(wt_isas[isa]) != 0)
                continue;
            for (int threads = 1; threads <= 3; threads += 2) {
                struct wi_optim_pool *pool;
                struct wi_optim_piece piece = {.optim = &optim,
                                               .elems = MOST,
                                               .weight = weight[0],
                                               .grad = grad,
                                               .grad_dtype = WEFT_FLOAT32,
                                               .out = out[0],
                                               .out_dtype = WEFT_BFLOAT16};

                wt_random_state = 7;
                for (int m = 0; m < moments; m++) {
                    fill(m, MOST, 1);
                    wi_optim_encode(&codes, m, 0, MOST, values);
                    wi_optim_decode(&codes, m, 0, MOST, moment[m]);
                }
                for (size_t i = 0; i < MOST; i++) {
                    weight[0][i] = weight[1][i] = wt_uniform();
                    grad[i] = wt_uniform();
                }
                CU_ASSERT_EQUAL_FATAL(wi_optim_pool_create(threads, &pool), WEFT_SUCCESS);
                wi_optim_run_coded(pool, &piece, &codes, 1, scratch);
                piece.weight = weight[1];
                piece.out = out[1];
                piece.moment1 = moment[0];
                piece.moment2 = moments > 1 ? moment[1] : NULL;
                wi_optim_run(pool, &piece, 1);
                wi_optim_pool_destroy(pool);
                CU_ASSERT(memcmp(weight[0], weight[1], sizeof weight[0]) == 0);
                CU_ASSERT(memcmp(out[0], out[1], sizeof out[0]) == 0);
                if (!all++)
                    memcpy(first[2], weight[0], sizeof first[2]);
                CU_ASSERT(memcmp(first[2], weight[0], sizeof first[2]) == 0);
                for (int m = 0; m < moments; m++) {
                    wi_optim_decode(&codes, m, 0, MOST, first[m]);
                    wi_optim_encode(&codes, m, 0, MOST, moment[m]);
                    wi_optim_decode(&codes, m, 0, MOST, decoded);
                    CU_ASSERT(memcmp(first[m], decoded, sizeof decoded) == 0);
                }
            }
        }
    }
    wi_isa_force(NULL);
    free(scratch);
}

static const struct wt_case cases[] = {
    {"what is lost", losses},
    {"encoded again it is the same", again},
    {"zeros and what is no number", special},
    {"updates", updates},
};
WT_UNIT_MAIN("optim_codes", cases)

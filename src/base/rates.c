/* SPDX-License-Identifier: BSD-3-Clause */
/* Timing the kernels. The best run counts: what else the machine does makes runs longer, never shorter. */
#include "base/rates.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/reduce.h"
#include "base/status.h"

#define CACHE_BYTES 32768u /* three of them lie in any L2, and in hardly any L1: as slices do that have just arrived */
#define BATCH_NS 4000u     /* of short runs together: the clock itself takes some 30 ns */
#define QUICK_NS 12000u    /* of each kernel, where a communicator waits for it */

struct wi_rate_probe {
    unsigned char *at[3][WI_RATE_PLACES]; /* result, left, right */
    size_t bytes[WI_RATE_PLACES];
};

const char *wi_rate_op_name(unsigned op)
{
    return op == WI_RATE_USER ? "user" : weft_op_name(op);
}

int wi_rate_op_parse(const char *name)
{
    for (unsigned op = 0; op < WI_RATE_OPS; op++)
        if (strcmp(name, wi_rate_op_name(op)) == 0)
            return (int)op;
    return -1;
}

int wi_rate_dtype_parse(const char *name)
{
    for (int t = 0; t < WEFT_NUM_DTYPES; t++)
        if (strcmp(name, weft_dtype_name((weft_dtype)t)) == 0)
            return t;
    return -1;
}

int wi_rate_defined(unsigned dtype, unsigned op)
{
    int defined = op == WI_RATE_USER || wi_redop_check((weft_dtype)dtype, op) == WEFT_SUCCESS;

    if (!defined)
        wi_fail_clear();
    return defined;
}

/* ---- Buffers ---- */

/* Ones of whatever type: small numbers, so that no kernel meets denormals or NaN, which some processors take longer for. */
static void fill(unsigned char *p, size_t bytes)
{
    memset(p, 1, bytes);
}

weft_status wi_rate_probe_create(size_t memory_bytes, struct wi_rate_probe **probe)
{
    struct wi_rate_probe *p = wi_calloc(1, sizeof *p);

    if (!p)
        return wi_fail(WEFT_ENOMEM, "measuring rates");
    p->bytes[WI_RATE_CACHE] = CACHE_BYTES;
    p->bytes[WI_RATE_MEMORY] = memory_bytes & ~(size_t)4095;
    for (int b = 0; b < 3; b++)
        for (int w = 0; w < WI_RATE_PLACES; w++) {
            if (!p->bytes[w])
                continue;
            p->at[b][w] = wi_aligned_alloc(4096, p->bytes[w]);
            if (!p->at[b][w]) {
                wi_rate_probe_destroy(p);
                return wi_fail(WEFT_ENOMEM, "measuring rates: %zu bytes", p->bytes[w]);
            }
            fill(p->at[b][w], p->bytes[w]);
        }
    *probe = p;
    return WEFT_SUCCESS;
}

void wi_rate_probe_destroy(struct wi_rate_probe *p)
{
    for (int b = 0; p && b < 3; b++)
        for (int w = 0; w < WI_RATE_PLACES; w++)
            wi_free(p->at[b][w]);
    wi_free(p);
}

/* ---- Timing ---- */

/* What a user writes who does not think of vectors: element by element. */
#define USER_LOOP(type)                        \
    do {                                       \
        const type *l = left, *r = right;      \
        type *o = out;                         \
        for (size_t i = 0; i < count; i++) {   \
            o[i] = (type)(l[i] + r[i]);        \
            __asm__ volatile("" ::: "memory"); \
        }                                      \
    } while (0)

static void user_sum(const void *left, const void *right, void *out, size_t count, weft_dtype dtype, void *arg)
{
    (void)arg;
    switch (weft_dtype_bytes(dtype)) {
    case 1:
        USER_LOOP(uint8_t);
        break;
    case 2:
        USER_LOOP(uint16_t);
        break;
    case 4:
        USER_LOOP(float);
        break;
    case 8:
        USER_LOOP(double);
        break;
    default:
        count *= 2; /* complex128 */
        USER_LOOP(double);
    }
}

struct work {
    const struct wi_rate_probe *probe;
    enum wi_rate_place place;
    int copies;
    struct wi_redop redop;
};

static void once(const struct work *w)
{
    unsigned char *out = w->probe->at[0][w->place], *left = w->probe->at[1][w->place];
    size_t bytes = w->probe->bytes[w->place];

    if (w->copies)
        wi_copy(out, left, bytes, 0);
    else
        wi_reduce2(&w->redop, out, left, w->probe->at[2][w->place], bytes / w->redop.elem_bytes, 0);
}

static uint64_t timed(const struct work *w, unsigned runs)
{
    uint64_t began = wi_now_ns();

    for (unsigned i = 0; i < runs; i++)
        once(w);
    return wi_now_ns() - began;
}

/* The first run brings the operands, and wakes wide registers; of a slow kernel it says enough. How long the second takes says
 * how many make a batch. */
static double measure(const struct work *w, uint64_t ns)
{
    uint64_t until = wi_now_ns() + ns;
    double best = (double)timed(w, 1);

    if (best < (double)ns || w->place == WI_RATE_MEMORY) {
        double one = fmax((double)timed(w, 1), 1);
        unsigned runs = one < BATCH_NS ? (unsigned)(BATCH_NS / one) + 1 : 1;
        best = fmin(best, one);
        do
            best = fmin(best, (double)timed(w, runs) / runs);
        while (wi_now_ns() < until);
    }
    return (double)w->probe->bytes[w->place] / (fmax(best, 1e-3) / 1e3);
}

double wi_rate_copy(const struct wi_rate_probe *probe, enum wi_rate_place place, uint64_t ns)
{
    struct work w = {.probe = probe, .place = place, .copies = 1};

    return measure(&w, ns);
}

double wi_rate_reduce(const struct wi_rate_probe *probe, unsigned dtype, unsigned op, enum wi_rate_place place,
                      uint64_t ns)
{
    struct work w = {.probe = probe, .place = place};

    w.redop = (struct wi_redop){.dtype = (uint8_t)dtype,
                                .op = (uint8_t)(op == WI_RATE_USER ? WEFT_SUM : op),
                                .user = op == WI_RATE_USER,
                                .commutative = 1,
                                .divisor = 1,
                                .elem_bytes = (uint32_t)weft_dtype_bytes((weft_dtype)dtype),
                                .fn = user_sum};
    return measure(&w, ns);
}

/* ---- Once ---- */

/* What a communicator's ranks tell each other, in this order: copy, the sum of each type, the slow products, the user's. */
#define SLOTS WI_RATES_CODED
static float *slot_of(struct wi_rates *r, int slot, unsigned *dtype, unsigned *op)
{
    *op = WEFT_SUM;
    *dtype = (unsigned)slot - 1;
    if (slot == 0)
        return r->copy;
    if (slot > WEFT_NUM_DTYPES) {
        *op = slot == SLOTS - 1 ? WI_RATE_USER : WEFT_PROD;
        *dtype = slot == SLOTS - 1 ? WEFT_FLOAT32 : slot == SLOTS - 2 ? WEFT_COMPLEX128 : WEFT_COMPLEX64;
    }
    return r->reduce[*dtype][*op];
}

static weft_status measure_all(struct wi_rates *rates)
{
    struct wi_rate_probe *probe;
    unsigned dtype, op;

    WI_TRY(wi_rate_probe_create(0, &probe));
    for (int slot = 0; slot < SLOTS; slot++) {
        float *at = slot_of(rates, slot, &dtype, &op);
        *at = (float)(slot ? wi_rate_reduce(probe, dtype, op, WI_RATE_CACHE, QUICK_NS)
                           : wi_rate_copy(probe, WI_RATE_CACHE, QUICK_NS));
    }
    wi_rate_probe_destroy(probe);
    return WEFT_SUCCESS;
}

weft_status wi_rates_here(struct wi_rates *rates)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct wi_rates kept;
    static const char *isa;
    weft_status st = WEFT_SUCCESS;

    pthread_mutex_lock(&lock);
    if (isa != wi_isa_name()) {
        st = measure_all(&kept);
        isa = st >= 0 ? wi_isa_name() : NULL;
    }
    if (st >= 0)
        *rates = kept;
    pthread_mutex_unlock(&lock);
    return st;
}

/* ---- On the wire ---- */

/* Eighths of octaves: exact multiples of eight constants, so that all hosts read the same. */
static const float eighths[8] = {1.0f,        1.09050773f, 1.18920711f, 1.29683955f,
                                 1.41421356f, 1.54221083f, 1.68179283f, 1.83400809f};

static float decode(unsigned code)
{
    return code ? ldexpf(eighths[(code - 1) % 8], (int)(code - 1) / 8) : 0;
}

void wi_rates_encode(const struct wi_rates *rates, uint8_t coded[WI_RATES_CODED])
{
    struct wi_rates copy = *rates;
    unsigned dtype, op;

    for (int slot = 0; slot < SLOTS; slot++) {
        float rate = *slot_of(&copy, slot, &dtype, &op);
        unsigned code = 0;
        while (rate > 0 && code < UINT8_MAX && (!code || decode(code + 1) <= rate))
            code++;
        coded[slot] = (uint8_t)code;
    }
}

void wi_rates_decode(const uint8_t coded[WI_RATES_CODED], struct wi_rates *rates)
{
    unsigned dtype, op;

    *rates = (struct wi_rates){0};
    for (int slot = 0; slot < SLOTS; slot++) {
        float *at = slot_of(rates, slot, &dtype, &op);
        *at = decode(coded[slot]);
    }
}

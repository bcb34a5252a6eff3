/* Reductions that write their result past the cache: every element, odd lengths, results at every alignment.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "tests/fault/fault.h"

#include <stdlib.h>

#include "../unit/unit.h"

#define GUARD 64

static void open_streaming(struct ft_rank *f, const char *transport, int rank, int nranks)
{
    char setting[64];
    const char *settings[] = {setting, "NT_BYTES=64K", NULL}; /* 12M by default */
    weft_context_config config = WEFT_CONTEXT_CONFIG_INIT;

    snprintf(setting, sizeof setting, "TRANSPORTS=%s", transport);
    config.settings = settings;
    *f = (struct ft_rank){.rank = rank, .nranks = nranks};
    WT_REQUIRE_OK(weft_context_create(&config, &f->context));
    WT_REQUIRE_OK(weft_comm_create_env(f->context, NULL, &f->comm));
}

static int64_t value(size_t i, int rank)
{
    return (int64_t)(i * 2654435761u % 1000) + rank * 7;
}

/* One kind of reduction of n elements, the result `shift` bytes beyond a cache line; what is around it must stay. */
#define CHECK_TYPE(type, dtype)                                                                                   \
    static void reduce_##type(struct ft_rank *f, size_t n, size_t shift, int in_place)                            \
    {                                                                                                             \
        size_t bytes = n * sizeof(type);                                                                          \
        unsigned char *area = aligned_alloc(64, (bytes + shift + 2 * GUARD + 127) / 64 * 64);                     \
        type *src = malloc(bytes), *dst;                                                                          \
        size_t wrong = 0;                                                                                         \
        WT_REQUIRE(area &&src);                                                                                   \
        memset(area, 0xa5, bytes + shift + 2 * GUARD);                                                            \
        dst = (type *)(void *)(area + GUARD + shift);                                                             \
        for (size_t i = 0; i < n; i++)                                                                            \
            src[i] = (type)value(i, f->rank);                                                                     \
        if (in_place)                                                                                             \
            memcpy(dst, src, bytes);                                                                              \
        WT_CHECK_OK(weft_all_reduce(f->comm, in_place ? dst : src, dst, n, dtype, WEFT_SUM, NULL));               \
        for (size_t i = 0; i < n; i++) {                                                                          \
            int64_t want = 0;                                                                                     \
            for (int r = 0; r < f->nranks; r++)                                                                   \
                want += value(i, r);                                                                              \
            wrong += dst[i] != (type)want;                                                                        \
        }                                                                                                         \
        for (size_t i = 0; i < GUARD; i++)                                                                        \
            wrong += area[shift + i] != 0xa5 || area[shift + GUARD + bytes + i] != 0xa5;                          \
        if (wrong)                                                                                                \
            wt_fail(__FILE__, __LINE__, "%zu wrong of %zu " #type ", %zu bytes beyond a line%s", wrong, n, shift, \
                    in_place ? ", in place" : "");                                                                \
        free(area);                                                                                               \
        free(src);                                                                                                \
    }
typedef float real;
CHECK_TYPE(real, WEFT_FLOAT32)
CHECK_TYPE(int64_t, WEFT_INT64)
CHECK_TYPE(uint8_t, WEFT_UINT8)

static void streaming(int rank, int nranks, void *arg)
{
    static const size_t sizes[] = {64u << 10, (64u << 10) + 1, 131071, 300007};
    struct ft_rank f;

    open_streaming(&f, arg, rank, nranks);
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        for (size_t shift = 0; shift < 64; shift += 8) {
            reduce_int64_t(&f, sizes[s], shift, s & 1);
            reduce_real(&f, sizes[s], shift / 2 + 4 * (shift & 8 ? 1 : 0), !(s & 1));
        }
        for (size_t shift = 1; shift < 64; shift += 13)
            reduce_uint8_t(&f, sizes[s] * 2 + 1, shift, s & 1);
    }
    wt_sync();
    ft_close(&f);
}

static void run(int nranks, const char *transport)
{
    CU_ASSERT_EQUAL(wt_run(nranks, streaming, (void *)(uintptr_t)transport, 60000), 0);
}

static void two(void)
{
    run(2, "shm");
}

static void three(void)
{
    run(3, "shm");
}

static void messages(void)
{
    run(2, "tcp");
}

static const struct wt_case cases[] = {
    {"streamed results of two ranks are right", two},
    {"streamed results of three ranks are right", three},
    {"large results over tcp are right", messages},
};
WT_UNIT_MAIN("streaming", cases)

/* Reductions that write their result past the cache: every element, odd lengths, results at every alignment.
 * SPDX-License-Identifier: BSD-3-Clause */
#include "tests/fault/fault.h"

#include <stdlib.h>

#include "../unit/unit.h"
#include "base/reduce.h"

#define GUARD 64
#define DIRECT_BYTES (256u << 10) /* less is reduced in slots, which are read at once */

/* Reductions of a share into the result that were told to stream: linked with --wrap. */
static const unsigned char *result;
static size_t result_bytes, streamed;
static int is_mapped;
void __real_wi_reduce(const struct wi_redop *redop, void *const dst[], int ndst, const void *const src[], int nsrc,
                      size_t elems, unsigned flags);
void __wrap_wi_reduce(const struct wi_redop *redop, void *const dst[], int ndst, const void *const src[], int nsrc,
                      size_t elems, unsigned flags);
void __wrap_wi_reduce(const struct wi_redop *redop, void *const dst[], int ndst, const void *const src[], int nsrc,
                      size_t elems, unsigned flags)
{
    for (int d = 0; d < ndst && flags & WI_REDUCE_NT; d++) {
        size_t at = (uintptr_t)dst[d] - (uintptr_t)result;
        streamed += at < result_bytes;
    }
    __real_wi_reduce(redop, dst, ndst, src, nsrc, elems, flags);
}

static void open_streaming(struct ft_rank *f, const char *transport, int rank, int nranks)
{
    char setting[64];
    const char *settings[] = {setting, "COMM_NT_BYTES=64K", NULL}; /* 12M by default */
    weft_context_config config = WEFT_CONTEXT_CONFIG_INIT;

    snprintf(setting, sizeof setting, "TRANSPORTS=%s", transport);
    config.settings = settings;
    *f = (struct ft_rank){.rank = rank, .nranks = nranks};
    WT_REQUIRE_OK(weft_context_create(&config, &f->context));
    wt_check_settings(f->context, config.settings);
    WT_REQUIRE_OK(weft_comm_create_env(f->context, NULL, &f->comm));
}

/* Results stream where ranks reduce directly from each other's memory: what the library has allocated. Over messages there is
 * none. */
static void *buffer(const struct ft_rank *f, size_t bytes)
{
    void *at = NULL;

    if (is_mapped)
        WT_REQUIRE_OK(weft_mem_alloc(f->context, bytes, &at));
    else
        WT_REQUIRE((at = aligned_alloc(64, (bytes + 63) / 64 * 64)) != NULL);
    return at;
}

static void buffer_free(const struct ft_rank *f, void *at)
{
    if (is_mapped)
        WT_CHECK_OK(weft_mem_free(f->context, at));
    else
        free(at);
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
        unsigned char *area = buffer(f, bytes + shift + 2 * GUARD);                                               \
        type *src = buffer(f, bytes), *dst;                                                                       \
        size_t wrong = 0;                                                                                         \
        memset(area, 0xa5, bytes + shift + 2 * GUARD);                                                            \
        dst = (type *)(void *)(area + GUARD + shift);                                                             \
        for (size_t i = 0; i < n; i++)                                                                            \
            src[i] = (type)value(i, f->rank);                                                                     \
        if (in_place)                                                                                             \
            memcpy(dst, src, bytes);                                                                              \
        result = (const unsigned char *)dst, result_bytes = bytes, streamed = 0;                                  \
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
        if (is_mapped && bytes >= DIRECT_BYTES)                                                                   \
            WT_CHECK(streamed > 0);                                                                               \
        wt_sync();                                                                                                \
        buffer_free(f, area);                                                                                     \
        buffer_free(f, src);                                                                                      \
    }
typedef float real;
CHECK_TYPE(real, WEFT_FLOAT32)
CHECK_TYPE(int64_t, WEFT_INT64)
CHECK_TYPE(uint8_t, WEFT_UINT8)

static void streaming(int rank, int nranks, void *arg)
{
    static const size_t sizes[] = {64u << 10, (64u << 10) + 1, 131071, 300007};
    struct ft_rank f;

    is_mapped = !strcmp(arg, "shm");
    open_streaming(&f, arg, rank, nranks);
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        for (size_t shift = 0; shift < 64; shift += 8) {
            reduce_int64_t(&f, sizes[s], shift, s & 1);
            reduce_real(&f, sizes[s], shift + 4 * (shift / 8 & 1), !(s & 1));
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

/* SPDX-License-Identifier: BSD-3-Clause */
/* The pool of shareable memory: blocks come back, the limit holds, no block is given out twice. */
#include <pthread.h>
#include <string.h>
#include <weft/weft.h>

#include "base/alloc.h"
#include "unit.h"

enum { BLOCKS = 200, ROUNDS = 2000, HELD = 8 };

static weft_context *open_pool(const char *limit)
{
    const char *settings[] = {"TRANSPORTS=shm", limit, NULL};
    weft_context_config config = WEFT_CONTEXT_CONFIG_INIT;
    weft_context *context = NULL;

    config.settings = settings;
    CU_ASSERT_EQUAL_FATAL(weft_context_create(&config, &context), WEFT_SUCCESS);
    return context;
}

static size_t reserved(weft_context *context)
{
    size_t bytes = 1;

    CU_ASSERT_EQUAL(weft_mem_pool_reserved(context, &bytes), WEFT_SUCCESS);
    return bytes;
}

static void come_back(void)
{
    weft_context *context = open_pool("MEM_POOL_BYTES=1M");
    char *first = NULL, *again = NULL, *other = NULL;

    CU_ASSERT_EQUAL(reserved(context), 0);
    CU_ASSERT_EQUAL_FATAL(weft_mem_pool_alloc(context, 5000, (void **)&first), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(reserved(context), 8192);
    memset(first, 7, 5000);
    CU_ASSERT_EQUAL(weft_mem_pool_free(context, first), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(reserved(context), 8192);
    CU_ASSERT_EQUAL_FATAL(weft_mem_pool_alloc(context, 20000, (void **)&other), WEFT_SUCCESS);
    CU_ASSERT_PTR_NOT_EQUAL(other, first);
    CU_ASSERT_EQUAL_FATAL(weft_mem_pool_alloc(context, 6000, (void **)&again), WEFT_SUCCESS);
    CU_ASSERT_PTR_EQUAL(again, first);
    CU_ASSERT_EQUAL(again[4999], 7);
    CU_ASSERT_EQUAL(weft_context_destroy(context), WEFT_SUCCESS); /* with what is taken */
}

static void sizes(void)
{
    weft_context *context = open_pool("MEM_POOL_BYTES=0");
    void *p = NULL;

    for (size_t bytes = 1; bytes < 20000000; bytes += 1 + bytes / 3) {
        CU_ASSERT_EQUAL_FATAL(weft_mem_pool_alloc(context, bytes, &p), WEFT_SUCCESS);
        size_t got = reserved(context);
        CU_ASSERT(got >= bytes && got % 4096 == 0 && (got - bytes < 4096 || got - bytes <= got / 5));
        memset(p, 1, bytes);
        CU_ASSERT_EQUAL(weft_mem_pool_free(context, p), WEFT_SUCCESS);
        CU_ASSERT_EQUAL(reserved(context), 0);
    }
    CU_ASSERT_EQUAL(weft_mem_pool_alloc(context, SIZE_MAX, &p), WEFT_ENOSPC);
    CU_ASSERT_EQUAL(weft_context_destroy(context), WEFT_SUCCESS);
}

static void limit(void)
{
    weft_context *context = open_pool("MEM_POOL_BYTES=100K");
    void *block[BLOCKS];

    for (int i = 0; i < BLOCKS; i++)
        CU_ASSERT_EQUAL_FATAL(weft_mem_pool_alloc(context, 4096, &block[i]), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(reserved(context), BLOCKS * 4096);
    for (int i = 0; i < BLOCKS; i++) /* in an order that is none */
        CU_ASSERT_EQUAL(weft_mem_pool_free(context, block[i * 77 % BLOCKS]), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(reserved(context), 25 * 4096);
    for (int i = 0; i < BLOCKS; i++)
        CU_ASSERT_EQUAL(weft_mem_pool_free(context, block[i]), WEFT_EINVAL);
    CU_ASSERT(strstr(weft_thread_error(), "was freed before") != NULL);
    CU_ASSERT_EQUAL(reserved(context), 25 * 4096);
    CU_ASSERT_EQUAL(weft_context_destroy(context), WEFT_SUCCESS);
}

static void out_of_memory(void)
{
    weft_context *context = open_pool("MEM_POOL_BYTES=1M");
    void *p = context;
    int failed = 0;

    for (long n = 1; n < 20; n++) {
        wi_alloc_fail_nth(n);
        weft_status st = weft_mem_pool_alloc(context, 4096, &p);
        wi_alloc_fail_nth(0);
        if (st >= 0)
            break;
        failed++;
        CU_ASSERT_EQUAL(st, WEFT_ENOMEM);
        CU_ASSERT_PTR_EQUAL(p, context);
        CU_ASSERT_EQUAL(reserved(context), 0);
    }
    CU_ASSERT(failed > 0);
    CU_ASSERT_EQUAL(weft_mem_pool_free(context, p), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(weft_context_destroy(context), WEFT_SUCCESS);
}

struct taker {
    weft_context *context;
    pthread_t thread;
    char mark;
    int wrong;
};

static void *take_and_give(void *arg)
{
    struct taker *t = arg;
    char *held[HELD] = {NULL};

    for (int n = 0; n < ROUNDS; n++) {
        char **slot = &held[n * 5 % HELD];
        size_t bytes = (size_t)(1 + n % 3) * 4096;
        t->wrong += *slot && (*slot)[0] != t->mark;
        t->wrong +=
            weft_mem_pool_free(t->context, *slot) < 0 || weft_mem_pool_alloc(t->context, bytes, (void **)slot) < 0;
        memset(*slot, t->mark, bytes);
    }
    for (int i = 0; i < HELD; i++)
        t->wrong += weft_mem_pool_free(t->context, held[i]) < 0;
    return NULL;
}

static void threads(void)
{
    weft_context *context = open_pool("MEM_POOL_BYTES=64K");
    struct taker taker[3];

    for (int i = 0; i < 3; i++) {
        taker[i] = (struct taker){.context = context, .mark = (char)(i + 1)};
        CU_ASSERT_EQUAL_FATAL(pthread_create(&taker[i].thread, NULL, take_and_give, &taker[i]), 0);
    }
    for (int i = 0; i < 3; i++) {
        pthread_join(taker[i].thread, NULL);
        CU_ASSERT_EQUAL(taker[i].wrong, 0);
    }
    CU_ASSERT(reserved(context) <= 65536);
    CU_ASSERT_EQUAL(weft_context_destroy(context), WEFT_SUCCESS);
}

static const struct wt_case cases[] = {
    {"what is given back comes back", come_back},
    {"sizes", sizes},
    {"the limit", limit},
    {"out of memory", out_of_memory},
    {"threads", threads},
};
WT_UNIT_MAIN("pool", cases)

/* SPDX-License-Identifier: BSD-3-Clause */
/* Operators made by the user: a process-wide table. */
#include <pthread.h>
#include <string.h>

#include "base/alloc.h"
#include "base/status.h"
#include "comm/comm.h"

#define FIRST_USER_OP 256u

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static struct wi_user_op *table;
static unsigned char *used;
static size_t capacity;

static weft_status grow(void)
{
    size_t wider = capacity ? 2 * capacity : 16;
    struct wi_user_op *t = wi_realloc(table, wider * sizeof *t);
    unsigned char *u;

    if (!t)
        return wi_fail(WEFT_ENOMEM, "operator table");
    table = t;
    u = wi_realloc(used, wider);
    if (!u)
        return wi_fail(WEFT_ENOMEM, "operator table");
    used = u;
    memset(used + capacity, 0, wider - capacity);
    capacity = wider;
    return WEFT_SUCCESS;
}

static weft_status insert(const struct wi_user_op *entry, weft_op *op)
{
    weft_status st = WEFT_SUCCESS;
    size_t i = 0;

    pthread_rwlock_wrlock(&lock);
    while (i < capacity && used[i])
        i++;
    if (i == capacity)
        st = grow();
    if (st >= 0) {
        table[i] = *entry;
        used[i] = 1;
        *op = FIRST_USER_OP + (weft_op)i;
    }
    pthread_rwlock_unlock(&lock);
    return st;
}

int wi_user_op_find(weft_op op, struct wi_user_op *out)
{
    int found;

    pthread_rwlock_rdlock(&lock);
    found = op >= FIRST_USER_OP && op - FIRST_USER_OP < capacity && used[op - FIRST_USER_OP];
    if (found)
        *out = table[op - FIRST_USER_OP];
    pthread_rwlock_unlock(&lock);
    return found;
}

weft_status weft_op_create(weft_op_fn fn, void *arg, int commutative, weft_op *op)
{
    struct wi_user_op entry = {.fn = fn, .arg = arg, .commutative = commutative};

    if (!fn || !op)
        return wi_fail(WEFT_EINVAL, "op_create: fn or op is NULL");
    return insert(&entry, op);
}

weft_status weft_op_create_premul_sum(const void *scalar, weft_dtype dtype, weft_op *op)
{
    struct wi_user_op entry = {.premul = 1, .commutative = 1, .dtype = dtype};

    if (!scalar || !op)
        return wi_fail(WEFT_EINVAL, "op_create_premul_sum: scalar or op is NULL");
    if ((unsigned)dtype >= WEFT_NUM_DTYPES || dtype == WEFT_BOOL)
        return wi_fail(WEFT_EINVAL, "op_create_premul_sum: dtype %d cannot be multiplied", (int)dtype);
    memcpy(entry.scalar, scalar, weft_dtype_bytes(dtype));
    return insert(&entry, op);
}

/* The memory of the table goes with its last operator. */
static void release_if_empty(void)
{
    for (size_t i = 0; i < capacity; i++)
        if (used[i])
            return;
    wi_free(table);
    wi_free(used);
    table = NULL;
    used = NULL;
    capacity = 0;
}

weft_status weft_op_destroy(weft_op op)
{
    weft_status st = WEFT_SUCCESS;

    pthread_rwlock_wrlock(&lock);
    if (op < FIRST_USER_OP || op - FIRST_USER_OP >= capacity || !used[op - FIRST_USER_OP]) {
        st = wi_fail(WEFT_EINVAL, "op_destroy: operator %u %s", op,
                     op < WEFT_NUM_OPS ? "is built in" : "does not exist");
    } else {
        used[op - FIRST_USER_OP] = 0;
        release_if_empty();
    }
    pthread_rwlock_unlock(&lock);
    return st;
}

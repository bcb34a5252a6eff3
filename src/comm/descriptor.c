/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations as data: a weft_call into a struct wi_call and options. The functions of collectives.c do not come here. */
#include <string.h>

#include "base/status.h"
#include "base/struct_prefix.h"
#include "comm/batch.h"
#include "comm/comm.h"

#define SAME_VALUE(name, text) \
    _Static_assert((int)WEFT_KIND_##name == (int)WI_COLL_##name + 1, "weft_kind has the order of enum wi_coll");
WI_COLL_LIST(SAME_VALUE)
_Static_assert(WEFT_NUM_KINDS == WI_NUM_COLLS, "every collective has a kind");

const char *weft_kind_name(weft_kind kind)
{
    return (unsigned)kind - 1 < WEFT_NUM_KINDS ? wi_coll_name((enum wi_coll)(kind - 1)) : "unknown";
}

/* Which fields of a weft_call an operation has. Numbers that it has not must be 0 (struct stray), for a caller that sets one
 * expects it to matter; pointers, op and count are ignored. */
enum {
    OP = 1 << 0,
    ROOT = 1 << 1,
    SRC = 1 << 2,
    DST = 1 << 3,
    COUNT = 1 << 4,
    SEND_COUNTS = 1 << 5,
    SEND_DISPLS = 1 << 6,
    RECV_COUNT = 1 << 7,
    RECV_COUNTS = 1 << 8, /* and recv_displs */
    MESSAGE = 1 << 9,     /* peer, tag */
    EXCHANGE = 1 << 10,   /* recv_peer, recv_tag */
    PLAIN = SRC | DST | COUNT,
};

static const uint16_t fields[WI_NUM_COLLS] = {
    [WI_COLL_ALL_REDUCE] = PLAIN | OP,
    [WI_COLL_REDUCE] = PLAIN | OP | ROOT,
    [WI_COLL_BROADCAST] = PLAIN | ROOT,
    [WI_COLL_ALL_GATHER] = PLAIN,
    [WI_COLL_ALL_GATHER_V] = SRC | DST | RECV_COUNTS,
    [WI_COLL_REDUCE_SCATTER] = PLAIN | OP,
    [WI_COLL_REDUCE_SCATTER_V] = SRC | DST | OP | SEND_COUNTS,
    [WI_COLL_ALL_TO_ALL] = PLAIN,
    [WI_COLL_ALL_TO_ALL_V] = SRC | DST | SEND_COUNTS | SEND_DISPLS | RECV_COUNTS,
    [WI_COLL_GATHER] = PLAIN | ROOT,
    [WI_COLL_GATHER_V] = PLAIN | ROOT | RECV_COUNTS,
    [WI_COLL_SCATTER] = PLAIN | ROOT,
    [WI_COLL_SCATTER_V] = SRC | DST | ROOT | RECV_COUNT | SEND_COUNTS | SEND_DISPLS,
    [WI_COLL_SCAN] = PLAIN | OP,
    [WI_COLL_EXSCAN] = PLAIN | OP,
    [WI_COLL_BARRIER] = 0,
    [WI_COLL_SEND] = SRC | COUNT | MESSAGE,
    [WI_COLL_RECV] = DST | COUNT | MESSAGE,
    [WI_COLL_SEND_RECV] = PLAIN | RECV_COUNT | MESSAGE | EXCHANGE,
};

static struct wi_call call_of(const weft_call *given)
{
    enum wi_coll coll = (enum wi_coll)(given->kind - 1);
    unsigned has = fields[coll];

    return (struct wi_call){
        .coll = (uint8_t)coll,
        .dtype = has ? given->dtype : WEFT_UINT8,
        .op = has & OP ? given->op : 0,
        .root = has & MESSAGE ? given->peer
                : has & ROOT  ? given->root
                              : -1,
        .src = has & SRC ? given->src : NULL,
        .dst = has & DST ? given->dst : NULL,
        .count = has & COUNT ? given->count : 0,
        .recv_count = has & RECV_COUNT ? given->recv_count : 0,
        .recv_peer = has & EXCHANGE ? given->recv_peer : 0,
        .tag = given->tag,
        .recv_tag = given->recv_tag,
        .send_counts = has & SEND_COUNTS ? given->send_counts : NULL,
        .send_displs = has & SEND_DISPLS ? given->send_displs : NULL,
        .recv_counts = has & RECV_COUNTS ? given->recv_counts : NULL,
        .recv_displs = has & RECV_COUNTS ? given->recv_displs : NULL,
    };
}

static weft_status read_options(const char *function, const weft_call *call, weft_call_options *own)
{
    static const struct wi_struct_rule rule = WI_STRUCT_RULE(weft_call_options, "WEFT_CALL_OPTIONS_INIT", bytes);

    *own = (weft_call_options)WEFT_CALL_OPTIONS_INIT;
    WI_TRY(wi_struct_read(&rule, function, call->options, own));
    if (own->codec && fields[call->kind - 1] & MESSAGE)
        return wi_fail(WEFT_ENOTSUP, "%s: %s is not coded, and codec \"%.40s\" is named", function,
                       weft_kind_name(call->kind), own->codec);
    if (own->label && !*own->label)
        return wi_fail(WEFT_EINVAL, "%s: the label is \"\"; NULL is none", function);
    if (!own->algorithm)
        return WEFT_SUCCESS;
    if (!*own->algorithm)
        return wi_fail(WEFT_EINVAL, "%s: the algorithm's name is \"\"; NULL is the planner's choice", function);
    if (fields[call->kind - 1] & MESSAGE)
        return wi_fail(WEFT_ENOTSUP, "%s: %s has no algorithms, and \"%.40s\" is named", function,
                       weft_kind_name(call->kind), own->algorithm);
    if (strlen(own->algorithm) >= WI_ALGO_SPEC_BYTES)
        return wi_fail(WEFT_ENOTFOUND, "%s: no algorithm \"%.40s...\"", function, own->algorithm);
    return WEFT_SUCCESS;
}

/* A number that not every operation has, and what says the same of some that have it not. */
struct stray {
    unsigned field;
    const char *name;
    int is_set;
    const char *only, *instead;
};

static weft_status check_stray(const char *function, const weft_call *call, unsigned has)
{
    int message = has & MESSAGE;
    const struct stray numbers[] = {
        {ROOT, "root", call->root != 0, "", message ? "; here it is `peer`" : ""},
        {MESSAGE, "peer", call->peer != 0, ": only messages do", has & ROOT ? "; here it is `root`" : ""},
        {MESSAGE, "tag", call->tag != 0, ": only messages do", ""},
        {EXCHANGE, "recv_peer", call->recv_peer != 0, ": only send_recv does", message ? "; here it is `peer`" : ""},
        {EXCHANGE, "recv_tag", call->recv_tag != 0, ": only send_recv does", message ? "; here it is `tag`" : ""},
        {RECV_COUNT, "recv_count", call->recv_count != 0, ": only scatter_v and send_recv do",
         has & COUNT ? "; here it is `count`" : ""},
    };

    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (numbers[i].is_set && !(has & numbers[i].field))
            return wi_fail(WEFT_EINVAL, "%s: %s has no %s%s%s", function, weft_kind_name(call->kind), numbers[i].name,
                           numbers[i].only, numbers[i].instead);
    return WEFT_SUCCESS;
}

static weft_status check_call(const char *function, const weft_call *call)
{
    unsigned has;

    if ((unsigned)call->kind - 1 >= WEFT_NUM_KINDS)
        return wi_fail(WEFT_EINVAL,
                       "%s: kind of the call is %d, %s: WEFT_KIND_ALL_REDUCE (1) to WEFT_KIND_SEND_RECV (%d)", function,
                       (int)call->kind, call->kind ? "which is none" : "not set", WEFT_NUM_KINDS);
    has = fields[call->kind - 1];
    return check_stray(function, call, has);
}

/* What a call and its options say, by the prefix rule. options: NULL if there are none, or none that says anything. */
struct reading {
    struct wi_call call;
    const weft_call_options *options;
    weft_call_options own;
};

static weft_status read_call(const char *function, const weft_call *given, struct reading *r)
{
    static const struct wi_struct_rule rule = WI_STRUCT_RULE(weft_call, "WEFT_CALL_INIT", dtype);
    weft_call own;

    r->options = NULL;
    if (!given || given->bytes != sizeof *given) {
        own = (weft_call)WEFT_CALL_INIT;
        WI_TRY(wi_struct_read(&rule, function, given, &own));
        given = &own;
    }
    WI_TRY(check_call(function, given));
    if (given->options) {
        WI_TRY(read_options(function, given, &r->own));
        if (r->own.timeout_ns || r->own.algorithm || r->own.codec || r->own.label || r->own.accumulate ||
            r->own.reserved)
            r->options = &r->own;
    }
    r->call = call_of(given);
    return WEFT_SUCCESS;
}

weft_status weft_issue(weft_comm *comm, const weft_call *given, weft_request **req)
{
    struct reading r;
    weft_status st;

    st = wi_comm_check(comm);
    if (st >= 0)
        st = read_call("issue", given, &r);
    if (st < 0)
        return wi_group_depth ? wi_group_refused(st) : st;
    return r.options ? wi_call_with(comm, &r.call, r.options, req) : wi_call(comm, &r.call, req);
}

weft_status weft_persistent(weft_comm *comm, const weft_call *given, weft_request **req)
{
    struct reading r;

    WI_TRY(wi_comm_check(comm));
    WI_TRY(read_call("persistent", given, &r));
    return wi_call_persistent(comm, &r.call, r.options, req);
}

weft_status weft_issue_batch(weft_comm *comm, const weft_call *given, const weft_batch_item *items, size_t nitems,
                             weft_request **req)
{
    struct reading r;
    weft_status st;

    st = wi_comm_check(comm);
    if (st >= 0)
        st = read_call("issue_batch", given, &r);
    if (st >= 0 && r.options && r.options->tensor)
        st = wi_fail(WEFT_EINVAL, "issue_batch: the options name tensor %llu; here each item has its number",
                     (unsigned long long)r.options->tensor);
    if (st >= 0 && r.options && r.options->accumulate)
        st = wi_fail(WEFT_ENOTSUP, "issue_batch: accumulate is not for batches");
    if (st >= 0 && wi_group_depth)
        st = wi_fail(WEFT_ENOTSUP, "issue_batch: a batch cannot be part of a group; it is one by itself");
    if (st < 0)
        return wi_group_depth ? wi_group_refused(st) : st;
    return wi_batch_issue(comm, &r.call, r.options, items, nitems, req);
}

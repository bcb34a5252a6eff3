/* One call of a collective on one rank: inputs that every rank can compute, the call in each of its forms, and the
 * comparison with a naive reference.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The element at position p of rank r's source is cc_input(call, r, p), whatever the operation: so that each rank works out
 * by itself what it must receive, element by element, from the definition of the operation. */
#ifndef CC_COLLECT_H
#define CC_COLLECT_H

#include <stddef.h>
#include <stdint.h>
#include <weft/weft.h>

#define CC_MAX_RANKS 72

/* X(name, the collective whose algorithms serve it) */
#define CC_KINDS(X)                                                                                \
    X(all_reduce, "all_reduce")                                                                    \
    X(reduce, "reduce")                                                                            \
    X(broadcast, "broadcast")                                                                      \
    X(all_gather, "all_gather")                                                                    \
    X(all_gather_v, "all_gather")                                                                  \
    X(reduce_scatter, "reduce_scatter")                                                            \
    X(reduce_scatter_v, "reduce_scatter")                                                          \
    X(all_to_all, "all_to_all")                                                                    \
    X(all_to_all_v, "all_to_all")                                                                  \
    X(gather, "gather")                                                                            \
    X(gather_v, "gather")                                                                          \
    X(scatter, "scatter")                                                                          \
    X(scatter_v, "scatter")                                                                        \
    X(scan, "scan")                                                                                \
    X(exscan, "exscan")                                                                            \
    X(barrier, "barrier")

enum cc_kind {
#define CC_ENUM(name, family) CC_##name,
    CC_KINDS(CC_ENUM)
#undef CC_ENUM
    CC_NUM_KINDS
};

enum cc_form { CC_BLOCKING, CC_REQUEST, CC_PERSISTENT, CC_GROUPED, CC_NUM_FORMS };
enum cc_memory { CC_MALLOC, CC_MEM_ALLOC, CC_MEM_REGISTER, CC_NUM_MEMORIES };
/* Operators beyond the built-in ones, by their place after them. */
enum { CC_OP_PLUS_ONE = WEFT_NUM_OPS, CC_OP_AFFINE, CC_OP_PREMUL, CC_NUM_OPS };

struct cc_call {
    enum cc_kind kind;
    enum cc_form form;
    weft_dtype dtype;
    int op;                /* a built-in or CC_OP_* */
    size_t count;
    int root, in_place;
    int packed;            /* v-forms: displs NULL */
    unsigned shift;        /* bytes by which the buffers are off alignment */
    enum cc_memory memory;
    const char *algorithm; /* NULL: the planner's */
    uint64_t seed;
};

struct cc_fixture;
struct cc_world {
    const struct cc_fixture *fixture;
    weft_context *context;
    weft_comm *comm;
    int rank, nranks;
    weft_op user[CC_NUM_OPS - WEFT_NUM_OPS - 1];
    unsigned long calls, refused; /* refused: an algorithm that gave a good reason */
};

extern const char *const cc_kind_names[], *const cc_families[];
static inline int cc_reduces(enum cc_kind k)
{
    return k == CC_all_reduce || k == CC_reduce || k == CC_reduce_scatter || k == CC_reduce_scatter_v ||
           k == CC_scan || k == CC_exscan;
}
static inline int cc_rooted(enum cc_kind k)
{
    return k == CC_reduce || k == CC_broadcast || k == CC_gather || k == CC_gather_v || k == CC_scatter ||
           k == CC_scatter_v;
}

/* ---- Worlds ---- */

/* Settings of a transport's fixture: "TRANSPORTS=shm", …, ended by NULL. Ranks are threads if `threads`. */
struct cc_fixture {
    const char *name;
    const char *const *settings;
    int threads;
    int shareable; /* weft_mem_alloc works */
    int small; /* no long vectors: thousands of slices on few cores take minutes */
    int late;  /* local work is done by the engine of tests/harness/late.h */
};
/* Context and communicator of this rank; a failure ends the rank. */
void cc_world_open(struct cc_world *world, const struct cc_fixture *fixture, int rank, int nranks);
void cc_world_close(struct cc_world *world);

/* ---- Calls ---- */

/* Make the call and check its result: 0 if all is well, including an algorithm's refusal for a good reason. */
int cc_run(struct cc_world *world, const struct cc_call *call);
void cc_describe(const struct cc_world *world, const struct cc_call *call, char *text, size_t capacity);

/* ---- Data ---- */

union cc_value {
    uint64_t i;
    struct {
        double re, im;
    };
};

uint64_t cc_hash(uint64_t a, uint64_t b, uint64_t c);
int cc_op_defined(weft_dtype dtype, int op);
union cc_value cc_input(const struct cc_call *call, int rank, size_t at);
void cc_encode(weft_dtype dtype, union cc_value value, void *out);
union cc_value cc_decode(weft_dtype dtype, const void *in);
/* The reduction of position `at` over ranks first … last - 1, in rank order. */
union cc_value cc_reduced(const struct cc_call *call, int last, int nranks, size_t at);
int cc_same(const struct cc_call *call, union cc_value got, union cc_value want);
const void *cc_premul_scalar(weft_dtype dtype);
weft_status cc_make_ops(struct cc_world *world);

/* ---- Geometry of the v-forms ---- */

/* Elements that `from` sends to `to` in all_to_all_v; the share of `to` in the others. */
size_t cc_share(const struct cc_call *call, int from, int to);
struct cc_layout {
    size_t counts[CC_MAX_RANKS], displs[CC_MAX_RANKS], span;
};
/* `from` (or `to`) -1: varies. */
void cc_lay_out(const struct cc_call *call, int nranks, int from, int to, struct cc_layout *layout);

#endif

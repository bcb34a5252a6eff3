/* SPDX-License-Identifier: BSD-3-Clause */
/* Packed messages of all_to_all_v by level, whose lengths are the sender's word. Rank 0 of five on two hosts runs the schedule;
 * what the other ranks send is the input: each message has the length that the input says (or what is right), and its bytes are
 * the input's. The operation must end in failure with a reason, or store nothing outside the destination and forward no more
 * than it was given.
 *
 * Each message takes a byte from the input. 0 to 15: that modulo 8, plus 1, lengths, each by a byte (below 8: one that some rank
 * expects), and what they promise. Else any content: two bytes of length, then so many bytes. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "algo/algo.h"
#include "base/status.h"
#include "exec/exec.h"
#include "tests/fuzz/require.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

#define NRANKS 5
#define ROUNDS 2000

static const size_t expected[NRANKS] = {16, 0, 100, 3000, 64};
static const uint8_t *input;
static size_t input_bytes;
static unsigned char message[NRANKS * (sizeof(uint64_t) + WI_PACK_BELOW)];
static size_t message_bytes;

static unsigned char take(void)
{
    if (!input_bytes)
        return 0;
    input_bytes--;
    return *input++;
}

/* ---- A transport on which everything is there at once ---- */

static weft_status fake_send(void *group, struct weft_xfer *x)
{
    const unsigned char *at = x->buf;
    unsigned sum = 0;

    (void)group;
    for (size_t i = 0; i < x->bytes; i++) /* every byte must be there */
        sum += at[i];
    x->state = sum == 0x7fffffff ? WEFT_XFER_PENDING : WEFT_SUCCESS;
    return WEFT_SUCCESS;
}

static void make_message(void)
{
    unsigned how = take();
    size_t bytes = how < 16 ? 0 : (take() | (size_t)take() << 8) % (sizeof message + 1), n = 0;

    if (how < 16) { /* lengths, right ones where they are below 8, and as many bytes as they promise */
        uint64_t v;
        message_bytes = (1 + how % 8) * sizeof v;
        for (; n < message_bytes; n += sizeof v) {
            v = how < 8 ? expected[take() % NRANKS] : take() * 37u;
            memcpy(message + n, &v, sizeof v);
            bytes += v < WI_PACK_BELOW ? (size_t)v : 0;
        }
        memset(message + n, (int)how, bytes);
        message_bytes = n + bytes;
    } else {
        for (message_bytes = bytes; n < message_bytes; n++)
            message[n] = take();
    }
}

static weft_status fake_recv(void *group, struct weft_xfer *x)
{
    (void)group;
    if (!x->up_to) { /* notices and the like are never met */
        x->state = WEFT_XFER_PENDING;
        return WEFT_SUCCESS;
    }
    if (!input_bytes) {
        x->state = WEFT_EPEER;
        return WEFT_SUCCESS;
    }
    make_message();
    x->actual = message_bytes;
    x->state = message_bytes <= x->bytes ? WEFT_SUCCESS : WEFT_ETRUNC;
    if (x->state == WEFT_SUCCESS)
        memcpy(x->buf, message, message_bytes);
    return WEFT_SUCCESS;
}

static int fake_progress(void *group, struct weft_peer_failure *failure)
{
    (void)group, (void)failure;
    return 0;
}

static size_t fake_describe(void *group, int peer, char *text, size_t capacity)
{
    (void)group, (void)peer, (void)text, (void)capacity;
    return 0;
}

static int fake_none(void *group)
{
    (void)group;
    return -1;
}

static int fake_arm(void *group)
{
    (void)group;
    return 0;
}

static const struct weft_transport_ops fake_ops = {.bytes = sizeof fake_ops,
                                                   .send = fake_send,
                                                   .recv = fake_recv,
                                                   .progress = fake_progress,
                                                   .poll_fd = fake_none,
                                                   .poll_arm = fake_arm,
                                                   .describe_peer = fake_describe};

/* ---- The operation ---- */

static struct wi_sched *schedule(void)
{
    static const int32_t node[NRANKS] = {0, 1, 0, 1, 0};
    static const struct wi_algo_levels levels = {.nlevels = 1, .level = {{"node", 2, node}}};
    static struct wi_sched *sched;
    struct wi_hier_spec spec;
    struct wi_algo_args args = {.rank = 0, .nranks = NRANKS, .levels = &levels, .spec = &spec};

    if (!sched)
        require(wi_hier_parse(WI_COLL_ALL_TO_ALL_V, "node:linear@leader", &levels, &spec) == WEFT_SUCCESS &&
                wi_algo_hier(WI_COLL_ALL_TO_ALL_V)->build(&args, &sched) == WEFT_SUCCESS);
    return wi_sched_get(sched);
}

static struct wi_exec *executor(struct wi_mesh *mesh)
{
    static struct wi_mesh_rank ranks[NRANKS];
    static struct wi_link links[NRANKS];
    static int group;
    struct wi_exec_config config = {.name = "fuzz", .timeout_ns = 1000000000, .spin = 0, .yields = 0};
    struct wi_exec *exec;

    config.engine = wi_engine_host(NULL);
    for (int r = 0; r < NRANKS; r++) {
        ranks[r].node_index = r % 2;
        links[r] = (struct wi_link){&fake_ops, r ? &group : NULL, 0};
    }
    *mesh = (struct wi_mesh){.nranks = NRANKS, .nnodes = 2, .local_nranks = 3, .ranks = ranks, .links = links};
    require(wi_exec_create(mesh, &config, &exec) == WEFT_SUCCESS);
    return exec;
}

static void run(struct wi_exec *exec, unsigned char *dst)
{
    static unsigned char src[NRANKS * 4096];
    static const size_t offsets[NRANKS] = {0, 4096, 8192, 12288, 16384};
    struct wi_extent parts[NRANKS];
    struct wi_op op = {.info = {.kind = 1, .dtype = WEFT_INT8},
                       .bind = {.sched = schedule(), .nslices = 1, .nfragments = 1, .messages = 1}};
    int moved;

    for (int r = 0; r < NRANKS; r++)
        parts[r] = (struct wi_extent){offsets[r], expected[r]};
    op.bind.base[WI_SRC] = src;
    op.bind.base[WI_DST] = dst;
    op.bind.layout.blocks[WI_SRC].extent = op.bind.layout.blocks[WI_DST].extent = parts;
    op.bind.layout.packed = 1;
    op.bind.scale = 1;
    op.bind.stage[0] = wi_lower(op.bind.sched, 0, &op.bind.layout);
    op.bind.nstages = 1;
    require(op.bind.stage[0] && wi_packing_create(&op, WI_PACK_BELOW) == WEFT_SUCCESS);
    wi_exec_issue(exec, &op);
    for (int i = 0; i < ROUNDS && op.state != WI_OP_DONE; i++)
        wi_exec_progress(exec, NULL, &moved);
    if (op.state != WI_OP_DONE)
        wi_exec_fail(exec, WEFT_ETIMEDOUT, -1, &op.info, "the input ended");
    require(op.state == WI_OP_DONE);
    require(op.status >= 0 || exec->error.message[0]);
    wi_op_release(exec, &op);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct wi_mesh mesh;
    size_t room = 4 * 4096 + expected[NRANKS - 1];
    unsigned char *dst = malloc(room); /* ends where its last part ends */

    require(dst != NULL);
    memset(dst, 0xa5, room);
    input = data;
    input_bytes = bytes;
    struct wi_exec *exec = executor(&mesh);
    run(exec, dst);
    for (int r = 0; r < NRANKS; r++) /* nothing between the parts is touched */
        for (size_t i = expected[r]; r + 1 < NRANKS && i < 4096; i++)
            require(dst[(size_t)r * 4096 + i] == 0xa5);
    wi_exec_destroy(exec);
    free(dst);
    return 0;
}

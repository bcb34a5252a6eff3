/* SPDX-License-Identifier: BSD-3-Clause */
/* Gets and puts of the executor, over a transport that does what each case says. */
#include "exec/rma.h"

#include "base/clock.h"
#include "base/status.h"
#include "exec/exec.h"
#include "unit.h"

#define NRANKS 3
#define PEER 2

/* What the transport does with what it is given, and what it was given. */
static struct {
    weft_status takes; /* what get and put return */
    int ends;          /* WEFT_XFER_PENDING, or how it has ended when get and put return */
    int gets, puts, steps;
    struct weft_rma *given;
    void (*step)(void); /* in progress; NULL: nothing happens */
} raw;

static struct wi_exec *exec;
static struct wi_work work;
static struct wi_op op;
static struct weft_mapped_rank ranks[NRANKS];
static struct weft_board boards[NRANKS];
static void *remotes[2][NRANKS];
static char far[NRANKS], near[64];
static char group;

static weft_status take(struct weft_rma *r, int *count)
{
    ++*count;
    if (raw.takes < 0)
        return raw.takes == WEFT_EBUSY ? WEFT_EBUSY : wi_fail(raw.takes, "refused");
    raw.given = r;
    r->state = raw.ends;
    return WEFT_SUCCESS;
}

static weft_status raw_get(void *g, struct weft_rma *r)
{
    CU_ASSERT_PTR_EQUAL(g, &group);
    return take(r, &raw.gets);
}

static weft_status raw_put(void *g, struct weft_rma *r)
{
    CU_ASSERT_PTR_EQUAL(g, &group);
    return take(r, &raw.puts);
}

static int raw_progress(void *g, struct weft_peer_failure *failure)
{
    (void)failure;
    CU_ASSERT_PTR_EQUAL(g, &group);
    raw.steps++;
    if (raw.step)
        raw.step();
    return 0;
}

static const struct weft_transport_ops raw_ops = {.get = raw_get, .put = raw_put, .progress = raw_progress};

static void ends_well(void)
{
    raw.given->state = WEFT_SUCCESS;
}

static void breaks(void)
{
    exec->broken = WEFT_EPEER;
}

static void begin(enum wi_work_kind kind, int peer_buf)
{
    memset(&raw, 0, sizeof raw);
    memset(&op, 0, sizeof op);
    memset(boards, 0, sizeof boards);
    raw.ends = WEFT_XFER_PENDING;
    exec = calloc(1, sizeof *exec);
    CU_ASSERT_PTR_NOT_NULL_FATAL(exec);
    exec->map_ops = &raw_ops;
    exec->map_group = &group;
    exec->map.ranks = ranks;
    for (int r = 0; r < NRANKS; r++) {
        ranks[r].board = &boards[r];
        remotes[WI_SRC][r] = &remotes[WI_SRC][r]; /* each is another one */
        remotes[WI_DST][r] = &remotes[WI_DST][r];
    }
    op.bind.peer_remote[WI_SRC] = remotes[WI_SRC];
    op.bind.peer_remote[WI_DST] = remotes[WI_DST];
    work = (struct wi_work){.kind = (uint8_t)kind,
                            .op = &op,
                            .ndst = 1,
                            .nsrc = 1,
                            .rank = PEER,
                            .peer_buf = (uint8_t)peer_buf,
                            .bytes = sizeof near,
                            .exec = exec,
                            .by = &exec->rma};
    work.dst[0] = kind == WI_WORK_GET ? near : &far[PEER];
    work.src[0] = kind == WI_WORK_GET ? &far[PEER] : near;
    wi_fail_clear();
}

static int post(int *moved)
{
    *moved = 0;
    return wi_rma_ops.post(&exec->rma, &work, moved);
}

static int ask(int *moved)
{
    *moved = 0;
    return wi_rma_ops.poll(&exec->rma, &work, moved);
}

/* The transport is told what is whose. */
static void names_both_sides(void)
{
    int moved;

    for (int put = 0; put < 2; put++)
        for (int buf = WI_SRC; buf <= WI_DST; buf++) {
            begin(put ? WI_WORK_PUT : WI_WORK_GET, buf);
            CU_ASSERT_EQUAL(post(&moved), 0);
            CU_ASSERT_EQUAL(moved, 1);
            CU_ASSERT(raw.gets == !put && raw.puts == put);
            CU_ASSERT_PTR_NOT_NULL_FATAL(raw.given);
            CU_ASSERT_PTR_EQUAL(raw.given->local, near);
            CU_ASSERT_EQUAL(raw.given->bytes, sizeof near);
            CU_ASSERT_EQUAL(raw.given->peer, PEER);
            CU_ASSERT_PTR_NULL(raw.given->mem);
            CU_ASSERT_EQUAL(raw.given->memory, WEFT_MEMORY_HOST);
            CU_ASSERT_PTR_EQUAL(raw.given->remote, remotes[buf][PEER]);
            CU_ASSERT_EQUAL(raw.given->remote_address, (uintptr_t)&far[PEER]);
            CU_ASSERT(wi_rma_is_posted(&work));
            free(exec);
        }
    work.kind = WI_WORK_COPY;
    CU_ASSERT(!wi_rma_is_posted(&work));
    work.kind = WI_WORK_GET;
    op.bind.peer_remote[0] = NULL; /* a transport that copies at once */
    CU_ASSERT(!wi_rma_is_posted(&work));
}

static void ends_when_the_transport_says_so(void)
{
    int moved;

    begin(WI_WORK_GET, WI_SRC);
    CU_ASSERT_EQUAL(post(&moved), 0);
    CU_ASSERT_EQUAL(ask(&moved), 0);
    CU_ASSERT(moved == 0 && raw.steps == 1);
    raw.step = ends_well;
    CU_ASSERT_EQUAL(ask(&moved), 1); /* in the same call */
    CU_ASSERT(moved == 1 && raw.steps == 2 && raw.gets == 1);
    free(exec);

    begin(WI_WORK_GET, WI_SRC);
    CU_ASSERT_EQUAL(post(&moved), 0);
    raw.given->state = WEFT_EPROTO;
    CU_ASSERT_EQUAL(ask(&moved), WEFT_EPROTO);
    CU_ASSERT_EQUAL(raw.steps, 0); /* it has ended: nothing is to be advanced */
    free(exec);
}

static void may_end_at_once(void)
{
    int moved;

    begin(WI_WORK_PUT, WI_DST);
    raw.ends = WEFT_SUCCESS;
    CU_ASSERT_EQUAL(post(&moved), 1);
    CU_ASSERT(moved == 1 && raw.steps == 0);
    free(exec);

    begin(WI_WORK_PUT, WI_DST);
    raw.ends = WEFT_EPROTO;
    CU_ASSERT_EQUAL(post(&moved), WEFT_EPROTO);
    free(exec);

    begin(WI_WORK_GET, WI_SRC);
    raw.takes = WEFT_EINVAL;
    CU_ASSERT_EQUAL(post(&moved), WEFT_EINVAL);
    CU_ASSERT_EQUAL(moved, 0);
    CU_ASSERT_STRING_EQUAL(wi_fail_text(), "refused");
    free(exec);
}

/* What there is no room for is posted later, and not twice. */
static void waits_for_room(void)
{
    int moved;

    begin(WI_WORK_GET, WI_SRC);
    raw.takes = WEFT_EBUSY;
    CU_ASSERT_EQUAL(post(&moved), 0);
    CU_ASSERT(moved == 0 && raw.gets == 1);
    CU_ASSERT_EQUAL(ask(&moved), 0);
    CU_ASSERT(moved == 0 && raw.gets == 2 && raw.steps == 1);
    raw.takes = WEFT_SUCCESS;
    CU_ASSERT_EQUAL(ask(&moved), 0);
    CU_ASSERT(moved == 1 && raw.gets == 3 && raw.given != NULL);
    CU_ASSERT_EQUAL(ask(&moved), 0);
    CU_ASSERT(moved == 0 && raw.gets == 3);
    raw.step = ends_well;
    CU_ASSERT_EQUAL(ask(&moved), 1);
    free(exec);

    begin(WI_WORK_GET, WI_SRC);
    raw.takes = WEFT_EBUSY;
    CU_ASSERT_EQUAL(post(&moved), 0);
    raw.takes = WEFT_EINVAL; /* refused when its turn comes */
    CU_ASSERT_EQUAL(ask(&moved), WEFT_EINVAL);
    free(exec);

    begin(WI_WORK_GET, WI_SRC);
    raw.takes = WEFT_EBUSY;
    CU_ASSERT_EQUAL(post(&moved), 0);
    raw.takes = WEFT_SUCCESS;
    raw.step = breaks; /* buffers go back */
    CU_ASSERT_EQUAL(ask(&moved), 0);
    CU_ASSERT(raw.gets == 1 && !raw.given);
    free(exec);
}

/* Nothing is put to a rank that has given up; what it says may be read. */
static void nothing_goes_to_who_gave_up(void)
{
    int moved;

    begin(WI_WORK_PUT, WI_DST);
    boards[PEER].state = WEFT_BOARD_ABORTED;
    CU_ASSERT_EQUAL(post(&moved), WEFT_EABORTED);
    CU_ASSERT(raw.puts == 0 && moved == 0);
    CU_ASSERT_STRING_EQUAL(wi_fail_text(), "rank 2 gave up");
    free(exec);

    begin(WI_WORK_PUT, WI_DST); /* while it waits for room */
    raw.takes = WEFT_EBUSY;
    CU_ASSERT_EQUAL(post(&moved), 0);
    raw.takes = WEFT_SUCCESS;
    boards[PEER].state = WEFT_BOARD_LEFT;
    CU_ASSERT_EQUAL(ask(&moved), WEFT_EABORTED);
    CU_ASSERT_EQUAL(raw.puts, 1);
    free(exec);

    begin(WI_WORK_PUT, WI_DST);
    boards[1].state = WEFT_BOARD_ABORTED; /* another one */
    CU_ASSERT_EQUAL(post(&moved), 0);
    CU_ASSERT_EQUAL(raw.puts, 1);
    free(exec);

    begin(WI_WORK_GET, WI_SRC);
    boards[PEER].state = WEFT_BOARD_ABORTED;
    CU_ASSERT_EQUAL(post(&moved), 0);
    CU_ASSERT_EQUAL(raw.gets, 1);
    free(exec);
}

static int drain(uint64_t ms)
{
    return wi_rma_ops.drain(&exec->rma, &work, wi_deadline_ns(ms * 1000000u));
}

static void drains(void)
{
    int moved;

    begin(WI_WORK_GET, WI_SRC); /* the transport has never had it */
    raw.takes = WEFT_EBUSY;
    CU_ASSERT_EQUAL(post(&moved), 0);
    CU_ASSERT_EQUAL(drain(0), 1);
    CU_ASSERT(raw.gets == 1 && raw.steps == 0);
    free(exec);

    begin(WI_WORK_GET, WI_SRC);
    CU_ASSERT_EQUAL(post(&moved), 0);
    CU_ASSERT_EQUAL(drain(5), 0); /* it does not end */
    CU_ASSERT(raw.steps > 0);
    raw.step = ends_well;
    CU_ASSERT_EQUAL(drain(60000), 1);
    free(exec);

    begin(WI_WORK_GET, WI_SRC);
    CU_ASSERT_EQUAL(post(&moved), 0);
    exec->quiet = 1; /* the transport has said that it may go on for ever */
    CU_ASSERT_EQUAL(drain(60000), 0);
    CU_ASSERT_EQUAL(raw.steps, 0);
    raw.given->state = WEFT_ECANCELED;
    CU_ASSERT_EQUAL(drain(60000), 1);
    free(exec);
}

static void is_pending(void)
{
    struct wi_engine host = {0};
    struct wi_work other = {.by = &host};

    begin(WI_WORK_GET, WI_SRC);
    CU_ASSERT_EQUAL(wi_rma_is_pending(exec), 0);
    exec->posted = &other;
    CU_ASSERT_EQUAL(wi_rma_is_pending(exec), 0);
    other.next = &work;
    CU_ASSERT_EQUAL(wi_rma_is_pending(exec), 1);
    free(exec);
}

static const struct wt_case cases[] = {
    {"the transport is told what is whose", names_both_sides},
    {"it ends when the transport says so", ends_when_the_transport_says_so},
    {"it may end, or be refused, at once", may_end_at_once},
    {"what there is no room for is posted later", waits_for_room},
    {"nothing is put to a rank that gave up", nothing_goes_to_who_gave_up},
    {"what was given up is drained", drains},
    {"what is pending is known", is_pending},
};
WT_UNIT_MAIN("rma", cases)

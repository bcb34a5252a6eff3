/* SPDX-License-Identifier: BSD-3-Clause */
/* The back end io_uring, by its system calls (io_uring(7), io_uring_setup(2), io_uring_enter(2)). Linux 5.11 and later: waits
 * have a time-out (IORING_FEAT_EXT_ARG), and no completion is dropped (IORING_FEAT_NODROP). */
#include <errno.h>
#include <linux/io_uring.h>
#include <linux/time_types.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fds.h"
#include "base/status.h"
#include "zero/disk/disk_internal.h"

#ifndef IORING_SETUP_COOP_TASKRUN
#define IORING_SETUP_COOP_TASKRUN (1U << 8)
#endif

/* user_data that is no request's. */
#define DATA_PROBE (UINT64_MAX - 1)
#define DATA_CANCEL (UINT64_MAX - 2)
#define PROBE_NS 5000000000ull
#define FIXED_BYTES_MAX (1ull << 30) /* of a registered buffer */

struct uring_state {
    int fd;
    char *ring; /* both queues */
    size_t ring_bytes;
    struct io_uring_sqe *sqes;
    size_t sqes_bytes;
    unsigned *sq_head, *sq_tail, *sq_array, *cq_head, *cq_tail;
    unsigned sq_mask, cq_mask, sq_entries;
    struct io_uring_cqe *cqes;
    unsigned pending; /* in the submission queue, not yet seen by the kernel */
    int registered;   /* buffers are */
};

static int ring_enter(const struct uring_state *state, unsigned submit, unsigned wait, unsigned flags, void *arg,
                      size_t arg_bytes)
{
    long n = syscall(__NR_io_uring_enter, state->fd, submit, wait, flags, arg, arg_bytes);

    return n < 0 ? -errno : (int)n;
}

static int ring_register(const struct uring_state *state, unsigned opcode, const void *arg, unsigned count)
{
    return syscall(__NR_io_uring_register, state->fd, opcode, arg, count) < 0 ? errno : 0;
}

static int ring_setup(unsigned entries, struct io_uring_params *params)
{
    static const unsigned flags[] = {IORING_SETUP_CLAMP | IORING_SETUP_COOP_TASKRUN, IORING_SETUP_CLAMP};
    int fd = -1;

    for (unsigned i = 0; i < sizeof(flags) / sizeof(flags[0]) && fd < 0; i++) {
        *params = (struct io_uring_params){.flags = flags[i]};
        fd = (int)syscall(__NR_io_uring_setup, entries, params);
        if (fd < 0 && errno != EINVAL)
            break;
    }
    return fd;
}

/* A forked child has no use for them, and would share them. */
static void *ring_map(int fd, size_t bytes, off_t offset)
{
    void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, offset);

    if (map == MAP_FAILED)
        return NULL;
    madvise(map, bytes, MADV_DONTFORK);
    return map;
}

static int ring_open(struct uring_state *state, const struct io_uring_params *p)
{
    size_t sq_bytes = p->sq_off.array + p->sq_entries * sizeof(unsigned);
    size_t cq_bytes = p->cq_off.cqes + p->cq_entries * sizeof(struct io_uring_cqe);

    state->ring_bytes = sq_bytes > cq_bytes ? sq_bytes : cq_bytes;
    state->ring = ring_map(state->fd, state->ring_bytes, IORING_OFF_SQ_RING);
    state->sqes_bytes = p->sq_entries * sizeof(struct io_uring_sqe);
    if (state->ring)
        state->sqes = ring_map(state->fd, state->sqes_bytes, IORING_OFF_SQES);
    if (!state->sqes)
        return errno;
    state->sq_head = (unsigned *)(state->ring + p->sq_off.head);
    state->sq_tail = (unsigned *)(state->ring + p->sq_off.tail);
    state->sq_array = (unsigned *)(state->ring + p->sq_off.array);
    state->sq_mask = *(unsigned *)(state->ring + p->sq_off.ring_mask);
    state->sq_entries = p->sq_entries;
    state->cq_head = (unsigned *)(state->ring + p->cq_off.head);
    state->cq_tail = (unsigned *)(state->ring + p->cq_off.tail);
    state->cq_mask = *(unsigned *)(state->ring + p->cq_off.ring_mask);
    state->cqes = (struct io_uring_cqe *)(state->ring + p->cq_off.cqes);
    return 0;
}

static void ring_close(struct uring_state *state)
{
    if (state->sqes)
        munmap(state->sqes, state->sqes_bytes);
    if (state->ring)
        munmap(state->ring, state->ring_bytes);
    if (state->fd >= 0)
        wi_fd_close(state->fd);
    wi_free(state);
}

/* Entries are in the queue in order: the kernel reads an entry after it has read the tail behind it. */
static void sqe_put(struct uring_state *state, const struct io_uring_sqe *sqe)
{
    unsigned tail = *state->sq_tail;

    state->sqes[tail & state->sq_mask] = *sqe;
    state->sq_array[tail & state->sq_mask] = tail & state->sq_mask;
    __atomic_store_n(state->sq_tail, tail + 1, __ATOMIC_RELEASE);
    state->pending++;
}

/* Hand over what is in the queue, and wait if deadline_ns is not 0. Returns 0 or -errno of what does not pass. */
static int sq_flush(struct uring_state *state, uint64_t deadline_ns)
{
    uint64_t now = deadline_ns ? wi_now_ns() : 0, left = deadline_ns > now ? deadline_ns - now : 0;
    struct __kernel_timespec wait = {(long long)(left / 1000000000), (long long)(left % 1000000000)};
    struct io_uring_getevents_arg arg = {.ts = (uint64_t)(uintptr_t)&wait};
    int n = ring_enter(state, state->pending, left ? 1 : 0, IORING_ENTER_GETEVENTS | IORING_ENTER_EXT_ARG, &arg,
                       sizeof(arg));

    /* It returns how many it has taken, or, if it has taken none, why it took none or what ended the wait. The queue's head says it
     * in each case. */
    state->pending = *state->sq_tail - __atomic_load_n(state->sq_head, __ATOMIC_ACQUIRE);
    if (n >= 0 || n == -ETIME || n == -EINTR || n == -EAGAIN || n == -EBUSY)
        return 0;
    return n;
}

static unsigned cq_take(struct uring_state *state, struct wi_disk_result *results, unsigned max)
{
    unsigned head = *state->cq_head, n = 0;

    while (n < max && head != __atomic_load_n(state->cq_tail, __ATOMIC_ACQUIRE)) {
        const struct io_uring_cqe *cqe = &state->cqes[head++ & state->cq_mask];
        if (cqe->user_data < DATA_CANCEL)
            results[n++] = (struct wi_disk_result){(unsigned)cqe->user_data, cqe->res};
    }
    /* The kernel may overwrite entries once it sees the head behind them. */
    __atomic_store_n(state->cq_head, head, __ATOMIC_RELEASE);
    return n;
}

/* A filter of system calls may allow the set-up and forbid the rest. Returns 0 or errno. */
static int ring_probe(struct uring_state *state)
{
    uint64_t deadline = wi_deadline_ns(PROBE_NS);
    int err = 0, seen = 0;

    sqe_put(state, &(struct io_uring_sqe){.opcode = IORING_OP_NOP, .user_data = DATA_PROBE});
    while (!err && !seen && wi_now_ns() < deadline) {
        err = -sq_flush(state, deadline);
        seen = *state->cq_head != __atomic_load_n(state->cq_tail, __ATOMIC_ACQUIRE);
    }
    cq_take(state, NULL, 1);
    return err ? err : seen ? 0 : ETIMEDOUT;
}

static weft_status start(struct wi_disk *disk)
{
    const unsigned features = IORING_FEAT_SINGLE_MMAP | IORING_FEAT_NODROP | IORING_FEAT_EXT_ARG;
    struct uring_state *state = wi_calloc(1, sizeof(*state));
    struct io_uring_params params;
    weft_status status;
    int err;

    if (!state)
        return wi_fail(WEFT_ENOMEM, "disk tier %s: no memory for io_uring", disk->path);
    state->fd =
        wi_fd_keep(ring_setup(2 * disk->depth, &params)); /* an entry for each request, and one that cancels it */
    err = state->fd < 0 ? errno : 0;
    if (!err && (params.features & features) != features)
        err = ENOSYS;
    if (!err)
        err = ring_open(state, &params);
    if (!err)
        err = ring_probe(state);
    if (!err && state->sq_entries < 2 * disk->depth)
        err = EINVAL;
    if (err) {
        ring_close(state);
        disk->stats.uring_errno = err;
        status = wi_fail_errno(err, "disk tier %s: io_uring", disk->path);
        return status == WEFT_ESYS ? WEFT_ENOTSUP : status;
    }
    disk->state = state;
    return WEFT_SUCCESS;
}

static void submit(struct wi_disk *disk, unsigned index)
{
    static const unsigned char opcodes[2][2] = {{IORING_OP_READ, IORING_OP_READ_FIXED},
                                                {IORING_OP_WRITE, IORING_OP_WRITE_FIXED}};
    const struct wi_disk_io *io = &disk->ios[index];
    struct io_uring_sqe sqe = {.opcode = opcodes[io->what][io->fixed >= 0],
                               .fd = disk->fd,
                               .addr = (uint64_t)(uintptr_t)io->data,
                               .len = (unsigned)io->bytes,
                               .off = io->offset,
                               .buf_index = (uint16_t)(io->fixed >= 0 ? io->fixed : 0),
                               .user_data = index};

    sqe_put(disk->state, &sqe);
}

static void flush(struct wi_disk *disk)
{
    struct uring_state *state = disk->state;

    if (state->pending)
        sq_flush(state, 0); /* what it cannot hand over the next reap does, or says why */
}

static int reap(struct wi_disk *disk, struct wi_disk_result *results, unsigned max, uint64_t deadline_ns)
{
    struct uring_state *state = disk->state;
    unsigned n = 0;
    int err;

    if (!state->pending)
        n = cq_take(state, results, max);
    if (n)
        return (int)n;
    err = sq_flush(state, deadline_ns);
    if (err)
        return err;
    return (int)cq_take(state, results, max);
}

static void cancel(struct wi_disk *disk)
{
    struct uring_state *state = disk->state;

    for (unsigned i = 0; i < disk->depth; i++)
        if (disk->ios[i].op && state->pending < state->sq_entries)
            sqe_put(state, &(struct io_uring_sqe){
                               .opcode = IORING_OP_ASYNC_CANCEL, .fd = -1, .addr = i, .user_data = DATA_CANCEL});
    sq_flush(state, 0);
}

static void stop(struct wi_disk *disk)
{
    ring_close(disk->state);
    disk->state = NULL;
}

/* What RLIMIT_MEMLOCK does not allow is left as it is: the kernel then finds the pages of each request anew. */
static int fix(struct wi_disk *disk)
{
    struct uring_state *state = disk->state;
    unsigned n = 0;
    int err = 0;

    if (state->registered)
        ring_register(state, IORING_UNREGISTER_BUFFERS, NULL, 0);
    state->registered = 0;
    for (struct wi_disk_region *r = disk->regions; r; r = r->next) {
        r->fixed = -1;
        n += r->wanted && r->bytes <= FIXED_BYTES_MAX;
    }
    if (n == 0)
        return 0;
    struct iovec *vectors = wi_calloc(n, sizeof(*vectors));
    if (!vectors)
        return ENOMEM;
    n = 0;
    for (struct wi_disk_region *r = disk->regions; r; r = r->next)
        if (r->wanted && r->bytes <= FIXED_BYTES_MAX)
            vectors[n++] = (struct iovec){r->data, r->bytes};
    err = ring_register(state, IORING_REGISTER_BUFFERS, vectors, n);
    wi_free(vectors);
    if (err)
        return err;
    state->registered = 1;
    n = 0;
    for (struct wi_disk_region *r = disk->regions; r; r = r->next)
        if (r->wanted && r->bytes <= FIXED_BYTES_MAX)
            r->fixed = (int)n++;
    return 0;
}

const struct wi_disk_backend wi_disk_backend_uring = {"io_uring", start, submit, flush, reap, cancel, stop, fix};

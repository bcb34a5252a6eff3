/* fuzz_shm_ring.c: what a peer may put into the rings, the board and the lines that it shares with this rank, while receives, sends
 * and looks at what has come are posted. Nothing may be read or written out of bounds, hang, or leak; every failure names the peer.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * The input is a list of actions. Cells are made so that they are near what is accepted: the kind, the length and the place come
 * from small sets, and the fields of the message from those of the receives; or they are bytes as they come.
 */
#include "shm_world.h"

#define CHANS 2u
#define POSTS 12

static const size_t sizes[] = {0, 8, 24, 25, 64, 100, 1000, 2048, 3000, 9000, 70000};
#define SIZES (sizeof sizes / sizeof *sizes)

static unsigned char offered[70000]; /* what descriptions of messages point to */
static unsigned char landing[POSTS][70000];
static void *segment;
static struct weft_mem_desc of_segment;

struct world {
    struct wi_shm_group *group;
    struct weft_xfer x[POSTS];
    unsigned posted;
    uint64_t place[CHANS]; /* of the next cell */
};

static void sink(struct weft_xfer *x, size_t offset, const void *data, size_t n)
{
    fz_require(offset + n <= x->bytes && (n % x->granule == 0 || offset + n == x->bytes), "a sink beyond its message");
    memcpy((unsigned char *)x->sink_arg + offset, data, n);
}

static unsigned char *ring(struct world *w, uint32_t from, uint32_t to, uint32_t chan)
{
    return wi_shm_arena_ring(&w->group->arenas[from], &w->group->layout, to, chan);
}

static void post(struct world *w, struct fz_input *in)
{
    struct weft_xfer *x = &w->x[w->posted];
    uint8_t how = fz_byte(in);
    weft_status st;

    if (w->posted == POSTS)
        return;
    *x = (struct weft_xfer){.buf = landing[w->posted],
                            .bytes = sizes[fz_byte(in) % SIZES],
                            .peer = 1,
                            .chan = how / 8 % CHANS,
                            .granule = 8,
                            .background = how & 4,
                            .info = {.kind = 1}};
    if (how & 1) {
        st = wi_shm_send(w->group, x);
    } else {
        if (how & 2) {
            x->sink = sink;
            x->sink_arg = x->buf;
            x->buf = NULL;
        }
        st = wi_shm_recv(w->group, x);
    }
    w->posted += st == WEFT_SUCCESS;
}

static void put_cell(struct world *w, struct fz_input *in)
{
    uint8_t shape = fz_byte(in), chan = shape / 16 % CHANS, size = fz_byte(in), piece = fz_byte(in);
    struct wi_shm_cell cell = {.kind = shape % 4, .bytes = sizes[size % SIZES], .info = {.kind = 1}};
    unsigned char *data = ring(w, 1, 0, chan) + WI_SHM_RING_CTL;
    uint64_t capacity = w->group->layout.ring_bytes, at = w->place[chan] & (capacity - 1),
             room = capacity - at - WI_SHM_CELL;
    struct weft_mem_desc desc = {.address = (uintptr_t)offered, .bytes = cell.bytes};

    cell.piece = piece < 128   ? piece * 16u
                 : piece < 192 ? (uint32_t)(cell.bytes < room ? cell.bytes : room)
                               : piece * 99991u;
    cell.info.seq = shape & 128 ? 7 : 0; /* another operation's */
    if (cell.kind == WI_SHM_CELL_RNDV) {
        cell.piece = piece < 200 ? sizeof desc : piece % 64;
        if (piece & 1)
            desc = of_segment, desc.bytes = cell.bytes;
        if (piece & 2)
            desc.offset += size * 997u;
        if (piece & 4)
            desc.address += size * 0x10000001ull;
        if (room >= sizeof desc)
            memcpy(data + at + WI_SHM_CELL, &desc, sizeof desc);
    }
    memcpy(data + at, &cell, sizeof cell);
    w->place[chan] += shape & 64 ? WI_SHM_CELL : wi_shm_ring_span(cell.piece, cell.bytes <= WI_SHM_INLINE) % capacity;
    w->place[chan] &= ~(uint64_t)(WI_SHM_CELL - 1);
}

static void put_raw(struct world *w, struct fz_input *in)
{
    uint32_t chan = fz_byte(in) % CHANS;
    unsigned char *data = ring(w, 1, 0, chan) + WI_SHM_RING_CTL;

    fz_bytes(in, data + (w->place[chan] & (w->group->layout.ring_bytes - 1)), WI_SHM_CELL);
    w->place[chan] += WI_SHM_CELL;
}

/* Every line the same: what never ends. */
static void fill(struct world *w, struct fz_input *in)
{
    uint8_t shape = fz_byte(in);
    struct wi_shm_cell cell = {.kind = shape % 4, .piece = shape / 4 % 3 * 64u, .bytes = sizes[fz_byte(in) % SIZES]};
    unsigned char *data = ring(w, 1, 0, shape / 16 % CHANS) + WI_SHM_RING_CTL;

    cell.info.kind = 1;
    for (size_t at = 0; at < w->group->layout.ring_bytes; at += WI_SHM_CELL)
        memcpy(data + at, &cell, sizeof cell);
}

static void answer(struct world *w, struct fz_input *in)
{
    struct wi_shm_ring_ctl *ctl = (struct wi_shm_ring_ctl *)ring(w, 0, 1, fz_byte(in) % CHANS);
    uint8_t what = fz_byte(in), value = fz_byte(in);

    if (what & 1)
        ctl->answer = what & 2 ? ctl->answer + value % 4 : value * 0x0101010101010101ull;
    else
        ctl->head = what & 2 ? ctl->head + value * 64u : value * 0x0101010101010101ull;
}

static void look(struct world *w, struct fz_input *in)
{
    struct weft_op_info info;
    size_t bytes;

    wi_shm_peek(w->group, 1, fz_byte(in) % CHANS, 0, &info, &bytes);
}

static void progress(struct world *w, int times)
{
    struct weft_peer_failure failure;

    while (times--) {
        w->group->calls = UINT32_MAX; /* time has passed: the boards are looked at, too */
        w->group->watched_ns = 0;
        if (wi_shm_group_progress(w->group, &failure) < 0)
            fz_require(failure.peer == 1 && failure.status < 0 && strstr(failure.text, "rank 1 "),
                       "a failure of nobody");
    }
}

static void act(struct world *w, struct fz_input *in)
{
    struct wi_shm_ctl *theirs = w->group->arenas[1].ctl;

    switch (fz_byte(in) % 10) {
    case 0:
    case 1:
    case 2:
        put_cell(w, in);
        break;
    case 3:
        post(w, in);
        break;
    case 4:
        progress(w, 1 + fz_byte(in) % 4);
        break;
    case 5:
        put_raw(w, in);
        break;
    case 6:
        fill(w, in);
        break;
    case 7:
        answer(w, in);
        break;
    case 8:
        look(w, in);
        break;
    default:
        fz_bytes(in, &theirs->board.state, 1 + fz_byte(in) % 4);
        theirs->mem_generation = fz_byte(in);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct fz_input in = {data, data + bytes};
    struct world w = {.group = fz_group()};

    if (!segment) {
        fz_require(wi_shm_mem_alloc(fz_endpoint, sizeof offered, &segment) == WEFT_SUCCESS, "segment");
        wi_shm_mem_describe(fz_endpoint, segment, sizeof offered, &of_segment);
        of_segment.address = (uintptr_t)offered;
    }
    for (uint32_t chan = 0; chan < CHANS; chan++)
        for (uint32_t from = 0; from < 2; from++)
            memset(ring(&w, from, 1 - from, chan), 0, WI_SHM_RING_CTL + w.group->layout.ring_bytes);
    for (int actions = 0; in.at < in.end && actions < 200; actions++)
        act(&w, &in);
    progress(&w, 8);
    fz_group_end(w.group);
    return 0;
}

/* A network that flips bits: a proxy stands in each connection of the tcp transport and changes one bit of a chosen byte.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * What is protected: the handshake (by its codes) and what frame headers say (by checks, fingerprints and the order of
 * messages): never a wrong result that is not reported. What is not: the payload of data frames, which only TCP's checksum
 * guards. Both are checked here, exactly. */
#include "tests/fault/fault.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../../plugins/tcp/frame.h"
#include "../unit/unit.h"

enum { SHORT = 100, LONG = 40000, PATIENT_MS = 10000, FLIPPED_MS = 300, NEVER = -1 };

/* One bit to flip. Shared with the ranks. */
struct plan {
    int from;  /* the rank whose bytes are changed */
    int armed; /* when all is set up; else from the first byte of a connection */
    int frame; /* the nth data frame from then on; of a handshake there are none */
    long at;   /* the byte of it: those of the header, then the payload; or of the connection */
    int bit;
    size_t elems;          /* of the messages */
    unsigned deadline_ms;  /* of the operation */
    _Atomic int flipped;   /* it happened */
    _Atomic int told[2];   /* the status of a rank's operation, or 1: right, 2: wrong and not reported */
    _Atomic long wrong[2]; /* bytes */
};
static struct plan *plan;

/* ---- The proxy ---- */

static _Atomic int armed, proxying;
static int own_rank;

struct pipe {
    int in, out;
    int from; /* the rank that writes into `in` */
    long at;  /* of the next byte in its frame, or in the connection */
    long end; /* of the frame; 0: its header is not complete */
    int is_data, frames;
    unsigned char header[WI_TCP_HEADER_BYTES];
};

/* Is this the byte? */
static int chosen(struct pipe *p, unsigned char byte)
{
    if (!plan->armed)
        return p->at++ == plan->at;
    if (p->at == 0) {
        p->is_data = byte == WI_TCP_DATA;
        p->frames += p->is_data;
        p->end = 0;
    }
    int this_one = p->is_data && p->frames == plan->frame + 1 && p->at == plan->at;
    if (p->at < WI_TCP_HEADER_BYTES)
        p->header[p->at] = byte;
    if (++p->at == WI_TCP_HEADER_BYTES)
        p->end = WI_TCP_HEADER_BYTES + (long)wi_tcp_get(p->header + 4, 4);
    if (p->at == p->end)
        p->at = 0;
    return this_one;
}

static int flow(struct pipe *p)
{
    unsigned char buf[65536];
    ssize_t got = read(p->in, buf, sizeof buf);

    if (got <= 0)
        return 0;
    for (ssize_t i = 0; (armed || !plan->armed) && i < got; i++) {
        if (chosen(p, buf[i]) && p->from == plan->from && !plan->flipped) {
            buf[i] ^= (unsigned char)(1u << plan->bit);
            plan->flipped = 1;
        }
    }
    for (ssize_t put = 0, n; put < got; put += n)
        if ((n = send(p->out, buf + put, (size_t)(got - put), MSG_NOSIGNAL)) <= 0)
            return 0;
    return 1;
}

struct relay {
    int listener;
    struct sockaddr_storage to;
    socklen_t to_bytes;
};

/* Until one side ends. */
static void *relay_run(void *arg)
{
    struct relay *r = arg;
    int near = accept(r->listener, NULL, NULL), far = socket(r->to.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct pipe pipes[2] = {{.in = near, .out = far, .from = own_rank}, {.in = far, .out = near, .from = 1 - own_rank}};
    extern int __real_connect(int, const struct sockaddr *, socklen_t);

    close(r->listener);
    if (near >= 0 && far >= 0 && __real_connect(far, (struct sockaddr *)&r->to, r->to_bytes) == 0) {
        for (int going = 1; going;) {
            struct pollfd fds[2] = {{.fd = near, .events = POLLIN}, {.fd = far, .events = POLLIN}};
            if (poll(fds, 2, -1) < 0)
                break;
            for (int i = 0; i < 2; i++)
                if (fds[i].revents)
                    going &= flow(&pipes[i]);
        }
    }
    close(near);
    close(far);
    free(r);
    return NULL;
}

/* What the library connects to while `proxying`, it reaches through a relay. */
int __wrap_connect(int fd, const struct sockaddr *to, socklen_t bytes);
int __wrap_connect(int fd, const struct sockaddr *to, socklen_t bytes)
{
    extern int __real_connect(int, const struct sockaddr *, socklen_t);
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t at_bytes = sizeof at;
    struct relay *r;
    pthread_t thread;

    if (!proxying || to->sa_family != AF_INET || !(r = calloc(1, sizeof *r)))
        return __real_connect(fd, to, bytes);
    memcpy(&r->to, to, bytes);
    r->to_bytes = bytes;
    r->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (bind(r->listener, (struct sockaddr *)&at, sizeof at) || listen(r->listener, 1) ||
        getsockname(r->listener, (struct sockaddr *)&at, &at_bytes) || pthread_create(&thread, NULL, relay_run, r)) {
        wt_fail(__FILE__, __LINE__, "no relay: %s", strerror(errno));
        return -1;
    }
    pthread_detach(thread);
    return __real_connect(fd, (struct sockaddr *)&at, sizeof at);
}

/* ---- The ranks ---- */

static int32_t src[LONG], dst[LONG];

static int32_t given(int rank, size_t i)
{
    return (int32_t)(i * 2654435761u + (unsigned)rank * 77u + 1u);
}

/* Each sends to the other. */
static weft_status exchange(weft_comm *comm, int rank, size_t n)
{
    for (size_t i = 0; i < n; i++)
        src[i] = given(rank, i);
    memset(dst, 0, n * sizeof *dst);
    return weft_send_recv(comm, src, n, !rank, 0, dst, n, !rank, 0, WEFT_INT32, NULL);
}

static long wrong_bytes(int rank, size_t n)
{
    long wrong = 0;

    for (size_t i = 0; i < n; i++) {
        int32_t want = given(!rank, i);
        for (size_t b = 0; b < sizeof want; b++)
            wrong += ((unsigned char *)&dst[i])[b] != ((unsigned char *)&want)[b];
    }
    return wrong;
}

/* A failure is named, and the communicator is either usable or says so. */
static void check_failure(weft_comm *comm, int rank, weft_status st)
{
    weft_error e = WEFT_ERROR_INIT;

    WT_CHECK(st == WEFT_EPROTO || st == WEFT_EPEER || st == WEFT_EMISMATCH || st == WEFT_ETRUNC ||
             st == WEFT_ETIMEDOUT || st == WEFT_EAUTH || st == WEFT_EABORTED);
    WT_REQUIRE_OK(weft_last_error(comm, &e));
    WT_CHECK_INT(e.status, st);
    WT_CHECK_INT(e.peer, !rank);
    WT_CHECK(e.message && strlen(e.message) > 10 && e.advice && *e.advice);
    fprintf(stderr, "%s: %s\n", weft_status_name(st), e.message);
}

static void body(int rank, int nranks, void *arg)
{
    static const char *const settings[] = {"TRANSPORTS=tcp", "TCP_INTERFACES=lo", "TCP_SOCKETS=1", "TCP_CHUNK=64K",
                                           NULL};
    weft_context_config config = WEFT_CONTEXT_CONFIG_INIT;
    weft_context *context;
    weft_comm *comm;
    weft_status st;

    (void)nranks, (void)arg;
    own_rank = rank;
    config.settings = settings;
    WT_REQUIRE_OK(weft_context_create(&config, &context));
    wt_check_settings(context, config.settings);
    WT_REQUIRE_OK(weft_comm_create_env(context, NULL, &comm));
    WT_REQUIRE_OK(weft_comm_set_timeout(comm, wt_slow_ms(PATIENT_MS) * FT_MS));
    proxying = 1; /* what is made from now on are data connections */
    if (plan->armed) {
        for (int i = 0; i < 3; i++) /* what they grant each other at first is over */
            WT_REQUIRE_OK(exchange(comm, rank, SHORT));
        WT_CHECK_INT(wrong_bytes(rank, SHORT), 0);
        wt_sync();
        usleep(2000); /* the relays are empty */
        wt_sync();
        armed = 1;
        wt_sync();
    }
    WT_REQUIRE_OK(weft_comm_set_timeout(comm, plan->deadline_ms * FT_MS));
    st = exchange(comm, rank, plan->elems);
    plan->wrong[rank] = st >= 0 ? wrong_bytes(rank, plan->elems) : 0;
    plan->told[rank] = st < 0 ? st : plan->wrong[rank] ? 2 : 1;
    if (st < 0)
        check_failure(comm, rank, st);
    wt_sync();
    WT_CHECK_OK(weft_comm_destroy(comm));
    WT_CHECK_OK(weft_context_destroy(context));
}

static int run(int from, int at_start, int frame, long at, int bit, size_t elems, unsigned deadline_ms)
{
    if (!plan)
        plan = mmap(NULL, sizeof *plan, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    memset(plan, 0, sizeof *plan);
    *plan = (struct plan){.from = from,
                          .armed = !at_start,
                          .frame = frame,
                          .at = at,
                          .bit = bit,
                          .elems = elems,
                          .deadline_ms = deadline_ms};
    int failed = wt_run(2, body, NULL, 15000);
    if (failed)
        printf("# rank %d's frame %d, byte %ld, bit %d, %s, %zu elements: %d ranks failed\n", from, frame, at, bit,
               at_start ? "from the start" : "set up", elems, failed);
    CU_ASSERT_EQUAL(failed, 0);
    return failed == 0;
}

static const size_t lengths[] = {SHORT, LONG};

static void through_the_proxy(void)
{
    for (int s = 0; s < 2; s++) {
        for (int start = 0; start < 2; start++) {
            run(0, start, 0, NEVER, 0, lengths[s], wt_slow_ms(PATIENT_MS));
            CU_ASSERT(plan->told[0] == 1 && plan->told[1] == 1);
            CU_ASSERT(!plan->flipped);
        }
    }
}

/* Short messages of one frame, long ones of three: their first and their last. */
static const struct {
    size_t elems;
    int frame;
} places[] = {{SHORT, 0}, {LONG, 0}, {LONG, 2}};

struct tally {
    int named, late, harmless;
};

/* Whatever is flipped: a wrong result is reported. */
static void header_bit(int place, long at, int bit, struct tally *t)
{
    int from = (int)(at + place) % 2;

    if (!run(from, 0, places[place].frame, at, bit, places[place].elems, FLIPPED_MS))
        return;
    int told0 = plan->told[0], told1 = plan->told[1];
    CU_ASSERT(plan->flipped);
    CU_ASSERT(told0 != 2 && told1 != 2);
    if (told0 == 2 || told1 == 2)
        printf("# byte %ld, bit %d of frame %d of %zu elements, rank %d: %ld wrong bytes, and nobody was told\n", at,
               bit, places[place].frame, places[place].elems, from, plan->wrong[0] + plan->wrong[1]);
    t->named += told0 < 0 || told1 < 0;
    t->late +=
        (told0 < 0 || told1 < 0) && (told0 > 0 || told0 == WEFT_ETIMEDOUT) && (told1 > 0 || told1 == WEFT_ETIMEDOUT);
    t->harmless += told0 == 1 && told1 == 1;
}

static void headers(void)
{
    struct tally t = {0, 0, 0};
    int all = 0;

    for (int place = 0; place < 3; place++) {
        for (long at = 0; at < WI_TCP_HEADER_BYTES; at++, all++)
            header_bit(place, at, (int)(at * 3 + place) % 8, &t);
        for (int bit = 10; bit < 18; bit++, all++) /* where in the message: places that are in it */
            header_bit(place, 16 + bit / 8, bit % 8, &t);
    }
    printf("# %d bits of headers: %d were named (%d by the deadline alone), %d did no harm\n", all, t.named, t.late,
           t.harmless);
    CU_ASSERT(t.named >= all / 2);
}

/* A connection is not taken, or another is made: the values are right, or a failure is named. */
static void handshakes(void)
{
    int right = 0;

    for (long at = 0; at < 200; at += 7) {
        if (!run((int)(at / 7) % 2, 1, 0, at, (int)at % 8, SHORT, FLIPPED_MS))
            continue;
        CU_ASSERT(plan->flipped);
        CU_ASSERT(plan->told[0] != 2 && plan->told[1] != 2);
        right += plan->told[0] == 1 && plan->told[1] == 1;
    }
    printf("# of 29 handshakes %d got by all the same\n", right);
}

/* Not detected: data frames carry no code. When they do, this is the case to turn around. */
static void payloads(void)
{
    for (int s = 0; s < 2; s++) {
        for (int from = 0; from < 2; from++) {
            long at = WI_TCP_HEADER_BYTES + (long)(lengths[s] / 2);
            if (!run(from, 0, 2 * s, at, from + 2, lengths[s], wt_slow_ms(PATIENT_MS)))
                continue;
            CU_ASSERT(plan->flipped);
            CU_ASSERT_EQUAL(plan->told[from], 1);
            CU_ASSERT_EQUAL(plan->told[!from], 2);
            CU_ASSERT_EQUAL(plan->wrong[!from], 1);
        }
    }
}

static const struct wt_case cases[] = {
    {"a proxy that changes nothing", through_the_proxy},
    {"bits of frame headers", headers},
    {"bits of handshakes", handshakes},
    {"bits of payloads are not noticed", payloads},
};
WT_UNIT_MAIN("corrupt", cases)

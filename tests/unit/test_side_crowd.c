/* SPDX-License-Identifier: BSD-3-Clause */
/* What comes between two ranks of the side channel: a relay that changes bytes or closes, strangers, many other ranks, a lack of
 * descriptors. */
#include <errno.h>
#include <sys/syscall.h>

#include "base/log.h"
#include "tests/unit/side_world.h"

/* Where rank `rank` listens; IPv4 in these tests. */
static struct sockaddr_in where(const struct world *w, int rank)
{
    struct sockaddr_in in = {.sin_family = AF_UNSPEC};
    struct wi_sockaddr at;

    CU_ASSERT_EQUAL_FATAL(wi_side_address_read(w->address[rank], w->address_bytes[rank], &at), 0);
    CU_ASSERT_EQUAL_FATAL(at.ss.ss_family, AF_INET);
    memcpy(&in, &at.ss, sizeof in);
    return in;
}

static int connect_to(const struct world *w, int rank)
{
    struct timeval patience = {.tv_sec = (time_t)wt_slow_ms(10000) / 1000};
    struct sockaddr_in at = where(w, rank);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    CU_ASSERT_FATAL(fd >= 0);
    CU_ASSERT_EQUAL(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience), 0);
    CU_ASSERT_EQUAL_FATAL(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
    return fd;
}

/* ---- A relay between the two ---- */

struct relay {
    pthread_t thread;
    int listen_fd, close_first; /* so many connections are closed at once */
    int to_server;              /* which direction of the next one is changed */
    size_t at;                  /* at which byte; SIZE_MAX: at none */
    size_t cut_at;              /* the next one is closed when so many bytes have come back; 0: none is */
    struct sockaddr_in target;
};

/* One connection, both directions, a byte at a time, until either side closes. */
static void relay_one(struct relay *r, int client)
{
    size_t seen[2] = {0, 0}, back = 0;
    struct pollfd fds[2] = {{.fd = client, .events = POLLIN},
                            {.fd = socket(AF_INET, SOCK_STREAM, 0), .events = POLLIN}};
    int open = r->close_first-- <= 0 && connect(fds[1].fd, (struct sockaddr *)&r->target, sizeof r->target) == 0;

    while (open && poll(fds, 2, (int)wt_slow_ms(10000)) > 0)
        for (int i = 0; i < 2 && open; i++) {
            unsigned char byte;
            if (!fds[i].revents)
                continue;
            open = read(fds[i].fd, &byte, 1) == 1;
            if (open && i == !r->to_server && seen[i]++ == r->at) {
                byte ^= 4;
                r->at = SIZE_MAX;
            }
            open = open && send(fds[1 - i].fd, &byte, 1, MSG_NOSIGNAL) == 1;
            if (i && ++back == r->cut_at) {
                open = 0;
                r->cut_at = 0;
            }
        }
    close(fds[0].fd);
    close(fds[1].fd);
}

static void *relay_run(void *arg)
{
    struct relay *r = arg;
    int fd;

    while ((fd = accept(r->listen_fd, NULL, NULL)) >= 0) /* until relay_end */
        relay_one(r, fd);
    return NULL;
}

/* Rank 0 finds rank 1 there from now on. */
static void relay_begin(struct relay *r, struct world *w)
{
    struct sockaddr_in here = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof here;

    r->target = where(w, 1);
    r->listen_fd = socket(AF_INET, SOCK_STREAM, 0);
    CU_ASSERT_EQUAL_FATAL(bind(r->listen_fd, (struct sockaddr *)&here, sizeof here), 0);
    CU_ASSERT_EQUAL_FATAL(listen(r->listen_fd, 16), 0);
    CU_ASSERT_EQUAL_FATAL(getsockname(r->listen_fd, (struct sockaddr *)&here, &bytes), 0);
    memcpy(w->address[1] + 4, &here.sin_addr, 4);
    w->address[1][2] = (unsigned char)ntohs(here.sin_port);
    w->address[1][3] = (unsigned char)(ntohs(here.sin_port) >> 8);
    CU_ASSERT_EQUAL_FATAL(pthread_create(&r->thread, NULL, relay_run, r), 0);
}

static void relay_end(struct relay *r)
{
    shutdown(r->listen_fd, SHUT_RDWR);
    pthread_join(r->thread, NULL);
    close(r->listen_fd);
}

/* What a request through the relay comes to. */
static void relayed(struct relay *r, struct told *t)
{
    unsigned char request[WEFT_SIDE_MAX];
    uint64_t until = wt_now_ms() + wt_slow_ms(10000);
    struct world w;
    size_t n;
    int peer;

    world_open(&w, -1, LONG_NS);
    relay_begin(r, &w);
    CU_ASSERT_EQUAL(wi_side_request(w.group[0], 1, "secret", 6), WEFT_SUCCESS);
    memset(t, 0, sizeof *t);
    do {
        struct pollfd fds[2] = {{.fd = wi_side_fd(w.group[0]), .events = POLLIN},
                                {.fd = wi_side_fd(w.group[1]), .events = POLLIN}};
        poll(fds, 2, 1000);
        if (wi_side_requested(w.group[1], &peer, request, sizeof request, &n)) {
            CU_ASSERT(n == 6 && memcmp(request, "secret", 6) == 0); /* or it does not come */
            wi_side_respond(w.group[1], peer, "answer", 6);
        }
        t->status = wi_side_response(w.group[0], 1, t->data, sizeof t->data, &t->bytes, t->why);
    } while (t->status == WEFT_INPROGRESS && wt_now_ms() < until);
    world_close(&w);
    relay_end(r);
}

static void comes_through(struct relay *r)
{
    struct told t;

    relayed(r, &t);
    CU_ASSERT_EQUAL(t.status, WEFT_SUCCESS);
    CU_ASSERT(t.bytes == 6 && memcmp(t.data, "answer", 6) == 0);
}

/* What was changed on its way to the other rank breaks the connection, and the next one does. What was changed on its way back is
 * found by the requester, which says so. */
static void relay_changes_bytes(void)
{
    struct relay r = {.to_server = 1, .at = SIZE_MAX};
    int told = 0;

    comes_through(&r);
    for (size_t at = 0; at < 300; at += 13) {
        r = (struct relay){.to_server = 1, .at = at};
        comes_through(&r);
        CU_ASSERT(r.at == SIZE_MAX || at > 200); /* the first 200 are always sent */
    }
    for (size_t at = 0; at < 260; at += 13) {
        struct told t;
        r = (struct relay){.to_server = 0, .at = at};
        relayed(&r, &t);
        if (t.status == WEFT_SUCCESS) {
            CU_ASSERT(r.at == at && memcmp(t.data, "answer", 6) == 0); /* there are no more bytes than that */
            continue;
        }
        fails_with(&t, WEFT_EAUTH, at < 140 ? "does not know this job's key" : "changed on its way");
        told++;
    }
    CU_ASSERT(told >= 11);
}

/* Wherever the response breaks off, it is requested again and read from its beginning. */
static void cut_off_in_the_response(void)
{
    struct relay r;

    for (size_t at = 1; at < 260; at += 11) {
        r = (struct relay){.at = SIZE_MAX, .cut_at = at};
        comes_through(&r);
        CU_ASSERT(r.cut_at == 0 || at > 150); /* the first 150 are always sent */
    }
}

static void cut_off_at_first(void)
{
    struct relay r = {.close_first = 3, .at = SIZE_MAX};

    comes_through(&r);
    CU_ASSERT(r.close_first < 0);
}

/* ---- Strangers ---- */

/* They say nothing, or nonsense; who knows the key is served all the same. */
static void strangers(void)
{
    int fds[100];
    struct world w;
    struct told t;

    world_open(&w, -1, LONG_NS);
    for (int i = 0; i < 100; i++) {
        fds[i] = connect_to(&w, 1);
        if (i % 2)
            CU_ASSERT_EQUAL(send(fds[i], "GET / HTTP/1.1\r\n\r\n", 18, MSG_NOSIGNAL), 18);
    }
    CU_ASSERT_EQUAL(wi_side_request(w.group[0], 1, "?", 1), WEFT_SUCCESS);
    echo(&w, 1);
    hear(&w, 0, 4, &t);
    CU_ASSERT_EQUAL(t.status, WEFT_SUCCESS);
    for (int i = 0; i < 100; i++)
        close(fds[i]);
    world_close(&w);
}

/* Is the connection closed by the other side, without a word? Before `patience_ms`. */
static int is_closed(int fd, uint64_t patience_ms)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    unsigned char byte;

    return poll(&p, 1, (int)patience_ms) == 1 && recv(fd, &byte, 1, MSG_DONTWAIT) <= 0;
}

/* Connections that do not prove the key are not kept, however few they are. */
static void silent_strangers_go(void)
{
    struct wi_side_config config = {.find_key = find_key, .prove_ns = 100000000};
    struct world w = {0};
    int fd;

    config.seen = wi_auth_seen_create();
    CU_ASSERT_EQUAL_FATAL(wi_side_create(&config, &w.side[1]), WEFT_SUCCESS);
    w.address_bytes[1] = wi_side_address(w.side[1], w.address[1]);
    fd = connect_to(&w, 1);
    CU_ASSERT(is_closed(fd, wt_slow_ms(10000)));
    close(fd);
    wi_side_destroy(w.side[1]);
    wi_auth_seen_destroy(config.seen);
}

/* ---- Many ranks ---- */

#define MANY 128 /* further ranks, from 2 on */

/* A rank that the test plays: one connection to rank 1. */
struct player {
    int fd;
    struct weft_auth *auth;
    struct wi_auth_stream seal, open;
};

static void say_hello(const struct world *w, int rank, struct player *p)
{
    struct wi_side_group me = {.config = {.comm_id = {5, 6}, .rank = rank}, .transport = "card"};
    unsigned char claim[WEFT_AUTH_CLAIM_MAX], out[WEFT_AUTH_MESSAGE_MAX];
    size_t n = wi_side_claim(&me, 1, claim), consumed, bytes;
    struct wi_auth_key key;

    memset(&key, 7, sizeof key);
    memset(p, 0, sizeof *p);
    p->auth = wi_auth_create(&key, 0, claim, n);
    CU_ASSERT_PTR_NOT_NULL_FATAL(p->auth);
    p->fd = connect_to(w, 1);
    CU_ASSERT_EQUAL(wi_auth_step(p->auth, NULL, 0, &consumed, out, sizeof out, &bytes, NULL, NULL), WEFT_INPROGRESS);
    CU_ASSERT_EQUAL(send(p->fd, out, bytes, MSG_NOSIGNAL), (ssize_t)bytes);
}

/* 1: rank 1 has replied, and has the proof. */
static int prove_key(struct player *p)
{
    unsigned char in[WEFT_AUTH_MESSAGE_MAX], out[WEFT_AUTH_MESSAGE_MAX], claim[WEFT_AUTH_CLAIM_MAX];
    size_t consumed, bytes, claim_bytes;
    weft_status st = WEFT_INPROGRESS;

    while (st == WEFT_INPROGRESS) {
        ssize_t got = recv(p->fd, in, 1, 0);
        if (got != 1)
            return 0;
        st = wi_auth_step(p->auth, in, 1, &consumed, out, sizeof out, &bytes, claim, &claim_bytes);
        if (bytes)
            CU_ASSERT_EQUAL(send(p->fd, out, bytes, MSG_NOSIGNAL), (ssize_t)bytes);
    }
    return st == WEFT_SUCCESS && wi_auth_streams(p->auth, &p->seal, &p->open) >= 0;
}

static void send_request(struct player *p, const void *data, size_t bytes)
{
    struct wi_store_buf out;

    wi_store_buf_init(&out, 2 * WEFT_SIDE_MAX);
    out.seal = &p->seal;
    CU_ASSERT_EQUAL(wi_store_frame_append(&out, WI_STORE_PUT, "request", data, bytes), 0);
    CU_ASSERT_EQUAL(send(p->fd, out.data + out.begin, wi_store_buf_bytes(&out), MSG_NOSIGNAL),
                    (ssize_t)wi_store_buf_bytes(&out));
    wi_store_buf_fini(&out);
}

static void player_end(struct player *p)
{
    close(p->fd);
    wi_auth_destroy(p->auth);
    wi_auth_stream_end(&p->seal);
    wi_auth_stream_end(&p->open);
}

/* So many requests that are their sender's rank. */
static void echo_ranks(struct world *w, int n)
{
    unsigned char seen[2 + MANY] = {0}, rank;
    size_t bytes = 0;
    int peer = -1;

    for (; n > 0; n--) {
        while (!wi_side_requested(w->group[1], &peer, &rank, 1, &bytes))
            CU_ASSERT_FATAL(news(w, 1));
        CU_ASSERT_FATAL(bytes == 1 && rank == peer && peer >= 2 && peer < 2 + MANY && !seen[peer]++);
        CU_ASSERT_EQUAL(wi_side_respond(w->group[1], peer, &rank, 1), WEFT_SUCCESS);
    }
}

/* All have said hello before any goes on: none of them has to give way to the others, one host's or not. */
static void ranks_at_once(void)
{
    static struct player players[MANY];
    int proven = 0;
    struct world w;

    world_of(&w, 2 + MANY, -1, LONG_NS);
    for (int i = 0; i < MANY; i++)
        say_hello(&w, 2 + i, &players[i]);
    for (int i = 0; i < MANY; i++)
        proven += prove_key(&players[i]);
    CU_ASSERT_EQUAL_FATAL(proven, MANY);
    for (int i = 0; i < MANY; i++)
        send_request(&players[i], &(unsigned char){(unsigned char)(2 + i)}, 1);
    echo_ranks(&w, MANY);
    for (int i = 0; i < MANY; i++)
        player_end(&players[i]);
    world_close(&w);
}

static void all_request(void)
{
    struct wi_side_group *groups[MANY], *of_rank_0;
    struct world w;
    struct told t;

    world_of(&w, 2 + MANY, -1, LONG_NS);
    of_rank_0 = w.group[0];
    for (int i = 0; i < MANY; i++) {
        struct wi_side_group_config config = {"card", {5, 6}, 2 + i, 2 + MANY, LONG_NS, address_of, host_of, &w};
        CU_ASSERT_EQUAL_FATAL(wi_side_open(w.side[0], &config, &groups[i]), WEFT_SUCCESS);
        CU_ASSERT_EQUAL(wi_side_request(groups[i], 1, &(unsigned char){(unsigned char)(2 + i)}, 1), WEFT_SUCCESS);
    }
    echo_ranks(&w, MANY);
    for (int i = 0; i < MANY; i++) {
        w.group[0] = groups[i];
        hear(&w, 0, 1, &t);
        CU_ASSERT(t.status == WEFT_SUCCESS && t.bytes == 1 && t.data[0] == 2 + i);
        wi_side_close(groups[i]);
    }
    w.group[0] = of_rank_0;
    world_close(&w);
}

/* A rank that connects again and again has one connection. */
static void one_of_each_peer(void)
{
    struct player players[10];
    unsigned char byte;
    struct world w;
    ssize_t got;

    world_of(&w, 3, -1, 600000000000ull);
    for (int i = 0; i < 10; i++) {
        say_hello(&w, 2, &players[i]);
        CU_ASSERT_EQUAL_FATAL(prove_key(&players[i]), 1);
        send_request(&players[i], &(unsigned char){2}, 1);
        CU_ASSERT_FATAL(news(&w, 1));
        for (got = 1; i && got == 1;) /* why, and its end */
            got = recv(players[i - 1].fd, &byte, 1, 0);
        CU_ASSERT_EQUAL(i ? got : 0, 0);
    }
    echo_ranks(&w, 1);
    CU_ASSERT_EQUAL(recv(players[9].fd, &byte, 1, 0), 1);
    for (int i = 0; i < 10; i++)
        player_end(&players[i]);
    world_close(&w);
}

/* ---- Without descriptors ---- */

static atomic_int refusals; /* that accept4 is to make */
static atomic_int refused;
static _Atomic uint64_t refused_ns[4]; /* when */

/* Instead of the C library's, for everything that is linked with this test. */
int accept4(int fd, struct sockaddr *from, socklen_t *bytes, int flags)
{
    if (atomic_load(&refusals) > 0) {
        int i = atomic_fetch_add(&refused, 1);
        atomic_fetch_sub(&refusals, 1);
        if (i < 4)
            atomic_store(&refused_ns[i], wi_now_ns());
        errno = EMFILE;
        return -1;
    }
    return (int)syscall(SYS_accept4, fd, from, bytes, flags);
}

/* It tries again after a while, not at once. */
static void no_descriptor(void)
{
    struct world w;
    struct told t;

    world_open(&w, -1, LONG_NS);
    atomic_store(&refused, 0);
    atomic_store(&refusals, 4);
    CU_ASSERT_EQUAL(wi_side_request(w.group[0], 1, "?", 1), WEFT_SUCCESS);
    echo(&w, 1);
    hear(&w, 0, 4, &t);
    CU_ASSERT_EQUAL(t.status, WEFT_SUCCESS);
    CU_ASSERT_EQUAL(atomic_load(&refused), 4);
    for (int i = 1; i < 4; i++)
        CU_ASSERT(refused_ns[i] - refused_ns[i - 1] >= 50000000);
    world_close(&w);
}

static int times_logged(const char *path, const char *text)
{
    char line[1024];
    FILE *f = fopen(path, "r");
    int n = 0;

    CU_ASSERT_PTR_NOT_NULL_FATAL(f);
    while (fgets(line, sizeof line, f))
        n += strstr(line, text) != NULL;
    fclose(f);
    return n;
}

static void later(struct wi_accept_pause *p, uint64_t ns)
{
    p->again_ns -= ns;
    p->short_ns -= ns;
    p->failed_ns -= ns;
}

/* Strangers who connect without an end take each descriptor that is given back: that is one lack, and not one each time. */
static void one_lack_is_logged_once(void)
{
    char path[4096], spec[4200];
    struct wi_accept_pause p = {0};

    snprintf(path, sizeof path, "%s/log", wt_temp_dir());
    snprintf(spec, sizeof spec, "warn,file:%s", path);
    CU_ASSERT_EQUAL_FATAL(wi_log_init(spec), WEFT_SUCCESS);
    for (int i = 0; i < 100; i++) {
        CU_ASSERT_EQUAL(wi_accept_result(&p, EMFILE, "test.accept"), 1);
        CU_ASSERT_EQUAL(wi_accept_resumes(&p), 0);
        later(&p, 200000000);
        CU_ASSERT_EQUAL(wi_accept_resumes(&p), 1);
        CU_ASSERT_EQUAL(wi_accept_result(&p, i % 2 ? 0 : EAGAIN, "test.accept"), 0);
    }
    CU_ASSERT_EQUAL(times_logged(path, "test.accept: cannot accept connections: "), 1);
    CU_ASSERT_EQUAL(times_logged(path, "again; "), 0);
    later(&p, WI_ACCEPT_CALM_NS);
    CU_ASSERT_EQUAL(wi_accept_result(&p, 0, "test.accept"), 0);
    CU_ASSERT_EQUAL(wi_accept_result(&p, 0, "test.accept"), 0);
    CU_ASSERT_EQUAL(times_logged(path, "accepting connections again; the last failure was 19."), 1);
    CU_ASSERT_EQUAL(wi_accept_result(&p, ENFILE, "test.accept"), 1); /* another one; nobody connects after it */
    later(&p, WI_ACCEPT_CALM_NS);
    CU_ASSERT_EQUAL(wi_accept_result(&p, EMFILE, "test.accept"), 1);
    CU_ASSERT_EQUAL(times_logged(path, "cannot accept"), 3);
    CU_ASSERT_EQUAL(times_logged(path, "again; "), 2);
    CU_ASSERT_EQUAL(wi_log_init(NULL), WEFT_SUCCESS);
}

/* A stranger gives its descriptor back for who comes next; who has proven the key keeps it. */
static void strangers_give_way(void)
{
    struct player p;
    struct world w;
    int fds[2];

    world_of(&w, 3, -1, LONG_NS);
    fds[0] = connect_to(&w, 1);
    say_hello(&w, 2, &p);
    CU_ASSERT_EQUAL_FATAL(prove_key(&p), 1); /* and the stranger was accepted before */
    send_request(&p, &(unsigned char){2}, 1);
    CU_ASSERT_FATAL(news(&w, 1));
    CU_ASSERT(!is_closed(fds[0], 0));
    atomic_store(&refusals, 1);
    fds[1] = connect_to(&w, 1);
    CU_ASSERT(is_closed(fds[0], wt_slow_ms(10000)));
    CU_ASSERT_EQUAL(atomic_load(&refusals), 0);
    echo_ranks(&w, 1);
    CU_ASSERT(!is_closed(p.fd, wt_slow_ms(10000))); /* its response */
    player_end(&p);
    close(fds[0]);
    close(fds[1]);
    world_close(&w);
}

static const struct wt_case cases[] = {
    {"a relay that changes a byte", relay_changes_bytes},
    {"a requester that is cut off tries again", cut_off_at_first},
    {"also in the middle of the response", cut_off_in_the_response},
    {"strangers", strangers},
    {"strangers that say nothing go", silent_strangers_go},
    {"as many as there are ranks prove the key at once", ranks_at_once},
    {"all ranks request at once", all_request},
    {"one open connection of each peer", one_of_each_peer},
    {"no descriptor to accept with", no_descriptor},
    {"one lack of descriptors is logged once", one_lack_is_logged_once},
    {"strangers give way to who comes next", strangers_give_way},
};
WT_UNIT_MAIN("side_crowd", cases)

/* SPDX-License-Identifier: BSD-3-Clause */
/* The side channel between two contexts of one process: requests, responses, peers that are silent or gone, where it listens. */
#include "tests/unit/side_world.h"

/* ---- Cases ---- */

static void requests_and_responses(void)
{
    static const size_t sizes[] = {0, 1, 63, 1000, WEFT_SIDE_MAX};
    unsigned char data[WEFT_SIDE_MAX];
    struct world w;
    struct told t;

    world_open(&w, -1, LONG_NS);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (size_t k = 0; k < sizes[i]; k++)
            data[k] = (unsigned char)(k * 3 + i);
        CU_ASSERT_EQUAL(wi_side_request(w.group[0], 1, data, sizes[i]), WEFT_SUCCESS);
        CU_ASSERT_EQUAL(wi_side_request(w.group[0], 1, data, 1), WEFT_EBUSY);
        echo(&w, 1);
        hear(&w, 0, sizeof t.data, &t);
        CU_ASSERT_EQUAL(t.status, WEFT_SUCCESS);
        CU_ASSERT_EQUAL_FATAL(t.bytes, sizes[i]);
        CU_ASSERT(memcmp(t.data, data, sizes[i]) == 0);
    }
    world_close(&w);
}

/* Both request of each other at once. */
static void both_request(void)
{
    struct world w;
    struct told t;

    world_open(&w, -1, LONG_NS);
    for (int round = 0; round < 20; round++) {
        CU_ASSERT_EQUAL(wi_side_request(w.group[0], 1, "a", 1), WEFT_SUCCESS);
        CU_ASSERT_EQUAL(wi_side_request(w.group[1], 0, "b", 1), WEFT_SUCCESS);
        echo(&w, 0);
        echo(&w, 1);
        for (int r = 0; r < RANKS; r++) {
            hear(&w, r, 16, &t);
            CU_ASSERT(t.status == WEFT_SUCCESS && t.bytes == 1 && t.data[0] == (r ? 'b' : 'a'));
        }
    }
    world_close(&w);
}

static void wrong_calls(void)
{
    unsigned char large[WEFT_SIDE_MAX + 1] = {0};
    char why[WEFT_SIDE_WHY_MAX];
    struct world w;
    size_t bytes;
    int peer;

    world_open(&w, -1, LONG_NS);
    CU_ASSERT_EQUAL(wi_side_request(w.group[0], 1, large, sizeof large), WEFT_EINVAL);
    CU_ASSERT_PTR_NOT_NULL(strstr(wi_fail_text(), "4097 bytes"));
    CU_ASSERT_PTR_NOT_NULL(strstr(wi_fail_text(), "at most 4096"));
    CU_ASSERT_EQUAL(wi_side_request(w.group[0], 2, large, 1), WEFT_EINVAL);
    CU_ASSERT_EQUAL(wi_side_request(w.group[0], -1, large, 1), WEFT_EINVAL);
    CU_ASSERT_EQUAL(wi_side_request(w.group[0], 0, large, 1), WEFT_EINVAL);
    CU_ASSERT_EQUAL(wi_side_response(w.group[0], 1, large, 1, &bytes, why), WEFT_EINVAL);
    CU_ASSERT_EQUAL(wi_side_requested(w.group[0], &peer, large, sizeof large, &bytes), 0);
    CU_ASSERT_EQUAL(wi_side_respond(w.group[0], 1, large, 1), WEFT_EPEER);
    CU_ASSERT_EQUAL(wi_side_respond(w.group[0], 1, large, sizeof large), WEFT_EINVAL);
    world_close(&w);
}

static void response_too_long(void)
{
    struct world w;
    struct told t;

    world_open(&w, -1, LONG_NS);
    CU_ASSERT_EQUAL(wi_side_request(w.group[0], 1, "hello", 5), WEFT_SUCCESS);
    echo(&w, 1);
    hear(&w, 0, 4, &t);
    fails_with(&t, WEFT_EPROTO, "5 bytes, there is room for 4");
    CU_ASSERT_EQUAL(wi_side_request(w.group[0], 1, "hell", 4), WEFT_SUCCESS); /* again */
    echo(&w, 1);
    hear(&w, 0, 4, &t);
    CU_ASSERT_EQUAL(t.status, WEFT_SUCCESS);
    world_close(&w);
}

/* It is there, and the group does not look. */
static void silent_peer(void)
{
    struct world w;
    struct told t;

    world_open(&w, -1, 300000000ull);
    CU_ASSERT_EQUAL(wi_side_request(w.group[0], 1, "?", 1), WEFT_SUCCESS);
    hear(&w, 0, 4, &t);
    fails_with(&t, WEFT_ETIMEDOUT, "did not respond within 0.3 s (");
    world_close(&w);
}

static void peer_that_left(void)
{
    struct world w;
    struct told t;
    unsigned char request[8];
    size_t bytes;
    int peer;

    world_open(&w, -1, LONG_NS);
    CU_ASSERT_EQUAL(wi_side_request(w.group[0], 1, "?", 1), WEFT_SUCCESS); /* it leaves with the request open */
    while (!wi_side_requested(w.group[1], &peer, request, sizeof request, &bytes))
        CU_ASSERT_FATAL(news(&w, 1));
    wi_side_close(w.group[1]);
    w.group[1] = NULL;
    hear(&w, 0, 4, &t);
    fails_with(&t, WEFT_EPEER, "has left");
    CU_ASSERT_EQUAL(wi_side_request(w.group[0], 1, "?", 1), WEFT_SUCCESS); /* it has left before */
    hear(&w, 0, 4, &t);
    fails_with(&t, WEFT_EPEER, "has left");
    wi_side_destroy(w.side[1]);
    w.side[1] = NULL;
    CU_ASSERT_EQUAL(wi_side_request(w.group[0], 1, "?", 1), WEFT_SUCCESS); /* its process has ended */
    hear(&w, 0, 4, &t);
    fails_with(&t, WEFT_EPEER, "nobody listens there");
    w.address_bytes[1] = 0;
    CU_ASSERT_EQUAL(wi_side_request(w.group[0], 1, "?", 1), WEFT_SUCCESS); /* it never had one */
    hear(&w, 0, 4, &t);
    fails_with(&t, WEFT_ENOTSUP, "has no side channel");
    world_close(&w);
}

static void other_transport_or_key(void)
{
    struct world w;
    struct told t;

    world_open(&w, -1, LONG_NS);
    wi_side_close(w.group[1]);
    open_group(&w, 1, "cards", LONG_NS);
    CU_ASSERT_EQUAL(wi_side_request(w.group[0], 1, "?", 1), WEFT_SUCCESS);
    hear(&w, 0, 4, &t);
    fails_with(&t, WEFT_EPEER, "has no such transport");
    world_close(&w);
    world_open(&w, 0, 300000000ull); /* it cannot be told from one that had no room */
    CU_ASSERT_EQUAL(wi_side_request(w.group[0], 1, "?", 1), WEFT_SUCCESS);
    hear(&w, 0, 4, &t);
    fails_with(&t, WEFT_ETIMEDOUT, "did not respond within 0.3 s (");
    world_close(&w);
}

/* Both have two communicators: what is said in one is not heard in the other. */
static void two_communicators(void)
{
    struct wi_side_group *first[RANKS];
    unsigned char request[4];
    struct world w;
    struct told t;
    size_t bytes;
    int peer;

    world_open(&w, -1, LONG_NS);
    for (int r = 0; r < RANKS; r++) {
        first[r] = w.group[r];
        open_in(&w, r, COMM + 1, "card", LONG_NS); /* which is found first now */
    }
    CU_ASSERT_EQUAL(wi_side_request(first[0], 1, "1", 1), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(wi_side_request(w.group[0], 1, "2", 1), WEFT_SUCCESS);
    for (int k = 0; k < 2; k++) {
        struct wi_side_group *second[RANKS] = {w.group[0], w.group[1]};
        if (k == 0)
            memcpy(w.group, first, sizeof first);
        while (!wi_side_requested(w.group[1], &peer, request, sizeof request, &bytes))
            CU_ASSERT_FATAL(news(&w, 1));
        CU_ASSERT(peer == 0 && bytes == 1 && request[0] == '1' + k);
        CU_ASSERT_EQUAL(wi_side_respond(w.group[1], 0, request, 1), WEFT_SUCCESS);
        hear(&w, 0, 4, &t);
        CU_ASSERT(t.status == WEFT_SUCCESS && t.bytes == 1 && t.data[0] == '1' + k);
        for (int r = 0; k == 0 && r < RANKS; r++)
            w.group[r] = second[r];
    }
    for (int r = 0; r < RANKS; r++)
        wi_side_close(first[r]);
    world_close(&w);
}

/* Until rank 1 has no request any more. */
static int is_forgotten(struct world *w)
{
    uint64_t until = wt_now_ms() + wt_slow_ms(10000);
    int is = 0;

    while (!is && wt_now_ms() < until) {
        pthread_mutex_lock(&w->side[1]->lock);
        is = !w->group[1]->incoming;
        pthread_mutex_unlock(&w->side[1]->lock);
        poll(NULL, 0, 1);
    }
    return is;
}

/* It leaves before it has its response: the other one is not asked any more, whether it has seen the request or not. */
static void requester_that_left(void)
{
    unsigned char request[4];
    struct world w;
    size_t bytes;
    int peer;

    for (int seen = 0; seen < 2; seen++) {
        world_open(&w, -1, LONG_NS);
        CU_ASSERT_EQUAL(wi_side_request(w.group[0], 1, "?", 1), WEFT_SUCCESS);
        CU_ASSERT_FATAL(news(&w, 1));
        while (seen && !wi_side_requested(w.group[1], &peer, request, sizeof request, &bytes))
            CU_ASSERT_FATAL(news(&w, 1));
        wi_side_close(w.group[0]);
        w.group[0] = NULL;
        CU_ASSERT(is_forgotten(&w));
        CU_ASSERT_EQUAL(wi_side_requested(w.group[1], &peer, request, sizeof request, &bytes), 0);
        struct pollfd fd = {.fd = wi_side_fd(w.group[1]), .events = POLLIN};
        CU_ASSERT_EQUAL(poll(&fd, 1, 0), 0);
        CU_ASSERT_EQUAL(wi_side_respond(w.group[1], 0, "!", 1), WEFT_EPEER);
        CU_ASSERT_PTR_NOT_NULL(strstr(wi_fail_text(), "rank 0 on host node-a does not wait"));
        world_close(&w);
    }
}

/* Of the communicators that rank 1 left it remembers so many. An earlier one gets no answer, as one that never was. */
static void remembers_what_it_left(void)
{
    static const int agos[] = {0, WI_SIDE_GONE - 1, WI_SIDE_GONE}; /* the newest, the oldest, one before it */
    struct world w;
    struct told t;

    for (int left = WI_SIDE_GONE; left <= 4 * WI_SIDE_GONE; left += 3 * WI_SIDE_GONE / 2) {
        world_open(&w, -1, LONG_NS);
        wi_side_close(w.group[1]);
        for (int i = 1; i <= left; i++) {
            open_in(&w, 1, COMM + (uint64_t)i, "card", LONG_NS);
            wi_side_close(w.group[1]);
        }
        w.group[1] = NULL;
        for (size_t i = 0; i < sizeof agos / sizeof *agos; i++) {
            int ago = agos[i];
            wi_side_close(w.group[0]);
            open_in(&w, 0, COMM + (uint64_t)(left - ago), "card", ago < WI_SIDE_GONE ? LONG_NS : 300000000ull);
            CU_ASSERT_EQUAL(wi_side_request(w.group[0], 1, "?", 1), WEFT_SUCCESS);
            hear(&w, 0, 4, &t);
            if (ago < WI_SIDE_GONE)
                fails_with(&t, WEFT_EPEER, "has left");
            else
                fails_with(&t, WEFT_ETIMEDOUT, "did not respond within 0.3 s (");
        }
        world_close(&w);
    }
}

/* Another rank of this process has left that communicator: it says nothing of a rank that never was here. */
static void left_by_another_rank(void)
{
    struct wi_side_group_config config = {.transport = "card", .comm_id = {5, COMM + 1}, .rank = 2, .nranks = 3};
    struct wi_side_group *other;
    struct world w;
    struct told t;

    world_open(&w, -1, LONG_NS);
    CU_ASSERT_EQUAL_FATAL(wi_side_open(w.side[1], &config, &other), WEFT_SUCCESS);
    wi_side_close(other);
    wi_side_close(w.group[0]);
    open_in(&w, 0, COMM + 1, "card", 300000000ull);
    CU_ASSERT_EQUAL(wi_side_request(w.group[0], 1, "?", 1), WEFT_SUCCESS);
    hear(&w, 0, 4, &t);
    fails_with(&t, WEFT_ETIMEDOUT, "did not respond within 0.3 s (");
    world_close(&w);
}

static void request_too_long(void)
{
    unsigned char request[4];
    struct world w;
    struct told t;
    size_t bytes;
    int peer;

    world_open(&w, -1, LONG_NS);
    CU_ASSERT_EQUAL(wi_side_request(w.group[0], 1, "hello", 5), WEFT_SUCCESS);
    CU_ASSERT_FATAL(news(&w, 1));
    CU_ASSERT_EQUAL(wi_side_requested(w.group[1], &peer, request, sizeof request, &bytes), 0);
    hear(&w, 0, 16, &t);
    fails_with(&t, WEFT_EPROTO, "takes requests of at most 4 bytes, not 5");
    struct pollfd fd = {.fd = wi_side_fd(w.group[1]), .events = POLLIN};
    CU_ASSERT_EQUAL(poll(&fd, 1, 0), 0); /* it wakes nobody any more */
    CU_ASSERT_EQUAL(wi_side_request(w.group[0], 1, "hell", 4), WEFT_SUCCESS);
    echo(&w, 1);
    hear(&w, 0, 16, &t);
    CU_ASSERT_EQUAL(t.status, WEFT_SUCCESS);
    world_close(&w);
}

/* The deadline to prove the key is for that only: a transport may take as long as its requester waits. */
static void late_response(void)
{
    unsigned char request[4];
    struct world w;
    struct told t;
    size_t bytes;
    int peer;

    world_open(&w, -1, LONG_NS);
    pthread_mutex_lock(&w.side[1]->lock);
    w.side[1]->config.prove_ns = wt_slow_ms(200) * 1000000;
    pthread_mutex_unlock(&w.side[1]->lock);
    CU_ASSERT_EQUAL(wi_side_request(w.group[0], 1, "?", 1), WEFT_SUCCESS);
    while (!wi_side_requested(w.group[1], &peer, request, sizeof request, &bytes))
        CU_ASSERT_FATAL(news(&w, 1));
    for (uint64_t until = wt_now_ms() + wt_slow_ms(400); wt_now_ms() < until;)
        poll(NULL, 0, 10);
    CU_ASSERT_EQUAL(wi_side_respond(w.group[1], 0, "!", 1), WEFT_SUCCESS);
    hear(&w, 0, 4, &t);
    CU_ASSERT(t.status == WEFT_SUCCESS && t.bytes == 1 && t.data[0] == '!');
    world_close(&w);
}

/* ---- Locks, places ---- */

static void await_stopped(void)
{
    for (uint64_t until = wt_now_ms() + wt_slow_ms(10000); atomic_load(&handshake) != STOPPED;) {
        CU_ASSERT_FATAL(wt_now_ms() < until);
        poll(NULL, 0, 1);
    }
}

static void handshake_blocks_nobody(void)
{
    unsigned char request[8];
    struct world w;
    struct told t;
    size_t bytes;
    int peer;

    world_open(&w, -1, LONG_NS);
    atomic_store(&handshake, STOP);
    CU_ASSERT_EQUAL(wi_side_request(w.group[0], 1, "?", 1), WEFT_SUCCESS);
    await_stopped();
    uint64_t before = wt_now_ms();
    CU_ASSERT_EQUAL(wi_side_requested(w.group[1], &peer, request, sizeof request, &bytes), 0);
    CU_ASSERT_EQUAL(wi_side_respond(w.group[1], 0, "?", 1), WEFT_EPEER);
    CU_ASSERT_EQUAL(wi_side_request(w.group[1], 0, "!", 1), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(atomic_exchange(&handshake, PASS), STOPPED); /* else it waited until the handshake gave up */
    CU_ASSERT(wt_now_ms() - before < wt_slow_ms(5000));
    echo(&w, 1);
    hear(&w, 0, 4, &t);
    CU_ASSERT_EQUAL(t.status, WEFT_SUCCESS);
    world_close(&w);
}

/* Its first attempt fails when no group waits for the request any more, which frees it: the thread must not look at it again. That
 * shows under the address sanitizer. */
static void left_before_the_first_attempt(void)
{
    struct world w;
    struct told t;

    world_open(&w, -1, LONG_NS);
    atomic_store(&handshake, STOP);
    CU_ASSERT_EQUAL(wi_side_request(w.group[1], 0, "?", 1), WEFT_SUCCESS);
    await_stopped(); /* the thread has taken the request, and looks for its key */
    wi_side_close(w.group[1]);
    atomic_store(&w.no_key, 1);
    CU_ASSERT_EQUAL(atomic_exchange(&handshake, PASS), STOPPED);
    open_group(&w, 1, "card", LONG_NS);
    CU_ASSERT_EQUAL(wi_side_request(w.group[1], 0, "?", 1), WEFT_SUCCESS); /* it goes on with the next */
    CU_ASSERT_FATAL(news(&w, 1));
    CU_ASSERT_EQUAL(wi_side_response(w.group[1], 0, t.data, sizeof t.data, &t.bytes, t.why), WEFT_ENOMEM);
    CU_ASSERT_PTR_NOT_NULL(strstr(t.why, "rank 0 on host node-a: no memory for a handshake"));
    world_close(&w);
}

static void listens_where_told(void)
{
    struct wi_side_config config = {.find_key = find_key, .interfaces = "nosuch0,lo"};
    unsigned char address[WI_SIDE_ADDRESS_MAX];
    struct wi_side *side = NULL;

    config.seen = wi_auth_seen_create();
    CU_ASSERT_EQUAL_FATAL(wi_side_create(&config, &side), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(wi_side_address(side, address), 8);
    CU_ASSERT(address[0] == 4 && address[4] == 127);
    wi_side_destroy(side);
    config.interfaces = "nosuch0";
    CU_ASSERT_EQUAL(wi_side_create(&config, &side), WEFT_ECONFIG);
    CU_ASSERT_PTR_NOT_NULL(strstr(wi_fail_text(), "WEFT_STORE_INTERFACES"));
    wi_auth_seen_destroy(config.seen);
}

static void addresses(void)
{
    static const unsigned char good4[] = {4, 0, 1, 2, 10, 0, 0, 1};
    static const unsigned char good6[] = {6, 0, 1, 2, 0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
    unsigned char a[WI_SIDE_ADDRESS_MAX + 1] = {1, 0, '/', 't', 'm', 'p', '/', 'a', 0}; /* AF_UNIX */
    struct wi_sockaddr at;

    CU_ASSERT_EQUAL(wi_side_address_read(good4, sizeof good4, &at), 0);
    CU_ASSERT(at.ss.ss_family == AF_INET && at.bytes == sizeof(struct sockaddr_in) && wi_sockaddr_port(&at) == 513);
    CU_ASSERT_EQUAL(wi_side_address_read(good6, sizeof good6, &at), 0);
    CU_ASSERT(at.ss.ss_family == AF_INET6 && at.bytes == sizeof(struct sockaddr_in6) && wi_sockaddr_port(&at) == 513);
    for (size_t n = 0; n <= sizeof a; n++)
        CU_ASSERT_EQUAL(wi_side_address_read(a, n, &at), -1);
    for (size_t n = 0; n <= sizeof good6; n++) {
        memcpy(a, good6, sizeof good6);
        CU_ASSERT_EQUAL(wi_side_address_read(a, n, &at), n == sizeof good6 ? 0 : -1);
        memcpy(a, good4, sizeof good4);
        CU_ASSERT_EQUAL(wi_side_address_read(a, n, &at), n == sizeof good4 ? 0 : -1);
    }
    static const struct {
        int at, to;
    } spoils[] = {{0, 1}, {0, 2}, {0, 10}, {1, 1}, {4, 0}, {4, 224}, {4, 255}}; /* family, zero, IP */
    for (size_t i = 0; i < sizeof spoils / sizeof *spoils; i++) {
        memcpy(a, good4, sizeof good4);
        a[spoils[i].at] = (unsigned char)spoils[i].to;
        CU_ASSERT_EQUAL(wi_side_address_read(a, sizeof good4, &at), -1);
    }
    memcpy(a, good4, sizeof good4);
    a[2] = a[3] = 0; /* port */
    CU_ASSERT_EQUAL(wi_side_address_read(a, sizeof good4, &at), -1);
    memcpy(a, good6, sizeof good6);
    a[4] = 0xfe, a[5] = 0x80; /* link-local */
    CU_ASSERT_EQUAL(wi_side_address_read(a, sizeof good6, &at), -1);
    a[4] = 0xff;
    CU_ASSERT_EQUAL(wi_side_address_read(a, sizeof good6, &at), -1);
    memset(a + 4, 0, 16); /* :: */
    CU_ASSERT_EQUAL(wi_side_address_read(a, sizeof good6, &at), -1);
    a[14] = a[15] = 0xff; /* IPv4 in IPv6: as IPv4 */
    a[16] = 10;
    CU_ASSERT_EQUAL(wi_side_address_read(a, sizeof good6, &at), 0);
    a[16] = 224;
    CU_ASSERT_EQUAL(wi_side_address_read(a, sizeof good6, &at), -1);
    a[16] = 0;
    CU_ASSERT_EQUAL(wi_side_address_read(a, sizeof good6, &at), -1);
}

/* ---- Hosts of before ---- */

static void older_host(void)
{
    struct weft_host h = {.bytes = offsetof(struct weft_host, side_request), .side_request = wi_side_request};

    CU_ASSERT(!WEFT_HOST_HAS(&h, side_request)); /* it ends before that: what stands there is something else */
    h.bytes += sizeof h.side_request - 1;
    CU_ASSERT(!WEFT_HOST_HAS(&h, side_request));
    h.bytes++;
    CU_ASSERT(WEFT_HOST_HAS(&h, side_request));
    CU_ASSERT(!WEFT_HOST_HAS(&h, side_response));
    h.side_request = NULL;
    CU_ASSERT(!WEFT_HOST_HAS(&h, side_request));
}

static const struct wt_case cases[] = {
    {"a request and its response", requests_and_responses},
    {"both request at once", both_request},
    {"wrong calls are named", wrong_calls},
    {"a response for which there is no room", response_too_long},
    {"a request for which there is no room", request_too_long},
    {"a peer that never responds is named at the deadline", silent_peer},
    {"a response may come later than the key has to be proven", late_response},
    {"a peer that has left is named", peer_that_left},
    {"another transport, another key", other_transport_or_key},
    {"communicators are told apart", two_communicators},
    {"a requester that has left is not waited for", requester_that_left},
    {"communicators that were left are remembered, the newest of them", remembers_what_it_left},
    {"of them, what they were left by", left_by_another_rank},
    {"a handshake does not block the transport's calls", handshake_blocks_nobody},
    {"its communicator has left before the first attempt", left_before_the_first_attempt},
    {"it listens where start-up does", listens_where_told},
    {"only the TCP address of one host is connected to", addresses},
    {"a host that does not know the side channel", older_host},
};
WT_UNIT_MAIN("side", cases)

/* tcp_shared.c: streams in shared connections: what tcp_link.c does over them, and peers that are not what they say.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#define WT_TCP_LINK_CASES_ONLY
#include "tests/conform/tcp_link.c"

/* ---- Both kinds in one group ---- */

/* Lean ranks take streams only and say so to the others; whoever connects first. */
static void mixed(void)
{
    for (int lean = 1; lean < 7; lean++) {
        struct world w;
        world_defaults(&w, 3);
        for (int i = 0; i < 3; i++) {
            w.settings[i].share = lean >> i & 1 ? "always" : "auto";
            w.settings[i].sockets = 2;
        }
        world_open(&w, 1);
        exchange(&w, small_sizes, 14, 2, lean % 3);
        exchange(&w, large_sizes, 3, 1, 1);
        world_close(&w);
    }
}

static int connections_of(const struct world *w, int rank)
{
    struct wi_tcp_endpoint *e = w->endpoint[rank];
    int n = 0;
    pthread_mutex_lock(&e->lock);
    for (const struct wi_tcp_mux *m = e->muxes; m; m = m->next)
        n++;
    pthread_mutex_unlock(&e->lock);
    return n;
}

/* Groups of one pair, one after the other and at the same time, need no descriptor more. */
static void no_descriptor_more(void)
{
    enum { GROUPS = 50 };
    struct world w;
    void *groups[2][GROUPS];
    world_defaults(&w, 2);
    w.settings[0].share = w.settings[1].share = "always";
    world_open(&w, 1);
    connect_pair(&w);
    int before = count_fds();
    void *first[2] = {w.group[0], w.group[1]};
    for (int i = 0; i < GROUPS; i++) {
        for (int r = 0; r < 2; r++) {
            CU_ASSERT_EQUAL_FATAL(group_make(&w, r, 100 + (uint64_t)i), WEFT_SUCCESS);
            groups[r][i] = w.group[r];
        }
        connect_pair(&w);
    }
    CU_ASSERT_EQUAL(count_fds(), before);
    CU_ASSERT_TRUE(connections_of(&w, 0) <= 2);
    for (int i = 0; i < GROUPS; i++)
        for (int r = 0; r < 2; r++)
            WT_TCP->group_destroy(groups[r][i], i % 2);
    memcpy(w.group, first, sizeof first);
    exchange(&w, mixed_sizes, 7, 2, 0);
    CU_ASSERT_EQUAL(count_fds(), before);
    world_close(&w);
}

static void word_of_share(void)
{
    struct world w;
    void *e;
    world_defaults(&w, 1);
    wt_tcp_host_init(&w.host[0], &w.key[0]);
    w.settings[0].share = "sometimes";
    CU_ASSERT_EQUAL(WT_TCP->open(&w.host[0], &w.settings[0], &e), WEFT_ECONFIG);
    CU_ASSERT_PTR_NOT_NULL(strstr(wt_tcp_explained, "WEFT_TCP_SHARE=sometimes"));
}

/* ---- A peer by hand ---- */

struct hand {
    int fd;
    unsigned char binding[WI_TCP_BINDING_BYTES];
};

static uint64_t deadline(void)
{
    return wt_tcp_now() + DEADLINE_NS;
}

/* All of it, or 0. */
static int hear_all(int fd, void *into, size_t bytes)
{
    unsigned char *at = into;
    while (bytes) {
        ssize_t n = hear_raw(fd, at, bytes, deadline());
        if (n <= 0)
            return 0;
        at += n;
        bytes -= (size_t)n;
    }
    return 1;
}

static void hello_of(const struct world *w, int process, const struct wi_tcp_claim *more, unsigned char hello[WT_HELLO])
{
    struct wi_tcp_claim claim;
    struct wi_tcp_identity from;
    hello_for(w, 0, hello);
    CU_ASSERT_EQUAL_FATAL(wi_tcp_identity_decode(w->blob[process], w->blob_bytes[process], &from), 0);
    CU_ASSERT_PTR_NULL_FATAL(wi_tcp_claim_decode(hello + 16, WI_TCP_CLAIM_BYTES, &claim));
    claim.process = from.process;
    claim.shared = more->shared;
    memcpy(claim.binding, more->binding, sizeof claim.binding);
    wi_tcp_claim_encode(&claim, hello + 16);
}

/* A shared connection to rank 0, as of rank 1's process, made with the key. */
static struct hand by_hand(const struct world *w)
{
    struct hand h = {.fd = dial_raw(w, 0)};
    unsigned char hello[WT_HELLO], reply[WT_HELLO], welcome[WI_TCP_HEADER_BYTES];
    struct wi_tcp_frame f;
    hello_of(w, 1, &(struct wi_tcp_claim){.shared = 1}, hello);
    CU_ASSERT_EQUAL(send(h.fd, hello, sizeof hello, MSG_NOSIGNAL), sizeof hello);
    CU_ASSERT_TRUE_FATAL(hear_all(h.fd, reply, sizeof reply));
    CU_ASSERT_EQUAL(send(h.fd, hello, 4, MSG_NOSIGNAL), 4);
    CU_ASSERT_TRUE_FATAL(hear_all(h.fd, welcome, sizeof welcome));
    CU_ASSERT_PTR_NULL(wi_tcp_frame_decode(welcome, &f));
    CU_ASSERT_EQUAL(f.type, WI_TCP_WELCOME);
    memcpy(h.binding, hello + 8, 8); /* as wt_tcp_auth_session: both nonces */
    memcpy(h.binding + 8, reply + 8, sizeof h.binding - 8);
    return h;
}

static void say(const struct hand *h, uint8_t type, uint32_t stream, uint32_t value, const void *data, size_t bytes)
{
    unsigned char out[WI_TCP_MUX_HEADER_BYTES];
    wi_tcp_mux_encode(&(struct wi_tcp_mux_frame){type, stream, value}, out);
    CU_ASSERT_EQUAL(send(h->fd, out, sizeof out, MSG_NOSIGNAL), sizeof out);
    if (bytes)
        CU_ASSERT_EQUAL(send(h->fd, data, bytes, MSG_NOSIGNAL), (ssize_t)bytes);
}

static struct wi_tcp_mux_frame hear_frame(const struct hand *h)
{
    unsigned char in[WI_TCP_MUX_HEADER_BYTES];
    struct wi_tcp_mux_frame f = {0};
    if (hear_all(h->fd, in, sizeof in))
        CU_ASSERT_PTR_NULL(wi_tcp_mux_decode(in, &f));
    return f;
}

/* A stream is for who has its communicator's key and is at the other end of this connection: a hello that was made for another
 * connection, as who stands between two processes would pass on, gets no answer. */
static void bound_to_its_connection(void)
{
    struct world w;
    world_defaults(&w, 2);
    w.settings[0].share = "always";
    world_open(&w, 1);
    for (int kind = 0; kind < 6; kind++) {
        struct hand other = by_hand(&w), h = by_hand(&w);
        struct wi_tcp_claim claim = {.shared = kind == 5};
        unsigned char hello[WT_HELLO], reply[WT_HELLO];
        memcpy(claim.binding, kind == 1 ? other.binding : h.binding, kind == 2 ? 0 : sizeof claim.binding);
        hello_of(&w, kind == 4 ? 0 : 1, &claim, hello);
        hello[0] ^= kind == 3;
        say(&h, WI_TCP_MUX_OPEN, 0, 0, NULL, 0);
        say(&h, WI_TCP_MUX_DATA, 0, sizeof hello, hello, sizeof hello);
        struct wi_tcp_mux_frame f = hear_frame(&h);
        if (kind == 0 || kind >= 4) {
            CU_ASSERT_EQUAL(f.type, WI_TCP_MUX_DATA);
            CU_ASSERT_TRUE(f.value == sizeof reply && hear_all(h.fd, reply, sizeof reply));
            say(&h, WI_TCP_MUX_DATA, 0, 4, hello, 4);
            f = hear_frame(&h);
        }
        CU_ASSERT_EQUAL(f.type, kind ? WI_TCP_MUX_CLOSE : WI_TCP_MUX_DATA); /* WELCOME, of the one that is right */
        close(other.fd);
        close(h.fd);
    }
    world_close(&w);
}

static void ends_here(const struct hand *h)
{
    char c;
    CU_ASSERT_EQUAL(hear_raw(h->fd, &c, 1, deadline()), 0);
    close(h->fd);
}

/* What nobody may say ends the connection, and nothing else. */
static void nonsense(void)
{
    static unsigned char much[WI_TCP_MUX_FRAME_MAX];
    const struct wi_tcp_mux_frame bad[] = {
        {9, 0, 0},                                       /* no such type */
        {WI_TCP_MUX_OPEN, 1, 0},                         /* a number of the other side's */
        {WI_TCP_MUX_OPEN, 4, 0},                         /* out of turn */
        {WI_TCP_MUX_DATA, 8, 1},                         /* was never opened */
        {WI_TCP_MUX_CLOSE, 1, 0},                        /* nor here */
        {WI_TCP_MUX_DATA, 0, WI_TCP_MUX_FRAME_MAX + 1},  /* too long */
        {WI_TCP_MUX_WINDOW, 0, WI_TCP_MUX_WINDOW_BYTES}, /* was not used */
        {WI_TCP_MUX_OPEN, 0, 7},
    };
    struct world w;
    world_defaults(&w, 2);
    w.settings[0].share = w.settings[1].share = "always";
    world_open(&w, 1);
    exchange(&w, small_sizes, 14, 2, 0);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct hand h = by_hand(&w);
        if (bad[i].type == WI_TCP_MUX_WINDOW)
            say(&h, WI_TCP_MUX_OPEN, 0, 0, NULL, 0);
        say(&h, bad[i].type, bad[i].stream, bad[i].value, NULL, 0);
        ends_here(&h);
    }
    struct hand h = by_hand(&w);
    say(&h, WI_TCP_MUX_OPEN, 0, 0, NULL, 0);
    say(&h, WI_TCP_MUX_CLOSE, 0, 0, NULL, 0);
    CU_ASSERT_EQUAL(hear_frame(&h).type, WI_TCP_MUX_CLOSE);
    say(&h, WI_TCP_MUX_DATA, 0, sizeof much, much, sizeof much); /* nobody's: thrown away */
    say(&h, WI_TCP_MUX_OPEN, 2, 0, NULL, 0);
    say(&h, WI_TCP_MUX_DATA, 2, 100, much, 100); /* no hello */
    CU_ASSERT_EQUAL(hear_frame(&h).type, WI_TCP_MUX_CLOSE);
    close(h.fd);
    exchange(&w, mixed_sizes, 7, 2, 1);
    CU_ASSERT_EQUAL(w.failures[0] + w.failures[1], 0);
    world_close(&w);
}

/* A member of the communicator, who has its key, may send as much as the window says, taken or not, and no more. */
static void beyond_the_window(void)
{
    static unsigned char much[WI_TCP_MUX_FRAME_MAX];
    struct world w;
    world_defaults(&w, 2);
    w.settings[0].share = "always";
    world_open(&w, 1);
    struct hand h = by_hand(&w);
    struct wi_tcp_claim claim = {0};
    unsigned char hello[WT_HELLO], reply[WT_HELLO + WI_TCP_HEADER_BYTES];
    memcpy(claim.binding, h.binding, sizeof claim.binding);
    hello_of(&w, 1, &claim, hello);
    say(&h, WI_TCP_MUX_OPEN, 0, 0, NULL, 0);
    say(&h, WI_TCP_MUX_DATA, 0, sizeof hello, hello, sizeof hello);
    CU_ASSERT_EQUAL(hear_frame(&h).value, WT_HELLO);
    CU_ASSERT_TRUE(hear_all(h.fd, reply, WT_HELLO));
    say(&h, WI_TCP_MUX_DATA, 0, 4, hello, 4);
    CU_ASSERT_EQUAL(hear_frame(&h).value, WI_TCP_HEADER_BYTES);
    CU_ASSERT_TRUE(hear_all(h.fd, reply, WI_TCP_HEADER_BYTES));
    fcntl(h.fd, F_SETFL, 0);
    for (size_t sent = 0; sent + sizeof much <= WI_TCP_MUX_WINDOW_BYTES - sizeof hello - 4; sent += sizeof much)
        say(&h, WI_TCP_MUX_DATA, 0, sizeof much, much, sizeof much); /* rank 0 takes none of it */
    CU_ASSERT_EQUAL(recv(h.fd, reply, 1, MSG_DONTWAIT), -1);
    say(&h, WI_TCP_MUX_DATA, 0, sizeof much, NULL, 0);
    fcntl(h.fd, F_SETFL, O_NONBLOCK);
    ends_here(&h);
    world_close(&w);
}

/* Who has one communicator's key may say that he is any process. Streams do not believe him: after one that he does not answer
 * rank 0 connects by itself to where rank 1 listens. */
static void in_anothers_name(void)
{
    struct world w;
    char a[8] = "to you", b[8] = "";
    world_defaults(&w, 2);
    w.settings[0].share = w.settings[1].share = "always";
    world_open(&w, 1);
    struct hand h = by_hand(&w);
    CU_ASSERT_EQUAL(connections_of(&w, 0), 1);
    struct weft_xfer x[2] = {xfer(a, 8, 1, 0, 0), xfer(b, 8, 0, 0, 0)};
    x[1].background = 1; /* rank 1 does not connect */
    CU_ASSERT_EQUAL(WT_TCP->recv(w.group[1], &x[1]), 0);
    CU_ASSERT_EQUAL(WT_TCP->send(w.group[0], &x[0]), 0);
    CU_ASSERT_EQUAL(hear_frame(&h).type, WI_TCP_MUX_OPEN);
    for (int i = 0; i < 1000; i++)
        turn(&w);
    CU_ASSERT_EQUAL(x[0].state, WEFT_XFER_PENDING);
    wt_tcp_skip(2000000000ull);
    CU_ASSERT_TRUE(drive(&w, x, 2));
    CU_ASSERT_STRING_EQUAL(b, "to you");
    CU_ASSERT_EQUAL(w.failures[0] + w.failures[1], 0);
    close(h.fd);
    world_close(&w);
}

/* ---- All of it ---- */

static const char *const again[] = {
    "two ranks",    "mesh of four",     "tiny buffers",           "many channels",    "IPv6",
    "asleep",       "disagreements",    "leave in order",         "leave in failure", "late to a group that is gone",
    "parked",       "asked to connect", "gone before connecting", "killed",           "strangers",
    "nothing leaks"};

static const struct wt_case own[] = {
    {"lean ranks and others", mixed},
    {"groups without a descriptor more", no_descriptor_more},
    {"a word that SHARE does not know", word_of_share},
    {"a stream is bound to its connection", bound_to_its_connection},
    {"nonsense ends one connection", nonsense},
    {"more than the window", beyond_the_window},
    {"a connection in another's name", in_anothers_name},
};

int main(int argc, char **argv)
{
    enum { AGAIN = sizeof again / sizeof *again, OWN = sizeof own / sizeof *own };
    struct wt_case all[OWN + AGAIN];
    size_t n = OWN;
    memcpy(all, own, sizeof own);
    for (size_t i = 0; i < AGAIN; i++)
        for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
            if (strcmp(cases[k].name, again[i]) == 0)
                all[n++] = cases[k];
    wt_tcp_share = "always";
    return n != OWN + AGAIN || wt_unit_main("tcp_shared", all, n, argc, argv);
}

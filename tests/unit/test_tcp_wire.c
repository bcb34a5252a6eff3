/* test_tcp_wire.c: the tcp transport's bytes: frame headers, claims, address blobs, choice of addresses.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "tests/unit/unit.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fds.h"
#include "base/process.h"
#include "plugins/tcp/addr.h"
#include "plugins/tcp/frame.h"
#include "plugins/tcp/tcp.h"

static struct wi_tcp_frame sample(void)
{
    return (struct wi_tcp_frame){.type = WI_TCP_DATA,
                                 .chan = 63,
                                 .flags = WI_TCP_EAGER_FLAG,
                                 .bytes = 0x10203,
                                 .msg = 0x1122334455667788ull,
                                 .offset = 0x0102030405ull,
                                 .total = 0x60504030201ull,
                                 .info = {.seq = 0xa1b2c3d4,
                                          .kind = 9,
                                          .dtype = 11,
                                          .op = 255,
                                          .flags = 3,
                                          .root = 77,
                                          .hash = 0xdeadbeef,
                                          .count = 0x123456789abcull}};
}

static void frame_round_trip(void)
{
    struct wi_tcp_frame in = sample(), out;
    unsigned char wire[WI_TCP_HEADER_BYTES];
    memset(&out, 0xee, sizeof out);
    wi_tcp_frame_encode(&in, wire);
    CU_ASSERT_PTR_NULL(wi_tcp_frame_decode(wire, &out));
    CU_ASSERT_EQUAL(out.type, in.type);
    CU_ASSERT_EQUAL(out.chan, in.chan);
    CU_ASSERT_EQUAL(out.flags, in.flags);
    CU_ASSERT_EQUAL(out.bytes, in.bytes);
    CU_ASSERT_EQUAL(out.msg, in.msg);
    CU_ASSERT_EQUAL(out.offset, in.offset);
    CU_ASSERT_EQUAL(out.total, in.total);
    CU_ASSERT_TRUE(wi_tcp_info_equal(&in.info, &out.info));
}

/* The wire format is a contract between hosts of any byte order. */
static void frame_is_little_endian(void)
{
    struct wi_tcp_frame in = sample();
    unsigned char wire[WI_TCP_HEADER_BYTES];
    wi_tcp_frame_encode(&in, wire);
    static const unsigned char head[] = {1,    63,   1,    0,    0x03, 0x02, 0x01, 0,
                                         0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11};
    static const unsigned char info[] = {0xd4, 0xc3, 0xb2, 0xa1, 9,    11,   255,  3,    77,   0,    0, 0,
                                         0xef, 0xbe, 0xad, 0xde, 0xbc, 0x9a, 0x78, 0x56, 0x34, 0x12, 0, 0};
    CU_ASSERT_EQUAL(memcmp(wire, head, sizeof head), 0);
    CU_ASSERT_EQUAL(memcmp(wire + 32, info, sizeof info), 0);
}

static const char *verdict(struct wi_tcp_frame f, int reserved)
{
    unsigned char wire[WI_TCP_HEADER_BYTES];
    struct wi_tcp_frame out;
    wi_tcp_frame_encode(&f, wire);
    wire[3] = (unsigned char)reserved;
    return wi_tcp_frame_decode(wire, &out);
}

static void frame_is_checked(void)
{
    struct wi_tcp_frame ok = sample(), f;
    CU_ASSERT_PTR_NULL(verdict(ok, 0));
    CU_ASSERT_PTR_NOT_NULL(verdict(ok, 1));
    f = ok, f.type = 0;
    CU_ASSERT_PTR_NOT_NULL(verdict(f, 0));
    f = ok, f.type = 5;
    CU_ASSERT_PTR_NOT_NULL(verdict(f, 0));
    f = ok, f.chan = WEFT_CHAN_MAX;
    CU_ASSERT_PTR_NOT_NULL(verdict(f, 0));
    f = ok, f.flags = 2;
    CU_ASSERT_PTR_NOT_NULL(verdict(f, 0));
    f = ok, f.bytes = WI_TCP_FRAME_MAX + 1;
    CU_ASSERT_PTR_NOT_NULL(verdict(f, 0));
    f = ok, f.total = WI_TCP_MESSAGE_MAX + 1;
    CU_ASSERT_PTR_NOT_NULL(verdict(f, 0));
    f = ok, f.offset = f.total - f.bytes + 1;
    CU_ASSERT_PTR_NOT_NULL(verdict(f, 0));
    f = ok, f.offset = UINT64_MAX;
    CU_ASSERT_PTR_NOT_NULL(verdict(f, 0));
    f = ok, f.bytes = 0;
    CU_ASSERT_PTR_NOT_NULL(verdict(f, 0));
    f = ok, f.bytes = 0, f.total = 0, f.offset = 0;
    CU_ASSERT_PTR_NULL(verdict(f, 0));
    for (uint8_t type = WI_TCP_GRANT; type <= WI_TCP_SHARE; type++) {
        f = (struct wi_tcp_frame){.type = type, .msg = UINT64_MAX, .total = UINT64_MAX};
        CU_ASSERT_PTR_NULL(verdict(f, 0));
        f.bytes = 1;
        CU_ASSERT_PTR_NOT_NULL(verdict(f, 0));
    }
}

static void claims(void)
{
    struct wi_tcp_claim in = {.index = 3,
                              .count = 4,
                              .from = 70000,
                              .to = 2,
                              .eager = 65536,
                              .comm_id = {0x0102030405060708ull, ~0ull},
                              .process = 42,
                              .listener = 43,
                              .shared = 1,
                              .binding = {1, 2, 3, [11] = 12}},
                        out;
    unsigned char wire[WI_TCP_CLAIM_BYTES + 1];
    CU_ASSERT_TRUE(WI_TCP_CLAIM_BYTES <= WEFT_AUTH_CLAIM_MAX);
    wi_tcp_claim_encode(&in, wire);
    CU_ASSERT_PTR_NULL(wi_tcp_claim_decode(wire, WI_TCP_CLAIM_BYTES, &out));
    CU_ASSERT_EQUAL(out.index, 3);
    CU_ASSERT_EQUAL(out.count, 4);
    CU_ASSERT_EQUAL(out.from, 70000);
    CU_ASSERT_EQUAL(out.to, 2);
    CU_ASSERT_EQUAL(out.eager, 65536);
    CU_ASSERT_EQUAL(memcmp(out.comm_id, in.comm_id, sizeof in.comm_id), 0);
    CU_ASSERT_EQUAL(out.process, 42);
    CU_ASSERT_EQUAL(out.listener, 43);
    CU_ASSERT_EQUAL(out.shared, 1);
    CU_ASSERT_EQUAL(memcmp(out.binding, in.binding, sizeof in.binding), 0);
    CU_ASSERT_PTR_NOT_NULL(wi_tcp_claim_decode(wire, WI_TCP_CLAIM_BYTES - 1, &out));
    CU_ASSERT_PTR_NOT_NULL(wi_tcp_claim_decode(wire, WI_TCP_CLAIM_BYTES + 1, &out));
    in.index = 4;
    wi_tcp_claim_encode(&in, wire);
    CU_ASSERT_PTR_NOT_NULL(wi_tcp_claim_decode(wire, WI_TCP_CLAIM_BYTES, &out));
    in.index = 0, in.count = WI_TCP_SOCKETS_MAX + 1;
    wi_tcp_claim_encode(&in, wire);
    CU_ASSERT_PTR_NOT_NULL(wi_tcp_claim_decode(wire, WI_TCP_CLAIM_BYTES, &out));
    in.count = 1, in.eager = WI_TCP_EAGER_MIN - 1;
    wi_tcp_claim_encode(&in, wire);
    CU_ASSERT_PTR_NOT_NULL(wi_tcp_claim_decode(wire, WI_TCP_CLAIM_BYTES, &out));
    in.eager = WI_TCP_EAGER_MIN;
    wi_tcp_claim_encode(&in, wire);
    CU_ASSERT_PTR_NULL(wi_tcp_claim_decode(wire, WI_TCP_CLAIM_BYTES, &out));
    CU_ASSERT_EQUAL(memcmp(wire, in.comm_id, 16), 0); /* the host finds the key by it */
    wire[18] ^= 0x10;
    CU_ASSERT_PTR_NOT_NULL(wi_tcp_claim_decode(wire, WI_TCP_CLAIM_BYTES, &out));
    wire[18] ^= 0x10, wire[19] ^= 2;
    CU_ASSERT_PTR_NOT_NULL(wi_tcp_claim_decode(wire, WI_TCP_CLAIM_BYTES, &out));
}

static void frames_of_streams(void)
{
    static const struct {
        struct wi_tcp_mux_frame frame;
        int good;
    } cases[] = {{{WI_TCP_MUX_OPEN, 0xfffffffe, 0}, 1},
                 {{WI_TCP_MUX_OPEN, 0, 1}, 0},
                 {{WI_TCP_MUX_CLOSE, 3, 0}, 1},
                 {{WI_TCP_MUX_CLOSE, 3, 1}, 0},
                 {{WI_TCP_MUX_DATA, 3, 1}, 1},
                 {{WI_TCP_MUX_DATA, 3, 0}, 0},
                 {{WI_TCP_MUX_DATA, 3, WI_TCP_MUX_FRAME_MAX}, 1},
                 {{WI_TCP_MUX_DATA, 3, WI_TCP_MUX_FRAME_MAX + 1}, 0},
                 {{WI_TCP_MUX_WINDOW, 3, WI_TCP_MUX_WINDOW_BYTES + WI_TCP_MUX_SLACK_BYTES}, 1},
                 {{WI_TCP_MUX_WINDOW, 3, WI_TCP_MUX_WINDOW_BYTES + WI_TCP_MUX_SLACK_BYTES + 1}, 0},
                 {{WI_TCP_MUX_WINDOW, 3, 0}, 0},
                 {{0, 3, 0}, 0},
                 {{WI_TCP_MUX_CLOSE + 1, 3, 0}, 0}};
    unsigned char wire[WI_TCP_MUX_HEADER_BYTES];
    struct wi_tcp_mux_frame f;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        wi_tcp_mux_encode(&cases[i].frame, wire);
        CU_ASSERT_EQUAL(wi_tcp_mux_decode(wire, &f) == NULL, cases[i].good);
        CU_ASSERT_TRUE(f.type == cases[i].frame.type && f.stream == cases[i].frame.stream &&
                       f.value == cases[i].frame.value);
        wire[1 + i % 3] = 1;
        CU_ASSERT_PTR_NOT_NULL(wi_tcp_mux_decode(wire, &f));
    }
}

static struct wi_tcp_addr addr(const char *ip, int prefix, uint32_t mbps)
{
    struct wi_tcp_addr a = {.family = strchr(ip, ':') ? 6 : 4, .prefix = (uint8_t)prefix, .port = 1000, .mbps = mbps};
    inet_pton(a.family == 4 ? AF_INET : AF_INET6, ip, a.ip);
    return a;
}

static struct wi_tcp_identity identity(uint64_t node, int n, const struct wi_tcp_addr *addrs)
{
    struct wi_tcp_identity id = {.node = {node, node}, .process = node * 3, .count = n};
    memcpy(id.addrs, addrs, (size_t)n * sizeof *addrs);
    return id;
}

static void blob_round_trip(void)
{
    struct wi_tcp_addr a[] = {addr("10.0.0.1", 24, 1000), addr("fd00::1", 64, 0), addr("127.0.0.1", 8, 0)};
    struct wi_tcp_identity in = identity(5, 3, a), out;
    unsigned char wire[WEFT_ADDRESS_MAX];
    size_t n = wi_tcp_identity_encode(&in, wire, sizeof wire);
    CU_ASSERT_TRUE(n > 0 && n < 256);
    CU_ASSERT_EQUAL(wi_tcp_identity_encode(&in, wire, n - 1), 0);
    CU_ASSERT_EQUAL(wi_tcp_identity_decode(wire, n, &out), 0);
    CU_ASSERT_EQUAL(memcmp(&in, &out, sizeof in), 0);
}

/* Every length, every bit: never beyond the bytes (the sanitizers watch), and nothing impossible accepted. */
/* What a rank says why it aborts: every status comes through, and nothing else does. */
static void reasons(void)
{
#define X(name, value, text) CU_ASSERT_EQUAL(wi_tcp_reason_decode(wi_tcp_reason_encode(name)), name < 0 ? name : 0);
    WEFT_STATUS_LIST(X)
#undef X
    static const uint64_t hostile[] = {1000, 1u << 31, 1ull << 32, UINT64_MAX};
    for (size_t i = 0; i < sizeof hostile / sizeof *hostile; i++)
        CU_ASSERT_EQUAL(wi_tcp_reason_decode(hostile[i]), WEFT_SUCCESS);
    CU_ASSERT_TRUE(wi_tcp_reason_decode(999) < 0);
}

static void blob_is_checked(void)
{
    struct wi_tcp_addr a[] = {addr("10.0.0.1", 24, 1000), addr("fd00::1", 64, 0)};
    struct wi_tcp_identity in = identity(5, 2, a), out;
    unsigned char wire[WEFT_ADDRESS_MAX];
    size_t n = wi_tcp_identity_encode(&in, wire, sizeof wire);
    for (size_t k = 0; k < n; k++) {
        unsigned char *exact = malloc(k ? k : 1);
        memcpy(exact, wire, k);
        CU_ASSERT_NOT_EQUAL(wi_tcp_identity_decode(exact, k, &out), 0);
        free(exact);
    }
    CU_ASSERT_NOT_EQUAL(wi_tcp_identity_decode(NULL, 0, &out), 0);
    for (size_t bit = 0; bit < n * 8; bit++) {
        unsigned char *exact = malloc(n);
        memcpy(exact, wire, n);
        exact[bit / 8] ^= (unsigned char)(1u << bit % 8);
        if (wi_tcp_identity_decode(exact, n, &out) == 0)
            for (int i = 0; i < out.count; i++)
                CU_ASSERT_TRUE(out.addrs[i].port &&
                               (out.addrs[i].family == 4 ? out.addrs[i].prefix <= 32 : out.addrs[i].family == 6));
        free(exact);
    }
}

static void interfaces(void)
{
    CU_ASSERT_TRUE(wi_tcp_interface_passes("", "eth0"));
    CU_ASSERT_TRUE(wi_tcp_interface_passes("eth0", "eth0"));
    CU_ASSERT_TRUE(wi_tcp_interface_passes("ib,eth", "eth7"));
    CU_ASSERT_FALSE(wi_tcp_interface_passes("ib,eth", "docker0"));
    CU_ASSERT_FALSE(wi_tcp_interface_passes("^docker,lo", "docker0"));
    CU_ASSERT_FALSE(wi_tcp_interface_passes("^docker,lo", "lo"));
    CU_ASSERT_TRUE(wi_tcp_interface_passes("^docker,lo", "eth0"));
    CU_ASSERT_FALSE(wi_tcp_interface_passes(",", "eth0"));
}

static void reachable_is_symmetric(void)
{
    struct wi_tcp_addr lo = addr("127.0.0.1", 8, 0), four = addr("10.0.0.1", 24, 0), six = addr("fd00::1", 64, 0);
    struct wi_tcp_addr both[] = {four, six};
    struct wi_tcp_identity id[] = {identity(1, 1, &lo),   identity(2, 1, &lo),  identity(1, 1, &four),
                                   identity(2, 1, &four), identity(2, 1, &six), identity(3, 2, both)};
    static const char expected[6][7] = {"101000", "010100", "101101", "011101", "000011", "001111"};
    for (int i = 0; i < 6; i++)
        for (int k = 0; k < 6; k++)
            CU_ASSERT_EQUAL(wi_tcp_identity_reachable(&id[i], &id[k]), expected[i][k] - '0');
}

static void order_of_addresses(void)
{
    uint8_t order[WI_TCP_ADDRS_MAX];
    int nrails;
    struct wi_tcp_addr my[] = {addr("10.1.0.1", 24, 0), addr("172.17.0.1", 16, 0), addr("10.2.0.1", 23, 0)};
    struct wi_tcp_addr its[] = {addr("192.168.0.9", 24, 1000), addr("172.17.0.1", 16, 0),  addr("127.0.0.1", 8, 0),
                                addr("10.1.0.2", 24, 1000),    addr("10.2.1.2", 23, 1000), addr("fd00::2", 64, 0)};
    struct wi_tcp_identity mine = identity(1, 3, my), peer = identity(2, 6, its);
    CU_ASSERT_EQUAL(wi_tcp_identity_order(&mine, &peer, 0, order, NULL), 3);
    CU_ASSERT_EQUAL(order[0], 3); /* same subnet first; its docker bridge is ours too, loopback is not for others */
    CU_ASSERT_EQUAL(order[1], 4);
    CU_ASSERT_EQUAL(order[2], 0);
    wi_tcp_identity_order(&mine, &peer, 1, order, NULL); /* the second socket takes the other rail */
    CU_ASSERT_EQUAL(order[0], 4);
    CU_ASSERT_EQUAL(order[1], 3);
    CU_ASSERT_EQUAL(order[2], 0);
    peer.addrs[4].mbps = 100000;
    wi_tcp_identity_order(&mine, &peer, 0, order, NULL);
    CU_ASSERT_EQUAL(order[0], 4); /* the faster link */
    peer.addrs[4].mbps = 1000;
    peer.addrs[4].is_numa_local = 1;
    for (int rail = 0; rail < 3; rail++) { /* the adapter near to the process, whatever the turn */
        CU_ASSERT_EQUAL(wi_tcp_identity_order(&mine, &peer, rail, order, &nrails), 3);
        CU_ASSERT_EQUAL(order[0], 4);
        CU_ASSERT_EQUAL(nrails, 1);
    }
    peer.addrs[3].is_numa_local = 1;
    wi_tcp_identity_order(&mine, &peer, 3, order, &nrails);
    CU_ASSERT_EQUAL(order[0], 4);
    CU_ASSERT_EQUAL(nrails, 2);
    peer.node[0] = peer.node[1] = 1;
    CU_ASSERT_EQUAL(wi_tcp_identity_order(&mine, &peer, 0, order, NULL), 5);
    CU_ASSERT_EQUAL(order[0], 2); /* one host: loopback */
}

static void lists(void)
{
    CU_ASSERT_TRUE(wi_tcp_list_holds("0-3,8\n", 0));
    CU_ASSERT_TRUE(wi_tcp_list_holds("0-3,8\n", 3));
    CU_ASSERT_TRUE(wi_tcp_list_holds("0-3,8\n", 8));
    CU_ASSERT_FALSE(wi_tcp_list_holds("0-3,8\n", 4));
    CU_ASSERT_FALSE(wi_tcp_list_holds("\n", 0));
    CU_ASSERT_FALSE(wi_tcp_list_holds("", 0));
    CU_ASSERT_TRUE(wi_tcp_list_holds("7", 7));
}

/* Ranks 0, 2, 4 on one node, 1 and 3 on another: each node's take turns, and links that are left are shared out. */
static void turns_of_ranks(void)
{
    struct wi_tcp_settings settings = {.sockets = 0};
    struct wi_tcp_endpoint endpoint = {.settings = &settings};
    struct wi_tcp_group g = {.endpoint = &endpoint, .rank = 2, .nranks = 5};
    struct wi_tcp_addr a = addr("10.0.0.1", 24, 1000);
    unsigned char wire[5][WEFT_ADDRESS_MAX];
    const void *addresses[5];
    size_t bytes[5];
    for (int r = 0; r < 5; r++) {
        struct wi_tcp_identity id = identity(7 + (uint64_t)(r % 2), 1, &a);
        addresses[r] = wire[r];
        bytes[r] = wi_tcp_identity_encode(&id, wire[r], sizeof wire[r]);
    }
    struct weft_group_config config = {.addresses = addresses, .address_bytes = bytes};
    CU_ASSERT_EQUAL(wi_tcp_rails_init(&g, &config), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(wi_tcp_rail(&g, 1, 1, 0), 0); /* the first of its node, lower than rank 2 */
    CU_ASSERT_EQUAL(wi_tcp_rail(&g, 3, 1, 0), 1); /* rank 2 is the lower one, and the second of its node */
    CU_ASSERT_EQUAL(wi_tcp_rail(&g, 3, 2, 1), 3);
    CU_ASSERT_EQUAL(wi_tcp_rails_sockets(&g, 3, 1), 1);
    CU_ASSERT_EQUAL(wi_tcp_rails_sockets(&g, 3, 3), 1); /* three ranks here */
    CU_ASSERT_EQUAL(wi_tcp_rails_sockets(&g, 3, 6), 2);
    CU_ASSERT_EQUAL(wi_tcp_rails_sockets(&g, 3, 100), 4);
    settings.sockets = 3;
    CU_ASSERT_EQUAL(wi_tcp_rails_sockets(&g, 3, 1), 3);
    free(g.turn);
    free(g.of_node);
}

/* A process without descriptors cannot look into /proc: that says nothing of the other processes. */
static void state_of_a_process(void)
{
    static const struct weft_host host = {
        .bytes = sizeof host, .process_self = wi_process_self, .process_state = wi_process_state};
    struct rlimit before, none;
    struct wi_tcp_identity mine, peer;
    pid_t child = fork();

    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            pause();
    }
    wi_tcp_process_identity(&host, &mine);
    peer = mine;
    CU_ASSERT_FATAL(mine.pids != 0 && getrlimit(RLIMIT_NOFILE, &before) == 0);
    none = (struct rlimit){0, before.rlim_max};
    CU_ASSERT_NOT_EQUAL(wi_tcp_process_state(&host, &peer), 0);
    peer.started++;
    CU_ASSERT_EQUAL(wi_tcp_process_state(&host, &peer), 0); /* its number is another's now */
    peer.pid = child;
    CU_ASSERT_FATAL(setrlimit(RLIMIT_NOFILE, &none) == 0);
    int there = wi_tcp_process_state(&host, &peer);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    int gone = wi_tcp_process_state(&host, &peer);
    setrlimit(RLIMIT_NOFILE, &before);
    CU_ASSERT_EQUAL(there, '?');
    CU_ASSERT_EQUAL(gone, 0);
}

/* ---- A process whose first thread has ended, and others not ---- */

static void *ends_with_pipe(void *arg)
{
    char byte;

    (void)!read(*(int *)arg, &byte, 1);
    _exit(0); /* with the threads that a sanitizer may have begun */
}

static char state_in_proc(pid_t pid)
{
    char path[64], text[512] = "", *end;
    FILE *file;

    snprintf(path, sizeof path, "/proc/%d/task/%d/stat", (int)pid, (int)pid);
    file = fopen(path, "re");
    if (file) {
        (void)!fread(text, 1, sizeof text - 1, file);
        fclose(file);
    }
    end = strrchr(text, ')');
    return end ? end[2] : '?';
}

static void await_state(pid_t pid, char state)
{
    for (int i = 0; i < 20000 && state_in_proc(pid) != state; i++)
        usleep(1000);
    CU_ASSERT_EQUAL(state_in_proc(pid), state);
}

static void first_thread_ended(void)
{
    static const struct weft_host host = {
        .bytes = sizeof host, .process_self = wi_process_self, .process_state = wi_process_state};
    struct wi_tcp_identity its = {.pid = 0};
    int ends[2], told[2];
    pthread_t thread;

    CU_ASSERT_FATAL(pipe2(ends, O_CLOEXEC) == 0 && pipe2(told, O_CLOEXEC) == 0);
    pid_t child = fork();
    CU_ASSERT_FATAL(child >= 0);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        close(ends[1]);
        wi_tcp_process_identity(&host, &its);
        if (write(told[1], &its, sizeof its) != (ssize_t)sizeof its ||
            pthread_create(&thread, NULL, ends_with_pipe, &ends[0]) != 0)
            _exit(1);
        pthread_exit(NULL);
    }
    CU_ASSERT_FATAL(read(told[0], &its, sizeof its) == (ssize_t)sizeof its && its.pid == child);
    await_state(child, 'Z');
    CU_ASSERT_NOT_EQUAL(wi_tcp_process_state(&host, &its), 0); /* it goes on */
    CU_ASSERT_NOT_EQUAL(wi_tcp_process_state(&host, &its), '?');
    close(ends[1]);
    for (int i = 0; i < 20000 && wi_tcp_process_state(&host, &its) != 0; i++)
        usleep(1000);
    CU_ASSERT_EQUAL(wi_tcp_process_state(&host, &its), 0); /* all have ended, and nobody has waited for it */
    CU_ASSERT_EQUAL(waitpid(child, NULL, 0), child);
    CU_ASSERT_EQUAL(wi_tcp_process_state(&host, &its), 0);
    close(ends[0]);
    close(told[0]);
    close(told[1]);
}

/* A host of before does not say: nothing is known of processes, and descriptors are closed all the same. */
static void older_host(void)
{
    struct weft_host old = {.bytes = offsetof(struct weft_host, fd_keep), .process_state = wi_process_state};
    struct wi_tcp_identity id = {.pid = 0};

    wi_tcp_process_identity(&old, &id);
    CU_ASSERT(id.pid == getpid() && id.pids == 0);
    CU_ASSERT_EQUAL(wi_tcp_process_state(&old, &id), '?');
    wi_tcp_fds_init(&old);
    int fd = wi_tcp_fd_keep(dup(STDIN_FILENO));
    CU_ASSERT(fd >= 0);
    wi_tcp_fd_close(fd);
    CU_ASSERT_EQUAL(fcntl(fd, F_GETFD), -1);
}

/* Of what the host's list holds a child has nothing. */
static void children_keep_nothing(void)
{
    int noted = wi_fd_keep(open("/dev/null", O_RDONLY | O_CLOEXEC)), other = open("/dev/null", O_RDONLY | O_CLOEXEC),
        status;
    int again = wi_fd_keep(open("/dev/null", O_RDONLY | O_CLOEXEC));

    CU_ASSERT_FATAL(noted >= 0 && other >= 0 && again >= 0 && wi_fd_keep(-1) == -1);
    wi_fd_close(again);
    CU_ASSERT_EQUAL(dup2(other, again), again); /* another file by now */
    pid_t child = fork();
    if (child == 0)
        _exit((fcntl(noted, F_GETFD) == -1) + 2 * (fcntl(other, F_GETFD) >= 0) + 4 * (fcntl(again, F_GETFD) >= 0));
    CU_ASSERT(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7);
    CU_ASSERT(fcntl(noted, F_GETFD) >= 0);
    wi_fd_close(noted);
    CU_ASSERT_EQUAL(fcntl(noted, F_GETFD), -1);
    close(other);
    close(again);
}

static const struct wt_case cases[] = {
    {"a process whose first thread has ended goes on", first_thread_ended},
    {"a host that lists no descriptors and no processes", older_host},
    {"a child keeps no listed descriptor", children_keep_nothing},
    {"a process that cannot be looked at has not ended", state_of_a_process},
    {"lists of numbers", lists},
    {"turns of ranks", turns_of_ranks},
    {"frame round trip", frame_round_trip},
    {"frame is little endian", frame_is_little_endian},
    {"frame is checked", frame_is_checked},
    {"reasons", reasons},
    {"claims", claims},
    {"frames of streams", frames_of_streams},
    {"blob round trip", blob_round_trip},
    {"blob is checked", blob_is_checked},
    {"interfaces", interfaces},
    {"reachable is symmetric", reachable_is_symmetric},
    {"order of addresses", order_of_addresses},
};
WT_UNIT_MAIN("tcp_wire", cases)

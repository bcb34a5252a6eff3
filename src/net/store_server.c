/* SPDX-License-Identifier: BSD-3-Clause */
/* The store's sockets: accept, authenticate, feed frames to the state machine, send what it answers.
 * Strangers get nothing: a connection that has not proven the key within two seconds, or says anything out of
 * order, is closed without a word; of one that has not, 256 bytes are read at most; when too many are half open,
 * half_open.h says which one is closed. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fds.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/status.h"
#include "base/thread.h"
#include "net/accept_pause.h"
#include "net/half_open.h"
#include "net/local_key.h"
#include "net/rendezvous.h"
#include "net/store.h"
#include "net/store_server.h"

#define HANDSHAKE_NS 2000000000ull
#define REFUSED_NS 2000000000ull /* for the client to close */
#define FAREWELL_NS 1000000000ull
#define FAREWELL_ROUNDS 100
#define JUDGED_NS 5000000000ull
#define HALF_OPEN_SPARE 64
#define NEVER_SIZED_CONNS 1024 /* while nranks is unknown */
#define EVENTS 64
#define IN_MAX (WI_STORE_HEAD_BYTES + WI_STORE_KEY_MAX + WI_STORE_VALUE_MAX + 8192)

enum conn_kind { CONN_CLIENT, CONN_LISTENER, CONN_WAKE };

struct conn {
    enum conn_kind kind;
    int fd, dead, polls_out;
    struct wi_half_open half_open;
    int of_weft;                      /* it began as a rank does: with a hello, or asking for the key */
    int given;                        /* it has asked for the key and has it */
    size_t heard;                     /* bytes read before it was authenticated */
    struct weft_auth *auth;           /* until authenticated */
    struct wi_store_session *session; /* afterwards, as are */
    struct wi_auth_stream seal;
    struct wi_store_opener opener;
    struct wi_store_buf in, out; /* out: of the handshake */
    int told;                    /* refused, and all that it is told is sent: it is to close */
    uint64_t deadline_ns;        /* of the handshake, or of its closing when told */
    struct conn *next;
};

struct wi_store_server {
    pthread_t thread;
    int epoll_fd, wake_fd;
    atomic_int stop, finished;
    atomic_long refused; /* connections of weft that have not the key */
    struct wi_auth_key key;
    unsigned char job_key[WI_JOB_KEY_BYTES];
    int gives_key, own_user; /* as the configuration says */
    int stranger_seen, judged;
    unsigned char session_id[WI_STORE_SESSION_ID_BYTES];
    uint64_t give_up_ns;
    struct wi_accept_pause pause;
    struct wi_auth_seen *seen; /* borrowed */
    struct wi_store *store;
    struct conn *clients; /* oldest last */
    int nclients, nhalf_open, ntold, listening;
    struct conn listeners[2], wake;
};

size_t wi_store_claim_write(const struct wi_store_claim *claim, unsigned char out[WEFT_AUTH_CLAIM_MAX])
{
    memset(out, 0, WEFT_AUTH_CLAIM_MAX);
    out[0] = claim->kind;
    wi_put32(out + 4, (uint32_t)claim->rank);
    wi_put32(out + 8, (uint32_t)claim->nranks);
    wi_put32(out + 12, (uint32_t)claim->pid);
    memcpy(out + 16, claim->session, WI_STORE_SESSION_ID_BYTES);
    memcpy(out + 32, claim->host, strnlen(claim->host, sizeof(claim->host) - 1));
    return WEFT_AUTH_CLAIM_MAX;
}

int wi_store_claim_read(const unsigned char *in, size_t bytes, struct wi_store_claim *claim)
{
    if (bytes != WEFT_AUTH_CLAIM_MAX)
        return -1;
    claim->kind = in[0];
    claim->rank = (int)wi_get32(in + 4);
    claim->nranks = (int)wi_get32(in + 8);
    claim->pid = (int)wi_get32(in + 12);
    memcpy(claim->session, in + 16, WI_STORE_SESSION_ID_BYTES);
    memset(claim->host, 0, sizeof(claim->host));
    for (size_t i = 0; i + 1 < sizeof(claim->host) && in[32 + i]; i++)
        claim->host[i] = in[32 + i] > 0x20 && in[32 + i] < 0x7f ? (char)in[32 + i] : '?';
    return 0;
}

void wi_store_claim_self(struct wi_store_claim *claim, int rank, int nranks)
{
    char host[256] = "?";
    memset(claim, 0, sizeof(*claim));
    claim->kind = 'C';
    claim->rank = rank;
    claim->nranks = nranks;
    claim->pid = (int)getpid();
    gethostname(host, sizeof(host) - 1);
    snprintf(claim->host, sizeof(claim->host), "%.31s", host);
}

static void conn_poll(struct wi_store_server *server, struct conn *conn, int op, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = conn};
    epoll_ctl(server->epoll_fd, op, conn->fd, &event);
}

static void server_deafen(struct wi_store_server *server)
{
    for (int i = 0; i < 2; i++) {
        if (server->listeners[i].fd < 0)
            continue;
        epoll_ctl(server->epoll_fd, EPOLL_CTL_DEL, server->listeners[i].fd, NULL);
        wi_rendezvous_close(server->listeners[i].fd);
        server->listeners[i].fd = -1;
    }
    server->listening = 0;
}

/* Events of this round may still name the connection: it is unlinked and freed by server_sweep. */
static void conn_kill(struct wi_store_server *server, struct conn *conn)
{
    if (conn->dead)
        return;
    conn->dead = 1;
    epoll_ctl(server->epoll_fd, EPOLL_CTL_DEL, conn->fd,
              NULL); /* a child that has not come to its exec may have it, too */
    wi_fd_close(conn->fd);
    if (conn->session)
        wi_store_session_close(server->store, conn->session);
    else
        server->nhalf_open--;
    conn->session = NULL;
    server->ntold -= conn->told;
    server->nclients--;
}

static void conn_free(struct conn *conn)
{
    wi_auth_destroy(conn->auth);
    wi_auth_stream_end(&conn->seal);
    wi_auth_stream_end(&conn->opener.stream);
    wi_store_buf_fini(&conn->in);
    wi_store_buf_fini(&conn->out);
    wi_free(conn);
}

static void server_sweep(struct wi_store_server *server)
{
    for (struct conn **link = &server->clients; *link;) {
        struct conn *conn = *link;
        if (!conn->dead) {
            link = &conn->next;
            continue;
        }
        *link = conn->next;
        conn_free(conn);
    }
}

static int server_capacity(const struct wi_store_server *server)
{
    int nranks = wi_store_nranks(server->store);
    return (nranks ? nranks : NEVER_SIZED_CONNS) + HALF_OPEN_SPARE;
}

/* Make room for one more half-open connection from that source. 0, or -1: there is none. */
static int make_room(struct wi_store_server *server, uint64_t source, int capacity)
{
    struct wi_half_open_table table = {.source = source, .capacity = capacity, .now_ns = wi_now_ns()};
    void *gives_way;
    for (struct conn *c = server->clients; c && server->nhalf_open; c = c->next)
        if (!c->session && !c->dead)
            wi_half_open_look(&table, &c->half_open, c);
    int full = wi_half_open_decide(&table, &gives_way);
    if (gives_way)
        conn_kill(server, gives_way);
    return full;
}

static struct conn *conn_create(struct wi_store_server *server, int fd, const struct wi_half_open *half_open)
{
    unsigned char claim_bytes[WEFT_AUTH_CLAIM_MAX];
    struct wi_store_claim claim = {.kind = 'S', .nranks = wi_store_nranks(server->store)};
    struct conn *conn = wi_calloc(1, sizeof(*conn));
    if (!conn)
        return NULL;
    memcpy(claim.session, server->session_id, sizeof(claim.session));
    conn->auth = wi_auth_create(&server->key, 1, claim_bytes, wi_store_claim_write(&claim, claim_bytes));
    if (!conn->auth) {
        wi_free(conn);
        return NULL;
    }
    wi_auth_remember(conn->auth, server->seen);
    conn->kind = CONN_CLIENT;
    conn->fd = fd;
    conn->half_open = *half_open;
    conn->deadline_ns = wi_deadline_ns(HANDSHAKE_NS);
    wi_store_buf_init(&conn->in, WEFT_AUTH_MESSAGE_MAX);
    wi_store_buf_init(&conn->out, 2 * WEFT_AUTH_MESSAGE_MAX);
    return conn;
}

/* The handshake is over: the client's claim says which rank it is. */
static int conn_admit(struct wi_store_server *server, struct conn *conn, const unsigned char *bytes, size_t n)
{
    struct wi_store_claim claim;
    if (wi_store_claim_read(bytes, n, &claim) || claim.kind != 'C')
        return -1;
    if (wi_auth_streams(conn->auth, &conn->seal, &conn->opener.stream) < 0 ||
        wi_store_session_open_sealed(server->store, claim.rank, claim.nranks, claim.host, claim.pid, &conn->seal,
                                     &conn->session) < 0)
        return -1;
    server->nhalf_open--;
    conn->in.limit = IN_MAX;
    wi_auth_destroy(conn->auth);
    conn->auth = NULL;
    wi_log(WEFT_LOG_DEBUG, "store.join", "%s connected", conn->session->name);
    return 0;
}

/* One that spoke as a rank does: with another key, with none, or with one where the store would have given it. Only the first is
 * logged: any process on the network can cause any number of them. */
static void count_refused(struct wi_store_server *server, const struct conn *conn)
{
    char text[80];
    if (!conn->of_weft || conn->half_open.hello_verified)
        return;
    if (atomic_fetch_add_explicit(&server->refused, 1, memory_order_relaxed) > 0)
        return;
    wi_socket_peer_text(conn->fd, text, sizeof(text));
    wi_log(
        WEFT_LOG_WARN, "store.refused",
        "a connection from %s has another job key, or none, or belongs to another job: a rank of this job that has not rank 0's "
        "key cannot join; further ones are only counted",
        text);
}

static int conn_handshake(struct wi_store_server *server, struct conn *conn)
{
    unsigned char out[WEFT_AUTH_MESSAGE_MAX], claim[WEFT_AUTH_CLAIM_MAX];
    size_t consumed, out_bytes, claim_bytes;
    weft_status st = wi_auth_step(conn->auth, conn->in.data + conn->in.begin, wi_store_buf_bytes(&conn->in), &consumed,
                                  out, sizeof(out), &out_bytes, claim, &claim_bytes);
    if (st < 0) {
        count_refused(server, conn);
        return -1;
    }
    wi_store_buf_consume(&conn->in, consumed);
    conn->half_open.hello_verified |= out_bytes > 0;
    if (wi_store_buf_append(&conn->out, out, out_bytes) || wi_store_buf_send(&conn->out, conn->fd) < 0)
        return -1;
    return st == WEFT_SUCCESS ? conn_admit(server, conn, claim, claim_bytes) : 0;
}

/* A message was changed on the network, or this rank has no memory to check it. No rank can start without what it contained. */
static void judge_unopened(struct wi_store_server *server, const struct conn *conn, int changed)
{
    struct wi_store_verdict verdict = {.status = changed ? WEFT_EAUTH : WEFT_EPEER,
                                       .culprit = changed ? conn->session->rank : 0};
    snprintf(verdict.text, sizeof(verdict.text),
             changed ? "what %s sent to the start-up store was changed on its way"
                     : "rank 0 has no memory to check what %s sent to the start-up store",
             conn->session->name);
    wi_store_judge(server->store, &verdict);
    conn->session->refused = 1; /* it gets the verdict; nothing more is read from it */
}

static int conn_frames(struct wi_store_server *server, struct conn *conn)
{
    struct wi_store_frame frame;
    for (;;) {
        if (conn->session->refused) {
            wi_store_buf_consume(&conn->in, wi_store_buf_bytes(&conn->in));
            return 0;
        }
        long bytes =
            wi_store_frame_open(&conn->opener, conn->in.data + conn->in.begin, wi_store_buf_bytes(&conn->in), &frame);
        if (bytes == -2 || bytes == -3) {
            judge_unopened(server, conn, bytes == -2);
            return 0;
        }
        if (bytes <= 0)
            return (int)bytes;
        if (wi_store_session_frame(server->store, conn->session, &frame))
            return -1;
        wi_store_buf_consume(&conn->in, (size_t)bytes);
    }
}

/* A rank of this host asks for the key before it can send a hello. 1: it has it, 0: under way, -1: it says something else. */
static int conn_key(struct wi_store_server *server, struct conn *conn)
{
    if (!server->gives_key || conn->given)
        return 1;
    if (wi_store_buf_bytes(&conn->in) < WI_LOCAL_KEY_ASK_BYTES)
        return 0;
    if (!wi_local_key_asked(conn->in.data + conn->in.begin)) {
        count_refused(server, conn);
        return -1;
    }
    if (wi_local_key_give(conn->fd, server->job_key))
        return -1;
    wi_store_buf_consume(&conn->in, WI_LOCAL_KEY_ASK_BYTES);
    return conn->given = 1;
}

static void conn_hear(struct conn *conn, size_t bytes)
{
    if (!conn->heard && bytes >= WI_LOCAL_KEY_ASK_BYTES) {
        const unsigned char *first = conn->in.data + conn->in.begin;
        conn->of_weft = wi_auth_is_hello(first, bytes) || wi_local_key_asked(first);
    }
    conn->heard += bytes;
}

static void conn_event(struct wi_store_server *server, struct conn *conn)
{
    size_t before = wi_store_buf_bytes(&conn->in);
    int alive = wi_store_buf_recv(&conn->in, conn->fd, conn->session ? SIZE_MAX : WEFT_AUTH_MESSAGE_MAX - conn->heard);
    if (!conn->session)
        conn_hear(conn, wi_store_buf_bytes(&conn->in) - before);
    int keyed = alive > 0 && !conn->session ? conn_key(server, conn) : 0;
    if (keyed < 0 || (keyed > 0 && conn_handshake(server, conn)))
        alive = -1;
    if (conn->session && wi_store_buf_bytes(&conn->in) && conn_frames(server, conn))
        alive = -1;
    if (alive <= 0)
        conn_kill(server, conn);
}

/* Another user's process on this host gets nothing, not even a place among those that wait. */
static int accept_is_own(struct wi_store_server *server, int fd)
{
    uid_t uid;
    if (!server->own_user || wi_local_peer_is_self(fd, &uid))
        return 1;
    if (!server->stranger_seen++)
        wi_log(WEFT_LOG_INFO, "store.stranger", "uid %lld tried to join this job of uid %lld: refused", (long long)uid,
               (long long)geteuid());
    return 0;
}

static void accept_pause(struct wi_store_server *server)
{
    for (int i = 0; i < 2; i++)
        if (server->listeners[i].fd >= 0)
            epoll_ctl(server->epoll_fd, EPOLL_CTL_DEL, server->listeners[i].fd, NULL);
}

static void accept_resume(struct wi_store_server *server)
{
    if (!wi_accept_resumes(&server->pause))
        return;
    for (int i = 0; i < 2; i++)
        if (server->listeners[i].fd >= 0)
            conn_poll(server, &server->listeners[i], EPOLL_CTL_ADD, EPOLLIN);
}

static void server_accept(struct wi_store_server *server, struct conn *listener)
{
    int capacity = server_capacity(server), burst = wi_half_open_burst(capacity);
    for (int i = 0; i < burst && listener->fd >= 0; i++) {
        struct wi_half_open half_open;
        int fd = wi_socket_accept(listener->fd);
        if (wi_accept_result(&server->pause, fd < 0 ? errno : 0, "store.accept")) {
            accept_pause(server);
            make_room(server, 0, server->nhalf_open); /* what has not shown the key gives its descriptor back */
        }
        if (fd < 0)
            return;
        if (!accept_is_own(server, fd)) {
            wi_fd_close(fd);
            continue;
        }
        wi_half_open_begin(&half_open, fd, wi_now_ns());
        struct conn *conn = make_room(server, half_open.source, capacity) ? NULL : conn_create(server, fd, &half_open);
        if (!conn) {
            wi_fd_close(fd);
            return;
        }
        conn->next = server->clients;
        server->clients = conn;
        server->nclients++;
        server->nhalf_open++;
        conn_poll(server, conn, EPOLL_CTL_ADD, EPOLLIN);
        conn_event(server, conn); /* its hello has often come already */
    }
}

/* A peer that takes no more may have sent BYE: a local socket reports its end before that has been read. */
static void conn_drain(struct wi_store_server *server, struct conn *conn)
{
    size_t held;
    if (!conn->session)
        return;
    do
        held = wi_store_buf_bytes(&conn->in);
    while (wi_store_buf_recv(&conn->in, conn->fd, SIZE_MAX) > 0 && wi_store_buf_bytes(&conn->in) > held);
    conn_frames(server, conn);
}

/* Closing now, with its words unread, could destroy the reason on its way: the client closes. One that does not is closed when its
 * time is over, or such connections would fill the server's table. */
static void conn_told(struct wi_store_server *server, struct conn *conn)
{
    if (conn->told)
        return;
    conn->told = 1;
    server->ntold++;
    conn->deadline_ns = wi_deadline_ns(REFUSED_NS);
    shutdown(conn->fd, SHUT_WR);
}

/* Send what the state machine has to say. Returns how many bytes are still queued. */
static size_t flush_once(struct wi_store_server *server)
{
    size_t queued = 0;
    for (struct conn *c = server->clients; c; c = c->next) {
        struct wi_store_buf *out = c->session ? &c->session->out : &c->out;
        if (c->dead || (!wi_store_buf_bytes(out) && !c->polls_out))
            continue;
        if (c->session && wi_store_buf_send(&c->out, c->fd) >= 0 && wi_store_buf_bytes(&c->out))
            out = &c->out;
        int refused = c->session && c->session->refused;
        if (wi_store_buf_send(out, c->fd) < 0) {
            conn_drain(server, c);
            conn_kill(server, c);
            continue;
        }
        if (refused && !wi_store_buf_bytes(out))
            conn_told(server, c);
        int polls_out = wi_store_buf_bytes(out) > 0;
        if (polls_out != c->polls_out)
            conn_poll(server, c, EPOLL_CTL_MOD, EPOLLIN | (polls_out ? EPOLLOUT : 0));
        c->polls_out = polls_out;
        queued += wi_store_buf_bytes(out);
    }
    return queued;
}

/* One that is found gone may leave a verdict to those that have been looked at already. */
static size_t server_flush(struct wi_store_server *server)
{
    const struct wi_store_verdict *before = wi_store_verdict_of(server->store);
    size_t queued = flush_once(server);
    return wi_store_verdict_of(server->store) != before ? flush_once(server) : queued;
}

/* A rank that joins has all the time of its own deadlines. */
static int conn_is_timed(const struct conn *conn)
{
    return !conn->dead && (!conn->session || conn->told);
}

static uint64_t server_deadline(const struct wi_store_server *server)
{
    uint64_t deadline = server->listening ? server->give_up_ns : UINT64_MAX;
    for (const struct conn *c = server->clients; c && server->nhalf_open + server->ntold; c = c->next)
        if (conn_is_timed(c) && c->deadline_ns < deadline)
            deadline = c->deadline_ns;
    if (server->pause.again_ns && server->pause.again_ns < deadline)
        deadline = server->pause.again_ns;
    return deadline;
}

static void server_expire(struct wi_store_server *server)
{
    uint64_t now = wi_now_ns();
    for (struct conn *c = server->clients; c && server->nhalf_open + server->ntold; c = c->next)
        if (conn_is_timed(c) && c->deadline_ns <= now)
            conn_kill(server, c);
}

/* No rank is expected and none is left. A store that its owner waits for goes on until it is stopped. */
static int server_is_done(const struct wi_store_server *server)
{
    if (server->give_up_ns == UINT64_MAX)
        return 0;
    return server->listening ? wi_now_ns() >= server->give_up_ns : !server->nclients;
}

/* It goes on listening, so that ranks that come later are told. Rank 0, which is told too, ends a store of its own; one that nobody
 * waits for, that of a unique id made elsewhere, ends after a while. */
static void server_judged(struct wi_store_server *server)
{
    uint64_t until = wi_deadline_ns(JUDGED_NS);

    if (!server->judged && server->give_up_ns != UINT64_MAX && until < server->give_up_ns)
        server->give_up_ns = until;
    server->judged = 1;
}

static int server_round(struct wi_store_server *server, int timeout_ms)
{
    struct epoll_event events[EVENTS];
    int n = epoll_wait(server->epoll_fd, events, EVENTS, timeout_ms);
    for (int i = 0; i < n; i++) {
        struct conn *conn = events[i].data.ptr;
        if (conn->kind == CONN_LISTENER)
            server_accept(server, conn);
        else if (conn->kind == CONN_CLIENT && !conn->dead)
            conn_event(server, conn);
    }
    server_expire(server);
    accept_resume(server);
    if (server->listening && wi_store_verdict_of(server->store))
        server_judged(server);
    /* Before the answer that completes the job goes out: the next job must not find this store. */
    if (server->listening && wi_store_complete(server->store))
        server_deafen(server);
    server_flush(server);
    server_sweep(server);
    return n;
}

static void server_farewell(struct wi_store_server *server)
{
    uint64_t deadline = wi_deadline_ns(FAREWELL_NS);
    wi_store_farewell(server->store);
    while (server_flush(server) && wi_now_ns() < deadline) {
        struct epoll_event event;
        epoll_wait(server->epoll_fd, &event, 1, 1);
    }
}

static void *server_main(void *arg)
{
    struct wi_store_server *server = arg;
    while (!atomic_load_explicit(&server->stop, memory_order_acquire) && !server_is_done(server))
        server_round(server, wi_poll_ms(server_deadline(server)));
    /* The owner's last words, above all why it gives up, may still be unread. */
    conn_poll(server, &server->wake, EPOLL_CTL_DEL, 0);
    server_deafen(server);
    for (int i = 0; i < FAREWELL_ROUNDS && server_round(server, 0) > 0; i++)
        ;
    server_farewell(server);
    for (struct conn *c = server->clients; c; c = c->next) {
        if (!c->dead)
            wi_fd_close(c->fd);
        c->dead = 1;
    }
    server_sweep(server);
    atomic_store_explicit(&server->finished, 1, memory_order_release);
    return NULL;
}

static weft_status server_start(struct wi_store_server *server)
{
    int err = wi_thread_start(&server->thread, NULL, server_main, server);

    if (err)
        return wi_fail_errno(err, "start the store's thread");
    pthread_setname_np(server->thread, "weft-store");
    return WEFT_SUCCESS;
}

static void server_free(struct wi_store_server *server)
{
    for (int i = 0; i < 2; i++)
        if (server->listeners[i].fd >= 0)
            wi_rendezvous_close(server->listeners[i].fd);
    if (server->epoll_fd >= 0)
        close(server->epoll_fd);
    if (server->wake_fd >= 0)
        close(server->wake_fd);
    wi_store_destroy(server->store);
    explicit_bzero(server, sizeof(*server));
    wi_free(server);
}

weft_status wi_store_server_create(const struct wi_store_server_config *config, struct wi_store_server **server)
{
    struct wi_store_server *s = wi_calloc(1, sizeof(*s));
    if (!s) {
        for (int i = 0; i < 2; i++)
            if (config->listen_fds[i] >= 0)
                wi_rendezvous_close(config->listen_fds[i]);
        return wi_fail(WEFT_ENOMEM, "no memory for the start-up store");
    }
    s->key = config->key;
    s->gives_key = config->job_key != NULL;
    s->own_user = config->own_user || s->gives_key;
    if (config->job_key)
        memcpy(s->job_key, config->job_key, sizeof(s->job_key));
    s->give_up_ns = config->give_up_ns;
    s->listening = 1;
    s->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    s->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    s->store = wi_store_create(config->nranks);
    s->seen = wi_auth_seen_of_process();
    s->wake = (struct conn){.kind = CONN_WAKE, .fd = s->wake_fd};
    for (int i = 0; i < 2; i++)
        s->listeners[i] = (struct conn){.kind = CONN_LISTENER, .fd = config->listen_fds[i]};

    weft_status st = WEFT_SUCCESS;
    if (s->epoll_fd < 0 || s->wake_fd < 0 || wi_random(s->session_id, sizeof(s->session_id)))
        st = wi_fail_errno(errno, "set up the start-up store");
    else if (!s->store || !s->seen)
        st = wi_fail(WEFT_ENOMEM, "no memory for the start-up store");
    if (st == WEFT_SUCCESS) {
        conn_poll(s, &s->wake, EPOLL_CTL_ADD, EPOLLIN);
        for (int i = 0; i < 2; i++)
            if (s->listeners[i].fd >= 0)
                conn_poll(s, &s->listeners[i], EPOLL_CTL_ADD, EPOLLIN);
        st = server_start(s);
    }
    if (st < 0) {
        server_free(s);
        return st;
    }
    *server = s;
    return WEFT_SUCCESS;
}

long wi_store_server_refused(const struct wi_store_server *server)
{
    return atomic_load_explicit(&server->refused, memory_order_relaxed);
}

int wi_store_server_finished(const struct wi_store_server *server)
{
    return atomic_load_explicit(&server->finished, memory_order_acquire);
}

void wi_store_server_destroy(struct wi_store_server *server)
{
    if (!server)
        return;
    uint64_t one = 1;
    atomic_store_explicit(&server->stop, 1, memory_order_release);
    if (write(server->wake_fd, &one, sizeof(one)) < 0)
        wi_log(WEFT_LOG_WARN, "store.wake", "eventfd: %s", strerror(errno));
    pthread_join(server->thread, NULL);
    server_free(server);
}

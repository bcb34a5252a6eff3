/* sample.c: a network plugin as NCCL loads them, over TCP sockets, for tests.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * It is as strict as the strictest of them, and ends the process when it is misused:
 *   - a connection goes one way; messages match in the order of posts, and their tags must be equal
 *   - bytes move in `test` only, and only of the oldest request of a connection, as over NCCL's own sockets
 *   - at most 32 requests of a connection; memory must be registered on the connection, and deregistered before it is closed
 *   - what connect has begun it keeps in the handle, which must be the same bytes at each call
 *   - a longer message than its receive has room for is an error of both
 */
#include "sample.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct sample_faults sample_faults;

#define COMM_MAGIC 0x636f6d6du
#define HEAD_MAGIC 0x68656164u

struct region {
    struct region *next;
    struct comm *comm;
    unsigned char *at;
    size_t bytes;
};

struct request {
    int used, late;
    struct comm *comm;
    unsigned char *data;
    size_t bytes, moved;
    int tag;
    uint64_t number;
};

struct head {
    uint32_t magic, tag;
    uint64_t bytes;
};

struct comm {
    uint32_t magic;
    int fd, sends, posts, calls;
    uint64_t posted, done; /* numbers of requests */
    struct request requests[NN_REQUESTS_MAX];
    struct region *regions;
    struct head head; /* of the oldest message */
    size_t head_moved;
    unsigned char cookie[16];
    size_t cookie_moved;
};

struct listener {
    int fd;
    struct comm *pending;
    unsigned char cookie[16];
    int calls;
};

/* What travels to the peer, and what the connecting side keeps. */
struct handle {
    struct sockaddr_in address;
    unsigned char cookie[16];
    struct comm *connecting;
    struct handle *self;
};
_Static_assert(sizeof(struct handle) <= NN_HANDLE_BYTES, "a handle has 128 bytes");

static nn_log_fn *log_to;

void sample_misused(const char *what)
{
    fprintf(stderr, "ncclnet sample: misused: %s\n", what);
    abort();
}

/* ---- The plugin ---- */

static int fault(const char *list, const char *name, int otherwise)
{
    size_t n = strlen(name);

    for (const char *p = list; p && *p;) {
        size_t len = strcspn(p, ",");
        if (len >= n && memcmp(p, name, n) == 0 && (len == n || p[n] == '='))
            return len == n ? 1 : atoi(p + n + 1);
        p += len + (p[len] == ',');
    }
    return otherwise;
}

static void read_faults(void)
{
    const char *list = getenv("NNSAMPLE_FAULTS");

    sample_faults = (struct sample_faults){
        .null_names = fault(list, "null_names", 0),
        .init_fails = fault(list, "init_fails", 0),
        .listen_fails = fault(list, "listen_fails", 0),
        .no_devices = fault(list, "no_devices", 0),
        .no_host = fault(list, "no_host", 0),
        .refuse = fault(list, "refuse", 0),
        .late = fault(list, "late", 0),
        .slow_connect = fault(list, "slow_connect", 0),
        .fail_test = fault(list, "fail_test", 0),
        .fail_connect = fault(list, "fail_connect", 0),
        .max_recvs = fault(list, "max_recvs", 1),
        .max_comms = fault(list, "max_comms", 65536),
        .small = fault(list, "small", 0),
        .wrong_token = fault(list, "wrong_token", 0),
    };
}

int sample_begin(nn_log_fn *log, nn_profile_fn *profile)
{
    void *event = NULL;

    read_faults();
    log_to = log;
    if (!log)
        sample_misused("there is no function to log with");
    log(3, 0x10, NULL, 0, "NET/Sample : %s", "over TCP");
    log(2, ~0ul, __FILE__, __LINE__, "a warning of the sample plugin\n");
    log(77, 0, __FILE__, __LINE__, "of no known level");
    log(5, 0, __FILE__, __LINE__, "arguments that do not fit: %s",
        (const char *)(uintptr_t)'/'); /* seen in a real one */
    if (profile && (profile(NULL, 0, NULL, 0, NULL) || profile(&event, 1, NULL, -1, NULL)))
        sample_misused("the profiler's function fails");
    return sample_faults.init_fails ? NN_SYSTEM_ERROR : NN_SUCCESS;
}

int sample_devices(int *count)
{
    *count = sample_faults.no_devices ? 0 : 3;
    return NN_SUCCESS;
}

/* Two that are fast, and one that is not. */
int sample_properties(int device, struct nn_properties_v12 *p)
{
    static char names[3][16] = {"sample0", "sample1", "sample2"};

    if (device < 0 || device > 2)
        return NN_INVALID_ARGUMENT;
    memset(p, 0, sizeof *p);
    p->name = sample_faults.null_names ? NULL : names[device];
    p->guid = (uint64_t)device;
    p->pointers = sample_faults.no_host ? 2 : 3;
    p->mbps = device == 1 ? 1000 : 10000;
    p->max_comms = sample_faults.max_comms;
    p->max_recvs = sample_faults.max_recvs;
    p->ndevs = 1;
    p->devs[0] = device;
    p->max_p2p_bytes = p->max_coll_bytes = sample_faults.small ? 65536 : (size_t)1 << 40;
    p->max_multi_request = 1;
    p->rail = p->plane = -1;
    return NN_SUCCESS;
}

/* ---- Connecting ---- */

static int nonblocking(int fd)
{
    int one = 1;

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fcntl(fd, F_SETFL, O_NONBLOCK);
}

int sample_listen(int device, void *where, void **listener)
{
    struct listener *l = calloc(1, sizeof *l);
    struct handle h = {.address = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}}};
    const char *address = getenv("NNSAMPLE_ADDRESS");
    socklen_t bytes = sizeof h.address;

    if (device < 0 || device > 2)
        sample_misused("there is no such device");
    if (!l || sample_faults.listen_fails) {
        free(l);
        return NN_SYSTEM_ERROR;
    }
    if (address)
        inet_pton(AF_INET, address, &h.address.sin_addr);
    l->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (l->fd < 0 || bind(l->fd, (struct sockaddr *)&h.address, sizeof h.address) || listen(l->fd, 8) ||
        getsockname(l->fd, (struct sockaddr *)&h.address, &bytes) || nonblocking(l->fd)) {
        if (l->fd >= 0)
            close(l->fd);
        free(l);
        return NN_SYSTEM_ERROR;
    }
    for (size_t i = 0; i < sizeof l->cookie; i++)
        l->cookie[i] = (unsigned char)(h.address.sin_port + 31 * i + (size_t)getpid());
    memcpy(h.cookie, l->cookie, sizeof h.cookie);
    memcpy(where, &h, sizeof h);
    *listener = l;
    return NN_SUCCESS;
}

static struct comm *comm_new(int fd, int sends)
{
    struct comm *c = calloc(1, sizeof *c);

    if (!c || fd < 0) {
        free(c);
        return NULL;
    }
    c->magic = COMM_MAGIC;
    c->fd = fd;
    c->sends = sends;
    nonblocking(fd);
    return c;
}

static void comm_free(struct comm *c)
{
    close(c->fd);
    c->magic = 0;
    free(c);
}

/* 1: all is moved; 0: not yet; -1: the connection is broken. */
static int move(const struct comm *c, void *data, size_t bytes, size_t *moved)
{
    while (*moved < bytes) {
        unsigned char *at = (unsigned char *)data + *moved;
        ssize_t n = c->sends ? send(c->fd, at, bytes - *moved, MSG_NOSIGNAL) : recv(c->fd, at, bytes - *moved, 0);
        if (n < 0 && (errno == EAGAIN || errno == EINTR || errno == ENOTCONN || errno == EINPROGRESS))
            return 0;
        if (n <= 0)
            return -1;
        *moved += (size_t)n;
    }
    return 1;
}

static int connect_begin(struct handle *h)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    h->self = h;
    h->connecting = comm_new(fd, 1);
    if (!h->connecting)
        return NN_SYSTEM_ERROR;
    memcpy(h->connecting->cookie, h->cookie, sizeof h->cookie);
    if (connect(fd, (struct sockaddr *)&h->address, sizeof h->address) && errno != EINPROGRESS)
        return NN_REMOTE_ERROR;
    return NN_SUCCESS;
}

static void connect_end(struct handle *h)
{
    if (h->connecting)
        comm_free(h->connecting);
    h->connecting = NULL;
}

int sample_connect(int device, void *where, void **comm, void **device_handle)
{
    struct handle *h = where;
    int result;

    (void)device;
    if (!device_handle || *device_handle)
        sample_misused("a device handle is wanted of a plugin that has none");
    if ((uintptr_t)where % 8 || (h->connecting && h->self != h))
        sample_misused("connect is called with another handle than before");
    *comm = NULL;
    if (sample_faults.fail_connect)
        return NN_REMOTE_ERROR;
    if (!h->connecting && (result = connect_begin(h)) != NN_SUCCESS) {
        connect_end(h);
        return result;
    }
    if (h->connecting->calls++ < sample_faults.slow_connect)
        return NN_SUCCESS;
    result = move(h->connecting, h->connecting->cookie, sizeof h->cookie, &h->connecting->cookie_moved);
    if (result < 0)
        connect_end(h);
    if (result <= 0)
        return result < 0 ? NN_REMOTE_ERROR : NN_SUCCESS;
    *comm = h->connecting;
    h->connecting = NULL;
    return NN_SUCCESS;
}

int sample_accept(void *listener, void **comm, void **device_handle)
{
    struct listener *l = listener;
    int result, fd;

    if (!device_handle || *device_handle)
        sample_misused("a device handle is wanted of a plugin that has none");
    *comm = NULL;
    if (l->calls++ < sample_faults.slow_connect)
        return NN_SUCCESS;
    if (!l->pending) {
        fd = accept(l->fd, NULL, NULL);
        l->pending = fd < 0 ? NULL : comm_new(fd, 0);
        if (!l->pending)
            return NN_SUCCESS;
    }
    result = move(l->pending, l->pending->cookie, sizeof l->cookie, &l->pending->cookie_moved);
    if (result < 0 || (result > 0 && memcmp(l->pending->cookie, l->cookie, sizeof l->cookie) != 0)) {
        comm_free(l->pending); /* a stranger */
        l->pending = NULL;
    } else if (result > 0) {
        *comm = l->pending;
        l->pending = NULL;
    }
    return NN_SUCCESS;
}

int sample_close_listen(void *listener)
{
    struct listener *l = listener;

    if (l->pending)
        comm_free(l->pending);
    close(l->fd);
    free(l);
    return NN_SUCCESS;
}

/* ---- Memory ---- */

static struct comm *comm_of(void *comm)
{
    struct comm *c = comm;

    if (!c || c->magic != COMM_MAGIC)
        sample_misused("there is no such connection");
    return c;
}

int sample_reg_mr(void *comm, void *data, size_t bytes, int type, void **handle)
{
    struct region *r = calloc(1, sizeof *r);

    if (type != NN_POINTER_HOST)
        sample_misused("only memory of the host is registered");
    if (!r)
        return NN_SYSTEM_ERROR;
    *r = (struct region){comm_of(comm)->regions, comm, data, bytes};
    comm_of(comm)->regions = r;
    *handle = r;
    return NN_SUCCESS;
}

int sample_dereg_mr(void *comm, void *handle)
{
    struct region **at = &comm_of(comm)->regions, *r;

    while (*at && *at != handle)
        at = &(*at)->next;
    r = *at;
    if (!r)
        sample_misused("memory is deregistered that is not registered on the connection");
    *at = r->next;
    free(r);
    return NN_SUCCESS;
}

static void check_covered(const struct comm *c, const void *handle, const void *data, size_t bytes)
{
    const unsigned char *at = data;
    const struct region *r = c->regions;

    while (r && r != handle)
        r = r->next;
    if (!r || at < r->at || bytes > r->bytes || (size_t)(at - r->at) > r->bytes - bytes)
        sample_misused("memory is used that is not registered on the connection");
}

/* ---- Moving ---- */

static int post(struct comm *c, void *data, size_t bytes, int tag, const void *handle, void **request)
{
    struct request *r = &c->requests[c->posted % NN_REQUESTS_MAX];

    if (*request)
        sample_misused("the request is not NULL before the call");
    check_covered(c, handle, data, bytes);
    if (c->posted - c->done == NN_REQUESTS_MAX)
        sample_misused("more than 32 requests on a connection");
    if (sample_faults.refuse && c->posts++ % sample_faults.refuse != sample_faults.refuse - 1)
        return NN_SUCCESS;
    *r = (struct request){1, sample_faults.late, c, data, bytes, 0, tag, c->posted++};
    *request = r;
    return NN_SUCCESS;
}

int sample_isend(void *comm, void *data, size_t bytes, int tag, void *handle, void **request)
{
    if (!comm_of(comm)->sends)
        sample_misused("a send on a connection for receives");
    return post(comm, data, bytes, tag, handle, request);
}

int sample_irecv(void *comm, int n, void **data, const size_t *sizes, const int *tags, void **handles, void **request)
{
    if (comm_of(comm)->sends)
        sample_misused("a receive on a connection for sends");
    if (n < 1 || n > sample_faults.max_recvs || n != 1)
        sample_misused("more receives at once than weft asks for");
    return post(comm, data[0], sizes[0], tags[0], handles[0], request);
}

static int move_head(struct comm *c, struct request *r)
{
    if (c->sends && !c->head_moved)
        c->head = (struct head){HEAD_MAGIC, (uint32_t)r->tag, r->bytes};
    int result = move(c, &c->head, sizeof c->head, &c->head_moved);
    if (result <= 0 || c->sends)
        return result;
    if (c->head.magic != HEAD_MAGIC)
        return -1;
    if (c->head.tag != (uint32_t)r->tag)
        sample_misused("a message has met a receive of another tag");
    if (c->head.bytes > r->bytes)
        sample_misused("a message is longer than its receive");
    r->bytes = c->head.bytes;
    return 1;
}

int sample_test(void *request, int *done, int *sizes)
{
    static int long_tests;
    struct request *r = request;
    struct comm *c = r && r->used ? comm_of(r->comm) : NULL;
    int result;

    *done = 0;
    if (!c || r->number != c->done)
        sample_misused("a request is tested that is not the oldest of its connection");
    if (sample_faults.fail_test && r->bytes > 4096 && ++long_tests == sample_faults.fail_test)
        return NN_REMOTE_ERROR;
    result = c->head_moved == sizeof c->head ? 1 : move_head(c, r);
    if (result > 0)
        result = move(c, r->data, r->bytes, &r->moved);
    if (result < 0)
        return NN_REMOTE_ERROR;
    if (result == 0 || r->late-- > 0)
        return NN_SUCCESS;
    if (sample_faults.wrong_token && !c->sends && r->number == 0 && r->bytes > 30)
        r->data[30] ^= 1;
    c->head_moved = 0;
    c->done++;
    r->used = 0;
    *done = 1;
    if (sizes)
        sizes[0] = (int)r->bytes;
    return NN_SUCCESS;
}

int sample_close(void *comm)
{
    struct comm *c = comm_of(comm);

    if (c->regions)
        sample_misused("a connection is closed before memory is deregistered on it");
    comm_free(c);
    return NN_SUCCESS;
}

/* endpoint.c: this process's attachment to UCX: one context, one worker, one lock.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "ucx.h"

#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <unistd.h>

#define SPINS 50 /* before the processor is given up */
#define DEVICES "/sys/class/infiniband"

/* ---- What UCX may use ---- */

/* One token of UCX_TLS, "posix" or "rc:aux" or "sm/memory". */
static int is_shared_memory(const char *token, size_t length)
{
    static const char *const names[] = {"shm", "sm", "mm", "posix", "sysv", "xpmem", "cma", "knem"};

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (length == strlen(names[i]) && strncasecmp(token, names[i], length) == 0)
            return 1;
    return 0;
}

/* UCX_TLS as UCX reads it, "all", "posix,tcp" or "^sm": may it use shared memory? Where single ones are excluded others remain. */
static int allows_shared_memory(const char *tls)
{
    int negated = *tls == '^', found = 0;

    for (const char *at = tls + negated; *at; at += strcspn(at, ","), at += *at == ',') {
        size_t length = strcspn(at, ",/:");
        if (!negated)
            found |= is_shared_memory(at, length) || (length == 3 && strncasecmp(at, "all", 3) == 0);
        else
            found |= (length == 3 && strncasecmp(at, "shm", 3) == 0) || (length == 2 && strncasecmp(at, "sm", 2) == 0);
    }
    return negated ? !found : found;
}

static int reads_shared_memory(const ucp_config_t *config)
{
    char *text = NULL;
    size_t bytes = 0;
    FILE *to = open_memstream(&text, &bytes);
    const char *tls;
    int allowed = 0;

    if (!to)
        return 0;
    wu_ucx.ucp_config_print(config, to, NULL, UCS_CONFIG_PRINT_CONFIG);
    if (fclose(to) == 0 && text && (tls = strstr(text, "UCX_TLS=")) != NULL) {
        char value[256];
        snprintf(value, sizeof value, "%.*s", (int)strcspn(tls + 8, "\n"), tls + 8);
        allowed = allows_shared_memory(value);
    }
    free(text);
    return allowed;
}

static int has_rdma(void)
{
    DIR *dir = opendir(DEVICES);
    const struct dirent *entry;
    int found = 0;

    while (dir && !found && (entry = readdir(dir)) != NULL)
        found = entry->d_name[0] != '.';
    if (dir)
        closedir(dir);
    return found;
}

/* Over TCP alone weft's own transport is faster. */
static weft_status wanted(const struct weft_host *host, const struct wu_settings *settings)
{
    int any = strcasecmp(settings->network, "any") == 0;

    if (!any && strcasecmp(settings->network, "auto") != 0) {
        host->explain(host->impl, WEFT_ECONFIG, "WEFT_UCX_NETWORK='%s' is neither auto nor any", settings->network);
        return WEFT_ECONFIG;
    }
    if (any || has_rdma())
        return WEFT_SUCCESS;
    host->explain(host->impl, WEFT_ENOTSUP,
                  "ucx: there is no RDMA device in " DEVICES "; WEFT_UCX_NETWORK=any uses UCX all the same");
    return WEFT_ENOTSUP;
}

/* ---- Opening ---- */

weft_status wu_explain_errno(const struct weft_host *host, const char *what)
{
    weft_status st = errno == EMFILE || errno == ENFILE ? WEFT_ENOFILES : WEFT_ESYS;

    host->explain(host->impl, st, "ucx: %s: %s", what, strerror(errno));
    return st;
}

static weft_status failed(struct wu_endpoint *e, const char *what, ucs_status_t status)
{
    weft_status st = status == UCS_ERR_NO_MEMORY ? WEFT_ENOMEM : WEFT_ENOTSUP;

    e->host->explain(e->host->impl, st, "ucx: %s: %s", what, wu_ucx.ucs_status_string(status));
    return st;
}

static weft_status open_context(struct wu_endpoint *e)
{
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME,
                           .features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP,
                           .name = "weft"};
    ucp_config_t *config;
    ucs_status_t status = wu_ucx.ucp_config_read(NULL, NULL, &config);

    if (status != UCS_OK)
        return failed(e, "its configuration (UCX_*) cannot be read", status);
    e->shared_memory = reads_shared_memory(config);
    status = wu_ucx.ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config, &e->context);
    wu_ucx.ucp_config_release(config);
    return status == UCS_OK ? WEFT_SUCCESS : failed(e, "ucp_init", status);
}

static weft_status open_worker(struct wu_endpoint *e)
{
    ucp_worker_params_t params = {
        .field_mask =
            UCP_WORKER_PARAM_FIELD_THREAD_MODE | UCP_WORKER_PARAM_FIELD_AM_ALIGNMENT | UCP_WORKER_PARAM_FIELD_FLAGS,
        .thread_mode = UCS_THREAD_MODE_SERIALIZED,
        .am_alignment = 16,
        /* Requests on endpoints of processes that were killed never end (see ucx.h). */
        .flags = UCP_WORKER_FLAG_IGNORE_REQUEST_LEAK,
    };
    ucp_am_handler_param_t handler = {.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                                                    UCP_AM_HANDLER_PARAM_FIELD_ARG,
                                      .id = WU_AM_ID,
                                      .cb = wu_came,
                                      .arg = e};
    ucs_status_t status = wu_ucx.ucp_worker_create(e->context, &params, &e->worker);

    if (status != UCS_OK)
        return failed(e, "ucp_worker_create", status);
    status = wu_ucx.ucp_worker_set_am_recv_handler(e->worker, &handler);
    if (status == UCS_OK)
        status = wu_ucx.ucp_worker_get_efd(e->worker, &e->worker_fd);
    if (status == UCS_OK)
        status = wu_ucx.ucp_worker_get_address(e->worker, &e->address, &e->address_bytes);
    if (status != UCS_OK)
        return failed(e, "its worker", status);
    if (e->address_bytes > WU_ADDRESS_MAX) {
        e->host->explain(
            e->host->impl, WEFT_ENOTSUP,
            "ucx: the worker's address has %zu bytes, more than %u: name fewer in UCX_NET_DEVICES or UCX_TLS",
            e->address_bytes, WU_ADDRESS_MAX);
        return WEFT_ENOTSUP;
    }
    return WEFT_SUCCESS;
}

static weft_status open_files(struct wu_endpoint *e)
{
    e->deaths = e->host->fd_keep(epoll_create1(EPOLL_CLOEXEC));
    return e->deaths < 0 ? wu_explain_errno(e->host, "epoll_create1") : WEFT_SUCCESS;
}

static weft_status identify(struct wu_endpoint *e)
{
    e->me.magic = WU_MAGIC;
    e->me.version = WU_VERSION;
    e->host->process_self(&e->me.process);
    if (getrandom(e->me.uid, sizeof e->me.uid, 0) == (ssize_t)sizeof e->me.uid)
        return WEFT_SUCCESS;
    e->host->explain(e->host->impl, WEFT_ESYS, "ucx: getrandom: %s", strerror(errno));
    return WEFT_ESYS;
}

weft_status wu_open(const struct weft_host *host, const void *settings, void **endpoint)
{
    struct wu_endpoint *e;
    weft_status st = wanted(host, settings);

    if (st >= 0 && !(WEFT_HOST_HAS(host, process_state) && WEFT_HOST_HAS(host, side_request))) {
        host->explain(host->impl, WEFT_ENOTSUP, "ucx: this library is too old for the plugin");
        st = WEFT_ENOTSUP;
    }
    if (st >= 0)
        st = wu_library_load(host);
    if (st < 0)
        return st;
    e = calloc(1, sizeof *e);
    if (!e)
        return WEFT_ENOMEM;
    e->host = host;
    e->settings = settings;
    e->deaths = e->keeper_fd = -1;
    wu_library_enter(host);
    st = identify(e);
    if (st >= 0)
        st = open_context(e);
    if (st >= 0)
        st = open_worker(e);
    wu_library_leave();
    if (st >= 0)
        st = open_files(e);
    if (st >= 0)
        st = wu_keeper_start(e);
    if (st < 0) {
        wu_close(e);
        return st;
    }
    host->log(host->impl, WEFT_LOG_INFO, "ucx.open", "UCX %s, shared memory %s", wu_ucx.ucp_get_version_string(),
              e->shared_memory ? "yes" : "no");
    *endpoint = e;
    return WEFT_SUCCESS;
}

static void free_outs(struct wu_out *o)
{
    while (o) {
        struct wu_out *next = o->next;
        free(o);
        o = next;
    }
}

void wu_close(void *endpoint)
{
    struct wu_endpoint *e = endpoint;

    if (e->keeping)
        wu_keeper_stop(e);
    wu_library_enter(e->host);
    if (e->worker) {
        wu_links_close(e);
        if (e->address)
            wu_ucx.ucp_worker_release_address(e->worker, e->address);
        wu_ucx.ucp_worker_destroy(e->worker);
    }
    if (e->context)
        wu_ucx.ucp_cleanup(e->context);
    wu_library_leave();
    while (e->links) {
        struct wu_link *l = e->links;
        e->links = l->next;
        if (l->pidfd >= 0)
            e->host->fd_close(l->pidfd);
        free(l);
    }
    free_outs(e->free_outs);
    free_outs(e->orphan_outs);
    while (e->orphan_ins) {
        struct wu_in *in = e->orphan_ins;
        e->orphan_ins = in->next;
        free(in->staging);
        free(in);
    }
    if (e->deaths >= 0)
        e->host->fd_close(e->deaths);
    free(e->routes);
    free(e);
}

weft_status wu_address(void *endpoint, void *buf, size_t capacity, size_t *bytes)
{
    const struct wu_endpoint *e = endpoint;

    if (capacity < sizeof e->me)
        return WEFT_EINVAL;
    memcpy(buf, &e->me, sizeof e->me);
    *bytes = sizeof e->me;
    return WEFT_SUCCESS;
}

int wu_reachable(void *endpoint, const void *address, size_t bytes)
{
    struct wu_address theirs;

    (void)endpoint;
    if (bytes != sizeof theirs)
        return 0;
    memcpy(&theirs, address, sizeof theirs);
    return theirs.magic == WU_MAGIC && theirs.version == WU_VERSION && !theirs.reserved;
}

/* ---- Under the lock ---- */

/* Two of these are paid for each message. A mutex of the C library took a fifth of the time of a stream of 4 KiB over shared
 * memory, most of it in unlocking; this is one exchange and one store. There is seldom a second thread: the keeper's stays away
 * while others call. */
static void lock(struct wu_endpoint *e)
{
    for (int spins = 0; atomic_exchange_explicit(&e->locked, 1, memory_order_acquire); spins++)
        if (spins >= SPINS)
            sched_yield();
}

void wu_enter(struct wu_endpoint *e, struct wu_group *g)
{
    lock(e);
    e->inside = g;
    e->progressed += g != NULL;
    wu_library_enter(e->host);
}

/* Who sleeps must be woken by what comes next: whoever has taken UCX's events in its place arms it again. */
static void arm_for_others(struct wu_endpoint *e)
{
    unsigned asleep = e->asleep - (e->inside && e->inside->asleep ? 1 : 0);

    for (int i = 0; asleep && i < 10000 && wu_ucx.ucp_worker_arm(e->worker) == UCS_ERR_BUSY; i++)
        wu_ucx.ucp_worker_progress(e->worker);
}

void wu_leave(struct wu_endpoint *e)
{
    if (e->asleep)
        arm_for_others(e);
    wu_library_leave();
    e->inside = NULL;
    atomic_store_explicit(&e->locked, 0, memory_order_release);
}

int wu_progress_worker(struct wu_endpoint *e)
{
    int events = (int)wu_ucx.ucp_worker_progress(e->worker);

    if (e->due)
        wu_due_step(e);
    return events;
}

/* A token is the route's place and 32 random bits, so that nobody who has not been told one can say something to a group. */
static weft_status token_new(struct wu_endpoint *e, uint32_t place, uint64_t *token)
{
    uint32_t secret = 0;

    while (!secret)
        if (getrandom(&secret, sizeof secret, 0) != (ssize_t)sizeof secret) {
            e->host->explain(e->host->impl, WEFT_ESYS, "ucx: getrandom: %s", strerror(errno));
            return WEFT_ESYS;
        }
    *token = (uint64_t)secret << 32 | place;
    return WEFT_SUCCESS;
}

weft_status wu_route_new(struct wu_endpoint *e, struct wu_peer *p)
{
    uint32_t place = 0;

    while (place < e->nroutes && e->routes[place].token)
        place++;
    if (place == e->nroutes) {
        uint32_t more = e->nroutes ? 2 * e->nroutes : 16;
        struct wu_route *routes = realloc(e->routes, more * sizeof *routes);
        if (!routes)
            return WEFT_ENOMEM;
        memset(routes + e->nroutes, 0, (more - e->nroutes) * sizeof *routes);
        e->routes = routes;
        e->nroutes = more;
    }
    weft_status st = token_new(e, place, &p->token);
    if (st < 0)
        return st;
    e->routes[place] = (struct wu_route){p->token, p};
    p->route = place;
    return WEFT_SUCCESS;
}

void wu_route_free(struct wu_endpoint *e, struct wu_peer *p)
{
    if (p->token)
        e->routes[p->route] = (struct wu_route){0, NULL};
    p->token = 0;
}

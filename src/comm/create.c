/* SPDX-License-Identifier: BSD-3-Clause */
/* Making and ending communicators. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/secret.h"
#include "base/status.h"
#include "base/struct_prefix.h"
#include "comm/comm.h"

#define DESTROY_WAIT_NS 1000000000ull /* for other threads to leave, and for an abort to take effect */

static void free_comm(struct weft_comm *comm, int aborted)
{
    wi_mesh_destroy(comm->mesh, aborted);
    if (comm->exec)
        wi_request_free_all(comm);
    wi_exec_destroy(comm->exec);
    wi_fast_forget(comm, NULL);
    wi_residuals_free(comm);
    for (int i = 0; i < WI_SCHED_CACHE; i++)
        wi_cached_free(&comm->cache[i]);
    wi_planner_destroy(comm->planner);
    wi_comm_topology_free(comm);
    wi_comm_locality_free(comm);
    wi_secret_free(comm->job_key);
    comm->magic = 0;
    wi_free(comm);
}

static void tell_progress(void *ctx)
{
    wi_progress_want(ctx);
}

/* The levels each of whose groups lies in one mapped group. All ranks know these groups, and find the same levels. */
static weft_status find_inside(const struct weft_comm *comm, struct wi_plan_facts *facts)
{
    int32_t *map = wi_calloc((size_t)comm->nranks, sizeof *map); /* by group, + 1 */

    if (!map)
        return wi_fail(WEFT_ENOMEM, "the mapped groups of %d ranks", comm->nranks);
    for (int l = 0; l < comm->levels.nlevels; l++) {
        const struct wi_algo_level *level = &comm->levels.level[l];
        int inside = comm->mesh->slot_bytes > 0;
        memset(map, 0, (size_t)comm->nranks * sizeof *map);
        for (int r = 0; r < comm->nranks && inside; r++) {
            int32_t *first = &map[level->group[r]];
            *first = *first ? *first : comm->mesh->map_of[r] + 1;
            inside = *first == comm->mesh->map_of[r] + 1;
        }
        if (!inside)
            continue;
        facts->inside[l].mapped = 1;
        facts->inside[l].slot_bytes = comm->mesh->slot_bytes;
        facts->inside[l].window = comm->mesh->slots < WI_OP_WINDOW ? comm->mesh->slots : WI_OP_WINDOW;
    }
    wi_free(map);
    return WEFT_SUCCESS;
}

static weft_status set_up(struct weft_comm *comm, const weft_comm_config *config)
{
    struct weft_context *ctx = comm->ctx;
    struct wi_exec_config ec = {
        .name = comm->name,
        .wanted = &comm->entering,
        .let_in = wi_fast_let_in,
        .let_in_arg = comm,
        .timeout_ns = config->timeout_ns ? config->timeout_ns : ctx->comm.timeout_ns,
        .spin = ctx->comm.spin,
        .yields = ctx->comm.yields,
        .eager_bytes = ctx->comm.eager_bytes,
        .early_bytes = ctx->comm.early_bytes,
        .algorithm_named = wi_call_algorithm,
        .tell = tell_progress,
        .tell_arg = ctx,
    };
    struct wi_plan_facts facts = {
        .nranks = comm->nranks,
        .nnodes = comm->mesh->nnodes,
        .mapped = comm->mesh->all_mapped,
        .can_map = comm->mesh->all_mapped && comm->mesh->can_map,
        .can_get = comm->mesh->all_mapped && comm->mesh->can_get,
        .can_put = comm->mesh->all_mapped && comm->mesh->can_put,
        .oversubscribed = comm->mesh->oversubscribed,
        .find_file = wi_plans_find,
        .files = ctx->plans,
    };

    comm->nt_bytes = ctx->comm.nt_bytes;
    WI_TRY(wi_comm_locality(comm));
    facts.levels = &comm->levels;
    ec.engine = wi_engine_of_tests ? wi_engine_of_tests(ctx->workers) : wi_engine_host(ctx->workers);
    WI_TRY(wi_exec_create(comm->mesh, &ec, &comm->exec));
    WI_TRY(wi_comm_discover_model(comm, &comm->discovered_model));
    if (comm->discovered_model)
        WI_TRY(wi_comm_levels_from(comm, comm->discovered_model));
    facts.slot_bytes = comm->exec->map.slot_bytes;
    WI_TRY(find_inside(comm, &facts));
    WI_TRY(wi_comm_served(comm, &facts));
    WI_TRY(wi_fast_init(comm, &facts));
    return wi_comm_planner(comm, &facts);
}

weft_status wi_comm_build(struct weft_context *ctx, struct wi_bootstrap *bs, const weft_comm_config *config,
                          uint64_t deadline_ns, struct weft_comm **out)
{
    struct weft_comm *comm = wi_calloc(1, sizeof *comm);
    struct wi_mesh_config mc = {
        .node = &ctx->node,
        .settings = ctx->settings,
        .settings_hash = ctx->settings_hash,
        .deadline_ns = deadline_ns,
        .timeout_ns = config->timeout_ns ? config->timeout_ns : ctx->comm.timeout_ns,
    };
    struct wi_rates rates;
    weft_status st;

    if (!comm)
        return wi_fail(WEFT_ENOMEM, "communicator");
    if (ctx->lib.measure_rates && bs->nranks > 1 &&
        wi_rates_here(&rates) >= 0) /* on failure no rank uses measured rates */
        mc.rates = &rates;
    comm->magic = WI_COMM_MAGIC;
    comm->ctx = ctx;
    comm->rank = bs->rank;
    comm->nranks = bs->nranks;
    comm->priority = config->priority;
    comm->init_timeout_ns = config->init_timeout_ns ? config->init_timeout_ns : ctx->comm.init_timeout_ns;
    comm->job_key = wi_secret_alloc(WI_JOB_KEY_BYTES);
    if (comm->job_key)
        memcpy(comm->job_key, bs->job_key, WI_JOB_KEY_BYTES);
    memcpy(comm->job, bs->job, sizeof comm->job);
    snprintf(comm->name, sizeof comm->name, "%s", config->name ? config->name : "communicator");
    st = comm->job_key ? wi_mesh_create(ctx->transports, bs, &mc, &comm->mesh) : wi_fail(WEFT_ENOMEM, "job key");
    if (st >= 0)
        st = set_up(comm, config);
    if (st < 0) {
        free_comm(comm, 1);
        return st;
    }
    wi_context_link(ctx, comm);
    wi_log(WEFT_LOG_INFO, "comm.created", "%s: rank %d of %d, %d node(s), %s%s", comm->name, comm->rank, comm->nranks,
           comm->mesh->nnodes,
           comm->mesh->all_mapped     ? "mapped"
           : comm->mesh->mapped_group ? "messages, mapped inside nodes"
                                      : "messages",
           bs->has_secret ? "" : ", without a job key (WEFT_INSECURE)");
    wi_comm_log_peers(comm);
    *out = comm;
    return WEFT_SUCCESS;
}

/* ---- Creation ---- */

weft_status wi_comm_config_read(const char *call, const weft_comm_config *given, weft_comm_config *own)
{
    static const struct wi_struct_rule rule = WI_STRUCT_RULE(weft_comm_config, "WEFT_COMM_CONFIG_INIT", bytes);

    *own = (weft_comm_config)WEFT_COMM_CONFIG_INIT;
    if (given)
        WI_TRY(wi_struct_read(&rule, call, given, own));
    if (own->priority < -WEFT_PRIORITY_MAX || own->priority > WEFT_PRIORITY_MAX)
        return wi_fail(WEFT_EINVAL, "%s: priority %d is not in -%d to %d", call, own->priority, WEFT_PRIORITY_MAX,
                       WEFT_PRIORITY_MAX);
    return own->reserved ? wi_fail(WEFT_EINVAL, "%s: reserved is not 0", call) : WEFT_SUCCESS;
}

static weft_status check_create(const weft_context *ctx, const weft_comm_config *config, weft_comm **comm,
                                weft_comm_config *own, uint64_t *deadline_ns)
{

    WI_TRY(wi_context_check(ctx, "creating a communicator"));
    if (!comm)
        return wi_fail(WEFT_EINVAL, "creating a communicator: comm is NULL");
    WI_TRY(wi_comm_config_read("creating a communicator", config, own));
    *deadline_ns = wi_deadline_ns(own->init_timeout_ns ? own->init_timeout_ns : ctx->comm.init_timeout_ns);
    return WEFT_SUCCESS;
}

static weft_status build_and_close(weft_context *ctx, struct wi_bootstrap *bs, const weft_comm_config *config,
                                   uint64_t deadline_ns, weft_comm **comm)
{
    weft_status st;

    wi_log_set_rank(bs->rank);
    st = wi_comm_build(ctx, bs, config, deadline_ns, comm);
    bs->destroy(bs);
    return st;
}

/* Ranks that do not find each other without a key may have a key under a misspelt setting. */
static weft_status started(const weft_context *ctx, weft_status st)
{
    const struct wi_bootstrap_settings *s = &ctx->bootstrap;
    int has_key = s->job_key_fd >= 0 || (s->job_key_file && *s->job_key_file) || (s->job_key && *s->job_key);
    char text[1024];

    if ((st != WEFT_ECONFIG && st != WEFT_EAUTH && st != WEFT_ETIMEDOUT) || has_key || !*ctx->key_misspelt)
        return st;
    snprintf(text, sizeof text, "%s", wi_fail_text());
    return wi_fail(st, "%s; %s", text, ctx->key_misspelt);
}

weft_status weft_comm_create_env(weft_context *ctx, const weft_comm_config *config, weft_comm **comm)
{
    struct wi_bootstrap *bs;
    weft_comm_config own;
    uint64_t deadline_ns;

    WI_TRY(check_create(ctx, config, comm, &own, &deadline_ns));
    WI_TRY(started(ctx, wi_bootstrap_env(&ctx->bootstrap, deadline_ns, &bs)));
    return build_and_close(ctx, bs, &own, deadline_ns, comm);
}

weft_status weft_unique_id_create(weft_context *ctx, weft_unique_id *id)
{
    WI_TRY(wi_context_check(ctx, "unique_id_create"));
    if (!id)
        return wi_fail(WEFT_EINVAL, "unique_id_create: id is NULL");
    return wi_unique_id_create(&ctx->bootstrap, id);
}

static weft_status check_rank(int rank, int nranks)
{
    if (nranks < 1 || rank < 0 || rank >= nranks)
        return wi_fail(WEFT_EINVAL, "creating a communicator: rank %d of %d", rank, nranks);
    return WEFT_SUCCESS;
}

weft_status weft_comm_create_id(weft_context *ctx, const weft_unique_id *id, int rank, int nranks,
                                const weft_comm_config *config, weft_comm **comm)
{
    struct wi_bootstrap *bs;
    weft_comm_config own;
    uint64_t deadline_ns;

    WI_TRY(check_create(ctx, config, comm, &own, &deadline_ns));
    if (!id)
        return wi_fail(WEFT_EINVAL, "comm_create_id: id is NULL");
    WI_TRY(check_rank(rank, nranks));
    WI_TRY(started(ctx, wi_bootstrap_id(&ctx->bootstrap, id, rank, nranks, deadline_ns, &bs)));
    return build_and_close(ctx, bs, &own, deadline_ns, comm);
}

weft_status weft_comm_create_file(weft_context *ctx, const char *path, int rank, int nranks,
                                  const weft_comm_config *config, weft_comm **comm)
{
    struct wi_bootstrap *bs;
    weft_comm_config own;
    uint64_t deadline_ns;

    WI_TRY(check_create(ctx, config, comm, &own, &deadline_ns));
    if (!path || !*path)
        return wi_fail(WEFT_EINVAL, "comm_create_file: path is NULL or empty");
    WI_TRY(check_rank(rank, nranks));
    WI_TRY(started(ctx, wi_bootstrap_file(&ctx->bootstrap, path, rank, nranks, deadline_ns, &bs)));
    return build_and_close(ctx, bs, &own, deadline_ns, comm);
}

weft_status weft_comm_create_oob(weft_context *ctx, const weft_oob *oob, const weft_comm_config *config,
                                 weft_comm **comm)
{
    static const struct wi_struct_rule rule = WI_STRUCT_RULE(weft_oob, "sizeof(weft_oob)", all_gather);
    struct wi_bootstrap *bs;
    weft_comm_config own;
    uint64_t deadline_ns;
    weft_oob given = {0};

    WI_TRY(check_create(ctx, config, comm, &own, &deadline_ns));
    WI_TRY(wi_struct_read(&rule, "comm_create_oob", oob, &given));
    if (!given.all_gather)
        return wi_fail(WEFT_EINVAL, "comm_create_oob: all_gather is NULL");
    WI_TRY(check_rank(given.rank, given.nranks));
    WI_TRY(started(ctx, wi_bootstrap_oob(&ctx->bootstrap, &given, deadline_ns, &bs)));
    return build_and_close(ctx, bs, &own, deadline_ns, comm);
}

/* ---- Destruction ---- */

/* A thread inside sees the request; if there is none, break the executor here, so that peers are notified now. */
static void abort_here(struct weft_comm *comm)
{
    uint64_t until = wi_deadline_ns(DESTROY_WAIT_NS);
    uint32_t round = 0;

    do {
        if (wi_comm_try_progress(comm)) {
            wi_exec_fail(comm->exec, WEFT_EABORTED, -1, NULL, "%s", comm->abort_reason);
            wi_exec_progress(comm->exec, NULL, NULL);
            wi_comm_leave(comm);
            return;
        }
        wi_stand_by(round++);
    } while (!wi_comm_ending(comm) && wi_now_ns() < until);
}

weft_status weft_comm_abort(weft_comm *comm, const char *reason)
{
    WI_TRY(wi_comm_check(comm));
    wi_comm_guest_in(comm);
    if (!atomic_exchange(&comm->abort_called, 1)) {
        snprintf(comm->abort_reason, sizeof comm->abort_reason, "%s", reason ? reason : "no reason given");
        wi_exec_abort(comm->exec, comm->abort_reason);
        abort_here(comm);
    }
    wi_comm_guest_out(comm);
    return WEFT_SUCCESS;
}

/* How a communicator ends while other threads use it.
 *
 * Destroying takes `lock` for good, and releases it again only when it gives up waiting. A thread that finds it WI_DESTROYING
 * returns WEFT_EABORTED. Threads inside that do not hold it are counted: in `entering` while they want it, in `guests` while they
 * wait for requests, or abort. A thread writes its counter, then reads `lock`; destroying writes `lock`, then reads the counters.
 * All of these are sequentially consistent, so that one of the two sees the other: a thread that was not seen finds WI_DESTROYING
 * and touches nothing but its counter; one that was seen is waited for. Counting down comes last and releases what the thread
 * did.
 *
 * A thread that has not counted itself when the memory goes is, from here, one that has not called yet. No order helps against
 * that: a program must not begin calls on a communicator that it destroys. */

/* Take the lock for good: its holder is asked to give up, and other threads are refused. WEFT_EBUSY: not within the time. */
static weft_status lock_for_destroy(struct weft_comm *comm, uint64_t until_ns)
{
    int held = WI_FREE;

    for (uint32_t round = 0; !atomic_compare_exchange_strong(&comm->lock, &held, WI_DESTROYING); round++) {
        if (held == WI_DESTROYING)
            return wi_fail(WEFT_EBUSY, "comm_destroy: another thread destroys this communicator");
        held = WI_FREE;
        wi_exec_abort(comm->exec, "the communicator is being destroyed");
        wi_exec_nudge(comm->exec);
        if (wi_now_ns() >= until_ns)
            return wi_fail(WEFT_EBUSY, "comm_destroy: another thread is inside a call on this communicator");
        wi_stand_by(round);
    }
    return WEFT_SUCCESS;
}

/* Threads that wait without the lock see that their operations have ended, or that the communicator does. */
static weft_status wait_for_callers(struct weft_comm *comm, uint64_t until_ns)
{
    uint32_t round = 0;

    while (atomic_load_explicit(&comm->guests, memory_order_seq_cst) ||
           atomic_load_explicit(&comm->entering, memory_order_seq_cst)) {
        if (!round)
            wi_exec_cancel(comm->exec, "the communicator is being destroyed");
        if (wi_now_ns() >= until_ns)
            return wi_fail(WEFT_EBUSY, "comm_destroy: another thread waits in a call on this communicator");
        wi_stand_by(round++);
    }
    return WEFT_SUCCESS;
}

weft_status weft_comm_destroy(weft_comm *comm)
{
    uint64_t until;
    weft_status st;
    int aborted;

    if (!comm)
        return WEFT_SUCCESS;
    WI_TRY(wi_comm_check(comm));
    until = wi_deadline_ns(DESTROY_WAIT_NS);
    WI_TRY(lock_for_destroy(comm, until));
    wi_context_unlink(comm->ctx, comm); /* the progress thread no longer looks at it */
    aborted = comm->exec->broken < 0 || comm->exec->nops > 0;
    wi_exec_leave(comm->exec);
    st = wait_for_callers(comm, until);
    if (st >= 0 && comm->exec->posted)
        st = wi_fail(WEFT_EBUSY, "comm_destroy: engine %s still reads or writes memory of an operation that has ended",
                     comm->exec->engine->ops->name);
    if (st < 0) {
        wi_context_link(comm->ctx, comm);
        wi_comm_leave(comm);
        return st;
    }
    free_comm(comm, aborted);
    return WEFT_SUCCESS;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Engines: made, entered, left and ended. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/weft_client.h>

#include "base/alloc.h"
#include "base/status.h"
#include "base/struct_prefix.h"
#include "zero/ckpt/ckpt.h"
#include "zero/common/config_fields.h"
#include "zero/offload.h"
#include "zero/swap.h"
#include "zero/tier.h"
#include "zero/zero.h"

static const struct wi_struct_rule config_rule = WI_STRUCT_RULE(weft_zero_config, "WEFT_ZERO_CONFIG_INIT", bytes);
static const struct wi_struct_rule stats_rule = WI_STRUCT_RULE(weft_zero_stats, "WEFT_ZERO_STATS_INIT", bytes);

/* ---- Calls ---- */

weft_status wi_zero_enter(const char *call, weft_zero *zero, int sealed, unsigned *since)
{
    *since = wi_fail_count();
    if (!zero || zero->magic != WI_ZERO_MAGIC)
        return wi_zero_publish(
            *since, wi_fail(WEFT_EINVAL, "zero: %s: %s", call, zero ? "not an engine" : "the engine is NULL"));
    if (weft_context_check(zero->context) < 0)
        return wi_zero_publish(
            *since,
            wi_fail(WEFT_EINVAL, "zero: %s: the engine is of the process from which this one was forked", call));
    pthread_mutex_lock(&zero->lock);
    weft_status st = WEFT_SUCCESS;

    if (zero->failed < 0)
        st = wi_fail(zero->failed, "zero: %s: the engine has failed before: %s", call,
                     zero->failure ? zero->failure : "");
    else if (sealed >= 0 && zero->sealed != sealed)
        st = wi_fail(WEFT_EINVAL, "zero: %s: the engine is %s", call, sealed ? "not sealed yet" : "sealed already");
    if (st < 0)
        pthread_mutex_unlock(&zero->lock);
    return wi_zero_publish(*since, st);
}

weft_status wi_zero_leave(weft_zero *zero, unsigned since, weft_status st)
{
    pthread_mutex_unlock(&zero->lock);
    return wi_zero_publish(since, st);
}

weft_status wi_zero_broke(weft_zero *zero, weft_status st, const char *format, ...)
{
    char what[256];
    va_list ap;

    va_start(ap, format);
    vsnprintf(what, sizeof what, format, ap);
    va_end(ap);
    wi_fail(
        st, "zero: %s (step %llu, after %d micro-batches): %s%s", what, (unsigned long long)zero->step + 1,
        zero->micro.ended, weft_thread_error(),
        st == WEFT_EMISMATCH && zero->sealed
            ? "; ranks use units in different orders, ran different numbers of micro-batches, or have other hyper-parameters"
            : "");
    return st <= WEFT_EPEER ? wi_zero_final(zero, st) : st;
}

weft_status wi_zero_final(weft_zero *zero, weft_status st)
{
    if (st < 0 && zero->failed == WEFT_SUCCESS) {
        zero->failed = st;
        zero->failure = wi_strdup(wi_fail_text());
    }
    return st;
}

weft_status wi_zero_param_check(const char *call, const weft_zero *zero, int param)
{
    if (param < 0 || param >= zero->nparams)
        return wi_fail(WEFT_EINVAL, "zero: %s: there is no parameter %d; there are %d", call, param, zero->nparams);
    return WEFT_SUCCESS;
}

weft_status wi_zero_unit_check(const char *call, const weft_zero *zero, int unit)
{
    if (unit < 0 || unit >= zero->nunits)
        return wi_fail(WEFT_EINVAL, "zero: %s: there is no unit %d; there are %d", call, unit, zero->nunits);
    return WEFT_SUCCESS;
}

/* ---- Configuration ---- */

weft_status wi_zero_number(const char *name, double value, double least, double most)
{
    if (!(value >= least && value <= most))
        return wi_fail(WEFT_EINVAL, "zero: create: %s is %g, not from %g to %g", name, value, least, most);
    return WEFT_SUCCESS;
}

const char *wi_zero_refuses(const weft_zero_config *config, const struct wi_optim_ops *ops)
{
    if (ops->flags & WI_OPTIM_PROGRAM && !config->update)
        return "update is NULL";
    if (!config->offload_params)
        return NULL;
    if (ops->flags & WI_OPTIM_MATRICES)
        return "offload_params is set: its matrices do not pass through memory in pieces";
    if (ops->flags & WI_OPTIM_TWO_PASSES)
        return "offload_params is set: it goes over gradients and parameters twice";
    if (!wi_zero_ops_moments(config, ops))
        return "offload_params is set, and update_moments is 0: there are no states with which parameters would pass "
               "through memory";
    return NULL;
}

static weft_status check_optimizer(const weft_zero_config *config)
{
    const struct wi_optim_ops *ops = wi_optim_find(config->optimizer);

    if (!ops)
        return wi_fail(WEFT_EINVAL, "zero: create: optimizer is %d, which is none", (int)config->optimizer);
    WI_TRY(wi_zero_number("update_moments", config->update_moments, 0, config->update ? 2 : 0));
    const char *why = wi_zero_refuses(config, ops);

    return why ? wi_fail(WEFT_EINVAL, "zero: create: the optimizer is %s, and %s", wi_optim_name(config->optimizer),
                         why)
               : WEFT_SUCCESS;
}

static weft_status check_states(const weft_zero_config *config)
{
    if (!config->state_dtype)
        return WEFT_SUCCESS;
    if (!(wi_optim_find(config->optimizer)->flags & WI_OPTIM_CODED))
        return wi_fail(WEFT_EINVAL,
                       "zero: create: state_dtype is set, and the optimizer is %s; adamw, adam, sgd and "
                       "lion can keep their moments so",
                       wi_optim_name(config->optimizer));
    if (config->offload_folder)
        return wi_fail(
            WEFT_EINVAL,
            "zero: create: state_dtype and offload_folder are both set; states in a file are fp32, or have a "
            "codec: offload_moment1_codec");
    return WEFT_SUCCESS;
}

static weft_status check_ranges(const weft_zero_config *config)
{
    for (int i = 0; i < WI_ZERO_NFIELDS; i++) {
        const struct wi_zero_field *field = &wi_zero_fields[i];

        if (field->flags & WI_ZERO_RANGED && !(field->flags & WI_ZERO_DYNAMIC && config->loss_scale != 0))
            WI_TRY(wi_zero_number(field->name, wi_zero_field_number(config, field), field->least, field->most));
    }
    if (config->loss_scale == 0)
        WI_TRY(wi_zero_number("loss_scale_initial", config->loss_scale_initial, config->loss_scale_min, 1e30));
    return WEFT_SUCCESS;
}

static weft_status check_config(const weft_zero_config *config)
{
    WI_TRY(check_ranges(config));
    WI_TRY(check_optimizer(config));
    WI_TRY(wi_zero_offload_check(config));
    return check_states(config);
}

static int cores(void)
{
    cpu_set_t set;

    if (sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) > 0)
        return CPU_COUNT(&set);
    return 1;
}

/* Ranks of one host that may use the same cores share them. */
static weft_status thread_count(weft_comm *comm, int *threads)
{
    int local, nlocal;

    if (*threads)
        return WEFT_SUCCESS;
    WI_TRY(weft_comm_local(comm, &local, &nlocal));
    *threads = cores() / nlocal;
    if (*threads < 1)
        *threads = 1;
    return WEFT_SUCCESS;
}

/* The two communicators of a domain, and the one among copies: ranks of one color share a copy. */
static weft_status derive(weft_zero *zero, weft_comm *comm, int color, int replica_color, struct wi_zero_domain *domain)
{
    static const char *const names[] = {"zero-gather", "zero-reduce", "zero-copies"};
    weft_comm **comms[] = {&domain->gathers, &domain->reductions, &domain->replicas};
    weft_comm_config config = WEFT_COMM_CONFIG_INIT;

    for (int i = 0; i < (replica_color >= 0 ? 3 : 2); i++) {
        config.name = names[i];
        config.priority = i == 0; /* gathers are waited for first */
        weft_status st = i == 2 || replica_color >= 0
                             ? weft_comm_split(comm, i == 2 ? replica_color : color, 0, &config, comms[i])
                             : weft_comm_dup(comm, &config, comms[i]);

        if (st < 0)
            return wi_zero_broke(zero, st, "create: communicator %s", names[i]);
    }
    WI_TRY(weft_comm_rank(domain->gathers, &domain->rank));
    return weft_comm_size(domain->gathers, &domain->nranks);
}

/* How many ranks have the host of a rank, and how many of them are before it. */
static weft_status on_host(weft_comm *comm, int nranks, int rank, int *before, int *all)
{
    const char *mine, *other;
    char name[256];

    WI_TRY(weft_comm_host(comm, rank, &mine));
    snprintf(name, sizeof name, "%s", mine);
    *before = *all = 0;
    for (int r = 0; r < nranks; r++) {
        WI_TRY(weft_comm_host(comm, r, &other));
        if (strcmp(name, other))
            continue;
        *all += 1;
        *before += r < rank;
    }
    return WEFT_SUCCESS;
}

/* Which copy this rank has a shard of, and which shard. */
static weft_status find_copy(weft_zero *zero, weft_comm *comm, const char *field, int wanted, int *copy, int *shard)
{
    int n = zero->nranks, before, all, first = 0;

    if (wanted != WEFT_ZERO_SHARD_NODE) {
        if (wanted < 1 || wanted > n || n % wanted)
            return wi_fail(WEFT_EINVAL, "zero: create: %s is %d, no divisor of the %d ranks", field, wanted, n);
        *copy = zero->rank / wanted;
        *shard = zero->rank % wanted;
        return WEFT_SUCCESS;
    }
    *copy = 0;
    WI_TRY(on_host(comm, n, 0, &before, &first));
    for (int r = 0; r < n; r++) {
        WI_TRY(on_host(comm, n, r, &before, &all));
        if (all != first)
            return wi_fail(WEFT_EINVAL,
                           "zero: create: %s is that of hosts, and hosts of ranks 0 and %d have %d and %d ranks", field,
                           r, first, all);
        /* Hosts are numbered by their first ranks. */
        *copy += before == 0 && r < zero->rank;
    }
    WI_TRY(on_host(comm, n, zero->rank, shard, &all));
    *copy -= *shard > 0; /* its own host's first rank was counted */
    return WEFT_SUCCESS;
}

static weft_status make_second(weft_zero *zero, weft_comm *comm)
{
    weft_comm_config config = WEFT_COMM_CONFIG_INIT;
    int copy, part;

    if (!zero->config.secondary_ranks)
        return WEFT_SUCCESS;
    if (zero->config.stage < 3 || zero->config.shard_ranks || zero->config.offload_params)
        return wi_fail(WEFT_EINVAL, "zero: create: secondary_ranks is set, and %s",
                       zero->config.stage < 3     ? "stage is not 3"
                       : zero->config.shard_ranks ? "shard_ranks is, too"
                                                  : "offload_params is, too");
    WI_TRY(find_copy(zero, comm, "secondary_ranks", zero->config.secondary_ranks, &copy, &part));
    config.name = "zero-second";
    weft_status st = weft_comm_split(comm, copy, 0, &config, &zero->second.comm);

    if (st < 0)
        return wi_zero_broke(zero, st, "create: communicator zero-second");
    WI_TRY(weft_comm_rank(zero->second.comm, &zero->second.rank));
    return weft_comm_size(zero->second.comm, &zero->second.nranks);
}

static weft_status make_domains(weft_zero *zero, weft_comm *comm)
{
    weft_comm_config config = WEFT_COMM_CONFIG_INIT;
    int copy = 0, shard = -1;

    config.name = "zero";
    weft_status st = weft_comm_dup(comm, &config, &zero->world);

    if (st < 0)
        return wi_zero_broke(zero, st, "create: communicator zero");
    /* First, as it says how many communicators there are to make. */
    WI_TRY(wi_zero_compare_config(zero));
    if (zero->config.shard_ranks && zero->config.shard_ranks != zero->nranks)
        WI_TRY(find_copy(zero, comm, "shard_ranks", zero->config.shard_ranks, &copy, &shard));
    if (shard >= 0 && zero->config.experts)
        return wi_fail(WEFT_EINVAL,
                       "zero: create: shard_ranks and experts are both set; experts cannot be kept in copies");
    zero->ndomains = zero->config.experts ? WI_ZERO_EXPERTS + 1 : WI_ZERO_COMMON + 1;
    WI_TRY(derive(zero, comm, copy, shard, &zero->domains[WI_ZERO_COMMON]));
    if (wi_zero_has_experts(zero))
        WI_TRY(derive(zero, zero->config.experts, 0, -1, &zero->domains[WI_ZERO_EXPERTS]));
    if (wi_zero_has_experts(zero))
        WI_TRY(wi_zero_find_places(zero));
    WI_TRY(make_second(zero, comm));
    zero->model = zero->config.model;
    zero->copy = copy;
    zero->config.experts = zero->config.model = NULL;
    return WEFT_SUCCESS;
}

static void destroy(weft_zero *zero)
{
    wi_ckpt_destroy(zero->saves.ckpt);
    wi_free(zero->saves.through);
    wi_free(zero->saves.loaded_tag);
    wi_free(zero->saves.loaded_client);
    for (int i = 0; i < zero->ndomains; i++) {
        weft_comm_destroy(zero->domains[i].gathers);
        weft_comm_destroy(zero->domains[i].reductions);
        weft_comm_destroy(zero->domains[i].replicas);
    }
    weft_comm_destroy(zero->second.comm);
    weft_comm_destroy(zero->world);
    wi_zero_swap_destroy(zero);
    wi_zero_tier_destroy(zero);
    wi_zero_offload_destroy(zero);
    wi_zero_free_memory(zero);
    wi_optim_pool_destroy(zero->pool);
    wi_zero_trace_fini(&zero->gathers.trace);
    for (int i = 0; i < zero->nparams; i++) {
        wi_free(zero->params[i].name);
        wi_free(zero->params[i].saved);
    }
    wi_free(zero->places);
    for (int i = 0; i < zero->nunits; i++) {
        wi_free(zero->units[i].name);
        wi_free(zero->units[i].params);
    }
    wi_free(zero->params);
    wi_free(zero->units);
    wi_free(zero->failure);
    wi_free((char *)zero->config.gather_codec);
    wi_free((char *)zero->config.reduce_codec);
    wi_free((char *)zero->config.offload_folder);
    wi_free((char *)zero->config.offload_weight_codec);
    wi_free((char *)zero->config.offload_moment1_codec);
    wi_free((char *)zero->config.offload_moment2_codec);
    pthread_mutex_destroy(&zero->lock);
    zero->magic = 0;
    wi_free(zero);
}

static weft_status copy_text(const char **text)
{
    if (!*text)
        return WEFT_SUCCESS;
    *text = wi_strdup(*text);
    return *text ? WEFT_SUCCESS : wi_fail(WEFT_ENOMEM, "zero: create: out of memory");
}

static weft_status prepare(weft_zero *zero, weft_comm *comm)
{
    weft_zero_config *c = &zero->config;
    const char **const own[] = {&c->gather_codec,         &c->reduce_codec,          &c->offload_folder,
                                &c->offload_weight_codec, &c->offload_moment1_codec, &c->offload_moment2_codec};
    enum { TEXTS = sizeof own / sizeof *own };
    const char *given[TEXTS];

    for (int i = 0; i < TEXTS; i++) {
        given[i] = *own[i];
        *own[i] = NULL;
    }
    for (int i = 0; i < TEXTS; i++) {
        WI_TRY(copy_text(&given[i]));
        *own[i] = given[i];
    }
    WI_TRY(weft_comm_context(comm, &zero->context));
    WI_TRY(weft_comm_rank(comm, &zero->rank));
    WI_TRY(weft_comm_size(comm, &zero->nranks));
    WI_TRY(thread_count(comm, &zero->config.threads));
    zero->micro.more = -1;
    zero->scale.value = zero->config.loss_scale != 0 ? zero->config.loss_scale : zero->config.loss_scale_initial;
    zero->scale.hysteresis = zero->config.loss_scale_hysteresis;
    WI_TRY(make_domains(zero, comm));
    return wi_optim_pool_create(zero->config.threads, &zero->pool);
}

static weft_status create(weft_comm *comm, const weft_zero_config *given, weft_zero **out)
{
    weft_zero_config config = WEFT_ZERO_CONFIG_INIT;

    if (!comm || !out)
        return wi_fail(WEFT_EINVAL, "zero: create: %s is NULL", comm ? "zero" : "comm");
    if (given)
        WI_TRY(wi_struct_read(&config_rule, "zero: create", given, &config));
    WI_TRY(check_config(&config));
    weft_zero *zero = wi_calloc(1, sizeof *zero);

    if (!zero)
        return wi_fail(WEFT_ENOMEM, "zero: create: out of memory");
    zero->config = config;
    pthread_mutex_init(&zero->lock, NULL);
    weft_status st = prepare(zero, comm);

    if (st < 0) {
        destroy(zero);
        return st;
    }
    zero->magic = WI_ZERO_MAGIC;
    *out = zero;
    return WEFT_SUCCESS;
}

weft_status weft_zero_create(weft_comm *comm, const weft_zero_config *config, weft_zero **zero)
{
    unsigned since = wi_fail_count();

    return wi_zero_publish(since, create(comm, config, zero));
}

weft_status weft_zero_destroy(weft_zero *zero)
{
    unsigned since;

    if (!zero)
        return WEFT_SUCCESS;
    if (zero->magic != WI_ZERO_MAGIC) {
        since = wi_fail_count();
        return wi_zero_publish(since, wi_fail(WEFT_EINVAL, "zero: destroy: not an engine"));
    }
    if (weft_context_check(zero->context) < 0) {
        since = wi_fail_count();
        return wi_zero_publish(
            since, wi_fail(WEFT_EINVAL, "zero: destroy: the engine is of the process from which this one was forked"));
    }
    pthread_mutex_lock(&zero->lock);
    /* What another rank still waits for is completed; what fails is over anyway. */
    if (zero->failed == WEFT_SUCCESS && zero->sealed) {
        (void)wi_zero_gather_finish_all(zero);
        (void)wi_zero_reduce_finish_all(zero);
    }
    pthread_mutex_unlock(&zero->lock);
    destroy(zero);
    return WEFT_SUCCESS;
}

static weft_status loss_scale(const weft_zero *zero, double *scale)
{
    if (!scale)
        return wi_fail(WEFT_EINVAL, "zero: loss_scale: scale is NULL");
    *scale = zero->scale.value;
    return WEFT_SUCCESS;
}

weft_status weft_zero_loss_scale(weft_zero *zero, double *scale)
{
    unsigned since;
    weft_status st = wi_zero_enter("loss_scale", zero, -1, &since);

    return st < 0 ? st : wi_zero_leave(zero, since, loss_scale(zero, scale));
}

static weft_status stats(weft_zero *zero, weft_zero_stats *out)
{
    weft_zero_stats own = zero->stats;

    WI_TRY(wi_struct_check(&stats_rule, "zero: get_stats", out));
    own.param_bytes = zero->memory.params.bytes;
    own.grad_bytes = zero->memory.grads.bytes;
    own.state_bytes = zero->memory.state.bytes + zero->update.scratch_bytes;
    own.gather_bytes = zero->memory.gather_arena.most;
    own.reduce_bytes = zero->memory.reduce_arena.most;
    own.retraces = zero->gathers.trace.retraces;
    wi_zero_offload_stats(zero, &own);
    wi_zero_tier_stats(zero, &own);
    wi_zero_swap_stats(zero, &own);
    wi_struct_write(&stats_rule, &own, out);
    return WEFT_SUCCESS;
}

weft_status weft_zero_get_stats(weft_zero *zero, weft_zero_stats *out)
{
    unsigned since;
    weft_status st = wi_zero_enter("get_stats", zero, -1, &since);

    return st < 0 ? st : wi_zero_leave(zero, since, stats(zero, out));
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Contexts: settings, transports, the list of communicators. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/status.h"
#include "base/struct_prefix.h"
#include "base/text.h"
#include "comm/comm.h"
#include <weft/weft_client.h>
#include "net/bootstrap_key.h"
#include "net/manager.h"

#define MAX_WORKERS 256

#define LIB(member) offsetof(struct wi_library_settings, member)
#define COMM(member) offsetof(struct wi_comm_settings, member)

static const struct weft_setting library_rows[] = {
    {"LOG", "", WEFT_SETTING_STRING, LIB(log), 0, 0,
     "what is logged: error, warn, info, debug or trace, optionally followed by ,file:PATH; nothing by default"},
    {"TRANSPORTS", "all", WEFT_SETTING_WORD, LIB(transports), 0, 0, "comma list of the transports that may be used"},
    {"PLUGIN_PATH", WEFT_PLUGIN_DIR, WEFT_SETTING_STRING, LIB(plugin_path), 0, 0,
     "directories, separated by colons, from which plugins are loaded"},
    {"ALGO", "", WEFT_SETTING_WORD | WEFT_SETTING_EQUAL, LIB(algo), 0, 0,
     "algorithms by hand: COLLECTIVE:[LOW-HIGH:]ALGORITHM, comma separated, sizes in bytes; the last that fits wins"},
    {"COMPRESS", "", WEFT_SETTING_WORD | WEFT_SETTING_EQUAL, LIB(compress), 0, 0,
     "codec of sums of floats by all_reduce and reduce_scatter for which the call names none, such as int8:min=64K; see "
     "weft_compress.h"},
    {"PLANS", "", WEFT_SETTING_STRING, LIB(plans), 0, 0,
     "files with algorithms (MSCCL XML, MSCCL++ JSON, weft's own), comma separated; WEFT_ALGO and calls name them file:NAME"},
    {"PROGRESS_THREAD", "y", WEFT_SETTING_BOOL, LIB(progress_thread), 0, 0,
     "whether a thread advances operations while no weft call is waiting"},
    {"WORKERS", "0", WEFT_SETTING_INT, LIB(workers), 0, MAX_WORKERS,
     "threads that do long copies and reductions of a rank, beside those that call; they start with the first such work, on the "
     "cores of the thread that has it"},
    {"WORKER_BYTES", "256K", WEFT_SETTING_BYTES, LIB(worker_bytes), 64, 1 << 30,
     "shortest copy or reduction that WEFT_WORKERS do, in bytes; shorter ones take as long to hand over"},
    {"MEM_POOL_BYTES", "256M", WEFT_SETTING_BYTES, LIB(mem_pool_bytes), 0, 0,
     "memory that weft_mem_pool_free keeps for weft_mem_pool_alloc, in bytes"},
    {"TUNING_FILE", "", WEFT_SETTING_STRING, LIB(tuning_file), 0, 0,
     "table of weft-tune by which algorithms are chosen; its contents must be the same on all ranks"},
    {"TOPO_FILE", "", WEFT_SETTING_STRING, LIB(topo_file), 0, 0,
     "description of the hosts and their links, as weft-topo exports it; its contents must be the same on all ranks"},
    {"TOPO_DISCOVER", "auto", WEFT_SETTING_WORD | WEFT_SETTING_EQUAL, LIB(topo_discover), 0, 0,
     "whether ranks read their nodes when a communicator is made, where WEFT_TOPO_FILE does not describe them: auto (of several "
     "nodes, or if WEFT_ALGO names a level inside them), always or never"},
    {"MEASURE_RATES", "n", WEFT_SETTING_BOOL | WEFT_SETTING_EQUAL, LIB(measure_rates), 0, 0,
     "whether ranks time their cores' copying and reducing when a communicator is made, and choose algorithms by the slowest of "
     "them; sums of floats may then differ in their last bits from run to run, for another algorithm may be chosen"},
    {NULL, NULL, 0, 0, 0, 0, NULL},
};

static const struct weft_setting comm_rows[] = {
    {"TIMEOUT", "5min", WEFT_SETTING_TIME, COMM(timeout_ns), 0, 0, "deadline of an operation"},
    {"INIT_TIMEOUT", "1min", WEFT_SETTING_TIME, COMM(init_timeout_ns), 0, 0, "deadline of creating a communicator"},
    {"SPIN", "-1", WEFT_SETTING_INT, COMM(spin), -1, 1000000000,
     "polls of a flag before the first yield; -1 chooses by the number of ranks per core"},
    {"YIELDS", "-1", WEFT_SETTING_INT, COMM(yields), -1, 1000000000,
     "yields of the processor before the first sleep; -1 chooses by the number of ranks per core"},
    {"SLICE_BYTES", "0", WEFT_SETTING_BYTES | WEFT_SETTING_EQUAL, COMM(slice_bytes), 0, 1 << 30,
     "largest piece of a block that is handled at once, in bytes; 0 chooses by the algorithm"},
    {"NT_BYTES", "12M", WEFT_SETTING_BYTES, COMM(nt_bytes), 0, 0,
     "results of direct algorithms of at least this many bytes bypass the caches (non-temporal stores)"},
    {"EAGER_BYTES", "16K", WEFT_SETTING_BYTES | WEFT_SETTING_EQUAL, COMM(eager_bytes), 0, 64 << 20,
     "longest message with a tag that is sent before its receiver asks for it, in bytes, at most a quarter of EARLY_BYTES"},
    {"EARLY_BYTES", "1M", WEFT_SETTING_BYTES | WEFT_SETTING_EQUAL, COMM(early_bytes), 4096, 1 << 30,
     "memory for messages of each rank that came before the receive with their tag, in bytes"},
    {"DUMP_ON_ERROR", "n", WEFT_SETTING_BOOL, COMM(dump_on_error), 0, 0,
     "whether the flight recorder is written when a communicator fails"},
    {"DUMP_PATH", "weft-dump-%r.json", WEFT_SETTING_STRING, COMM(dump_path), 0, 0,
     "file of the flight recorder; %r is the rank, %p the process"},
    {NULL, NULL, 0, 0, 0, 0, NULL},
};

static weft_status check_discover(const char *word)
{
    if (strcmp(word, "auto") == 0 || strcmp(word, "always") == 0 || strcmp(word, "never") == 0)
        return WEFT_SUCCESS;
    return wi_fail(WEFT_ECONFIG, "WEFT_TOPO_DISCOVER=%.40s: must be auto, always or never", word);
}

/* No call of an unchanged program names a tensor. */
static weft_status read_codec(const char *spec, struct wi_codec_use *use)
{
    char why[512], shown[65];

    snprintf(shown, sizeof shown, "%.64s", spec);
    wi_text_sanitize(shown, sizeof shown);
    if (wi_codec_parse_use(spec, use) < 0) {
        snprintf(why, sizeof why, "%s", wi_fail_text());
        return wi_fail(WEFT_ECONFIG, "WEFT_COMPRESS=%s: %s", shown, why);
    }
    if (use->feedback.form)
        return wi_fail(WEFT_ECONFIG, "WEFT_COMPRESS=%s: ef needs a tensor's number, which only calls can name", shown);
    return WEFT_SUCCESS;
}

static weft_status read_settings(struct weft_context *ctx, const weft_context_config *config)
{
    const char *file = config->config_file ? config->config_file : secure_getenv("WEFT_CONFIG_FILE");

    WI_TRY(wi_settings_create(file && *file ? file : NULL, config->settings, &ctx->settings));
    WI_TRY(wi_settings_read(ctx->settings, "", library_rows, &ctx->lib));
    WI_TRY(wi_log_init(ctx->lib.log));
    WI_TRY(check_discover(ctx->lib.topo_discover));
    WI_TRY(wi_settings_read(ctx->settings, "COMM", comm_rows, &ctx->comm));
    WI_TRY(wi_settings_read(ctx->settings, "", wi_bootstrap_setting_rows, &ctx->bootstrap));
    if (config->flags & ~WEFT_CONTEXT_NO_PROGRESS_THREAD)
        return wi_fail(WEFT_EINVAL, "context_create: unknown flags %#x", config->flags);
    if (config->flags & WEFT_CONTEXT_NO_PROGRESS_THREAD)
        ctx->lib.progress_thread = 0;
    return WEFT_SUCCESS;
}

static weft_status open_context(struct weft_context *ctx, const weft_context_config *config)
{
    WI_TRY(read_settings(ctx, config));
    WI_TRY(wi_node_id(ctx->bootstrap.node_id, &ctx->node));
    WI_TRY(wi_transports_open(ctx->settings, ctx->lib.transports, ctx->lib.plugin_path, ctx->bootstrap.interfaces,
                              &ctx->transports));
    ctx->bootstrap.host = &ctx->transports->host;
    WI_TRY(read_codec(ctx->lib.compress, &ctx->codec)); /* which a plugin may have */
    wi_settings_check_unknown(ctx->settings);
    wi_settings_key_misspelt(ctx->settings, ctx->key_misspelt, sizeof ctx->key_misspelt);
    if (ctx->lib.workers && !(ctx->workers = wi_workers_create((int)ctx->lib.workers, ctx->lib.worker_bytes)))
        return wi_fail(WEFT_ENOMEM, "%d workers", (int)ctx->lib.workers);
    WI_TRY(wi_plans_read(ctx->lib.plans, &ctx->plans));
    ctx->settings_hash = wi_settings_hash(ctx->settings, NULL) + wi_plans_hash(ctx->plans);
    return wi_locality_files(ctx);
}

weft_status weft_context_create(const weft_context_config *config, weft_context **context)
{
    static const struct wi_struct_rule rule = WI_STRUCT_RULE(weft_context_config, "WEFT_CONTEXT_CONFIG_INIT", bytes);
    weft_context_config own = WEFT_CONTEXT_CONFIG_INIT;
    struct weft_context *ctx;
    weft_status st;

    if (!context)
        return wi_fail(WEFT_EINVAL, "context_create: context is NULL");
    if (config)
        WI_TRY(wi_struct_read(&rule, "context_create", config, &own));
    ctx = wi_calloc(1, sizeof *ctx);
    if (!ctx)
        return wi_fail(WEFT_ENOMEM, "context");
    ctx->magic = WI_CONTEXT_MAGIC;
    ctx->progress.event_fd = -1;
    pthread_mutex_init(&ctx->comms_lock, NULL);
    pthread_mutex_init(&ctx->blocks.lock, NULL);
    wi_pool_init(&ctx->pool);
    wi_callers_init(ctx);
    wi_fork_watch(ctx);
    st = open_context(ctx, &own);
    if (st < 0) {
        weft_context_destroy(ctx);
        return st;
    }
    *context = ctx;
    return WEFT_SUCCESS;
}

weft_status wi_context_check(const struct weft_context *ctx, const char *call)
{
    if (ctx && ctx->magic == WI_CONTEXT_MAGIC)
        return WEFT_SUCCESS;
    if (!ctx)
        return wi_fail(WEFT_EINVAL, "%s: context is NULL", call);
    return wi_fail(WEFT_EINVAL, "%s: not a context of this process%s", call, wi_forked_text(ctx->magic));
}

weft_status weft_context_check(const weft_context *ctx)
{
    return wi_context_check(ctx, "context_check");
}

static const char *key_text(weft_key_state key)
{
    switch (key) {
    case WEFT_KEY_REFUSED:
        return wi_fail_text();
    case WEFT_KEY_UNREAD:
        return "WEFT_JOB_KEY_FD is a pipe, not read: who reads it takes the key from the ranks";
    case WEFT_KEY_CONFIGURED:
        return "a job key is configured";
    case WEFT_KEY_INSECURE:
        return "WEFT_INSECURE is set and there is no job key: anyone who reaches the network can join a job on several hosts, "
               "read what it sends and change it";
    default:
        return "no job key: a job on several hosts needs one (weft-run --make-key)";
    }
}

weft_status weft_context_security(weft_context *ctx, weft_security *security)
{
    static const struct wi_struct_rule rule = WI_STRUCT_RULE(weft_security, "WEFT_SECURITY_INIT", bytes);
    static __thread char text[512], misspelt[sizeof ctx->key_misspelt];
    weft_security found = WEFT_SECURITY_INIT;

    WI_TRY(wi_context_check(ctx, "context_security"));
    WI_TRY(wi_struct_check(&rule, "context_security", security));
    found.key = wi_job_key_state(&ctx->bootstrap);
    found.required = ctx->bootstrap.require_key != 0;
    snprintf(text, sizeof text, "%s", key_text(found.key));
    snprintf(misspelt, sizeof misspelt, "%s", ctx->key_misspelt);
    found.text = text;
    found.misspelt = misspelt[0] ? misspelt : NULL;
    wi_struct_write(&rule, &found, security);
    return WEFT_SUCCESS;
}

weft_status weft_context_destroy(weft_context *ctx)
{
    if (!ctx)
        return WEFT_SUCCESS;
    WI_TRY(wi_context_check(ctx, "context_destroy"));
    if (ctx->comms)
        return wi_fail(WEFT_EBUSY, "context_destroy: communicator \"%s\" still exists", ctx->comms->name);
    if (atomic_load(&ctx->registrations))
        return wi_fail(WEFT_EBUSY, "context_destroy: %d registrations of memory still exist",
                       atomic_load(&ctx->registrations));
    WI_TRY(wi_callers_stop(ctx));
    wi_fork_unwatch(ctx);
    wi_progress_stop(ctx);
    wi_workers_destroy(ctx->workers);
    wi_mem_blocks_fini(ctx);
    wi_transports_close(ctx->transports);
    wi_locality_files_free(ctx);
    wi_plans_free(ctx->plans);
    wi_settings_destroy(ctx->settings);
    wi_pool_fini(&ctx->pool);
    pthread_mutex_destroy(&ctx->comms_lock);
    ctx->magic = 0;
    wi_free(ctx);
    return WEFT_SUCCESS;
}

void wi_context_link(struct weft_context *ctx, struct weft_comm *comm)
{
    struct weft_comm **link = &ctx->comms;

    pthread_mutex_lock(&ctx->comms_lock);
    while (*link && (*link)->priority > comm->priority)
        link = &(*link)->next;
    comm->next = *link;
    *link = comm;
    pthread_mutex_unlock(&ctx->comms_lock);
}

/* The progress thread may look at it just now. It finds the lock taken for good, so that its look is short. */
static void await_look(struct weft_context *ctx, const struct weft_comm *comm)
{
    for (uint32_t round = 0; ctx->progress.at == comm || ctx->progress.urgent == comm; round++) {
        pthread_mutex_unlock(&ctx->comms_lock);
        wi_stand_by(round);
        pthread_mutex_lock(&ctx->comms_lock);
    }
}

void wi_context_unlink(struct weft_context *ctx, struct weft_comm *comm)
{
    pthread_mutex_lock(&ctx->comms_lock);
    for (struct weft_comm **link = &ctx->comms; *link; link = &(*link)->next)
        if (*link == comm) {
            *link = comm->next;
            break;
        }
    if (ctx->progress.next == comm)
        ctx->progress.next = comm->next;
    if (ctx->progress.next_urgent == comm)
        ctx->progress.next_urgent = comm->next;
    await_look(ctx, comm);
    pthread_mutex_unlock(&ctx->comms_lock);
}

weft_status weft_context_read_settings(weft_context *ctx, const char *module, const struct weft_setting *rows,
                                       void *values)
{
    WI_TRY(wi_context_check(ctx, "context_read_settings"));
    if (!module || !rows || !values)
        return wi_fail(WEFT_EINVAL, "context_read_settings: %s is NULL",
                       !module ? "module"
                       : !rows ? "rows"
                               : "values");
    return wi_settings_read_client(ctx->settings, module, rows, values);
}

weft_status weft_context_settings(weft_context *ctx, weft_setting_fn fn, void *arg)
{
    WI_TRY(wi_context_check(ctx, "context_settings"));
    if (!fn)
        return wi_fail(WEFT_EINVAL, "context_settings: fn is NULL");
    wi_settings_visit(ctx->settings, fn, arg);
    return WEFT_SUCCESS;
}

struct visit {
    weft_plugin_fn fn;
    void *arg;
};

static void visit_manager(void *arg, const struct weft_plugin *plugin, const char *path)
{
    const struct visit *visit = arg;
    weft_plugin_info loaded = {sizeof loaded, "manager", plugin->name, path, NULL};

    visit->fn(visit->arg, &loaded);
}

weft_status weft_context_plugins(weft_context *ctx, weft_plugin_fn fn, void *arg)
{
    const struct weft_plugin *codec;
    struct visit visit = {fn, arg};

    WI_TRY(wi_context_check(ctx, "context_plugins"));
    if (!fn)
        return wi_fail(WEFT_EINVAL, "context_plugins: fn is NULL");
    for (int i = 0; i < ctx->transports->count; i++) {
        const struct wi_transport *t = &ctx->transports->list[i];
        weft_plugin_info open = {sizeof open, "transport", t->plugin->name, t->path, NULL};
        fn(arg, &open);
    }
    for (size_t i = 0; (codec = wi_codec_at(i)) != NULL; i++)
        if (wi_codec_path(codec)) {
            weft_plugin_info kept = {sizeof kept, "codec", codec->name, wi_codec_path(codec), NULL};
            fn(arg, &kept);
        }
    wi_manager_visit(visit_manager, &visit);
    for (const struct wi_refused_plugin *r = ctx->transports->left_out; r; r = r->next) {
        weft_plugin_info left_out = {sizeof left_out, "transport", r->name, r->path, r->why};
        fn(arg, &left_out);
    }
    for (const struct wi_refused_plugin *r = ctx->transports->refused; r; r = r->next) {
        const char *slash = strrchr(r->path, '/');
        weft_plugin_info refused = {sizeof refused, "", slash ? slash + 1 : r->path, r->path, r->why};
        fn(arg, &refused);
    }
    return WEFT_SUCCESS;
}

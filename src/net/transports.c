/* SPDX-License-Identifier: BSD-3-Clause */
/* Opening transports: built in, and from plugin directories. */
#include "net/transports.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fds.h"
#include "base/log.h"
#include "base/process.h"
#include "base/secret.h"
#include "base/reduce.h"
#include "base/status.h"
#include "base/trusted_path.h"
#include "net/channel.h"

extern const struct weft_plugin weft_plugin_shm;
extern const struct weft_plugin weft_plugin_tcp;
extern const struct weft_plugin weft_plugin_inproc;

static const struct weft_plugin *const built_in[] = {&weft_plugin_shm, &weft_plugin_tcp, &weft_plugin_inproc};

/* ---- Stubs for entries that a plugin leaves out ---- */

static weft_status stub_xfer(void *group, struct weft_xfer *x)
{
    (void)group, (void)x;
    return WEFT_ENOTSUP;
}

static int stub_progress(void *group, struct weft_peer_failure *failure)
{
    (void)group, (void)failure;
    return 0;
}

static int stub_poll_fd(void *group)
{
    (void)group;
    return -1;
}

static int stub_poll_arm(void *group)
{
    (void)group;
    return 0;
}

static weft_status stub_mapped(void *group, struct weft_mapped *mapped)
{
    (void)group, (void)mapped;
    return WEFT_ENOTSUP;
}

static void stub_wake(void *group)
{
    (void)group;
}

static weft_status stub_mem_alloc(void *endpoint, size_t bytes, void **ptr)
{
    (void)endpoint, (void)bytes, (void)ptr;
    return WEFT_ENOTSUP;
}

static weft_status stub_mem_ptr(void *endpoint, void *ptr)
{
    (void)endpoint, (void)ptr;
    return WEFT_ENOTSUP;
}

static weft_status stub_mem_adopt(void *endpoint, void *ptr, size_t bytes, void **adopted, size_t *adopted_bytes)
{
    (void)endpoint, (void)ptr, (void)bytes, (void)adopted, (void)adopted_bytes;
    return WEFT_ENOTSUP;
}

static void stub_mem_describe(void *endpoint, const void *ptr, size_t bytes, struct weft_mem_desc *desc)
{
    (void)endpoint;
    *desc = (struct weft_mem_desc){0, 0, (uint64_t)(uintptr_t)ptr, bytes};
}

static weft_status stub_mem_map(void *group, int peer, const struct weft_mem_desc *desc, void **ptr)
{
    (void)group, (void)peer, (void)desc, (void)ptr;
    return WEFT_ENOTSUP;
}

static weft_status stub_mem_get(void *group, int peer, uint64_t remote, void *local, size_t bytes)
{
    (void)group, (void)peer, (void)remote, (void)local, (void)bytes;
    return WEFT_ENOTSUP;
}

static weft_status stub_mem_put(void *group, int peer, uint64_t remote, const void *local, size_t bytes)
{
    (void)group, (void)peer, (void)remote, (void)local, (void)bytes;
    return WEFT_ENOTSUP;
}

static size_t stub_describe_peer(void *group, int peer, char *text, size_t capacity)
{
    (void)group, (void)peer, (void)text, (void)capacity;
    return 0;
}

static int stub_peek(void *group, int peer, uint32_t chan, int connect, struct weft_op_info *info, size_t *bytes)
{
    (void)group, (void)peer, (void)chan, (void)connect, (void)info, (void)bytes;
    return WEFT_ENOTSUP;
}

static weft_status stub_mem_register(void *endpoint, void *ptr, size_t bytes, uint32_t memory, void **mem)
{
    (void)endpoint, (void)ptr, (void)bytes, (void)memory, (void)mem;
    return WEFT_ENOTSUP;
}

static void stub_mem_ended(void *where, void *mem)
{
    (void)where, (void)mem;
}

static weft_status stub_mem_key(void *endpoint, void *mem, void *key, size_t capacity, size_t *bytes)
{
    (void)endpoint, (void)mem, (void)key, (void)capacity, (void)bytes;
    return WEFT_ENOTSUP;
}

static weft_status stub_mem_import(void *group, int peer, const void *key, size_t bytes, void **remote)
{
    (void)group, (void)peer, (void)key, (void)bytes, (void)remote;
    return WEFT_ENOTSUP;
}

static weft_status stub_rma(void *group, struct weft_rma *r)
{
    (void)group, (void)r;
    return WEFT_ENOTSUP;
}

/* Memory that is touched inside of calls only is quiet between them. */
static weft_status stub_quiesce(void *group, uint64_t deadline_ns)
{
    (void)group, (void)deadline_ns;
    return WEFT_SUCCESS;
}

weft_status wi_transport_complete(const struct weft_plugin *plugin, struct weft_transport_ops *out)
{
    const struct weft_transport_ops *theirs = plugin->ops;
    size_t known = theirs->bytes < sizeof *out ? theirs->bytes : sizeof *out;

    memset(out, 0, sizeof *out);
    memcpy(out, theirs, known);
    out->bytes = sizeof *out;
    if (!out->open || !out->close || !out->address || !out->reachable || !out->group_create || !out->group_destroy)
        return wi_fail(WEFT_EPLUGIN,
                       "transport %s lacks a required entry (open, close, address, reachable, "
                       "group_create, group_destroy)",
                       plugin->name);
#define FILL(entry, stub) out->entry = out->entry ? out->entry : (stub)
    FILL(send, stub_xfer);
    FILL(recv, stub_xfer);
    FILL(progress, stub_progress);
    FILL(poll_fd, stub_poll_fd);
    FILL(poll_arm, stub_poll_arm);
    FILL(mapped, stub_mapped);
    FILL(wake, stub_wake);
    FILL(mem_alloc, stub_mem_alloc);
    FILL(mem_free, stub_mem_ptr);
    FILL(mem_adopt, stub_mem_adopt);
    FILL(mem_release, stub_mem_ptr);
    FILL(mem_describe, stub_mem_describe);
    FILL(mem_map, stub_mem_map);
    FILL(mem_get, stub_mem_get);
    FILL(mem_put, stub_mem_put);
    FILL(describe_peer, stub_describe_peer);
    FILL(peek, stub_peek);
    FILL(mem_register, stub_mem_register);
    FILL(mem_deregister, stub_mem_ended);
    FILL(mem_key, stub_mem_key);
    FILL(mem_import, stub_mem_import);
    FILL(mem_forget, stub_mem_ended);
    FILL(get, stub_rma);
    FILL(put, stub_rma);
    FILL(quiesce, stub_quiesce);
#undef FILL
    return WEFT_SUCCESS;
}

/* ---- Host services ---- */

static void host_log(void *impl, enum weft_log_level level, const char *event, const char *format, ...)
{
    va_list ap;

    (void)impl;
    if ((int)level > __atomic_load_n(&wi_log_level, __ATOMIC_RELAXED))
        return;
    va_start(ap, format);
    wi_log_vwrite(level, event, format, ap);
    va_end(ap);
}

static uint64_t host_now_ns(void)
{
    return wi_now_ns();
}

static void host_explain(void *impl, weft_status status, const char *format, ...)
{
    char text[512];
    va_list ap;

    (void)impl;
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    wi_fail(status, "%s", text);
}

static int find_key(void *arg, const void *claim, size_t claim_bytes, struct wi_auth_key *key)
{
    struct wi_transports *t = arg;
    const struct wi_comm_key *k;
    uint64_t comm_id[2];

    if (claim_bytes < sizeof comm_id)
        return 0;
    memcpy(comm_id, claim, sizeof comm_id);
    pthread_mutex_lock(&t->keys_lock);
    for (k = t->keys; k && memcmp(k->comm_id, comm_id, sizeof comm_id);)
        k = k->next;
    for (int i = 0; !k && i < WI_GONE_KEYS; i++)
        if (t->gone[i] && memcmp(t->gone[i]->comm_id, comm_id, sizeof comm_id) == 0)
            k = t->gone[i];
    if (k)
        *key = k->key;
    pthread_mutex_unlock(&t->keys_lock);
    return k != NULL;
}

static struct weft_auth *host_auth_create(void *impl, int is_server, const void *claim, size_t claim_bytes)
{
    struct wi_auth_key key;
    struct weft_auth *auth;

    if (is_server) {
        auth = wi_auth_create_server(find_key, impl, claim, claim_bytes);
        if (auth)
            wi_auth_remember(auth, ((struct wi_transports *)impl)->seen);
        return auth;
    }
    auth = find_key(impl, claim, claim_bytes, &key) ? wi_auth_create(&key, 0, claim, claim_bytes) : NULL;
    explicit_bzero(&key, sizeof key);
    return auth;
}

static void host_copy(void *dst, const void *src, size_t bytes, int stream)
{
    wi_copy(dst, src, bytes, stream ? WI_REDUCE_NT : 0);
}

static void host_init(struct wi_transports *t)
{
    t->host = (struct weft_host){
        .bytes = sizeof t->host,
        .impl = t,
        .log = host_log,
        .now_ns = host_now_ns,
        .explain = host_explain,
        .auth_create = host_auth_create,
        .auth_step = wi_auth_step,
        .auth_destroy = wi_auth_destroy,
        .copy = host_copy,
        .auth_session = wi_auth_session,
        .auth_expect = wi_auth_expect,
        .side_request = wi_side_request,
        .side_response = wi_side_response,
        .side_requested = wi_side_requested,
        .side_respond = wi_side_respond,
        .side_fd = wi_side_fd,
        .fd_keep = wi_fd_keep,
        .fd_close = wi_fd_close,
        .process_self = wi_process_self,
        .process_state = wi_process_state,
    };
}

/* ---- Opening ---- */

static int name_in_list(const char *name, const char *list)
{
    size_t n = strlen(name);

    if (!list || !*list || strcasecmp(list, "all") == 0)
        return 1;
    for (const char *p = list; *p;) {
        size_t len = strcspn(p, ",");
        if (len == n && strncasecmp(p, name, n) == 0)
            return 1;
        p += len + (p[len] == ',');
    }
    return 0;
}

static weft_status check_plugin(const struct weft_plugin *p, const char *path)
{
    if (p->abi == 1)
        return wi_fail(WEFT_EPLUGIN,
                       "plugin %s was built for plugin ABI 1, this library has %u: build it again with this "
                       "weft_plugin.h, whose end says what a transport must change",
                       path, WEFT_PLUGIN_ABI);
    if (p->abi != WEFT_PLUGIN_ABI)
        return wi_fail(WEFT_EPLUGIN, "plugin %s was built for plugin ABI %u, this library has %u: %s", path, p->abi,
                       WEFT_PLUGIN_ABI,
                       p->abi > WEFT_PLUGIN_ABI ? "use a newer libweft" : "build it again with this weft_plugin.h");
    if (p->bytes < offsetof(struct weft_plugin, ops) + sizeof p->ops || !p->name || !p->ops)
        return wi_fail(WEFT_EPLUGIN, "plugin %s: its description is too short (%u bytes) or lacks a name or ops", path,
                       p->bytes);
    if (p->kind != WEFT_PLUGIN_TRANSPORT && p->kind != WEFT_PLUGIN_DEVICE)
        return wi_fail(WEFT_EPLUGIN, "plugin %s (%s): kind %d is not known to this library", path, p->name,
                       (int)p->kind);
    return WEFT_SUCCESS;
}

static void upper(char *out, size_t capacity, const char *name)
{
    size_t i;

    for (i = 0; name[i] && i + 1 < capacity; i++)
        out[i] = name[i] >= 'a' && name[i] <= 'z' ? (char)(name[i] - 'a' + 'A') : name[i];
    out[i] = '\0';
}

static weft_status put_channels_above(struct wi_transports *t, struct wi_transport *slot)
{
    void *wrapped;

    if (!wi_channel_needed(slot->plugin->caps))
        return WEFT_SUCCESS;
    slot->raw = slot->ops;
    WI_TRY(wi_channel_wrap(slot->plugin, &t->host, &slot->raw, slot->endpoint, &wrapped));
    slot->endpoint = wrapped;
    slot->ops = wi_channel_ops;
    return WEFT_SUCCESS;
}

/* Takes path and handle on success. */
static weft_status add(struct wi_transports *t, struct wi_settings *settings, const struct weft_plugin *plugin,
                       char *path, void *handle)
{
    struct wi_transport *slot = &t->list[t->count];
    char module[32];
    weft_status st;

    if (t->count == WI_MAX_TRANSPORTS)
        return wi_fail(WEFT_EPLUGIN, "more than %d transports", WI_MAX_TRANSPORTS);
    memset(slot, 0, sizeof *slot);
    slot->plugin = plugin;
    WI_TRY(wi_transport_complete(plugin, &slot->ops));
    if (plugin->settings) {
        slot->settings = wi_calloc(1, plugin->settings_bytes);
        if (!slot->settings)
            return wi_fail(WEFT_ENOMEM, "settings of transport %s", plugin->name);
        upper(module, sizeof module, plugin->name);
        st = wi_settings_read(settings, module, plugin->settings, slot->settings);
        if (st < 0)
            goto free_settings;
    }
    wi_fail_clear();
    st = slot->ops.open(&t->host, slot->settings, &slot->endpoint);
    if (st < 0 && !*wi_fail_text()) /* a plugin need not explain */
        wi_fail(st, "opening transport %s: %s", plugin->name, weft_status_text(st));
    if (st < 0)
        goto free_settings;
    st = put_channels_above(t, slot);
    if (st < 0) {
        slot->ops.close(slot->endpoint);
        goto free_settings;
    }
    slot->path = path;
    slot->handle = handle;
    t->count++;
    return WEFT_SUCCESS;

free_settings:
    wi_free(slot->settings);
    slot->settings = NULL;
    return st;
}

static weft_status add_device(struct wi_transports *t, struct wi_settings *settings, const struct weft_plugin *plugin,
                              void *handle)
{
    char module[32];
    void *values = NULL;
    weft_status st = WEFT_SUCCESS;

    if (plugin->settings) {
        values = wi_calloc(1, plugin->settings_bytes);
        if (!values)
            return wi_fail(WEFT_ENOMEM, "settings of device %s", plugin->name);
        upper(module, sizeof module, plugin->name);
        st = wi_settings_read(settings, module, plugin->settings, values);
    }
    if (st >= 0)
        st = wi_devices_add(&t->devices, plugin, &t->host, values, handle);
    if (st < 0)
        wi_free(values);
    return st;
}

static weft_status add_if_works(struct wi_transports *t, struct wi_settings *settings, const struct weft_plugin *plugin,
                                char *path, void *handle, int *added)
{
    weft_status st = plugin->kind == WEFT_PLUGIN_DEVICE ? add_device(t, settings, plugin, handle)
                                                        : add(t, settings, plugin, path, handle);

    *added = st >= 0;
    if (st == WEFT_ENOTSUP) {
        wi_log(WEFT_LOG_INFO, "net.transport", "%s is left out: %s", plugin->name, wi_fail_text());
        wi_fail_clear();
        return WEFT_SUCCESS;
    }
    return st;
}

static void free_refused(struct wi_refused_plugin *refused)
{
    while (refused) {
        struct wi_refused_plugin *next = refused->next;
        wi_free(refused->path);
        wi_free(refused->why);
        wi_free(refused);
        refused = next;
    }
}

/* Plugins are code: any user who could have changed one runs it in this process. */
static weft_status check_trusted(struct wi_transports *t, const char *path, int *trusted)
{
    char why[4096 + 512];
    struct wi_refused_plugin *refused;

    *trusted = wi_path_trusted(path, why, sizeof why);
    if (*trusted)
        return WEFT_SUCCESS;
    wi_log(WEFT_LOG_WARN, "net.plugin", "%s is not loaded: %s", path, why);
    refused = wi_calloc(1, sizeof *refused);
    if (!refused)
        return wi_fail(WEFT_ENOMEM, "plugin %s", path);
    refused->path = wi_strdup(path);
    refused->why = wi_strdup(why);
    if (!refused->path || !refused->why) {
        free_refused(refused);
        return wi_fail(WEFT_ENOMEM, "plugin %s", path);
    }
    refused->next = t->refused;
    t->refused = refused;
    return WEFT_SUCCESS;
}

static weft_status load_file(struct wi_transports *t, struct wi_settings *settings, const char *wanted,
                             const char *path)
{
    const struct weft_plugin *plugin;
    char *copy = NULL;
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    weft_status st;
    int added = 0;

    if (!handle)
        return wi_fail(WEFT_EPLUGIN, "plugin %s: %s", path, dlerror());
    plugin = dlsym(handle, WEFT_PLUGIN_SYMBOL);
    if (!plugin) {
        st = wi_fail(WEFT_EPLUGIN, "plugin %s: no symbol %s", path, WEFT_PLUGIN_SYMBOL);
        goto out;
    }
    st = check_plugin(plugin, path);
    if (st < 0 || !name_in_list(plugin->name, wanted))
        goto out;
    copy = wi_strdup(path);
    if (!copy) {
        st = wi_fail(WEFT_ENOMEM, "plugin %s", path);
        goto out;
    }
    st = add_if_works(t, settings, plugin, copy, handle, &added);
out:
    if (!added || plugin->kind == WEFT_PLUGIN_DEVICE)
        wi_free(copy);
    if (!added)
        dlclose(handle);
    return st;
}

static weft_status load_if_trusted(struct wi_transports *t, struct wi_settings *settings, const char *wanted,
                                   const char *path)
{
    int trusted;

    WI_TRY(check_trusted(t, path, &trusted));
    return trusted ? load_file(t, settings, wanted, path) : WEFT_SUCCESS;
}

static int is_plugin_file(const struct dirent *entry)
{
    size_t len = strlen(entry->d_name);

    return len > 3 && strcmp(entry->d_name + len - 3, ".so") == 0;
}

static weft_status load_directory(struct wi_transports *t, struct wi_settings *settings, const char *wanted,
                                  const char *dir)
{
    struct dirent **names;
    char path[4096 + 256];
    weft_status st = WEFT_SUCCESS;
    int trusted = 0, n = scandir(dir, &names, is_plugin_file, alphasort);

    if (n < 0) { /* nothing to load: usual of the installed directory, where no plugin is installed */
        int err = errno;
        if (strcmp(dir, WEFT_PLUGIN_DIR) != 0)
            wi_log(WEFT_LOG_WARN, "plugin.path", "WEFT_PLUGIN_PATH: %s: %s; no plugin is loaded from there", dir,
                   strerror(err));
        return WEFT_SUCCESS;
    }
    if (n > 0)
        st = check_trusted(t, dir, &trusted);
    for (int i = 0; i < n; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, names[i]->d_name);
        if (st >= 0 && trusted)
            st = load_if_trusted(t, settings, wanted, path);
        free(names[i]);
    }
    free(names);
    return st;
}

static weft_status load_path(struct wi_transports *t, struct wi_settings *settings, const char *wanted,
                             const char *plugin_path)
{
    char dir[4096];

    for (const char *p = plugin_path; p && *p;) {
        size_t len = strcspn(p, ":");
        if (len && len < sizeof dir) {
            memcpy(dir, p, len);
            dir[len] = '\0';
            WI_TRY(load_directory(t, settings, wanted, dir));
        }
        p += len + (p[len] == ':');
    }
    return WEFT_SUCCESS;
}

static weft_status check_wanted(const struct wi_transports *t, const char *wanted)
{
    if (!wanted || !*wanted || strcasecmp(wanted, "all") == 0)
        return WEFT_SUCCESS;
    for (const char *p = wanted; *p;) {
        size_t len = strcspn(p, ",");
        int found = 0;
        for (int i = 0; i < t->count && !found; i++) {
            const char *name = t->list[i].plugin->name;
            found = strlen(name) == len && strncasecmp(name, p, len) == 0;
        }
        if (!found)
            return wi_fail(WEFT_ECONFIG, "WEFT_TRANSPORTS names \"%.*s\", which does not exist or cannot work here%s%s",
                           (int)len, p, t->refused ? "; a plugin was not loaded: " : "",
                           t->refused ? t->refused->why : "");
        p += len + (p[len] == ',');
    }
    return WEFT_SUCCESS;
}

static weft_status open_side(struct wi_transports *t, const char *interfaces)
{
    struct wi_side_config config = {
        .find_key = find_key,
        .find_arg = t,
        .seen = t->seen,
        .interfaces = interfaces && *interfaces ? interfaces : NULL,
    };

    return wi_transports_with(t, WEFT_CAP_SIDE) ? wi_side_create(&config, &t->side) : WEFT_SUCCESS;
}

weft_status wi_transports_open(struct wi_settings *settings, const char *wanted, const char *plugin_path,
                               const char *interfaces, struct wi_transports **transports)
{
    struct wi_transports *t = wi_calloc(1, sizeof *t);
    weft_status st = WEFT_SUCCESS;
    int added;

    if (!t)
        return wi_fail(WEFT_ENOMEM, "transport table");
    pthread_mutex_init(&t->keys_lock, NULL);
    host_init(t);
    t->seen = wi_auth_seen_create();
    if (!t->seen)
        st = wi_fail(WEFT_ENOMEM, "table of answered hellos");
    for (size_t i = 0; st >= 0 && i < sizeof built_in / sizeof *built_in; i++)
        if (name_in_list(built_in[i]->name, wanted))
            st = add_if_works(t, settings, built_in[i], NULL, NULL, &added);
    if (st >= 0)
        st = load_path(t, settings, wanted, plugin_path);
    if (st >= 0)
        st = check_wanted(t, wanted);
    if (st >= 0)
        st = open_side(t, interfaces);
    if (st < 0) {
        wi_transports_close(t);
        return st;
    }
    *transports = t;
    return WEFT_SUCCESS;
}

void wi_transports_close(struct wi_transports *t)
{
    if (!t)
        return;
    wi_side_destroy(t->side);
    wi_devices_close(&t->devices);
    free_refused(t->refused);
    for (int i = t->count - 1; i >= 0; i--) {
        t->list[i].ops.close(t->list[i].endpoint);
        wi_free(t->list[i].settings);
        if (t->list[i].handle)
            dlclose(t->list[i].handle);
        wi_free(t->list[i].path);
    }
    for (int i = 0; i < WI_GONE_KEYS; i++)
        wi_secret_free(t->gone[i]);
    wi_auth_seen_destroy(t->seen);
    pthread_mutex_destroy(&t->keys_lock);
    wi_free(t);
}

weft_status wi_transports_add_key(struct wi_transports *t, const uint64_t comm_id[2], const unsigned char *job_key,
                                  size_t bytes, const char *job)
{
    struct wi_comm_key *k = wi_secret_alloc(sizeof *k);
    weft_status st;

    if (!k)
        return wi_fail(WEFT_ENOMEM, "key of a communicator");
    memcpy(k->comm_id, comm_id, sizeof k->comm_id);
    st = wi_auth_derive(job_key, bytes, job, "transport", &k->key);
    if (st < 0) {
        wi_secret_free(k);
        return st;
    }
    pthread_mutex_lock(&t->keys_lock);
    k->next = t->keys;
    t->keys = k;
    pthread_mutex_unlock(&t->keys_lock);
    return WEFT_SUCCESS;
}

void wi_transports_drop_key(struct wi_transports *t, const uint64_t comm_id[2])
{
    struct wi_comm_key **link = &t->keys, **place, *gone, *oldest = NULL;

    pthread_mutex_lock(&t->keys_lock);
    while (*link && memcmp((*link)->comm_id, comm_id, sizeof(*link)->comm_id))
        link = &(*link)->next;
    gone = *link;
    if (gone) {
        *link = gone->next;
        place = &t->gone[t->gone_next++ % WI_GONE_KEYS];
        oldest = *place;
        *place = gone;
    }
    pthread_mutex_unlock(&t->keys_lock);
    wi_secret_free(oldest);
}

struct wi_transport *wi_transports_find(struct wi_transports *t, const char *name)
{
    for (int i = 0; i < t->count; i++)
        if (strcmp(t->list[i].plugin->name, name) == 0)
            return &t->list[i];
    return NULL;
}

struct wi_transport *wi_transports_with(struct wi_transports *t, uint32_t cap)
{
    for (int i = 0; i < t->count; i++)
        if (t->list[i].plugin->caps & cap)
            return &t->list[i];
    return NULL;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Opening transports: built in, and from plugin directories. */
#include "net/transports.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
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
#include "compress/codec.h"
#include "net/channel.h"
#include "net/manager.h"
#include "net/transports_refused.h"

extern const struct weft_plugin weft_plugin_shm;
extern const struct weft_plugin weft_plugin_tcp;
extern const struct weft_plugin weft_plugin_inproc;

static const struct weft_plugin *const built_in[] = {&weft_plugin_shm, &weft_plugin_tcp, &weft_plugin_inproc};

/* ---- Host services ---- */

static int host_log_wanted(void *impl, enum weft_log_level level)
{
    (void)impl;
    return (int)level <= __atomic_load_n(&wi_log_level, __ATOMIC_RELAXED);
}

static void host_log(void *impl, enum weft_log_level level, const char *event, const char *format, ...)
{
    va_list ap;

    (void)impl;
    if (!host_log_wanted(impl, level))
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
        .path_trusted = wi_path_trusted,
        .log_wanted = host_log_wanted,
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

/* WEFT_EPLUGIN: it is none that this library could use. */
static weft_status check_plugin(const struct weft_plugin *p)
{
    if (p->abi == 1)
        return wi_fail(WEFT_EPLUGIN,
                       "it was built for plugin ABI 1, this library has %u: build it again with this weft_plugin.h, "
                       "whose end says what a transport must change",
                       WEFT_PLUGIN_ABI);
    if (p->abi != WEFT_PLUGIN_ABI)
        return wi_fail(WEFT_EPLUGIN, "it was built for plugin ABI %u, this library has %u: %s", p->abi, WEFT_PLUGIN_ABI,
                       p->abi > WEFT_PLUGIN_ABI ? "use a newer libweft" : "build it again with this weft_plugin.h");
    if (p->bytes < offsetof(struct weft_plugin, ops) + sizeof p->ops || !p->name || !p->ops)
        return wi_fail(WEFT_EPLUGIN, "its description is too short (%u bytes) or lacks a name or ops", p->bytes);
    if (p->kind != WEFT_PLUGIN_TRANSPORT && p->kind != WEFT_PLUGIN_DEVICE && p->kind != WEFT_PLUGIN_CODEC &&
        p->kind != WEFT_PLUGIN_MANAGER)
        return wi_fail(WEFT_EPLUGIN, "its kind, %d, is not known to this library", (int)p->kind);
    if (p->kind == WEFT_PLUGIN_TRANSPORT && strlen(p->name) > WEFT_TRANSPORT_NAME_MAX)
        return wi_fail(WEFT_EPLUGIN, "its name, %s, has more than %d letters, and ranks could not exchange it", p->name,
                       WEFT_TRANSPORT_NAME_MAX);
    return WEFT_SUCCESS;
}

/* The first of a name counts. */
static weft_status check_name(const struct wi_transports *t, const struct weft_plugin *p)
{
    int device = p->kind == WEFT_PLUGIN_DEVICE;

    for (size_t i = 0; !device && i < sizeof built_in / sizeof *built_in; i++)
        if (strcasecmp(built_in[i]->name, p->name) == 0)
            return wi_fail(WEFT_EPLUGIN, "transport %s is built in, and the built-in one counts", p->name);
    for (int i = 0; !device && i < t->count; i++)
        if (strcasecmp(t->list[i].plugin->name, p->name) == 0)
            return wi_fail(WEFT_EPLUGIN, "transport %s was loaded from %s, and the first of a name counts", p->name,
                           t->list[i].path);
    for (int i = 0; device && i < t->devices.count; i++)
        if (strcasecmp(t->devices.list[i].plugin->name, p->name) == 0)
            return wi_fail(WEFT_EPLUGIN, "device %s was loaded from another file, and the first of a name counts",
                           p->name);
    return WEFT_SUCCESS;
}

/* A folder may be searched twice. */
static int is_loaded(const struct wi_transports *t, const struct weft_plugin *p)
{
    int loaded = 0;

    for (int i = 0; i < t->count; i++)
        loaded |= t->list[i].plugin == p;
    for (int i = 0; i < t->devices.count; i++)
        loaded |= t->devices.list[i].plugin == p;
    return loaded;
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
        upper(slot->module, sizeof slot->module, plugin->name);
        st = wi_settings_read_transport(settings, slot->module, plugin->settings, slot->settings);
        if (st < 0)
            goto free_settings;
        slot->settings_hash = wi_settings_hash(settings, slot->module);
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

/* So that its settings are not taken for misspelt names. What they hold does not matter. */
static void read_left_out(struct wi_settings *settings, const struct weft_plugin *plugin)
{
    char module[sizeof((struct wi_transport *)0)->module];
    void *values = plugin->settings ? wi_calloc(1, plugin->settings_bytes) : NULL;

    if (!values)
        return;
    upper(module, sizeof module, plugin->name);
    wi_settings_read_transport(settings, module, plugin->settings, values);
    wi_free(values);
    wi_fail_clear();
}

/* The caller frees what it gets, which is NULL where the plugin has no settings, also after a failure. */
static weft_status read_values(struct wi_settings *settings, const struct weft_plugin *plugin, void **values)
{
    char module[32];

    *values = NULL;
    if (!plugin->settings)
        return WEFT_SUCCESS;
    *values = wi_calloc(1, plugin->settings_bytes);
    if (!*values)
        return wi_fail(WEFT_ENOMEM, "settings of plugin %s", plugin->name);
    upper(module, sizeof module, plugin->name);
    return wi_settings_read(settings, module, plugin->settings, *values);
}

static weft_status add_device(struct wi_transports *t, struct wi_settings *settings, const struct weft_plugin *plugin,
                              void *handle)
{
    void *values;
    weft_status st = read_values(settings, plugin, &values);

    if (st >= 0)
        st = wi_devices_add(&t->devices, plugin, &t->host, values, handle);
    if (st < 0)
        wi_free(values);
    return st;
}

/* For weft_context_plugins and messages. A folder may be searched twice. */
static weft_status leave_out(struct wi_transports *t, const char *name, const char *path, const char *why)
{
    char text[512];

    for (const struct wi_refused_plugin *r = t->left_out; r; r = r->next)
        if (strcmp(r->name, name) == 0)
            return WEFT_SUCCESS;
    snprintf(text, sizeof text, "%s", why); /* it may be this thread's error, which running out of memory changes */
    return wi_refused_keep(&t->left_out, path, name, WEFT_ECONFIG, text);
}

static weft_status leave_unnamed_out(struct wi_transports *t, struct wi_settings *settings,
                                     const struct weft_plugin *plugin, const char *path)
{
    read_left_out(settings, plugin);
    return leave_out(t, plugin->name, path, WI_NOT_NAMED);
}

static weft_status add_if_works(struct wi_transports *t, struct wi_settings *settings, const struct weft_plugin *plugin,
                                char *path, void *handle, int *added)
{
    weft_status st = plugin->kind == WEFT_PLUGIN_DEVICE ? add_device(t, settings, plugin, handle)
                                                        : add(t, settings, plugin, path, handle);

    *added = st >= 0;
    if (st == WEFT_ENOTSUP) {
        wi_log(WEFT_LOG_INFO, "net.transport", "%s is left out: %s", plugin->name, wi_fail_text());
        st = plugin->kind == WEFT_PLUGIN_DEVICE ? WEFT_SUCCESS : leave_out(t, plugin->name, path, wi_fail_text());
        if (st >= 0)
            wi_fail_clear();
    }
    return st;
}

static weft_status refuse(struct wi_transports *t, const char *path, const char *name, weft_status status,
                          const char *why)
{
    wi_log(WEFT_LOG_WARN, "net.plugin", "%s is not loaded: %s", path, why);
    return wi_refused_keep(&t->refused, path, name, status, why);
}

/* Plugins are code: any user who could have changed one runs it in this process. */
static weft_status check_trusted(struct wi_transports *t, const char *path, int *trusted)
{
    char why[4096 + 512];

    *trusted = wi_path_trusted(path, why, sizeof why);
    return *trusted ? WEFT_SUCCESS : refuse(t, path, NULL, WEFT_ECONFIG, why);
}

/* Its name, where the description can be read: that of ABI 1 begins as this one. */
static const char *name_of(const struct weft_plugin *p)
{
    int known = p && (p->abi == 1 || p->abi == WEFT_PLUGIN_ABI);

    return known && p->bytes >= offsetof(struct weft_plugin, name) + sizeof p->name ? p->name : NULL;
}

/* For all contexts, and for good: its file stays loaded. */
static weft_status add_codec(const struct weft_plugin *plugin, const char *path, int *added)
{
    WI_TRY(wi_codec_add(plugin, path, added));
    if (*added)
        wi_log(WEFT_LOG_INFO, "net.plugin", "codec %s is loaded from %s", plugin->name, path);
    return WEFT_SUCCESS;
}

static weft_status add_manager(struct wi_settings *settings, const struct weft_plugin *plugin, const char *path,
                               int *added)
{
    void *values;
    weft_status st = read_values(settings, plugin, &values);

    *added = 0;
    if (st >= 0)
        st = wi_manager_add(plugin, values, path, added);
    if (!*added)
        wi_free(values);
    return st;
}

static weft_status open_plugin(struct wi_transports *t, struct wi_settings *settings, const char *wanted,
                               const struct weft_plugin *plugin, const char *path, void *handle, int *added)
{
    char *copy = NULL;
    weft_status st;

    WI_TRY(check_plugin(plugin));
    if (plugin->kind == WEFT_PLUGIN_CODEC)
        return add_codec(plugin, path, added);
    if (plugin->kind == WEFT_PLUGIN_MANAGER)
        return add_manager(settings, plugin, path, added);
    if (is_loaded(t, plugin))
        return WEFT_SUCCESS;
    if (!name_in_list(plugin->name, wanted))
        return plugin->kind == WEFT_PLUGIN_TRANSPORT ? leave_unnamed_out(t, settings, plugin, path) : WEFT_SUCCESS;
    WI_TRY(check_name(t, plugin));
    copy = wi_strdup(path);
    if (!copy)
        return wi_fail(WEFT_ENOMEM, "plugin %s", path);
    st = add_if_works(t, settings, plugin, copy, handle, added);
    if (!*added || plugin->kind == WEFT_PLUGIN_DEVICE)
        wi_free(copy);
    return st;
}

/* The loader mostly begins with the path, which is said before. */
static const char *without_path(const char *why, const char *path)
{
    size_t len = strlen(path);

    return strncmp(why, path, len) == 0 && strncmp(why + len, ": ", 2) == 0 ? why + len + 2 : why;
}

/* What is no plugin of this library's is left out, so that it does not stop programs that have no use for it. */
static weft_status load_file(struct wi_transports *t, struct wi_settings *settings, const char *wanted,
                             const char *path)
{
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const struct weft_plugin *plugin = handle ? dlsym(handle, WEFT_PLUGIN_SYMBOL) : NULL;
    weft_status st;
    int added = 0;

    if (!handle)
        st = wi_fail(WEFT_EPLUGIN, "%s", without_path(dlerror(), path));
    else if (!plugin)
        st = wi_fail(WEFT_EPLUGIN, "it is no plugin: it has no symbol %s", WEFT_PLUGIN_SYMBOL);
    else
        st = open_plugin(t, settings, wanted, plugin, path, handle, &added);
    if (st == WEFT_EPLUGIN) {
        st = refuse(t, path, name_of(plugin), st, wi_fail_text());
        wi_fail_clear();
    }
    if (handle && !added)
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
        const char *why = strerror(errno);
        if (strcmp(dir, WEFT_PLUGIN_DIR) == 0)
            return WEFT_SUCCESS;
        wi_log(WEFT_LOG_WARN, "plugin.path", "WEFT_PLUGIN_PATH: %s: %s; no plugin is loaded from there", dir, why);
        return wi_refused_keep(&t->refused, dir, NULL, WEFT_ECONFIG, why);
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

static const char *built_in_names(char *names, size_t capacity)
{
    size_t used = 0;

    names[0] = '\0';
    for (size_t i = 0; i < sizeof built_in / sizeof *built_in && used < capacity; i++)
        used += (size_t)snprintf(names + used, capacity - used, "%s%s", used ? ", " : "", built_in[i]->name);
    return names;
}

static weft_status check_wanted(const struct wi_transports *t, const char *wanted)
{
    char names[128];

    if (!wanted || !*wanted || strcasecmp(wanted, "all") == 0)
        return WEFT_SUCCESS;
    for (const char *p = wanted; *p;) {
        size_t len = strcspn(p, ",");
        int found = 0;
        for (int i = 0; i < t->count && !found; i++)
            found = wi_plugin_is_named(t->list[i].plugin->name, p, len);
        if (!found)
            return wi_transport_not_found(t, built_in_names(names, sizeof names), p, len);
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
        else
            st = leave_unnamed_out(t, settings, built_in[i], NULL);
    wi_codec_looked_in(plugin_path ? plugin_path : "");
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
    wi_refused_free(t->refused);
    wi_refused_free(t->left_out);
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

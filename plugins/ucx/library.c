/* library.c: libucp is loaded at run time, and kept from printing and from handling signals.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A process that does not use UCX is not to have it: it hooks the allocator's system calls and starts a thread. So the plugin is
 * not linked to it.
 */
#include "library.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucs/debug/log_def.h>

struct wu_library wu_ucx;

static pthread_mutex_t loading = PTHREAD_MUTEX_INITIALIZER;
static int loaded;
static __thread const struct weft_host *inside __attribute__((tls_model("initial-exec"))); /* set twice in each call */

/* ---- Messages ---- */

static ucs_log_func_rc_t log_message(const char *file, unsigned line, const char *function, ucs_log_level_t level,
                                     const ucs_log_component_config_t *component, const char *format, va_list ap)
{
    enum weft_log_level ours = level <= UCS_LOG_LEVEL_ERROR  ? WEFT_LOG_WARN
                               : level == UCS_LOG_LEVEL_WARN ? WEFT_LOG_INFO
                                                             : WEFT_LOG_DEBUG;
    const char *base = strrchr(file, '/');
    char text[400];

    (void)function, (void)component;
    if (!inside)
        return UCS_LOG_FUNC_RC_CONTINUE;
    vsnprintf(text, sizeof text, format, ap);
    inside->log(inside->impl, ours, "ucx.message", "%s:%u: %s", base ? base + 1 : file, line, text);
    return UCS_LOG_FUNC_RC_STOP;
}

void wu_library_enter(const struct weft_host *host)
{
    inside = host;
}

void wu_library_leave(void)
{
    inside = NULL;
}

/* ---- Loading ---- */

/* UCX takes signals when it is loaded: those of a crash (UCX_HANDLE_ERRORS) and SIGHUP (UCX_DEBUG_SIGNO). They are the program's,
 * unless the user asks for it. */
static void *open_library(const char *name)
{
    struct sigaction before[NSIG];
    int keep = !getenv("UCX_HANDLE_ERRORS") && !getenv("UCX_DEBUG_SIGNO");
    int known[NSIG] = {0};
    void *handle;

    for (int i = 1; keep && i < NSIG; i++)
        known[i] = sigaction(i, NULL, &before[i]) == 0;
    handle = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
    for (int i = 1; i < NSIG; i++)
        if (known[i])
            sigaction(i, &before[i], NULL);
    return handle;
}

static weft_status missing(const struct weft_host *host, const char *what)
{
    const char *why = dlerror();

    host->explain(host->impl, WEFT_ENOTSUP, "ucx: %s: %s (UCX 1.13 or newer; Debian package libucx0)", what,
                  why ? why : "unknown");
    return WEFT_ENOTSUP;
}

static weft_status load(const struct weft_host *host)
{
    void *ucp = open_library("libucp.so.0");
    __typeof__(&ucs_log_push_handler) push;

    if (!ucp)
        return missing(host, "libucp.so.0 cannot be loaded");
        /* libucp needs libucs: a symbol of either is found by libucp's handle. */
#define WU_FIND(name)                           \
    *(void **)&wu_ucx.name = dlsym(ucp, #name); \
    if (!wu_ucx.name)                           \
        return missing(host, "libucp.so.0 lacks a function");
    WU_FUNCTIONS(WU_FIND)
#undef WU_FIND
    *(void **)&push = dlsym(ucp, "ucs_log_push_handler");
    if (push && !getenv("UCX_LOG_LEVEL") && !getenv("UCX_LOG_FILE"))
        push(log_message);
    loaded = 1;
    return WEFT_SUCCESS;
}

weft_status wu_library_load(const struct weft_host *host)
{
    weft_status st = WEFT_SUCCESS;

    pthread_mutex_lock(&loading);
    if (!loaded)
        st = load(host);
    pthread_mutex_unlock(&loading);
    return st;
}

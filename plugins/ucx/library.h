/* library.h: libucp, which is loaded when the transport is first opened.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#ifndef WU_LIBRARY_H
#define WU_LIBRARY_H

#include <ucp/api/ucp.h>
#include <weft/weft_plugin.h>

/* Everything that is called of UCX; ucp.h declares the functions. */
#define WU_FUNCTIONS(X)              \
    X(ucp_get_version_string)        \
    X(ucp_config_read)               \
    X(ucp_config_print)              \
    X(ucp_config_release)            \
    X(ucp_init_version)              \
    X(ucp_cleanup)                   \
    X(ucp_worker_create)             \
    X(ucp_worker_destroy)            \
    X(ucp_worker_get_address)        \
    X(ucp_worker_release_address)    \
    X(ucp_worker_get_efd)            \
    X(ucp_worker_arm)                \
    X(ucp_worker_progress)           \
    X(ucp_worker_set_am_recv_handler) \
    X(ucp_ep_create)                 \
    X(ucp_ep_close_nbx)              \
    X(ucp_ep_flush_nbx)              \
    X(ucp_am_send_nbx)               \
    X(ucp_am_recv_data_nbx)          \
    X(ucp_am_data_release)           \
    X(ucp_request_free)              \
    X(ucs_status_string)

struct wu_library {
#define WU_MEMBER(name) __typeof__(&name) name;
    WU_FUNCTIONS(WU_MEMBER)
#undef WU_MEMBER
};
extern struct wu_library wu_ucx;

/* WEFT_ENOTSUP: it is not here, or lacks something; explained. It stays loaded for the life of the process. */
weft_status wu_library_load(const struct weft_host *host);

/* What UCX has to say goes to weft's log while this thread is in a call of this transport's; else it is left alone, since others in
 * the process may use UCX, too. */
void wu_library_enter(const struct weft_host *host);
void wu_library_leave(void);

#endif

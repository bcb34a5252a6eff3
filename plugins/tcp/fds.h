/* fds.h: the descriptors of this transport, which a forked child must not keep.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * A child made by fork() that lives on after its parent was killed (a worker that loads data) would keep the parent alive in the
 * eyes of all peers; weft_host.fd_keep. */
#ifndef WI_TCP_FDS_H
#define WI_TCP_FDS_H

#include <weft/weft_plugin.h>

/* To be called before any other. */
void wi_tcp_fds_init(const struct weft_host *host);
/* Note a descriptor; returns it. Below 0: nothing. */
int wi_tcp_fd_keep(int fd);
/* Close a descriptor, noted or not. */
void wi_tcp_fd_close(int fd);

#endif

/* fds.c: the descriptors of this transport, which a forked child must not keep: the host's list of them.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "fds.h"

#include <stdatomic.h>
#include <unistd.h>

/* One list for the process, of a library that is there once: the same for every endpoint. A host without: nothing is noted. */
static int (*_Atomic host_keep)(int fd);
static void (*_Atomic host_close)(int fd);

void wi_tcp_fds_init(const struct weft_host *host)
{
    if (!WEFT_HOST_HAS(host, fd_keep) || !WEFT_HOST_HAS(host, fd_close))
        return;
    atomic_store_explicit(&host_close, host->fd_close, memory_order_relaxed);
    atomic_store_explicit(&host_keep, host->fd_keep, memory_order_relaxed);
}

int wi_tcp_fd_keep(int fd)
{
    int (*keep)(int fd) = atomic_load_explicit(&host_keep, memory_order_relaxed);

    return keep ? keep(fd) : fd;
}

void wi_tcp_fd_close(int fd)
{
    void (*closes)(int fd) = atomic_load_explicit(&host_close, memory_order_relaxed);

    if (closes)
        closes(fd);
    else
        close(fd);
}

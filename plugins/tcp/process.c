/* process.c: who a peer's process is, and what it is doing as far as this host can tell.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#include "addr.h"

#include <stdio.h>
#include <unistd.h>

void wi_tcp_process_identity(const struct weft_host *host, struct wi_tcp_identity *id)
{
    struct weft_process self = {.pid = (int32_t)getpid()};
    if (WEFT_HOST_HAS(host, process_self))
        host->process_self(&self);
    id->pids = self.space;
    id->started = self.started;
    id->pid = self.pid;
    if (gethostname(id->host, sizeof id->host - 1))
        id->host[0] = '\0';
    id->host[sizeof id->host - 1] = '\0';
}

int wi_tcp_process_state(const struct weft_host *host, const struct wi_tcp_identity *peer)
{
    struct weft_process process = {.space = peer->pids, .started = peer->started, .pid = peer->pid};
    return WEFT_HOST_HAS(host, process_state) ? host->process_state(&process) : '?';
}

size_t wi_tcp_process_text(const struct weft_host *host, const struct wi_tcp_identity *peer, char *text,
                           size_t capacity)
{
    int state = wi_tcp_process_state(host, peer);
    int n = snprintf(text, capacity, "process %d%s", (int)peer->pid,
                     state == 0     ? " has ended"
                     : state == 'T' ? " is stopped"
                     : state == 't' ? " is stopped by a debugger"
                                    : "");
    return n < 0 || !capacity ? 0 : (size_t)n < capacity ? (size_t)n : capacity - 1;
}

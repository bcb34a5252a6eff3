/* spread.c: over how many of a peer's sockets to send.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * On a link that is faster than the processors, several sockets let one core fill a socket while another core's kernel empties
 * the next: two hosts on one machine, 4 MiB all-reduce, 2.0 ms over four sockets against 2.5 over one. A link that is the
 * limit itself gains nothing, and several streams on it only crowd each other: 8 MiB of four hosts at 1 Gbit/s took 3 % longer.
 * So a peer starts with one socket, and once the kernel says that it delivers fast the side that dialled makes more. */
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stddef.h>
#include <sys/socket.h>

#include "tcp.h"

#define LOOK_BYTES (1u << 20) /* sent between looks */
#define FAST_LOOKS 2          /* in a row: a burst may pass a shaper's bucket at any rate */

static uint64_t delivery_rate(int fd)
{
    struct tcp_info info = {0};
    socklen_t n = sizeof info;

    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &n) ||
        n < offsetof(struct tcp_info, tcpi_delivery_rate) + sizeof info.tcpi_delivery_rate)
        return 0;
    return info.tcpi_delivery_rate;
}

void wi_tcp_spread_sent(struct wi_tcp_peer *p, size_t bytes)
{
    uint64_t rate = 0, fast_rate = p->group->endpoint->settings->fast_rate; /* the sum over sockets */

    if (p->shared)
        return;
    p->unlooked += bytes;
    if (p->unlooked < LOOK_BYTES || p->group->endpoint->settings->sockets > 0)
        return;
    p->unlooked = 0;
    for (int i = 0; i < p->nconns; i++)
        if (p->conns[i] && p->conns[i]->state == WI_TCP_UP && (p->wide || i == 0))
            rate += delivery_rate(p->conns[i]->fd);
    p->fast_looks = rate < fast_rate ? 0 : p->fast_looks < FAST_LOOKS ? p->fast_looks + 1 : FAST_LOOKS;
    p->wide = p->fast_looks == FAST_LOOKS;
    if (p->wide && p->nconns == 1)
        wi_tcp_dial_more(p);
}

int wi_tcp_spread(const struct wi_tcp_peer *p)
{
    return p->wide || p->striped || p->group->endpoint->settings->sockets > 0 ? p->nconns : 1;
}

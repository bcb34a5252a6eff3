/* SPDX-License-Identifier: BSD-3-Clause */
/* Half-open connections: their source, and who gives way. */
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "base/hash.h"
#include "net/half_open.h"

static uint64_t source_of(int fd)
{
    struct sockaddr_storage ss;
    socklen_t bytes = sizeof(ss);
    struct ucred who;
    socklen_t who_bytes = sizeof(who);
    memset(&ss, 0, sizeof(ss));
    if (getpeername(fd, (struct sockaddr *)&ss, &bytes))
        return 0;
    if (ss.ss_family == AF_INET)
        return wi_hash64(&((struct sockaddr_in *)&ss)->sin_addr, 4, 4);
    if (ss.ss_family == AF_INET6) {
        const struct in6_addr *in6 = &((struct sockaddr_in6 *)&ss)->sin6_addr;
        return IN6_IS_ADDR_V4MAPPED(in6) ? wi_hash64(in6->s6_addr + 12, 4, 4) : wi_hash64(in6, 8, 6);
    }
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &who_bytes))
        return 0;
    return wi_hash64(&who.uid, sizeof(who.uid), 1);
}

void wi_half_open_begin(struct wi_half_open *h, int fd, uint64_t now_ns)
{
    *h = (struct wi_half_open){.source = source_of(fd), .since_ns = now_ns};
}

void wi_half_open_look(struct wi_half_open_table *t, const struct wi_half_open *h, void *connection)
{
    t->held++;
    if (h->hello_verified)
        return;
    if (!t->oldest || h->since_ns < t->since_ns) {
        t->oldest = connection;
        t->since_ns = h->since_ns;
    }
    if (h->source != t->source)
        return;
    t->of_source++;
    if (!t->oldest_of_source || h->since_ns < t->since_of_source_ns) {
        t->oldest_of_source = connection;
        t->since_of_source_ns = h->since_ns;
    }
}

int wi_half_open_decide(const struct wi_half_open_table *t, void **give_way)
{
    int most = t->capacity > 1 ? t->capacity / 2 : 1;
    *give_way = NULL;
    if (t->of_source >= most)
        *give_way = t->oldest_of_source;
    else if (t->held >= t->capacity)
        *give_way = t->oldest;
    return t->held >= t->capacity && !*give_way ? -1 : 0;
}

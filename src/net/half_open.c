/* SPDX-License-Identifier: BSD-3-Clause */
/* Half-open connections: their source, and which one is closed when there are too many. */
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include "base/hash.h"
#include "net/half_open.h"

#define VERIFIED_NS 200000000ull

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

static void keep_oldest(void **oldest, uint64_t *oldest_ns, void *connection, uint64_t since_ns)
{
    if (*oldest && since_ns >= *oldest_ns)
        return;
    *oldest = connection;
    *oldest_ns = since_ns;
}

void wi_half_open_look(struct wi_half_open_table *t, const struct wi_half_open *h, void *connection)
{
    int of_source = h->source == t->source;
    t->held++;
    if (h->hello_verified) {
        keep_oldest(&t->verified, &t->since_verified_ns, connection, h->since_ns);
        t->nverified_of_source += of_source;
        if (of_source)
            keep_oldest(&t->verified_of_source, &t->since_verified_of_source_ns, connection, h->since_ns);
        return;
    }
    keep_oldest(&t->oldest, &t->since_ns, connection, h->since_ns);
    t->of_source += of_source;
    if (of_source)
        keep_oldest(&t->oldest_of_source, &t->since_of_source_ns, connection, h->since_ns);
}

static int has_waited(const struct wi_half_open_table *t, uint64_t since_ns)
{
    return t->now_ns > since_ns && t->now_ns - since_ns >= VERIFIED_NS;
}

int wi_half_open_decide(const struct wi_half_open_table *t, void **give_way)
{
    int most = t->capacity > 1 ? t->capacity / 2 : 1;
    *give_way = NULL;
    if (t->of_source >= most)
        *give_way = t->oldest_of_source;
    else if (t->held >= t->capacity)
        *give_way = t->oldest;
    if (t->held < t->capacity || *give_way)
        return 0;
    if (t->nverified_of_source >= most && has_waited(t, t->since_verified_of_source_ns))
        *give_way = t->verified_of_source;
    else if (t->verified && has_waited(t, t->since_verified_ns))
        *give_way = t->verified;
    return t->held >= t->capacity && !*give_way ? -1 : 0;
}

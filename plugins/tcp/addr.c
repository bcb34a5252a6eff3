/* addr.c: interfaces, address blobs, order of candidates.
 * SPDX-License-Identifier: BSD-3-Clause
 */
#define _GNU_SOURCE
#include "addr.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "frame.h"

#define BLOB_MAGIC 0x50435457u /* "WTCP" */
#define BLOB_VERSION 3u
#define NUMA_LOCAL 0x80u
#define BLOB_HEAD_BYTES (56 + WI_TCP_HOST_MAX)
#define BLOB_ADDR_BYTES 24

int wi_tcp_interface_passes(const char *wanted, const char *name)
{
    int exclude = wanted[0] == '^';
    const char *at = wanted + exclude;
    int listed = 0;
    while (*at && !listed) {
        size_t n = strcspn(at, ",");
        listed = n > 0 && strncmp(at, name, n) == 0;
        at += n + (at[n] == ',');
    }
    return exclude ? !listed : wanted[0] == '\0' || listed;
}

int wi_tcp_addr_is_loopback(const struct wi_tcp_addr *a)
{
    static const unsigned char six[16] = {[15] = 1};
    return a->family == 4 ? a->ip[0] == 127 : memcmp(a->ip, six, 16) == 0;
}

static int prefix_bits(const struct sockaddr *mask)
{
    if (!mask)
        return 0;
    const unsigned char *p = mask->sa_family == AF_INET6
                                 ? (const unsigned char *)&((const struct sockaddr_in6 *)(const void *)mask)->sin6_addr
                                 : (const unsigned char *)&((const struct sockaddr_in *)(const void *)mask)->sin_addr;
    int n = mask->sa_family == AF_INET6 ? 16 : 4, bits = 0;
    for (int i = 0; i < n; i++)
        bits += __builtin_popcount(p[i]);
    return bits;
}

ssize_t wi_tcp_read_text(const char *path, char *text, size_t capacity)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, capacity - 1);
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = '\0';
    return n;
}

static uint32_t link_mbps(const char *name)
{
    char path[96], text[16];
    snprintf(path, sizeof path, "/sys/class/net/%.32s/speed", name);
    if (wi_tcp_read_text(path, text, sizeof text) <= 0)
        return 0;
    long v = strtol(text, NULL, 10);
    return v > 0 && v < 100000000 ? (uint32_t)v : 0;
}

int wi_tcp_list_holds(const char *list, int number)
{
    for (const char *at = list; *at;) {
        char *end;
        long low = strtol(at, &end, 10), high = low;
        if (end == at)
            return 0;
        if (*end == '-')
            high = strtol(end + 1, &end, 10);
        if (number >= low && number <= high)
            return 1;
        at = *end == ',' ? end + 1 : "";
    }
    return 0;
}

/* Is the adapter on the NUMA node to which this process is bound? No adapter is local to a process that may run anywhere. */
static int is_numa_local(const char *name)
{
    char path[96], text[512];
    cpu_set_t set;
    snprintf(path, sizeof path, "/sys/class/net/%.32s/device/numa_node", name);
    if (wi_tcp_read_text(path, text, sizeof text) <= 0 || text[0] < '0' || text[0] > '9' ||
        sched_getaffinity(0, sizeof set, &set))
        return 0;
    snprintf(path, sizeof path, "/sys/devices/system/node/node%d/cpulist", atoi(text));
    if (wi_tcp_read_text(path, text, sizeof text) <= 0)
        return 0;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &set) && !wi_tcp_list_holds(text, cpu))
            return 0;
    return 1;
}

/* Link-local IPv6 addresses need a scope that means nothing on another host: never offered. */
static int addr_from(const struct ifaddrs *i, struct wi_tcp_addr *a)
{
    memset(a, 0, sizeof *a);
    if (i->ifa_addr->sa_family == AF_INET) {
        a->family = 4;
        memcpy(a->ip, &((const struct sockaddr_in *)(const void *)i->ifa_addr)->sin_addr, 4);
    } else if (i->ifa_addr->sa_family == AF_INET6) {
        const struct sockaddr_in6 *six = (const void *)i->ifa_addr;
        if (IN6_IS_ADDR_LINKLOCAL(&six->sin6_addr))
            return 0;
        a->family = 6;
        memcpy(a->ip, &six->sin6_addr, 16);
    } else {
        return 0;
    }
    a->prefix = (uint8_t)prefix_bits(i->ifa_netmask);
    a->mbps = link_mbps(i->ifa_name);
    a->is_numa_local = (uint8_t)is_numa_local(i->ifa_name);
    return 1;
}

/* Loopback goes last and only one per family, so that real links never lack room. */
int wi_tcp_addrs_find(const char *interfaces, int family, struct wi_tcp_addr *addrs, int capacity)
{
    struct ifaddrs *list, *i;
    if (getifaddrs(&list))
        return -1;
    int n = 0;
    for (int loopback = 0; loopback < 2; loopback++) {
        for (i = list; i && n < capacity - (loopback ? 0 : 2); i = i->ifa_next) {
            struct wi_tcp_addr a;
            if (!i->ifa_addr || !(i->ifa_flags & IFF_UP) || !!(i->ifa_flags & IFF_LOOPBACK) != loopback)
                continue;
            if (!wi_tcp_interface_passes(interfaces, i->ifa_name) || !addr_from(i, &a))
                continue;
            if ((family && a.family != family) || (loopback && !wi_tcp_addr_is_loopback(&a)))
                continue;
            addrs[n++] = a;
        }
    }
    freeifaddrs(list);
    return n;
}

static void mix(uint64_t h[2], const void *data, size_t bytes)
{
    const unsigned char *p = data;
    for (size_t i = 0; i < bytes; i++) {
        h[0] = (h[0] ^ p[i]) * 0x100000001b3ull;
        h[1] = (h[1] + p[i]) * 0x9e3779b97f4a7c15ull;
        h[1] ^= h[1] >> 29;
    }
}

int wi_tcp_node_identity(uint64_t node[2])
{
    char text[256];
    struct stat st;
    node[0] = 0xcbf29ce484222325ull;
    node[1] = 0x84222325cbf29ce4ull;
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof text);
    if (fd >= 0)
        close(fd);
    if (n > 0)
        mix(node, text, (size_t)n);
    if (stat("/proc/self/ns/net", &st) == 0) {
        mix(node, &st.st_dev, sizeof st.st_dev);
        mix(node, &st.st_ino, sizeof st.st_ino);
    }
    if (gethostname(text, sizeof text) == 0)
        mix(node, text, strnlen(text, sizeof text));
    return 0;
}

size_t wi_tcp_identity_encode(const struct wi_tcp_identity *id, void *buf, size_t capacity)
{
    size_t bytes = BLOB_HEAD_BYTES + (size_t)id->count * BLOB_ADDR_BYTES;
    unsigned char *p = buf;
    if (bytes > capacity)
        return 0;
    memset(p, 0, bytes);
    wi_tcp_put(p, BLOB_MAGIC, 4);
    p[4] = BLOB_VERSION;
    p[5] = (unsigned char)id->count;
    wi_tcp_put(p + 8, id->node[0], 8);
    wi_tcp_put(p + 16, id->node[1], 8);
    wi_tcp_put(p + 24, id->process, 8);
    wi_tcp_put(p + 32, id->pids, 8);
    wi_tcp_put(p + 40, id->started, 8);
    wi_tcp_put(p + 48, (uint32_t)id->pid, 4);
    memcpy(p + 56, id->host, WI_TCP_HOST_MAX);
    p += BLOB_HEAD_BYTES;
    for (int i = 0; i < id->count; i++, p += BLOB_ADDR_BYTES) {
        const struct wi_tcp_addr *a = &id->addrs[i];
        p[0] = (unsigned char)(a->family | (a->is_numa_local ? NUMA_LOCAL : 0));
        p[1] = a->prefix;
        wi_tcp_put(p + 2, a->port, 2);
        wi_tcp_put(p + 4, a->mbps, 4);
        memcpy(p + 8, a->ip, 16);
    }
    return bytes;
}

int wi_tcp_identity_decode(const void *buf, size_t bytes, struct wi_tcp_identity *id)
{
    const unsigned char *p = buf;
    memset(id, 0, sizeof *id);
    if (!p || bytes < BLOB_HEAD_BYTES || wi_tcp_get(p, 4) != BLOB_MAGIC || p[4] != BLOB_VERSION)
        return -1;
    int count = p[5];
    if (count < 1 || count > WI_TCP_ADDRS_MAX || bytes != BLOB_HEAD_BYTES + (size_t)count * BLOB_ADDR_BYTES)
        return -1;
    id->node[0] = wi_tcp_get(p + 8, 8);
    id->node[1] = wi_tcp_get(p + 16, 8);
    id->process = wi_tcp_get(p + 24, 8);
    id->pids = wi_tcp_get(p + 32, 8);
    id->started = wi_tcp_get(p + 40, 8);
    id->pid = (int32_t)wi_tcp_get(p + 48, 4);
    if (id->pid < 0 || p[56 + WI_TCP_HOST_MAX - 1])
        return -1;
    for (int i = 0; i < WI_TCP_HOST_MAX && p[56 + i]; i++)
        id->host[i] = p[56 + i] > ' ' && p[56 + i] < 127 ? (char)p[56 + i] : '?';
    p += BLOB_HEAD_BYTES;
    for (int i = 0; i < count; i++, p += BLOB_ADDR_BYTES) {
        struct wi_tcp_addr *a = &id->addrs[i];
        a->family = p[0] & (unsigned char)~NUMA_LOCAL;
        a->is_numa_local = (p[0] & NUMA_LOCAL) != 0;
        a->prefix = p[1];
        a->port = (uint16_t)wi_tcp_get(p + 2, 2);
        a->mbps = (uint32_t)wi_tcp_get(p + 4, 4);
        memcpy(a->ip, p + 8, 16);
        if ((a->family != 4 && a->family != 6) || a->port == 0 || a->prefix > (a->family == 4 ? 32 : 128))
            return -1;
    }
    id->count = count;
    return 0;
}

static int same_node(const struct wi_tcp_identity *a, const struct wi_tcp_identity *b)
{
    return a->node[0] == b->node[0] && a->node[1] == b->node[1];
}

static int has(const struct wi_tcp_identity *id, int family, int loopback)
{
    for (int i = 0; i < id->count; i++)
        if (id->addrs[i].family == family && wi_tcp_addr_is_loopback(&id->addrs[i]) == loopback)
            return 1;
    return 0;
}

int wi_tcp_identity_reachable(const struct wi_tcp_identity *a, const struct wi_tcp_identity *b)
{
    for (int family = 4; family <= 6; family += 2) {
        if (has(a, family, 0) && has(b, family, 0))
            return 1;
        /* On one host every address of either is reachable by the other. */
        if (same_node(a, b) && (has(a, family, 0) || has(a, family, 1)) && (has(b, family, 0) || has(b, family, 1)))
            return 1;
    }
    return 0;
}

static int same_subnet(const struct wi_tcp_addr *a, const struct wi_tcp_addr *b)
{
    if (a->family != b->family || a->prefix == 0)
        return 0;
    int whole = a->prefix / 8, rest = a->prefix % 8;
    if (memcmp(a->ip, b->ip, (size_t)whole))
        return 0;
    return rest == 0 || ((a->ip[whole] ^ b->ip[whole]) >> (8 - rest)) == 0;
}

/* Higher is better; -1: do not try. An address of the peer that this host also has (a bridge that every host has
 * alike) would lead back here. */
static int preference(const struct wi_tcp_identity *mine, const struct wi_tcp_identity *peer,
                      const struct wi_tcp_addr *addr)
{
    int local = same_node(mine, peer), loopback = wi_tcp_addr_is_loopback(addr), best = -1;
    if (loopback)
        return local ? 4 : -1;
    for (int i = 0; i < mine->count; i++) {
        const struct wi_tcp_addr *m = &mine->addrs[i];
        if (m->family != addr->family)
            continue;
        if (!local && memcmp(m->ip, addr->ip, 16) == 0)
            return -1;
        int value = same_subnet(m, addr) ? 2 : (wi_tcp_addr_is_loopback(m) && !local ? -1 : 0);
        best = value > best ? value : best;
    }
    return best < 0 ? best : best + (addr->family == 4);
}

int wi_tcp_identity_order(const struct wi_tcp_identity *mine, const struct wi_tcp_identity *peer, int rail,
                          uint8_t order[WI_TCP_ADDRS_MAX], int *nrails)
{
    int64_t key[WI_TCP_ADDRS_MAX];
    int n = 0, equal = 1;
    for (int i = 0; i < peer->count; i++) {
        int p = preference(mine, peer, &peer->addrs[i]);
        if (p < 0)
            continue;
        int64_t k = ((int64_t)p << 33) + 2 * (int64_t)peer->addrs[i].mbps + peer->addrs[i].is_numa_local;
        int at = n++;
        for (; at > 0 && key[at - 1] < k; at--) {
            key[at] = key[at - 1];
            order[at] = order[at - 1];
        }
        key[at] = k;
        order[at] = (uint8_t)i;
    }
    while (equal < n && key[equal] == key[0])
        equal++;
    if (nrails)
        *nrails = equal;
    for (int turn = 0; n && turn < rail % equal; turn++) {
        uint8_t first = order[0];
        memmove(order, order + 1, (size_t)equal - 1);
        order[equal - 1] = first;
    }
    return n;
}

socklen_t wi_tcp_addr_to_sockaddr(const struct wi_tcp_addr *a, struct sockaddr_storage *sa)
{
    memset(sa, 0, sizeof *sa);
    if (a->family == 4) {
        struct sockaddr_in *four = (void *)sa;
        four->sin_family = AF_INET;
        four->sin_port = htons(a->port);
        memcpy(&four->sin_addr, a->ip, 4);
        return sizeof *four;
    }
    struct sockaddr_in6 *six = (void *)sa;
    six->sin6_family = AF_INET6;
    six->sin6_port = htons(a->port);
    memcpy(&six->sin6_addr, a->ip, 16);
    return sizeof *six;
}

void wi_tcp_sockaddr_text(const struct sockaddr_storage *sa, char text[WI_TCP_ADDR_TEXT])
{
    char ip[INET6_ADDRSTRLEN] = "?";
    if (sa->ss_family == AF_INET) {
        const struct sockaddr_in *four = (const void *)sa;
        inet_ntop(AF_INET, &four->sin_addr, ip, sizeof ip);
        snprintf(text, WI_TCP_ADDR_TEXT, "%s:%u", ip, ntohs(four->sin_port));
    } else if (sa->ss_family == AF_INET6) {
        const struct sockaddr_in6 *six = (const void *)sa;
        inet_ntop(AF_INET6, &six->sin6_addr, ip, sizeof ip);
        snprintf(text, WI_TCP_ADDR_TEXT, "[%s]:%u", ip, ntohs(six->sin6_port));
    } else {
        snprintf(text, WI_TCP_ADDR_TEXT, "?");
    }
}

void wi_tcp_addr_text(const struct wi_tcp_addr *a, char text[WI_TCP_ADDR_TEXT])
{
    struct sockaddr_storage sa;
    wi_tcp_addr_to_sockaddr(a, &sa);
    wi_tcp_sockaddr_text(&sa, text);
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* The address of a side channel, as ranks tell it each other. What another rank sent is connected to only if it is the TCP address
 * of one host. */
#include <string.h>

#include "net/side_conn.h"

#define HEAD_BYTES 4 /* family, 0, port */

static size_t ip_of(const struct wi_sockaddr *at, const void **ip)
{
    *ip = at->ss.ss_family == AF_INET ? (const void *)&((const struct sockaddr_in *)&at->ss)->sin_addr
                                      : &((const struct sockaddr_in6 *)&at->ss)->sin6_addr;
    return at->ss.ss_family == AF_INET ? 4 : at->ss.ss_family == AF_INET6 ? 16 : 0;
}

size_t wi_side_address(const struct wi_side *side, unsigned char address[WI_SIDE_ADDRESS_MAX])
{
    uint16_t port = wi_sockaddr_port(&side->at);
    const void *ip;
    size_t bytes = ip_of(&side->at, &ip);

    if (!bytes)
        return 0;
    address[0] = bytes == 4 ? 4 : 6;
    address[1] = 0;
    address[2] = (unsigned char)port;
    address[3] = (unsigned char)(port >> 8);
    memcpy(address + HEAD_BYTES, ip, bytes);
    return HEAD_BYTES + bytes;
}

/* Nothing (0.0.0.0, ::) and many (multicast, broadcast) are not; nor are link-local IPv6 addresses, which lack their link. */
static int is_one_host(int family, const unsigned char *ip)
{
    const struct in6_addr *six = (const void *)ip;
    int mapped = family == 6 && IN6_IS_ADDR_V4MAPPED(six);
    const unsigned char *four = family == 4 ? ip : mapped ? ip + 12 : NULL;

    return four ? four[0] != 0 && four[0] < 224
                : !IN6_IS_ADDR_UNSPECIFIED(six) && !IN6_IS_ADDR_MULTICAST(six) && !IN6_IS_ADDR_LINKLOCAL(six);
}

int wi_side_address_valid(const unsigned char address[WI_SIDE_ADDRESS_MAX], size_t bytes)
{
    struct wi_sockaddr at;

    return !bytes || (bytes <= WI_SIDE_ADDRESS_MAX && !wi_side_address_read(address, bytes, &at));
}

int wi_side_address_read(const unsigned char *a, size_t bytes, struct wi_sockaddr *at)
{
    struct sockaddr_in four = {.sin_family = AF_INET};
    struct sockaddr_in6 six = {.sin6_family = AF_INET6};
    struct in6_addr ip; /* aligned */
    uint16_t port;

    if (bytes < HEAD_BYTES || (a[0] != 4 && a[0] != 6) || bytes != HEAD_BYTES + (a[0] == 4 ? 4u : 16u))
        return -1;
    port = (uint16_t)(a[2] | a[3] << 8);
    memcpy(&ip, a + HEAD_BYTES, bytes - HEAD_BYTES);
    if (a[1] || !port || !is_one_host(a[0], ip.s6_addr))
        return -1;
    memset(at, 0, sizeof *at);
    memcpy(&four.sin_addr, &ip, sizeof four.sin_addr);
    if (a[0] == 6)
        six.sin6_addr = ip;
    at->bytes = a[0] == 4 ? sizeof four : sizeof six;
    memcpy(&at->ss, a[0] == 4 ? (const void *)&four : &six, at->bytes);
    wi_sockaddr_set_port(at, port);
    return 0;
}

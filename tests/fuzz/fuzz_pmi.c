/* SPDX-License-Identifier: BSD-3-Clause */
/* A process manager that answers anything. Its whole side of the talk is the input; the client asks what start-up asks and must
 * end, with a reason where it does not succeed, and never hand out a value longer than the room for it. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"
#include "net/pmi.h"
#include "tests/fuzz/require.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void talk(int fd)
{
    struct wi_pmi pmi;
    char small[16], value[WI_PMI_VALUE_MAX];

    wi_fail_clear();
    weft_status st = wi_pmi_init(&pmi, fd, wi_deadline_ns(2000000000ull));
    require(st == WEFT_SUCCESS || wi_fail_text()[0]);
    if (st < 0)
        return;
    require(memchr(pmi.kvs, 0, sizeof pmi.kvs) != NULL);
    wi_pmi_put(&pmi, "weft", "value");
    wi_pmi_barrier(&pmi);
    memset(small, 'x', sizeof small);
    if (wi_pmi_get(&pmi, "weft", small, sizeof small) == WEFT_SUCCESS)
        require(memchr(small, 0, sizeof small) != NULL);
    if (wi_pmi_get(&pmi, "weft", value, sizeof value) == WEFT_SUCCESS)
        require(memchr(value, 0, sizeof value) != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    int fd[2], room = 1 << 20;

    require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd) == 0);
    setsockopt(fd[1], SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
    if (bytes)
        require(send(fd[1], data, bytes, MSG_NOSIGNAL | MSG_DONTWAIT) > 0);
    shutdown(fd[1], SHUT_WR);
    talk(fd[0]);
    close(fd[0]);
    close(fd[1]);
    return 0;
}

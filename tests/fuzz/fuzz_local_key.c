/* SPDX-License-Identifier: BSD-3-Clause */
/* Asking for the job's key at a local socket, when what answers says anything, in pieces of any length, and then ends: the key is
 * what stands behind the right beginning, or there is none and a reason. And what is asked at such a socket, by anybody.
 *
 * First byte: bytes of a piece, less 1. The rest: the answer; its first 8 bytes are also a question. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"
#include "net/local_key.h"
#include "tests/fuzz/require.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static const unsigned char begins[WI_LOCAL_KEY_ASK_BYTES] = {'W', 'F', 'T', 'K', 1};

static void ask(const uint8_t *data, size_t bytes, size_t piece)
{
    unsigned char key[WI_JOB_KEY_BYTES], before[WI_JOB_KEY_BYTES], question[64];
    int ends[2];

    memset(key, 0xa5, sizeof key);
    memcpy(before, key, sizeof key);
    require(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends));
    for (size_t at = 0; at < bytes; at += piece) {
        size_t n = bytes - at < piece ? bytes - at : piece;
        require(send(ends[1], data + at, n, MSG_NOSIGNAL) == (ssize_t)n);
    }
    shutdown(ends[1], SHUT_WR);
    wi_fail_clear();
    weft_status st = wi_local_key_ask(ends[0], key, wi_deadline_ns(1000000000ull));
    int right = bytes >= sizeof begins + WI_JOB_KEY_BYTES && !memcmp(data, begins, sizeof begins);
    require((st == WEFT_SUCCESS) == right);
    require(right ? !memcmp(key, data + sizeof begins, sizeof key)
                  : !memcmp(key, before, sizeof key) && wi_fail_text()[0]);
    require(recv(ends[1], question, sizeof question, 0) == WI_LOCAL_KEY_ASK_BYTES);
    require(wi_local_key_asked(question));
    close(ends[0]);
    close(ends[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    if (bytes < 1 || bytes > 200) /* in pieces of a byte they must have room in the socket */
        return 0;
    if (bytes > WI_LOCAL_KEY_ASK_BYTES)
        require(wi_local_key_asked(data + 1) == !memcmp(data + 1, begins, sizeof begins));
    ask(data + 1, bytes - 1, data[0] + 1u);
    return 0;
}

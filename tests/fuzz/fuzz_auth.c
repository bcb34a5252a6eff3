/* SPDX-License-Identifier: BSD-3-Clause */
/* Handshake: arbitrary bytes in arbitrary pieces. A peer without the key must never get further than the first
 * message, and a server must never answer it. The first byte chooses the side, the second the size of pieces. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "net/auth.h"
#include "tests/fuzz/require.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static const struct wi_auth_key key = {.key = "a key of 32 bytes, known to none"};
    unsigned char out[WEFT_AUTH_MESSAGE_MAX], claim[WEFT_AUTH_CLAIM_MAX];
    size_t consumed, out_bytes, claim_bytes, said = 0;
    if (bytes < 2)
        return 0;
    int is_server = data[0] & 1;
    size_t piece = (size_t)data[1] + 1;
    struct weft_auth *auth = wi_auth_create(&key, is_server, "claim", 5);
    weft_status st = WEFT_INPROGRESS;
    for (size_t at = 2; auth && st == WEFT_INPROGRESS && at < bytes; at += consumed) {
        size_t n = bytes - at < piece ? bytes - at : piece;
        st = wi_auth_step(auth, data + at, n, &consumed, out, sizeof(out), &out_bytes, claim, &claim_bytes);
        require(st != WEFT_SUCCESS && consumed <= n && (st != WEFT_INPROGRESS || consumed == n));
        said += out_bytes;
    }
    require(said <= (is_server ? 0 : WEFT_AUTH_MESSAGE_MAX));
    wi_auth_destroy(auth);
    return 0;
}

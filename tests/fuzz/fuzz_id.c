/* SPDX-License-Identifier: BSD-3-Clause */
/* A unique id that was not made here: any 128 bytes, as they are and with magic and check sum set right, so that what stands
 * behind them is reached. What is accepted encodes to the same id again, and its addresses can be listed. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/status.h"
#include "net/bootstrap_id.h"
#include "net/rendezvous.h"
#include "tests/fuzz/require.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

#define SUM_AT (WEFT_UNIQUE_ID_BYTES - 4)

static void judge(const weft_unique_id *id)
{
    struct wi_id known, again;
    struct wi_rendezvous r;
    weft_unique_id out;

    wi_fail_clear();
    if (wi_id_decode(id, &known) < 0) {
        require(wi_fail_text()[0]);
        return;
    }
    wi_id_rendezvous(&known, &r);
    require(r.nfixed <= WI_RENDEZVOUS_MAX);
    for (int i = 0; i < r.nfixed; i++) {
        char text[80];
        wi_sockaddr_text(&r.fixed[i], text, sizeof text);
    }
    wi_id_encode(&known, &out);
    require(wi_id_decode(&out, &again) >= 0 && memcmp(&known, &again, sizeof known) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    weft_unique_id id;
    unsigned char *at = (unsigned char *)id.bytes;

    memset(&id, 0, sizeof id);
    memcpy(at, data, bytes < sizeof id.bytes ? bytes : sizeof id.bytes);
    judge(&id);
    memcpy(at, "WFID\1", 5);
    uint32_t sum = (uint32_t)wi_hash64(at, SUM_AT, 0x49444944u);
    for (int i = 0; i < 4; i++)
        at[SUM_AT + i] = (unsigned char)(sum >> (8 * i));
    judge(&id);
    return 0;
}

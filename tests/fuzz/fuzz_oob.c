/* SPDX-License-Identifier: BSD-3-Clause */
/* The caller's all-gather as a bootstrap, where the other ranks have the key and send anything, and the exchange gives back what it
 * likes: hellos, verdicts and contributions of any content under right MACs, or wrong ones. An exchange must end with what was
 * contributed under right MACs, or with a reason; and after a failure with the same one for good.
 *
 * First byte: bit 0 whether there is a key, bits 1 to 6 bytes of a contribution. Then, for each exchange, for each of the three
 * ranks (the first is the one under test, whose own contribution comes back), a byte: 0 right; 1 the next two bytes say where it is
 * changed and with what, before the MAC is made; 2 the same, after; 3 the exchange fails. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/status.h"
#include "net/auth.h"
#include "net/bootstrap.h"
#include "tests/fuzz/require.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

#define NRANKS 3
#define HELLO_BYTES 80
#define HELLO_MAC 48
#define VERDICT 8
#define MOST (64 + WI_AUTH_MAC_BYTES)
#define GATHERS 2

static const unsigned char configured[WI_JOB_KEY_BYTES] = "\x80 all ranks of this job, 32 b..."; /* text is no key */

/* What the other ranks know, and what they have done so far. */
struct others {
    const uint8_t *data;
    size_t bytes;
    int keyed, exchanges;
    struct wi_auth_key hello_key;
    unsigned char key[WI_AUTH_KEY_BYTES];
    unsigned char shown[NRANKS][HELLO_BYTES > MOST ? HELLO_BYTES : MOST]; /* in the newest exchange */
    int honest; /* so far, everybody was, and no exchange failed */
};

static unsigned char take(struct others *o)
{
    if (!o->bytes)
        return 0;
    o->bytes--;
    return *o->data++;
}

static void change(struct others *o, unsigned char *said, size_t bytes)
{
    size_t at = take(o);
    unsigned char with = take(o);
    if (!bytes || !with)
        return;
    said[at % bytes] ^= with;
    o->honest = 0;
}

static void hello_of(struct others *o, int rank, unsigned char *hello, int how)
{
    memset(hello, 0, HELLO_BYTES);
    wi_put32(hello, 0x4f4f4657u);
    hello[4] = 1;
    hello[5] = (unsigned char)o->keyed;
    wi_put32(hello + 8, (uint32_t)rank);
    wi_put32(hello + 12, NRANKS);
    memset(hello + 16, rank, HELLO_MAC - 16);
    if (how == 1)
        change(o, hello, HELLO_MAC);
    struct wi_auth_part part = {hello, HELLO_MAC};
    if (o->keyed)
        require(!wi_auth_mac(o->hello_key.key, "weft out-of-band hello", &part, 1, hello + HELLO_MAC));
}

/* Hellos, verdicts, then each contribution with its verdicts. */
static void said_of(struct others *o, int rank, unsigned char *said, size_t bytes, int how)
{
    unsigned char place[24];
    int verdict = o->exchanges % 2;
    size_t body = o->keyed ? bytes - WI_AUTH_MAC_BYTES : bytes;

    memset(said, verdict ? 0 : rank + 1, body);
    if (how == 1)
        change(o, said, body);
    if (!o->keyed)
        return;
    wi_put64(place, (uint64_t)(o->exchanges / 2));
    wi_put32(place + 8, (uint32_t)rank);
    wi_put32(place + 12, NRANKS);
    wi_put64(place + 16, body);
    struct wi_auth_part parts[] = {{place, sizeof place}, {said, body}};
    require(!wi_auth_mac(o->key, verdict ? "weft out-of-band verdict" : "weft out-of-band exchange", parts, 2,
                         said + body));
}

static int all_gather(void *arg, const void *mine, size_t bytes, void *all, uint64_t timeout_ns)
{
    struct others *o = arg;
    int hellos = o->exchanges == 0;

    (void)timeout_ns;
    require(bytes <= sizeof o->shown[0] && (hellos ? bytes == HELLO_BYTES : 1));
    for (int r = 0; r < NRANKS; r++) {
        int how = take(o) % 4;
        if (how == 3) {
            o->honest = 0;
            return 7;
        }
        if (r == 0)
            memcpy(o->shown[0], mine, bytes);
        else if (hellos)
            hello_of(o, r, o->shown[r], how);
        else
            said_of(o, r, o->shown[r], bytes, how);
        if (how == 2 || (how == 1 && r == 0))
            change(o, o->shown[r], bytes);
        memcpy((unsigned char *)all + (size_t)r * bytes, o->shown[r], bytes);
    }
    if (hellos && o->keyed) {
        struct wi_auth_part key = {configured, sizeof configured}, said = {all, NRANKS * HELLO_BYTES}, none = {NULL, 0};
        require(wi_auth_expand(key, said, "weft out-of-band exchange", none, o->key, sizeof o->key) == WEFT_SUCCESS);
    }
    o->exchanges++;
    return 0;
}

static void gather(struct wi_bootstrap *b, struct others *o, size_t bytes)
{
    static const unsigned char mine[64] = {1, 1, 1};
    unsigned char all[NRANKS * 64 + 1];
    char text[400];

    memset(all, 0xa5, sizeof all);
    wi_fail_clear();
    weft_status st = b->all_gather(b, mine, bytes, all, wi_deadline_ns(1000000000ull));
    require(all[NRANKS * bytes] == 0xa5);
    if (st == WEFT_SUCCESS) {
        require(!o->keyed || !bytes || !memcmp(all, mine, bytes));
        return;
    }
    require(wi_fail_text()[0] && !o->honest);
    if (!o->keyed || st != WEFT_EAUTH)
        return;
    memcpy(text, wi_fail_text(), sizeof text);
    require(b->all_gather(b, mine, bytes, all, UINT64_MAX) == WEFT_EAUTH && !strcmp(text, wi_fail_text()));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static int key_fd = -1;
    struct wi_bootstrap *b = NULL;

    if (bytes < 1)
        return 0;
    if (key_fd < 0) {
        key_fd = memfd_create("key", MFD_CLOEXEC);
        require(key_fd >= 0 && write(key_fd, configured, sizeof configured) == sizeof configured);
    }
    size_t most = data[0] >> 1 & 63;
    struct others o = {.data = data + 1, .bytes = bytes - 1, .keyed = data[0] & 1, .honest = 1};
    struct wi_bootstrap_settings s = {.job_key_fd = o.keyed ? key_fd : -1};
    weft_oob oob = {sizeof oob, 0, NRANKS, all_gather, &o};

    require(wi_auth_derive(configured, sizeof configured, "oob", "weft out-of-band hello", &o.hello_key) ==
            WEFT_SUCCESS);
    wi_fail_clear();
    weft_status st = wi_bootstrap_oob(&s, &oob, wi_deadline_ns(1000000000ull), &b);
    if (st < 0) {
        require(!b && wi_fail_text()[0] && !o.honest);
        return 0;
    }
    for (int i = 0; i < GATHERS; i++)
        gather(b, &o, most);
    b->destroy(b);
    return 0;
}

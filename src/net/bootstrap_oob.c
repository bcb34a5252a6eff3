/* SPDX-License-Identifier: BSD-3-Clause */
/* The caller's all-gather as a bootstrap.
 *
 * The first exchange is of hellos: head, rank, nranks, a fresh nonce, and a MAC under the configured key. Without a configured
 * key the job's key follows from all nonces: a process that can read the exchange has it, too.
 *
 * With one, hellos are checked, and a key is made from it and all hellos. Since every rank's nonce is in that key, what was
 * recorded in another job, or of another group of the same job, does not verify under it. Every later exchange carries a MAC
 * over its number and the contributor's rank, and is followed by one of verdicts: a rank that was shown something else than what
 * was contributed says so, and all fail, instead of waiting for it. The first verdicts also confirm that all have seen the same
 * hellos. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/status.h"
#include "net/auth.h"
#include "net/bootstrap_key.h"
#include "net/store_wire.h"

#define OOB_MAGIC 0x4f4f4657u
#define OOB_VERSION 1
#define HELLO_NONCE 16
#define HELLO_MAC 48
#define HELLO_BYTES 80
#define VERDICT_BYTES (8 + WI_AUTH_MAC_BYTES)

struct oob {
    struct wi_bootstrap base;
    weft_oob given;
    int keyed;
    unsigned char key[WI_AUTH_KEY_BYTES]; /* of the exchanges after the hellos */
    uint64_t exchange;
    weft_status failed;
    char text[240];
};

static weft_status oob_fail(struct oob *oob, weft_status status, const char *text)
{
    oob->failed = status;
    snprintf(oob->text, sizeof(oob->text), "%s", text);
    return wi_fail(status, "%s", oob->text);
}

static weft_status oob_exchange(struct oob *oob, const void *mine, size_t mine_bytes, void *all, uint64_t deadline_ns)
{
    uint64_t now = wi_now_ns(), left = deadline_ns > now ? deadline_ns - now : 0;
    int err = oob->given.all_gather(oob->given.arg, mine, mine_bytes, all,
                                    deadline_ns == UINT64_MAX ? WEFT_TIMEOUT_NEVER : left);
    if (err && left && wi_now_ns() >= deadline_ns)
        return wi_fail(WEFT_ETIMEDOUT, "the caller's all-gather of %zu bytes failed (%d) at its deadline", mine_bytes,
                       err);
    return err ? wi_fail(WEFT_EPEER, "the caller's all-gather of %zu bytes failed (%d)", mine_bytes, err)
               : WEFT_SUCCESS;
}

/* ---- Ranks whose contribution is refused ---- */

struct suspects {
    int count, first;
    char text[96]; /* "1, 3, ..." */
};

static void suspect_add(struct suspects *s, int rank)
{
    size_t used = strlen(s->text);
    if (!s->count++)
        s->first = rank;
    if (used + 24 < sizeof(s->text))
        snprintf(s->text + used, sizeof(s->text) - used, "%s%d", used ? ", " : "", rank);
    else if (used + 5 < sizeof(s->text) && s->text[used - 1] != '.')
        snprintf(s->text + used, sizeof(s->text) - used, ", ...");
}

static weft_status suspects_fail(struct oob *oob, const struct suspects *s)
{
    char text[240];
    int nranks = oob->base.nranks, rank = oob->base.rank;
    if (s->count == 1 && s->first == rank)
        snprintf(
            text, sizeof(text),
            "what rank %d contributed to start-up exchange %llu came back changed: the caller's exchange is not to be "
            "trusted",
            rank, (unsigned long long)oob->exchange);
    else if (s->count >= nranks - 1 && nranks > 2)
        snprintf(text, sizeof(text),
                 "no other rank's contribution to start-up exchange %llu verifies: rank %d has another job key, or the "
                 "exchange was tampered with",
                 (unsigned long long)oob->exchange, rank);
    else
        snprintf(
            text, sizeof(text),
            "the contribution of rank%s %s to start-up exchange %llu does not verify: another job key, or the exchange "
            "was tampered with",
            s->count > 1 ? "s" : "", s->text, (unsigned long long)oob->exchange);
    return oob_fail(oob, WEFT_EAUTH, text);
}

/* ---- MACs ---- */

/* The same bytes at another rank's place, in another exchange or for another purpose have another MAC. */
static int contribution_mac(const struct oob *oob, const char *purpose, int rank, const void *data, size_t bytes,
                            unsigned char mac[WI_AUTH_MAC_BYTES])
{
    unsigned char place[24];
    wi_put64(place, oob->exchange);
    wi_put32(place + 8, (uint32_t)rank);
    wi_put32(place + 12, (uint32_t)oob->base.nranks);
    wi_put64(place + 16, bytes);
    struct wi_auth_part parts[] = {{place, sizeof(place)}, {data, bytes}};
    return wi_auth_mac(oob->key, purpose, parts, 2, mac);
}

/* Gather `bytes` and a MAC from every rank; `all` has room for both. Contributions that do not verify are suspects. */
static weft_status gather_macs(struct oob *oob, const char *purpose, const unsigned char *mine, size_t bytes,
                               unsigned char *all, struct suspects *suspects, uint64_t deadline_ns)
{
    size_t stride = bytes + WI_AUTH_MAC_BYTES;
    unsigned char mac[WI_AUTH_MAC_BYTES], *out = wi_malloc(stride);
    if (!out)
        return wi_fail(WEFT_ENOMEM, "no memory for a start-up exchange");
    if (bytes)
        memcpy(out, mine, bytes);
    weft_status st = contribution_mac(oob, purpose, oob->base.rank, mine, bytes, out + bytes)
                         ? wi_fail(WEFT_ENOMEM, "no memory to authenticate a start-up exchange")
                         : oob_exchange(oob, out, stride, all, deadline_ns);
    for (int r = 0; r < oob->base.nranks && st == WEFT_SUCCESS; r++) {
        const unsigned char *one = all + (size_t)r * stride;
        int same = r == oob->base.rank ? !memcmp(one, out, stride)
                                       : !contribution_mac(oob, purpose, r, one, bytes, mac) &&
                                             wi_auth_same(mac, one + bytes, sizeof(mac));
        if (!same)
            suspect_add(suspects, r);
    }
    wi_free(out);
    return st;
}

/* Each rank says whether the exchange before verified: 0, or 1 and the rank whose part did not. */
static weft_status verdicts(struct oob *oob, struct suspects *suspects, uint64_t deadline_ns)
{
    unsigned char mine[8];
    size_t nranks = (size_t)oob->base.nranks;
    unsigned char *all = wi_malloc(nranks * VERDICT_BYTES);
    struct suspects bad_verdicts = {.count = 0};
    if (!all)
        return wi_fail(WEFT_ENOMEM, "no memory for a start-up exchange");
    wi_put32(mine, suspects->count > 0);
    wi_put32(mine + 4, (uint32_t)suspects->first);
    weft_status st = gather_macs(oob, "weft out-of-band verdict", mine, sizeof(mine), all, &bad_verdicts, deadline_ns);
    if (suspects->count)
        st = suspects_fail(oob, suspects);
    for (size_t r = 0; r < nranks && st == WEFT_SUCCESS && !bad_verdicts.count; r++) {
        const unsigned char *one = all + r * VERDICT_BYTES;
        char text[160];
        if (!wi_get32(one))
            continue;
        snprintf(text, sizeof(text), "rank %zu refused the contribution of rank %u to start-up exchange %llu", r,
                 wi_get32(one + 4), (unsigned long long)oob->exchange);
        st = oob_fail(oob, WEFT_EAUTH, text);
    }
    if (st == WEFT_SUCCESS && bad_verdicts.count)
        st = suspects_fail(oob, &bad_verdicts);
    wi_free(all);
    return st;
}

/* ---- Hellos ---- */

static weft_status hello_write(const struct oob *oob, const unsigned char *hello_key, unsigned char *hello)
{
    memset(hello, 0, HELLO_BYTES);
    wi_put32(hello, OOB_MAGIC);
    hello[4] = OOB_VERSION;
    hello[5] = (unsigned char)oob->keyed;
    wi_put32(hello + 8, (uint32_t)oob->base.rank);
    wi_put32(hello + 12, (uint32_t)oob->base.nranks);
    if (wi_random(hello + HELLO_NONCE, HELLO_MAC - HELLO_NONCE))
        return wi_fail(WEFT_ESYS, "no random bytes");
    struct wi_auth_part part = {hello, HELLO_MAC};
    if (oob->keyed && wi_auth_mac(hello_key, "weft out-of-band hello", &part, 1, hello + HELLO_MAC))
        return wi_fail(WEFT_ENOMEM, "no memory to authenticate a start-up exchange");
    return WEFT_SUCCESS;
}

static weft_status versions_check(struct oob *oob, const unsigned char *all)
{
    char text[160];
    for (int r = 0; r < oob->base.nranks; r++) {
        const unsigned char *hello = all + (size_t)r * HELLO_BYTES;
        if (wi_get32(hello) == OOB_MAGIC && hello[4] == OOB_VERSION)
            continue;
        snprintf(text, sizeof(text), "rank %d runs another version of weft, or the caller's all-gather is wrong", r);
        return oob_fail(oob, WEFT_EMISMATCH, text);
    }
    return WEFT_SUCCESS;
}

/* A key on some ranks and none on others; or another version. With a key a version is believed once all hellos are verified. */
static weft_status hellos_check(struct oob *oob, const unsigned char *all)
{
    char text[200];
    if (!oob->keyed)
        WI_TRY(versions_check(oob, all));
    for (int r = 0; r < oob->base.nranks; r++) {
        const unsigned char *hello = all + (size_t)r * HELLO_BYTES;
        int keyed = hello[5] != 0, rank = oob->base.rank;
        if (keyed == oob->keyed)
            continue;
        snprintf(
            text, sizeof(text),
            "rank %d has no job key and rank %d has one: configure the same key (WEFT_JOB_KEY_FILE) for all ranks or for "
            "none",
            keyed ? rank : r, keyed ? r : rank);
        return oob_fail(oob, WEFT_EAUTH, text);
    }
    return WEFT_SUCCESS;
}

/* Ranks without a key have none to wait for the verdicts; those that were shown something else do wait for them. */
static weft_status answer_verdicts(struct oob *oob, unsigned char *all, uint64_t deadline_ns)
{
    static const unsigned char nothing[VERDICT_BYTES];
    _Static_assert(VERDICT_BYTES <= HELLO_BYTES, "verdicts fit where the hellos were");
    oob_exchange(oob, nothing, sizeof(nothing), all, deadline_ns);
    return wi_fail(oob->failed, "%s", oob->text);
}

static void hellos_verify(struct oob *oob, const unsigned char *hello_key, const unsigned char *mine,
                          const unsigned char *all, struct suspects *suspects)
{
    unsigned char mac[WI_AUTH_MAC_BYTES];
    for (int r = 0; r < oob->base.nranks; r++) {
        const unsigned char *hello = all + (size_t)r * HELLO_BYTES;
        struct wi_auth_part part = {hello, HELLO_MAC};
        int ok = wi_get32(hello + 8) == (uint32_t)r && wi_get32(hello + 12) == (uint32_t)oob->base.nranks &&
                 !wi_auth_mac(hello_key, "weft out-of-band hello", &part, 1, mac) &&
                 wi_auth_same(mac, hello + HELLO_MAC, sizeof(mac));
        if (r == oob->base.rank ? memcmp(hello, mine, HELLO_BYTES) != 0 : !ok)
            suspect_add(suspects, r);
    }
}

static weft_status places_check(struct oob *oob, const unsigned char *all)
{
    char text[160];
    for (int r = 0; r < oob->base.nranks; r++) {
        const unsigned char *hello = all + (size_t)r * HELLO_BYTES;
        if (wi_get32(hello + 8) == (uint32_t)r && wi_get32(hello + 12) == (uint32_t)oob->base.nranks)
            continue;
        snprintf(text, sizeof(text), "the caller's all-gather gives rank %u of %u at the place of rank %d of %d",
                 wi_get32(hello + 8), wi_get32(hello + 12), r, oob->base.nranks);
        return oob_fail(oob, WEFT_EPROTO, text);
    }
    return WEFT_SUCCESS;
}

/* The job's key, and that of the later exchanges, from all ranks' nonces. */
static weft_status keys_derive(struct oob *oob, const unsigned char *configured, const unsigned char *all)
{
    struct wi_auth_part hellos = {all, (size_t)oob->base.nranks * HELLO_BYTES}, none = {NULL, 0}, label = {"weft", 4};
    struct wi_auth_part key = {configured, WI_JOB_KEY_BYTES};
    if (!oob->keyed)
        return wi_auth_expand(hellos, label, "weft out-of-band job", none, oob->base.job_key, WI_JOB_KEY_BYTES);
    WI_TRY(wi_auth_expand(key, hellos, "weft out-of-band exchange", none, oob->key, sizeof(oob->key)));
    return wi_auth_expand(key, hellos, "weft out-of-band job", none, oob->base.job_key, WI_JOB_KEY_BYTES);
}

static weft_status oob_greet(struct oob *oob, const unsigned char *configured, const struct wi_auth_key *hello_key,
                             unsigned char *all, uint64_t deadline_ns)
{
    unsigned char mine[HELLO_BYTES];
    struct suspects suspects = {.count = 0};
    WI_TRY(hello_write(oob, hello_key->key, mine));
    WI_TRY(oob_exchange(oob, mine, sizeof(mine), all, deadline_ns));
    if (hellos_check(oob, all) < 0)
        return oob->failed == WEFT_EAUTH ? answer_verdicts(oob, all, deadline_ns) : oob->failed;
    WI_TRY(keys_derive(oob, configured, all));
    if (!oob->keyed)
        return places_check(oob, all);
    hellos_verify(oob, hello_key->key, mine, all, &suspects);
    WI_TRY(verdicts(oob, &suspects, deadline_ns));
    return versions_check(oob, all);
}

static weft_status oob_begin(struct oob *oob, const unsigned char *configured, unsigned char *all, uint64_t deadline_ns)
{
    struct wi_auth_key hello_key = {{0}};
    weft_status st = WEFT_SUCCESS;
    if (oob->keyed)
        st = wi_auth_derive(configured, WI_JOB_KEY_BYTES, oob->base.job, "weft out-of-band hello", &hello_key);
    if (st == WEFT_SUCCESS)
        st = oob_greet(oob, configured, &hello_key, all, deadline_ns);
    explicit_bzero(&hello_key, sizeof(hello_key));
    return st;
}

/* ---- The bootstrap ---- */

static weft_status oob_keyed_gather(struct oob *oob, const void *mine, size_t bytes, void *all, uint64_t deadline_ns)
{
    size_t nranks = (size_t)oob->base.nranks, stride = bytes + WI_AUTH_MAC_BYTES;
    struct suspects suspects = {.count = 0};
    unsigned char *held = wi_malloc(nranks * stride);
    if (!held)
        return wi_fail(WEFT_ENOMEM, "no memory to gather %zu bytes from %zu ranks", bytes, nranks);
    oob->exchange++;
    weft_status st = gather_macs(oob, "weft out-of-band exchange", mine, bytes, held, &suspects, deadline_ns);
    if (st == WEFT_SUCCESS)
        st = verdicts(oob, &suspects, deadline_ns);
    for (size_t r = 0; r < nranks && st == WEFT_SUCCESS && bytes; r++)
        memcpy((unsigned char *)all + r * bytes, held + r * stride, bytes);
    wi_free(held);
    return st;
}

static weft_status oob_all_gather(struct wi_bootstrap *b, const void *mine, size_t mine_bytes, void *all,
                                  uint64_t deadline_ns)
{
    struct oob *oob = (struct oob *)b;
    if (mine_bytes > WI_STORE_VALUE_MAX)
        return wi_fail(WEFT_EINVAL, "a start-up exchange carries up to %d bytes per rank, not %zu", WI_STORE_VALUE_MAX,
                       mine_bytes);
    if (oob->failed)
        return wi_fail(oob->failed, "%s", oob->text);
    return oob->keyed ? oob_keyed_gather(oob, mine, mine_bytes, all, deadline_ns)
                      : oob_exchange(oob, mine, mine_bytes, all, deadline_ns);
}

static void oob_destroy(struct wi_bootstrap *b)
{
    struct oob *oob = (struct oob *)b;
    explicit_bzero(oob->key, sizeof(oob->key));
    explicit_bzero(oob->base.job_key, sizeof(oob->base.job_key));
    wi_free(oob);
}

static weft_status oob_meet(const struct wi_bootstrap_settings *s, struct oob *oob, uint64_t deadline_ns)
{
    struct wi_job_key key;
    size_t bytes = (size_t)oob->base.nranks * HELLO_BYTES;
    WI_TRY(wi_job_key_read(s, oob->base.nranks > 1 ? WI_JOB_KEY_MUST : WI_JOB_KEY_MAY, deadline_ns, &key));
    oob->keyed = key.configured;
    unsigned char *all = wi_malloc(bytes);
    weft_status st = all ? oob_begin(oob, key.bytes, all, deadline_ns) : wi_fail(WEFT_ENOMEM, "no memory for start-up");
    explicit_bzero(&key, sizeof(key));
    if (all)
        explicit_bzero(all, bytes);
    wi_free(all);
    return st;
}

weft_status wi_bootstrap_oob(const struct wi_bootstrap_settings *s, const weft_oob *given, uint64_t deadline_ns,
                             struct wi_bootstrap **b)
{
    if (!given || given->bytes < offsetof(weft_oob, arg) || !given->all_gather)
        return wi_fail(WEFT_EINVAL, "weft_oob: no all_gather function");
    if (given->nranks < 1 || given->rank < 0 || given->rank >= given->nranks)
        return wi_fail(WEFT_EINVAL, "weft_oob: rank %d of %d ranks", given->rank, given->nranks);
    struct oob *oob = wi_calloc(1, sizeof(*oob));
    if (!oob)
        return wi_fail(WEFT_ENOMEM, "no memory for start-up");
    memcpy(&oob->given, given, given->bytes < sizeof(oob->given) ? given->bytes : sizeof(oob->given));
    oob->base = (struct wi_bootstrap){.rank = given->rank,
                                      .nranks = given->nranks,
                                      .local_rank = -1,
                                      .local_nranks = -1,
                                      .has_secret = 1,
                                      .job = "oob",
                                      .all_gather = oob_all_gather,
                                      .destroy = oob_destroy};
    weft_status st = oob_meet(s, oob, deadline_ns);
    if (st < 0) {
        oob_destroy(&oob->base);
        return st;
    }
    if (given->nranks > 1)
        wi_log(WEFT_LOG_INFO, "bootstrap.oob", "rank %d of %d: %s", given->rank, given->nranks,
               oob->keyed ? "the exchange is authenticated by the configured job key"
                          : "no job key is configured: the job is as private as the caller's exchange");
    *b = &oob->base;
    return WEFT_SUCCESS;
}

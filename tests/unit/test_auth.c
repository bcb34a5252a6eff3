/* SPDX-License-Identifier: BSD-3-Clause */
/* The handshake: agreement, every single-bit and single-byte change, reflection, replay, fragments. */
#include "unit.h"

#include <string.h>

#include "base/hash.h"
#include "net/auth.h"

#define MESSAGE WEFT_AUTH_MESSAGE_MAX

struct transcript {
    unsigned char hello[MESSAGE], reply[MESSAGE], proof[MESSAGE];
    size_t hello_bytes, reply_bytes, proof_bytes;
};

static struct wi_auth_key key_of(const char *secret, const char *job, const char *purpose)
{
    struct wi_auth_key key;
    CU_ASSERT_EQUAL_FATAL(wi_auth_derive((const unsigned char *)secret, strlen(secret), job, purpose, &key),
                          WEFT_SUCCESS);
    return key;
}

static weft_status feed(struct weft_auth *auth, const void *in, size_t in_bytes, void *out, size_t *out_bytes,
                        void *claim, size_t *claim_bytes)
{
    size_t consumed;
    weft_status st = wi_auth_step(auth, in, in_bytes, &consumed, out, MESSAGE, out_bytes, claim, claim_bytes);
    if (st >= 0)
        CU_ASSERT_EQUAL(consumed, in_bytes);
    return st;
}

/* Run both sides over what they say; returns the server's verdict. */
static weft_status shake(const struct wi_auth_key *client_key, const struct wi_auth_key *server_key,
                         struct transcript *t)
{
    struct weft_auth *client = wi_auth_create(client_key, 0, "client!", 7);
    struct weft_auth *server = wi_auth_create(server_key, 1, "srv", 3);
    char claim[WEFT_AUTH_CLAIM_MAX];
    size_t claim_bytes = 0, none;
    memset(t, 0, sizeof(*t));
    weft_status st = feed(client, NULL, 0, t->hello, &t->hello_bytes, claim, &claim_bytes);
    if (st >= 0)
        st = feed(server, t->hello, t->hello_bytes, t->reply, &t->reply_bytes, claim, &claim_bytes);
    if (st >= 0)
        st = feed(client, t->reply, t->reply_bytes, t->proof, &t->proof_bytes, claim, &claim_bytes);
    if (st == WEFT_SUCCESS) {
        CU_ASSERT(claim_bytes == 3 && !memcmp(claim, "srv", 3));
        st = feed(server, t->proof, t->proof_bytes, t->reply + t->reply_bytes, &none, claim, &claim_bytes);
    }
    if (st == WEFT_SUCCESS)
        CU_ASSERT(claim_bytes == 7 && !memcmp(claim, "client!", 7));
    wi_auth_destroy(client);
    wi_auth_destroy(server);
    return st;
}

static void agrees(void)
{
    struct wi_auth_key key = key_of("secret", "job", "link");
    struct transcript t;
    CU_ASSERT_EQUAL(shake(&key, &key, &t), WEFT_SUCCESS);
    CU_ASSERT(t.hello_bytes <= MESSAGE && t.reply_bytes <= MESSAGE && t.proof_bytes <= MESSAGE);
}

static void refuses_other_keys(void)
{
    struct wi_auth_key key = key_of("secret", "job", "link");
    const struct wi_auth_key others[] = {key_of("secres", "job", "link"), key_of("secret", "jobs", "link"),
                                         key_of("secret", "job", "store")};
    struct transcript t;
    for (int i = 0; i < 3; i++) {
        CU_ASSERT_EQUAL(shake(&key, &others[i], &t), WEFT_EAUTH);
        CU_ASSERT_EQUAL(t.reply_bytes, 0); /* closed without a word */
    }
}

/* A fresh server, given a hello changed at one place, must refuse it and say nothing. */
static void refuses_changed_hello(void)
{
    struct wi_auth_key key = key_of("secret", "job", "link");
    unsigned char hello[MESSAGE], out[MESSAGE];
    size_t hello_bytes, out_bytes;
    struct weft_auth *client = wi_auth_create(&key, 0, "c", 1);
    feed(client, NULL, 0, hello, &hello_bytes, NULL, NULL);
    for (size_t i = 0; i < hello_bytes * 8; i++) {
        struct weft_auth *server = wi_auth_create(&key, 1, NULL, 0);
        hello[i / 8] ^= (unsigned char)(1u << i % 8);
        CU_ASSERT_EQUAL(feed(server, hello, hello_bytes, out, &out_bytes, NULL, NULL), WEFT_EAUTH);
        CU_ASSERT_EQUAL(out_bytes, 0);
        hello[i / 8] ^= (unsigned char)(1u << i % 8);
        CU_ASSERT_EQUAL(feed(server, hello, hello_bytes, out, &out_bytes, NULL, NULL), WEFT_EAUTH); /* for good */
        wi_auth_destroy(server);
    }
    wi_auth_destroy(client);
}

/* The state machine cannot be rewound, so each change gets handshakes of its own. */
static void changed_later(int proof)
{
    struct wi_auth_key key = key_of("secret", "job", "link");
    unsigned char a[MESSAGE], b[MESSAGE], c[MESSAGE];
    size_t na, nb, nc, bits = 1;
    for (size_t i = 0; i < bits; i++) {
        struct weft_auth *client = wi_auth_create(&key, 0, "c", 1), *server = wi_auth_create(&key, 1, "s", 1);
        feed(client, NULL, 0, a, &na, NULL, NULL);
        feed(server, a, na, b, &nb, NULL, NULL);
        if (!proof) {
            bits = nb * 8;
            b[i / 8] ^= (unsigned char)(1u << i % 8);
        }
        weft_status st = feed(client, b, nb, c, &nc, NULL, NULL);
        if (proof) {
            CU_ASSERT_EQUAL(st, WEFT_SUCCESS);
            bits = nc * 8;
            c[i / 8] ^= (unsigned char)(1u << i % 8);
            st = feed(server, c, nc, a, &na, NULL, NULL);
        } else {
            CU_ASSERT_EQUAL(nc, 0);
        }
        CU_ASSERT_EQUAL(st, WEFT_EAUTH);
        wi_auth_destroy(client);
        wi_auth_destroy(server);
    }
    CU_ASSERT(bits >= 8 * 40);
}

static void refuses_changed_reply(void)
{
    changed_later(0);
}

static void refuses_changed_proof(void)
{
    changed_later(1);
}

/* A client that hears its own hello, or a server's proof step fed with the server's words. */
static void refuses_reflection(void)
{
    struct wi_auth_key key = key_of("secret", "job", "link");
    unsigned char a[MESSAGE], b[MESSAGE], c[MESSAGE];
    size_t na, nb, nc;
    struct weft_auth *client = wi_auth_create(&key, 0, "x", 1), *server = wi_auth_create(&key, 1, "x", 1);
    feed(client, NULL, 0, a, &na, NULL, NULL);
    feed(server, a, na, b, &nb, NULL, NULL);
    CU_ASSERT_EQUAL(feed(client, a, na, c, &nc, NULL, NULL), WEFT_EAUTH);
    CU_ASSERT_EQUAL(feed(server, b, nb, c, &nc, NULL, NULL), WEFT_EAUTH);
    wi_auth_destroy(client);
    wi_auth_destroy(server);

    /* The hello made to look like a reply: the macs differ by their label. */
    client = wi_auth_create(&key, 0, "x", 1);
    feed(client, NULL, 0, a, &na, NULL, NULL);
    a[5] = 2;
    CU_ASSERT_EQUAL(feed(client, a, na, c, &nc, NULL, NULL), WEFT_EAUTH);
    wi_auth_destroy(client);
}

static void refuses_replay(void)
{
    struct wi_auth_key key = key_of("secret", "job", "link");
    unsigned char out[MESSAGE];
    size_t out_bytes;
    struct transcript t;
    CU_ASSERT_EQUAL(shake(&key, &key, &t), WEFT_SUCCESS);

    struct weft_auth *server = wi_auth_create(&key, 1, "srv", 3);
    CU_ASSERT_EQUAL(feed(server, t.hello, t.hello_bytes, out, &out_bytes, NULL, NULL), WEFT_INPROGRESS);
    CU_ASSERT(out_bytes == t.reply_bytes && memcmp(out, t.reply, out_bytes) != 0);
    CU_ASSERT_EQUAL(feed(server, t.proof, t.proof_bytes, out, &out_bytes, NULL, NULL), WEFT_EAUTH);
    wi_auth_destroy(server);

    struct weft_auth *client = wi_auth_create(&key, 0, "client!", 7);
    feed(client, NULL, 0, out, &out_bytes, NULL, NULL);
    CU_ASSERT_EQUAL(feed(client, t.reply, t.reply_bytes, out, &out_bytes, NULL, NULL), WEFT_EAUTH);
    wi_auth_destroy(client);
}

/* What a listener answered once it does not answer again, as long as it remembers; other listeners are others. */
static void remembers_hellos(void)
{
    struct wi_auth_key key = key_of("secret", "job", "link");
    struct wi_auth_seen *seen = wi_auth_seen_create(), *other = wi_auth_seen_create();
    unsigned char hello[2][MESSAGE], out[MESSAGE];
    size_t n[2], out_bytes;
    CU_ASSERT_FATAL(seen && other);
    for (int i = 0; i < 2; i++) {
        struct weft_auth *client = wi_auth_create(&key, 0, "c", 1);
        feed(client, NULL, 0, hello[i], &n[i], NULL, NULL);
        wi_auth_destroy(client);
    }
    const struct {
        int hello, again;
        struct wi_auth_seen *seen;
    } steps[] = {{0, 0, seen}, {0, 1, seen}, {1, 0, seen}, {0, 1, seen}, {1, 1, seen}, {0, 0, other}, {0, 0, NULL}};
    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
        struct weft_auth *server = wi_auth_create(&key, 1, "s", 1);
        wi_auth_remember(server, steps[i].seen);
        CU_ASSERT_EQUAL(feed(server, hello[steps[i].hello], n[steps[i].hello], out, &out_bytes, NULL, NULL),
                        steps[i].again ? WEFT_EAUTH : WEFT_INPROGRESS);
        CU_ASSERT_EQUAL(out_bytes > 0, !steps[i].again);
        wi_auth_destroy(server);
    }
    wi_auth_seen_destroy(seen);
    wi_auth_seen_destroy(other);
    wi_auth_seen_destroy(NULL);
}

static int is_wanted(void *arg, const void *claim, size_t bytes)
{
    int *asked = arg;
    (*asked)++;
    return bytes == 1 && *(const char *)claim == 'w';
}

/* A claim that the listener does not want gets no answer, and is not remembered; one without the key is not even shown. */
static void expects(void)
{
    struct wi_auth_key key = key_of("secret", "job", "link"), wrong = key_of("another", "job", "link");
    struct wi_auth_seen *seen = wi_auth_seen_create();
    const struct {
        const struct wi_auth_key *key;
        const char *claim;
        int asked, answered;
    } cases[] = {{&key, "w", 1, 1}, {&key, "x", 1, 0}, {&wrong, "w", 0, 0}};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        unsigned char hello[MESSAGE], out[MESSAGE];
        size_t n, out_bytes;
        int asked = 0;
        struct weft_auth *client = wi_auth_create(cases[i].key, 0, cases[i].claim, 1);
        struct weft_auth *server = wi_auth_create(&key, 1, "s", 1);
        wi_auth_remember(server, seen);
        wi_auth_expect(server, is_wanted, &asked);
        feed(client, NULL, 0, hello, &n, NULL, NULL);
        CU_ASSERT_EQUAL(feed(server, hello, n, out, &out_bytes, NULL, NULL),
                        cases[i].answered ? WEFT_INPROGRESS : WEFT_EAUTH);
        CU_ASSERT_EQUAL(out_bytes > 0, cases[i].answered);
        CU_ASSERT_EQUAL(asked, cases[i].asked);
        CU_ASSERT_EQUAL(wi_auth_seen_before(seen, hello + 8), cases[i].answered);
        wi_auth_destroy(client);
        wi_auth_destroy(server);
    }
    wi_auth_seen_destroy(seen);
}

/* Strangers cannot fill the table: what they send is not made with the key. */
static void remembers_many(void)
{
    struct wi_auth_seen *seen = wi_auth_seen_create();
    unsigned char first[32], nonce[32];
    CU_ASSERT_PTR_NOT_NULL_FATAL(seen);
    CU_ASSERT_EQUAL_FATAL(wi_random(first, sizeof(first)), 0);
    CU_ASSERT(!wi_auth_seen_before(seen, first));
    for (int i = 0; i < 64 * WI_AUTH_SEEN_MAX; i++) {
        CU_ASSERT_EQUAL_FATAL(wi_random(nonce, sizeof(nonce)), 0);
        CU_ASSERT_FATAL(!wi_auth_seen_before(seen, nonce));
        CU_ASSERT_FATAL(wi_auth_seen_before(seen, nonce));
    }
    CU_ASSERT(!wi_auth_seen_before(seen, first)); /* forgotten: the memory is bounded */
    wi_auth_seen_destroy(seen);
}

struct pipe {
    unsigned char data[4 * MESSAGE];
    size_t begin, end;
};

/* Give one side at most `piece` bytes and room for at most `room`. */
static weft_status piecewise(struct weft_auth *auth, struct pipe *in, struct pipe *out, size_t piece, size_t room,
                             void *claim, size_t *claim_bytes)
{
    size_t consumed, made, have = in->end - in->begin;
    weft_status st = wi_auth_step(auth, in->data + in->begin, have < piece ? have : piece, &consumed,
                                  out->data + out->end, room, &made, claim, claim_bytes);
    CU_ASSERT(consumed <= piece && made <= room);
    in->begin += consumed;
    out->end += made;
    return st;
}

static void takes_fragments(void)
{
    struct wi_auth_key key = key_of("secret", "job", "link");
    for (size_t piece = 1; piece <= 300; piece += piece < 20 ? 1 : 37) {
        for (size_t room = 1; room <= MESSAGE; room += 85) {
            struct weft_auth *client = wi_auth_create(&key, 0, "cc", 2), *server = wi_auth_create(&key, 1, "s", 1);
            struct pipe up = {.end = 0}, down = {.end = 0};
            char claim[WEFT_AUTH_CLAIM_MAX];
            size_t claim_bytes = 0;
            weft_status c = WEFT_INPROGRESS, s = WEFT_INPROGRESS;
            for (int i = 0; i < 2000 && (c == WEFT_INPROGRESS || s == WEFT_INPROGRESS); i++) {
                if (c == WEFT_INPROGRESS)
                    c = piecewise(client, &down, &up, piece, room, claim, &claim_bytes);
                if (s == WEFT_INPROGRESS)
                    s = piecewise(server, &up, &down, piece, room, claim, &claim_bytes);
            }
            CU_ASSERT(c == WEFT_SUCCESS && s == WEFT_SUCCESS);
            CU_ASSERT(up.begin == up.end && down.begin == down.end);
            wi_auth_destroy(client);
            wi_auth_destroy(server);
        }
    }
}

/* What follows the handshake is the application's and stays with it. */
static void leaves_what_follows(void)
{
    struct wi_auth_key key = key_of("secret", "job", "link");
    struct transcript t;
    unsigned char out[MESSAGE];
    size_t consumed, n;
    struct weft_auth *client = wi_auth_create(&key, 0, NULL, 0), *server = wi_auth_create(&key, 1, NULL, 0);
    feed(client, NULL, 0, t.hello, &t.hello_bytes, NULL, NULL);
    feed(server, t.hello, t.hello_bytes, t.reply, &t.reply_bytes, NULL, NULL);
    feed(client, t.reply, t.reply_bytes, t.proof, &t.proof_bytes, NULL, NULL);
    memcpy(t.proof + t.proof_bytes, "hello", 5);
    CU_ASSERT_EQUAL(wi_auth_step(server, t.proof, t.proof_bytes + 5, &consumed, out, sizeof(out), &n, NULL, NULL),
                    WEFT_SUCCESS);
    CU_ASSERT_EQUAL(consumed, t.proof_bytes);
    wi_auth_destroy(client);
    wi_auth_destroy(server);
}

/* A wrong byte is noticed when it comes, not when the message would be whole. */
static void refuses_junk_early(void)
{
    struct wi_auth_key key = key_of("secret", "job", "link");
    unsigned char out[MESSAGE];
    size_t n;
    struct weft_auth *server = wi_auth_create(&key, 1, NULL, 0);
    CU_ASSERT_EQUAL(feed(server, "GE", 2, out, &n, NULL, NULL), WEFT_EAUTH);
    CU_ASSERT_EQUAL(n, 0);
    wi_auth_destroy(server);
    for (int i = 0; i < 2000; i++) {
        unsigned char junk[MESSAGE];
        CU_ASSERT_EQUAL_FATAL(wi_random(junk, sizeof(junk)), 0);
        server = wi_auth_create(&key, 1, NULL, 0);
        CU_ASSERT_EQUAL(feed(server, junk, sizeof(junk), out, &n, NULL, NULL), WEFT_EAUTH);
        wi_auth_destroy(server);
    }
}

static void refuses_long_claims(void)
{
    struct wi_auth_key key = key_of("secret", "job", "link");
    char claim[WEFT_AUTH_CLAIM_MAX + 1] = "";
    CU_ASSERT_PTR_NULL(wi_auth_create(&key, 0, claim, sizeof(claim)));
    CU_ASSERT_PTR_NULL(wi_auth_create(&key, 0, NULL, 1));
    struct weft_auth *auth = wi_auth_create(&key, 0, claim, WEFT_AUTH_CLAIM_MAX);
    CU_ASSERT_PTR_NOT_NULL(auth);
    wi_auth_destroy(auth);
    wi_auth_destroy(NULL);
}

/* ---- After the handshake ---- */

static void pair(struct weft_auth **client, struct weft_auth **server)
{
    struct wi_auth_key key = key_of("secret", "job", "link");
    unsigned char a[MESSAGE], b[MESSAGE], c[MESSAGE];
    size_t na, nb, nc;
    *client = wi_auth_create(&key, 0, "c", 1);
    *server = wi_auth_create(&key, 1, "s", 1);
    feed(*client, NULL, 0, a, &na, NULL, NULL);
    feed(*server, a, na, b, &nb, NULL, NULL);
    CU_ASSERT_EQUAL(feed(*client, b, nb, c, &nc, NULL, NULL), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(wi_auth_session(*server, "early", a, 32), WEFT_EINVAL);
    CU_ASSERT_EQUAL(feed(*server, c, nc, a, &na, NULL, NULL), WEFT_SUCCESS);
}

static void session_keys(void)
{
    unsigned char keys[2][2][WI_AUTH_SESSION_MAX], other[WI_AUTH_SESSION_MAX];
    char label[WI_AUTH_LABEL_MAX + 2];
    memset(label, 'l', sizeof(label) - 1);
    label[sizeof(label) - 1] = '\0';
    for (int i = 0; i < 2; i++) {
        struct weft_auth *client, *server;
        pair(&client, &server);
        CU_ASSERT_EQUAL(wi_auth_session(client, "a label", keys[i][0], WI_AUTH_SESSION_MAX), WEFT_SUCCESS);
        CU_ASSERT_EQUAL(wi_auth_session(server, "a label", keys[i][1], WI_AUTH_SESSION_MAX), WEFT_SUCCESS);
        CU_ASSERT_EQUAL(wi_auth_session(server, "a labe", other, WI_AUTH_SESSION_MAX), WEFT_SUCCESS);
        CU_ASSERT(!memcmp(keys[i][0], keys[i][1], WI_AUTH_SESSION_MAX));
        CU_ASSERT(memcmp(keys[i][0], other, 32) != 0);
        CU_ASSERT_EQUAL(wi_auth_session(client, label, other, 32), WEFT_EINVAL);
        CU_ASSERT_EQUAL(wi_auth_session(client, label + 1, other, 32), WEFT_SUCCESS);
        CU_ASSERT_EQUAL(wi_auth_session(client, NULL, other, 32), WEFT_EINVAL);
        CU_ASSERT_EQUAL(wi_auth_session(client, "a label", other, WI_AUTH_SESSION_MAX + 1), WEFT_EINVAL);
        wi_auth_destroy(client);
        wi_auth_destroy(server);
    }
    CU_ASSERT(memcmp(keys[0][0], keys[1][0], 32) != 0);
}

struct ends {
    struct wi_auth_stream client_out, client_in, server_out, server_in;
};

static void ends_begin(struct ends *e)
{
    struct weft_auth *client, *server;
    memset(e, 0, sizeof(*e));
    pair(&client, &server);
    CU_ASSERT_EQUAL(wi_auth_streams(client, &e->client_out, &e->client_in), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(wi_auth_streams(server, &e->server_out, &e->server_in), WEFT_SUCCESS);
    wi_auth_destroy(client);
    wi_auth_destroy(server);
}

static void ends_end(struct ends *e)
{
    wi_auth_stream_end(&e->client_out);
    wi_auth_stream_end(&e->client_in);
    wi_auth_stream_end(&e->server_out);
    wi_auth_stream_end(&e->server_in);
}

static void tags_agree(void)
{
    struct ends e;
    unsigned char data[100], tag[WI_AUTH_TAG_BYTES];
    ends_begin(&e);
    for (size_t bytes = 0; bytes <= sizeof(data); bytes++) {
        memset(data, (int)bytes, sizeof(data));
        CU_ASSERT_EQUAL(wi_auth_seal(&e.client_out, data, bytes, tag), 0);
        CU_ASSERT_EQUAL(wi_auth_open(&e.server_in, data, bytes, tag), 0);
        CU_ASSERT_EQUAL(wi_auth_seal(&e.server_out, data, bytes, tag), 0);
        CU_ASSERT_EQUAL(wi_auth_open(&e.client_in, data, bytes, tag), 0);
    }
    ends_end(&e);
    CU_ASSERT_EQUAL(wi_auth_seal(&e.client_out, data, 1, tag), -1); /* ended */
}

/* Each message is opened once, so each change gets a message of its own. */
static void tags_refuse_changes(void)
{
    struct ends e;
    unsigned char data[40], tag[WI_AUTH_TAG_BYTES];
    ends_begin(&e);
    memset(data, 5, sizeof(data));
    for (size_t bit = 0; bit < 8 * (sizeof(data) + sizeof(tag)); bit++) {
        CU_ASSERT_EQUAL(wi_auth_seal(&e.client_out, data, sizeof(data), tag), 0);
        unsigned char *byte = bit < 8 * sizeof(data) ? data + bit / 8 : tag + bit / 8 - sizeof(data);
        *byte ^= (unsigned char)(1u << bit % 8);
        CU_ASSERT_EQUAL(wi_auth_open(&e.server_in, data, sizeof(data), tag), WEFT_EAUTH);
        if (bit < 8 * sizeof(data))
            *byte ^= (unsigned char)(1u << bit % 8);
    }
    CU_ASSERT_EQUAL(wi_auth_seal(&e.client_out, data, sizeof(data), tag), 0);
    CU_ASSERT_EQUAL(wi_auth_open(&e.server_in, data, sizeof(data) - 1, tag), WEFT_EAUTH);
    ends_end(&e);
}

static void tags_refuse_order(void)
{
    struct ends e;
    unsigned char one[WI_AUTH_TAG_BYTES], two[WI_AUTH_TAG_BYTES];
    ends_begin(&e);
    CU_ASSERT_EQUAL(wi_auth_seal(&e.client_out, "same", 4, one), 0);
    CU_ASSERT_EQUAL(wi_auth_open(&e.client_in, "same", 4, one), WEFT_EAUTH); /* sent back to who said it */
    CU_ASSERT_EQUAL(wi_auth_open(&e.server_in, "same", 4, one), 0);
    CU_ASSERT_EQUAL(wi_auth_open(&e.server_in, "same", 4, one), WEFT_EAUTH); /* repeated */
    ends_end(&e);
    ends_begin(&e);
    CU_ASSERT_EQUAL(wi_auth_seal(&e.client_out, "same", 4, one), 0);
    CU_ASSERT_EQUAL(wi_auth_seal(&e.client_out, "same", 4, two), 0);
    CU_ASSERT_EQUAL(wi_auth_open(&e.server_in, "same", 4, two), WEFT_EAUTH); /* the first left out */
    ends_end(&e);
}

static const struct wt_case cases[] = {
    {"both sides agree and learn the claims", agrees},
    {"another key, job or purpose is refused without a word", refuses_other_keys},
    {"each changed bit of the hello is refused", refuses_changed_hello},
    {"each changed bit of the reply is refused", refuses_changed_reply},
    {"each changed bit of the proof is refused", refuses_changed_proof},
    {"reflected messages are refused", refuses_reflection},
    {"replayed messages are refused", refuses_replay},
    {"a listener says which claims it wants", expects},
    {"a listener remembers the hellos it has answered", remembers_hellos},
    {"what it remembers is bounded", remembers_many},
    {"input and output may come in any pieces", takes_fragments},
    {"bytes behind the handshake are left", leaves_what_follows},
    {"junk is refused at its first wrong byte", refuses_junk_early},
    {"claims are bounded", refuses_long_claims},
    {"session keys: both ends, one handshake, one label", session_keys},
    {"tags of what follows agree", tags_agree},
    {"tags refuse each changed bit", tags_refuse_changes},
    {"tags refuse what is repeated, left out or turned round", tags_refuse_order},
};

WT_UNIT_MAIN("auth", cases)

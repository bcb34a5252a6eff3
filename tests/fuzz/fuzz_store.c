/* SPDX-License-Identifier: BSD-3-Clause */
/* Start-up store: an authenticated client that sends anything. Bytes are cut into frames and given to one of three
 * sessions, which come and go; the answers must be well-formed frames. The first byte of each record chooses the
 * session (or, from 250 up, that it closes and opens again), the second how many bytes follow. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "net/store.h"
#include "tests/fuzz/require.h"

#define SESSIONS 3

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void check_answers(struct wi_store_session *session)
{
    struct wi_store_verdict verdict;
    struct wi_store_frame frame;
    for (long n = 1; n > 0 && wi_store_buf_bytes(&session->out);) {
        n = wi_store_frame_parse(session->out.data + session->out.begin, wi_store_buf_bytes(&session->out), &frame);
        require(n > 0 && frame.type >= WI_STORE_VALUE);
        require(frame.type != WI_STORE_VERDICT || !wi_store_verdict_read(frame.value, frame.value_bytes, &verdict));
        wi_store_buf_consume(&session->out, (size_t)n);
    }
}

static struct wi_store_session *open_session(struct wi_store *store, int i)
{
    struct wi_store_session *session;
    require(wi_store_session_open(store, i == 2 ? 0 : i, 2, "host", i, &session) >= 0);
    return session;
}

/* All whole frames; -1: break off. */
static int feed(struct wi_store *store, struct wi_store_session *session, struct wi_store_buf *in)
{
    struct wi_store_frame frame;
    long n = 0;
    while (wi_store_buf_bytes(in) &&
           (n = wi_store_frame_parse(in->data + in->begin, wi_store_buf_bytes(in), &frame)) > 0) {
        if (wi_store_session_frame(store, session, &frame))
            return -1;
        wi_store_buf_consume(in, (size_t)n);
    }
    return n < 0 ? -1 : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct wi_store *store = wi_store_create(0);
    struct wi_store_session *sessions[SESSIONS];
    struct wi_store_buf in[SESSIONS];
    for (int i = 0; i < SESSIONS; i++) {
        wi_store_buf_init(&in[i], 200000);
        sessions[i] = open_session(store, i);
    }
    for (size_t at = 0; at + 2 <= bytes;) {
        int i = data[at] % SESSIONS, reopen = data[at] >= 250;
        size_t n = data[at + 1] < bytes - at - 2 ? data[at + 1] : bytes - at - 2;
        if (wi_store_buf_append(&in[i], data + at + 2, n) || feed(store, sessions[i], &in[i]) || reopen) {
            check_answers(sessions[i]);
            wi_store_session_close(store, sessions[i]);
            in[i].begin = in[i].end = 0;
            sessions[i] = open_session(store, i);
        }
        for (int k = 0; k < SESSIONS; k++)
            check_answers(sessions[k]);
        at += 2 + n;
    }
    for (int i = 0; i < SESSIONS; i++)
        wi_store_buf_fini(&in[i]);
    wi_store_destroy(store);
    return 0;
}

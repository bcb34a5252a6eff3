/* SPDX-License-Identifier: BSD-3-Clause */
/* The start-up store without sockets, and its frames. */
#include "unit.h"

#include "base/log.h"
#include "net/store.h"
#include "tests/harness/harness.h"

static int tell(struct wi_store *store, struct wi_store_session *session, enum wi_store_frame_type type,
                const char *key, const void *value, size_t bytes)
{
    struct wi_store_frame frame = {.type = type, .key_bytes = strlen(key), .value = value, .value_bytes = bytes};
    strcpy(frame.key, key);
    return wi_store_session_frame(store, session, &frame);
}

static int heard(struct wi_store_session *session, struct wi_store_frame *frame)
{
    long n = wi_store_frame_parse(session->out.data + session->out.begin, wi_store_buf_bytes(&session->out), frame);
    if (n > 0)
        session->out.begin += (size_t)n;
    return n > 0;
}

static void store_rules(void)
{
    struct wi_store *store = wi_store_create(2);
    struct wi_store_session *a, *b, *c;
    struct wi_store_frame frame;
    unsigned char zero[8] = {0}, one[8] = {1};
    CU_ASSERT_EQUAL(wi_store_session_open(store, 2, 2, "h", 1, &a), WEFT_EPROTO);
    CU_ASSERT_EQUAL(wi_store_session_open(store, 0, 2, "h", 1, &a), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(wi_store_session_open(store, 1, 2, "h", 2, &b), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(wi_store_session_open(store, 1, 2, "h", 3, &c), WEFT_SUCCESS);
    CU_ASSERT(c->refused && heard(c, &frame) && frame.type == WI_STORE_VERDICT);
    wi_store_session_close(store, c);
    CU_ASSERT_PTR_NULL(wi_store_verdict_of(store));

    CU_ASSERT_EQUAL(tell(store, a, WI_STORE_GET, "k", NULL, 0), 0);
    CU_ASSERT(!heard(a, &frame));
    CU_ASSERT_EQUAL(tell(store, b, WI_STORE_PUT, "k", "value", 5), 0);
    CU_ASSERT(heard(a, &frame) && frame.value_bytes == 5 && !memcmp(frame.value, "value", 5));
    CU_ASSERT_EQUAL(tell(store, b, WI_STORE_GET, "k", NULL, 0), 0);
    CU_ASSERT(heard(b, &frame) && frame.type == WI_STORE_VALUE);

    CU_ASSERT_EQUAL(tell(store, a, WI_STORE_ENTER, "", one, 8), -1); /* before it has joined */
    CU_ASSERT_EQUAL(tell(store, a, WI_STORE_ENTER, "", zero, 8), 0);
    CU_ASSERT(!wi_store_complete(store));
    CU_ASSERT_EQUAL(tell(store, a, WI_STORE_WHO, "", zero, 8), 0);
    CU_ASSERT(heard(a, &frame) && frame.type == WI_STORE_MISSING && wi_get32(frame.value + 8) == 1 &&
              wi_get32(frame.value + 12) == 1);
    CU_ASSERT_EQUAL(tell(store, b, WI_STORE_ENTER, "", zero, 8), 0);
    CU_ASSERT(wi_store_complete(store));
    CU_ASSERT_EQUAL(tell(store, a, WI_STORE_VALUE, "k", NULL, 0), -1); /* a server's frame */

    wi_store_session_close(store, b); /* without a good-bye */
    CU_ASSERT(heard(a, &frame) && frame.type == WI_STORE_VERDICT);
    CU_ASSERT_PTR_NOT_NULL(wi_store_verdict_of(store));
    for (int i = 0; i < WI_STORE_SESSION_GETS; i++) {
        char key[16];
        snprintf(key, sizeof(key), "g%d", i);
        CU_ASSERT_EQUAL(tell(store, a, WI_STORE_GET, key, NULL, 0), 0);
    }
    CU_ASSERT_EQUAL(tell(store, a, WI_STORE_GET, "one too many", NULL, 0), -1);
    wi_store_destroy(store);
}

/* Of a rank that may not join the others hear when they ask, and the log at once. */
static void store_refusals(void)
{
    struct wi_store *store = wi_store_create(2);
    struct wi_store_session *a, *b;
    struct wi_store_verdict told;
    struct wi_store_frame frame;
    char spec[512], line[512] = "";
    snprintf(spec, sizeof(spec), "warn,file:%s/refusals", wt_temp_dir());
    CU_ASSERT_EQUAL_FATAL(wi_log_init(spec), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(wi_store_session_open(store, 0, 2, "h", 1, &a), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(wi_store_session_open(store, 1, 3, "h", 2, &b), WEFT_SUCCESS);
    wi_store_session_close(store, b);
    CU_ASSERT_EQUAL(wi_log_init(NULL), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(tell(store, a, WI_STORE_GET, WI_STORE_KEY_REFUSAL, NULL, 0), 0);
    CU_ASSERT_FATAL(heard(a, &frame) && !wi_store_verdict_read(frame.value, frame.value_bytes, &told));
    CU_ASSERT_STRING_EQUAL(told.text, "rank 1 (h, pid 2) says the job has 3 ranks, rank 0 says 2");
    FILE *log = fopen(strchr(spec, '/'), "r");
    CU_ASSERT_FATAL(log && fgets(line, sizeof(line), log));
    CU_ASSERT(strstr(line, "WARN store.refused: ") && strstr(line, told.text));
    fclose(log);
    wi_store_destroy(store);
}

/* A store that learns how many ranks there are says from whom. */
static void store_sized(void)
{
    struct wi_store *store = wi_store_create(0);
    struct wi_store_session *a, *b;
    struct wi_store_verdict told;
    struct wi_store_frame frame;
    CU_ASSERT_EQUAL(wi_store_session_open(store, 3, 8, "h", 1, &a), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(wi_store_session_open(store, 0, 4, "h", 2, &b), WEFT_SUCCESS);
    CU_ASSERT(!a->refused && b->refused);
    CU_ASSERT_FATAL(heard(b, &frame) && !wi_store_verdict_read(frame.value, frame.value_bytes, &told));
    CU_ASSERT_STRING_EQUAL(told.text, "rank 0 (h, pid 2) says the job has 4 ranks, rank 3 (h, pid 1) says 8");
    CU_ASSERT_EQUAL(told.culprit, 0);
    wi_store_destroy(store);
}

/* Those that have joined do not wait for their deadline and blame a rank that never came; a complete job's end is no failure. */
static void store_farewell(void)
{
    unsigned char zero[8] = {0};
    for (int complete = 0; complete < 2; complete++) {
        struct wi_store *store = wi_store_create(2);
        struct wi_store_session *a, *b;
        struct wi_store_verdict told;
        struct wi_store_frame frame;
        CU_ASSERT_EQUAL(wi_store_session_open(store, 0, 2, "h", 1, &a), WEFT_SUCCESS);
        CU_ASSERT_EQUAL(wi_store_session_open(store, 1, 2, "h", 2, &b), WEFT_SUCCESS);
        CU_ASSERT_EQUAL(tell(store, b, WI_STORE_ENTER, "", zero, 8), 0);
        if (complete)
            CU_ASSERT_EQUAL(tell(store, a, WI_STORE_ENTER, "", zero, 8), 0);
        wi_store_farewell(store);
        if (!complete) {
            CU_ASSERT_FATAL(heard(b, &frame) && frame.type == WI_STORE_VERDICT);
            CU_ASSERT_FATAL(!wi_store_verdict_read(frame.value, frame.value_bytes, &told));
            CU_ASSERT(told.status == WEFT_EPEER && told.culprit == 0);
            CU_ASSERT_PTR_NOT_NULL(strstr(told.text, "ended when 1 of 2 ranks had joined"));
        }
        CU_ASSERT(heard(b, &frame) && frame.type == WI_STORE_CLOSING);
        CU_ASSERT(!heard(b, &frame));
        wi_store_destroy(store);
    }
}

static void store_memory(void)
{
    static unsigned char value[WI_STORE_VALUE_MAX];
    struct wi_store *store = wi_store_create(1);
    struct wi_store_session *a;
    int stored = 0;
    CU_ASSERT_EQUAL_FATAL(wi_store_session_open(store, 0, 1, "h", 1, &a), WEFT_SUCCESS);
    for (char key[16]; stored < 5000; stored++) {
        snprintf(key, sizeof(key), "k%d", stored);
        if (tell(store, a, WI_STORE_PUT, key, value, sizeof(value)))
            break;
    }
    CU_ASSERT((size_t)stored <= WI_STORE_MEMORY_MAX / WI_STORE_VALUE_MAX && stored > 500);
    CU_ASSERT_EQUAL(tell(store, a, WI_STORE_PUT, "k1", value, 10), 0); /* a smaller value fits */
    wi_store_destroy(store);
}

static void frames(void)
{
    struct wi_store_frame frame;
    const unsigned char bad[][8] = {{0},       {WI_STORE_NTYPES},     {1, 65},
                                    {1, 1, 1}, {1, 1, 0, 0, 1, 0, 1}, {1, 0, 0, 0, 0, 0, 0, 255}};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        CU_ASSERT_EQUAL(wi_store_frame_parse(bad[i], 8, &frame), -1);
    struct wi_store_buf buf;
    wi_store_buf_init(&buf, 100);
    CU_ASSERT_EQUAL(wi_store_frame_append(&buf, WI_STORE_PUT, "key", "abc", 3), 0);
    for (size_t n = 0; n < 14; n++)
        CU_ASSERT_EQUAL(wi_store_frame_parse(buf.data, n, &frame), 0);
    CU_ASSERT_EQUAL(wi_store_frame_parse(buf.data, 14, &frame), 14);
    CU_ASSERT(!strcmp(frame.key, "key") && frame.value_bytes == 3);
    CU_ASSERT_EQUAL(wi_store_frame_append(&buf, WI_STORE_PUT, "key", buf.data, 80), -1);
    wi_store_buf_fini(&buf);
}

static const struct wt_case cases[] = {
    {"frames are bounded", frames},
    {"the store answers, waits and judges", store_rules},
    {"the store keeps why a rank was refused", store_refusals},
    {"a store says who told it how many ranks there are", store_sized},
    {"a store that ends early says so to who has joined", store_farewell},
    {"the store's memory is bounded", store_memory},
};

WT_UNIT_MAIN("store", cases)

/* SPDX-License-Identifier: BSD-3-Clause */
/* Gets and puts of the channel layer, over a transport that does what each case says: when there is room, and what ends when. */
#include "net/channel_group.h"

#include "base/status.h"
#include "unit.h"

#define NRANKS 3
#define MANY 16

/* What the transport has been given, in order, and how much more it takes of each peer. */
static struct {
    struct weft_rma *given[MANY];
    int ngiven, room[NRANKS];
    weft_status refuses; /* < 0: everything */
    int registered, deregistered;
    weft_status registers;
} raw;

static weft_status raw_get(void *group, struct weft_rma *r)
{
    (void)group;
    if (raw.refuses < 0)
        return wi_fail(raw.refuses, "refused");
    if (!raw.room[r->peer])
        return WEFT_EBUSY;
    raw.room[r->peer]--;
    raw.given[raw.ngiven++] = r;
    r->state = WEFT_XFER_PENDING;
    return WEFT_SUCCESS;
}

static weft_status raw_register(void *endpoint, void *ptr, size_t bytes, uint32_t memory, void **mem)
{
    (void)endpoint, (void)bytes, (void)memory;
    if (raw.registers < 0)
        return wi_fail(raw.registers, "no more");
    raw.registered++;
    *mem = ptr;
    return WEFT_SUCCESS;
}

static void raw_deregister(void *endpoint, void *mem)
{
    (void)endpoint, (void)mem;
    raw.deregistered++;
}

static const struct weft_transport_ops raw_ops = {
    .get = raw_get, .put = raw_get, .mem_register = raw_register, .mem_deregister = raw_deregister};
static const struct weft_plugin plugin = {.name = "raw", .caps = WEFT_CAP_REGISTER};
static struct wi_channel_endpoint endpoint;
static struct wi_channel_peer peers[NRANKS];
static struct wi_channel_group group;
static struct weft_rma x[MANY];
static char bytes[MANY];

static void begin(void)
{
    memset(&raw, 0, sizeof raw);
    memset(x, 0, sizeof x);
    memset(peers, 0, sizeof peers);
    endpoint = (struct wi_channel_endpoint){.plugin = &plugin, .raw = &raw_ops};
    pthread_mutex_init(&endpoint.lock, NULL);
    group = (struct wi_channel_group){.endpoint = &endpoint, .raw = &raw_ops, .nranks = NRANKS, .peers = peers};
    group.rmas_last = &group.rmas;
    for (int r = 0; r < NRANKS; r++)
        peers[r] = (struct wi_channel_peer){.group = &group, .rank = r, .state = WI_CHANNEL_ALIVE};
}

static void end(void)
{
    wi_channel_rma_free(&group);
    wi_channel_memory_fini(&group);
    CU_ASSERT_EQUAL(raw.registered, raw.deregistered);
    wi_channel_registrations_fini(&endpoint);
    pthread_mutex_destroy(&endpoint.lock);
}

static weft_status post(int i, int peer)
{
    x[i] = (struct weft_rma){.local = &bytes[i], .bytes = 1, .peer = peer, .memory = WEFT_MEMORY_HOST, .state = 99};
    return wi_channel_rma_post(&group, &x[i], i % 2);
}

/* Has the transport been given just these, in this order? Ends with -1. */
static int was_given(const int *which)
{
    int n = 0;

    while (which[n] >= 0) {
        if (n == raw.ngiven || raw.given[n]->local != &bytes[which[n]])
            return 0;
        n++;
    }
    return n == raw.ngiven;
}
#define GIVEN(...) was_given((const int[]){__VA_ARGS__, -1})

static void completes(int i, int state)
{
    for (int k = 0; k < raw.ngiven; k++)
        if (raw.given[k] && raw.given[k]->local == &bytes[i]) {
            raw.given[k]->state = state;
            raw.given[k] = NULL; /* the transport's no more */
            return;
        }
    CU_FAIL("the transport does not have it");
}

static void goes_through(void)
{
    begin();
    raw.room[1] = 1;
    CU_ASSERT_EQUAL(post(0, 1), WEFT_SUCCESS);
    CU_ASSERT(GIVEN(0));
    CU_ASSERT_EQUAL(raw.registered, 1);
    CU_ASSERT_EQUAL(wi_channel_rma_step(&group), 0);
    CU_ASSERT_EQUAL(x[0].state, WEFT_XFER_PENDING);
    completes(0, WEFT_EPROTO);
    CU_ASSERT_EQUAL(raw.deregistered, 0);
    CU_ASSERT_EQUAL(wi_channel_rma_step(&group), 1);
    CU_ASSERT_EQUAL(x[0].state, WEFT_EPROTO);
    CU_ASSERT_EQUAL(raw.deregistered, 1);
    end();
}

static void refused_is_not_owned(void)
{
    begin();
    raw.refuses = WEFT_EINVAL;
    CU_ASSERT_EQUAL(post(0, 1), WEFT_EINVAL);
    CU_ASSERT_EQUAL(x[0].state, 99);
    CU_ASSERT_PTR_NULL(group.rmas);
    CU_ASSERT_EQUAL(raw.deregistered, 1);
    raw.refuses = WEFT_SUCCESS;
    raw.registers = WEFT_ENOMEM;
    CU_ASSERT_EQUAL(post(0, 1), WEFT_ENOMEM);
    CU_ASSERT_EQUAL(x[0].state, 99);
    CU_ASSERT_EQUAL(post(1, NRANKS), WEFT_EINVAL);
    CU_ASSERT_EQUAL(post(1, -1), WEFT_EINVAL);
    end();
}

/* With a rank that the transport does not serve, or that has failed, which says why. */
static void not_with_everybody(void)
{
    begin();
    raw.room[1] = raw.room[2] = 1;
    peers[1].state = WI_CHANNEL_NONE;
    peers[2].state = WI_CHANNEL_FAILED;
    peers[2].status = WEFT_EPROTO;
    snprintf(peers[2].text, sizeof peers[2].text, "it spoke another language");
    CU_ASSERT_EQUAL(post(0, 1), WEFT_EINVAL);
    CU_ASSERT_PTR_NOT_NULL(strstr(wi_fail_text(), "does not serve rank 1"));
    CU_ASSERT_EQUAL(post(1, 2), WEFT_EPROTO);
    CU_ASSERT_STRING_EQUAL(wi_fail_text(), "it spoke another language");
    CU_ASSERT(x[0].state == 99 && x[1].state == 99);
    CU_ASSERT(raw.ngiven == 0 && raw.registered == 0);
    CU_ASSERT_PTR_NULL(group.rmas);
    end();
}

/* Also of one that is posted when there would be room again: from a sink, before those that wait have been looked at. */
static void no_overtaking(void)
{
    begin();
    CU_ASSERT_EQUAL(post(0, 1), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(post(1, 1), WEFT_SUCCESS);
    raw.room[1] = 2;
    CU_ASSERT_EQUAL(post(2, 1), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(raw.ngiven, 0);
    wi_channel_rma_step(&group);
    CU_ASSERT(GIVEN(0, 1));
    raw.room[1] = 1;
    wi_channel_rma_step(&group);
    CU_ASSERT(GIVEN(0, 1, 2));
    raw.room[1] = 1;
    CU_ASSERT_EQUAL(post(3, 1), WEFT_SUCCESS); /* nobody waits any more */
    CU_ASSERT(GIVEN(0, 1, 2, 3));
    end();
}

/* There is room for another one when the second that waits is looked at: that is the first one's. */
static int freed_between;

static weft_status raw_get_freed(void *g, struct weft_rma *r)
{
    weft_status st = raw_get(g, r);

    raw.room[1] += st == WEFT_EBUSY && freed_between;
    return st;
}

static void no_overtaking_within_a_step(void)
{
    struct weft_transport_ops ops = raw_ops;

    begin();
    ops.get = ops.put = raw_get_freed;
    group.raw = &ops;
    CU_ASSERT_EQUAL(post(0, 1), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(post(1, 1), WEFT_SUCCESS);
    freed_between = 1;
    wi_channel_rma_step(&group);
    CU_ASSERT_EQUAL(raw.ngiven, 0);
    freed_between = 0;
    raw.room[1] = 2;
    wi_channel_rma_step(&group);
    CU_ASSERT(GIVEN(0, 1));
    end();
}

/* A peer for which there is no room holds up no other peer's, neither when they are posted nor later. */
static void each_peer_for_itself(void)
{
    begin();
    CU_ASSERT_EQUAL(post(0, 1), WEFT_SUCCESS);
    raw.room[2] = 1;
    CU_ASSERT_EQUAL(post(1, 2), WEFT_SUCCESS);
    CU_ASSERT(GIVEN(1));
    CU_ASSERT_EQUAL(post(2, 2), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(post(3, 1), WEFT_SUCCESS);
    raw.room[2] = 1;
    wi_channel_rma_step(&group);
    CU_ASSERT(GIVEN(1, 2));
    raw.room[1] = 2;
    wi_channel_rma_step(&group);
    CU_ASSERT(GIVEN(1, 2, 0, 3));
    end();
}

/* Its owner has it back: it must not reach the transport any more. It does not wait for room to go, and holds up no other. */
static void given_up_while_waiting(void)
{
    begin();
    CU_ASSERT_EQUAL(post(0, 1), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(post(1, 1), WEFT_SUCCESS);
    wi_channel_rma_end(&group, 1, WEFT_EPEER);
    CU_ASSERT_EQUAL(x[0].state, WEFT_EPEER);
    CU_ASSERT_EQUAL(x[1].state, WEFT_EPEER);
    x[0].state = x[1].state = 99;
    CU_ASSERT_EQUAL(raw.deregistered, 0);
    CU_ASSERT_EQUAL(wi_channel_rma_step(&group), 2); /* without room */
    CU_ASSERT_PTR_NULL(group.rmas);
    CU_ASSERT_EQUAL(raw.deregistered, 2);
    raw.room[1] = MANY;
    wi_channel_rma_step(&group);
    CU_ASSERT_EQUAL(raw.ngiven, 0);
    CU_ASSERT(x[0].state == 99 && x[1].state == 99);
    CU_ASSERT_EQUAL(post(2, 1), WEFT_SUCCESS);
    CU_ASSERT(GIVEN(2));
    end();
}

/* What the transport has stays registered until it is done with it; how that ended does not matter any more. */
static void given_up_while_posted(void)
{
    begin();
    raw.room[1] = 2;
    CU_ASSERT_EQUAL(post(0, 1), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(post(1, 1), WEFT_SUCCESS);
    completes(1, WEFT_SUCCESS); /* which nobody has looked at yet */
    wi_channel_rma_end(&group, 1, WEFT_ECANCELED);
    CU_ASSERT_EQUAL(x[0].state, WEFT_ECANCELED);
    CU_ASSERT_EQUAL(x[1].state, WEFT_SUCCESS);
    x[0].state = x[1].state = 99;
    CU_ASSERT_EQUAL(wi_channel_rma_step(&group), 1);
    CU_ASSERT_EQUAL(raw.deregistered, 1);
    completes(0, WEFT_SUCCESS);
    CU_ASSERT_EQUAL(wi_channel_rma_step(&group), 1);
    CU_ASSERT_EQUAL(raw.deregistered, 2);
    CU_ASSERT(x[0].state == 99 && x[1].state == 99);
    end();
}

static void ends_with_its_peer_only(void)
{
    begin();
    raw.room[2] = 1;
    CU_ASSERT_EQUAL(post(0, 1), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(post(1, 2), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(post(2, 2), WEFT_SUCCESS);
    wi_channel_rma_end(&group, 1, WEFT_EPEER);
    CU_ASSERT_EQUAL(x[0].state, WEFT_EPEER);
    CU_ASSERT_EQUAL(x[1].state, WEFT_XFER_PENDING);
    CU_ASSERT_EQUAL(x[2].state, WEFT_XFER_PENDING);
    raw.room[2] = 1;
    wi_channel_rma_step(&group);
    CU_ASSERT(GIVEN(1, 2));
    completes(1, WEFT_SUCCESS);
    completes(2, WEFT_SUCCESS);
    CU_ASSERT_EQUAL(wi_channel_rma_step(&group), 2);
    CU_ASSERT(x[1].state == WEFT_SUCCESS && x[2].state == WEFT_SUCCESS);
    CU_ASSERT_EQUAL(post(3, 1), WEFT_SUCCESS);
    wi_channel_rma_end(&group, -1, WEFT_ECANCELED); /* everybody's */
    CU_ASSERT_EQUAL(x[3].state, WEFT_ECANCELED);
    end();
}

/* Refused when its turn comes: it ends so, and those behind it go on. */
static void refused_later(void)
{
    begin();
    CU_ASSERT_EQUAL(post(0, 1), WEFT_SUCCESS);
    raw.refuses = WEFT_EINVAL;
    CU_ASSERT_EQUAL(wi_channel_rma_step(&group), 1);
    CU_ASSERT_EQUAL(x[0].state, WEFT_EINVAL);
    CU_ASSERT_EQUAL(raw.deregistered, 1);
    raw.refuses = WEFT_SUCCESS;
    raw.room[1] = 1;
    CU_ASSERT_EQUAL(post(1, 1), WEFT_SUCCESS);
    CU_ASSERT(GIVEN(1));
    end();
}

/* Registered by others: it is used as it is, and kept as long as it is used, whenever they deregister it. */
static void uses_what_is_registered(void)
{
    void *mem = NULL, *other = NULL;

    begin();
    raw.room[1] = 4;
    CU_ASSERT_EQUAL(wi_channel_register(&endpoint, bytes, sizeof bytes, WEFT_MEMORY_HOST, &mem), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(post(2, 1), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(post(3, 1), WEFT_SUCCESS);
    CU_ASSERT_FATAL(GIVEN(2, 3));
    CU_ASSERT(raw.given[0]->mem == mem && raw.given[1]->mem == mem && raw.registered == 1);
    CU_ASSERT_EQUAL(wi_channel_register(&endpoint, bytes + 8, 1, WEFT_MEMORY_HOST, &other), WEFT_SUCCESS);
    wi_channel_deregister(&endpoint, other); /* which is not used */
    CU_ASSERT_EQUAL(raw.deregistered, 1);
    wi_channel_deregister(&endpoint, mem);
    CU_ASSERT_EQUAL(raw.deregistered, 1);
    CU_ASSERT_EQUAL(post(4, 1), WEFT_SUCCESS);
    CU_ASSERT(raw.registered == 3 && raw.given[2]->mem == &bytes[4]); /* for itself: there is none any more */
    completes(2, WEFT_SUCCESS);
    CU_ASSERT_EQUAL(wi_channel_rma_step(&group), 1);
    CU_ASSERT_EQUAL(raw.deregistered, 1);
    completes(3, WEFT_SUCCESS);
    CU_ASSERT_EQUAL(wi_channel_rma_step(&group), 1);
    CU_ASSERT_EQUAL(raw.deregistered, 2);
    completes(4, WEFT_SUCCESS);
    CU_ASSERT_EQUAL(wi_channel_rma_step(&group), 1);
    CU_ASSERT_EQUAL(raw.deregistered, 3);
    end();
}

static const struct wt_case cases[] = {
    {"what there is room for goes through", goes_through},
    {"what is refused is not owned", refused_is_not_owned},
    {"with ranks that are not served, or failed, there are none", not_with_everybody},
    {"nothing overtakes what waits", no_overtaking},
    {"nor within one step", no_overtaking_within_a_step},
    {"a peer without room holds up no other", each_peer_for_itself},
    {"what waits and is given up is never posted", given_up_while_waiting},
    {"what is posted and given up stays registered until it has ended", given_up_while_posted},
    {"what others have registered is used, and kept meanwhile", uses_what_is_registered},
    {"gets and puts end with their own peer", ends_with_its_peer_only},
    {"one that is refused later ends so", refused_later},
};
WT_UNIT_MAIN("channel_rma", cases)

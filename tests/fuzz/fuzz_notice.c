/* SPDX-License-Identifier: BSD-3-Clause */
/* What a rank says when it gives up, any bytes under its own name. Rank 1 of four hears it from rank 2: its communicator must end
 * with a reason that names a rank and is a text, and what it tells the others must be well-formed, too; only what the teller calls
 * relayed is passed on without the name of the teller, whatever its words are.
 *
 * First byte: whether an operation is under way. Then the notice, zeros from where the input ends. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "exec/exec.h"
#include "tests/fuzz/require.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

#define NRANKS 4
#define SELF 1
#define TELLER 2

static int told, told_relayed;

static weft_status fake_send(void *group, struct weft_xfer *x)
{
    const struct wi_notice *n = x->buf;

    (void)group;
    require(x->bytes == sizeof *n && memchr(n->text, 0, sizeof n->text) != NULL);
    require(n->relayed <= 1 && n->culprit < NRANKS);
    told++;
    told_relayed += (int)n->relayed;
    x->state = WEFT_SUCCESS;
    return WEFT_SUCCESS;
}

static const struct weft_transport_ops ops = {.bytes = sizeof ops, .send = fake_send};

static void check_text(const char *text, size_t capacity)
{
    require(memchr(text, 0, capacity) != NULL && text[0]);
    for (const char *c = text; *c; c++)
        require((unsigned char)*c >= ' ' && *c != 0x7f);
}

static void check(const struct wi_exec *exec, const struct wi_notice *n)
{
    char teller[40];

    check_text(exec->error.message, sizeof exec->error.message);
    require(exec->broken < 0 && exec->error.status == exec->broken);
    require(exec->error.peer >= 0 && exec->error.peer < NRANKS && exec->error.peer != SELF);
    snprintf(teller, sizeof teller, ": rank %d ", TELLER);
    require(n->relayed || strstr(exec->error.message, teller) != NULL);
    require(told >= NRANKS - 2 && told <= NRANKS - 1);
    require(told_relayed == 0 || told_relayed == told);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static struct wi_mesh_rank ranks[NRANKS];
    struct wi_mesh mesh = {.rank = SELF, .nranks = NRANKS, .ranks = ranks};
    struct wi_exec_peer peers[NRANKS] = {{.ops = NULL}};
    struct wi_pend pend = {.next = NULL};
    struct wi_op op = {.info = {.kind = WI_COLL_ALL_REDUCE, .seq = 7, .count = 100, .root = UINT32_MAX, .flags = 1}};
    struct wi_exec exec = {.mesh = &mesh, .rank = SELF, .nranks = NRANKS, .peers = peers};
    struct wi_notice *n = calloc(1, sizeof *n);

    require(n != NULL);
    told = told_relayed = 0;
    if (bytes && data[0] & 1)
        exec.running.head = &op;
    if (bytes > 1)
        memcpy(n, data + 1, bytes - 1 < sizeof *n ? bytes - 1 : sizeof *n);
    for (int r = 0; r < NRANKS; r++)
        peers[r] = (struct wi_exec_peer){.ops = &ops, .group = &mesh, .notice = r == SELF ? NULL : &pend};
    pthread_mutex_init(&exec.error_lock, NULL);
    pend.x.state = WEFT_XFER_PENDING;
    wi_exec_read_notices(&exec);
    require(!exec.broken);

    struct wi_pend arrived = {.x = {.state = WEFT_SUCCESS}};
    peers[TELLER].notice = &arrived;
    peers[TELLER].notice_buf = n;
    wi_exec_read_notices(&exec);
    check(&exec, n);
    for (struct wi_pend *p = exec.notices_out, *next; p; p = next) {
        next = p->next;
        free(p->bounce);
        free(p);
    }
    pthread_mutex_destroy(&exec.error_lock);
    free(n);
    return 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Joining with a store that has the key and sends anything: answers, verdicts, lists of missing ranks, and the records in which the
 * other ranks say where they listen. Every frame carries the right tags, so that what stands behind them is reached; the last
 * one may have wrong ones. Joining must end, in failure and with a reason, as no rank is there to be joined.
 *
 * Records of the input: a byte (type; 240 and above: any head of 8 bytes instead), a byte (key: 0..3 "addr/N", 4 "all", else from
 * the input), a byte (length of the value), the value. An address in a record is made one of this machine, where nobody listens:
 * nothing may be sent elsewhere. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"
#include "net/bootstrap_mesh.h"
#include "tests/fuzz/require.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

#define NRANKS 4
#define RECORD_BYTES 64

static const unsigned char keys[2][WI_AUTH_KEY_BYTES] = {"from the store to the rank, 32 b",
                                                         "from the rank to the store, 32 b"};
static struct wi_auth_stream streams[4]; /* kept: to begin one takes longer than all the rest */

static void begin(struct wi_auth_stream *s, const unsigned char *key)
{
    if (!s->mac)
        require(wi_auth_stream_begin(s, key) == WEFT_SUCCESS);
    s->next = 0;
}

/* A record with a version and a length that are right, and an address on which a connection is refused at once. */
static void make_local(unsigned char *value, size_t bytes)
{
    if (bytes != RECORD_BYTES)
        return;
    value[0] = 2;
    memset(value + 8, 0, 16);
    if (value[2] == 6)
        value[23] = 1; /* ::1 */
    else
        memcpy(value + 8, "\177\0\0\1", 4);
    wi_put32(value + 4, 1); /* tcpmux: nobody has it */
}

static void append(struct wi_store_buf *out, const uint8_t **data, size_t *bytes)
{
    char key[WI_STORE_KEY_MAX + 1];
    unsigned char value[256];
    unsigned type = (*data)[0], which = (*data)[1];
    size_t n = (*data)[2];

    *data += 3;
    *bytes -= 3;
    if (type >= 240) {
        unsigned char *head = wi_store_buf_reserve(out, WI_STORE_HEAD_BYTES + WI_AUTH_TAG_BYTES);
        require(head != NULL);
        memset(head, (int)which, WI_STORE_HEAD_BYTES);
        memcpy(head, *data, *bytes < WI_STORE_HEAD_BYTES ? *bytes : WI_STORE_HEAD_BYTES);
        require(wi_auth_seal(out->seal, head, WI_STORE_HEAD_BYTES, head + WI_STORE_HEAD_BYTES) == 0);
        out->end += WI_STORE_HEAD_BYTES + WI_AUTH_TAG_BYTES;
        return;
    }
    n = n < *bytes ? n : *bytes;
    memcpy(value, *data, n);
    *data += n;
    *bytes -= n;
    if (which < 4)
        make_local(value, n);
    if (which < 4)
        snprintf(key, sizeof key, "addr/%u", which);
    else if (which == 4)
        snprintf(key, sizeof key, "all");
    else {
        memset(key, (int)(which | 1), sizeof key);
        key[which % sizeof key] = '\0';
    }
    require(wi_store_frame_append(out, (enum wi_store_frame_type)(1 + type % (WI_STORE_NTYPES - 1)), key, value, n) ==
            0);
}

static void store_says(int fd, const uint8_t *data, size_t bytes)
{
    struct wi_store_buf out;
    int tampered = bytes && data[0] & 1;

    wi_store_buf_init(&out, 1 << 20);
    begin(&streams[0], keys[0]);
    out.seal = &streams[0];
    for (data += bytes > 0, bytes -= bytes > 0; bytes >= 3;)
        append(&out, &data, &bytes);
    if (tampered && wi_store_buf_bytes(&out))
        out.data[out.end - 1] ^= 1;
    size_t n = wi_store_buf_bytes(&out);
    if (n)
        require(send(fd, out.data + out.begin, n, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)n);
    out.seal = NULL;
    wi_store_buf_fini(&out);
}

static struct wi_boot *rank_with_store(int fd)
{
    struct wi_boot *mesh = calloc(1, sizeof *mesh);

    require(mesh != NULL);
    mesh->base.nranks = NRANKS;
    mesh->base.rank = 0;
    mesh->local_only = 1;
    mesh->listen_fds[0] = mesh->listen_fds[1] = -1;
    mesh->store.fd = fd;
    mesh->store.nranks = NRANKS;
    mesh->store.remote.ss.ss_family = AF_UNIX;
    wi_store_buf_init(&mesh->store.in, 1 << 20);
    wi_store_buf_init(&mesh->store.out, 1 << 20);
    begin(&streams[1], keys[0]);
    begin(&streams[2], keys[1]);
    mesh->store.opener.stream = streams[1];
    mesh->store.seal = streams[2];
    mesh->store.out.seal = &mesh->store.seal;
    for (int i = 0; i < WI_BOOT_HALF_OPEN; i++)
        mesh->strangers[i].fd = mesh->strangers[i].peer = -1;
    for (mesh->nrounds = 0; 1 << mesh->nrounds < NRANKS; mesh->nrounds++) {
        int k = mesh->nrounds;
        mesh->out[k].fd = mesh->in[k].fd = mesh->in[k].peer = -1;
        mesh->out[k].peer = (NRANKS - (1 << k)) % NRANKS;
    }
    require(wi_node_id("a host", &mesh->node) == WEFT_SUCCESS);
    return mesh;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    int fd[2], room = 1 << 20;

    if (bytes > 4096)
        return 0;
    require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fd) == 0);
    setsockopt(fd[1], SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
    store_says(fd[1], data, bytes);
    shutdown(fd[1], SHUT_WR);
    struct wi_boot *mesh = rank_with_store(fd[0]);
    wi_fail_clear();
    weft_status st = wi_boot_join(mesh, wi_deadline_ns(3000000ull));
    require(st < 0 && wi_fail_text()[0]);
    require(memchr(mesh->verdict.text, 0, sizeof mesh->verdict.text) != NULL);
    require(mesh->verdict.culprit >= -1 && mesh->verdict.culprit < 1 << 20);
    require(mesh->store.missing_total <= NRANKS);
    for (uint32_t i = 1; mesh->store.knows_missing && i < mesh->store.missing_total; i++)
        require(mesh->store.missing[i] > mesh->store.missing[i - 1]);
    for (int k = 0; k < mesh->nrounds; k++) {
        wi_boot_link_close(&mesh->out[k]);
        wi_boot_link_close(&mesh->in[k]);
    }
    wi_store_buf_fini(&mesh->store.in);
    wi_store_buf_fini(&mesh->store.out);
    close(fd[0]);
    close(fd[1]);
    free(mesh);
    return 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* All-gathers of start-up with neighbours that have the key and send anything: heads and blocks of any content under right tags, or
 * wrong tags, cut anywhere. An all-gather must end with a reason that names the neighbour, or with the blocks that were sent.
 *
 * First byte: bytes that each rank gathers. Then for each of the two links what comes in: a byte (0: a right head, 1: one that the
 * next 16 bytes change, 2: a right one and a wrong tag, 3: the stream ends), then blocks from the input. */
#include <stdint.h>
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
#define ROUNDS 2
#define HEAD_BYTES 16
#define EXCHANGES 3

static const unsigned char key[WI_AUTH_KEY_BYTES] = "of all links of this start, 32 b";
static struct wi_auth_stream in[ROUNDS], out[ROUNDS],
    theirs[ROUNDS]; /* kept: to begin one takes longer than all the rest */

static void begin(struct wi_auth_stream *s)
{
    if (!s->mac)
        require(wi_auth_stream_begin(s, key) == WEFT_SUCCESS);
    s->next = 0;
}

static unsigned char take(const uint8_t **data, size_t *bytes)
{
    if (!*bytes)
        return 0;
    (*bytes)--;
    return *(*data)++;
}

/* What a neighbour sends in one round of exchange `seq`. Returns 0 when it sends nothing more. */
static int neighbour_says(int fd, int k, uint32_t seq, size_t mine, const uint8_t **data, size_t *bytes)
{
    unsigned char message[2 * (HEAD_BYTES + WI_AUTH_TAG_BYTES) + ROUNDS * 256], *at = message;
    size_t blocks = ((size_t)1 << k) * mine;
    unsigned how = take(data, bytes) % 4;

    if (how == 3)
        return 0;
    wi_put32(at, 0x4b4c4657u);
    wi_put32(at + 4, seq);
    wi_put32(at + 8, (uint32_t)mine);
    wi_put32(at + 12, (uint32_t)k);
    for (int i = 0; how == 1 && i < HEAD_BYTES; i++)
        at[i] ^= take(data, bytes);
    require(wi_auth_seal(&theirs[k], at, HEAD_BYTES, at + HEAD_BYTES) == 0);
    at[HEAD_BYTES + 3] ^= how == 2;
    at += HEAD_BYTES + WI_AUTH_TAG_BYTES;
    if (blocks) {
        for (size_t i = 0; i < blocks; i++)
            at[i] = take(data, bytes);
        require(wi_auth_seal(&theirs[k], at, blocks, at + blocks) == 0);
        at += blocks + WI_AUTH_TAG_BYTES;
    }
    size_t n = (size_t)(at - message);
    require(send(fd, message, n, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)n);
    return 1;
}

static void exchange(struct wi_boot *mesh, const unsigned char *mine, size_t mine_bytes)
{
    unsigned char all[NRANKS * 128 + 1];

    memset(all, 0xa5, sizeof all);
    wi_fail_clear();
    weft_status st = wi_boot_all_gather(&mesh->base, mine, mine_bytes, all, wi_deadline_ns(50000000ull));
    require(all[NRANKS * mine_bytes] == 0xa5);
    if (st == WEFT_SUCCESS)
        require(!memcmp(all, mine, mine_bytes)); /* this is rank 0 */
    else
        require(wi_fail_text()[0] && mesh->failed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    static unsigned char mine[128];
    struct wi_boot *mesh = calloc(1, sizeof *mesh);
    int receive[ROUNDS][2], send_to[ROUNDS][2];
    size_t mine_bytes = take(&data, &bytes) % 128;

    require(mesh != NULL);
    mesh->base.nranks = NRANKS;
    mesh->nrounds = ROUNDS;
    mesh->store.fd = -1;
    mesh->store.closed = 1; /* nobody says who is gone */
    for (int k = 0; k < ROUNDS; k++) {
        int ends = 0;
        require(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, receive[k]));
        require(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, send_to[k]));
        begin(&in[k]);
        begin(&out[k]);
        begin(&theirs[k]);
        mesh->in[k] = (struct wi_boot_link){.fd = receive[k][0], .peer = 1 << k, .ready = 1, .stream = in[k]};
        mesh->out[k] =
            (struct wi_boot_link){.fd = send_to[k][0], .peer = NRANKS - (1 << k), .ready = 1, .stream = out[k]};
        for (uint32_t seq = 1; seq <= EXCHANGES && !ends; seq++)
            ends = !neighbour_says(receive[k][1], k, seq, mine_bytes, &data, &bytes);
        shutdown(receive[k][1], SHUT_WR);
    }
    for (int i = 0; i < EXCHANGES; i++)
        exchange(mesh, mine, mine_bytes);
    for (int k = 0; k < ROUNDS; k++)
        for (int i = 0; i < 2; i++) {
            close(receive[k][i]);
            close(send_to[k][i]);
        }
    free(mesh);
    return 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* Meeting through a file on a shared filesystem. Rank 0 puts a fresh unique id there (a temporary file, then renamed over
 * whatever an earlier run left); the others read it again before every attempt, and the secret inside decides
 * whether the process that answers is of this run. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/status.h"
#include "net/bootstrap_id.h"
#include "net/bootstrap_key.h"
#include "net/bootstrap_mesh.h"

#define FILE_HEAD "weft-bootstrap 1 "
#define FILE_HEAD_BYTES (sizeof(FILE_HEAD) - 1)
#define FILE_BYTES (FILE_HEAD_BYTES + 2 * WEFT_UNIQUE_ID_BYTES + 1)
#define FILE_JOB "file"

static void file_text(const struct wi_id *id, char text[FILE_BYTES + 1])
{
    weft_unique_id packed;
    wi_id_encode(id, &packed);
    memcpy(text, FILE_HEAD, FILE_HEAD_BYTES);
    wi_hex_encode((const unsigned char *)packed.bytes, sizeof(packed.bytes), text + FILE_HEAD_BYTES);
    explicit_bzero(&packed, sizeof(packed));
    text[FILE_BYTES - 1] = '\n';
    text[FILE_BYTES] = '\0';
}

static weft_status file_write(const char *path, const char *text)
{
    char temporary[PATH_MAX];
    uint64_t nonce;
    if (wi_random(&nonce, sizeof(nonce)))
        return wi_fail(WEFT_ESYS, "no random bytes");
    if (snprintf(temporary, sizeof(temporary), "%s.%016llx", path, (unsigned long long)nonce) >= (int)sizeof(temporary))
        return wi_fail(WEFT_EINVAL, "the bootstrap file's path is too long");
    int fd = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return wi_fail_errno(errno, "create the bootstrap file %s", temporary);
    int bad = write(fd, text, FILE_BYTES) != (ssize_t)FILE_BYTES || fsync(fd);
    bad |= close(fd);
    if (!bad && !rename(temporary, path))
        return WEFT_SUCCESS;
    int err = errno;
    unlink(temporary);
    return wi_fail_errno(err, "write the bootstrap file %s", path);
}

/* Bytes read, -1: not there or not to be trusted. */
static ssize_t file_read(const char *path, char text[FILE_BYTES + 1])
{
    int fd;
    if (wi_file_open_private(path, "bootstrap file", &fd) < 0)
        return -1;
    ssize_t bytes = read(fd, text, FILE_BYTES);
    if (bytes < 0)
        wi_fail_errno(errno, "read the bootstrap file %s", path);
    close(fd);
    return bytes;
}

struct file_reader {
    const struct wi_job_key *configured;
    const char *path;
};

static int file_decode(const char *path, const char *text, ssize_t bytes, struct wi_id *id)
{
    weft_unique_id packed;
    int bad = bytes != (ssize_t)FILE_BYTES || memcmp(text, FILE_HEAD, FILE_HEAD_BYTES) ||
              wi_hex_decode(text + FILE_HEAD_BYTES, sizeof(packed.bytes), (unsigned char *)packed.bytes) ||
              wi_id_decode(&packed, id) < 0;
    explicit_bzero(&packed, sizeof(packed));
    if (bad)
        wi_fail(WEFT_EPROTO, "the bootstrap file %s is malformed", path);
    return bad ? -1 : 0;
}

static int file_refresh(struct wi_store_search *search, void *arg)
{
    const struct file_reader *reader = arg;
    const char *path = reader->path, *interfaces = search->rendezvous.interfaces;
    char text[FILE_BYTES + 1] = "";
    struct wi_id id;
    ssize_t bytes = file_read(path, text);
    if (bytes < 0)
        return -1;
    int bad = file_decode(path, text, bytes, &id);
    if (!bad) {
        wi_id_rendezvous(&id, &search->rendezvous);
        search->rendezvous.interfaces = interfaces;
        memcpy(search->job_key, id.secret, sizeof(search->job_key));
        bad = wi_job_key_mix(reader->configured, search->job_key) < 0 ? -1 : 0;
    }
    explicit_bzero(text, sizeof(text));
    explicit_bzero(&id, sizeof(id));
    return bad;
}

static void file_remove(const char *path, const char *text)
{
    char now[FILE_BYTES + 1] = "";
    if (file_read(path, now) == (ssize_t)FILE_BYTES && !memcmp(now, text, FILE_BYTES))
        unlink(path);
    explicit_bzero(now, sizeof(now));
}

static weft_status file_serve(const struct wi_bootstrap_settings *s, const struct wi_job_key *key, const char *path,
                              struct wi_boot_config *config, char text[FILE_BYTES + 1])
{
    struct wi_id id;
    WI_TRY(wi_id_serve(s, key, FILE_JOB, config->nranks, UINT64_MAX, &id, &config->server));
    file_text(&id, text);
    wi_id_rendezvous(&id, &config->rendezvous);
    memcpy(config->job_key, id.secret, sizeof(config->job_key));
    explicit_bzero(&id, sizeof(id));
    weft_status st = wi_job_key_mix(key, config->job_key);
    if (st == WEFT_SUCCESS)
        st = file_write(path, text);
    if (st < 0)
        wi_store_server_destroy(config->server);
    return st;
}

weft_status wi_bootstrap_file(const struct wi_bootstrap_settings *s, const char *path, int rank, int nranks,
                              uint64_t deadline_ns, struct wi_bootstrap **b)
{
    char text[FILE_BYTES + 1] = "";
    struct wi_job_key key;
    struct wi_boot_config config = {
        .rank = rank, .nranks = nranks, .local_rank = -1, .local_nranks = -1, .has_secret = 1, .job = FILE_JOB};
    if (!path || !*path || nranks < 1 || rank < 0 || rank >= nranks)
        return wi_fail(WEFT_EINVAL, "bootstrap file '%s': rank %d of %d ranks", path ? path : "", rank, nranks);
    WI_TRY(wi_job_key_read(s, nranks > 1 ? WI_JOB_KEY_MUST : WI_JOB_KEY_MAY, deadline_ns, &key));
    struct file_reader reader = {&key, path};
    wi_rendezvous_init(&config.rendezvous);
    weft_status st = rank == 0 ? file_serve(s, &key, path, &config, text) : WEFT_SUCCESS;
    if (rank > 0) {
        config.refresh = file_refresh;
        config.arg = &reader;
    }
    config.rendezvous.interfaces = s->interfaces && *s->interfaces ? s->interfaces : NULL;
    if (st == WEFT_SUCCESS) {
        st = wi_boot_create(&config, deadline_ns, b);
        if (rank == 0)
            file_remove(path, text);
        if (st < 0)
            wi_store_server_destroy(config.server);
    }
    explicit_bzero(&key, sizeof(key));
    explicit_bzero(&config, sizeof(config));
    explicit_bzero(text, sizeof(text));
    return st;
}

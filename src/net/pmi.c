/* SPDX-License-Identifier: BSD-3-Clause */
/* PMI-1 client. The process manager is trusted to run the job but its lines are still bounded. */
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/status.h"
#include "net/pmi.h"
#include "net/rendezvous.h"

#define LEAVE_NS 1000000000ull

static weft_status pmi_write(struct wi_pmi *pmi, const char *format, ...) __attribute__((format(printf, 2, 3)));
static weft_status pmi_write(struct wi_pmi *pmi, const char *format, ...)
{
    char line[WI_PMI_LINE_MAX];
    va_list ap;
    va_start(ap, format);
    int bytes = vsnprintf(line, sizeof(line), format, ap);
    va_end(ap);
    if (bytes < 0 || bytes >= (int)sizeof(line))
        return wi_fail(WEFT_EINTERNAL, "PMI request longer than %d bytes", WI_PMI_LINE_MAX);
    for (int sent = 0; sent < bytes;) {
        ssize_t n = send(pmi->fd, line + sent, (size_t)(bytes - sent), MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN && wi_socket_poll(pmi->fd, POLLOUT, pmi->deadline_ns))
            continue;
        if (n < 0 && errno != EINTR)
            return wi_fail(WEFT_EPEER, "PMI_FD=%d: the process manager does not listen: %s", pmi->fd, strerror(errno));
        sent += n > 0 ? (int)n : 0;
    }
    explicit_bzero(line, (size_t)bytes); /* a value may be a secret */
    return WEFT_SUCCESS;
}

/* One line, without its end. Byte by byte: what follows belongs to the next user of the descriptor. */
static weft_status pmi_read(struct wi_pmi *pmi)
{
    for (pmi->line_bytes = 0; pmi->line_bytes + 1 < sizeof(pmi->line);) {
        char *at = pmi->line + pmi->line_bytes;
        if (!wi_socket_poll(pmi->fd, POLLIN, pmi->deadline_ns))
            return wi_fail(WEFT_ETIMEDOUT,
                           "the process manager did not answer in time: some rank has not reached start-up (PMI)");
        ssize_t n = read(pmi->fd, at, 1);
        if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN))
            return wi_fail(WEFT_EPEER, "PMI_FD=%d: the process manager closed the connection", pmi->fd);
        if (n < 0)
            continue;
        if (*at == '\n') {
            *at = '\0';
            return WEFT_SUCCESS;
        }
        pmi->line_bytes++;
    }
    return wi_fail(WEFT_EPROTO, "PMI answer longer than %d bytes", WI_PMI_LINE_MAX);
}

/* The value of `key` in the line just read, up to a space. */
static int pmi_field(const struct wi_pmi *pmi, const char *key, char *value, size_t capacity)
{
    size_t key_bytes = strlen(key);
    for (const char *at = pmi->line; *at;) {
        size_t n = strcspn(at, " ");
        if (n > key_bytes && !strncmp(at, key, key_bytes) && at[key_bytes] == '=') {
            size_t bytes = n - key_bytes - 1;
            if (bytes >= capacity)
                return -1;
            memcpy(value, at + key_bytes + 1, bytes);
            value[bytes] = '\0';
            return 0;
        }
        at += n + strspn(at + n, " ");
    }
    return -1;
}

static weft_status pmi_expect(struct wi_pmi *pmi, const char *cmd)
{
    char value[64], rc[16] = "0";
    WI_TRY(pmi_read(pmi));
    if (pmi_field(pmi, "cmd", value, sizeof(value)) || strcmp(value, cmd))
        return wi_fail(WEFT_EPROTO, "PMI: expected '%s', got '%.80s'", cmd, pmi->line);
    if (!pmi_field(pmi, "rc", rc, sizeof(rc)) && strcmp(rc, "0"))
        return wi_fail(WEFT_EPROTO, "PMI: the process manager refused: '%.80s'", pmi->line);
    return WEFT_SUCCESS;
}

/* After init the process manager takes an exit without "finalize" for a crash and ends the job, but finalizing at once
 * would leave nothing to an MPI library in the same process. So it is said when the process ends, if the descriptor is
 * still the same socket (MPI_Finalize closes it, and its number may be anything by then). */
static struct {
    int fd;
    dev_t device;
    ino_t inode;
    pid_t process; /* a forked child must not use its parent's descriptor */
} pmi_joined;

__attribute__((destructor)) static void pmi_leave(void)
{
    struct stat st;
    struct wi_pmi pmi = {.fd = pmi_joined.fd, .deadline_ns = wi_deadline_ns(LEAVE_NS)};
    if (pmi_joined.process != getpid() || fstat(pmi.fd, &st) || st.st_dev != pmi_joined.device ||
        st.st_ino != pmi_joined.inode)
        return;
    static const char line[] = "cmd=finalize\n";
    if (send(pmi.fd, line, sizeof(line) - 1, MSG_NOSIGNAL | MSG_DONTWAIT) == sizeof(line) - 1)
        (void)pmi_expect(&pmi, "finalize_ack");
}

weft_status wi_pmi_init(struct wi_pmi *pmi, int fd, uint64_t deadline_ns)
{
    struct stat st;
    memset(pmi, 0, sizeof(*pmi));
    int closed = fstat(fd, &st) != 0;
    if (closed || !S_ISSOCK(st.st_mode))
        return wi_fail(
            WEFT_ECONFIG,
            "PMI_FD=%d is %s; it must be the socket that the process manager (mpiexec) gives this process: start it "
            "without a program between that closes descriptors, and create the first communicator before MPI_Finalize",
            fd, closed ? "not an open descriptor" : "no socket");
    pmi->fd = fd;
    pmi->deadline_ns = deadline_ns;
    WI_TRY(pmi_write(pmi, "cmd=init pmi_version=1 pmi_subversion=1\n"));
    WI_TRY(pmi_expect(pmi, "response_to_init"));
    pmi_joined.fd = fd;
    pmi_joined.device = st.st_dev;
    pmi_joined.inode = st.st_ino;
    pmi_joined.process = getpid();
    WI_TRY(pmi_write(pmi, "cmd=get_my_kvsname\n"));
    WI_TRY(pmi_expect(pmi, "my_kvsname"));
    if (pmi_field(pmi, "kvsname", pmi->kvs, sizeof(pmi->kvs)))
        return wi_fail(WEFT_EPROTO, "PMI: no kvsname in '%.80s'", pmi->line);
    return WEFT_SUCCESS;
}

weft_status wi_pmi_put(struct wi_pmi *pmi, const char *key, const char *value)
{
    WI_TRY(pmi_write(pmi, "cmd=put kvsname=%s key=%s value=%s\n", pmi->kvs, key, value));
    return pmi_expect(pmi, "put_result");
}

weft_status wi_pmi_get(struct wi_pmi *pmi, const char *key, char *value, size_t capacity)
{
    WI_TRY(pmi_write(pmi, "cmd=get kvsname=%s key=%s\n", pmi->kvs, key));
    WI_TRY(pmi_expect(pmi, "get_result"));
    if (pmi_field(pmi, "value", value, capacity))
        return wi_fail(WEFT_EPROTO, "PMI: no value of %s", key);
    return WEFT_SUCCESS;
}

weft_status wi_pmi_barrier(struct wi_pmi *pmi)
{
    WI_TRY(pmi_write(pmi, "cmd=barrier_in\n"));
    return pmi_expect(pmi, "barrier_out");
}

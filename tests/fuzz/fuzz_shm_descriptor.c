/* fuzz_shm_descriptor.c: descriptions of memory as a peer may send them. What mem_map accepts lies within one mapping of a segment
 * that the peer offers, to its last byte; what mem_get accepts was the peer's; nothing else of this process is touched.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 * Segments come and go meanwhile, and descriptors that are no segments (a pipe, a device, a file that is not sealed) are there to
 * be named by number and inode, as if they were.
 */
#include "shm_world.h"

#include <fcntl.h>
#include <sys/stat.h>

#define SEGMENTS 4u
#define OTHERS 4u

static int others[OTHERS];
static const size_t lengths[SEGMENTS] = {4096, 8192, 65536, 3u << 20};

struct segments {
    void *ptr[SEGMENTS];
    struct weft_mem_desc desc[SEGMENTS]; /* also of those that are gone */
};

static void start(void)
{
    int pipes[2];

    if (others[1])
        return;
    fz_require(pipe2(pipes, O_CLOEXEC) == 0, "pipe");
    others[0] = pipes[0];
    others[1] = open("/dev/zero", O_RDWR | O_CLOEXEC);
    others[2] = memfd_create("unsealed", MFD_CLOEXEC);
    others[3] = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    fz_require(others[1] >= 0 && others[2] >= 0 && others[3] >= 0 && ftruncate(others[2], 65536) == 0, "others");
}

static uint64_t number_of(int fd)
{
    struct stat st;

    return fstat(fd, &st) == 0 ? wi_shm_segment_number(fd, (uint64_t)st.st_ino) : 1;
}

static void come_or_go(struct wi_shm_group *group, struct segments *s, unsigned i)
{
    if (s->ptr[i]) {
        fz_require(wi_shm_mem_free(fz_endpoint, s->ptr[i]) == WEFT_SUCCESS, "free");
        s->ptr[i] = NULL;
        __atomic_fetch_add(&group->arenas[1].ctl->mem_generation, 1,
                           __ATOMIC_RELEASE); /* rank 1's, as it is in the same process */
        return;
    }
    fz_require(wi_shm_mem_alloc(fz_endpoint, lengths[i], &s->ptr[i]) == WEFT_SUCCESS, "alloc");
    wi_shm_mem_describe(fz_endpoint, s->ptr[i], lengths[i], &s->desc[i]);
    memset(s->ptr[i], (int)i + 1, lengths[i]);
}

static struct weft_mem_desc describe(const struct segments *s, struct fz_input *in)
{
    uint8_t how = fz_byte(in);
    struct weft_mem_desc d = s->desc[how % SEGMENTS];
    uint64_t value;

    fz_bytes(in, &value, 1 + (how & 7));
    if (how & 8)
        d.offset = value;
    if (how & 16)
        d.bytes = value;
    if (how & 32)
        d.segment = number_of(others[value % OTHERS]);
    if (how & 64)
        d.segment ^= 1ull << value % 64;
    if (how & 128)
        fz_bytes(in, &d, sizeof d);
    return d;
}

/* Which segment that is there now does the memory belong to? */
static int is_offered(const struct segments *s, const struct weft_mem_desc *d)
{
    for (unsigned i = 0; i < SEGMENTS; i++)
        if (s->ptr[i] && s->desc[i].segment == d->segment && d->offset <= lengths[i] &&
            d->bytes <= lengths[i] - d->offset)
            return (int)i + 1;
    return 0;
}

static void map(struct wi_shm_group *group, const struct segments *s, const struct weft_mem_desc *d)
{
    void *ptr = NULL;
    volatile unsigned char *byte;
    int owner;

    if (wi_shm_mem_map(group, 1, d, &ptr) != WEFT_SUCCESS)
        return;
    owner = is_offered(s, d);
    fz_require(owner != 0, "memory that nobody offers was mapped");
    byte = ptr;
    if (d->bytes)
        fz_require(byte[0] == owner && byte[d->bytes - 1] == owner, "another segment's memory");
}

static void get(struct wi_shm_group *group, const struct weft_mem_desc *d)
{
    static unsigned char to[256];
    size_t n = d->bytes < sizeof to ? d->bytes : sizeof to;

    wi_shm_mem_get(group, 1, d->address + d->offset, to, n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct fz_input in = {data, data + bytes};
    struct wi_shm_group *group = fz_group();
    struct segments s = {{NULL}, {{0}}};

    start();
    come_or_go(group, &s, 0);
    for (int actions = 0; in.at < in.end && actions < 64; actions++) {
        uint8_t what = fz_byte(&in);
        struct weft_mem_desc d;
        if (what % 4 == 0) {
            come_or_go(group, &s, what / 4 % SEGMENTS);
            continue;
        }
        d = describe(&s, &in);
        if (what % 4 == 1)
            get(group, &d);
        else
            map(group, &s, &d);
    }
    for (unsigned i = 0; i < SEGMENTS; i++)
        if (s.ptr[i])
            come_or_go(group, &s, i);
    fz_group_end(group);
    return 0;
}

/* SPDX-License-Identifier: BSD-3-Clause */
/* How fast checkpoints are saved and loaded, and how long the caller is blocked. One rank.
 *
 *     bench_ckpt FOLDER [MiB [ROUNDS]]
 *
 * For each form of a save: MB/s until it is durable; ms in begin, and in snapshot_wait when the caller has computed in between
 * for as long as a copy takes several times over (as a backward pass does) and when it has not; both as parts of the synchronous
 * save. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <weft/weft.h>

#include "base/clock.h"
#include "zero/ckpt/ckpt.h"

enum { TENSORS = 64 };

static double ms(uint64_t from)
{
    return (double)(wi_now_ns() - from) / 1e6;
}

struct model {
    struct wi_ckpt_piece pieces[TENSORS];
    char names[TENSORS][16];
    size_t shape[2];
    size_t bytes;
};

static void make(struct model *m, size_t mib)
{
    m->shape[0] = mib * 1024 / 4 / TENSORS;
    m->shape[1] = 1024;
    m->bytes = TENSORS * m->shape[0] * m->shape[1] * sizeof(float);
    for (int t = 0; t < TENSORS; t++) {
        size_t elems = m->shape[0] * m->shape[1];
        float *data = malloc(elems * sizeof(float));

        for (size_t i = 0; data && i < elems; i++)
            data[i] = (float)(i * 2654435761u % 1000003) * (float)(t + 1);
        snprintf(m->names[t], sizeof(m->names[t]), "layer%d", t);
        m->pieces[t] =
            (struct wi_ckpt_piece){m->names[t], "weight", WEFT_FLOAT32, 2, m->shape, 0, elems, data, NULL, NULL};
    }
}

/* Every element of the first so many tensors. */
static void step(struct model *m, int tensors)
{
    for (int t = 0; t < tensors; t++)
        for (size_t i = 0; i < m->pieces[t].end; i++)
            ((float *)m->pieces[t].data)[i] += 1;
}

static double save(struct wi_ckpt *ckpt, const char *folder, int number, struct model *m,
                   struct wi_ckpt_options options, unsigned compute_us, double sync_ms, const char *what)
{
    struct wi_ckpt_result result = {0};
    uint64_t began = wi_now_ns(), waited;
    double begin_ms, wait_ms, total;
    char tag[32];
    weft_status st;

    snprintf(tag, sizeof(tag), "v%d", number);
    st = wi_ckpt_begin(ckpt, folder, tag, m->pieces, TENSORS, NULL, &options);
    begin_ms = ms(began);
    usleep(compute_us);
    waited = wi_now_ns();
    wi_ckpt_snapshot_wait(ckpt);
    wait_ms = ms(waited);
    st = st < 0 ? st : wi_ckpt_wait(ckpt, &result);
    total = ms(began);
    if (st < 0) {
        printf("%s: %s\n", what, weft_thread_error());
        exit(1);
    }
    printf("%-34s %8.0f MB/s  total %8.1f ms  written %5.1f %%  begin %6.2f ms  snapshot_wait %7.2f ms", what,
           (double)m->bytes / 1e3 / total, total, 100.0 * (double)result.written_bytes / (double)result.bytes, begin_ms,
           wait_ms);
    if (sync_ms > 0)
        printf("  blocked %5.2f %%", 100 * (begin_ms + wait_ms) / sync_ms);
    printf("\n");
    fflush(stdout);
    return total;
}

static void load(const char *folder, struct model *m)
{
    struct wi_ckpt_reader *reader;
    uint64_t began = wi_now_ns();

    if (wi_ckpt_open(folder, NULL, 0, NULL, &reader) < 0 || wi_ckpt_read(reader, m->pieces, TENSORS) < 0) {
        printf("load: %s\n", weft_thread_error());
        exit(1);
    }
    printf("%-34s %8.0f MB/s\n", "load, from the page cache", (double)m->bytes / 1e3 / ms(began));
    wi_ckpt_close(reader);
}

int main(int argc, char **argv)
{
    struct wi_ckpt_options in_place = {.keep = 1, .in_place = 1}, copy = {.keep = 1, .keep_buffer = 1},
                           direct = {.keep = 1, .keep_buffer = 1, .direct = 1},
                           part = {.keep = 1, .keep_buffer = 1, .incremental = 1};
    size_t mib = argc > 2 ? (size_t)atoi(argv[2]) : 512;
    int rounds = argc > 3 ? atoi(argv[3]) : 3, n = (int)(wi_now_ns() % 1000000) * 100;
    static struct model model;
    struct wi_ckpt *ckpt;

    if (argc < 2 || mib < TENSORS || wi_ckpt_create(NULL, 0, &ckpt) < 0) {
        fprintf(stderr, "usage: bench_ckpt FOLDER [MiB, at least %d [ROUNDS]]\n", TENSORS);
        return 1;
    }
    make(&model, mib);
    for (int r = 0; r < rounds; r++) {
        double sync_ms = save(ckpt, argv[1], n++, &model, in_place, 0, 0, "synchronous");

        save(ckpt, argv[1], n++, &model, copy, 0, sync_ms, "copied, waited for at once");
        save(ckpt, argv[1], n++, &model, copy, (unsigned)mib * 2000, sync_ms, "copied beside computation");
        save(ckpt, argv[1], n++, &model, direct, (unsigned)mib * 2000, sync_ms, "the same, O_DIRECT");
        step(&model, TENSORS / 8);
        save(ckpt, argv[1], n++, &model, part, (unsigned)mib * 2000, sync_ms, "incremental, an eighth changed");
        load(argv[1], &model);
    }
    wi_ckpt_destroy(ckpt);
    return 0;
}

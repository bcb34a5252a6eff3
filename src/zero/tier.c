/* SPDX-License-Identifier: BSD-3-Clause */
#include "zero/tier.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/status.h"
#include "zero/offload.h"

enum {
    STALL_PART = 50,    /* of an update: a shorter wait is not worth a move */
    PRESSURE_PART = 20, /* of the time between steps: a longer wait for memory makes the engine give back */
    PAUSE_STEPS = 64    /* after that, before it takes again */
};

/* ---- One unit ---- */

/* Each stream of a flat begins at a multiple of this. */
static size_t held_bytes(const struct wi_zero_flat *flat)
{
    return wi_zero_round(wi_zero_stream_bytes(flat), 64);
}

static size_t unit_bytes(const weft_zero *zero, const struct wi_zero_unit *unit)
{
    size_t bytes = 0;

    for (int f = unit->first_flat; f < unit->first_flat + unit->nflats; f++)
        if (zero->flats[f].extent >= 0)
            bytes += wi_zero_streams(zero, &zero->flats[f]) * held_bytes(&zero->flats[f]);
    return bytes;
}

/* Where streams of a flat are in the memory of its unit. */
static char *stream_at(const weft_zero *zero, const struct wi_zero_flat *flat, unsigned stream)
{
    const struct wi_zero_unit *unit = &zero->units[flat->unit];
    char *at = zero->offload.tier->units[flat->unit].memory;

    for (int f = unit->first_flat; &zero->flats[f] != flat; f++)
        if (zero->flats[f].extent >= 0)
            at += wi_zero_streams(zero, &zero->flats[f]) * held_bytes(&zero->flats[f]);
    return at + stream * held_bytes(flat);
}

/* Flats of a unit are in memory, or in the file. */
static void place(weft_zero *zero, int number, int filed)
{
    const struct wi_zero_unit *unit = &zero->units[number];

    for (int f = unit->first_flat; f < unit->first_flat + unit->nflats; f++) {
        struct wi_zero_flat *flat = &zero->flats[f];

        if (flat->extent < 0)
            continue;
        flat->filed = filed;
        if (flat->separate)
            flat->weight = filed ? NULL : (float *)(void *)stream_at(zero, flat, 0);
        for (int m = 0; m < wi_zero_moments(zero, flat); m++)
            flat->moment[m] =
                filed ? NULL : (float *)(void *)stream_at(zero, flat, (unsigned)flat->separate + (unsigned)m);
    }
}

struct copy {
    const weft_zero *zero;
    const int *flats;
    int out; /* from memory into the file */
};

static weft_status copy_piece(void *arg, const struct wi_disk_piece *piece)
{
    const struct copy *copy = arg;
    const struct wi_zero_flat *flat = &copy->zero->flats[copy->flats[piece->index]];

    for (unsigned s = 0; s < piece->nstreams; s++) {
        char *memory = stream_at(copy->zero, flat, s) + piece->offset;

        memcpy(copy->out ? piece->streams[s] : memory, copy->out ? memory : piece->streams[s], piece->bytes);
    }
    return WEFT_SUCCESS;
}

static weft_status copy_unit(weft_zero *zero, const struct wi_zero_unit *unit, int out)
{
    int *flats = wi_calloc((size_t)unit->nflats + 1, sizeof *flats);
    size_t *extents = wi_calloc((size_t)unit->nflats + 1, sizeof *extents), n = 0;
    struct copy copy = {zero, flats, out};
    weft_status st = flats && extents ? WEFT_SUCCESS : wi_fail(WEFT_ENOMEM, "zero: offload: out of memory");

    for (int f = unit->first_flat; st >= 0 && f < unit->first_flat + unit->nflats; f++)
        if (zero->flats[f].extent >= 0) {
            flats[n] = f;
            extents[n++] = (size_t)zero->flats[f].extent;
        }
    if (st >= 0)
        st =
            wi_disk_stream(zero->offload.disk, extents, n, out ? WI_DISK_WRITE : WI_DISK_READ, copy_piece, &copy, NULL);
    if (st < 0 && out && extents) /* memory has it */
        wi_disk_forget(zero->offload.disk, extents, n);
    wi_free(flats);
    wi_free(extents);
    return st;
}

static void drop(weft_zero *zero, int number)
{
    struct wi_zero_held *held = &zero->offload.tier->units[number];

    munmap(held->memory, held->bytes);
    held->memory = NULL;
    zero->offload.tier->held -= held->bytes;
}

/* WEFT_ENOMEM: it stays in the file. */
static weft_status take(weft_zero *zero, int number)
{
    struct wi_zero_held *held = &zero->offload.tier->units[number];
    void *memory = mmap(NULL, held->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED)
        return wi_fail(WEFT_ENOMEM, "zero: offload: no memory for %zu bytes of unit \"%s\"", held->bytes,
                       zero->units[number].name);
    (void)madvise(memory, held->bytes, MADV_HUGEPAGE); /* only a hint */
    held->memory = memory;
    zero->offload.tier->held += held->bytes;
    weft_status st = copy_unit(zero, &zero->units[number], 0);

    if (st < 0) {
        drop(zero, number);
        return st;
    }
    place(zero, number, 0);
    zero->offload.tier->taken++;
    return WEFT_SUCCESS;
}

/* A failure leaves it in memory. */
static weft_status give(weft_zero *zero, int number)
{
    WI_TRY(copy_unit(zero, &zero->units[number], 1));
    place(zero, number, 1);
    drop(zero, number);
    zero->offload.tier->given++;
    return WEFT_SUCCESS;
}

/* ---- Which ones ---- */

/* Those that are used first, until there are `wanted` bytes more. */
static weft_status take_some(weft_zero *zero, size_t wanted)
{
    struct wi_zero_tier *tier = zero->offload.tier;

    for (int i = zero->turns.norder - 1; wanted && i >= 0; i--) {
        struct wi_zero_held *held = &tier->units[zero->turns.order[i]];

        if (!held->bytes || held->memory || tier->held >= tier->limit || held->bytes > tier->limit - tier->held)
            continue;
        weft_status st = take(zero, zero->turns.order[i]);

        if (st == WEFT_ENOMEM) {
            tier->pause = PAUSE_STEPS;
            return WEFT_SUCCESS;
        }
        WI_TRY(st);
        wanted -= wanted < held->bytes ? wanted : held->bytes;
    }
    return WEFT_SUCCESS;
}

/* Those that are used last, until at most `most` bytes are left. */
static weft_status give_down_to(weft_zero *zero, size_t most)
{
    for (int i = 0; zero->offload.tier->held > most && i < zero->turns.norder; i++)
        if (zero->offload.tier->units[zero->turns.order[i]].memory)
            WI_TRY(give(zero, zero->turns.order[i]));
    return WEFT_SUCCESS;
}

/* ---- Pressure ---- */

/* Of the control group (version 2) that this process is in, of the machine where there is none. */
static char *find_pressure(void)
{
    char line[512], path[600] = "/proc/pressure/memory";
    FILE *groups = fopen("/proc/self/cgroup", "re"), *file;

    while (groups && fgets(line, sizeof line, groups)) {
        line[strcspn(line, "\n")] = '\0';
        if (strncmp(line, "0::/", 4))
            continue;
        char own[600];

        snprintf(own, sizeof own, "/sys/fs/cgroup%s/memory.pressure", line + 3);
        file = fopen(own, "re");
        if (file) {
            snprintf(path, sizeof path, "%s", own);
            fclose(file);
        }
    }
    if (groups)
        fclose(groups);
    return wi_strdup(path);
}

/* Whether, since the last call, tasks waited for memory for more of the time than may be. */
static int under_pressure(struct wi_zero_tier *tier)
{
    uint64_t now = wi_now_ns(), waited = 0, us = tier->pressure_us, ns = tier->pressure_ns;
    FILE *file = tier->pressure ? fopen(tier->pressure, "re") : NULL;
    char line[256];
    const char *total;

    while (file && fgets(line, sizeof line, file))
        if (!strncmp(line, "some ", 5) && (total = strstr(line, "total=")))
            waited = strtoull(total + 6, NULL, 10);
    if (!file)
        return 0;
    fclose(file);
    tier->pressure_us = waited;
    tier->pressure_ns = now;
    return ns && waited > us && (waited - us) * 1000 > (now - ns) / PRESSURE_PART;
}

/* ---- The policy ---- */

static weft_status follow(weft_zero *zero, uint64_t update_ns, uint64_t stall_ns)
{
    struct wi_zero_tier *tier = zero->offload.tier;

    if (under_pressure(tier) && tier->held) {
        tier->pause = PAUSE_STEPS;
        (void)give_down_to(zero, tier->held / 2); /* what cannot be written stays in memory */
        return WEFT_SUCCESS;
    }
    if (tier->pause > 0) {
        tier->pause--;
        return WEFT_SUCCESS;
    }
    if (tier->held >= tier->limit || tier->held >= tier->all || stall_ns * STALL_PART < update_ns)
        return WEFT_SUCCESS;
    /* Had the file had this part less, the update would have had something to compute on all the time. */
    return take_some(zero, (size_t)((double)(tier->all - tier->held) * (double)stall_ns / (double)update_ns) + 1);
}

weft_status wi_zero_tier_follow(weft_zero *zero, uint64_t update_ns, uint64_t stall_ns)
{
    uint64_t from = wi_now_ns();

    if (!zero->offload.tier || !zero->offload.tier->limit || !update_ns)
        return WEFT_SUCCESS;
    weft_status st = follow(zero, update_ns, stall_ns);

    zero->offload.tier->move_ns += wi_now_ns() - from;
    return st;
}

static weft_status offload_memory(weft_zero *zero, size_t bytes)
{
    uint64_t from = wi_now_ns();
    weft_status st;

    if (!zero->config.offload_folder)
        return wi_fail(WEFT_EINVAL, "zero: offload_memory: offload_folder was not set: all states are in memory");
    if (bytes && !wi_zero_offload_exact(&zero->config))
        return wi_fail(WEFT_EINVAL,
                       "zero: offload_memory: a codec of the file loses something, and what is in memory does not: "
                       "results would depend on when it moved");
    if (!zero->offload.tier)
        return WEFT_SUCCESS; /* nothing of this rank's is in a file */
    zero->offload.tier->limit = bytes;
    zero->offload.tier->pause = 0;
    st = give_down_to(zero, bytes);
    zero->offload.tier->move_ns += wi_now_ns() - from;
    return st;
}

weft_status weft_zero_offload_memory(weft_zero *zero, size_t bytes)
{
    unsigned since;
    weft_status st = wi_zero_enter("offload_memory", zero, 1, &since);

    return st < 0 ? st : wi_zero_leave(zero, since, offload_memory(zero, bytes));
}

/* ---- Making ---- */

weft_status wi_zero_tier_create(weft_zero *zero)
{
    struct wi_zero_tier *tier;

    if (!zero->offload.disk)
        return WEFT_SUCCESS;
    tier = zero->offload.tier = wi_calloc(1, sizeof *tier);
    if (tier)
        tier->units = wi_calloc((size_t)zero->nunits, sizeof *tier->units);
    if (!tier || !tier->units)
        return wi_fail(WEFT_ENOMEM, "seal: out of memory");
    for (int u = 0; u < zero->nunits; u++) {
        tier->units[u].bytes = unit_bytes(zero, &zero->units[u]);
        tier->all += tier->units[u].bytes;
    }
    tier->limit = zero->config.offload_memory_bytes;
    tier->pressure = find_pressure();
    return WEFT_SUCCESS;
}

void wi_zero_tier_destroy(weft_zero *zero)
{
    if (!zero->offload.tier)
        return;
    for (int u = 0; zero->offload.tier->units && u < zero->nunits; u++)
        if (zero->offload.tier->units[u].memory)
            drop(zero, u);
    wi_free(zero->offload.tier->units);
    wi_free(zero->offload.tier->pressure);
    wi_free(zero->offload.tier);
}

void wi_zero_tier_stats(const weft_zero *zero, weft_zero_stats *stats)
{
    if (!zero->offload.tier)
        return;
    stats->offload_bytes = zero->offload.tier->all;
    stats->offload_held_bytes = zero->offload.tier->held;
    stats->offload_taken = zero->offload.tier->taken;
    stats->offload_given = zero->offload.tier->given;
    stats->offload_move_ns = zero->offload.tier->move_ns;
    stats->state_bytes += zero->offload.tier->held;
}

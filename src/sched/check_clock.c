/* SPDX-License-Identifier: BSD-3-Clause */
/* Vector clocks. Sparse, because a flat exchange has ranks squared lanes of which each is ordered after a few; shared, because
 * most events learn nothing new. */
#include "sched/check_internal.h"

#include <string.h>

#include "base/alloc.h"

struct wi_clock *wi_clock_get(struct wi_clock *clock)
{
    if (clock)
        clock->refs++;
    return clock;
}

void wi_clock_put(struct wi_clock *clock)
{
    if (clock && --clock->refs == 0)
        wi_free(clock);
}

/* First entry with a lane of at least `lane`. */
static uint32_t lower_bound(const struct wi_clock *clock, uint32_t lane)
{
    uint32_t low = 0, high = clock ? clock->n : 0;

    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (clock->at[mid].lane < lane)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

uint32_t wi_clock_time(const struct wi_clock *clock, uint32_t lane)
{
    uint32_t i = lower_bound(clock, lane);

    return clock && i < clock->n && clock->at[i].lane == lane ? clock->at[i].time : 0;
}

int wi_clock_knows(const struct wi_clock *clock, uint32_t first, uint32_t n)
{
    uint32_t i = lower_bound(clock, first);

    return clock && i < clock->n && clock->at[i].lane - first < n;
}

static void push(struct wi_clock *clock, struct wi_tick tick)
{
    struct wi_tick *last = clock->n ? &clock->at[clock->n - 1] : NULL;

    if (!last || last->lane != tick.lane)
        clock->at[clock->n++] = tick;
    else if (last->time < tick.time)
        last->time = tick.time;
}

static void merge(struct wi_clock *into, const struct wi_clock *a, const struct wi_clock *b)
{
    uint32_t i = 0, k = 0, na = a ? a->n : 0, nb = b ? b->n : 0;

    while (i < na || k < nb) {
        if (k == nb || (i < na && a->at[i].lane <= b->at[k].lane))
            push(into, a->at[i++]);
        else
            push(into, b->at[k++]);
    }
}

/* One more entry, in its place. */
static void insert(struct wi_clock *clock, struct wi_tick tick)
{
    uint32_t i = lower_bound(clock, tick.lane);

    if (i < clock->n && clock->at[i].lane == tick.lane) {
        if (clock->at[i].time < tick.time)
            clock->at[i].time = tick.time;
        return;
    }
    memmove(&clock->at[i + 1], &clock->at[i], (clock->n - i) * sizeof(tick));
    clock->at[i] = tick;
    clock->n++;
}

int wi_clock_join(struct wi_clock **clock, const struct wi_clock *other, uint32_t lane, uint32_t time)
{
    const struct wi_clock *mine = *clock;
    size_t n = (mine ? mine->n : 0) + (other && other != mine ? other->n : 0) + (size_t)1;

    if (wi_clock_time(mine, lane) >= time)
        return 0; /* heard of it, hence of all that it knew */
    struct wi_clock *joined = wi_malloc(sizeof(*joined) + n * sizeof(joined->at[0]));
    if (!joined)
        return -1;
    joined->refs = 1;
    joined->n = 0;
    merge(joined, mine, other == mine ? NULL : other);
    insert(joined, (struct wi_tick){lane, time});
    wi_clock_put(*clock);
    *clock = joined;
    return 0;
}

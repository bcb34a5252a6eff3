/* SPDX-License-Identifier: BSD-3-Clause */
#include "zero/spill_runs.h"

#include <string.h>

#include "base/alloc.h"
#include "base/status.h"

weft_status wi_runs_reserve(struct wi_runs *runs, size_t n)
{
    struct wi_run *more;

    if (n < runs->room) /* one more than asked for: a run is put in before it is joined */
        return WEFT_SUCCESS;
    more = wi_realloc(runs->runs, 2 * (n + 1) * sizeof(*more));
    if (!more)
        return wi_fail(WEFT_ENOMEM, "zero: spill: no memory for a table of %zu runs", n);
    runs->runs = more;
    runs->room = 2 * (n + 1);
    return WEFT_SUCCESS;
}

static void run_remove(struct wi_runs *runs, size_t i)
{
    runs->n--;
    memmove(runs->runs + i, runs->runs + i + 1, (runs->n - i) * sizeof(*runs->runs));
}

void wi_runs_give(struct wi_runs *runs, size_t first, size_t n)
{
    struct wi_run *run = runs->runs;
    size_t i = 0;

    if (n == 0)
        return;
    while (i < runs->n && run[i].first < first)
        i++;
    memmove(run + i + 1, run + i, (runs->n - i) * sizeof(*run));
    run[i] = (struct wi_run){first, n};
    runs->n++;
    if (i + 1 < runs->n && first + n == run[i + 1].first) {
        run[i].n += run[i + 1].n;
        run_remove(runs, i + 1);
    }
    if (i && run[i - 1].first + run[i - 1].n == first) {
        run[i - 1].n += run[i].n;
        run_remove(runs, i);
    }
}

int wi_runs_take(struct wi_runs *runs, size_t n, size_t *first)
{
    *first = 0;
    for (size_t i = 0; n && i < runs->n; i++) {
        struct wi_run *run = &runs->runs[i];
        if (run->n < n)
            continue;
        *first = run->first;
        run->first += n;
        run->n -= n;
        if (run->n == 0)
            run_remove(runs, i);
        return 1;
    }
    return n == 0;
}

size_t wi_runs_before(const struct wi_runs *runs, size_t end)
{
    const struct wi_run *last = runs->n ? &runs->runs[runs->n - 1] : NULL;

    return last && last->first + last->n == end ? last->n : 0;
}

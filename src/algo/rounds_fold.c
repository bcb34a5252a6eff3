/* SPDX-License-Identifier: BSD-3-Clause */
/* Closed form of what folding algorithms do: in, exchanges of a power of two of members, out.
 *
 * Which members fold decides which ranks wait for which: 255 ranks take twice the time of 256. So all ranks are simulated, unless
 * there are many. With descending distances the last messages are short, and members that differ in low bits of their number
 * become one actor, which exchanges with itself what they exchange among themselves. With ascending distances a smaller network
 * stands for the large one: partners at short distances are the same. Halved vectors are short at large distances, so that those
 * rounds cost what they would in step; whole vectors cost what the last rounds followed do. */
#include <math.h>

#include "algo/rounds.h"
#include "algo/swing.h"

#define ROWS 256   /* members followed, where messages at large distances, or at short ones, are short */
#define WHOLE 8192 /* and where all are long */

struct folding {
    const struct wi_exchange *x;
    struct wi_fold fold; /* of all ranks */
    int members, rem, shift,
        steps; /* followed: members, those who fold, those that each stands for: 2^shift; partners */
    double bytes;
    int in_place;
    const struct wi_algo_rates *rates;
};

static double sent_in(const struct folding *f, int member, int step)
{
    return f->x->sent(&f->fold, member << f->shift, step, f->bytes);
}

static double reduced_in(const struct folding *f, int member, int step)
{
    return f->x->reduced ? f->x->reduced(&f->fold, member << f->shift, step, f->bytes) : 0;
}

/* Step k of `nrounds`: there, and back from the last partner to the first. */
static int step_of(const struct folding *f, int k, int *back)
{
    *back = k >= f->steps;
    if (*back)
        return 2 * f->steps - 1 - k;
    return f->x->descending ? f->steps - 1 - k : k;
}

static int rounds_of(const struct folding *f)
{
    return f->x->returns ? 2 * f->steps : f->steps;
}

static void exchange(const struct folding *f, int member, int k, struct wi_round *r)
{
    int back, step = step_of(f, k, &back);
    int held = f->in_place || member < f->rem; /* where results go, from the start */

    if (f->x->swings)
        r->to = wi_swing_peer(member, step, f->members);
    else
        r->to = step < f->shift ? member : member ^ 1 << (step - f->shift);
    r->from = r->to;
    r->sent = sent_in(f, member, step);
    r->behind = back ? step + 1 : -1;
    r->reduced = back ? 0 : reduced_in(f, member, step);
    if (back ? step > 0 || held : f->x->drains && (k > 0 || held))
        r->drains = (back ? step : k) + 1;
}

/* Actors past the members: the folded ranks. */
static void round_of(const void *context, int actor, int k, struct wi_round *r)
{
    const struct folding *f = context;
    const struct wi_exchange *x = f->x;
    int last = rounds_of(f) + 1, is_folded = actor >= f->members, folds = actor < f->rem;

    if (k > 0 && k < last && !is_folded) {
        exchange(f, actor, k - 1, r);
    } else if (k == 0 && is_folded) {
        r->to = actor - f->members;
        r->sent = x->in;
    } else if (k == last && is_folded) {
        r->from = actor - f->members;
    } else if (k == 0 && folds) {
        r->from = f->members + actor;
        r->reduced = x->in_reduced ? x->in : 0;
    } else if (k == last) {
        r->to = folds ? f->members + actor : -1;
        r->sent = x->out;
        r->copied = folds ? x->copied : 0;
        r->beside = f->rates->beside;
        r->nbeside = f->rates->nbeside;
    }
}

/* All ranks are in step. */
static double in_step(const struct folding *f, const struct wi_algo_rates *r)
{
    double us = 0;

    for (int i = 0; i < f->steps; i++)
        us += (f->x->returns ? 2 : 1) * (r->alpha + wi_algo_over(sent_in(f, 0, i), r->beta)) +
              wi_algo_over(reduced_in(f, 0, i), r->reduce_rate);
    return us;
}

static double followed(struct folding *f, const struct wi_algo_rates *rates, int rem)
{
    struct wi_rounds p = {.round = round_of, .context = f};

    f->rates = rates;
    f->rem = rem;
    p.nactors = f->members + rem;
    p.nrounds = rounds_of(f) + 2;
    return wi_rounds_us(&p, rates);
}

double wi_rounds_fold(const struct wi_algo_args *args, double bytes, const struct wi_algo_rates *rates,
                      const struct wi_exchange *x)
{
    struct folding f = {.x = x, .fold = wi_fold_of(0, args->nranks), .bytes = bytes, .in_place = args->in_place};
    double us = 0;
    int rem;

    f.members = f.fold.pow2;
    f.steps = wi_log2_ceil(f.members);
    if (!f.fold.rem)
        return in_step(&f, rates);
    for (; x->descending && f.members > ROWS; f.members /= 2)
        f.shift++;
    rem = f.fold.rem >> f.shift;
    if (rem)
        us = followed(&f, rates, rem);
    if (rem << f.shift < f.fold.rem && us >= 0) /* one actor for some that fold, some that do not */
        us = fmax(us, followed(&f, rates, rem + 1));
    return us >= 0 ? us : NAN; /* no estimate, for other ranks would have another price */
}

int wi_rounds_fewer(int nranks, int members, int row)
{
    struct wi_fold fold = wi_fold_of(0, nranks);
    int rows = fold.pow2 / row, full = fold.rem / row, most = members / row - 1;

    if (fold.pow2 <= members || !fold.rem)
        return nranks;
    if (full == rows - 1)
        full = most;
    else if (full > 0)
        full = (int)((int64_t)full * members / fold.pow2);
    if (full == 0 && fold.rem >= row)
        full = 1;
    return members + full * row + fold.rem % row;
}

/* ---- All-reduces ---- */

static double whole(const struct wi_fold *fold, int member, int step, double bytes)
{
    (void)fold, (void)member, (void)step;
    return bytes;
}

static double half(const struct wi_fold *fold, int member, int step, double bytes)
{
    (void)fold, (void)member;
    return ldexp(bytes, -step - 1);
}

static double all_reduce(struct wi_algo_args args, int nranks, double bytes, const struct wi_algo_rates *rates,
                         struct wi_exchange x)
{
    x.reduced = x.sent;
    x.in = x.out = bytes;
    x.in_reduced = 1;
    args.nranks = nranks;
    return wi_rounds_fold(&args, bytes, rates, &x);
}

static int steps_of(int nranks)
{
    return wi_log2_ceil(wi_pow2_floor(nranks));
}

double wi_rounds_whole(const struct wi_algo_args *args, double bytes, const struct wi_algo_rates *rates, int swings)
{
    struct wi_exchange x = {.swings = swings, .drains = 1, .sent = whole};
    int n = args->nranks, fewer = wi_rounds_fewer(n, WHOLE, WHOLE / 4),
        least = wi_rounds_fewer(n, WHOLE / 4, WHOLE / 16);
    double us, step;

    if (n == 1)
        return args->in_place ? 0 : wi_algo_over(bytes, rates->copy_rate);
    us = all_reduce(*args, fewer, bytes, rates, x);
    if (fewer == n)
        return us;
    step = (us - all_reduce(*args, least, bytes, rates, x)) / 2;
    step = fmax(step, rates->alpha + wi_algo_over(bytes, rates->beta) + wi_algo_over(bytes, rates->reduce_rate));
    return us + step * (steps_of(n) - steps_of(fewer));
}

double wi_rounds_halving(const struct wi_algo_args *args, double bytes, const struct wi_algo_rates *rates, int swings)
{
    struct wi_exchange x = {.swings = swings, .returns = 1, .sent = half};
    int n = args->nranks, fewer = wi_rounds_fewer(n, ROWS, ROWS / 4);
    double us;

    if (n == 1)
        return args->in_place ? 0 : wi_algo_over(bytes, rates->copy_rate);
    us = all_reduce(*args, fewer, bytes, rates, x);
    for (int k = steps_of(fewer); k < steps_of(n); k++)
        us += 2 * rates->alpha +
              ldexp(2 * wi_algo_over(bytes, rates->beta) + wi_algo_over(bytes, rates->reduce_rate), -k - 1);
    return us;
}

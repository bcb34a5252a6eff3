/* SPDX-License-Identifier: BSD-3-Clause */
/* weft-plan explain: the answer, as text and as JSON. */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "plan_explain.h"

static const char *name_of(const struct wi_algo_choice *c, char name[WI_ALGO_SPEC_BYTES])
{
    return wi_algo_text(c->algo, &c->spec, name);
}

/* A linear codec is used: two ordinary collectives run, and none of the candidates, which are those of plain data. */
static int runs_linear(const struct explain *x)
{
    return x->linear.coded_us > 0 && x->linear.used;
}

int explain_is_plan(const struct explain *x, int i)
{
    const struct wi_algo_choice *c = &x->list[i].choice;

    return !runs_linear(x) && c->algo == x->plan.algo && wi_hier_same(&c->spec, &x->plan.spec);
}

static const char *bottleneck(const struct explain *x, int i, double *share)
{
    const struct wi_sim_cost *s = &x->sim[i];

    *share = 0;
    if (s->us <= 0)
        return NULL;
    if (s->busiest == WI_SIM_NONE || s->busiest_core_us > s->busiest_us) {
        *share = s->busiest_core_us / s->us;
        return s->busiest_core_us > 0 ? "a rank's core" : NULL;
    }
    *share = s->busiest_us / s->us;
    return x->model->resources[s->busiest].name;
}

/* ---- Text ---- */

static const char *by_bytes(double bytes, char text[24])
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    int u = 0;

    for (; bytes >= 1024 && u < 4; u++)
        bytes /= 1024;
    snprintf(text, 24, bytes < 10 && u ? "%.1f %s" : "%.0f %s", bytes, units[u]);
    return text;
}

static int by_price(const void *va, const void *vb)
{
    const struct wi_plan_candidate *a = *(const struct wi_plan_candidate *const *)va,
                                   *b = *(const struct wi_plan_candidate *const *)vb;

    if (a->predicted_us != b->predicted_us)
        return a->predicted_us < b->predicted_us ? -1 : 1;
    return a < b ? -1 : 1;
}

/* What the busiest rank sends; < 0: the levels of a hierarchical algorithm send images and plain data. */
static double sent_by(const struct explain *x, const struct wi_plan_candidate *c)
{
    int coded = (c->choice.needs & WI_ALGO_CODED) != 0;

    return !coded ? c->cost.sent : c->choice.spec.nlevels ? -1 : c->cost.sent * (double)x->query.codec.ratio;
}

static void print_row(const struct explain *x, const struct wi_plan_candidate *c)
{
    int i = (int)(c - x->list);
    char bytes[24], on[32] = "-", neck[80] = "", algo[WI_ALGO_SPEC_BYTES];
    double share;
    const char *name = bottleneck(x, i, &share);

    if (x->sim[i].us > 0)
        snprintf(on, sizeof on, "%.2f", x->sim[i].us);
    if (name)
        snprintf(neck, sizeof neck, "%.60s %.0f %%", name, share > 1 ? 100 : 100 * share);
    printf("%c %-28s %12.2f %-9s %12s %6.0f %10s%s%s\n", explain_is_plan(x, i) ? '*' : ' ', name_of(&c->choice, algo),
           c->predicted_us, wi_plan_basis_name(c->basis), on, c->cost.steps,
           sent_by(x, c) < 0 ? "-" : by_bytes(sent_by(x, c), bytes), name ? "  " : "", neck);
}

/* The two collectives of a linear codec, as one row: "leaderk: tree + ring". */
#define LINEAR_NAME (WI_CODEC_TEXT_MAX + 2 * WI_ALGO_SPEC_BYTES)
static const char *name_of_linear(const struct explain *x, char name[LINEAR_NAME])
{
    const struct wi_plan *agreed = &x->linear.agreed, *summed = &x->linear.summed;
    char one[WI_ALGO_SPEC_BYTES], other[WI_ALGO_SPEC_BYTES];

    snprintf(name, LINEAR_NAME, "%s: %s%s%s", wi_codec_name(&x->codec.codec),
             agreed->algo ? wi_algo_text(agreed->algo, &agreed->spec, one) : "", agreed->algo ? " + " : "",
             wi_algo_text(summed->algo, &summed->spec, other));
    return name;
}

/* Its vector is what it sends, cut as the two algorithms cut it. */
static void print_linear_row(const struct explain *x)
{
    char name[LINEAR_NAME];

    int wide;

    name_of_linear(x, name);
    wide = strlen(name) > 28 ? (int)strlen(name) : 28; /* what is longer has less room for the number behind it */
    printf("%c %-28s %*.2f %-9s %12s %6s %10s\n", runs_linear(x) ? '*' : ' ', name, wide < 36 ? 40 - wide : 4,
           x->linear.coded_us, "-", "-", "-", "-");
}

/* What the formulas count, of the busiest rank. */
static void print_difference(const struct explain *x, const struct wi_plan_candidate *best,
                             const struct wi_plan_candidate *next)
{
    char sent[2][24], reduced[2][24], name[WI_ALGO_SPEC_BYTES], beside[WI_ALGO_SPEC_BYTES + 16] = "";

    if (x->rule) /* which the line above does not name */
        snprintf(beside, sizeof beside, "beside %s: ", name_of(&next->choice, name));
    if (sent_by(x, best) < 0 || sent_by(x, next) < 0) {
        printf("%ssteps %.0f against %.0f\n", beside, best->cost.steps, next->cost.steps);
        return;
    }
    printf("%ssteps %.0f against %.0f, sent %s against %s, reduced %s against %s\n", beside, best->cost.steps,
           next->cost.steps, by_bytes(sent_by(x, best), sent[0]), by_bytes(sent_by(x, next), sent[1]),
           by_bytes(best->cost.reduced, reduced[0]), by_bytes(next->cost.reduced, reduced[1]));
}

static void print_passed_over(const struct explain *x)
{
    struct wi_plan plan;
    int failed = wi_plan(x->planner, &x->query, x->rule, &plan) < 0;

    printf("the rule %s cannot do it and is passed over: %s\n", x->rule, failed ? wi_fail_text() : "");
    wi_fail_clear();
}

static void print_why_linear(const struct explain *x)
{
    const struct wi_plan_linear *l = &x->linear;
    char name[LINEAR_NAME], plain[WI_ALGO_SPEC_BYTES];

    printf("\nchosen: %s, ", name_of_linear(x, name));
    wi_algo_text(x->plan.algo, &x->plan.spec, plain);
    if (l->coded_us < l->plain_us)
        printf("predicted to be %.2f times as fast as plain data by %s\n", l->plain_us / l->coded_us, plain);
    else
        printf("because plain data may not be sent (bypass=never); by %s it is predicted to be %.2f times as fast\n",
               plain, l->coded_us / l->plain_us);
    printf("slices: %zu bytes at most\n", l->summed.slice_bytes);
}

/* The chosen one is the cheapest, unless a rule names another one. */
static void print_why(const struct explain *x, const struct wi_plan_candidate *const *order, int n)
{
    const struct wi_plan_candidate *chosen = n ? order[0] : NULL, *next = n > 1 ? order[1] : NULL;
    char text[WI_ALGO_SPEC_BYTES], other[WI_ALGO_SPEC_BYTES];
    const char *name = wi_algo_text(x->plan.algo, &x->plan.spec, text);

    for (int i = 1; i < n; i++)
        if (explain_is_plan(x, (int)(order[i] - x->list))) {
            chosen = order[i];
            next = order[0];
        }
    if (x->rule && strncmp(name, x->rule, strcspn(x->rule, "/*")) == 0)
        printf("\nchosen: %s, because a rule says so (%s)\n", name, x->rule);
    else if (n == 1)
        printf("\nchosen: %s, the only one that can do it\n", name);
    else if (next && chosen->predicted_us > 0 && next->predicted_us / chosen->predicted_us < 1.005)
        printf("\nchosen: %s, predicted to be about as fast as %s\n", name, name_of(&next->choice, other));
    else if (next && chosen->predicted_us > 0)
        printf("\nchosen: %s, predicted to be %.2f times as fast as %s\n", name,
               next->predicted_us / chosen->predicted_us, name_of(&next->choice, other));
    else
        printf("\nchosen: %s\n", name);
    if (x->rule && strncmp(name, x->rule, strcspn(x->rule, "/*")) != 0)
        print_passed_over(x);
    if (next)
        print_difference(x, chosen, next);
    explain_print_stages(x);
    printf("slices: %zu bytes at most\n", x->plan.slice_bytes);
}

static void print_rate(const char *what, const struct wi_plan_rate *g)
{
    printf("%s: %.0f B/us in cache, %.0f in memory (%s)\n", what, (double)g->rate[WI_RATE_CACHE],
           (double)g->rate[WI_RATE_MEMORY], wi_plan_origin_name((enum wi_plan_origin)g->origin));
}

/* The cheapest candidate that is coded, or that is not; NULL: there is none. */
static const struct wi_plan_candidate *cheapest(const struct explain *x, int coded)
{
    const struct wi_plan_candidate *best = NULL;

    for (int i = 0; i < x->n; i++) {
        const struct wi_plan_candidate *c = &x->list[i];
        if (!c->why_not && !(c->choice.needs & WI_ALGO_CODED) == !coded &&
            (!best || c->predicted_us < best->predicted_us))
            best = c;
    }
    return best;
}

static int is_linear(const struct explain *x)
{
    return x->linear.coded_us > 0;
}

static int is_coded(const struct explain *x)
{
    if (is_linear(x))
        return x->linear.used;
    for (int i = 0; i < x->n; i++)
        if (explain_is_plan(x, i))
            return (x->list[i].choice.needs & WI_ALGO_CODED) != 0;
    return 0;
}

static void print_codec(const struct explain *x)
{
    const struct wi_plan_codec *c = &x->query.codec;
    char text[WI_CODEC_TEXT_MAX];

    if (!x->codec.on)
        return;
    printf("codec: %s", wi_codec_text(&x->codec.codec, text, sizeof text));
    if (!c->id)
        printf(", not for vectors shorter than min=%zu\n", x->codec.min_bytes);
    else
        printf(": %s of %.3f of the vector's bytes, encoding %.0f B/us of fp32, decoding %.0f%s\n",
               is_linear(x) ? "plain vectors" : "images", (double)c->ratio, (double)c->encode_rate,
               (double)c->decode_rate, x->codec.may_bypass ? "" : ", never bypassed");
}

/* The two collectives that a linear codec makes of the call. */
static void print_linear(const struct explain *x)
{
    const struct wi_plan_linear *l = &x->linear;
    int leads = x->linear_of.agreement == WEFT_CODEC_AGREE_LEADER;
    char name[WI_ALGO_SPEC_BYTES], bytes[2][24];

    if (x->linear_of.agreement) {
        wi_algo_text(l->agreed.algo, &l->agreed.spec, name);
        printf("coded: ranks agree by %s of %s by %s, %.2f us, then ", leads ? "a broadcast" : "an all_reduce (max)",
               by_bytes((double)l->agreed_bytes, bytes[0]), name, l->agreed.predicted_us);
    } else {
        printf("coded: ");
    }
    wi_algo_text(l->summed.algo, &l->summed.spec, name);
    printf("an all_reduce of %s of %s by %s, %.2f us; with encoding and decoding %.2f us\n",
           by_bytes((double)l->summed_bytes, bytes[1]), weft_dtype_name(x->linear_of.dtype), name,
           l->summed.predicted_us, l->coded_us);
    printf(l->used ? "compressed, predicted to be %.2f times as fast as plain data\n"
                   : "bypassed: plain data is sent, predicted to be %.2f times as fast as coded\n",
           l->used ? l->plain_us / l->coded_us : l->coded_us / l->plain_us);
}

/* Whether the codec is used, and what that gains. */
static void print_bypass(const struct explain *x)
{
    const struct wi_plan_candidate *plain = cheapest(x, 0), *coded = cheapest(x, 1);
    char name[WI_ALGO_SPEC_BYTES];

    if (!x->query.codec.id)
        return;
    if (is_linear(x)) {
        print_linear(x);
        return;
    }
    if (is_coded(x))
        printf("compressed%s", plain ? "" : "\n");
    else
        printf("bypassed: plain data is sent%s", coded ? "" : "\n");
    if (is_coded(x) && plain)
        printf(", predicted to be %.2f times as fast as plain data by %s\n", plain->predicted_us / x->plan.predicted_us,
               name_of(&plain->choice, name));
    else if (!is_coded(x) && coded)
        printf(", predicted to be %.2f times as fast as images by %s\n", coded->predicted_us / x->plan.predicted_us,
               name_of(&coded->choice, name));
}

static json_t *codec_json(const struct explain *x)
{
    const struct wi_plan_codec *c = &x->query.codec;
    const struct wi_plan_candidate *plain = cheapest(x, 0), *coded = cheapest(x, 1);
    char text[WI_CODEC_TEXT_MAX], name[WI_ALGO_SPEC_BYTES];
    json_t *j =
        json_pack("{s:s, s:b}", "codec", wi_codec_text(&x->codec.codec, text, sizeof text), "used", is_coded(x));

    if (c->id) {
        json_object_set_new(j, "ratio", json_real((double)c->ratio));
        json_object_set_new(j, "encode_rate", json_real((double)c->encode_rate));
        json_object_set_new(j, "decode_rate", json_real((double)c->decode_rate));
        json_object_set_new(j, "may_bypass", json_boolean(x->codec.may_bypass));
    }
    if (is_linear(x)) {
        json_object_set_new(j, "agreed_bytes", json_integer((json_int_t)x->linear.agreed_bytes));
        json_object_set_new(j, "summed_bytes", json_integer((json_int_t)x->linear.summed_bytes));
        json_object_set_new(j, "summed_dtype", json_string(weft_dtype_name(x->linear_of.dtype)));
        json_object_set_new(j, "plain_us", json_real(x->linear.plain_us));
        json_object_set_new(j, "coded_us", json_real(x->linear.coded_us));
        if (x->linear.agreed.algo)
            json_object_set_new(j, "agreed_algorithm",
                                json_string(wi_algo_text(x->linear.agreed.algo, &x->linear.agreed.spec, name)));
        json_object_set_new(j, "summed_algorithm",
                            json_string(wi_algo_text(x->linear.summed.algo, &x->linear.summed.spec, name)));
        return j;
    }
    if (plain)
        json_object_set_new(j, "plain_us", json_real(plain->predicted_us));
    if (coded)
        json_object_set_new(j, "coded_us", json_real(coded->predicted_us));
    return j;
}

static void print_rates(const struct explain *x)
{
    const struct wi_plan_rate *g = wi_planner_rate(x->planner, x->query.work);
    char what[64];

    snprintf(what, sizeof what, "reducing %s, %s", weft_dtype_name((weft_dtype)x->dtype), wi_rate_op_name(x->op));
    if (x->reduces)
        print_rate(what, g);
    if (x->reduces && x->facts.mapped && isfinite(g->fused))
        printf("reducing from other ranks' memory: at most %.0f B/us\n", (double)g->fused);
    print_rate("copying", wi_planner_rate(x->planner, -1));
}

void explain_print(const struct explain *x)
{
    const struct wi_plan_candidate *order[128];
    char bytes[24];
    int n = 0;

    printf("%s", wi_coll_name(x->query.coll));
    if (x->query.coll != WI_COLL_BARRIER)
        printf(" of %s", by_bytes((double)x->query.bytes, bytes));
    printf(", %d rank%s on %d node%s, %s%s%s\n", x->nranks, x->nranks == 1 ? "" : "s", x->facts.nnodes,
           x->facts.nnodes == 1 ? "" : "s", x->mapped_memory ? "mapped memory" : "private memory",
           x->query.in_place ? ", in place" : "", x->query.ordered ? ", in rank order" : "");
    printf("machine: %s\n", x->machine);
    if (x->table)
        printf("tuning: %s%s\n", x->tuning, x->tuning_is_setting ? " (WEFT_TUNING_FILE)" : "");
    print_codec(x);
    print_rates(x);
    if (x->plans && *x->plans)
        printf(
            "plans: the programs of WEFT_PLANS are no candidates; they run where WEFT_ALGO or a call names them (file:NAME)\n");
    putchar('\n');
    for (int i = 0; i < x->n && n < 128; i++)
        if (!x->list[i].why_not)
            order[n++] = &x->list[i];
    qsort(order, (size_t)n, sizeof *order, by_price);
    printf("  %-28s %12s %-9s %12s %6s %10s  %s\n", "algorithm", "predicted us", "by", "schedule us", "steps", "sent",
           "bottleneck, in use");
    for (int i = 0, todo = is_linear(x); i < n || todo; i++) {
        if (todo && (i >= n || x->linear.coded_us < order[i]->predicted_us)) {
            print_linear_row(x);
            todo = 0;
        }
        if (i < n)
            print_row(x, order[i]);
    }
    if (runs_linear(x))
        print_why_linear(x);
    else
        print_why(x, order, n);
    print_bypass(x);
    for (int i = 0, first = 1; i < x->n; i++) {
        if (!x->list[i].why_not)
            continue;
        char name[WI_ALGO_SPEC_BYTES];
        printf("%s  %-28s %s\n", first ? "\nnot possible:\n" : "", name_of(&x->list[i].choice, name),
               x->list[i].why_not);
        first = 0;
    }
}

/* ---- JSON ---- */

static json_t *candidate_json(const struct explain *x, int i)
{
    const struct wi_plan_candidate *c = &x->list[i];
    char name[WI_ALGO_SPEC_BYTES];
    double share;
    const char *neck = bottleneck(x, i, &share);
    json_t *j = json_pack("{s:s, s:b}", "algorithm", name_of(&c->choice, name), "possible", !c->why_not);

    if (c->why_not) {
        json_object_set_new(j, "reason", json_string(c->why_not));
        return j;
    }
    json_object_set_new(j, "predicted_us", json_real(c->predicted_us));
    json_object_set_new(j, "formula_us", json_real(c->model_us));
    json_object_set_new(j, "basis", json_string(wi_plan_basis_name(c->basis)));
    json_object_set_new(j, "steps", json_real(c->cost.steps));
    if (sent_by(x, c) >= 0)
        json_object_set_new(j, "sent_bytes", json_real(sent_by(x, c)));
    json_object_set_new(j, "reduced_bytes", json_real(c->cost.reduced));
    json_object_set_new(j, "copied_bytes", json_real(c->cost.copied));
    if (x->sim[i].us > 0)
        json_object_set_new(j, "schedule_us", json_real(x->sim[i].us));
    if (neck) {
        json_object_set_new(j, "bottleneck", json_string(neck));
        json_object_set_new(j, "utilisation", json_real(share > 1 ? 1 : share));
    }
    return j;
}

static json_t *rate_json(const struct wi_plan_rate *g)
{
    return json_pack("{s:f, s:f, s:s}", "cache", (double)g->rate[WI_RATE_CACHE], "memory",
                     (double)g->rate[WI_RATE_MEMORY], "origin", wi_plan_origin_name((enum wi_plan_origin)g->origin));
}

weft_status explain_print_json(const struct explain *x)
{
    const struct wi_plan *plan = runs_linear(x) ? &x->linear.summed : &x->plan;
    json_t *list = json_array(), *top;
    char name[LINEAR_NAME];
    int failed;

    if (is_linear(x))
        json_array_append_new(list, json_pack("{s:s, s:b, s:f, s:I}", "algorithm", name_of_linear(x, name), "possible",
                                              1, "predicted_us", x->linear.coded_us, "summed_bytes",
                                              (json_int_t)x->linear.summed_bytes));

    for (int i = 0; i < x->n; i++)
        json_array_append_new(list, candidate_json(x, i));
    top = json_pack("{s:s, s:I, s:i, s:i, s:s, s:b, s:b, s:s, s:s, s:I, s:o}", "collective",
                    wi_coll_name(x->query.coll), "bytes", (json_int_t)x->query.bytes, "ranks", x->nranks, "nodes",
                    x->facts.nnodes, "memory", x->mapped_memory ? "mapped" : "private", "in_place", x->query.in_place,
                    "in_rank_order", x->query.ordered, "machine", x->machine, "chosen",
                    runs_linear(x) ? name_of_linear(x, name) : wi_algo_text(plan->algo, &plan->spec, name),
                    "slice_bytes", (json_int_t)plan->slice_bytes, "candidates", list);
    if (!top)
        return wi_fail(WEFT_ENOMEM, "JSON");
    if (x->table)
        json_object_set_new(top, "tuning", json_string(x->tuning));
    if (x->rule)
        json_object_set_new(top, "rule", json_string(x->rule));
    if (x->codec.on)
        json_object_set_new(top, "codec", codec_json(x));
    if (!runs_linear(x)) /* stages are those of the plain call */
        json_object_set_new(top, "stages", explain_stages_json(x));
    if (!runs_linear(x) && x->plan.pipeline.fragment_bytes)
        json_object_set_new(top, "fragments", explain_pipeline_json(x));
    if (x->reduces) {
        json_t *rate = rate_json(wi_planner_rate(x->planner, x->query.work));
        json_object_set_new(rate, "dtype", json_string(weft_dtype_name((weft_dtype)x->dtype)));
        json_object_set_new(rate, "op", json_string(wi_rate_op_name(x->op)));
        json_object_set_new(top, "reduce_rate", rate);
    }
    json_object_set_new(top, "copy_rate", rate_json(wi_planner_rate(x->planner, -1)));
    failed = json_dumpf(top, stdout, JSON_INDENT(2)) || putchar('\n') == EOF;
    json_decref(top);
    return failed ? wi_fail(WEFT_ESYS, "standard output") : WEFT_SUCCESS;
}

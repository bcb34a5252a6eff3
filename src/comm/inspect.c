/* SPDX-License-Identifier: BSD-3-Clause */
/* Questions to a communicator, its settings, and its flight recorder. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/status.h"
#include "base/struct_prefix.h"
#include "comm/comm.h"
#include <weft/weft_client.h>

static weft_status check_out(const weft_comm *comm, const void *out, const char *call)
{
    WI_TRY(wi_comm_check(comm));
    return out ? WEFT_SUCCESS : wi_fail(WEFT_EINVAL, "%s: the result pointer is NULL", call);
}

weft_status weft_comm_rank(const weft_comm *comm, int *rank)
{
    WI_TRY(check_out(comm, rank, "comm_rank"));
    *rank = comm->rank;
    return WEFT_SUCCESS;
}

weft_status weft_comm_size(const weft_comm *comm, int *nranks)
{
    WI_TRY(check_out(comm, nranks, "comm_size"));
    *nranks = comm->nranks;
    return WEFT_SUCCESS;
}

weft_status weft_comm_name(const weft_comm *comm, const char **name)
{
    WI_TRY(check_out(comm, name, "comm_name"));
    *name = comm->name;
    return WEFT_SUCCESS;
}

weft_status weft_comm_host(const weft_comm *comm, int rank, const char **host)
{
    WI_TRY(check_out(comm, host, "comm_host"));
    if (rank < 0 || rank >= comm->nranks)
        return wi_fail(WEFT_EINVAL, "comm_host: rank %d is not of this communicator", rank);
    *host = wi_mesh_host(comm->mesh, rank);
    return WEFT_SUCCESS;
}

weft_status weft_comm_local(const weft_comm *comm, int *local_rank, int *local_nranks)
{
    WI_TRY(check_out(comm, local_rank, "comm_local"));
    if (!local_nranks)
        return wi_fail(WEFT_EINVAL, "comm_local: the result pointer is NULL");
    *local_rank = comm->mesh->local_rank;
    *local_nranks = comm->mesh->local_nranks;
    return WEFT_SUCCESS;
}

weft_status weft_comm_context(const weft_comm *comm, weft_context **context)
{
    WI_TRY(wi_comm_check(comm));
    if (!context)
        return wi_fail(WEFT_EINVAL, "comm_context: the result pointer is NULL");
    *context = comm->ctx;
    return WEFT_SUCCESS;
}

weft_status weft_comm_status(const weft_comm *comm)
{
    WI_TRY(wi_comm_check(comm));
    return comm->exec->broken;
}

weft_status weft_comm_set_timeout(weft_comm *comm, uint64_t timeout_ns)
{
    WI_TRY(wi_comm_check(comm));
    WI_TRY(wi_comm_enter(comm));
    comm->exec->timeout_ns = timeout_ns == WEFT_TIMEOUT_DEFAULT ? comm->ctx->comm.timeout_ns : timeout_ns;
    wi_comm_leave(comm);
    return WEFT_SUCCESS;
}

weft_status weft_comm_label(weft_comm *comm, const char *label)
{
    WI_TRY(wi_comm_check(comm));
    if (!label || !*label)
        return wi_fail(WEFT_EINVAL, "comm_label: the label is %s", label ? "empty" : "NULL");
    WI_TRY(wi_comm_enter(comm));
    wi_label_keep(comm->exec, wi_label_hash(label), label);
    wi_comm_leave(comm);
    return WEFT_SUCCESS;
}

weft_status weft_last_error(const weft_comm *comm, weft_error *error)
{
    static const struct wi_struct_rule rule = WI_STRUCT_RULE(weft_error, "WEFT_ERROR_INIT", bytes);
    static __thread struct wi_error shown; /* what is handed out: other threads may ask, and fail, meanwhile */
    weft_error found;

    WI_TRY(wi_comm_check(comm));
    WI_TRY(wi_struct_check(&rule, "last_error", error));
    wi_exec_error(comm->exec, &shown);
    found = (weft_error){
        .status = shown.status,
        .rank = comm->rank,
        .peer = shown.status < 0 ? shown.peer : -1,
        .seq = shown.seq,
        .host = shown.host,
        .operation = shown.operation ? shown.operation : "",
        .message = shown.message,
        .advice = shown.advice,
    };
    wi_struct_write(&rule, &found, error);
    return WEFT_SUCCESS;
}

weft_status weft_thread_error_set(weft_status status, const char *text)
{
    if (status >= 0)
        return wi_fail(WEFT_EINVAL, "thread_error_set: %d is no failure", (int)status);
    if (!text)
        return wi_fail(WEFT_EINVAL, "thread_error_set: text is NULL");
    return wi_fail(status, "%s", text);
}

const char *weft_thread_error(void)
{
    return wi_fail_text();
}

weft_status weft_algorithm_list(weft_algorithm_fn fn, void *arg)
{
    if (!fn)
        return wi_fail(WEFT_EINVAL, "algorithm_list: fn is NULL");
    for (const struct wi_algo *const *a = wi_algos; *a; a++)
        fn(arg, wi_coll_name((*a)->coll), (*a)->name, (*a)->summary);
    return WEFT_SUCCESS;
}

static const struct wi_record *newest_collective(const struct wi_recorder *r)
{
    uint32_t first = r->next > WI_RECORDER_ENTRIES ? r->next - WI_RECORDER_ENTRIES : 0;

    for (uint32_t i = r->next; i > first; i--) {
        const struct wi_record *e = &r->ring[(i - 1) % WI_RECORDER_ENTRIES];
        if (e->info.kind != WI_COLL_SEND && e->info.kind != WI_COLL_RECV)
            return e;
    }
    return NULL;
}

static weft_status none_recorded(const char *call)
{
    return wi_fail(
        WEFT_ENOTFOUND,
        "%s: no collective that other ranks have a part in is in the recorder (on one rank, and of no elements, no "
        "algorithm runs)",
        call);
}

weft_status weft_comm_newest_algorithm(weft_comm *comm, const char **algorithm)
{
    static __thread char name[WI_ALGO_SPEC_BYTES];
    const struct wi_record *e;

    WI_TRY(check_out(comm, algorithm, "comm_newest_algorithm"));
    WI_TRY(wi_comm_enter(comm));
    e = newest_collective(&comm->exec->recorder);
    if (e)
        snprintf(name, sizeof name, "%s", e->algo ? e->algo : "");
    wi_comm_leave(comm);
    if (!e)
        return none_recorded("comm_newest_algorithm");
    *algorithm = name;
    return WEFT_SUCCESS;
}

weft_status weft_comm_newest_collective(weft_comm *comm, weft_collective_info *info)
{
    static const struct wi_struct_rule rule = WI_STRUCT_RULE(weft_collective_info, "WEFT_COLLECTIVE_INFO_INIT", bytes);
    static __thread struct {
        char algorithm[WI_ALGO_SPEC_BYTES], codec[WI_RECORDER_CODEC_TEXT], label[WI_LABEL_BYTES];
    } shown; /* other operations may take the entry's place */
    const struct wi_record *e;
    weft_collective_info found;
    const char *label;

    WI_TRY(wi_comm_check(comm));
    WI_TRY(wi_struct_check(&rule, "comm_newest_collective", info));
    WI_TRY(wi_comm_enter(comm));
    e = newest_collective(&comm->exec->recorder);
    if (e) {
        snprintf(shown.algorithm, sizeof shown.algorithm, "%s", e->algo ? e->algo : "");
        snprintf(shown.codec, sizeof shown.codec, "%s", e->has_codec ? e->codec : "");
        label = wi_label_text(comm->exec, e->label);
        snprintf(shown.label, sizeof shown.label, "%s", label ? label : "");
        found = (weft_collective_info){.algorithm = shown.algorithm,
                                       .codec = shown.codec,
                                       .tensor = e->has_codec ? e->tensor : 0,
                                       .bytes_sent = e->bytes_sent,
                                       .bypassed = e->has_codec && e->bypassed,
                                       .completed = e->state == WI_RECORD_DONE,
                                       .label = shown.label};
    }
    wi_comm_leave(comm);
    if (!e)
        return none_recorded("comm_newest_collective");
    wi_struct_write(&rule, &found, info);
    return WEFT_SUCCESS;
}

/* ---- Flight recorder ---- */

static void expand(const struct weft_comm *comm, const char *pattern, char *path, size_t capacity)
{
    size_t at = 0;

    for (const char *p = pattern; *p && at + 24 < capacity; p++) {
        if (p[0] == '%' && (p[1] == 'r' || p[1] == 'p'))
            at += (size_t)snprintf(path + at, capacity - at, "%d", *++p == 'r' ? comm->rank : (int)getpid());
        else
            path[at++] = *p;
    }
    path[at] = '\0';
}

static void put_text(FILE *f, const char *text)
{
    fputc('"', f);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            fputc('\\', f);
        if ((unsigned char)*text >= 0x20)
            fputc(*text, f);
    }
    fputc('"', f);
}

static const char *state_name(int state)
{
    return state == WI_RECORD_DONE ? "completed" : state == WI_RECORD_FAILED ? "failed" : "started";
}

/* Weft's own keys. */
static void dump_more(FILE *f, const struct wi_exec *exec, const struct wi_record *e)
{
    const char *label = wi_label_text(exec, e->label);

    if (label) {
        fputs("\"label\": ", f);
        put_text(f, label);
        fputs(", ", f);
    }
    fprintf(f, "\"bytes_sent\": %llu, ", (unsigned long long)e->bytes_sent);
    if (!e->has_codec)
        return;
    fputs("\"codec\": ", f);
    put_text(f, e->codec);
    fprintf(f, ", \"tensor\": %llu, \"codec_bypassed\": %s, ", (unsigned long long)e->tensor,
            e->bypassed ? "true" : "false");
}

/* The keys are those of PyTorch's flight recorder, where it has them. */
static void dump_entry(FILE *f, const struct wi_exec *exec, const struct wi_record *e)
{
    int message = e->info.kind == WI_COLL_SEND;
    unsigned seq = e->info.seq;

    fprintf(f,
            "    {\"record_id\": %u, \"is_p2p\": %s, \"collective_seq_id\": %u, \"p2p_seq_id\": %u, "
            "\"profiling_name\": \"weft:%s\", \"state\": \"%s\", \"algorithm\": ",
            e->serial, message ? "true" : "false", message ? 0 : seq, message ? seq : 0,
            wi_coll_name(e->receives ? WI_COLL_RECV : (enum wi_coll)e->info.kind), state_name(e->state));
    put_text(f, e->algo ? e->algo : "");
    fprintf(f, ", \"count\": %llu, \"dtype\": \"%s\", \"op\": \"%s\", ", (unsigned long long)e->info.count,
            e->info.dtype < WEFT_NUM_DTYPES ? weft_dtype_name((weft_dtype)e->info.dtype) : "?",
            e->info.flags & 1 && e->info.op < WEFT_NUM_OPS ? weft_op_name(e->info.op) : "");
    if (message)
        fprintf(f, "\"peer\": %d, \"tag\": %lld, ", e->peer, (long long)wi_info_tag(&e->info));
    else
        fprintf(f, "\"root\": %d, ", (int)e->info.root);
    dump_more(f, exec, e);
    fprintf(f, "\"time_created_ns\": %llu, \"time_completed_ns\": %llu}",
            (unsigned long long)wi_ticks_to_ns(e->ticks_issued),
            (unsigned long long)(e->ticks_done ? wi_ticks_to_ns(e->ticks_done) : 0));
}

/* The lock is held, or the communicator is broken. */
weft_status wi_comm_dump_to(struct weft_comm *comm, const char *pattern)
{
    const struct wi_recorder *r = &comm->exec->recorder;
    uint32_t first = r->next > WI_RECORDER_ENTRIES ? r->next - WI_RECORDER_ENTRIES : 0;
    char path[4096];
    FILE *f;

    expand(comm, pattern, path, sizeof path);
    f = fopen(path, "we");
    if (!f)
        return wi_fail_errno(errno, "%s", path);
    fprintf(f, "{\n  \"version\": \"2.10\",\n  \"library\": \"weft %s\",\n  \"communicator\": ", weft_version());
    put_text(f, comm->name);
    fprintf(f, ",\n  \"rank\": %d,\n  \"nranks\": %d,\n  \"host\": ", comm->rank, comm->nranks);
    put_text(f, wi_mesh_host(comm->mesh, comm->rank));
    fprintf(f, ",\n  \"status\": \"%s\",\n  \"error\": ", weft_status_name(comm->exec->broken));
    put_text(f, comm->exec->error.message);
    fprintf(f, ",\n  \"entries\": [\n");
    for (uint32_t i = first; i < r->next; i++) {
        dump_entry(f, comm->exec, &r->ring[i % WI_RECORDER_ENTRIES]);
        fputs(i + 1 < r->next ? ",\n" : "\n", f);
    }
    fputs("  ]\n}\n", f);
    if (fclose(f) != 0)
        return wi_fail_errno(errno, "%s", path);
    return WEFT_SUCCESS;
}

weft_status weft_comm_dump(weft_comm *comm, const char *path)
{
    weft_status st;

    WI_TRY(check_out(comm, path, "comm_dump"));
    WI_TRY(wi_comm_enter(comm));
    st = wi_comm_dump_to(comm, path);
    wi_comm_leave(comm);
    return st;
}

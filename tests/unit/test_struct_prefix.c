/* SPDX-License-Identifier: BSD-3-Clause */
/* Structs of the public API that are shorter or longer than the library's: accepted, filled as far as they go, or refused. */
#include <string.h>
#include <weft/weft.h>

#include "base/status.h"
#include "base/struct_prefix.h"
#include "struct_rows.h"

/* A field that is added at the end must not lie where older callers have padding. */
_Static_assert(ENDS_AT(weft_context_config, settings), "padding at the end");
_Static_assert(ENDS_AT(weft_comm_config, reserved), "padding at the end");
_Static_assert(ENDS_AT(weft_mesh_axis, traffic), "padding at the end");
_Static_assert(ENDS_AT(weft_call_options, reserved), "padding at the end");
_Static_assert(ENDS_AT(weft_call, options), "padding at the end");
_Static_assert(ENDS_AT(weft_message, count), "padding at the end");
_Static_assert(ENDS_AT(weft_oob, arg), "padding at the end");
_Static_assert(ENDS_AT(weft_error, advice), "padding at the end");
_Static_assert(ENDS_AT(weft_security, misspelt), "padding at the end");
_Static_assert(ENDS_AT(weft_collective_info, label), "padding at the end");
_Static_assert(ENDS_AT(weft_plugin_info, refusal), "padding at the end");
_Static_assert(ENDS_AT(weft_peer_info, state), "padding at the end");
_Static_assert(ENDS_AT(weft_route_info, reserved), "padding at the end");

/* ---- The mechanism, on a struct that has grown twice ---- */

struct sample_1 {
    size_t bytes;
    int kind, count;
};
struct sample_2 {
    size_t bytes;
    int kind, count;
    const char *label;
};
struct sample_3 {
    size_t bytes;
    int kind, count;
    const char *label;
    uint64_t priority, id;
};

static const struct wi_struct_rule sample = WI_STRUCT_RULE(struct sample_2, "SAMPLE_INIT", count);

static void older(void)
{
    struct sample_1 old = {sizeof old, 3, 4};
    struct sample_2 own = {0, 1, 2, "by default"};

    CU_ASSERT_EQUAL(wi_struct_read(&sample, "test", &old, &own), WEFT_SUCCESS);
    CU_ASSERT(own.kind == 3 && own.count == 4 && own.bytes == sizeof own);
    CU_ASSERT_STRING_EQUAL(own.label, "by default");
}

static void same(void)
{
    struct sample_2 now = {sizeof now, 3, 4, "given"}, own = {0, 1, 2, "by default"};

    CU_ASSERT_EQUAL(wi_struct_read(&sample, "test", &now, &own), WEFT_SUCCESS);
    CU_ASSERT(memcmp(&now, &own, sizeof own) == 0);
}

static void newer(void)
{
    struct sample_3 later = {sizeof later, 3, 4, "given", 0, 0};
    struct sample_2 own = {0, 1, 2, "by default"};

    CU_ASSERT_EQUAL(wi_struct_read(&sample, "test", &later, &own), WEFT_SUCCESS);
    CU_ASSERT(own.kind == 3 && own.bytes == sizeof own);
    CU_ASSERT_STRING_EQUAL(own.label, "given");
    own = (struct sample_2){0, 1, 2, "by default"};
    later.id = 1;
    CU_ASSERT_EQUAL(wi_struct_read(&sample, "test", &later, &own), WEFT_ENOTSUP);
    CU_ASSERT_PTR_NOT_NULL(strstr(wi_fail_text(), "test: the struct sample_2 has 40 bytes and sets a field at 32"));
    CU_ASSERT(own.kind == 1 && own.bytes == 0); /* nothing was taken */
}

static void no_size(void)
{
    static const size_t wrong[] = {0, 1, 8, 15, 17, 25, 33, 4104, (size_t)-8};
    struct sample_3 given = {0};
    struct sample_2 own = {0, 1, 2, NULL};

    CU_ASSERT_EQUAL(wi_struct_read(&sample, "test", NULL, &own), WEFT_EINVAL);
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        given.bytes = wrong[i];
        CU_ASSERT_EQUAL(wi_struct_read(&sample, "test", &given, &own), WEFT_EINVAL);
        CU_ASSERT_PTR_NOT_NULL(strstr(wi_fail_text(), "SAMPLE_INIT"));
        CU_ASSERT_EQUAL(wi_struct_check(&sample, "test", &given), WEFT_EINVAL);
    }
    CU_ASSERT(own.kind == 1 && own.bytes == 0);
}

static void results(void)
{
    struct sample_2 found = {99, 3, 4, "found"};
    struct sample_1 old = {sizeof old, 0, 0};
    struct sample_3 later = {sizeof later, 0, 0, NULL, 7, 8};

    CU_ASSERT_EQUAL(wi_struct_check(&sample, "test", &later), WEFT_SUCCESS); /* its defaults need not be 0 */
    wi_struct_write(&sample, &found, &old);
    CU_ASSERT(old.bytes == sizeof old && old.kind == 3 && old.count == 4);
    wi_struct_write(&sample, &found, &later);
    CU_ASSERT(later.bytes == sizeof later && later.count == 4 && later.priority == 7 && later.id == 8);
    CU_ASSERT_STRING_EQUAL(later.label, "found");
}

/* ---- Every struct of the API, by every length that it may have ---- */

static weft_context *context;
static weft_comm *comm;

static void open_comm(void)
{
    static const char *const settings[] = {"TRANSPORTS=inproc", NULL};
    weft_context_config config = WEFT_CONTEXT_CONFIG_INIT;

    config.settings = settings;
    CU_ASSERT_EQUAL_FATAL(weft_context_create(&config, &context), WEFT_SUCCESS);
    CU_ASSERT_EQUAL_FATAL(weft_comm_create_env(context, NULL, &comm), WEFT_SUCCESS);
}

static void close_comm(void)
{
    CU_ASSERT_EQUAL(weft_comm_destroy(comm), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(weft_context_destroy(context), WEFT_SUCCESS);
}

static weft_status use_context_config(void *given)
{
    weft_context *made = NULL;
    weft_status st = weft_context_create(given, &made);

    weft_context_destroy(made);
    return st;
}

static weft_status use_comm_config(void *given)
{
    weft_comm *made = NULL;
    weft_status st = weft_comm_dup(comm, given, &made), other;

    weft_comm_destroy(made);
    made = NULL;
    other = weft_comm_create_env(context, given, &made);
    weft_comm_destroy(made);
    CU_ASSERT_EQUAL(st, other);
    return st;
}

static int alone(void *arg, const void *mine, size_t bytes, void *all, uint64_t timeout_ns)
{
    (void)arg, (void)timeout_ns;
    memcpy(all, mine, bytes);
    return 0;
}

static weft_status use_oob(void *given)
{
    weft_comm *made = NULL;
    weft_status st = weft_comm_create_oob(context, given, NULL, &made);

    weft_comm_destroy(made);
    return st;
}

static weft_status use_mesh_axis(void *given)
{
    int order = -1;

    return weft_comm_mesh(comm, given, 1, &order, NULL);
}

static weft_status use_error(void *given)
{
    return weft_last_error(comm, given);
}

static weft_status use_security(void *given)
{
    return weft_context_security(context, given);
}

/* What they describe is done: a barrier of one rank, with a time-out of its own. */
static weft_status use_call(void *given)
{
    return weft_issue(comm, given, NULL);
}

static weft_status use_call_options(void *given)
{
    weft_call call = WEFT_CALL_INIT;

    call.kind = WEFT_KIND_BARRIER;
    call.options = given;
    return weft_issue(comm, &call, NULL);
}

static weft_status use_message(void *given)
{
    weft_status st = weft_probe(comm, 0, 0, 0, given);

    return st == WEFT_INPROGRESS ? WEFT_SUCCESS : st;
}

/* Of one rank there is no collective to tell of; the struct is looked at first. */
static weft_status use_collective_info(void *given)
{
    weft_status st = weft_comm_newest_collective(comm, given);

    return st == WEFT_ENOTFOUND ? WEFT_SUCCESS : st;
}

static weft_status use_peer_info(void *given)
{
    return weft_comm_peer(comm, 0, given);
}

static const weft_context_config context_config = WEFT_CONTEXT_CONFIG_INIT;
static const weft_comm_config comm_config = WEFT_COMM_CONFIG_INIT;
static const weft_oob oob = {.bytes = sizeof(weft_oob), .rank = 0, .nranks = 1, .all_gather = alone};
static const weft_mesh_axis mesh_axis = {sizeof(weft_mesh_axis), "tp", 1, 1.0};
static const weft_error error = WEFT_ERROR_INIT;
static const weft_message message = WEFT_MESSAGE_INIT;
static const weft_security security = WEFT_SECURITY_INIT;
static const weft_collective_info collective_info = WEFT_COLLECTIVE_INFO_INIT;
static const weft_peer_info peer_info = WEFT_PEER_INFO_INIT;
static const weft_call call = {.bytes = sizeof(weft_call), .kind = WEFT_KIND_BARRIER};
static const weft_call_options call_options = WEFT_CALL_OPTIONS_INIT;

static const struct wt_struct_row rows[] = {
    {"weft_context_config", &context_config, sizeof context_config, 8, 0, use_context_config},
    {"weft_comm_config", &comm_config, sizeof comm_config, 8, 0, use_comm_config},
    {"weft_oob", &oob, sizeof oob, 24, 0, use_oob},
    {"weft_mesh_axis", &mesh_axis, sizeof mesh_axis, 16, 0, use_mesh_axis},
    {"weft_error", &error, sizeof error, 8, 1, use_error},
    {"weft_message", &message, sizeof message, 8, 1, use_message},
    {"weft_security", &security, sizeof security, 8, 1, use_security},
    {"weft_collective_info", &collective_info, sizeof collective_info, 8, 1, use_collective_info},
    {"weft_peer_info", &peer_info, sizeof peer_info, 8, 1, use_peer_info},
    {"weft_call", &call, sizeof call, 16, 0, use_call},
    {"weft_call_options", &call_options, sizeof call_options, 8, 0, use_call_options},
};

static void all_structs(void)
{
    open_comm();
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        wt_struct_every_length(&rows[i]);
    close_comm();
}

/* What is behind `bytes` has its default, whatever stands there. */
static void defaults(void)
{
    weft_comm_config config = {16, "named", 12345, 1, 1000, 1}; /* all but the name would fail */
    weft_mesh_axis axes[2] = {{sizeof *axes, "tp", 1, 1.0}, {24, "dp", 1, 1.0}};
    struct {
        size_t bytes;
        const char *name;
    } short_axes[2] = {{16, "tp"}, {16, "dp"}};
    weft_comm *made = NULL;
    const char *name = "";
    int order;

    open_comm();
    CU_ASSERT_EQUAL_FATAL(weft_comm_create_env(context, &config, &made), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(weft_comm_name(made, &name), WEFT_SUCCESS);
    CU_ASSERT_STRING_EQUAL(name, "named");
    weft_comm_destroy(made);
    /* Arrays are as far apart as the first one says. */
    CU_ASSERT_EQUAL(weft_comm_mesh(comm, (const void *)short_axes, 2, &order, NULL), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(weft_comm_mesh(comm, axes, 2, &order, NULL), WEFT_EINVAL);
    CU_ASSERT_PTR_NOT_NULL(strstr(weft_thread_error(), "bytes of axis 1 differ"));
    close_comm();
}

static const struct wt_case cases[] = {
    {"an older struct has the defaults for what it lacks", older},
    {"a struct of this version is taken as it is", same},
    {"a newer struct is taken, unless it sets what is not known", newer},
    {"what is no size of a struct is refused", no_size},
    {"results are filled as far as they go", results},
    {"every struct of the API, by every length", all_structs},
    {"fields behind the given bytes have their defaults", defaults},
};
WT_UNIT_MAIN("struct_prefix", cases)

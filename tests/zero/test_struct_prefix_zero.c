/* SPDX-License-Identifier: BSD-3-Clause */
/* Structs of weft_zero.h and weft_zero_config.h that are shorter or longer than the library's: accepted, filled as far as they go,
 * or refused. */
#include <weft/weft_zero.h>
#include <weft/weft_zero_config.h>

#include "tests/harness/harness.h"
#include "tests/unit/struct_rows.h"

_Static_assert(ENDS_AT(weft_zero_config, offload_moment2_codec), "padding at the end");
_Static_assert(ENDS_AT(weft_zero_param, save_name), "padding at the end");
_Static_assert(ENDS_AT(weft_zero_hyper, min_coeff), "padding at the end");
_Static_assert(ENDS_AT(weft_zero_step_info, step), "padding at the end");
_Static_assert(ENDS_AT(weft_zero_stats, disk_code_ns), "padding at the end");
_Static_assert(ENDS_AT(weft_zero_save_options, client_bytes), "padding at the end");
_Static_assert(ENDS_AT(weft_zero_save_info, total_ns), "padding at the end");
_Static_assert(ENDS_AT(weft_zero_save_status, total_bytes), "padding at the end");
_Static_assert(ENDS_AT(weft_zero_load_info, client_bytes), "padding at the end");
_Static_assert(ENDS_AT(weft_zero_spill_config, threads), "padding at the end");
_Static_assert(ENDS_AT(weft_zero_spill_stats, direct), "padding at the end");
_Static_assert(ENDS_AT(weft_zero_ds_model, bf16), "padding at the end");
_Static_assert(ENDS_AT(weft_zero_ds_key, meaning), "padding at the end");

static weft_context *context;
static weft_comm *comm;
static weft_zero *engine; /* sealed, with one parameter and a saved version */
static weft_zero_spill *spill;
static char folder[512]; /* of versions */
static weft_zero_hyper hyper = WEFT_ZERO_HYPER_INIT;

static void add_param(weft_zero *zero)
{
    weft_zero_param param = WEFT_ZERO_PARAM_INIT;
    int index, unit;

    param.name = "w";
    CU_ASSERT_EQUAL_FATAL(weft_zero_param_add(zero, &param, &index), WEFT_SUCCESS);
    CU_ASSERT_EQUAL_FATAL(weft_zero_unit_add(zero, "all", &index, 1, &unit), WEFT_SUCCESS);
}

static void open_engine(void)
{
    static const char *const settings[] = {"TRANSPORTS=inproc", NULL};
    weft_context_config config = WEFT_CONTEXT_CONFIG_INIT;

    config.settings = settings;
    CU_ASSERT_EQUAL_FATAL(weft_context_create(&config, &context), WEFT_SUCCESS);
    CU_ASSERT_EQUAL_FATAL(weft_comm_create_env(context, NULL, &comm), WEFT_SUCCESS);
    CU_ASSERT_EQUAL_FATAL(weft_zero_create(comm, NULL, &engine), WEFT_SUCCESS);
    add_param(engine);
    CU_ASSERT_EQUAL_FATAL(weft_zero_seal(engine), WEFT_SUCCESS);
    snprintf(folder, sizeof folder, "%s", wt_temp_dir());
    CU_ASSERT_EQUAL_FATAL(weft_zero_save(engine, folder, "first", NULL), WEFT_SUCCESS);
    CU_ASSERT_EQUAL_FATAL(weft_zero_save_wait(engine, WEFT_TIMEOUT_NEVER, NULL), WEFT_SUCCESS);
}

static void close_engine(void)
{
    CU_ASSERT_EQUAL(weft_zero_destroy(engine), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(weft_comm_destroy(comm), WEFT_SUCCESS);
    CU_ASSERT_EQUAL(weft_context_destroy(context), WEFT_SUCCESS);
}

static weft_status use_config(void *given)
{
    weft_zero *made = NULL;
    weft_status st = weft_zero_create(comm, given, &made);

    CU_ASSERT((st == WEFT_SUCCESS) == (made != NULL));
    weft_zero_destroy(made);
    return st;
}

static weft_status use_param(void *given)
{
    weft_zero *zero = NULL;
    int index = -1;

    CU_ASSERT_EQUAL_FATAL(weft_zero_create(comm, NULL, &zero), WEFT_SUCCESS);
    weft_status st = weft_zero_param_add(zero, given, &index);

    CU_ASSERT_EQUAL(index, st == WEFT_SUCCESS ? 0 : -1);
    weft_zero_destroy(zero);
    return st;
}

static weft_status use_hyper(void *given)
{
    weft_zero_micro_batch_end(engine); /* refused after a step that was: it has ended already */
    return weft_zero_step(engine, given, 1, NULL);
}

static weft_status use_step_info(void *given)
{
    weft_zero_micro_batch_end(engine);
    return weft_zero_step(engine, &hyper, 1, given);
}

static weft_status use_stats(void *given)
{
    return weft_zero_get_stats(engine, given);
}

static weft_status use_save_options(void *given)
{
    static int number;
    char tag[16];

    snprintf(tag, sizeof tag, "v%d", number++);
    weft_status st = weft_zero_save(engine, folder, tag, given);

    CU_ASSERT_EQUAL(weft_zero_save_wait(engine, WEFT_TIMEOUT_NEVER, NULL), WEFT_SUCCESS);
    return st;
}

static weft_status use_save_info(void *given)
{
    return weft_zero_save_wait(engine, WEFT_TIMEOUT_NEVER, given);
}

static weft_status use_save_status(void *given)
{
    return weft_zero_save_progress(engine, given);
}

static weft_status use_load_info(void *given)
{
    weft_zero_drop_gradients(engine);
    return weft_zero_load(engine, folder, "first", 0, given);
}

static weft_status use_spill_config(void *given)
{
    weft_zero_spill *made = NULL;
    weft_status st = weft_zero_spill_create(given, &made);

    CU_ASSERT((st == WEFT_SUCCESS) == (made != NULL));
    weft_zero_spill_destroy(made);
    return st;
}

static weft_status use_spill_stats(void *given)
{
    return weft_zero_spill_get_stats(spill, given);
}

static weft_status use_ds_model(void *given)
{
    weft_zero_ds_config *config = NULL;
    weft_status st = weft_zero_ds_config_read("{\"train_batch_size\": 1}", "ds_config.json", 1, given, &config);

    weft_zero_ds_config_free(config);
    return st;
}

static const weft_zero_config config = WEFT_ZERO_CONFIG_INIT;
static const weft_zero_param param = {.bytes = sizeof(weft_zero_param), .name = "w", .dtype = WEFT_FLOAT32};
static const weft_zero_step_info step_info = WEFT_ZERO_STEP_INFO_INIT;
static const weft_zero_stats stats = WEFT_ZERO_STATS_INIT;
static const weft_zero_save_options save_options = WEFT_ZERO_SAVE_OPTIONS_INIT;
static const weft_zero_save_info save_info = WEFT_ZERO_SAVE_INFO_INIT;
static const weft_zero_save_status save_status = WEFT_ZERO_SAVE_STATUS_INIT;
static const weft_zero_load_info load_info = WEFT_ZERO_LOAD_INFO_INIT;
static weft_zero_spill_config spill_config = WEFT_ZERO_SPILL_CONFIG_INIT; /* its folder is set before it is used */
static const weft_zero_spill_stats spill_stats = WEFT_ZERO_SPILL_STATS_INIT;
static const weft_zero_ds_model ds_model = WEFT_ZERO_DS_MODEL_INIT;

static const struct wt_struct_row rows[] = {
    {"weft_zero_config", &config, sizeof config, 8, 0, use_config},
    {"weft_zero_param", &param, sizeof param, 16, 0, use_param},
    {"weft_zero_hyper", &hyper, sizeof hyper, 8, 0, use_hyper},
    {"weft_zero_step_info", &step_info, sizeof step_info, 8, 1, use_step_info},
    {"weft_zero_stats", &stats, sizeof stats, 8, 1, use_stats},
    {"weft_zero_save_options", &save_options, sizeof save_options, 8, 0, use_save_options},
    {"weft_zero_save_info", &save_info, sizeof save_info, 8, 1, use_save_info},
    {"weft_zero_save_status", &save_status, sizeof save_status, 8, 1, use_save_status},
    {"weft_zero_load_info", &load_info, sizeof load_info, 8, 1, use_load_info},
    {"weft_zero_spill_config", &spill_config, sizeof spill_config, 16, 0, use_spill_config},
    {"weft_zero_spill_stats", &spill_stats, sizeof spill_stats, 8, 1, use_spill_stats},
    {"weft_zero_ds_model", &ds_model, sizeof ds_model, 8, 0, use_ds_model},
};

static void all_structs(void)
{
    open_engine();
    spill_config.folder = folder;
    CU_ASSERT_EQUAL_FATAL(weft_zero_spill_create(&spill_config, &spill), WEFT_SUCCESS);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        wt_struct_every_length(&rows[i]);
    CU_ASSERT_EQUAL(weft_zero_spill_destroy(spill), WEFT_SUCCESS);
    close_engine();
}

/* What is behind `bytes` has its default, whatever stands there. */
static void defaults(void)
{
    weft_zero_config given = WEFT_ZERO_CONFIG_INIT;
    weft_zero *zero = NULL;

    open_engine();
    given.bytes = offsetof(weft_zero_config, divisor);
    given.clip = -1; /* out of its range */
    CU_ASSERT_EQUAL(weft_zero_create(comm, &given, &zero), WEFT_SUCCESS);
    weft_zero_destroy(zero);
    given.bytes = sizeof given;
    CU_ASSERT_EQUAL(weft_zero_create(comm, &given, &zero), WEFT_EINVAL);
    CU_ASSERT_PTR_NOT_NULL(strstr(weft_thread_error(), "clip is -1"));
    close_engine();
}

/* Hyper-parameters of several groups are as far apart as the first says. */
static void arrays(void)
{
    weft_zero_hyper hypers[2] = {WEFT_ZERO_HYPER_INIT, WEFT_ZERO_HYPER_INIT};
    struct {
        size_t bytes;
        double lr;
    } short_hypers[2] = {{16, 1e-3}, {16, 1e-3}};

    open_engine();
    weft_zero_micro_batch_end(engine);
    CU_ASSERT_EQUAL(weft_zero_step(engine, (const void *)short_hypers, 2, NULL), WEFT_SUCCESS);
    weft_zero_micro_batch_end(engine);
    hypers[1].bytes -= 8;
    CU_ASSERT_EQUAL(weft_zero_step(engine, hypers, 2, NULL), WEFT_EINVAL);
    CU_ASSERT_PTR_NOT_NULL(strstr(weft_thread_error(), "the bytes of group 1 differ"));
    close_engine();
}

static int visit(const weft_zero_ds_key *key, void *arg)
{
    (void)arg;
    return key->bytes != sizeof *key;
}

static void keys(void)
{
    CU_ASSERT_EQUAL(weft_zero_ds_keys(visit, NULL), WEFT_SUCCESS);
}

static const struct wt_case cases[] = {
    {"every struct of ZeRO, by every length", all_structs},
    {"fields behind the given bytes have their defaults", defaults},
    {"hyper-parameters of several groups", arrays},
    {"keys have the library's size", keys},
};
WT_UNIT_MAIN("struct_prefix_zero", cases)

/* SPDX-License-Identifier: BSD-3-Clause */
/* Settings: tables of rows, four origins. Precedence: API call, environment, file, default. */
#ifndef WI_BASE_SETTINGS_H
#define WI_BASE_SETTINGS_H

#include <weft/weft_plugin.h>

struct wi_settings; /* the registry of one context */

/* `file` NULL: none. `calls`: NULL or NULL-ended "NAME=value" (NAME with or without the WEFT_ prefix). A malformed
 * file (line number named) or call is WEFT_ECONFIG. */
weft_status wi_settings_create(const char *file, const char *const *calls, struct wi_settings **settings);
void wi_settings_destroy(struct wi_settings *settings);

/* Parse a module's rows into `values` (the struct the offsets refer to). A bad value is WEFT_ECONFIG naming the
 * setting, the value, its origin and what is allowed. Strings live as long as the registry. `module` is upper case
 * ("TCP"); "" gives names without a module part (WEFT_LOG). */
weft_status wi_settings_read(struct wi_settings *settings, const char *module, const struct weft_setting *table,
                             void *values);
/* A transport's: ranks that have not got it do not have its settings either. */
weft_status wi_settings_read_transport(struct wi_settings *settings, const char *module,
                                       const struct weft_setting *table, void *values);
/* A module of a library that is built on this one: read when that library has its context, perhaps long after the registry was
 * made. Names that begin as the module's and are no rows are logged as those below are. WEFT_EINVAL: the module is none for such
 * libraries, or a row is WEFT_SETTING_EQUAL, which communicators have compared by then. */
weft_status wi_settings_read_client(struct wi_settings *settings, const char *module, const struct weft_setting *table,
                                    void *values);
/* After all modules have read, but for those of wi_settings_read_client: every WEFT_* in file, calls or environment that no table
 * has. Each is logged at warn with the nearest known name. Returns how many. */
int wi_settings_check_unknown(struct wi_settings *settings);
/* Is `name` the setting `known` without its first word: WEFT_TIMEOUT, WEFT_COMM_TIMEOUT? They differ in more letters than what is
 * misspelt. */
int wi_setting_lacks_word(const char *name, const char *known);
/* Unknown names that resemble a setting about job keys: what the user meant to protect is not. The setting that `name` resembles,
 * or NULL; for a registry, after all modules have read: "WEFT_JOBKEY (environment) is not a setting; did you mean WEFT_JOB_KEY?"
 * into text and 1, or 0. */
const char *wi_settings_key_near(const char *name);
int wi_settings_key_misspelt(const struct wi_settings *settings, char *text, size_t capacity);
void wi_settings_visit(struct wi_settings *settings, weft_setting_fn fn, void *arg);
/* Of the settings with WEFT_SETTING_EQUAL that have been read: a hash of the values, 64 bits, which communicators compare, and the
 * names, "WEFT_ALGO, WEFT_MEASURE_RATES". `transport`: its module's; NULL: those that all ranks have. */
uint64_t wi_settings_hash(const struct wi_settings *settings, const char *transport);
void wi_settings_equal_names(const struct wi_settings *settings, const char *transport, char *text, size_t capacity);

/* Parsers, also used by tools. Return 0 or -1. */
int wi_parse_bytes(const char *text, size_t *bytes);
int wi_parse_time(const char *text, uint64_t *ns);
int wi_parse_int(const char *text, int64_t *value);
int wi_parse_bool(const char *text, int *value);

#endif

/* SPDX-License-Identifier: BSD-3-Clause */
/* weft_client.h: for libraries that are built on weft and want to be part of it to their users: errors in one place, settings from
 * one place. Programs do not need it. */
#ifndef WEFT_CLIENT_H
#define WEFT_CLIENT_H

#include <weft/weft.h>
#include <weft/weft_plugin.h> /* struct weft_setting */

#ifdef __cplusplus
extern "C" {
#endif

/* Set what weft_thread_error() says in the calling thread.
 *
 * @param status  below 0
 * @param text    one line; copied, what is too long is cut
 * Threads: any thread, for itself.
 * Blocks: no.
 * @return status
 *         WEFT_EINVAL  status is no failure, or text is NULL; the thread's text says which */
WEFT_API weft_status weft_thread_error_set(weft_status status, const char *text);

/* Tell in which context a communicator was made.
 *
 * @param comm     the communicator
 * @param context  receives it
 * Ownership: whoever made the context.
 * Threads: any thread.
 * Blocks: no.
 * @return WEFT_SUCCESS
 *         WEFT_EINVAL  not a communicator, or context is NULL */
WEFT_API weft_status weft_comm_context(const weft_comm *comm, weft_context **context);

/* Make a label known to a communicator before a call of this rank has it, so that an error can say what another rank's call was
 * for.
 *
 * Calls make theirs known by themselves. A communicator knows about a thousand.
 * @param comm   the communicator
 * @param label  as in weft_call_options; copied, 63 bytes of it
 * Threads: any thread.
 * Blocks: no.
 * @return WEFT_SUCCESS
 *         WEFT_EINVAL  not a communicator, or label is NULL or empty */
WEFT_API weft_status weft_comm_label(weft_comm *comm, const char *label);

/* Read the settings of a library that is built on weft: from the context's calls, the environment, the context's file, or the
 * defaults, in that order, as weft's own, and shown with them by weft_context_settings from then on.
 *
 * Names WEFT_<module>_* that are no row are logged as unknown, with the nearest that is. libweft leaves them to the library before,
 * for the modules that it knows of: "ZERO".
 * @param context  the context
 * @param module   upper case, "ZERO"
 * @param rows     ended by a row whose name is NULL; copied. No row may be WEFT_SETTING_EQUAL: communicators have compared those
 * @param values   the struct whose fields the rows' offsets are; nothing is stored if a row is refused
 * Ownership: strings in values are the context's, valid until it is destroyed.
 * Threads: any thread.
 * Blocks: no.
 * @return WEFT_SUCCESS
 *         WEFT_EINVAL   context is not a context, a pointer is NULL, module is none for libraries, or a row is WEFT_SETTING_EQUAL
 *         WEFT_ECONFIG  a value is not what its row allows; the text names setting, value, origin and what is allowed
 *         WEFT_ENOMEM   there is no memory for it */
WEFT_API weft_status weft_context_read_settings(weft_context *context, const char *module, const struct weft_setting *rows,
                                                void *values);

#ifdef __cplusplus
}
#endif
#endif

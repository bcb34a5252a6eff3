/* SPDX-License-Identifier: BSD-3-Clause */
/* Transports and plugins that a process does without, and why. */
#ifndef WI_NET_TRANSPORTS_REFUSED_H
#define WI_NET_TRANSPORTS_REFUSED_H

#include "net/transports.h"

#define WI_NOT_NAMED "WEFT_TRANSPORTS does not name it"

/* At the end of the list; all is copied. path NULL: built in. name: the plugin's; NULL: not known. */
weft_status wi_refused_keep(struct wi_refused_plugin **list, const char *path, const char *name, weft_status status,
                            const char *why);
void wi_refused_free(struct wi_refused_plugin *list);
/* `word` has `len` characters. */
int wi_plugin_is_named(const char *name, const char *word, size_t len);
/* The failure that says why no transport has that name. `built_in`: the names of those that are, for people. */
weft_status wi_transport_not_found(const struct wi_transports *t, const char *built_in, const char *word, size_t len);

#endif

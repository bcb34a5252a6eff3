/* SPDX-License-Identifier: BSD-3-Clause */
/* Codecs that are plugins, for tools that make no communicator. */
#ifndef TOOL_PLUGINS_H
#define TOOL_PLUGINS_H

#include <weft/weft.h>

/* As a program has them: a context loads them, from WEFT_PLUGIN_PATH, and they stay. Other settings, with which this context does
 * nothing, must not stop the tool when they are wrong, nor keep cores busy. */
static inline weft_status tool_load_plugins(void)
{
    static const char *const settings[] = {"TRANSPORTS=inproc", "COMPRESS=none", "WORKERS=0", "PLANS=",
                                           "TUNING_FILE=",      "TOPO_FILE=",    NULL};
    weft_context_config config = WEFT_CONTEXT_CONFIG_INIT;
    weft_context *context;
    weft_status status;

    config.flags = WEFT_CONTEXT_NO_PROGRESS_THREAD;
    config.settings = settings;
    status = weft_context_create(&config, &context);
    if (status >= 0)
        weft_context_destroy(context);
    return status;
}

#endif

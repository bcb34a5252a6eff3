/* A shared object that is no plugin.
 * SPDX-License-Identifier: BSD-3-Clause */
#include <weft/weft_plugin.h>

WEFT_API extern const int not_weft_plugin;
const int not_weft_plugin = 1;

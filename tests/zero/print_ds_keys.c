/* SPDX-License-Identifier: BSD-3-Clause */
/* Print the table of ds_config's keys, a line each, fields apart by tabs: what doc/guide/zero-config.md is made from. */
#include <stdio.h>
#include <weft/weft_zero_config.h>

static int print(const weft_zero_ds_key *key, void *arg)
{
    (void)arg;
    printf("%s\t%s\t%s\t%s\t%s\t%s\n", key->path, key->type, key->range, key->preset, key->effect, key->meaning);
    return 0;
}

int main(void)
{
    return weft_zero_ds_keys(print, NULL) != WEFT_SUCCESS;
}

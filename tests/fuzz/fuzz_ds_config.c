/* SPDX-License-Identifier: BSD-3-Clause */
/* Any bytes as a ds_config: refused with a text that names the file, or accepted, and then its normalised text is JSON, is read
 * again, and is the same again. The first byte says how many ranks there are, and whether "auto" is known. */
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <weft/weft_zero_config.h>

#include "base/status.h"
#include "tests/fuzz/require.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static weft_zero_ds_model known(void)
{
    weft_zero_ds_model m = WEFT_ZERO_DS_MODEL_INIT;

    m.hidden_size = 64;
    m.train_batch_size = m.micro_batch_size = m.accumulation_steps = m.total_steps = 1;
    m.warmup_steps = 0;
    m.lr = m.beta1 = m.beta2 = m.eps = m.weight_decay = m.clip = .5;
    m.fp16 = 0;
    m.bf16 = 1;
    return m;
}

static void check_accepted(weft_zero_ds_config *c, int nranks)
{
    const weft_zero_config *e = weft_zero_ds_config_engine(c);
    weft_zero_ds_config *again = NULL;
    json_t *root = json_loads(weft_zero_ds_config_text(c), JSON_REJECT_DUPLICATES, NULL);

    require(json_is_object(root));
    json_decref(root);
    require(e->bytes == sizeof(*e) && e->stage >= 0 && e->stage <= 3 && e->micro_batches >= 1 && e->clip >= 0);
    require(e->divisor >= 0 && e->loss_scale >= 0 && e->loss_scale_window >= 1 && e->loss_scale_hysteresis >= 1);
    for (int i = 0; weft_zero_ds_config_warning(c, i); i++)
        require(!strncmp(weft_zero_ds_config_warning(c, i), "fuzz", 4) &&
                !strchr(weft_zero_ds_config_warning(c, i), '\n'));
    require(weft_zero_ds_config_read(weft_zero_ds_config_text(c), "fuzz", nranks, NULL, &again) == WEFT_SUCCESS);
    require(!strcmp(weft_zero_ds_config_text(c), weft_zero_ds_config_text(again)));
    require(!memcmp(weft_zero_ds_config_hyper(c), weft_zero_ds_config_hyper(again), sizeof(weft_zero_hyper)));
    weft_zero_ds_config_free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    weft_zero_ds_model model = known();
    weft_zero_ds_config *c = NULL;
    int nranks = bytes ? 1 + (data[0] & 7) : 1;
    char *text = malloc(bytes + 1);

    if (!text)
        return 0;
    memcpy(text, data, bytes);
    text[bytes] = '\0';
    if (weft_zero_ds_config_read(bytes ? text + 1 : text, "fuzz", nranks, bytes && data[0] & 8 ? &model : NULL, &c) ==
        WEFT_SUCCESS) {
        check_accepted(c, nranks);
        weft_zero_ds_config_free(c);
    } else {
        require(!c && !strncmp(wi_fail_text(), "fuzz:", 5) && !strchr(wi_fail_text(), '\n'));
    }
    free(text);
    return 0;
}

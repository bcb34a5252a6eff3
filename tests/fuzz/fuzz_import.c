/* SPDX-License-Identifier: BSD-3-Clause */
/* Any bytes as a file with an algorithm: refused with a reason, or proved; and what is proved can be printed, parses again and is
 * proved again. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/status.h"
#include "import/import.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

static void require(int condition, const char *what)
{
    if (condition)
        return;
    fprintf(stderr, "fuzz_import: %s: %s\n", what, wi_fail_text());
    abort();
}

static void again(const struct wi_import *import)
{
    struct wi_import *second = NULL;
    char *text = NULL;
    size_t bytes = 0;
    FILE *f = open_memstream(&text, &bytes);

    require(f != NULL, "memory");
    for (int r = 0; r < import->nranks; r++)
        require(wi_sched_print(import->scheds[r], f) == WEFT_SUCCESS, "print");
    fclose(f);
    if (bytes < WI_IMPORT_MAX_BYTES / 8) {
        require(wi_import_text("again", text, bytes, &second) == WEFT_SUCCESS, "its own text");
        require(second->nranks == import->nranks && second->coll == import->coll, "another program");
        wi_import_free(second);
    }
    free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    struct wi_import *import = NULL;

    wi_fail_clear();
    if (wi_import_text("input", (const char *)data, bytes, &import) == WEFT_SUCCESS) {
        again(import);
        if (import->in_place_variant)
            again(import->in_place_variant);
    } else
        require(!import && wi_fail_text()[0], "a refusal without a reason");
    wi_import_free(import);
    return 0;
}

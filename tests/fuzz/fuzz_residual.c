/* SPDX-License-Identifier: BSD-3-Clause */
/* Saved states of error feedback. The first byte says how the rest becomes one: bit 0 set: its checksum is made right; bit 1: it is
 * loaded twice; bits 4 to 7: the factor. A state is refused with a reason and changes nothing, or it is added, once for each load,
 * and what is saved then can be read. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "base/status.h"
#include "comm/residual.h"
#include "tests/fuzz/require.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

#define LONG ((size_t)1 << 20)
#define NO_MEMORY ((size_t)1 << 40)

/* What there is before: a few elements of each plane, which no state may make infinite. */
static void begin(const struct wi_saved *saved, struct wi_residual *r)
{
    *r = (struct wi_residual){.tensor = 1, .elems = saved->elems, .form = saved->form};
    for (int i = 0; i < WI_PLANES; i++)
        if (saved->elems > 3) {
            require(wi_plane_reserve(&r->plane[i], 1, 3) == WEFT_SUCCESS);
            r->plane[i].of[0] = 3e38f;
        }
}

static void check(const struct wi_residual *r)
{
    size_t bytes = wi_saved_bytes(r);
    unsigned char *again = malloc(bytes);
    struct wi_saved s;

    require(again != NULL);
    for (int i = 0; i < WI_PLANES; i++)
        for (size_t e = 0; e < r->plane[i].to - r->plane[i].from; e++)
            require(isfinite(r->plane[i].of[e]));
    wi_saved_write(r, 0, 1, again);
    require(wi_saved_read(again, bytes, &s) == WEFT_SUCCESS);
    require(s.elems == r->elems && s.form == r->form && s.avg == r->avg && s.steps == r->steps);
    free(again);
}

static void load(const struct wi_saved *saved, unsigned how)
{
    double factor[WI_PLANES];
    struct wi_residual r;

    for (int i = 0; i < WI_PLANES; i++)
        factor[i] = ((double)(how >> 4) - 7) / (1 + i);
    begin(saved, &r);
    for (unsigned n = 0; n <= (how >> 1 & 1); n++) {
        if (wi_saved_add(saved, factor, &r) < 0)
            require(weft_thread_error()[0]);
        check(&r);
    }
    wi_planes_free(&r);
}

/* Planes that reach far take memory from their first element on: seconds, or more than there is. They go the same way. */
static int is_quick(const struct wi_saved *saved)
{
    for (int i = 0; i < WI_PLANES; i++) {
        size_t end = saved->plane[i].to;
        if (end > saved->plane[i].from && end > LONG && end < NO_MEMORY)
            return 0;
    }
    return 1;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    unsigned char *state;
    struct wi_saved saved;
    size_t n = bytes ? bytes - 1 : 0;

    if (!bytes)
        return 0;
    state = malloc(n + 1);
    require(state != NULL);
    memcpy(state, data + 1, n);
    if (data[0] & 1 && n >= 8)
        wi_put64(state + n - 8, wi_hash64(state, n - 8, 0));
    if (wi_saved_read(state, n, &saved) >= 0) {
        if (is_quick(&saved))
            load(&saved, data[0]);
    } else {
        require(weft_thread_error()[0]);
    }
    free(state);
    return 0;
}

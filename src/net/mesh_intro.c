/* SPDX-License-Identifier: BSD-3-Clause */
/* Introductions: what this rank says, and what the others may say. */
#include "net/mesh_intro.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

#include "base/hash.h"
#include "base/settings.h"
#include "base/status.h"
#include "base/text.h"

#define INTRO_MAGIC 0x77656674u /* "weft" */
#define INTRO_VERSION 8u

int wi_intro_transport(const struct wi_intro *in, const char *name)
{
    for (uint32_t i = 0; i < in->ntransports; i++)
        if (strncmp(in->transports[i].name, name, sizeof in->transports[i].name) == 0)
            return (int)i;
    return -1;
}

static void my_cpus(uint64_t *mask)
{
    cpu_set_t *set = CPU_ALLOC(WI_INTRO_MAX_CPUS);
    size_t bytes = CPU_ALLOC_SIZE(WI_INTRO_MAX_CPUS);

    if (!set)
        return;
    CPU_ZERO_S(bytes, set);
    if (sched_getaffinity(0, bytes, set) == 0)
        for (int i = 0; i < WI_INTRO_MAX_CPUS; i++)
            if (CPU_ISSET_S(i, bytes, set))
                mask[i / 64] |= 1ull << i % 64;
    CPU_FREE(set);
}

weft_status wi_intro_fill(struct wi_intro *in, const struct wi_mesh_config *config, const struct wi_transports *t,
                          unsigned char *addresses)
{
    size_t used;

    memset(in, 0, sizeof *in);
    in->magic = INTRO_MAGIC;
    in->version = INTRO_VERSION;
    in->settings_hash = config->settings_hash;
    in->library_hash = wi_hash64(weft_version(), strlen(weft_version()), 0);
    if (wi_random(in->comm_id, sizeof in->comm_id))
        return wi_fail_errno(5, "random bytes for the communicator's id");
    in->node = *config->node;
    my_cpus(in->cpus);
    if (config->rates)
        wi_rates_encode(config->rates, in->rates);
    if (t->side)
        in->side_bytes = (uint8_t)wi_side_address(t->side, in->side);
    in->ntransports = (uint32_t)t->count;
    for (int i = 0; i < t->count; i++) {
        const struct wi_transport *tp = &t->list[i];
        used = 0;
        WI_TRY(tp->ops.address(tp->endpoint, addresses + (size_t)i * WEFT_ADDRESS_MAX, WEFT_ADDRESS_MAX, &used));
        snprintf(in->transports[i].name, sizeof in->transports[i].name, "%s", tp->plugin->name);
        in->transports[i].address_bytes = (uint32_t)used;
        in->transports[i].caps = tp->plugin->caps;
        in->transports[i].settings_hash = tp->settings_hash;
    }
    return WEFT_SUCCESS;
}

static weft_status settings_differ(const struct wi_intro *in, int r, int rank, const struct wi_settings *settings)
{
    char names[512];

    wi_settings_equal_names(settings, NULL, names, sizeof names);
    return wi_fail(
        WEFT_EMISMATCH,
        "rank %d on host %s has other WEFT_* settings than rank %d, or other files in WEFT_PLANS (equal on all "
        "ranks must be: %s, and what WEFT_PLANS, WEFT_TOPO_FILE and WEFT_TUNING_FILE hold; compare weft-info -c)",
        r, in->node.name, rank, names);
}

/* Of transports that both ranks have. */
static weft_status check_transports(const struct wi_intro *in, int r, int rank, const struct wi_settings *settings,
                                    const struct wi_transports *t)
{
    char names[512];

    for (int i = 0; i < t->count; i++) {
        int theirs = wi_intro_transport(in, t->list[i].plugin->name);
        if (theirs < 0 || in->transports[theirs].settings_hash == t->list[i].settings_hash)
            continue;
        wi_settings_equal_names(settings, t->list[i].module, names, sizeof names);
        return wi_fail(
            WEFT_EMISMATCH,
            "rank %d on host %s has other settings of transport %s than rank %d (equal on all ranks that have "
            "it must be: %s; compare weft-info -c)",
            r, in->node.name, t->list[i].plugin->name, rank, names);
    }
    return WEFT_SUCCESS;
}

/* Names are printed and logged. */
static void sanitize_names(struct wi_intro *in)
{
    wi_text_sanitize(in->node.name, sizeof in->node.name);
    for (uint32_t i = 0; i < in->ntransports; i++)
        wi_text_sanitize(in->transports[i].name, sizeof in->transports[i].name);
}

weft_status wi_intro_check(struct wi_intro *in, int r, const struct wi_intro *mine, int rank,
                           const struct wi_mesh_config *config, const struct wi_transports *t)
{
    if (in->magic != INTRO_MAGIC || in->version != INTRO_VERSION || in->ntransports > WI_MAX_TRANSPORTS)
        return wi_fail(WEFT_EPROTO, "rank %d does not speak this version of weft's start-up", r);
    if (!wi_side_address_valid(in->side, in->side_bytes))
        return wi_fail(WEFT_EPROTO, "rank %d sent what is no address of a side channel", r);
    for (uint32_t i = 0; i < in->ntransports; i++)
        if (in->transports[i].address_bytes > WEFT_ADDRESS_MAX ||
            memchr(in->transports[i].name, 0, sizeof in->transports[i].name) == NULL)
            return wi_fail(WEFT_EPROTO, "rank %d sent a malformed introduction", r);
    if (memchr(in->node.name, 0, sizeof in->node.name) == NULL)
        return wi_fail(WEFT_EPROTO, "rank %d sent a malformed host name", r);
    sanitize_names(in);
    if (in->library_hash != mine->library_hash)
        return wi_fail(WEFT_EMISMATCH, "rank %d on host %s runs another version of libweft than rank %d", r,
                       in->node.name, rank);
    if (in->settings_hash != mine->settings_hash)
        return settings_differ(in, r, rank, config->settings);
    return check_transports(in, r, rank, config->settings, t);
}

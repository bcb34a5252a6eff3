/* SPDX-License-Identifier: BSD-3-Clause */
/* Which of a plugin's devices are used: those that are named, or those that are as fast as the fastest. */
#include "ncclnet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRANSFER_MIN ((size_t)1 << 20) /* the library's longest transfer is shorter */

/* NULL: it can be used. */
static const char *unusable(const struct nn_device *d)
{
    if (!(d->pointers & NN_POINTER_HOST))
        return "moves no memory of the host";
    if (d->offload != NN_DEVICE_HOST)
        return "needs a GPU's help to receive";
    if (d->max_recvs < 1)
        return "says that it receives nothing (maxRecvs below 1)";
    if (d->max_bytes < TRANSFER_MIN)
        return "moves less than 1 MiB at a time (maxP2pBytes)";
    return NULL;
}

static void name_device(const struct nn_device *d, char *text, size_t capacity)
{
    snprintf(text, capacity, "%d (%s)", d->index, *d->name ? d->name : "no name");
}

/* Is it in the list, by its name or its number? */
static int is_named(const struct nn_device *d, const char *list)
{
    char number[16];

    snprintf(number, sizeof number, "%d", d->index);
    for (const char *p = list; *p;) {
        size_t len = strcspn(p, ",");
        if ((strlen(number) == len && memcmp(p, number, len) == 0) ||
            (*d->name && strlen(d->name) == len && memcmp(p, d->name, len) == 0))
            return 1;
        p += len + (p[len] == ',');
    }
    return 0;
}

/* Every word of the list names a device that there is. */
static weft_status check_list(struct nn_endpoint *e, const char *list)
{
    char there[256] = "", one[NN_NAME_BYTES + 24];

    for (int i = 0; i < e->ndevices; i++) {
        size_t used = strlen(there);
        name_device(&e->devices[i], one, sizeof one);
        snprintf(there + used, sizeof there - used, "%s%s", i ? ", " : "", one);
    }
    for (const char *p = list; *p;) {
        char word[NN_NAME_BYTES + 1];
        size_t len = strcspn(p, ",");
        int found = 0;
        snprintf(word, sizeof word, "%.*s", (int)(len < NN_NAME_BYTES ? len : NN_NAME_BYTES), p);
        for (int i = 0; i < e->ndevices; i++)
            found |= is_named(&e->devices[i], word);
        if (!found)
            return nn_explain(e, WEFT_ECONFIG, "WEFT_NCCLNET_DEVICES names \"%s\"; plugin %s has %s", word,
                              nn_net_name(e->lib), there);
        p += len + (p[len] == ',');
    }
    return WEFT_SUCCESS;
}

static weft_status read_all(struct nn_endpoint *e)
{
    int count = 0, result = e->lib->devices(&count);

    if (result != NN_SUCCESS || count < 1)
        return nn_explain(e, WEFT_EPLUGIN, "%s (%s, version %d) offers no device: %s, %d devices", e->lib->path,
                          nn_net_name(e->lib), e->lib->version, nn_result_name(result), count);
    if (count > NN_DEVICES_MAX)
        count = NN_DEVICES_MAX;
    for (int i = 0; i < count; i++) {
        result = nn_properties(e->lib, i, &e->devices[i]);
        if (result != NN_SUCCESS)
            return nn_explain(e, WEFT_EPLUGIN, "%s (%s): the properties of device %d: %s", e->lib->path,
                              nn_net_name(e->lib), i, nn_result_name(result));
    }
    e->ndevices = count;
    return WEFT_SUCCESS;
}

/* The reasons of all, for the message; the fastest of those that can be used in *mbps. */
static void judge(struct nn_endpoint *e, const char *list, int *mbps, char *why, size_t capacity)
{
    char one[NN_NAME_BYTES + 24];

    *mbps = -1;
    *why = '\0';
    for (int i = 0; i < e->ndevices; i++) {
        const struct nn_device *d = &e->devices[i];
        const char *reason = unusable(d);
        size_t used = strlen(why);
        if (*list && !is_named(d, list))
            continue;
        if (!reason && d->mbps > *mbps)
            *mbps = d->mbps > 0 ? d->mbps : 0;
        name_device(d, one, sizeof one);
        if (reason)
            snprintf(why + used, capacity - used, "%s device %s %s", used ? ";" : "", one, reason);
    }
}

weft_status nn_devices_choose(struct nn_endpoint *e)
{
    const char *list = e->settings->devices ? e->settings->devices : "";
    int mbps, kept = 0;
    char why[300];

    weft_status st = read_all(e);
    if (st >= 0)
        st = check_list(e, list);
    if (st < 0)
        return st;
    judge(e, list, &mbps, why, sizeof why);
    if (mbps < 0)
        return nn_explain(e, WEFT_EPLUGIN, "%s (%s) has no device that weft can use:%s", e->lib->path,
                          nn_net_name(e->lib), why);
    for (int i = 0; i < e->ndevices; i++) {
        const struct nn_device *d = &e->devices[i];
        if (!unusable(d) && (*list ? is_named(d, list) : (d->mbps > 0 ? d->mbps : 0) == mbps))
            e->devices[kept++] = *d;
    }
    e->ndevices = kept;
    for (int i = 0; i < kept; i++)
        e->host->log(e->host->impl, WEFT_LOG_INFO, "ncclnet.device", "%s %s (version %d): device %d %s, %d Mb/s",
                     e->lib->path, nn_net_name(e->lib), e->lib->version, e->devices[i].index, e->devices[i].name,
                     e->devices[i].mbps);
    return WEFT_SUCCESS;
}

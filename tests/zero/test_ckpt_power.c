/* SPDX-License-Identifier: BSD-3-Clause */
/* Checkpoints on a file system that loses its power at any of its calls, and with it what was not synced. A save that has succeeded
 * is there afterwards; of one that has not, the version before or the new one. */
#include "ckpt_model.h"

#include <dirent.h>
#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../unit/unit.h"

#ifndef SEEDS
#define SEEDS 4
#endif

#ifdef HAVE_FUSE3
#include "faultfs.h"

static struct faultfs_control *control;
static char disk[700];

static const struct wi_ckpt_options chain = {.keep = 2, .incremental = 1, .replace = 1};

static int mounted(void)
{
    static int tried;

    if (!tried++) {
        snprintf(disk, sizeof(disk), "%s/disk", wt_temp_dir());
        mkdir(disk, 0700);
        control = faultfs_mount(disk);
        atexit(faultfs_unmount); /* before the temporary folder is removed */
    }
    if (!control)
        wt_skip("FUSE cannot mount here: %s", strerror(errno));
    return control != NULL;
}

static void arm(long off_at, long fail_at)
{
    atomic_store(&control->calls, 0);
    atomic_store(&control->fail_at, fail_at);
    atomic_store(&control->off_at, off_at);
}

static const char *new_folder(void)
{
    static char path[800];
    static int n;

    arm(0, 0);
    snprintf(path, sizeof(path), "%s/run%d", disk, n++);
    return path;
}

static int newest(const char *folder, int before, long at, weft_status saved)
{
    int got = cm_load(folder, NULL, 0, NULL, 0, 1, (uint64_t)at);

    if (got != before + 1 && (got != before || saved >= 0))
        wt_fail(__FILE__, __LINE__, "at call %ld (%s) version %d is loaded after %d: %s", at, weft_status_name(saved),
                got, before, got < 0 ? weft_thread_error() : "");
    return got;
}

static void save_next(const char *folder, int version)
{
    WT_CHECK_OK(cm_save_alone(folder, version, chain, 1, NULL));
    WT_CHECK_INT(cm_load(folder, NULL, 0, NULL, 0, 1, 3), version);
}

static void power_loss(uint64_t seed)
{
    const char *folder = new_folder();
    int version = 1, same = 0;
    long at = 1, made;

    save_next(folder, version);
    for (;; at++) {
        weft_status st;
        int got;

        arm(at, 0);
        st = cm_save_alone(folder, version + 1, chain, 1, NULL);
        made = atomic_load(&control->calls);
        atomic_store(&control->seed, seed ? seed * 1000 + (uint64_t)at : 0);
        atomic_store(&control->reboot, 1);
        got = newest(folder, version, at, st);
        if (got < 0)
            break;
        same += got == version;
        version = got;
        if (made < at)
            break;
        if (at % 4 == 0)
            save_next(folder, ++version);
    }
    printf("# seed %d: power lost at %ld calls, %d times the version before is the newest\n", (int)seed, at - 1, same);
    CU_ASSERT(at > 25 && same > 10 && same < at);
}

static void nothing_survives(void)
{
    if (mounted())
        power_loss(0);
}

static void some_survives(void)
{
    for (uint64_t seed = 1; mounted() && seed <= SEEDS; seed++)
        power_loss(seed);
}

/* The call that fails may be any, a sync of data or of a folder, too; then the power is lost as well. */
static void failing_calls(void)
{
    const char *folder;
    int version = 1, failed = 0;
    long at = 1, made;

    if (!mounted())
        return;
    folder = new_folder();
    save_next(folder, version);
    for (;; at++) {
        weft_status st;

        arm(0, at);
        st = cm_save_alone(folder, version + 1, chain, 1, NULL);
        made = atomic_load(&control->calls);
        failed += st < 0;
        if (st < 0)
            if (!strstr(weft_thread_error(), strerror(EIO)))
                wt_fail(__FILE__, __LINE__, "at call %ld: %s", at, weft_thread_error());
        atomic_store(&control->seed, 0);
        atomic_store(&control->reboot, 1);
        arm(0, 0);
        version = newest(folder, version, at, st);
        if (version < 0 || made < at)
            break;
    }
    CU_ASSERT(failed > 15);
}

static void no_space(void)
{
    const char *folder;
    int version = 1;

    if (!mounted())
        return;
    folder = new_folder();
    save_next(folder, version);
    for (long long space = 0; space < 100000; space += 5000) {
        weft_status st;

        atomic_store(&control->space, space);
        st = cm_save_alone(folder, version + 1, chain, 1, NULL);
        atomic_store(&control->space, 1ll << 40);
        if (st < 0) {
            WT_CHECK_STATUS(st, WEFT_ENOSPC);
            WT_CHECK_INT(cm_load(folder, NULL, 0, NULL, 0, 1, 3), version);
        } else {
            version++;
        }
    }
    CU_ASSERT(version > 1);
    CU_ASSERT(version < 16);
}
#else
static void nothing_survives(void)
{
    wt_skip("built without libfuse3");
}
#define some_survives nothing_survives
#define failing_calls nothing_survives
#define no_space nothing_survives
#endif

static const struct wt_case cases[] = {
    {"power lost, and all that was not synced", nothing_survives},
    {"power lost, and some of what was not synced", some_survives},
    {"a call fails, then power is lost", failing_calls},
    {"no space", no_space},
};
WT_UNIT_MAIN("ckpt_power", cases)

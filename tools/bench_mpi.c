/* SPDX-License-Identifier: BSD-3-Clause */
/* weft-bench: find, at run time, the MPI that started this process. Handles of Open MPI and MPICH differ, so there is a
 * module for each, compiled with its mpi.h; the MPI library itself is loaded globally because it loads plugins that
 * expect its symbols. */
#include "weft_bench.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifndef BENCH_MODULE_DIR
#define BENCH_MODULE_DIR "/usr/local/lib/weft"
#endif

struct bench_mpi {
    const struct bench_mpi_ops *ops;
    int rank, nranks;
};

static char reason[1024];

/* Beside the program, in libtool's .libs, then where it is installed. */
static void *load_module(const char *name)
{
    char self[PATH_MAX - 64], path[PATH_MAX + 64];
    static const char *const beside[] = {"", ".libs/", "../.libs/", "../"};
    ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);
    const char *dir = getenv("WEFT_BENCH_MODULE_DIR");
    void *module = NULL;

    if (dir) {
        snprintf(path, sizeof(path), "%s/%s", dir, name);
        return dlopen(path, RTLD_NOW | RTLD_LOCAL);
    }
    self[n > 0 ? n : 0] = 0;
    char *slash = strrchr(self, '/');
    if (slash)
        slash[1] = 0;
    for (size_t i = 0; i < sizeof(beside) / sizeof(beside[0]) && !module; i++) {
        snprintf(path, sizeof(path), "%s%s%s", self, beside[i], name);
        module = access(path, R_OK) == 0 ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    }
    if (module)
        return module;
    snprintf(path, sizeof(path), "%s/%s", BENCH_MODULE_DIR, name);
    return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

static const struct bench_mpi_ops *load(const char *library, const char *module_name)
{
    if (!dlopen(library, RTLD_NOW | RTLD_GLOBAL)) {
        snprintf(reason, sizeof(reason), "%s cannot be loaded: %s", library, dlerror());
        return NULL;
    }
    void *module = load_module(module_name);
    if (!module) {
        const char *error = dlerror();
        snprintf(reason, sizeof(reason),
                 "%s cannot be loaded (was the MPI's mpi.h there when weft was configured?): %s", module_name,
                 error ? error : "not found");
        return NULL;
    }
    const struct bench_mpi_ops *ops = dlsym(module, "bench_mpi_module");
    if (!ops || ops->abi != BENCH_MPI_ABI) {
        snprintf(reason, sizeof(reason), "%s belongs to another version of weft-bench", module_name);
        return NULL;
    }
    return ops;
}

struct bench_mpi *bench_mpi_open(const char **why)
{
    struct bench_mpi *mpi = calloc(1, sizeof(*mpi));

    *why = reason;
    snprintf(reason, sizeof(reason), "out of memory");
    if (!mpi)
        return NULL;
    if (getenv("OMPI_COMM_WORLD_SIZE"))
        mpi->ops = load("libmpi.so.40", "bench_mpi_openmpi.so");
    else if (getenv("PMI_SIZE") || getenv("PMI_FD"))
        mpi->ops = load("libmpich.so.12", "bench_mpi_mpich.so");
    else
        snprintf(reason, sizeof(reason), "start weft-bench with the mpirun of Open MPI or MPICH");
    if (mpi->ops && mpi->ops->init(&mpi->rank, &mpi->nranks) == 0)
        return mpi;
    if (mpi->ops)
        snprintf(reason, sizeof(reason), "MPI_Init failed");
    free(mpi);
    return NULL;
}

const struct bench_mpi_ops *bench_mpi_ops(const struct bench_mpi *mpi)
{
    return mpi->ops;
}

void bench_mpi_rank(const struct bench_mpi *mpi, int *rank, int *nranks)
{
    *rank = mpi->rank;
    *nranks = mpi->nranks;
}

void bench_mpi_close(struct bench_mpi *mpi)
{
    if (!mpi)
        return;
    mpi->ops->finalize();
    free(mpi);
}

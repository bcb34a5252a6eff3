/* weft_zero_config.h: the configuration files of DeepSpeed (ds_config.json), read as what they mean for weft_zero.h.
 * SPDX-License-Identifier: BSD-3-Clause
 *
 *     weft_zero_ds_config_read(text, "ds_config.json", nranks, NULL, &config);
 *     for (int i = 0; weft_zero_ds_config_warning(config, i); i++)
 *         puts(weft_zero_ds_config_warning(config, i));
 *     weft_zero_create(comm, weft_zero_ds_config_engine(config), &zero);
 *     ...
 *     weft_zero_step(zero, weft_zero_ds_config_hyper(config), 1, NULL);
 *
 * A file whose optimizer is Muon is of two kinds of parameters: matrices of the hidden layers, in group 0, and the rest, in group
 * 1, to which the program gives param.optimizer WEFT_ZERO_ADAMW. weft_zero_step gets a copy of both sets of hyper-parameters then:
 *
 *     weft_zero_hyper hypers[2] = {*weft_zero_ds_config_hyper(config), *weft_zero_ds_config_hyper_of_rest(config)};
 *
 * The text is JSON with comments (// and # to the end of the line, and between slash-star and star-slash) and commas behind the
 * last element. 5e8 is an integer where one is meant. Every key of DeepSpeed 0.19 is known: it works, or has no effect and is
 * warned about, or is refused with the reason; others are refused, with the nearest name (doc/guide/zero-config.md,
 * weft_zero_ds_keys). Defaults are DeepSpeed's: without gradient_clipping, for one, gradients are clipped to 1. Only overlap_comm
 * is on in all stages.
 *
 * Conventions are those of weft.h: statuses, units, ownership. weft_thread_error() has the text of a failure.
 *   Threads  any thread may make any call; one configuration is read by several at a time, and freed by one. */
#ifndef WEFT_ZERO_CONFIG_H
#define WEFT_ZERO_CONFIG_H

#include <weft/weft_zero.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct weft_zero_ds_config weft_zero_ds_config;

/* What the program knows and the file leaves to it: the values of "auto", as Hugging Face's Trainer fills them in. */
typedef struct weft_zero_ds_model {
    size_t bytes;               /* sizeof, by WEFT_ZERO_DS_MODEL_INIT */
    int64_t hidden_size;        /* elements of the widest hidden layer; 0: unknown */
    int64_t train_batch_size;   /* samples of a step, of all ranks together; 0: unknown */
    int64_t micro_batch_size;   /* samples of a micro-batch on a rank; 0: unknown */
    int64_t accumulation_steps; /* micro-batches of a step; 0: unknown */
    int64_t warmup_steps;       /* of the learning rate; -1: unknown */
    int64_t total_steps;        /* of the whole training; 0: unknown */
    double lr;                  /* this and the next: below 0, unknown */
    double beta1, beta2, eps, weight_decay, clip;
    int fp16, bf16;             /* 1, 0; -1: unknown */
} weft_zero_ds_model;
#define WEFT_ZERO_DS_MODEL_INIT { sizeof(weft_zero_ds_model), 0, 0, 0, 0, -1, 0, -1, -1, -1, -1, -1, -1, -1, -1 }

/* Read a configuration.
 *
 * @param text    the file's contents, in UTF-8, at most 1 MiB
 * @param name    what errors and warnings call it: a file's name; copied
 * @param nranks  data-parallel ranks: train_batch_size is micro-batch size x accumulation steps x ranks
 * @param model   NULL, or what "auto" stands for; nothing of it is kept
 * @param config  receives it
 * Ownership: the caller ends it with weft_zero_ds_config_free.
 * Blocks: no.
 * @return WEFT_SUCCESS
 *         WEFT_EINVAL  an argument is NULL or out of its range; or the text is no JSON, has a key twice, or one that is unknown or
 *                      refused, a value of another type or range, values that contradict each other, or an "auto" that nothing is
 *                      known for. The text of the error has line, column and key
 *         WEFT_ENOMEM  out of memory */
WEFT_API weft_status weft_zero_ds_config_read(const char *text, const char *name, int nranks, const weft_zero_ds_model *model,
                                              weft_zero_ds_config **config);

/* Free a configuration, with all that was returned of it.
 *
 * @param config  NULL does nothing
 * Blocks: no. */
WEFT_API void weft_zero_ds_config_free(weft_zero_ds_config *config);

/* Tell what it means: for weft_zero_create, for weft_zero_step, and the type that parameters are kept in (fp16, bf16, or fp32).
 *
 * Without an optimizer in the file it is AdamW, which the caller may change in a copy. _hyper is of what optimizer.type updates,
 * _hyper_of_rest of parameters that the program gives AdamW beside "Muon" (param.optimizer); of other optimizers it is the same.
 * @param config  read
 * Ownership: the configuration's; strings of the engine's, too.
 * Blocks: no.
 * @return never NULL */
WEFT_API const weft_zero_config *weft_zero_ds_config_engine(const weft_zero_ds_config *config);
WEFT_API const weft_zero_hyper *weft_zero_ds_config_hyper(const weft_zero_ds_config *config);
WEFT_API const weft_zero_hyper *weft_zero_ds_config_hyper_of_rest(const weft_zero_ds_config *config);
WEFT_API weft_dtype weft_zero_ds_config_dtype(const weft_zero_ds_config *config);

/* Tell everything as plain JSON, for programs that do not want a second parser.
 *
 * Defaults are filled in, old spellings replaced, "auto" resolved, integers integers, learning rates and other real numbers real.
 * Sections that are neither given nor have a default (optimizer, scheduler, offload_param, offload_optimizer) are null. Keys
 * without effect are there if they were given. A last section, "weft", has what the other accessors return: dtype,
 * hyper-parameters, and the fields of struct weft_zero_config. Reading it again gives the same text.
 * @param config  read
 * Ownership: the configuration's.
 * Blocks: no.
 * @return the text, never NULL */
WEFT_API const char *weft_zero_ds_config_text(const weft_zero_ds_config *config);

/* Tell of keys that have no effect, and of old spellings, in the order of the file.
 *
 * @param config  read
 * @param i       from 0
 * Ownership: the configuration's.
 * Blocks: no.
 * @return "file:line:column: key: reason", or NULL: there are no more */
WEFT_API const char *weft_zero_ds_config_warning(const weft_zero_ds_config *config, int i);

/* A key that is known. */
typedef struct weft_zero_ds_key {
    size_t bytes;        /* sizeof the library's */
    const char *path;    /* "zero_optimization.stage"; a part "*" is any name */
    const char *type;    /* "integer" */
    const char *range;   /* "0 to 3", "bf16|fp16|fp32"; "" where there is none */
    const char *preset;  /* the default, as JSON; "" where there is none */
    const char *effect;  /* "works"; "as preset": other values have no effect; "no effect"; "refused" unless it is the preset;
                          * "renamed" */
    const char *meaning; /* what it does, why it does nothing or is refused; of old spellings, the path of today */
} weft_zero_ds_key;

/* Called for each key.
 *
 * @param key  valid until it returns
 * @param arg  what the visit was given
 * @return 0, or another number that ends the visit */
typedef int (*weft_zero_ds_key_fn)(const weft_zero_ds_key *key, void *arg);

/* Visit all keys that are known, section by section.
 *
 * @param visit  called for each
 * @param arg    handed to it
 * Blocks: no.
 * @return WEFT_SUCCESS
 *         WEFT_EINVAL  visit is NULL */
WEFT_API weft_status weft_zero_ds_keys(weft_zero_ds_key_fn visit, void *arg);

#ifdef __cplusplus
}
#endif
#endif /* WEFT_ZERO_CONFIG_H */

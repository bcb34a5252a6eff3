/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of keys, first part: those of training steps, precision, optimizers, schedulers, ZeRO, offload and checkpoints. */
#include <assert.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "zero/ds/ds_key_macros.h"

#define OF_ITSELF "Reading, computing and writing always overlap, in three buffers of queue_depth blocks."

#define ZERO "zero_optimization."
#define PARAMS "optimizer.params."
#define SCHEDULE "scheduler.params."
#define ADAMS "adam|adamw"
#define WARMUPS "WarmupLR|WarmupDecayLR|WarmupCosineLR"

const struct wi_ds_key wi_ds_keys_used[] = {
    I("train_batch_size", WORKS, 1, MANY, NULL, "Samples of a step: micro-batch size x accumulation steps x ranks.",
      .automatic = WI_DS_AUTO_TRAIN_BATCH),
    I("train_micro_batch_size_per_gpu", WORKS, 1, MANY, NULL, "Samples of a micro-batch on a rank.",
      .automatic = WI_DS_AUTO_MICRO_BATCH),
    I("gradient_accumulation_steps", WORKS, 1, 1e9, NULL, "Micro-batches of a step.",
      .automatic = WI_DS_AUTO_ACCUMULATION),
    B("managed_gradient_accumulation", REFUSED, "true",
      "Gradients are reduced in the backward pass of the last micro-batch, which must be known then: say it with "
      "gradient_accumulation_steps, no_sync() or set_gradient_accumulation_boundary()."),
    N("gradient_clipping", WORKS, 0, BIG, "1.0", "Largest norm of all gradients together; 0: not clipped.",
      .automatic = WI_DS_AUTO_CLIP),
    B("prescale_gradients", FIXED, "false",
      "The sum is divided once, after it is made, by ranks x micro-batches: the mean is the same."),
    N("gradient_predivide_factor", FIXED, 0, BIG, "1.0",
      "The sum is divided once, after it is made: the mean is the same.", .above = 1),
    W("gradient_allreduce_op", WORKS, "mean|sum", "\"mean\"",
      "Mean or sum over ranks; over micro-batches it is the mean in both cases."),
    W("communication_data_type", WORKS, "fp16|bf16|fp32", "null",
      "The 16-bit type sums of fp32 gradients travel in; gradients of 16 bits travel as they are.", .null = 1),
    W("seq_parallel_communication_data_type", IGNORED, "fp16|bf16|fp32", "\"fp32\"",
      "There is no sequence parallelism in it.", .null = 1),
    I("sequence_parallel_size", REFUSED, 1, MANY, "1",
      "Make the engine over the ranks that are data-parallel to each other instead."),
    I("steps_per_print", WORKS, 1, MANY, "null", "Steps from one line of progress to the next; null: none.", .null = 1),
    B("wall_clock_breakdown", WORKS, "false",
      "Times of the parts of a step are printed with the progress, which comes every 10 steps if steps_per_print does not say."),
    B("memory_breakdown", WORKS, "false", "Memory by class is printed with the progress, likewise."),
    B("dump_state", WORKS, "false", "The configuration is printed at the beginning."),
    B("dataloader_drop_last", WORKS, "false", "The last batch is dropped if it is not full."),
    B("zero_allow_untested_optimizer", IGNORED, "false",
      "weft.zero steps optimizers of its own, and functions as weft.zero.Callback; any other is refused by name."),
    B("zero_force_ds_cpu_optimizer", IGNORED, "true", "weft.zero has one form of each optimizer."),
    B("disable_allgather", IGNORED, "false", "Parameters are always gathered."),
    B("disable_python_gc", IGNORED, "false", "Call gc.disable() in the program."),
    I("vocabulary_size", IGNORED, 0, MANY, "null", "DeepSpeed only warns by it.", .null = 1),
    W("log_level", IGNORED, "debug|info|warning|error|critical", "null", "WEFT_LOG says it.", .null = 1),
    B("use_data_before_expert_parallelism", IGNORED, "false", "The program chooses which ranks an engine has."),
    OLD("allgather_size", ZERO "allgather_bucket_size"),
    OLD("bfloat16", "bf16"),
    OLD("gradient_accumulation_dtype", "data_types.grad_accum_dtype"),

    S("fp16", WORKS, "Parameters and gradients of IEEE 16-bit floats, with fp32 master weights."),
    B("fp16.enabled", WORKS, "false", "Use it.", .automatic = WI_DS_AUTO_FP16),
    B("fp16.auto_cast", WORKS, "false", "Inputs of the model that are floats are cast to it."),
    N("fp16.loss_scale", WORKS, 0, BIG, "0", "What losses are multiplied by; 0: dynamic, by the next five."),
    I("fp16.initial_scale_power", WORKS, -64, 120, "16", "It begins at two to the power of this."),
    I("fp16.loss_scale_window", WORKS, -1e9, 1e9, "1000", "Steps without overflow after which it doubles."),
    I("fp16.hysteresis", WORKS, 1, 1e9, "2", "Overflows that it takes to halve it."),
    B("fp16.consecutive_hysteresis", WORKS, "false",
      "Every step without overflow gives the hysteresis back, not only a doubling."),
    I("fp16.min_loss_scale", WORKS, -1e9, 1e9, "1", "It is never less."),
    B("fp16.fp16_master_weights_and_grads", REFUSED, "false", "Master weights are fp32."),

    S("bf16", WORKS, "Parameters and gradients of brain floats, with fp32 master weights."),
    B("bf16.enabled", WORKS, "false", "Use it.", .automatic = WI_DS_AUTO_BF16),
    B("bf16.check_grad_overflow", FIXED, "true", "A step whose gradients are not finite is always skipped."),
    B("bf16.immediate_grad_update", IGNORED, "false", "Gradients are always added as they come."),
    B("bf16.bf16_master_weights_and_grads", REFUSED, "false", "Master weights are fp32."),
    B("bf16.bf16_optimizer_states", REFUSED, "false", "The option state_dtype=\"bf16\" keeps moments so."),
    OLD("bf16.check_overflow", "bf16.check_grad_overflow"),

    S("data_types", WORKS, "Types beside those of fp16 and bf16."),
    W("data_types.grad_accum_dtype", WORKS, "fp16|bf16|fp32", "null",
      "fp32: gradients of 16-bit parameters are kept and summed in fp32; else in the parameters' type.", .null = 1),
    W("data_types.param_dtype", REFUSED, "fp16|bf16|fp32", "null", "Enable fp16 or bf16 instead.", .null = 1),
    W("data_types.buffer_dtype", REFUSED, "fp16|bf16|fp32", "null", "Buffers keep the type that the model has them in.",
      .null = 1),
    A("data_types.keep_in_fp32_modules", IGNORED, "\"auto\"", "Buffers keep the type that the model has them in."),

    S("optimizer", WORKS, "The optimizer; null: the program makes or names one.", .null = 1),
    T("optimizer.type", WORKS, NULL,
      "Adam, AdamW, SGD, Lion, Adagrad, Lamb or Muon, in any case. Adam is AdamW unless adam_w_mode is false. Muon has "
      "hidden matrices, AdamW the rest."),
    B("optimizer.legacy_fusion", IGNORED, "false", "weft.zero has one form of each optimizer."),
    S("optimizer.params", WORKS, "Its hyper-parameters."),
    N(PARAMS "lr", WORKS, 0, BIG, NULL, "Learning rate. 1e-3; Adagrad, 1e-2; Muon, 0.02, and 3e-4 of the rest.",
      .automatic = WI_DS_AUTO_LR),
    ROW(PARAMS "betas", WI_DS_BETAS, WORKS, NULL, "Two from 0 to below 1. 0.9 and 0.999; beside Muon 0.95.",
        .only = ADAMS "|lion|lamb|muon", .automatic = WI_DS_AUTO_BETAS),
    N(PARAMS "eps", WORKS, 0, BIG, NULL, "1e-8; Adagrad and beside Muon, 1e-10.", .only = ADAMS "|adagrad|lamb|muon",
      .automatic = WI_DS_AUTO_EPS),
    N(PARAMS "weight_decay", WORKS, 0, BIG, NULL, "0; AdamW with torch_adam, 0.01, as PyTorch's.",
      .automatic = WI_DS_AUTO_DECAY),
    B(PARAMS "adam_w_mode", WORKS, "true",
      "Of Adam: the decay is apart from the gradient. AdamW's always is, also beside Muon.", .only = ADAMS "|muon"),
    B(PARAMS "torch_adam", WORKS, "false", "Of its effects there is one here: AdamW's decay is 0.01 if none is given.",
      .only = ADAMS),
    B(PARAMS "bias_correction", REFUSED, "true",
      "Moments are always corrected for the first steps; Lamb's before norms are taken, as in the paper.",
      .only = ADAMS "|lamb"),
    B(PARAMS "amsgrad", REFUSED, "false", "There is no AMSGrad.", .only = ADAMS "|adagrad|lamb"),
    N(PARAMS "max_coeff", WORKS, 0, BIG, "10.0", "Of Lamb: the largest ratio of a weight's norm and its update's.",
      .only = "lamb"),
    N(PARAMS "min_coeff", WORKS, 0, BIG, "0.01", "Of Lamb: the smallest ratio.", .only = "lamb"),
    B(PARAMS "eps_inside_sqrt", REFUSED, "false", "eps is added to the root.", .only = "lamb"),
    B(PARAMS "fp32_optimizer_states", FIXED, "true", "Moments are fp32, unless the option state_dtype says otherwise.",
      .only = ADAMS "|lion|adagrad"),
    N(PARAMS "momentum", WORKS, 0, BIG, NULL, "Of SGD, 0; of Muon, 0.95.", .only = "sgd|muon"),
    N(PARAMS "muon_lr", WORKS, 0, BIG, NULL, "Of Muon's matrices; lr.", .only = "muon"),
    N(PARAMS "adam_lr", WORKS, 0, BIG, NULL, "Of the rest beside Muon; lr.", .only = "muon"),
    W(PARAMS "ns_method", IGNORED, "standard|gram", "\"gram\"",
      "Newton-Schulz iterations are in fp32, and the same with both.", .only = "muon"),
    B(PARAMS "per_head_muon", REFUSED, "false", "Matrices are made orthogonal as a whole.", .only = "muon"),
    N(PARAMS "dampening", WORKS, -BIG, BIG, "0", "Of SGD's momentum.", .only = "sgd"),
    B(PARAMS "nesterov", WORKS, "false", "Of SGD: needs momentum, and no dampening.", .only = "sgd"),
    B(PARAMS "maximize", WORKS, "false", "Steps go up the gradient.", .only = ADAMS "|sgd|adagrad"),
    N(PARAMS "lr_decay", WORKS, 0, BIG, "0", "Of Adagrad.", .only = "adagrad"),
    N(PARAMS "initial_accumulator_value", REFUSED, 0, BIG, "0", "Sums of squares begin at 0.", .only = "adagrad"),
    B(PARAMS "set_grad_none", IGNORED, "true", "The engine keeps gradients itself.", .only = ADAMS "|lion"),
    B(PARAMS "foreach", IGNORED, "null", "weft.zero has one form of each optimizer.", .only = ADAMS "|sgd|adagrad",
      .null = 1),
    B(PARAMS "fused", IGNORED, "null", "weft.zero has one form of each optimizer.", .only = ADAMS "|sgd|adagrad",
      .null = 1),
    B(PARAMS "capturable", IGNORED, "false", "weft.zero has one form of each optimizer.", .only = ADAMS),
    B(PARAMS "differentiable", REFUSED, "false", "Steps cannot be differentiated.", .only = ADAMS "|sgd|adagrad"),
    N(PARAMS "max_grad_norm", REFUSED, 0, BIG, "0", "Use gradient_clipping at the top instead."),

    S("scheduler", WORKS, "How the learning rate changes; null: the program does it.", .null = 1),
    T("scheduler.type", WORKS, NULL, "WarmupLR, WarmupDecayLR, WarmupCosineLR, OneCycle or LRRangeTest, in any case."),
    S("scheduler.params", WORKS, "Its parameters."),
    I(SCHEDULE "last_batch_iteration", WORKS, -1, MANY, "-1", "The step that it begins behind."),
    ROW(SCHEDULE "warmup_min_lr", WI_DS_NUMBERS, WORKS, "0.0", "Learning rate at first.",
        .only = "WarmupLR|WarmupDecayLR", .automatic = WI_DS_AUTO_ZERO),
    ROW(SCHEDULE "warmup_max_lr", WI_DS_NUMBERS, WORKS, NULL,
        "Learning rate afterwards. WarmupLR, the optimizer's; WarmupDecayLR, 0.001.", .only = "WarmupLR|WarmupDecayLR",
        .automatic = WI_DS_AUTO_LR, .null = 1),
    I(SCHEDULE "warmup_num_steps", WORKS, 1, MANY, "1000", "Steps until then; at least 2 are taken.", .only = WARMUPS,
      .automatic = WI_DS_AUTO_WARMUP),
    W(SCHEDULE "warmup_type", WORKS, "log|linear", "\"log\"", "The form of the rise.", .only = WARMUPS),
    I(SCHEDULE "total_num_steps", WORKS, 1, MANY, NULL, "Steps of the whole training; has to be given.",
      .only = "WarmupDecayLR|WarmupCosineLR", .automatic = WI_DS_AUTO_TOTAL),
    N(SCHEDULE "warmup_min_ratio", WORKS, 0, BIG, "0.0", "Part of the optimizer's learning rate at first.",
      .only = "WarmupCosineLR"),
    N(SCHEDULE "cos_min_ratio", WORKS, 0, BIG, "0.0001", "Part of it at the end.", .only = "WarmupCosineLR"),
    ROW(SCHEDULE "cycle_min_lr", WI_DS_NUMBERS, WORKS, NULL, "Learning rate at the ends of the cycle; has to be given.",
        .only = "OneCycle"),
    ROW(SCHEDULE "cycle_max_lr", WI_DS_NUMBERS, WORKS, NULL, "Learning rate in its middle; has to be given.",
        .only = "OneCycle"),
    N(SCHEDULE "decay_lr_rate", WORKS, 0, BIG, "0.0", "Decay after the cycle.", .only = "OneCycle"),
    I(SCHEDULE "cycle_first_step_size", WORKS, 1, MANY, "2000", "Steps of the rise.", .only = "OneCycle"),
    I(SCHEDULE "cycle_second_step_size", WORKS, 0, MANY, "null", "Steps of the fall; null: as many.",
      .only = "OneCycle", .null = 1),
    I(SCHEDULE "cycle_first_stair_count", WORKS, 0, MANY, "0", "Stairs of the rise; 0: none.", .only = "OneCycle"),
    I(SCHEDULE "cycle_second_stair_count", WORKS, 0, MANY, "null", "Stairs of the fall; null: as many.",
      .only = "OneCycle", .null = 1),
    I(SCHEDULE "decay_step_size", WORKS, 0, MANY, "0", "Steps between decays after the cycle; 0: none.",
      .only = "OneCycle"),
    B(SCHEDULE "cycle_momentum", WORKS, "true", "Momentum, beta1, goes the other way.", .only = "OneCycle"),
    N(SCHEDULE "cycle_min_mom", WORKS, 0, 1, "0.8", "Momentum in the middle.", .only = "OneCycle"),
    N(SCHEDULE "cycle_max_mom", WORKS, 0, 1, "0.9", "Momentum at the ends.", .only = "OneCycle"),
    N(SCHEDULE "decay_mom_rate", WORKS, 0, BIG, "0.0", "Its decay after the cycle.", .only = "OneCycle"),
    ROW(SCHEDULE "lr_range_test_min_lr", WI_DS_NUMBERS, WORKS, "0.001", "Learning rate at first.",
        .only = "LRRangeTest"),
    I(SCHEDULE "lr_range_test_step_size", WORKS, 1, MANY, "2000", "Steps from one learning rate to the next.",
      .only = "LRRangeTest"),
    N(SCHEDULE "lr_range_test_step_rate", WORKS, 0, BIG, "1.0", "By how much it rises.", .only = "LRRangeTest"),
    B(SCHEDULE "lr_range_test_staircase", WORKS, "false", "It rises in stairs.", .only = "LRRangeTest"),

    S("zero_optimization", WORKS, "What is sharded, and how. Instead of the object true is stage 1, false stage 0."),
    I(ZERO "stage", WORKS, 0, 3, "0", "0: nothing, 1: optimizer states, 2: gradients, too, 3: parameters, too."),
    B(ZERO "overlap_comm", WORKS, "true", "Collectives run beside computation; if it is absent, in all stages.",
      .null = 1),
    I(ZERO "stage3_max_live_parameters", WORKS, 0, MANY, "1000000000",
      "Elements of parameters that are gathered at a time."),
    I(ZERO "stage3_max_reuse_distance", WORKS, 0, MANY, "1000000000",
      "A unit that is used again within so many elements stays gathered."),
    I(ZERO "stage3_prefetch_bucket_size", WORKS, 0, MANY, "50000000", "Elements that are gathered ahead.",
      .automatic = WI_DS_AUTO_HIDDEN_SQUARE_TENTH),
    I(ZERO "stage3_param_persistence_threshold", WORKS, 0, MANY, "100000",
      "Units (layers; DeepSpeed: parameters) of at most so many elements stay gathered.",
      .automatic = WI_DS_AUTO_HIDDEN_TEN),
    N(ZERO "stage3_model_persistence_threshold", IGNORED, 0, 1e19, "9223372036854775807",
      "stage3_param_persistence_threshold alone says what stays gathered."),
    B(ZERO "stage3_gather_16bit_weights_on_model_save", WORKS, "false", "save_16bit_model gathers the parameters."),
    I(ZERO "stage3_module_granularity_threshold", IGNORED, 0, MANY, "0", "The program says which modules are a unit."),
    B(ZERO "stage3_use_all_reduce_for_fetch_params", IGNORED, "false",
      "A unit is gathered in one collective without copies."),
    B(ZERO "stage3_allgather_sequential", IGNORED, "false", "A unit is gathered in one collective without copies."),
    OLD(ZERO "stage3_gather_fp16_weights_on_model_save", ZERO "stage3_gather_16bit_weights_on_model_save"),
    OLD(ZERO "gather_16bit_weights_on_model_save", ZERO "stage3_gather_16bit_weights_on_model_save"),
    OLD(ZERO "prefetch_bucket_size", ZERO "stage3_prefetch_bucket_size"),
    OLD(ZERO "param_persistence_threshold", ZERO "stage3_param_persistence_threshold"),
    OLD(ZERO "model_persistence_threshold", ZERO "stage3_model_persistence_threshold"),
    OLD(ZERO "max_live_parameters", ZERO "stage3_max_live_parameters"),
    OLD(ZERO "max_reuse_distance", ZERO "stage3_max_reuse_distance"),
    OLD(ZERO "module_granularity_threshold", ZERO "stage3_module_granularity_threshold"),
    OLD(ZERO "use_all_reduce_for_fetch_params", ZERO "stage3_use_all_reduce_for_fetch_params"),
    OLD(ZERO "allgather_sequential", ZERO "stage3_allgather_sequential"),
    OLD(ZERO "cpu_offload", ZERO "offload_optimizer.device"),
    OLD(ZERO "cpu_offload_param", ZERO "offload_param.device"),
    OLD(ZERO "cpu_offload_params", ZERO "offload_param.device"),
    B(ZERO "cpu_offload_use_pin_memory", IGNORED, "false",
      "An old spelling; pin_memory of offload_param and offload_optimizer has no effect either."),
    B(ZERO "zero_quantized_weights", WORKS, "false",
      "Parameters are gathered as int8 with a scale for each block of 256."),
    B(ZERO "zero_quantized_gradients", WORKS, "false",
      "Gradients are summed as int4 with a scale for each block of 128."),
    B(ZERO "zero_quantized_nontrainable_weights", REFUSED, "false", "Frozen parameters are kept in their own type."),
    I(ZERO "zero_hpz_partition_size", WORKS, 1, INT32_MAX, "1",
      "Ranks that share a second copy of what forward passes gather, for backward passes; of stage 3; 1: none."),
    B(ZERO "contiguous_gradients", FIXED, "true", "Gradients are always contiguous."),
    B(ZERO "reduce_scatter", FIXED, "true", "Gradients are always summed by a reduce-scatter."),
    B(ZERO "allgather_partitions", FIXED, "true", "Parameters are always gathered by an all-gather."),
    B(ZERO "use_multi_rank_bucket_allreduce", FIXED, "true", "One reduce-scatter serves all ranks."),
    I(ZERO "reduce_bucket_size", IGNORED, 1, MANY, "500000000", "A unit is reduced at a time.",
      .automatic = WI_DS_AUTO_HIDDEN_SQUARE),
    I(ZERO "allgather_bucket_size", IGNORED, 0, MANY, "500000000", "A unit is gathered at a time."),
    I(ZERO "sub_group_size", IGNORED, 0, MANY, "1000000000",
      "The optimizer goes through memory once, in pieces of its own."),
    B(ZERO "compute_grad_norm", FIXED, "true", "The norm comes with the check for overflow, at no cost."),
    B(ZERO "load_from_fp32_weights", FIXED, "true", "Master weights are loaded as they were saved."),
    B(ZERO "elastic_checkpoint", IGNORED, "false", "Checkpoints load at any number of ranks."),
    B(ZERO "ignore_unused_parameters", FIXED, "true", "Gradients that do not come are 0."),
    B(ZERO "legacy_stage1", IGNORED, "false", "There is one stage 1."),
    B(ZERO "round_robin_gradients", IGNORED, "false", "Every rank's share of each unit is of the same length."),
    B(ZERO "parameter_alignment", IGNORED, "false", "Parameters are aligned to 64 bytes."),
    B(ZERO "memory_efficient_linear", IGNORED, "true", "Linear modules are PyTorch's."),
    B(ZERO "pipeline_loading_checkpoint", IGNORED, "false", "Shards are read by each rank at the same time."),
    B(ZERO "override_module_apply", IGNORED, "true", "Module.apply is PyTorch's."),
    B(ZERO "log_trace_cache_warnings", IGNORED, "false", "The statistics count changes of order."),
    B(ZERO "enable_sanity_checks", IGNORED, "false", "Ranks that differ are always told by name."),
    B(ZERO "save_muon_momentum_buffer_in_memory", IGNORED, "false", "Moments of Muon are always in memory."),
    S(ZERO "leaf_module", IGNORED, "The program says which modules are a unit."),
    A(ZERO "leaf_module.classes", IGNORED, NULL, "The program says which modules are a unit."),
    A(ZERO "leaf_module.names", IGNORED, NULL, "The program says which modules are a unit."),
    A(ZERO "leaf_module.name_suffixes", IGNORED, NULL, "The program says which modules are a unit."),

    S(ZERO "offload_param", WORKS, "Where parameters are between uses; null: with the model.", .null = 1),
    W(ZERO "offload_param.device", WORKS, "none|cpu|nvme", "\"none\"",
      "cpu: in host memory, where ranks on CPUs have them anyway; nvme: in a file, with gradients and optimizer states."),
    T(ZERO "offload_param.nvme_path", WORKS, "null", "The folder of the file; of device nvme it has to be given.",
      .null = 1),
    I(ZERO "offload_param.buffer_count", IGNORED, 0, MANY, "5", "There are six buffers, of a shard of a unit each."),
    I(ZERO "offload_param.buffer_size", IGNORED, 0, MANY, "100000000",
      "There are six buffers, of a shard of a unit each."),
    I(ZERO "offload_param.max_in_cpu", IGNORED, 0, MANY, "1000000000",
      "stage3_param_persistence_threshold says which units stay in memory."),
    B(ZERO "offload_param.pin_memory", IGNORED, "true",
      "Nothing is copied to a device, so that no memory has to be pinned."),
    S(ZERO "offload_optimizer", WORKS, "Where optimizer states are; null: with the model.", .null = 1),
    W(ZERO "offload_optimizer.device", WORKS, "none|cpu|nvme", "\"none\"",
      "cpu: in host memory, where ranks on CPUs have them anyway; nvme: in a file."),
    T(ZERO "offload_optimizer.nvme_path", WORKS, "null", "The folder of the file; of device nvme it has to be given.",
      .null = 1),
    I(ZERO "offload_optimizer.buffer_count", IGNORED, 0, MANY, "4", OF_ITSELF),
    B(ZERO "offload_optimizer.pin_memory", IGNORED, "true",
      "Nothing is copied to a device, so that no memory has to be pinned."),
    B(ZERO "offload_optimizer.pipeline_read", IGNORED, "false", OF_ITSELF),
    B(ZERO "offload_optimizer.pipeline_write", IGNORED, "false", OF_ITSELF),
    B(ZERO "offload_optimizer.fast_init", IGNORED, "false", "The file is written once when it is made."),
    N(ZERO "offload_optimizer.ratio", WORKS, 0, 1, "1.0",
      "How much of the optimizer states is in the file of device nvme."),
    B(ZERO "offload_optimizer.super_offload", IGNORED, "false", "There is one way of offload to host memory."),
    N(ZERO "offload_optimizer.cpuadam_cores_perc", IGNORED, 0, 1, "0.8",
      "The optimizer has as many threads as the process may use cores."),

    S("activation_checkpointing", WORKS, "How activations that are computed again are kept."),
    B("activation_checkpointing.partition_activations", WORKS, "false",
      "Ranks that have the same ones keep a part each: weft.zero.configure_checkpointing, or mpu, tells which."),
    B("activation_checkpointing.cpu_checkpointing", WORKS, "false",
      "Those of devices are kept in host memory; the host's stay where they are."),
    I("activation_checkpointing.number_checkpoints", WORKS, 1, MANY, "null",
      "How many segments weft.zero.checkpoint_units makes of all blocks.", .null = 1),
    B("activation_checkpointing.profile", WORKS, "false", "torch.profiler has them as weft.zero.checkpoint."),
    B("activation_checkpointing.contiguous_memory_optimization", IGNORED, "false",
      "PyTorch's allocator reuses their memory."),
    B("activation_checkpointing.synchronize_checkpoint_boundary", IGNORED, "false",
      "Computation on CPUs is synchronous."),
    OLD("activation_checkpointing.partitioned_activations", "activation_checkpointing.partition_activations"),

    S("aio", WORKS, "How files are read and written.", .null = 1),
    I("aio.block_size", WORKS, 4096, 1 << 30, "1048576", "Bytes of a request, in multiples of 4096."),
    I("aio.queue_depth", WORKS, 1, 1024, "8", "Requests under way at a time."),
    I("aio.intra_op_parallelism", IGNORED, 1, MANY, "1", "Requests go through one ring of the kernel's."),
    B("aio.single_submit", IGNORED, "false", "Requests are submitted together."),
    B("aio.overlap_events", IGNORED, "true", "Requests always overlap."),
    B("aio.use_gds", REFUSED, "false", "There is no path from disks to GPUs."),

    S("checkpoint", WORKS, "How checkpoints are written and read."),
    W("checkpoint.tag_validation", WORKS, "ignore|warn|fail", "\"warn\"",
      "What is done when ranks name a checkpoint differently."),
    B("checkpoint.load_universal", WORKS, "false", "load_checkpoint reads DeepSpeed's universal format."),
    B("checkpoint.use_node_local_storage", IGNORED, "false",
      "Every rank writes its shard into the folder that it is given."),
    B("checkpoint.checkpoint_serialization", IGNORED, "true", "Shards have a format of their own."),
    S("checkpoint.parallel_write", IGNORED, "Shards are always written by all ranks."),
    B("checkpoint.parallel_write.pipeline_stage", IGNORED, "false", "Shards are always written by all ranks."),
    S("checkpoint.writer", IGNORED, "Shards are written in the background.", .null = 1),
    T("checkpoint.writer.type", IGNORED, NULL, "Shards are written in the background."),
    B("checkpoint.writer.decoupled", IGNORED, NULL, "Shards are written in the background."),
    I("checkpoint.writer.io_buffer_size", IGNORED, 0, MANY, NULL, "Shards are written in the background."),
    B("checkpoint.writer.io_buffer_double", IGNORED, NULL, "Shards are written in the background."),
    B("checkpoint.writer.show_statistics", IGNORED, NULL, "Shards are written in the background."),
    T("checkpoint.writer.data_parallel", IGNORED, NULL, "Shards are always written by all ranks.", .null = 1),
    I("checkpoint.writer.io_multiplier", IGNORED, 1, MANY, NULL, "Shards are written in the background."),

    A("weft", WORKS, NULL, "Written by weft_zero_ds_config_text, and not read."),
};
const size_t wi_ds_nkeys_used = sizeof(wi_ds_keys_used) / sizeof(*wi_ds_keys_used);

size_t wi_ds_nkeys(void)
{
    return wi_ds_nkeys_used + wi_ds_nkeys_other;
}

const struct wi_ds_key *wi_ds_key(size_t row)
{
    return row < wi_ds_nkeys_used ? &wi_ds_keys_used[row] : &wi_ds_keys_other[row - wi_ds_nkeys_used];
}

const char *wi_ds_name(const char *path)
{
    const char *dot = strrchr(path, '.');

    return dot ? dot + 1 : path;
}

/* Whether a row is of an object; its name may be any then. */
static int is_in(const struct wi_ds_key *key, const char *parent, size_t bytes)
{
    const char *name = wi_ds_name(key->path);

    return bytes ? name == key->path + bytes + 1 && !strncmp(key->path, parent, bytes) : name == key->path;
}

int wi_ds_find(const char *parent, const char *name)
{
    size_t bytes = strlen(parent);

    for (size_t i = 0; i < wi_ds_nkeys(); i++) {
        const char *own = wi_ds_name(wi_ds_key(i)->path);
        if (is_in(wi_ds_key(i), parent, bytes) && (!strcmp(own, name) || !strcmp(own, "*")))
            return (int)i;
    }
    return -1;
}

size_t wi_ds_row(const char *path)
{
    size_t i = 0;

    while (strcmp(wi_ds_key(i)->path, path)) {
        i++;
        assert(i < wi_ds_nkeys());
    }
    return i;
}

const struct wi_ds_key *wi_ds_nearest(const char *parent, const char *name)
{
    const struct wi_ds_key *nearest = NULL, *elsewhere = NULL;
    size_t best = (size_t)-1, bytes = strlen(parent);

    for (size_t i = 0; i < wi_ds_nkeys(); i++) {
        const struct wi_ds_key *key = wi_ds_key(i);
        if (!is_in(key, parent, bytes)) {
            if (!elsewhere && !strcmp(wi_ds_name(key->path), name))
                elsewhere = key;
            continue;
        }
        size_t distance = wi_text_distance(name, wi_ds_name(key->path));
        if (distance < best) {
            best = distance;
            nearest = key;
        }
    }
    return elsewhere && best > 2 ? elsewhere : nearest;
}

const char *wi_ds_word_in(const char *words, const char *word, size_t *bytes)
{
    for (const char *at = words;; at += *bytes + 1) {
        *bytes = strcspn(at, "|");
        if (strlen(word) == *bytes && !strncasecmp(at, word, *bytes))
            return at;
        if (!at[*bytes])
            return NULL;
    }
}

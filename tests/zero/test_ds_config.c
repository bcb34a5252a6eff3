/* SPDX-License-Identifier: BSD-3-Clause */
/* What a ds_config means: the files of guides, batch sizes, precision, optimizers, schedulers, ZeRO, "auto", old spellings. */
#include <jansson.h>
#include <math.h>

#include "base/status.h"
#include "tests/unit/unit.h"
#include "tests/zero/ds_common.h"

/* As published guides print them; the second after the batch size was made smaller would be the same. */
static const char stage2[] =
    "{\n"
    "  \"fp16\": { \"enabled\": true, // bf16 works too\n"
    "    \"loss_scale\": 0, \"loss_scale_window\": 1000, \"hysteresis\": 2, \"min_loss_scale\": 1 },\n"
    "  \"optimizer\": { \"type\": \"AdamW\", \"params\": { \"lr\": 1e-5, \"betas\": [0.9, 0.999], \"eps\": 1e-8, "
    "\"weight_decay\": 0.01 } },\n"
    "  \"scheduler\": { \"type\": \"WarmupLR\", // or WarmupCosineLR\n"
    "    \"params\": { \"warmup_min_lr\": 0, \"warmup_max_lr\": 1e-5, \"warmup_num_steps\": 100 } },\n"
    "  \"zero_optimization\": {\n"
    "    \"stage\": 2,\n"
    "    \"offload_optimizer\": { \"device\": \"cpu\", \"pin_memory\": true }, // optional\n"
    "    \"allgather_partitions\": true,\n"
    "    \"allgather_bucket_size\": 5e8,\n"
    "    \"reduce_scatter\": true,\n"
    "    \"reduce_bucket_size\": 5e8,\n"
    "    \"overlap_comm\": true,\n"
    "    \"contiguous_gradients\": true\n"
    "  },\n"
    "  \"gradient_accumulation_steps\": 8,\n"
    "  \"gradient_clipping\": 1.0,\n"
    "  \"train_batch_size\": 1024, // global\n"
    "  \"train_micro_batch_size_per_gpu\": 8\n"
    "}\n";
static const char stage3[] =
    "{\n"
    "  \"train_batch_size\": 4096,\n"
    "  \"train_micro_batch_size_per_gpu\": 8,\n"
    "  \"gradient_accumulation_steps\": 8,\n"
    "  \"zero_optimization\": {\n"
    "    \"stage\": 3,\n"
    "    \"offload_optimizer\": { \"device\": \"cpu\", \"pin_memory\": true },\n"
    "    \"offload_param\": { \"device\": \"cpu\", \"pin_memory\": true },\n"
    "    \"overlap_comm\": true,\n"
    "    \"contiguous_gradients\": true,\n"
    "    \"sub_group_size\": 1e9,\n"
    "    \"stage3_prefetch_bucket_size\": 3e8,\n"
    "    \"stage3_param_persistence_threshold\": 1e6,\n"
    "    \"stage3_max_live_parameters\": 3e9,\n"
    "    \"stage3_max_reuse_distance\": 3e9,\n"
    "    \"stage3_gather_fp16_weights_on_model_save\": true\n"
    "  },\n"
    "  \"fp16\": { \"enabled\": true, \"loss_scale\": 0, \"loss_scale_window\": 1000, \"initial_scale_power\": 16,\n"
    "    \"hysteresis\": 2, \"min_loss_scale\": 1 },\n"
    "  \"activation_checkpointing\": { \"partition_activations\": true, \"cpu_checkpointing\": true, \"profile\": true }\n"
    "}\n";

static void guide_stage2(void)
{
    weft_zero_ds_config *c = wt_ds_read(stage2, 16);
    const weft_zero_config *e = weft_zero_ds_config_engine(c);
    const weft_zero_hyper *h = weft_zero_ds_config_hyper(c);

    CU_ASSERT_EQUAL(e->bytes, sizeof(*e));
    CU_ASSERT_EQUAL(e->stage, 2);
    CU_ASSERT_EQUAL(e->optimizer, WEFT_ZERO_ADAMW);
    CU_ASSERT_EQUAL(e->micro_batches, 8);
    CU_ASSERT_EQUAL(e->divisor, 0);
    CU_ASSERT_EQUAL(e->clip, 1);
    CU_ASSERT_EQUAL(e->loss_scale, 0);
    CU_ASSERT_EQUAL(e->loss_scale_initial, 65536);
    CU_ASSERT_EQUAL(e->loss_scale_window, 1000);
    CU_ASSERT_EQUAL(e->loss_scale_hysteresis, 2);
    CU_ASSERT_EQUAL(e->loss_scale_refill, 0);
    CU_ASSERT_EQUAL(e->loss_scale_min, 1);
    CU_ASSERT_EQUAL(e->overlap, 1);
    CU_ASSERT_PTR_NULL(e->gather_codec);
    CU_ASSERT_PTR_NULL(e->reduce_codec);
    CU_ASSERT_EQUAL(weft_zero_ds_config_dtype(c), WEFT_FLOAT16);
    CU_ASSERT(h->lr == 1e-5 && h->beta1 == .9 && h->beta2 == .999 && h->eps == 1e-8 && h->weight_decay == .01);
    wt_ds_text_has(c, "scheduler.type", "\"WarmupLR\"");
    wt_ds_text_has(c, "scheduler.params.warmup_num_steps", "100");
    wt_ds_text_has(c, "scheduler.params.warmup_type", "\"log\"");
    wt_ds_text_has(c, "zero_optimization.offload_optimizer.device", "\"cpu\"");
    wt_ds_text_has(c, "zero_optimization.reduce_bucket_size", "500000000");
    wt_ds_text_has(c, "weft.dtype", "\"float16\"");
    CU_ASSERT_EQUAL(wt_ds_warnings(c), 3);
    CU_ASSERT(!strncmp(weft_zero_ds_config_warning(c, 0), "ds.json:9:45: ", 14)); /* in the order of the text */
    wt_ds_warned(c, "ds.json:13:5: zero_optimization.reduce_bucket_size has no effect");
    wt_ds_warned(c, "ds.json:11:5: zero_optimization.allgather_bucket_size has no effect");
    wt_ds_warned(c, "ds.json:9:45: zero_optimization.offload_optimizer.pin_memory has no effect");
    weft_zero_ds_config_free(c);
}

static void guide_stage3(void)
{
    weft_zero_ds_config *c = wt_ds_read(stage3, 64);
    const weft_zero_config *e = weft_zero_ds_config_engine(c);

    CU_ASSERT_EQUAL(e->stage, 3);
    CU_ASSERT_EQUAL(e->micro_batches, 8);
    CU_ASSERT_EQUAL(e->prefetch_elems, 300000000);
    CU_ASSERT_EQUAL(e->persistent_elems, 1000000);
    CU_ASSERT_EQUAL(e->live_elems, 3000000000);
    CU_ASSERT_EQUAL(e->reuse_elems, 3000000000);
    CU_ASSERT_EQUAL(e->loss_scale_initial, 65536);
    wt_ds_text_has(c, "optimizer", "null");
    wt_ds_text_has(c, "scheduler", "null");
    wt_ds_text_has(c, "zero_optimization.stage3_gather_16bit_weights_on_model_save", "true");
    wt_ds_text_has(c, "zero_optimization.stage3_gather_fp16_weights_on_model_save", NULL);
    wt_ds_text_has(c, "zero_optimization.offload_param.device", "\"cpu\"");
    wt_ds_text_has(c, "activation_checkpointing.partition_activations", "true");
    wt_ds_text_has(c, "activation_checkpointing.cpu_checkpointing", "true");
    wt_ds_text_has(c, "activation_checkpointing.profile", "true");
    wt_ds_warned(c, "ds.json:16:5: zero_optimization.stage3_gather_fp16_weights_on_model_save: an old spelling of "
                    "zero_optimization.stage3_gather_16bit_weights_on_model_save");
    wt_ds_warned(c, "zero_optimization.sub_group_size has no effect");
    CU_ASSERT_EQUAL(wt_ds_warnings(c), 4);
    weft_zero_ds_config_free(c);
    wt_ds_refused(stage3, 7,
                  "ds.json:2:3: train_batch_size is not equal to train_micro_batch_size_per_gpu x "
                  "gradient_accumulation_steps x ranks: 4096 is not 8 x 8 x 7");
}

static void batch_sizes(void)
{
    static const struct {
        const char *text;
        int nranks, train, micro, steps;
    } good[] = {
        {"{\"train_batch_size\": 24, \"train_micro_batch_size_per_gpu\": 2}", 4, 24, 2, 3},
        {"{\"train_batch_size\": 24, \"gradient_accumulation_steps\": 3}", 4, 24, 2, 3},
        {"{\"train_micro_batch_size_per_gpu\": 2, \"gradient_accumulation_steps\": 3}", 4, 24, 2, 3},
        {"{\"train_batch_size\": 24}", 4, 24, 6, 1},
        {"{\"train_micro_batch_size_per_gpu\": 5}", 4, 20, 5, 1},
        {"{\"train_batch_size\": \"auto\", \"train_micro_batch_size_per_gpu\": 2, \"gradient_accumulation_steps\": 3}",
         4, 24, 2, 3},
        {"{\"gradient_accumulation_steps\": \"auto\", \"train_batch_size\": 8}", 4, 8, 2, 1},
        {"{\"gradient_accumulation_steps\": \"auto\", \"train_batch_size\": \"auto\", \"train_micro_batch_size_per_gpu\": 2}",
         4, 8, 2, 1},
    };

    for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++) {
        weft_zero_ds_config *c = wt_ds_read(good[i].text, good[i].nranks);
        char number[32];
        CU_ASSERT_EQUAL(weft_zero_ds_config_engine(c)->micro_batches, good[i].steps);
        snprintf(number, sizeof(number), "%d", good[i].train);
        wt_ds_text_has(c, "train_batch_size", number);
        snprintf(number, sizeof(number), "%d", good[i].micro);
        wt_ds_text_has(c, "train_micro_batch_size_per_gpu", number);
        snprintf(number, sizeof(number), "%d", good[i].steps);
        wt_ds_text_has(c, "gradient_accumulation_steps", number);
        weft_zero_ds_config_free(c);
    }
    wt_ds_refused("{\"train_batch_size\": 25}", 4, "train_batch_size is 25, which is no multiple of ranks, 4");
    wt_ds_refused("{\"train_batch_size\": 7, \"train_micro_batch_size_per_gpu\": 4}", 2,
                  "train_batch_size is 7, which is no multiple of train_micro_batch_size_per_gpu x ranks, 8");
    wt_ds_refused("{\"train_batch_size\": 3}", 4, "train_batch_size is 3, which is no multiple of ranks, 4");
    wt_ds_refused("{}", 4, "ds.json: either train_batch_size or train_micro_batch_size_per_gpu has to be given");
    wt_ds_refused("{\"gradient_accumulation_steps\": 2}", 4, "either train_batch_size or");
    wt_ds_refused("{\"train_batch_size\": 0}", 4, "train_batch_size is 0, and has to be at least 1");
    wt_ds_refused("{\"gradient_accumulation_steps\": 1e9, \"train_micro_batch_size_per_gpu\": 9e15}", 1000,
                  "is not equal to");
    wt_ds_refused(
        "{\"gradient_accumulation_steps\": 2, \"train_batch_size\": \"auto\"}", 4,
        "train_batch_size is \"auto\": say a value, or fill in train_batch_size of weft_zero_ds_model, or say the other");
}

static void precision(void)
{
    weft_zero_ds_config *c = wt_ds_with("\"bf16\": {\"enabled\": true}");

    CU_ASSERT_EQUAL(weft_zero_ds_config_dtype(c), WEFT_BFLOAT16);
    CU_ASSERT_EQUAL(weft_zero_ds_config_engine(c)->loss_scale, 1);
    weft_zero_ds_config_free(c);
    c = wt_ds_with("\"fp16\": {\"enabled\": true, \"loss_scale\": 128, \"loss_scale_window\": 0}");
    CU_ASSERT_EQUAL(weft_zero_ds_config_dtype(c), WEFT_FLOAT16);
    CU_ASSERT_EQUAL(weft_zero_ds_config_engine(c)->loss_scale, 128);
    weft_zero_ds_config_free(c);
    c = wt_ds_with(
        "\"fp16\": {\"enabled\": true, \"initial_scale_power\": 8, \"loss_scale_window\": 5, \"hysteresis\": 3, "
        "\"consecutive_hysteresis\": true, \"min_loss_scale\": 2, \"auto_cast\": true}");
    const weft_zero_config *e = weft_zero_ds_config_engine(c);
    CU_ASSERT(e->loss_scale == 0 && e->loss_scale_initial == 256 && e->loss_scale_window == 5 &&
              e->loss_scale_hysteresis == 3 && e->loss_scale_refill == 1 && e->loss_scale_min == 2);
    wt_ds_text_has(c, "fp16.auto_cast", "true");
    weft_zero_ds_config_free(c);
    c = wt_ds_with("\"fp16\": {\"loss_scale_window\": 0}"); /* not in use */
    CU_ASSERT_EQUAL(weft_zero_ds_config_dtype(c), WEFT_FLOAT32);
    CU_ASSERT_EQUAL(weft_zero_ds_config_engine(c)->loss_scale, 1);
    weft_zero_ds_config_free(c);
    wt_ds_refused_with("\"fp16\": {\"enabled\": true, \"loss_scale_window\": 0}",
                       "fp16.loss_scale_window has to be above 0");
    wt_ds_refused_with("\"fp16\": {\"enabled\": true, \"min_loss_scale\": 0}", "fp16.min_loss_scale has to be above 0");
    wt_ds_refused_with("\"fp16\": {\"enabled\": true, \"loss_scale\": -1}", "fp16.loss_scale is -1, and has to be");
    wt_ds_refused_with("\"fp16\": {\"enabled\": true}, \"bf16\": {\"enabled\": true}",
                       "fp16 and bf16 cannot be enabled together");
    wt_ds_refused_with("\"bf16\": {\"bf16_optimizer_states\": true}",
                       "bf16.bf16_optimizer_states is refused, unless it is false: The option state_dtype");
    c = wt_ds_with("\"bf16\": {\"enabled\": true}, \"data_types\": {\"grad_accum_dtype\": \"fp16\"}");
    wt_ds_warned(c, "data_types.grad_accum_dtype has no effect: gradients are kept in the parameters' type, bf16");
    weft_zero_ds_config_free(c);
    c = wt_ds_with("\"bf16\": {\"enabled\": true}, \"data_types\": {\"grad_accum_dtype\": \"BF16\"}");
    CU_ASSERT_EQUAL(wt_ds_warnings(c), 0);
    weft_zero_ds_config_free(c);
}

static void travel(void)
{
    static const struct {
        const char *members, *gather, *reduce;
        int warnings;
    } cases[] = {
        {"\"communication_data_type\": \"bf16\"", NULL, "bf16", 0},
        {"\"communication_data_type\": \"fp32\"", NULL, NULL, 0},
        {"\"communication_data_type\": \"fp16\", \"fp16\": {\"enabled\": true}", NULL, NULL, 0},
        {"\"communication_data_type\": \"fp32\", \"fp16\": {\"enabled\": true}", NULL, NULL, 1},
        {"\"zero_optimization\": {\"zero_quantized_weights\": true}", "int8:block=256", NULL, 0},
        {"\"zero_optimization\": {\"zero_quantized_gradients\": true}", NULL, "int4:block=128", 0},
        {"\"communication_data_type\": \"bf16\", \"zero_optimization\": {\"zero_quantized_gradients\": true}", NULL,
         "int4:block=128", 1},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        weft_zero_ds_config *c = wt_ds_with("%s", cases[i].members);
        const weft_zero_config *e = weft_zero_ds_config_engine(c);
        CU_ASSERT(wt_ds_same(e->gather_codec, cases[i].gather) && wt_ds_same(e->reduce_codec, cases[i].reduce));
        CU_ASSERT_EQUAL(wt_ds_warnings(c), cases[i].warnings);
        weft_zero_ds_config_free(c);
    }
    weft_zero_ds_config *c = wt_ds_read("{\"train_batch_size\": 24, \"train_micro_batch_size_per_gpu\": 2, "
                                        "\"gradient_allreduce_op\": \"SUM\"}",
                                        4);
    CU_ASSERT_EQUAL(weft_zero_ds_config_engine(c)->divisor, 3);
    weft_zero_ds_config_free(c);
    c = wt_ds_with("\"prescale_gradients\": true, \"gradient_predivide_factor\": 4");
    CU_ASSERT_EQUAL(weft_zero_ds_config_engine(c)->divisor, 0);
    wt_ds_warned(c, "prescale_gradients has no effect");
    wt_ds_warned(c, "gradient_predivide_factor has no effect");
    weft_zero_ds_config_free(c);
    wt_ds_refused_with("\"gradient_predivide_factor\": 0", "gradient_predivide_factor is 0, and has to be above 0");
}

/* One set of hyper-parameters of matrices, and one of the rest. */
static void muon(void)
{
    weft_zero_ds_config *c = wt_ds_with("\"optimizer\": {\"type\": \"muon\"}");
    const weft_zero_hyper *h = weft_zero_ds_config_hyper(c), *rest = weft_zero_ds_config_hyper_of_rest(c);

    CU_ASSERT_EQUAL(weft_zero_ds_config_engine(c)->optimizer, WEFT_ZERO_MUON);
    CU_ASSERT(h->lr == .02 && h->momentum == .95 && h->nesterov == 1 && h->weight_decay == 0);
    CU_ASSERT(rest->lr == 3e-4 && rest->beta1 == .9 && rest->beta2 == .95 && rest->eps == 1e-10 &&
              rest->weight_decay == 0);
    weft_zero_ds_config_free(c);
    c = wt_ds_with(
        "\"optimizer\": {\"type\": \"Muon\", \"params\": {\"lr\": 0.5, \"weight_decay\": 0.25, \"betas\": [0.5, 0.75], "
        "\"momentum\": 0.875, \"ns_method\": \"standard\"}}");
    h = weft_zero_ds_config_hyper(c);
    rest = weft_zero_ds_config_hyper_of_rest(c);
    CU_ASSERT(h->lr == .5 && h->momentum == .875 && h->weight_decay == .25);
    CU_ASSERT(rest->lr == .5 && rest->beta1 == .5 && rest->beta2 == .75 && rest->weight_decay == .25);
    weft_zero_ds_config_free(c);
    c = wt_ds_with(
        "\"optimizer\": {\"type\": \"Muon\", \"params\": {\"lr\": 0.5, \"muon_lr\": 0.25, \"adam_lr\": 0.125}}");
    h = weft_zero_ds_config_hyper(c);
    rest = weft_zero_ds_config_hyper_of_rest(c);
    CU_ASSERT(h->lr == .25 && rest->lr == .125);
    wt_ds_text_has(c, "optimizer.params.adam_lr", "0.125");
    wt_ds_text_has(c, "optimizer.type", "\"Muon\"");
    weft_zero_ds_config_free(c);
    wt_ds_refused_with("\"optimizer\": {\"type\": \"Muon\", \"params\": {\"per_head_muon\": true}}",
                       "Matrices are made orthogonal as a whole");
    wt_ds_refused_with("\"optimizer\": {\"type\": \"Muon\", \"params\": {\"adam_w_mode\": false}}", "is AdamW's");
    wt_ds_refused_with("\"optimizer\": {\"type\": \"AdamW\", \"params\": {\"muon_lr\": 1}}",
                       "muon_lr is no parameter of AdamW");
}

static void optimizers(void)
{
    static const struct {
        const char *section;
        weft_zero_optimizer optimizer;
        double lr, beta2, eps, decay;
    } cases[] = {
        {"\"type\": \"adam\"", WEFT_ZERO_ADAMW, 1e-3, .999, 1e-8, 0},
        {"\"type\": \"Adam\", \"params\": {\"adam_w_mode\": false}", WEFT_ZERO_ADAM, 1e-3, .999, 1e-8, 0},
        {"\"type\": \"ADAMW\", \"params\": {\"adam_w_mode\": false, \"lr\": 0.5}", WEFT_ZERO_ADAMW, .5, .999, 1e-8, 0},
        {"\"type\": \"AdamW\", \"params\": {\"torch_adam\": true}", WEFT_ZERO_ADAMW, 1e-3, .999, 1e-8, .01},
        {"\"type\": \"Adam\", \"params\": {\"torch_adam\": true, \"adam_w_mode\": 0}", WEFT_ZERO_ADAM, 1e-3, .999, 1e-8,
         0},
        {"\"type\": \"SGD\", \"params\": {\"lr\": 1, \"weight_decay\": 2}", WEFT_ZERO_SGD, 1, .999, 1e-8, 2},
        {"\"type\": \"Lion\", \"params\": {\"betas\": [0, 0.99]}", WEFT_ZERO_LION, 1e-3, .99, 1e-8, 0},
        {"\"type\": \"lamb\", \"params\": {\"lr\": 0.25}", WEFT_ZERO_LAMB, .25, .999, 1e-8, 0},
        {"\"type\": \"Adagrad\"", WEFT_ZERO_ADAGRAD, 1e-2, .999, 1e-10, 0},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        weft_zero_ds_config *c = wt_ds_with("\"optimizer\": {%s}", cases[i].section);
        const weft_zero_hyper *h = weft_zero_ds_config_hyper(c);
        CU_ASSERT_EQUAL(weft_zero_ds_config_engine(c)->optimizer, cases[i].optimizer);
        CU_ASSERT(h->lr == cases[i].lr && h->beta2 == cases[i].beta2 && h->eps == cases[i].eps &&
                  h->weight_decay == cases[i].decay);
        weft_zero_ds_config_free(c);
    }
    weft_zero_ds_config *c =
        wt_ds_with("\"optimizer\": {\"type\": \"sgd\", \"params\": {\"momentum\": 0.9, \"nesterov\": true}}");
    CU_ASSERT(weft_zero_ds_config_hyper(c)->momentum == .9 && weft_zero_ds_config_hyper(c)->nesterov == 1);
    wt_ds_text_has(c, "optimizer.params.betas", NULL); /* SGD has none */
    wt_ds_text_has(c, "optimizer.type", "\"SGD\"");
    weft_zero_ds_config_free(c);
    wt_ds_refused_with("\"optimizer\": {\"type\": \"SGD\", \"params\": {\"nesterov\": true}}",
                       "nesterov needs a momentum");
    wt_ds_refused_with("\"optimizer\": {\"type\": \"SGD\", \"params\": {\"betas\": [0, 0]}}",
                       "optimizer.params.betas is no parameter of SGD");
    c = wt_ds_with("\"optimizer\": {\"type\": \"lamb\", \"params\": {\"max_coeff\": 1, \"betas\": [0.5, 0.9]}}");
    CU_ASSERT(weft_zero_ds_config_hyper(c)->max_coeff == 1 && weft_zero_ds_config_hyper(c)->min_coeff == .01 &&
              weft_zero_ds_config_hyper(c)->beta1 == .5);
    wt_ds_text_has(c, "optimizer.type", "\"Lamb\"");
    weft_zero_ds_config_free(c);
    wt_ds_refused_with("\"optimizer\": {\"type\": \"lamb\", \"params\": {\"max_coeff\": 1, \"min_coeff\": 2}}",
                       "min_coeff is 2, above max_coeff, which is 1");
    wt_ds_refused_with("\"optimizer\": {\"type\": \"adam\", \"params\": {\"max_coeff\": 1}}",
                       "optimizer.params.max_coeff is no parameter of Adam");
    muon();
    wt_ds_refused_with("\"optimizer\": {\"type\": \"OneBitLamb\"}", "take Lamb with zero_quantized_gradients");
    wt_ds_refused_with("\"optimizer\": {\"type\": \"RMSprop\"}",
                       "optimizer.type RMSprop is refused: weft.zero has no such optimizer");
    wt_ds_refused_with("\"optimizer\": {\"type\": \"AdamV\"}",
                       "optimizer.type \"AdamV\" is not known; the nearest is Adam");
    wt_ds_refused_with("\"optimizer\": {\"params\": {}}", "optimizer has no \"type\"");
    wt_ds_refused_with("\"optimizer\": {\"type\": \"Adam\", \"params\": {\"betas\": [0.9, 1]}}",
                       "not a list of two numbers from 0 to below 1");
    wt_ds_refused_with("\"optimizer\": {\"type\": \"Adam\", \"params\": {\"max_grad_norm\": 1}}",
                       "Use gradient_clipping at the top");
    wt_ds_refused_with("\"optimizer\": {\"type\": \"Adam\", \"params\": {\"amsgrad\": true}}", "There is no AMSGrad");
}

static void schedulers(void)
{
    weft_zero_ds_config *c =
        wt_ds_with("\"scheduler\": {\"type\": \"warmupcosinelr\", \"params\": {\"total_num_steps\": 1e3}}");

    wt_ds_text_has(c, "scheduler.type", "\"WarmupCosineLR\"");
    wt_ds_text_has(c, "scheduler.params.total_num_steps", "1000");
    wt_ds_text_has(c, "scheduler.params.warmup_min_ratio", "0.0");
    wt_ds_text_has(c, "scheduler.params.warmup_max_lr", NULL);
    weft_zero_ds_config_free(c);
    c = wt_ds_with(
        "\"scheduler\": {\"type\": \"WarmupDecayLR\", \"params\": {\"total_num_steps\": 10, \"warmup_type\": \"Linear\"}}");
    wt_ds_text_has(c, "scheduler.params.warmup_max_lr", "0.001");
    wt_ds_text_has(c, "scheduler.params.warmup_type", "\"linear\"");
    weft_zero_ds_config_free(c);
    c = wt_ds_with("\"scheduler\": {\"type\": \"WarmupLR\"}");
    wt_ds_text_has(c, "scheduler.params.warmup_max_lr", "null");
    weft_zero_ds_config_free(c);
    c = wt_ds_with(
        "\"scheduler\": {\"type\": \"OneCycle\", \"params\": {\"cycle_min_lr\": [0.1, 1], \"cycle_max_lr\": 1}}");
    wt_ds_text_has(c, "scheduler.params.cycle_second_step_size", "null");
    weft_zero_ds_config_free(c);
    c = wt_ds_with("\"scheduler\": {\"type\": \"LRRangeTest\", \"params\": {\"lr_range_test_step_rate\": 5}}");
    wt_ds_text_has(c, "scheduler.params.lr_range_test_step_size", "2000");
    weft_zero_ds_config_free(c);
    wt_ds_refused_with("\"scheduler\": {\"type\": \"WarmupDecayLR\"}",
                       "WarmupDecayLR needs scheduler.params.total_num_steps");
    wt_ds_refused_with("\"scheduler\": {\"type\": \"OneCycle\"}", "OneCycle needs scheduler.params.cycle_min_lr");
    wt_ds_refused_with("\"scheduler\": {\"type\": \"StepLR\"}",
                       "scheduler.type StepLR is refused: make PyTorch's schedulers");
    wt_ds_refused_with("\"scheduler\": {\"type\": \"WarmLR\"}", "the nearest is WarmupLR");
    wt_ds_refused_with("\"scheduler\": {\"type\": \"WarmupLR\", \"params\": {\"cycle_min_lr\": 1}}",
                       "is no parameter of WarmupLR");
    wt_ds_refused_with("\"scheduler\": {\"type\": \"WarmupLR\", \"params\": {\"warmup_num_steps\": 0}}",
                       "has to be at least 1");
    wt_ds_refused_with("\"scheduler\": {\"type\": \"WarmupLR\", \"params\": {\"warmup_max_lr\": [1, -1]}}",
                       "not a number that is not negative");
}

static void offload(void)
{
    wt_ds_refused_with("\"zero_optimization\": {\"stage\": 3, \"offload_param\": {\"device\": \"nvme\"}}",
                       "zero_optimization.offload_param.nvme_path has to be given for the device nvme");
    wt_ds_refused_with("\"zero_optimization\": {\"stage\": 1, \"offload_optimizer\": {\"device\": \"nvme\"}}",
                       "zero_optimization.offload_optimizer.nvme_path has to be given for the device nvme");
    wt_ds_refused_with("\"zero_optimization\": {\"stage\": 3, \"offload_param\": {\"device\": \"disk\"}}",
                       "not one of none|cpu|nvme");
    wt_ds_refused_with("\"aio\": {\"block_size\": 5000}, \"zero_optimization\": {\"stage\": 1, \"offload_optimizer\": "
                       "{\"device\": \"nvme\", \"nvme_path\": \"/d\"}}",
                       "aio.block_size is 5000, no multiple of 4096");
    wt_ds_refused_with("\"zero_optimization\": {\"stage\": 2, \"offload_param\": {\"device\": \"cpu\"}}",
                       "is for stage 3, and the stage is 2");
    wt_ds_refused_with("\"zero_optimization\": {\"stage\": 4}",
                       "zero_optimization.stage is 4, and has to be from 0 to 3");
    wt_ds_refused_with("\"zero_optimization\": {\"stage\": 2, \"zero_hpz_partition_size\": 8}",
                       "zero_hpz_partition_size is for stage 3, and the stage is 2");
    weft_zero_ds_config *c = wt_ds_with(
        "\"aio\": {\"block_size\": 1e6}, \"zero_optimization\": {\"offload_param\": null, \"zero_hpz_partition_size\": 1}");
    wt_ds_text_has(c, "aio.block_size", "1000000");
    CU_ASSERT_EQUAL(wt_ds_warnings(c), 0);
    CU_ASSERT_PTR_NULL(weft_zero_ds_config_engine(c)->offload_folder);
    CU_ASSERT_EQUAL(weft_zero_ds_config_engine(c)->secondary_ranks, 0);
    weft_zero_ds_config_free(c);
    c = wt_ds_with("\"aio\": {\"block_size\": 131072, \"queue_depth\": 32, \"single_submit\": true}, "
                   "\"zero_optimization\": {\"stage\": 3, \"zero_hpz_partition_size\": 4, \"offload_optimizer\": "
                   "{\"device\": \"nvme\", \"nvme_path\": \"/local\", \"ratio\": 0.25}}");
    const weft_zero_config *e = weft_zero_ds_config_engine(c);

    CU_ASSERT_STRING_EQUAL(e->offload_folder, "/local");
    CU_ASSERT_EQUAL(e->offload_params, 0);
    CU_ASSERT_EQUAL(e->offload_ratio, .25);
    CU_ASSERT_EQUAL(e->offload_block_bytes, 131072);
    CU_ASSERT_EQUAL(e->offload_depth, 32);
    CU_ASSERT_EQUAL(e->secondary_ranks, 4);
    wt_ds_text_has(c, "weft.offload_folder", "\"/local\"");
    wt_ds_text_has(c, "weft.secondary_ranks", "4");
    wt_ds_warned(c, "aio.single_submit has no effect");
    CU_ASSERT_EQUAL(wt_ds_warnings(c), 1);
    weft_zero_ds_config_free(c);
    c = wt_ds_with(
        "\"zero_optimization\": {\"stage\": 3, \"offload_param\": {\"device\": \"nvme\", \"nvme_path\": \"/p\"}}");
    e = weft_zero_ds_config_engine(c);
    CU_ASSERT_STRING_EQUAL(e->offload_folder, "/p");
    CU_ASSERT_EQUAL(e->offload_params, 1);
    CU_ASSERT_EQUAL(e->offload_ratio, 1);
    wt_ds_warned(c, "takes optimizer states and gradients along");
    weft_zero_ds_config_free(c);
    c = wt_ds_with("\"bf16\": {\"enabled\": true}, \"data_types\": {\"grad_accum_dtype\": \"fp32\"}");
    CU_ASSERT_EQUAL(weft_zero_ds_config_engine(c)->grad_fp32, 1);
    CU_ASSERT_EQUAL(wt_ds_warnings(c), 0);
    weft_zero_ds_config_free(c);
}

static void old_spellings(void)
{
    weft_zero_ds_config *c =
        wt_ds_with("\"zero_optimization\": {\"stage\": 3, \"cpu_offload\": true, \"cpu_offload_params\": true, "
                   "\"max_live_parameters\": 7}, \"bfloat16\": {\"enabled\": true}");

    wt_ds_text_has(c, "zero_optimization.offload_optimizer.device", "\"cpu\"");
    wt_ds_text_has(c, "zero_optimization.offload_param.device", "\"cpu\"");
    CU_ASSERT_EQUAL(weft_zero_ds_config_engine(c)->live_elems, 7);
    CU_ASSERT_EQUAL(weft_zero_ds_config_dtype(c), WEFT_BFLOAT16);
    wt_ds_warned(c, "zero_optimization.cpu_offload: an old spelling of zero_optimization.offload_optimizer.device");
    wt_ds_warned(c, "bfloat16: an old spelling of bf16");
    CU_ASSERT_EQUAL(wt_ds_warnings(c), 4);
    weft_zero_ds_config_free(c);
    c = wt_ds_with("\"zero_optimization\": true, \"allgather_size\": 1e6");
    CU_ASSERT_EQUAL(weft_zero_ds_config_engine(c)->stage, 1);
    wt_ds_warned(c, "zero_optimization: an old form; write {\"stage\": 1}");
    wt_ds_warned(c, "allgather_size: an old spelling of zero_optimization.allgather_bucket_size");
    weft_zero_ds_config_free(c);
    wt_ds_refused_with("\"zero_optimization\": {\"prefetch_bucket_size\": 1, \"stage3_prefetch_bucket_size\": 2}",
                       "zero_optimization.stage3_prefetch_bucket_size is there twice");
    wt_ds_refused_with("\"zero_optimization\": {\"cpu_offload\": 3}",
                       "zero_optimization.cpu_offload is 3, not one of none|cpu");
}

static void automatic(void)
{
    static const char text[] =
        "{\"train_batch_size\": \"auto\", \"train_micro_batch_size_per_gpu\": \"auto\", \"gradient_accumulation_steps\": \"auto\","
        "\"gradient_clipping\": \"auto\", \"bf16\": {\"enabled\": \"auto\"},"
        "\"fp16\": {\"enabled\": \"auto\", \"loss_scale_window\": \"auto\"},"
        "\"optimizer\": {\"type\": \"AdamW\", \"params\": {\"lr\": \"auto\", \"betas\": \"auto\","
        "\"eps\": \"auto\", \"weight_decay\": \"auto\"}},"
        "\"scheduler\": {\"type\": \"WarmupDecayLR\", \"params\": {\"warmup_min_lr\": \"auto\", \"warmup_max_lr\": \"auto\","
        "\"warmup_num_steps\": \"auto\", \"total_num_steps\": \"auto\"}},"
        "\"zero_optimization\": {\"stage\": 3, \"reduce_bucket_size\": \"auto\", \"stage3_prefetch_bucket_size\": \"auto\","
        "\"stage3_param_persistence_threshold\": \"auto\"}}";
    weft_zero_ds_model model = WEFT_ZERO_DS_MODEL_INIT;
    weft_zero_ds_config *c = NULL;

    model.hidden_size = 1000;
    model.micro_batch_size = 4;
    model.accumulation_steps = 2;
    model.train_batch_size = 24;
    model.warmup_steps = 0;
    model.total_steps = 500;
    model.lr = 2e-4;
    model.beta1 = .8;
    model.beta2 = .95;
    model.eps = 1e-6;
    model.weight_decay = .1;
    model.clip = .5;
    model.fp16 = 0;
    model.bf16 = 1;
    CU_ASSERT_EQUAL_FATAL(weft_zero_ds_config_read(text, "ds.json", 3, &model, &c), WEFT_SUCCESS);
    const weft_zero_config *e = weft_zero_ds_config_engine(c);
    const weft_zero_hyper *h = weft_zero_ds_config_hyper(c);
    CU_ASSERT(e->micro_batches == 2 && e->clip == .5 && e->prefetch_elems == 900000 && e->persistent_elems == 10000);
    CU_ASSERT_EQUAL(weft_zero_ds_config_dtype(c), WEFT_BFLOAT16);
    CU_ASSERT(h->lr == 2e-4 && h->beta1 == .8 && h->beta2 == .95 && h->eps == 1e-6 && h->weight_decay == .1);
    wt_ds_text_has(c, "zero_optimization.reduce_bucket_size", "1000000");
    wt_ds_text_has(c, "scheduler.params.total_num_steps", "500");
    wt_ds_text_has(c, "scheduler.params.warmup_num_steps", "1");
    wt_ds_text_has(c, "fp16.loss_scale_window", "1000");
    weft_zero_ds_config_free(c);
    wt_ds_refused_with("\"gradient_clipping\": \"auto\"",
                       "gradient_clipping is \"auto\": say a value, or fill in clip of weft_zero_ds_model");
    wt_ds_refused_with("\"zero_optimization\": {\"stage3_prefetch_bucket_size\": \"auto\"}",
                       "fill in hidden_size of weft_zero_ds_model");
    wt_ds_refused_with("\"optimizer\": {\"type\": \"Adam\", \"params\": {\"lr\": \"auto\"}}",
                       "fill in lr of weft_zero_ds_model");
    c = wt_ds_with(
        "\"zero_optimization\": {\"stage\": \"auto\", \"sub_group_size\": \"auto\"}"); /* DeepSpeed takes the default */
    CU_ASSERT_EQUAL(weft_zero_ds_config_engine(c)->stage, 0);
    weft_zero_ds_config_free(c);
    model.lr = NAN;
    CU_ASSERT_EQUAL(weft_zero_ds_config_read("{}", "ds.json", 1, &model, &c), WEFT_EINVAL);
    CU_ASSERT_PTR_NOT_NULL(strstr(wi_fail_text(), "is no number"));
    model = (weft_zero_ds_model)WEFT_ZERO_DS_MODEL_INIT;
    model.bytes = 3;
    CU_ASSERT_EQUAL(weft_zero_ds_config_read("{}", "ds.json", 1, &model, &c), WEFT_EINVAL);
}

static void defaults(void)
{
    weft_zero_ds_config *c = wt_ds_read("{\"train_micro_batch_size_per_gpu\": 1}", 1);
    const weft_zero_config *e = weft_zero_ds_config_engine(c);

    CU_ASSERT(e->stage == 0 && e->optimizer == WEFT_ZERO_ADAMW && e->micro_batches == 1 && e->clip == 1 &&
              e->loss_scale == 1);
    CU_ASSERT(e->overlap == 1 && e->live_elems == 1000000000 && e->prefetch_elems == 50000000 &&
              e->persistent_elems == 100000);
    CU_ASSERT_EQUAL(weft_zero_ds_config_dtype(c), WEFT_FLOAT32);
    CU_ASSERT_EQUAL(wt_ds_warnings(c), 0);
    CU_ASSERT_PTR_NULL(weft_zero_ds_config_warning(c, -1));
    CU_ASSERT_PTR_NULL(weft_zero_ds_config_warning(NULL, 0));
    weft_zero_ds_config_free(c);
    weft_zero_ds_config_free(NULL);
}

/* The text, read again, is the same text and means the same. */
static void text_is_stable(void)
{
    static const char *const texts[] = {stage2, stage3};

    for (int i = 0; i < 2; i++) {
        weft_zero_ds_config *c = wt_ds_read(texts[i], i ? 64 : 16),
                            *again = wt_ds_read(weft_zero_ds_config_text(c), i ? 64 : 16);
        CU_ASSERT_STRING_EQUAL(weft_zero_ds_config_text(c), weft_zero_ds_config_text(again));
        CU_ASSERT(!memcmp(weft_zero_ds_config_hyper(c), weft_zero_ds_config_hyper(again), sizeof(weft_zero_hyper)));
        weft_zero_ds_config_free(c);
        weft_zero_ds_config_free(again);
    }
}

static const struct wt_case cases[] = {
    {"the guide's file of stage 2", guide_stage2},
    {"the guide's file of stage 3", guide_stage3},
    {"two batch sizes tell the third", batch_sizes},
    {"fp16, bf16 and the loss scale", precision},
    {"how gradients and parameters travel", travel},
    {"optimizers and their parameters", optimizers},
    {"schedulers and their parameters", schedulers},
    {"offload, and other values of ZeRO", offload},
    {"old spellings", old_spellings},
    {"auto", automatic},
    {"defaults", defaults},
    {"the text read again is the same", text_is_stable},
};
WT_UNIT_MAIN("ds_config", cases)

#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The names of keys in DeepSpeed's configuration, read from its source without importing it: fields of its pydantic models with the
section they stand in, parameters of its optimizers and schedulers, and all text constants of the files that hold names of keys.

    deepspeed_keys.py [FOLDER]            print the list (FOLDER: the package; by default the one that Python would import)
    deepspeed_keys.py --compare FILE      say what is new or gone against a list; exit 77 where there is no DeepSpeed

Lines: "key SECTION.NAME", "name NAME" (a constant: in which section is not said), "optimizer TYPE", "scheduler TYPE". A model or a
constant that this script does not know how to place is an error, so that a new DeepSpeed cannot bring keys unseen."""

import ast
import importlib.util
import os
import re
import sys

# Model -> the section that it is.
MODELS = {
    "DeepSpeedZeroConfig": "zero_optimization",
    "DeepSpeedZeroOffloadParamConfig": "zero_optimization.offload_param",
    "DeepSpeedZeroOffloadOptimizerConfig": "zero_optimization.offload_optimizer",
    "DeepSpeedZeroLeafModuleConfig": "zero_optimization.leaf_module",
    "ZenFlowConfig": "zero_optimization.zenflow",
    "DeepSpeedFP16Config": "fp16",
    "DeepSpeedBF16Config": "bf16",
    "HybridEngineConfig": "hybrid_engine",
    "TPTrainingConfig": "tensor_parallel",
    "TPConfig": "tensor_parallel.tensor_parallel",
    "TensorBoardConfig": "tensorboard",
    "WandbConfig": "wandb",
    "CSVConfig": "csv_monitor",
    "CometConfig": "comet",
    "DeepSpeedMonitorConfig": "",
    "DeepSpeedThroughputTimerConfig": "timers.throughput",
    "CompileConfig": "compile",
    "CommsLoggerConfig": "comms_logger",
    "BaseQuantConfig": "weight_quantization",
    "WeightQuantConfig": "weight_quantization",
}
# Models that no configuration of training has: those of inference, and the base.
OTHER_MODELS = re.compile(r"^inference/|^runtime/config_utils\.py$")
CONSTANTS = """runtime/config.py runtime/constants.py runtime/precision_config.py runtime/activation_checkpointing/config.py
    runtime/zero/config.py runtime/swap_tensor/constants.py runtime/model_checkpointing/constants.py runtime/data_pipeline/constants.py
    runtime/lr_schedules.py profiling/constants.py autotuning/constants.py comm/constants.py datastates/config.py
    utils/config.py""".split()
# Constants that are no keys: defaults, formats, values, names of attributes, and what DeepSpeed keeps in checkpoints and batches.
NO_KEY = re.compile(r"""_DEFAULT$|_FORMAT$|^_|_OPTIMIZER$|_BACKEND$|^ROUTE_|^GRADIENT_ALLREDUCE_OP_(MEAN|SUM)$|^DDP_BFLOAT16$|^PIPE_REPLICATED$
    |^DATA_PARALLEL_GROUP$|^GLOBAL_RANK$|^DEFAULT_|^DS_CONFIG$|^AUTOTUNING_TUNER_(GRIDSEARCH|RANDOM|MODELBASED)$
    |^AUTOTUNING_METRIC_(LATENCY|THROUGHPUT|FLOPS|FORWARD|BACKWRAD|STEPS)$|^GLOBAL_TUNING_SPACE$|^TUNING_MICRO_BATCH_SIZE_PREFIX$
    |^LR_SCHEDULE$|^(LR_RANGE_TEST|ONE_CYCLE|WARMUP_LR|WARMUP_DECAY_LR|WARMUP_COSINE_LR)$|^(EDGE|MID)_VALUE$|^WARMUP_(LOG|LINEAR)_RATE$
    |^CURRICULUM_LEARNING_(CLUSTER_PREFIX|VALUE_BASED|PERCENTILE_BASED|SCHEDULE_(FIXED_DISCRETE|FIXED_ROOT|FIXED_LINEAR|CUSTOM)
       |CURRENT_DIFFICULTY|CURRENT_DIFFICULTIES|BATCH|CONSUMED_SAMPLES|STEP|DATA_CLUSTER_PATHS|DATA_CLUSTER_CURRENT_POSITION|NP_RNG_STATE)$
    |^RANDOM_LTD_(CONSUMED_LAYER_TOKENS|CURRENT_VALUE|CURR_STEP)$|^EXPERT_DATA""", re.X)
# Constructors: file, class, section.
CONSTRUCTORS = [("ops/adam/fused_adam.py", "FusedAdam", "optimizer.params"), ("ops/adam/cpu_adam.py", "DeepSpeedCPUAdam", "optimizer.params"),
                ("ops/lion/fused_lion.py", "FusedLion", "optimizer.params"), ("ops/lion/cpu_lion.py", "DeepSpeedCPULion", "optimizer.params"),
                ("ops/adagrad/cpu_adagrad.py", "DeepSpeedCPUAdagrad", "optimizer.params")] + [
                    ("runtime/lr_schedules.py", name, "scheduler.params")
                    for name in ("LRRangeTest", "OneCycle", "WarmupLR", "WarmupDecayLR", "WarmupCosineLR")]
NO_PARAMETER = {"self", "params", "model_params", "optimizer", "adamw_mode"}  # adamw_mode: the engine passes it


def tree_of(root, path):
    with open(os.path.join(root, path), encoding="utf-8") as source:
        return ast.parse(source.read())


def text(node):
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def model_lines(root):
    for folder, _, names in os.walk(root):
        for name in sorted(n for n in names if n.endswith(".py")):
            path = os.path.relpath(os.path.join(folder, name), root)
            if OTHER_MODELS.match(path) and path != "inference/config.py":
                continue
            for node in tree_of(root, path).body:
                bases = {getattr(b, "id", "") for b in node.bases} if isinstance(node, ast.ClassDef) else set()
                if not bases & (set(MODELS) | {"DeepSpeedConfigModel"}):
                    continue
                if node.name not in MODELS:
                    if path == "inference/config.py":
                        continue
                    raise SystemExit(f"{path}: the model {node.name} is not known here")
                yield from field_lines(node, MODELS[node.name])


def field_lines(model, section):
    for node in model.body:
        if not isinstance(node, ast.AnnAssign):
            continue
        names = [node.target.id]
        if isinstance(node.value, ast.Call):  # both spellings are accepted
            names += [text(k.value) for k in node.value.keywords if k.arg == "alias"]
        for name in names:
            yield f"key {section}.{name}" if section else f"key {name}"


def constant_lines(root):
    for path in CONSTANTS:
        for node in tree_of(root, path).body:
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and re.fullmatch(r"\w+", text(node.value) or ""):
                name, value = node.targets[0].id, text(node.value)
                if not NO_KEY.search(name):
                    yield f"name {value}"
                elif path == "runtime/config.py" and name.endswith("_OPTIMIZER"):
                    yield f"optimizer {value}"


def constructor_lines(root):
    for path, name, section in CONSTRUCTORS:
        for node in tree_of(root, path).body:
            if isinstance(node, ast.ClassDef) and node.name == name:
                init = next(f for f in node.body if isinstance(f, ast.FunctionDef) and f.name == "__init__")
                yield from (f"key {section}.{a.arg}" for a in init.args.args if a.arg not in NO_PARAMETER)
                break
        else:
            raise SystemExit(f"{path} has no class {name}")


def literal_lines(root):
    """Keys that stand as literals in the code that reads them."""
    config = tree_of(root, "runtime/config.py")
    for node in ast.walk(config):
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "").startswith("_REMOVED_") and isinstance(node.value, ast.Dict):
            section = "zero_optimization." if "ZERO" in node.targets[0].id else ""
            yield from (f"key {section}{text(k)}" for k in node.value.keys)
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "default_pipeline":
            yield from (f"key pipeline.{text(k)}" for k in node.value.keys)
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "get" and getattr(node.func.value, "id", "") == "param_dict":
            yield from (f"key {text(a)}" for a in node.args[:1] if text(a))
        if isinstance(node, ast.Compare) and text(node.left) and getattr(node.comparators[0], "id", "") in ("param_dict", "config"):
            yield f"key {text(node.left)}"
    for node in ast.walk(tree_of(root, "module_inject/auto_ep_config.py")):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "get" and getattr(node.func.value, "id", "") == "param_dict":
            yield from (f"key expert_parallel.{text(a)}" for a in node.args[:1] if text(a))
        if isinstance(node, ast.Compare) and text(node.left) and getattr(node.comparators[0], "id", "") == "param_dict":
            yield f"key expert_parallel.{text(node.left)}"
    for node in tree_of(root, "runtime/lr_schedules.py").body:
        if isinstance(node, ast.ClassDef) and any(isinstance(f, ast.FunctionDef) and f.name == "get_last_lr" for f in node.body):
            yield f"scheduler {node.name}"
    yield from (f"scheduler {name}" for _, name, section in CONSTRUCTORS if section == "scheduler.params")


def lines_of(root):
    found = set(model_lines(root)) | set(constant_lines(root)) | set(constructor_lines(root)) | set(literal_lines(root))
    return sorted(found)


def version_of(root):
    """The installed version; of an unpacked source, what its version file says."""
    for path in (os.path.join(root, "git_version_info_installed.py"), os.path.join(root, "..", "version.txt")):
        if os.path.exists(path):
            with open(path, encoding="utf-8") as source:
                match = re.search(r"\d+\.\d+\.\d+", source.read())
            return match.group() if match else "unknown"
    return "unknown"


def package():
    spec = importlib.util.find_spec("deepspeed")
    return os.path.dirname(spec.origin) if spec and spec.origin else None


def compare(path):
    root = package()
    if not root:
        print("there is no DeepSpeed here")
        return 77
    with open(path, encoding="utf-8") as source:
        listed = {line.strip() for line in source if line.strip() and not line.startswith("#")}
    found = set(lines_of(root))
    for line in sorted(found - listed):
        print(f"DeepSpeed {version_of(root)} has, and {path} lacks: {line}")
    for line in sorted(listed - found):
        print(f"{path} has, and DeepSpeed {version_of(root)} lacks: {line}")
    return 1 if found != listed else 0


def main(arguments):
    if arguments[:1] == ["--compare"]:
        return compare(arguments[1])
    root = arguments[0] if arguments else package()
    if not root:
        print("there is no DeepSpeed here", file=sys.stderr)
        return 77
    print(f"# SPDX-License-Identifier: BSD-3-Clause\n# Names of keys in DeepSpeed {version_of(root)}, by tests/zero/deepspeed_keys.py.")
    print("\n".join(lines_of(root)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

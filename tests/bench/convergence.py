#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Does training with compressed gradients reach what it reaches without? DDP through weft.hooks, several seeds, paired.

    convergence.py --out FOLDER                             all of it
    convergence.py --out FOLDER --tasks lm none int4:ef=1   one task, two codecs

Two tasks: "lm", a GRU that predicts the next character of licence texts, is judged: the mean over the seeds of the difference from
the uncompressed run of the same seed must not be more than one standard deviation of the uncompressed runs. "digits", a perceptron
for scikit-learn's digits, is shown only: all runs end alike. Codecs below eight bits without error feedback are shown, not judged.
Every codec gets bypass=never: within one host plain data is faster. A codec that the library does not know is named and left out.

FOLDER gets convergence.json (after each run; runs that it has are not repeated), convergence.svg and convergence-table.md.
--floors: exit 1 when a judged codec misses.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import statistics
import sys
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "torch")]
for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ[name] = "1"  # ranks are forked, and share the cores
os.environ.pop("WEFT_COMPRESS", None)

if TYPE_CHECKING:
    import torch
    from torch import nn

PLAIN = "none"
DEFAULT_CODECS = (PLAIN, "int8", "e4m3:ef=1", "int4:ef=1", "sign:block=32,ef=1", "topk:ratio=0.01,ef=1",
                  "topk:ratio=0.01,ef=dgc,masking=0", "topk:ratio=0.01,ef=dgc", "sign:ef=1", "int4", "sign", "topk:ratio=0.01")
UNJUDGED_ALONE = ("int6", "int4", "int2", "sign", "topk", "blocktopk", "mxfp6", "mxfp4", "terngrad")  # without error feedback
LICENCES = Path("/usr/share/common-licenses")
TEXTS = ("Apache-2.0", "Artistic", "GFDL-1.3", "GPL-2", "GPL-3", "LGPL-2.1", "MPL-1.1", "MPL-2.0")
VOCAB, LENGTH, BLOCK = 128, 32, 2048
MOMENTUM = 0.9


@dataclass(frozen=True)
class Task:
    """Data and model: loss(model, batch) is a mean; train and valid are batches' rows, the same on every rank."""

    title: str
    judged: bool
    model: Callable[[], nn.Module]
    loss: Callable[[nn.Module, torch.Tensor], torch.Tensor]
    batch: Callable[[int, torch.Generator], torch.Tensor]  # rows, chance
    valid: torch.Tensor
    rate: float  # the learning rate and the steps, unless others are asked for
    steps: int
    sha256: str


@dataclass(frozen=True)
class Setting:
    """What all runs of a file have in common."""

    ranks: int
    steps: int
    every: int  # steps between validations
    rows: int  # of a batch, on each rank
    rate: float  # the learning rate, after a warm-up and before it falls as a cosine to 0
    sha256: str


# ---- Tasks ----


class Characters:
    """Next characters: an embedding, a GRU, a projection; 31,296 parameters."""

    @staticmethod
    def model() -> nn.Module:
        from torch import nn

        class Net(nn.Module):
            def __init__(self) -> None:
                super().__init__()
                self.embedding, self.out = nn.Embedding(VOCAB, 32), nn.Linear(64, VOCAB)
                self.gru = nn.GRU(32, 64, batch_first=True)

            def forward(self, x: torch.Tensor) -> torch.Tensor:
                return self.out(self.gru(self.embedding(x))[0])

        return Net()

    @staticmethod
    def loss(model: nn.Module, rows: torch.Tensor) -> torch.Tensor:
        from torch.nn import functional

        return functional.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())


def language_model() -> Task:
    """Every eighth block of the texts is for validation. Raises FileNotFoundError where a text is missing."""
    import torch

    text = b"".join((LICENCES / name).read_bytes() for name in TEXTS)
    codes = torch.tensor([min(byte, VOCAB - 1) for byte in text])
    blocks = codes[: len(codes) // BLOCK * BLOCK].view(-1, BLOCK)
    held = torch.arange(len(blocks)) % 8 == 7
    valid, train = blocks[held][:, : BLOCK // 2].reshape(-1, LENGTH), blocks[~held].flatten()

    def batch(rows: int, chance: torch.Generator) -> torch.Tensor:
        places = torch.randint(len(train) - LENGTH, (rows,), generator=chance)
        return torch.stack([train[p : p + LENGTH + 1] for p in places])

    digest = hashlib.sha256(text).hexdigest()
    return Task("character language model", True, Characters.model, Characters.loss, batch, valid, 0.3, 5000, digest)


def digits() -> Task:
    """1,797 pictures of 8 x 8, of which 397 are for validation. A row is a picture and its class. Raises ImportError."""
    import torch
    from sklearn.datasets import load_digits
    from torch import nn
    from torch.nn import functional

    found = load_digits()
    rows = torch.cat([torch.tensor(found.data / 16.0), torch.tensor(found.target)[:, None]], 1).float()
    digest = hashlib.sha256(rows.numpy().tobytes()).hexdigest()
    rows = rows[torch.randperm(len(rows), generator=torch.Generator().manual_seed(0))]
    train, valid = rows[397:], rows[:397]

    def model() -> nn.Module:
        return nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 64), nn.ReLU(), nn.Linear(64, 10))

    def loss(model: nn.Module, rows: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(model(rows[:, :-1]), rows[:, -1].long())

    def batch(count: int, chance: torch.Generator) -> torch.Tensor:
        return train[torch.randint(len(train), (count,), generator=chance)]

    return Task("digits", False, model, loss, batch, valid, 0.05, 600, digest)


TASKS: dict[str, Callable[[], Task]] = {"lm": language_model, "digits": digits}


# ---- One run ----


def with_never(codec: str) -> str:
    """The codec, never bypassed."""
    return codec if codec == PLAIN else f"{codec}{',' if ':' in codec else ':'}bypass=never"


def rate_at(setting: Setting, step: int) -> float:
    """The learning rate of a step: up over the first twentieth, then down to 0 as a cosine."""
    steps = setting.steps
    return setting.rate * min(1.0, (step + 1) / max(1, steps // 20)) * (0.5 + 0.5 * math.cos(math.pi * step / steps))


def validate(task: Task, model: nn.Module, rank: int, ranks: int) -> float:
    """The loss over all of the validation rows, of which each rank computes its part."""
    import torch
    import torch.distributed as dist

    part = task.valid[rank::ranks]
    with torch.no_grad():
        total = torch.tensor([task.loss(model, part).item() * len(part)], dtype=torch.float64)
    dist.all_reduce(total)
    return total.item() / len(task.valid)


def groups_of(model: nn.Module, codec: str) -> list[dict[str, Any]]:
    """Groups for the optimizer. DGC has the momentum of what is coded, which are matrices of 4,096 elements and more."""
    coded = [p for p in model.parameters() if p.dim() > 1 and p.numel() >= 4096]
    others = [p for p in model.parameters() if not any(p is q for q in coded)]
    return [{"params": coded, "momentum": 0.0 if "ef=dgc" in codec else MOMENTUM}, {"params": others, "momentum": MOMENTUM}]


def train(task: Task, setting: Setting, codec: str, seed: int, rank: int) -> tuple[list[tuple[int, float]], int]:
    """Train on one rank: (step, validation loss) at times, and a checksum of the final weights."""
    import torch
    import weft
    from torch.nn.parallel import DistributedDataParallel

    torch.manual_seed(seed)
    model = DistributedDataParallel(task.model())
    weft.hooks.register(model, codec=with_never(codec))
    optimizer = torch.optim.SGD(groups_of(model, codec), setting.rate)
    chance = torch.Generator().manual_seed(1000 * seed + rank)
    curve = []
    for step in range(setting.steps):
        if step % setting.every == 0:
            curve.append((step, validate(task, model.module, rank, setting.ranks)))
        optimizer.param_groups[0]["lr"] = rate_at(setting, step)
        optimizer.zero_grad()
        task.loss(model, task.batch(setting.rows, chance)).backward()
        optimizer.step()
    curve.append((setting.steps, validate(task, model.module, rank, setting.ranks)))
    weights = torch.cat([p.detach().flatten() for p in model.module.parameters()])
    return curve, zlib.crc32(weights.numpy().tobytes())


def run_once(task: Task, setting: Setting, codec: str, seed: int, limit: float) -> dict[str, Any]:
    """Train on all ranks. Raises RanksFailed, and when ranks end with other weights."""
    from integration_ranks import RanksFailed, run

    start = time.monotonic()
    results = run(lambda rank, _: train(task, setting, codec, seed, rank), "weft", setting.ranks, deadline=limit)
    if any(result != results[0] for result in results[1:]) and all(math.isfinite(loss) for _, loss in results[0][0]):
        raise RanksFailed(f"{codec}, seed {seed}: the ranks ended with other weights: {[result[1] for result in results]}")
    curve = [[step, loss if math.isfinite(loss) else None] for step, loss in results[0][0]]
    return {"codec": codec, "seed": seed, "curve": curve, "seconds": round(time.monotonic() - start, 1)}


def refusals(codecs: Sequence[str]) -> dict[str, str]:
    """Those that the library does not take, and its words."""
    from integration_ranks import run

    def ask(_rank: int, _ranks: int) -> dict[str, str]:
        import torch
        import weft
        from torch.nn.parallel import DistributedDataParallel

        why = {}
        for codec in codecs:
            try:
                model = DistributedDataParallel(torch.nn.Linear(3, 3))
                weft.hooks.register(model, codec=with_never(codec))
            except ValueError as error:
                why[codec] = str(error).splitlines()[0]
        return why

    return run(ask, "weft", 1, deadline=60)[0]


# ---- What came of them ----


@dataclass(frozen=True)
class Verdict:
    """A codec of one task. Losses are final validation losses; nan: a run diverged."""

    codec: str
    mean: float
    deviation: float
    difference: float  # mean over the seeds that both have, of the codec's minus the uncompressed run's
    allowed: float  # the standard deviation of the uncompressed runs
    seeds: int
    judged: bool

    @property
    def within(self) -> bool:
        """Whether it trains as well as without; False where a loss is not a number."""
        return abs(self.difference) <= self.allowed

    def words(self) -> str:
        """For the table's last column."""
        if self.codec == PLAIN:
            return ""
        if math.isnan(self.difference):
            return "diverged"
        if math.isnan(self.allowed):
            return "too few uncompressed runs to tell"
        found = "within" if self.within else "worse" if self.difference > 0 else "better"
        return f"{found}{'' if self.judged else ' (not judged)'}"


def is_judged(codec: str) -> bool:
    """Codecs that should train as well as none does: those with error feedback, and those of eight bits and more."""
    return codec != PLAIN and ("ef=" in codec.replace("ef=0", "") or codec.split(":")[0] not in UNJUDGED_ALONE)


def final_losses(runs: Sequence[dict[str, Any]], codec: str) -> dict[int, float]:
    """Final loss by seed."""
    return {r["seed"]: math.nan if r["curve"][-1][1] is None else r["curve"][-1][1] for r in runs if r["codec"] == codec}


def deviation(values: Sequence[float]) -> float:
    """The standard deviation of a sample; nan of one value, and where one is none."""
    return statistics.stdev(values) if len(values) > 1 and all(map(math.isfinite, values)) else math.nan


def verdicts(runs: Sequence[dict[str, Any]], judged_task: bool) -> list[Verdict]:
    """One for each codec, in the order of the runs."""
    plain = final_losses(runs, PLAIN)
    out = []
    for codec in dict.fromkeys(r["codec"] for r in runs):
        losses = final_losses(runs, codec)
        pairs = [losses[seed] - plain[seed] for seed in losses if seed in plain]
        out.append(Verdict(codec, statistics.fmean(losses.values()), deviation(list(losses.values())),
                           statistics.fmean(pairs) if pairs else math.nan, deviation(list(plain.values())), len(losses),
                           judged_task and is_judged(codec)))
    return out


def table(title: str, rows: Sequence[Verdict]) -> str:
    """A table in Markdown."""
    out = [f"| {title} | seeds | final validation loss | standard deviation | mean difference | of the allowed | |",
           "|---|---|---|---|---|---|---|"]
    for v in rows:
        share = "" if v.codec == PLAIN else f"{v.difference:+.4f} | {abs(v.difference) / v.allowed if v.allowed else math.nan:.2f}"
        out.append(f"| {v.codec} | {v.seeds} | {v.mean:.4f} | {v.deviation:.4f} | {share or ' | '} | {v.words()} |")
    return "\n".join(out)


def mean_curves(runs: Sequence[dict[str, Any]]) -> dict[str, list[tuple[float, float]]]:
    """For each codec the mean over the seeds, at each step that was validated."""
    out = {}
    for codec in dict.fromkeys(r["codec"] for r in runs):
        curves = [r["curve"] for r in runs if r["codec"] == codec]
        out[codec] = [(points[0][0], math.nan if any(p[1] is None for p in points) else statistics.fmean(p[1] for p in points))
                      for points in zip(*curves, strict=True)]
    return out


def report(folder: Path, found: dict[str, Any], tasks: dict[str, Task]) -> list[Verdict]:
    """Write plot and table, print the table; all verdicts."""
    from line_plot import Panel, svg

    panels, texts, everything = [], [], []
    for name, part in found.items():
        setting, rows = part["setting"], verdicts(part["runs"], tasks[name].judged)
        title = f"{tasks[name].title}, {setting['ranks']} ranks, {setting['steps']} steps, rate {setting['rate']:g}"
        texts.append(table(title, rows) + f"\n\nsha256 of the data: {setting['sha256']}\n")
        trained = {codec: points[1:] for codec, points in mean_curves(part["runs"]).items()}  # the first is before any step
        panels.append(Panel(f"{tasks[name].title}: validation loss", trained))
        everything += rows
    codecs = dict.fromkeys(v.codec for v in everything)
    (folder / "convergence.svg").write_text(svg(panels, "step", [c for c in codecs if c != PLAIN and not is_judged(c)]))
    (folder / "convergence-table.md").write_text("\n".join(texts))
    print("\n".join(texts), flush=True)
    return everything


# ---- All runs ----


def load(path: Path) -> dict[str, Any]:
    """What earlier runs found."""
    return json.loads(path.read_text()) if path.exists() else {}


def part_of(found: dict[str, Any], name: str, setting: Setting, path: Path) -> list[dict[str, Any]]:
    """The runs of one task so far. Exits when those in the file are of another setting."""
    part = found.setdefault(name, {"setting": asdict(setting), "runs": []})
    if part["setting"] != asdict(setting):
        sys.exit(f"{path} has runs of {part['setting']}, not of {asdict(setting)}: take another --out")
    return part["runs"]


def run_task(name: str, task: Task, options: argparse.Namespace, codecs: Sequence[str], found: dict[str, Any]) -> None:
    """All codecs for a seed, then the next seed, so that what there is can be compared whenever it is stopped."""
    path = options.out / "convergence.json"
    steps = options.steps or task.steps
    every = options.every or max(1, steps // 15)
    setting = Setting(options.ranks, steps, every, options.rows, options.rate or task.rate, task.sha256)
    runs = part_of(found, name, setting, path)
    for seed in range(options.seeds):
        for codec in codecs:
            if any(r["codec"] == codec and r["seed"] == seed for r in runs):
                continue
            runs.append(run_once(task, setting, codec, seed, options.limit))
            last = runs[-1]["curve"][-1][1]
            text = "diverged" if last is None else f"{last:.4f}"
            print(f"{name}, seed {seed}, {codec}: {text}, {runs[-1]['seconds']} s", flush=True)
            path.write_text(json.dumps(found))


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("codecs", nargs="*", default=list(DEFAULT_CODECS), help=f"(%(default)s); {PLAIN} is always among them")
    parser.add_argument("--out", type=Path, default=Path("convergence"), help="folder for what is written (%(default)s)")
    parser.add_argument("--tasks", default="lm,digits", help="%(default)s")
    parser.add_argument("--seeds", type=int, default=5, help="%(default)s")
    parser.add_argument("--ranks", type=int, default=4, help="%(default)s")
    parser.add_argument("--steps", type=int, help="(those of the task)")
    parser.add_argument("--every", type=int, help="steps from one validation to the next (a fifteenth)")
    parser.add_argument("--rows", type=int, default=8, help="of a batch, on each rank (%(default)s)")
    parser.add_argument("--rate", type=float, help="the highest learning rate (that of the task)")
    parser.add_argument("--limit", type=float, default=600, help="seconds that one run may take (%(default)s)")
    parser.add_argument("--floors", action="store_true")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.tasks.split(",") if name not in TASKS]
    if unknown:
        parser.error(f"no such task: {unknown[0]} (there are: {', '.join(TASKS)})")
    for name in ("seeds", "ranks", "steps", "rows"):
        if getattr(options, name) is not None and getattr(options, name) < 1:
            parser.error(f"--{name} must be 1 or more")
    return options


def made(names: Sequence[str]) -> dict[str, Task]:
    """The tasks whose data are here; of the others, why they are left out."""
    tasks = {}
    for name in names:
        try:
            tasks[name] = TASKS[name]()
        except ImportError:
            print(f"SKIP: {name}: scikit-learn is not installed (pip install scikit-learn)")
        except FileNotFoundError as error:
            print(f"SKIP: {name}: there is no {error.filename} (Debian package base-files)")
    return tasks


def main(arguments: Sequence[str] | None = None) -> int:
    """Run and report; the exit status: 77 where nothing can be run."""
    options = parsed(arguments)
    try:
        import torch  # noqa: F401
    except ImportError:
        print("SKIP: torch cannot be imported here")
        return 77
    tasks = made(options.tasks.split(","))
    if not tasks:
        return 77
    codecs = list(dict.fromkeys([PLAIN, *options.codecs]))
    for codec, why in refusals(codecs).items():
        print(f"SKIP: {codec}: {why}")
        codecs.remove(codec)
    options.out.mkdir(parents=True, exist_ok=True)
    found = load(options.out / "convergence.json")
    for name, task in tasks.items():
        run_task(name, task, options, codecs, found)
    rows = report(options.out, {name: found[name] for name in tasks}, tasks)
    missed = [v.codec for v in rows if v.judged and not v.within]
    if missed:
        print(f"further than one standard deviation from uncompressed: {', '.join(missed)}")
    return 1 if missed and options.floors else 0


if __name__ == "__main__":
    sys.exit(main())

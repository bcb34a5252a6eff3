# SPDX-License-Identifier: BSD-3-Clause
"""weft.zero: how files of models and checkpoints are written, and what is said meanwhile."""

from __future__ import annotations

import io
import os
import shutil
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import ranks
import torch
import torch.distributed as dist
import zero_models as zm
from zero_models import fails


def whole_models_are_written_whole(groups: ranks.Groups) -> None:
    """save_16bit_model replaces a file when the new one is complete, and leaves frozen parameters out."""
    from weft import zero

    model = zm.gpt()
    frozen = model[4].weight.requires_grad_(False)
    engine = zm.engine_of(model, 3)
    name = [tempfile.mkdtemp() if groups.rank == 0 else ""]
    dist.broadcast_object_list(name, 0, group=groups.gloo)
    path = Path(name[0], "made", "model.bin")
    engine.save_16bit_model(path.parent, "model.bin")
    if groups.rank == 0:
        before = path.read_bytes()
        assert torch.load(path).keys() == model.state_dict().keys()
    save = torch.save

    def breaks(state: Any, file: Any) -> None:
        file.write(b"half")
        raise OSError(28, "No space left on device")

    torch.save = breaks
    fails(OSError if groups.rank == 0 else zero.Error, "No space" if groups.rank == 0 else "rank 0 could not write",
          lambda: engine.save_16bit_model(path.parent, "model.bin"))  # fmt: skip
    torch.save = save
    if groups.rank == 0:
        assert path.read_bytes() == before and os.listdir(path.parent) == ["model.bin"], os.listdir(path.parent)
    assert engine.save_16bit_model(path.parent, "model.bin", exclude_frozen_parameters=True)
    if groups.rank == 0:
        names = {n for n, p in model.named_parameters(remove_duplicate=False) if p is frozen}
        assert names and torch.load(path).keys() == model.state_dict().keys() - names
        assert os.listdir(path.parent) == ["model.bin"]
        shutil.rmtree(name[0])
    engine.destroy()


def what_one_rank_cannot_save_all_are_told(groups: ranks.Groups) -> None:
    """A folder that rank 0 cannot make, and a state that JSON has no words for on another one: nobody waits."""
    from weft import zero

    engine = zm.engine_of(zm.gpt(), 2)
    last = groups.size - 1
    fails(OSError if groups.rank == 0 else zero.Error, "Not a directory" if groups.rank == 0 else "another rank cannot save",
          lambda: engine.save_checkpoint("/dev/null/made"))  # fmt: skip
    fails(ValueError if groups.rank == last else zero.Error, "client_state" if groups.rank == last else "another rank cannot save",
          lambda: engine.save_checkpoint(tempfile.gettempdir(), client_state={"a": {1} if groups.rank == last else 1}))  # fmt: skip
    engine.destroy()


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def long_saves_say_how_far_they_are(groups: ranks.Groups) -> None:
    from weft.zero import _progress

    model = zm.gpt()
    engine = zm.engine_of(model, 2)
    name = [tempfile.mkdtemp() if groups.rank == 0 else ""]
    dist.broadcast_object_list(name, 0, group=groups.gloo)
    folder, known, stderr = Path(name[0], "saved"), (_progress.FIRST, _progress.BETWEEN, _progress.LOOK), sys.stderr
    wait = engine.core.lib.call

    def slowly(function: str, *arguments: Any) -> None:
        wait(function, *arguments)
        if function in ("weft_zero_save_wait", "weft_zero_load"):
            time.sleep(0.2)

    engine.prepare_checkpoint()
    engine.core.lib.call = slowly
    try:
        for tag, out in enumerate((io.StringIO(), Terminal())):
            sys.stderr = out
            engine.save_checkpoint(folder, f"quick{tag}")
            assert not out.getvalue(), out.getvalue()
            _progress.FIRST, _progress.BETWEEN, _progress.LOOK = 0.0, 0.02, 0.02
            engine.save_checkpoint(folder, f"silent{tag}", progress=False)
            engine.load_checkpoint(folder, progress=False)
            assert not out.getvalue(), out.getvalue()
            engine.save_checkpoint(folder, f"said{tag}")
            engine.load_checkpoint(folder, f"said{tag}")
            fails(Exception, "nothing", lambda: engine.load_checkpoint(folder, "nothing"))
            _progress.FIRST, _progress.BETWEEN, _progress.LOOK = known
            text = out.getvalue()
            if groups.rank:
                assert not text, text
                continue
            lines = [line for line in text.replace("\r", "\n").split("\n") if line]
            assert all(line.startswith("weft.zero: ") and line.rstrip().endswith(" s") for line in lines), text
            assert any(f"saving {folder}/said{tag}: done" in line for line in lines), text
            assert any(f"loading {folder}/said{tag}: done" in line for line in lines), text
            assert f"loading {folder}/nothing: done" not in text, text
            assert (text.count("\r") > 4 and text.count("\n") <= 3) if tag else ("\r" not in text and text.count("\n") > 4), text
        # A program without a console has nothing to write to.
        failed: list[Any] = []
        hook, threading.excepthook = threading.excepthook, failed.append
        try:
            sys.stderr = None  # type: ignore[assignment]
            _progress.FIRST, _progress.BETWEEN, _progress.LOOK = 0.0, 0.02, 0.02
            engine.save_checkpoint(folder, "unseen")
            engine.load_checkpoint(folder, "unseen")
        finally:
            threading.excepthook = hook
        assert not failed, failed
    finally:
        sys.stderr = stderr
        del engine.core.lib.call
        _progress.FIRST, _progress.BETWEEN, _progress.LOOK = known
    engine.destroy()
    dist.barrier(groups.gloo)
    if groups.rank == 0:
        shutil.rmtree(name[0])


CASES = [
    whole_models_are_written_whole,
    what_one_rank_cannot_save_all_are_told,
    long_saves_say_how_far_they_are,
]

if __name__ == "__main__":
    ranks.main(CASES)

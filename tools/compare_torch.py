# SPDX-License-Identifier: BSD-3-Clause
"""PyTorch's side of weft-compare's row "codec-torch": what its compressing hooks compute, on one core, without communication.

Usage: compare_torch.py BYTES. Prints a line "NAME MICROSECONDS" for each, the median of some: topk, the selection of the largest 1 % by
magnitude (torch.topk) with their values; pertensor and perchannel, what the hooks of those names in quantization_hooks do to a
bucket, observer, quantise, dequantise; bf16, what bf16_compress_hook does, to bfloat16, the division, and back.
"""

from __future__ import annotations

import statistics
import sys
import time
import warnings
from collections.abc import Callable

warnings.simplefilter("ignore")  # torch.ao is deprecated
import torch  # noqa: E402
from torch.distributed.algorithms.ddp_comm_hooks import quantization_hooks as hooks  # noqa: E402

RANKS, BUCKET = 4, 512  # elements of a channel: the hook's default


def topk(x: torch.Tensor) -> torch.Tensor:
    """The values to send; their places are the other half."""
    places = torch.topk(x.abs(), len(x) // 100).indices
    return x[places]


def pertensor(x: torch.Tensor) -> torch.Tensor:
    """As in quantization_pertensor_hook."""
    observer = torch.ao.quantization.MinMaxObserver()
    observer(x)
    scale, zero = observer.calculate_qparams()
    return hooks._dequantize_per_tensor_backend(hooks._quantize_per_tensor_backend(x, scale, zero), scale, zero)


def perchannel(x: torch.Tensor) -> torch.Tensor:
    """As in quantization_perchannel_hook."""
    rows = x.view(-1, BUCKET)
    observer = torch.ao.quantization.PerChannelMinMaxObserver()
    observer(rows)
    scale, zero = observer.calculate_qparams()
    return hooks._dequantize_per_channel_backend(hooks._quantize_per_channel_backend(rows, scale, zero), scale, zero)


def bf16(x: torch.Tensor) -> torch.Tensor:
    """As in bf16_compress_hook."""
    return x.copy_(x.to(torch.bfloat16).div_(RANKS))


def microseconds(call: Callable[[torch.Tensor], torch.Tensor], elements: int, times: int = 7) -> float:
    """The median of some calls, after one to warm up, each on data of its own."""
    took = []
    for _ in range(times + 1):
        x = torch.randn(elements)
        start = time.perf_counter()
        call(x)
        took.append(time.perf_counter() - start)
    return statistics.median(took[1:]) * 1e6


def main() -> None:
    """Measure and print."""
    torch.set_num_threads(1)
    for call in (topk, pertensor, perchannel, bf16):
        print(f"{call.__name__} {microseconds(call, int(sys.argv[1]) // 4):.3f}", flush=True)


if __name__ == "__main__":
    main()

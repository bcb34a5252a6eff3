# The PyTorch front end is built by pip (wheel_backend.py), not by make; here it is only shipped.
zero_python = \
	frontends/torch/weft/zero/__init__.py frontends/torch/weft/zero/_automatic.py frontends/torch/weft/zero/_report.py frontends/torch/weft/zero/_calls.py \
	frontends/torch/weft/zero/_keep.py frontends/torch/weft/zero/_spill.py \
	frontends/torch/weft/zero/_checkpoint.py frontends/torch/weft/zero/_checkpointing.py frontends/torch/weft/zero/_comm.py \
	frontends/torch/weft/zero/_config.py frontends/torch/weft/zero/_core.py frontends/torch/weft/zero/_engine.py \
	frontends/torch/weft/zero/_fsdp.py frontends/torch/weft/zero/_groups.py frontends/torch/weft/zero/_callback.py \
	frontends/torch/weft/zero/_library.py frontends/torch/weft/zero/_optimizer.py \
	frontends/torch/weft/zero/_passes.py frontends/torch/weft/zero/_progress.py frontends/torch/weft/zero/_state.py frontends/torch/weft/zero/_units.py \
	frontends/torch/weft/zero/_exchange.py frontends/torch/weft/zero/_init.py frontends/torch/weft/zero/_safetensors.py \
	frontends/torch/weft/zero/dcp.py frontends/torch/weft/zero/universal.py \
	frontends/torch/weft/zero/deepspeed.py frontends/torch/weft/zero/schedulers.py
EXTRA_DIST += \
	frontends/torch/pyproject.toml frontends/torch/wheel_backend.py frontends/torch/make-wheel frontends/torch/README.md \
	frontends/torch/weft/py.typed \
	frontends/torch/weft/__init__.py frontends/torch/weft/_algorithms.py frontends/torch/weft/_build.py frontends/torch/weft/_coalescing.py frontends/torch/weft/_codec.py frontends/torch/weft/_groups.py \
	frontends/torch/weft/_info.py frontends/torch/weft/_load.py frontends/torch/weft/_mesh.py frontends/torch/weft/_peers.py frontends/torch/weft/_register.py frontends/torch/weft/_signals.py \
	frontends/torch/weft/_C.pyi frontends/torch/weft/_residuals.py frontends/torch/weft/_stack.py \
	frontends/torch/weft/bench.py frontends/torch/weft/ddp.py frontends/torch/weft/flight_recorder.py frontends/torch/weft/fsdp.py \
	frontends/torch/weft/hooks.py frontends/torch/weft/mem.py frontends/torch/weft/trace.py \
	$(zero_python) \
	frontends/torch/csrc/zero.cpp frontends/torch/csrc/zero.hpp \
	frontends/torch/csrc/algorithms.cpp frontends/torch/csrc/algorithms.hpp frontends/torch/csrc/backend.cpp frontends/torch/csrc/backend.hpp \
	frontends/torch/csrc/batch.cpp frontends/torch/csrc/batch.hpp frontends/torch/csrc/bootstrap.cpp frontends/torch/csrc/bootstrap.hpp \
	frontends/torch/csrc/coding.cpp frontends/torch/csrc/coding.hpp frontends/torch/csrc/collectives.cpp frontends/torch/csrc/collectives.hpp frontends/torch/csrc/engine.cpp frontends/torch/csrc/engine.hpp \
	frontends/torch/csrc/hooks.cpp frontends/torch/csrc/hooks.hpp frontends/torch/csrc/issue.cpp frontends/torch/csrc/issue.hpp frontends/torch/csrc/memory.cpp frontends/torch/csrc/memory.hpp \
	frontends/torch/csrc/module.cpp frontends/torch/csrc/python.cpp frontends/torch/csrc/python.hpp frontends/torch/csrc/recorder.cpp \
	frontends/torch/csrc/recorder.hpp frontends/torch/csrc/residuals.cpp frontends/torch/csrc/residuals.hpp frontends/torch/csrc/runtime.cpp frontends/torch/csrc/runtime.hpp frontends/torch/csrc/scope.hpp frontends/torch/csrc/tensors.cpp \
	frontends/torch/csrc/tensors.hpp frontends/torch/csrc/work.cpp frontends/torch/csrc/work.hpp

#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The package: installed into a fresh virtual environment it runs the README's program; under another torch it is compiled
# again, or says what to do.
# timeout: 600
set -u
. "${WEFT_SRCDIR:?}/tests/harness/tap.sh"
. "${WEFT_SRCDIR:?}/tests/torch/setup.sh"
unset PYTHONPATH WEFT_TORCH_BUNDLE
export WEFT_CACHE_DIR=$tap_dir/cache
venv=$tap_dir/venv
first=$tap_dir/first.py

make_venv() { "$python" -m venv "$venv" && "$python" "$WEFT_SRCDIR/tests/torch/see_packages.py" "$venv/bin/python"; }
install() { "$venv/bin/pip" install -q --no-build-isolation --no-deps --no-index "$WEFT_SRCDIR/frontends/torch"; }
readme_program() { # the first block
    awk '/^```python/ { on = !seen++; next } /^```/ { on = 0 } on' "$WEFT_SRCDIR/frontends/torch/README.md" >"$first" && [ "$(wc -l <"$first")" -le 6 ]; }
run_first() { # PROGRAM…: two ranks, both print the sum
    "$venv/bin/python" -m torch.distributed.run --standalone --nproc-per-node 2 "$first" >"$tap_dir/out" 2>&1
    cat "$tap_dir/out"
    grep -q 'rank 0: tensor(\[3., 3., 3., 3.\])' "$tap_dir/out" && grep -q 'rank 1: tensor(\[3., 3., 3., 3.\])' "$tap_dir/out"
}
quick_import() { # importing torch loads neither the adapter nor the library
    "$venv/bin/python" -c 'import sys, torch
assert "weft" in sys.modules and "weft._C" not in sys.modules, "autoload"
import torch.distributed as dist
assert dist.Backend.WEFT == "weft" and dist.is_backend_available("weft")'
}
for_another_torch() { # as if installed for it
    echo other >"$(echo "$venv"/lib/python*/site-packages/weft/_C.tag)"
}
says_what_to_do() {
    CXX=/nonexistent/c++ "$venv/bin/python" -c 'import weft; weft.info()' >"$tap_dir/out" 2>&1 && return 1
    cat "$tap_dir/out"
    grep -q 'does not fit torch' "$tap_dir/out" && grep -q 'pip install --no-build-isolation' "$tap_dir/out"
}
rebuilds() {
    "$venv/bin/python" -c 'import sys, torch, torch.distributed as dist, weft
p = weft.info().adapter
print(p)
assert str(p).startswith(sys.argv[1]), p
dist.init_process_group("weft", store=dist.HashStore(), rank=0, world_size=1)
t = torch.ones(3)
dist.all_reduce(t)
dist.destroy_process_group()
assert t.tolist() == [1.0] * 3, t' "$WEFT_CACHE_DIR"
}
mixed() {
    "$venv/bin/python" -c 'import torch, torch.distributed as dist
dist.init_process_group("cpu:weft,cuda:gloo", store=dist.HashStore(), rank=0, world_size=1)
dist.all_reduce(torch.ones(3)); dist.barrier(); dist.destroy_process_group()'
}
typed() { test -f "$(echo "$venv"/lib/python*/site-packages/weft/py.typed)"; }

tap "a virtual environment" make_venv || tap_end
tap "pip install ./frontends/torch" install || tap_end
tap "importing torch makes the backend known, and loads nothing" quick_import
tap "the README's program is short" readme_program
tap "the README's program under torchrun" run_first
tap "a backend for each device" mixed
tap "the package is typed" typed
for_another_torch
unset WEFT_TORCH_LIBRARY # the package has one
tap "under another torch, without a compiler, it says what to do" says_what_to_do
tap "under another torch it is compiled into the cache, and runs" rebuilds
tap_end

# SPDX-License-Identifier: BSD-3-Clause
"""Build the tests of the adapter in C++: its units without Python, and tests/torch/cxx, as one program.

    PYTHON cxx.py FOLDER [FLAG...]    # FOLDER/test_adapter; FLAGs are for the compiler and the linker
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "frontends/torch"))
os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"

from weft import _build  # noqa: E402


def main() -> None:
    import torch

    folder, flags = Path(sys.argv[1]), sys.argv[2:]
    if flags:
        os.environ["WEFT_TORCH_CXXFLAGS"] = " ".join(flags)
    folder.mkdir(parents=True, exist_ok=True)
    library = _build.find_library()
    units = [unit for unit in _build._units(folder) if unit.name not in ("unit_python.cpp", *_build.PYTHON_SOURCES)]
    units += sorted((HERE / "cxx").glob("*.cpp"))
    compile_flags = [*_build.compile_flags(library), f"-I{HERE.parents[1]}"]
    objects = _build.compile_units(folder, units, compile_flags, "compiling the tests of the adapter")
    torch_lib = Path(torch.__file__).parent / "lib"
    made = folder / "test_adapter"
    link = [*_build.link_flags(library, str(library.lib)), f"-Wl,-rpath,{torch_lib}", "-pthread"]
    _build._run([*_build.compiler(), *objects, "-o", str(made), *link], folder, "linking the tests of the adapter")


main()

# SPDX-License-Identifier: BSD-3-Clause
"""Loading the compiled part: the one that was installed if it fits this torch, else one from the cache."""

from __future__ import annotations

import importlib.util
import os
import sys
import sysconfig
from pathlib import Path
from types import ModuleType

_adapter: ModuleType | None = None


def _installed() -> Path | None:
    """The extension built when the package was installed, if for this Python, this torch and these sources."""
    from ._build import tag

    here = Path(__file__).parent
    built = here / f"_C{sysconfig.get_config_var('EXT_SUFFIX')}"
    fits = here / "_C.tag"
    if built.exists() and fits.exists() and fits.read_text().strip() == tag():
        return built
    return None


def _load_from(path: Path) -> ModuleType:
    name = "weft._C"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"weft: {path} is not an extension module")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _check_version(loaded: ModuleType, path: Path) -> None:
    """Package, adapter and C library are of one version: another libweft.so.1 may have come first on the loader's path."""
    from . import __version__

    if loaded.version() != __version__:
        del sys.modules["weft._C"]
        raise ImportError(
            f"weft: this package is of version {__version__}, but the libweft that {path} got is of version {loaded.version()}: "
            f"another one is found first (LD_LIBRARY_PATH is {os.environ.get('LD_LIBRARY_PATH') or 'not set'}) or was loaded "
            "before. Remove that one, or install the package again for it"
        )


def adapter() -> ModuleType:
    """The compiled adapter for the torch that runs; compiled now, once, when the installed one is for another torch.

    Raises:
        ImportError: it neither fits nor can be built; the text says what to do.
    """
    global _adapter
    if _adapter is not None:
        return _adapter
    import torch

    path = Path(os.environ["WEFT_TORCH_ADAPTER"]) if os.environ.get("WEFT_TORCH_ADAPTER") else _installed()
    if path is None:
        from ._build import BuildError, build_into_cache, cache_folder

        try:
            path = build_into_cache()
        except (BuildError, OSError) as problem:
            raise ImportError(
                f"weft: the installed adapter does not fit torch {torch.__version__} (Python {sys.version.split()[0]}), and "
                f"building one into {cache_folder()} failed: {problem}\n"
                "Either make that work, or install again for this torch: "
                "pip install --no-build-isolation --force-reinstall <weft>/frontends/torch"
            ) from problem
    loaded = _load_from(path)
    _check_version(loaded, path)
    _adapter = loaded
    return _adapter

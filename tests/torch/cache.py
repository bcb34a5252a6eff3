# SPDX-License-Identifier: BSD-3-Clause
"""One case of test_cache.sh: cache.py CASE FOLDER. The package is imported without its __init__, which needs PyTorch."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import ModuleType

package = ModuleType("weft")
package.__path__ = [str(Path(__file__).resolve().parents[2] / "frontends/torch/weft")]
sys.modules["weft"] = package

from weft import _build  # noqa: E402

compiled = 0


def compile_adapter(target: Path, library: object, search: str) -> None:
    """As the real one leaves it."""
    global compiled
    compiled += 1
    _build.make_private(target.parent)
    target.write_bytes(b"adapter")
    target.chmod(0o755)


def refused(says: str) -> None:
    """The next use of the cache is refused, with this text."""
    try:
        _build.build_into_cache()
    except _build.BuildError as problem:
        assert says in str(problem), problem
        assert "WEFT_CACHE_DIR" in str(problem), problem
    else:
        raise AssertionError(f"not refused: {says}")


def private(cache: Path) -> None:
    """What is made is this user's alone, and used again."""
    os.umask(0)
    target = _build.build_into_cache()
    assert _build.build_into_cache() == target and compiled == 1
    for made in (cache, cache.parent):
        assert made.stat().st_mode & 0o777 == 0o700, made


def own_folder(cache: Path) -> None:
    """Folders that others can write to."""
    target = _build.build_into_cache()
    for folder in (cache, cache.parent):
        folder.chmod(0o777)
        refused(f"{folder} can be written to by everybody")
        folder.chmod(0o700)
    target.parent.chmod(0o777)
    refused(f"{target.parent} can be written to by everybody")
    target.parent.chmod(0o1777)
    target.chmod(0o666)
    refused(f"{target} can be written to by everybody")
    target.chmod(0o644)
    assert _build.build_into_cache() == target


def own_target(cache: Path) -> None:
    """An adapter, or its folder, of another user."""
    target = _build.build_into_cache()
    for path in (target, target.parent, cache):
        os.chown(path, 65534, -1)
        refused(f"{path} belongs to user 65534")
        os.chown(path, 0, -1)
    assert _build.build_into_cache() == target


def own_lock(cache: Path) -> None:
    """A lock that is a link to somebody's file."""
    victim = cache.parent / "victim"
    cache.mkdir(mode=0o700, parents=True)
    victim.write_text("precious")
    lock = cache / "lock.lock"
    lock.symlink_to(victim)
    try:
        with _build._locked(lock):
            pass
    except OSError:
        pass
    else:
        raise AssertionError("a link was followed")
    assert victim.read_text() == "precious"
    lock.unlink()
    lock.write_text("somebody's")
    with _build._locked(lock):
        pass
    assert lock.read_text() == "somebody's"


def links(cache: Path) -> None:
    """A link leads into a folder that others can write to; one in circles ends."""
    real = cache.parent / "real"
    real.mkdir(mode=0o700, parents=True)
    cache.symlink_to("../" + cache.parent.name + "/real")
    target = _build.build_into_cache()
    real.chmod(0o777)
    refused(f"{real} can be written to by everybody")
    real.chmod(0o700)
    assert _build.build_into_cache() == target


def library(cache: Path) -> None:
    """A libweft in the cache that somebody else can write to."""
    tree = cache.parent / "tree"
    tree.mkdir(parents=True)
    prefix = cache / f"libweft-{_build._digest_of(tree)}"
    (prefix / "lib").mkdir(parents=True)
    (prefix / "include/weft").mkdir(parents=True)
    (prefix / "include/weft/weft.h").touch()
    for folder in (cache, prefix, prefix / "lib"):
        folder.chmod(0o700)
    made = prefix / "lib" / _build.LIBRARY
    made.touch(0o644)
    made.chmod(0o644)
    assert _build._build_tree(tree).lib == prefix / "lib"
    made.chmod(0o666)
    try:
        _build._build_tree(tree)
    except _build.BuildError as problem:
        assert f"{made} can be written to by everybody" in str(problem), problem
    else:
        raise AssertionError("a library that everybody can write to was taken")


if __name__ == "__main__":
    folder = Path(sys.argv[2]).resolve() / "above" / "cache"
    os.environ["WEFT_CACHE_DIR"] = str(folder)
    _build.tag = lambda: "tag"
    _build.find_library = lambda: _build.Library(Path("/usr/include"), Path("/usr/lib"), "test")
    _build.compile_adapter = compile_adapter
    globals()[sys.argv[1]](folder)

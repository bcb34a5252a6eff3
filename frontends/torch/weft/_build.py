# SPDX-License-Identifier: BSD-3-Clause
"""Compiling the adapter against the torch that is installed, and finding the C library for it.

The adapter is C++ against torch's own headers, so it fits one version of torch only. It is built when the package is
installed and, under another torch, once more into a cache. g++ is all that it takes.
"""

from __future__ import annotations

import fcntl
import grp
import hashlib
import os
import pwd
import re
import shlex
import shutil
import stat
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple


class BuildError(RuntimeError):
    """The adapter or the C library could not be built; the text says what to do."""


LIBRARY = "libweft.so.1"


class Library(NamedTuple):
    """Where the C library is: folders of weft/weft.h and of libweft.so.1."""

    include: Path
    lib: Path
    origin: str


# ---- Whose the cache is --------------------------------------------------------------------------------------------


def _is_own_group(gid: int) -> bool:
    """A group of this user alone, as systems make one for each user, whose umask then is 002."""
    try:
        me, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(gid)
    except KeyError:
        return False
    return gid == me.pw_gid and group.gr_name == me.pw_name and set(group.gr_mem) <= {me.pw_name}


def _refusal_of_one(path: Path) -> str | None:
    st = path.lstat()
    if st.st_uid not in (0, os.geteuid()):
        return f"{path} belongs to user {st.st_uid}, not to root or user {os.geteuid()}"
    if stat.S_ISLNK(st.st_mode) or (stat.S_ISDIR(st.st_mode) and st.st_mode & stat.S_ISVTX):
        return None
    if st.st_mode & stat.S_IWOTH or (st.st_mode & stat.S_IWGRP and not _is_own_group(st.st_gid)):
        return f"{path} can be written to by {'everybody' if st.st_mode & stat.S_IWOTH else f'group {st.st_gid}'} (chmod go-w)"
    return None


def refusal(path: Path) -> str | None:
    """Why code in the file or folder `path` is not to be loaded: it, a folder above it or a link on the way belongs to neither root
    nor this user, or others can write to it; None if nobody else could have put it there."""
    left, done, links = list(path.absolute().parts[1:]), Path("/"), 0
    while True:
        why = _refusal_of_one(done)
        if why or not left:
            return why
        name = left.pop(0)
        if name == "..":
            done = done.parent
            continue
        at = done / name
        if at.is_symlink():
            links += 1
            why = _refusal_of_one(at) if links <= 40 else f"{path}: too many symbolic links"
            if why:
                return why
            target = Path(os.readlink(at))
            if target.is_absolute():
                done, left = Path("/"), [*target.parts[1:], *left]
            else:
                left = [*target.parts, *left]
            continue
        done = at


def make_private(folder: Path) -> None:
    """Make `folder` and what is missing above it, for this user alone whatever the umask."""
    for missing in reversed([folder, *folder.parents]):
        if not missing.exists():
            missing.mkdir(mode=0o700, exist_ok=True)


# ---- The C library -------------------------------------------------------------------------------------------------


def _from_tree(tree: Path) -> Library | None:
    """A prefix (include/, lib/) or a build folder (.libs/) of weft."""
    for lib in (tree / "lib", tree / ".libs", tree / "lib64"):
        if not (lib / LIBRARY).exists():
            continue
        if (tree / "include/weft/weft.h").exists():
            return Library(tree / "include", lib, str(tree))
        makefile = tree / "Makefile"
        if makefile.exists():
            for line in makefile.read_text(errors="replace").splitlines():
                if line.startswith("abs_top_srcdir = "):
                    return Library(Path(line.split(" = ", 1)[1]) / "include", lib, str(tree))
    return None


def _from_pkg_config() -> Library | None:
    if not shutil.which("pkg-config"):
        return None
    def ask(variable: str) -> str:
        done = subprocess.run(["pkg-config", f"--variable={variable}", "weft"], capture_output=True, text=True)
        return done.stdout.strip() if done.returncode == 0 else ""
    include, lib = ask("includedir"), ask("libdir")
    if include and lib and (Path(lib) / LIBRARY).exists():
        return Library(Path(include), Path(lib), "pkg-config")
    return None


def source_tree() -> Path | None:
    """The weft tree around this package, if it still lies in one."""
    recorded = Path(__file__).with_name("_source_tree")
    candidates = [Path(__file__).resolve().parents[3]]
    if recorded.exists():
        candidates.append(Path(recorded.read_text().strip()))
    for tree in candidates:
        if (tree / "include/weft/weft.h").exists() and (tree / "configure.ac").exists():
            return tree
    return None


def _build_tree(tree: Path) -> Library:
    """Build the C library of the source tree into the cache."""
    prefix = cache_folder() / f"libweft-{_digest_of(tree)}"
    with _locked(prefix.with_suffix(".lock")):
        found = _from_tree(prefix)
        if found:
            _require_own(found.lib / LIBRARY)
            return found
        build = prefix.with_suffix(".build")
        shutil.rmtree(build, ignore_errors=True)
        build.mkdir(parents=True)
        if not (tree / "configure").exists():
            _run(["autoreconf", "-i"], tree, "generating configure (needs autoconf, automake, libtool)")
        if (tree / "config.status").exists():
            raise BuildError(f"{tree} was configured in place, so that it cannot be built elsewhere: install it "
                             "(make install), or name its folder in WEFT_TORCH_LIBRARY")
        _run([str(tree / "configure"), f"--prefix={prefix}", "--disable-static"], build, "configuring weft (needs hwloc, "
             "OpenSSL 3, jansson, xxHash)")
        _run(["make", "-s", f"-j{os.cpu_count() or 1}", "install"], build, "building weft")
        shutil.rmtree(build, ignore_errors=True)
    found = _from_tree(prefix)
    if not found:
        raise BuildError(f"building weft in {tree} left no library in {prefix}")
    return found


def find_library() -> Library:
    """The C library: $WEFT_TORCH_LIBRARY (a prefix or a build folder), this package's own, pkg-config's, or built from the
    enclosing tree."""
    named = os.environ.get("WEFT_TORCH_LIBRARY")
    if named:
        found = _from_tree(Path(named).resolve())
        if not found:
            raise BuildError(f"WEFT_TORCH_LIBRARY={named} holds no libweft.so.1 with its headers: name an installation "
                             "prefix or a build folder of weft")
        return found
    found = _from_tree(Path(__file__).parent) or _from_pkg_config()
    if found:
        return found
    tree = source_tree()
    if tree is None:
        raise BuildError("libweft was not found: install weft so that pkg-config knows it (PKG_CONFIG_PATH), or name "
                         "its prefix or build folder in WEFT_TORCH_LIBRARY")
    build = _from_tree(tree / "build")
    return build if build else _build_tree(tree)


# ---- The adapter ---------------------------------------------------------------------------------------------------


def cache_folder() -> Path:
    """$WEFT_CACHE_DIR, or weft/ in the user's cache."""
    named = os.environ.get("WEFT_CACHE_DIR")
    return Path(named) if named else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "weft"


def csrc_folder() -> Path:
    """The adapter's sources: in the package when installed, beside it in the tree."""
    inside = Path(__file__).with_name("csrc")
    return inside if inside.is_dir() else Path(__file__).resolve().parents[1] / "csrc"


def _digest_of(tree: Path) -> str:
    h = hashlib.sha256()
    for folder in ("include", "src", "plugins"):
        for f in sorted((tree / folder).rglob("*.[ch]")):
            h.update(f.read_bytes())
    return h.hexdigest()[:16]


def digest() -> str:
    """Changes when the adapter's sources do."""
    h = hashlib.sha256()
    for f in sorted(csrc_folder().glob("*.[ch]pp")):
        h.update(f.name.encode() + f.read_bytes())
    return h.hexdigest()[:16]


def tag() -> str:
    """Names what a compiled adapter fits: Python, torch, and the sources."""
    from torch import __version__ as version

    return f"{sys.implementation.cache_tag}-torch{version}-{digest()}"


def _require_own(path: Path) -> None:
    """Whoever can write to the cache runs code in every process that loads from it."""
    why = refusal(path)
    if why:
        raise BuildError(f"{why}: nothing is loaded from there. Make it your own, or name a folder that is in WEFT_CACHE_DIR")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    make_private(path.parent)
    _require_own(path.parent)
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _run(command: list[str], cwd: Path, what: str) -> None:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True)
    if done.returncode:
        lines = (done.stdout + done.stderr).splitlines()
        tail = "\n".join([line for line in lines if "error" in line][:20] or lines[-25:])
        raise BuildError(f"{what} failed:\n  {shlex.join(command)}\n{tail}")


#: What is compiled together. torch's headers take most of the time: as much for each of the sources as for all of them. So there
#: are two units: what needs no more of torch than C++, and what needs Python's headers besides.
PYTHON_SOURCES = ("module.cpp", "python.cpp")


def _units(folder: Path) -> list[Path]:
    """Files to compile: two that include all sources; with WEFT_TORCH_UNITY=0 the sources one by one."""
    sources = sorted(csrc_folder().glob("*.cpp"))
    if os.environ.get("WEFT_TORCH_UNITY") == "0":
        return sources
    made = []
    for unit, of_python in (("core", False), ("python", True)):
        made.append(folder / f"unit_{unit}.cpp")
        together = [source.name for source in sources if (source.name in PYTHON_SOURCES) == of_python]
        made[-1].write_text("".join(f'#include "{name}"\n' for name in together))
    return made


def compiler() -> list[str]:
    """$CXX, g++ or c++, with its arguments."""
    cxx = os.environ.get("CXX") or shutil.which("g++") or shutil.which("c++")
    if not cxx:
        raise BuildError("a C++ compiler is needed to build the weft adapter: install g++")
    return shlex.split(cxx)


def compile_flags(library: Library) -> list[str]:
    """For every source: torch's headers, and the protection that the C library is built with."""
    import torch
    from torch.utils import cpp_extension

    named = shlex.split(os.environ.get("WEFT_TORCH_CXXFLAGS", "-O2"))
    hardening = []
    if not any(flag.startswith("-fsanitize") for flag in named):  # sanitizers do it better
        hardening.append("-fstack-protector-strong")
        if any(re.fullmatch("-O[1-3s]", flag) for flag in named):
            hardening += ["-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=3"]
    return [
        "-std=c++20", *named, *hardening, "-fPIC", "-fvisibility=hidden", "-Wall",
        f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}", "-DTORCH_API_INCLUDE_EXTENSION_H",
        "-DTORCH_EXTENSION_NAME=_C",
        *(f"-isystem{p}" for p in cpp_extension.include_paths()),
        f"-isystem{sysconfig.get_paths()['include']}", f"-I{library.include}", f"-I{csrc_folder()}",
    ]


def link_flags(library: Library, search: str) -> list[str]:
    """torch's libraries are not searched for: torch is loaded before the adapter, so that the loader knows them by name."""
    import torch

    sanitizers = [flag for flag in shlex.split(os.environ.get("WEFT_TORCH_CXXFLAGS", "")) if flag.startswith("-fsanitize")]
    return [
        *sanitizers, "-Wl,-z,relro", "-Wl,-z,now",
        f"-L{library.lib}", f"-l:{LIBRARY}", f"-Wl,-rpath,{search}",
        f"-L{Path(torch.__file__).parent / 'lib'}", "-lc10", "-ltorch_cpu",
    ]


def compile_units(folder: Path, units: list[Path], flags: list[str], what: str) -> list[str]:
    """Compile the files into objects in `folder`, $MAX_JOBS at a time, or as many as there are processors."""
    cxx = compiler()
    objects = [folder / f"{unit.stem}.o" for unit in units]

    def one(unit: Path, made: Path) -> None:
        _run([*cxx, *flags, "-c", str(unit), "-o", str(made)], folder, what)

    jobs = os.environ.get("MAX_JOBS", "")
    with ThreadPoolExecutor(int(jobs) if jobs.isdigit() and int(jobs) > 0 else os.cpu_count() or 1) as pool:
        for done in [pool.submit(one, unit, made) for unit, made in zip(units, objects, strict=True)]:
            done.result()
    return [str(made) for made in objects]


def compile_adapter(target: Path, library: Library, search: str) -> None:
    """Compile the adapter for the running Python and torch into the file `target`; it will look for libweft in `search`."""
    import torch

    make_private(target.parent)
    made = target.with_name(f".{target.name}.{os.getpid()}.so")
    what = f"compiling the weft adapter for torch {torch.__version__}"
    try:
        with tempfile.TemporaryDirectory(prefix="weft-torch-") as name:
            folder = Path(name)
            objects = compile_units(folder, _units(folder), compile_flags(library), what)
            _run([*compiler(), "-shared", *objects, "-o", str(made), *link_flags(library, search), "-ltorch", "-ltorch_python"],
                 folder, what)
        made.chmod(0o755)
        made.replace(target)
    finally:
        made.unlink(missing_ok=True)


def build_into_cache() -> Path:
    """The adapter for this torch, from the cache, or compiled into it. One process compiles, others wait."""
    library = find_library()
    key = hashlib.sha256(str(library.lib).encode()).hexdigest()[:8]
    target = cache_folder() / f"{tag()}-{key}" / f"_C{sysconfig.get_config_var('EXT_SUFFIX')}"
    with _locked(target.parent.with_suffix(".lock")):
        if not target.exists():
            compile_adapter(target, library, str(library.lib))
        _require_own(target)
    return target

# SPDX-License-Identifier: BSD-3-Clause
"""Makes the wheel for pip (PEP 517), with the adapter compiled for the torch that is installed, and the C library.

It needs nothing but Python's own library: neither setuptools nor a network. pip runs it in an environment of its own, without
torch, unless --no-build-isolation is given; so the compiler is run from a Python that has the environment pip installs into.
Where there is no torch either, the wheel has the sources alone, and the adapter is compiled at first use.

The wheel holds what it needs of weft: lib/libweft.so.1, which the adapter finds beside itself ($ORIGIN/lib),
lib/libweft_zero.so.0, which weft.zero opens, and their headers, against which the adapter is compiled again under another
torch. torch's own libraries are found because torch is imported first. What libweft needs of the system (hwloc, OpenSSL,
jansson, expat) is not in it: `make-wheel`, beside this file, adds that for other machines. Plugins are not in it either: the
codec lossless needs the library to be installed. WEFT_TORCH_BUNDLE=0 leaves the library out and lets the adapter refer to it
where it is, for work on the library.
"""

import base64
import hashlib
import os
import re
import struct
import subprocess
import sys
import sysconfig
import tempfile
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
NAME = "weft_torch"
VERSION = re.search(r'^__version__ = "([^"]+)"$', (HERE / "weft/__init__.py").read_text(), re.M).group(1)
BUNDLE = os.environ.get("WEFT_TORCH_BUNDLE", "1") not in ("0", "n", "no", "off", "false")

METADATA = f"""Metadata-Version: 2.1
Name: weft-torch
Version: {VERSION}
Summary: weft as a backend of torch.distributed
License: BSD-3-Clause
License-File: LICENSE
Requires-Python: >=3.10
Requires-Dist: torch>=2.10
Description-Content-Type: text/markdown

"""
ENTRY_POINTS = "[torch.backends]\nweft = weft:_autoload\n"

COMPILE = """
import importlib.util, sys
from pathlib import Path
try:
    import torch
except ImportError:
    sys.exit(3)
spec = importlib.util.spec_from_file_location("weft_build", sys.argv[1])
build = importlib.util.module_from_spec(spec)
sys.modules["weft_build"] = build
spec.loader.exec_module(build)
try:
    library = build.find_library()
    build.compile_adapter(Path(sys.argv[2]), library, "$ORIGIN/lib" if sys.argv[3] == "bundle" else str(library.lib))
except build.BuildError as problem:
    sys.exit(f"weft: {problem}")
print(f"weft: libweft from {library.origin}", file=sys.stderr)
print(library.include)
print(library.lib)
print(build.tag())
"""


def _search_beside(library):
    """The bytes of a library, which looks for others in its own folder instead of where it was built (ELF of 64 bits)."""
    image = bytearray(library)
    if image[:6] != b"\x7fELF\x02\x01":
        return library
    first, size, count = struct.unpack_from("<Q", image, 0x20)[0], *struct.unpack_from("<HH", image, 0x36)
    headers = [struct.unpack_from("<II6Q", image, first + i * size) for i in range(count)]
    loaded = [(virtual, offset, length) for kind, _, offset, virtual, _, length, *_ in headers if kind == 1]
    dynamic = next(((offset, length) for kind, _, offset, _, _, length, *_ in headers if kind == 2), (0, 0))
    entries = [struct.unpack_from("<QQ", image, dynamic[0] + at) for at in range(0, dynamic[1], 16)]
    strings = next((value for tag, value in entries if tag == 5), 0)
    for tag, value in entries:
        if tag not in (15, 29):  # DT_RPATH, DT_RUNPATH
            continue
        start = next(offset + strings + value - virtual for virtual, offset, n in loaded if 0 <= strings + value - virtual < n)
        length = image.index(0, start) - start
        image[start : start + length] = (b"$ORIGIN" if length >= 7 else b"").ljust(length, b"\0")
    return bytes(image)


def _compile(folder):
    """What depends on the torch that is installed: members of the wheel below weft/; nothing where there is no torch."""
    target = folder / f"_C{sysconfig.get_config_var('EXT_SUFFIX')}"
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONNOUSERSITE")}
    environment["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
    done = subprocess.run(
        [sys.executable, "-c", COMPILE, str(HERE / "weft/_build.py"), str(target), "bundle" if BUNDLE else "link"],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
    )
    if done.returncode == 3:
        print("weft: torch is not installed; the adapter will be compiled at first use", file=sys.stderr)
        return {}
    if done.returncode:
        raise SystemExit("weft: the adapter could not be compiled; see above")
    include, lib, tag = done.stdout.splitlines()[-3:]
    members = {target.name: target.read_bytes(), "_C.tag": f"{tag}\n".encode()}
    if BUNDLE:
        without = "the codec lossless needs the library to be installed, or WEFT_PLUGIN_PATH"
        print(f"weft: the wheel holds no plugins: {without}", file=sys.stderr)
        for name in ("libweft.so.1", "libweft_zero.so.0"):
            if not (Path(lib) / name).exists():
                raise SystemExit(f"weft: there is no {name} in {lib}: build it (make), or install all of weft (make install)")
            members[f"lib/{name}"] = _search_beside((Path(lib) / name).read_bytes())
        for header in ("weft.h", "weft_types.h", "weft_compress.h", "weft_zero.h"):
            members[f"include/weft/{header}"] = (Path(include) / "weft" / header).read_bytes()
    return members


def _wheel_name(compiled):
    python = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
    return f"{python}-{python}-{platform}" if compiled else "py3-none-any"


class _Wheel:
    """A zip file that keeps the list of its members."""

    def __init__(self, path):
        self.zip = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED)
        self.rows = []

    def add(self, name, data):
        data = data.encode() if isinstance(data, str) else data
        info = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))
        info.external_attr = (0o755 if name.endswith((".so", ".so.0")) else 0o644) << 16
        info.compress_type = zipfile.ZIP_DEFLATED
        self.zip.writestr(info, data)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        self.rows.append(f"{name},sha256={digest},{len(data)}")

    def close(self, record):
        self.rows.append(f"{record},,")
        self.zip.writestr(record, "\n".join(self.rows) + "\n")
        self.zip.close()


def _license():
    """Beside this file in a source distribution, else at the top of the tree."""
    beside = HERE / "LICENSE"
    return beside if beside.exists() else HERE.parents[1] / "LICENSE"


def _dist_info(compiled):
    wheel = f"Wheel-Version: 1.0\nGenerator: weft\nRoot-Is-Purelib: {'false' if compiled else 'true'}\n"
    return {
        "METADATA": METADATA + (HERE / "README.md").read_text(),
        "WHEEL": f"{wheel}Tag: {_wheel_name(compiled)}\n",
        "entry_points.txt": ENTRY_POINTS,
        "LICENSE": _license().read_text(),
    }


def _write(directory, files, compiled):
    name = f"{NAME}-{VERSION}-{_wheel_name(compiled)}.whl"
    info = f"{NAME}-{VERSION}.dist-info"
    wheel = _Wheel(Path(directory) / name)
    for target, data in files.items():
        wheel.add(target, data)
    for target, data in _dist_info(compiled).items():
        wheel.add(f"{info}/{target}", data)
    wheel.close(f"{info}/RECORD")
    return name


# ---- What pip calls ----


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """Python files, the adapter's sources (for a later rebuild), the compiled adapter and the library."""
    package = [f for f in sorted((HERE / "weft").rglob("*")) if f.suffix in (".py", ".pyi") or f.name == "py.typed"]
    files = {str(f.relative_to(HERE)): f.read_bytes() for f in package}
    files |= {f"weft/csrc/{f.name}": f.read_bytes() for f in sorted((HERE / "csrc").glob("*.[ch]pp"))}
    with tempfile.TemporaryDirectory() as folder:
        compiled = _compile(Path(folder))
        files |= {f"weft/{name}": data for name, data in compiled.items()}
        if not compiled:  # compiled at first use, against the library of the tree that this was made from
            files["weft/_source_tree"] = f"{HERE.parents[1]}\n".encode()
        return _write(wheel_directory, files, bool(compiled))


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    """pip install -e: a link to this folder; the adapter is compiled into the cache."""
    return _write(wheel_directory, {"weft_torch.pth": f"{HERE}\n".encode()}, False)


def build_sdist(sdist_directory, config_settings=None):
    """The sources of this folder."""
    import tarfile

    name = f"{NAME}-{VERSION}"
    with tarfile.open(Path(sdist_directory) / f"{name}.tar.gz", "w:gz") as tar:
        for entry in ("pyproject.toml", "wheel_backend.py", "README.md", "csrc", "weft"):
            tar.add(HERE / entry, f"{name}/{entry}", filter=lambda t: None if "__pycache__" in t.name else t)
        tar.add(_license(), f"{name}/LICENSE")
        with tempfile.TemporaryDirectory() as folder:
            info = Path(folder) / "PKG-INFO"
            info.write_text(METADATA)
            tar.add(info, f"{name}/PKG-INFO")
    return f"{name}.tar.gz"

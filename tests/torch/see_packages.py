# SPDX-License-Identifier: BSD-3-Clause
"""Make another Python, that of a new virtual environment, see the packages of the one that runs this, after its own.

    PYTHON see_packages.py VENV/bin/python

--system-site-packages would show it those of the system's Python, which is another one where PYTHON is of a virtual environment.
"""

import os
import subprocess
import sys


def main() -> None:
    """Write a .pth file that adds each folder of packages, with the .pth files in it."""
    folders = [p for p in sys.path if os.path.basename(p) in ("site-packages", "dist-packages") and os.path.isdir(p)]
    ask = "import sysconfig; print(sysconfig.get_path('purelib'))"
    target = subprocess.run([sys.argv[1], "-c", ask], capture_output=True, text=True, check=True, timeout=60).stdout.strip()
    with open(os.path.join(target, "zz_packages_of_the_parent.pth"), "w", encoding="utf-8") as out:
        for folder in folders:
            out.write(f"import site; site.addsitedir({folder!r})\n")


if __name__ == "__main__":
    main()

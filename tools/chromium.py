"""`python -m tools.chromium`: a Chromium for the browser tests. One on PATH is used; otherwise it is installed.

Only a package manager of the system is asked, and only by root. Nobody else's machine is changed: they are told what to
do.
"""

import os
import shutil
import subprocess
import sys

NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
INSTALL = ("apt-get", "install", "--yes", "--no-install-recommends", "chromium")


def find_chromium() -> str | None:
    return next((path for name in NAMES if (path := shutil.which(name))), None)


def main() -> int:
    if find_chromium() is not None:
        return 0
    if shutil.which("apt-get") is not None and hasattr(os, "geteuid") and os.geteuid() == 0:
        print("Chromium is missing and is installed:", " ".join(INSTALL), flush=True)
        quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        subprocess.run(("apt-get", "update", "--quiet"), env=quiet, check=False)
        if subprocess.run(INSTALL, env=quiet, check=False).returncode == 0 and find_chromium() is not None:
            return 0
    print(
        f"These tests need Chromium: put one of {', '.join(NAMES)} on PATH. On Debian and Ubuntu: "
        f"sudo {' '.join(INSTALL)}",
        file=sys.stderr,
    )
    return 1


if __name__ == "__main__":
    sys.exit(main())

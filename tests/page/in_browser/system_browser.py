"""Find the browser of this machine; nothing is downloaded. As a program it prints the path.

``chromium-headless-shell`` of Debian, else ``chromium``; AOS_CHROMIUM names another program.
"""

from __future__ import annotations

import os
import shutil
import sys

PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")


def system_browser() -> str | None:
    """The path of the browser; None if there is none."""
    named = os.environ.get("AOS_CHROMIUM")
    if named:
        return shutil.which(named)
    return next((found for each in PROGRAMS if (found := shutil.which(each))), None)


if __name__ == "__main__":
    found = system_browser()
    if found is None:
        sys.exit(
            "make browser: no Chromium was found on the PATH.\nInstall it (on Debian `apt-get "
            "install chromium-headless-shell`), or name another program in AOS_CHROMIUM."
        )
    sys.stdout.write(f"{found}\n")

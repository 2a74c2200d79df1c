"""Compile the files that are named, in the current folder: ``python extensions.py FILE...``."""

import sys

from mypyc.build import mypycify
from setuptools import setup

if __name__ == "__main__":
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    options = ["--config-file=", f"--python-version={version}", "--follow-untyped-imports"]
    files = sys.argv[1:]
    setup(
        name="aos",
        packages=[],
        script_args=["build_ext", "--inplace"],
        ext_modules=mypycify([*options, *files], opt_level="2", group_name="aos"),
    )

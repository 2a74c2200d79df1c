"""Projects and compilers that are not there: programs that behave as rustc, cargo, node and npm do.

The fake cargo makes the puppet of ``modules/puppet`` out of every crate, with the lines of its
``src/lib.rs`` as the section ``aos.air``. So a test writes what the SDK would have written.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from aos.author.project import Project, read_project
from tests.host import puppet

ROOT: Final = Path(__file__).parents[2]
HOST: Final = "x86_64-fake-linux-gnu"
PUPPET: Final = "host/puppet@1"
DO: Final = "host/Do@1"

PYTHON: Final = f"{sys.executable} -IS"
"""Starts in a quarter of the time, without site-packages and environment."""

RUSTC: Final = f"""#!/bin/sh
case "$*" in
-vV) printf 'rustc 1.99.0 (fake)\\nhost: {HOST}\\n' ;;
"--print sysroot") echo "$(cd "${{0%/*}}/.." && pwd -P)/sysroot" ;;
esac
"""

CARGO: Final = f"""#!{PYTHON}
import json, os, pathlib, sys, time
words = sys.argv[1:]
if words == ["-V"]:
    print("cargo 1.99.0 (fake)")
    raise SystemExit
if any(word.startswith("-Zbuild-std") for word in words):
    deps = pathlib.Path(words[words.index("--target-dir") + 1]) / words[3] / "release" / "deps"
    deps.mkdir(parents=True)
    for name in ("core", "alloc", "compiler_builtins", "other"):
        (deps / f"lib{{name}}-1.rlib").write_text(name)
    here = pathlib.Path(__file__).resolve().parents[1]
    (here / "std-builds").open("a").write(os.environ["RUSTC_BOOTSTRAP"] + "\\n")
    raise SystemExit(7 if (here / "std-is-broken").exists() else 0)
folder = pathlib.Path.cwd()
(folder / "cargo-calls.jsonl").open("a").write(json.dumps(
    {{"words": words, "flags": os.environ["CARGO_ENCODED_RUSTFLAGS"].split("\\x1f"),
      "foreign": [name for name, value in os.environ.items() if value == "evil"],
      "bootstrap": os.environ.get("RUSTC_BOOTSTRAP"), "rustc": os.environ["RUSTC"],
      "wrapper": os.environ.get("RUSTC_WRAPPER"),
      "remapping": os.environ.get("AOS_REMAPPING", "").split("\\x1f")}}) + "\\n")
target = pathlib.Path(words[words.index("--target-dir") + 1])
packages = [words[i + 1] for i, word in enumerate(words) if word == "--package"]
for manifest in sorted(folder.rglob("Cargo.toml")):
    name = next((n for n in packages if f'name = "{{n}}"' in manifest.read_text()), None)
    if name is None:
        continue
    source = (manifest.parent / "src/lib.rs").read_bytes()
    if b"takes for ever" in source:
        (folder / "compiling").write_text(str(os.getpid()))
        time.sleep(600)
    if b"not rust" in source:
        sys.stderr.write("error: expected item, found `not`\\n --> src/lib.rs:1:1\\n")
        raise SystemExit(101)
    def number(n):
        out = b""
        while n > 127:
            out, n = out + bytes([n & 127 | 128]), n >> 7
        return out + bytes([n])
    content = number(7) + b"aos.air" + source
    own = manifest.parent / "own.wasm"
    wasm = (own if own.exists() else pathlib.Path({str(puppet.WASM)!r})).read_bytes()
    wasm += b"\\0" + number(len(content)) + content
    made = target / (name + ".wasm")
    made.parent.mkdir(parents=True, exist_ok=True)
    made.write_bytes(wasm)
    print(json.dumps({{"reason": "compiler-artifact", "manifest_path": str(manifest),
                      "target": {{"crate_types": ["cdylib" if "cdylib" in manifest.read_text()
                                                  else "lib"]}}, "filenames": [str(made)]}}))
"""


def program(file: Path, text: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    file.chmod(0o755)
    return file


def toolchain(folder: Path, *, has_target: bool = True, has_sources: bool = False) -> Path:
    """A Rust toolchain; return the folder for the PATH."""
    program(folder / "bin/rustc", RUSTC)
    program(folder / "bin/cargo", CARGO)
    rustlib = folder / "sysroot/lib/rustlib"
    (rustlib / HOST / "bin").mkdir(parents=True)
    if has_target:
        (rustlib / "wasm32-unknown-unknown/lib").mkdir(parents=True)
        (rustlib / "wasm32-unknown-unknown/lib/libcore-1.rlib").touch()
        (rustlib / HOST / "bin/rust-lld").touch()
    if has_sources:
        (rustlib / "src/rust/library/core/src").mkdir(parents=True)
        (rustlib / "src/rust/library/core/src/lib.rs").touch()
        program(folder / "bin/wasm-ld", "#!/bin/sh\necho LLD 99\n")
    return folder / "bin"


def calls(project: Path) -> list[Any]:
    """How cargo was called, in order."""
    return [json.loads(line) for line in (project / "cargo-calls.jsonl").read_text().splitlines()]


def nodes(*, version: int = 1) -> list[dict[str, Any]]:
    """The nodes that the SDK would write for the puppet: no manifest, no path, its own route."""
    [air] = [
        json.loads(data) for name, data in puppet.files(version=version).items() if ".air." in name
    ]
    found = []
    for node in air:
        if node["$kind"] == "manifest":
            routes = node["routing"]["subscriptions"]
            found += [{"$kind": "subscription", **each} for each in routes]
            continue
        if node["$kind"] == "defmodule":
            node["runtime"]["artifact"].pop("path")
        found.append(node)
    return found


def source(found: Iterable[Mapping[str, Any]]) -> str:
    return "".join(json.dumps(each) + "\n" for each in found)


EFFECTS: Final = """
from aos.worker import Executors, effect

@effect("host/echo@1")
def echo(params, ctx):
    return {"word": params["word"] + "!"}

echoes = Executors("echoes", [echo])
"""


def crate(folder: Path, name: str, text: str) -> None:
    (folder / "src").mkdir(parents=True)
    (folder / "Cargo.toml").write_text(
        f'[package]\nname = "{name}"\n[lib]\ncrate-type = ["cdylib"]\n'
    )
    (folder / "src/lib.rs").write_text(text)


def project(folder: Path, *, more: str = "", version: int = 1) -> Project:
    """A project in Rust whose module is the puppet."""
    folder.mkdir(parents=True)
    (folder / "aos.toml").write_text(
        '[project]\nname = "shop"\nlang = "rust"\nexecutors = ["effects.py:echoes"]\n' + more
    )
    crate(folder, "shop", source(nodes(version=version)))
    (folder / "effects.py").write_text(EFFECTS)
    return read_project(folder)


def path(*folders: Path) -> str:
    """A PATH of these alone."""
    return os.pathsep.join(map(str, folders))


NODE: Final = f"""#!{PYTHON}
import json, pathlib, sys
words = sys.argv[1:]
folder = pathlib.Path.cwd()
(folder / "asc-calls.jsonl").open("a").write(json.dumps(words) + "\\n")
source = (folder / words[1]).read_text()
if "not typescript" in source:
    sys.stderr.write("ERROR TS1003: Identifier expected.\\n")
    raise SystemExit(1)
pathlib.Path(words[words.index("--outFile") + 1]).write_bytes(
    pathlib.Path({str(puppet.WASM)!r}).read_bytes())
"""

NPM: Final = f"""#!{PYTHON}
import pathlib, sys
folder = pathlib.Path.cwd()
with (folder / "npm-calls").open("a") as calls:
    calls.write(" ".join(sys.argv[1:2]) + "\\n")
if "broken" in (folder / "package-lock.json").read_text():
    sys.stderr.write("npm error: no such package\\n")
    raise SystemExit(1)
asc = folder / "node_modules/assemblyscript/bin/asc.js"
if "assemblyscript" in (folder / "package.json").read_text():
    asc.parent.mkdir(parents=True, exist_ok=True)
    asc.touch()
"""


def node(folder: Path, *, has_npm: bool = True) -> Path:
    """Node.js with an AssemblyScript compiler; return the folder for the PATH."""
    program(folder / "node", NODE)
    if has_npm:
        program(folder / "npm", NPM)
    return folder


def script_project(folder: Path) -> Project:
    """A project in AssemblyScript whose module is the puppet."""
    (folder / "air").mkdir(parents=True)
    (folder / "assembly").mkdir()
    (folder / "aos.toml").write_text(
        '[project]\nname = "shop"\nlang = "assemblyscript"\n'
        "[[manifest.routing.subscriptions]]\n"
        f'event = "{DO}"\nworkflow = "{PUPPET}"\nkey_field = "key"\n'
    )
    (folder / "assembly/index.ts").write_text("export const one = 1;\n")
    (folder / "package.json").write_text('{"devDependencies": {"assemblyscript": "0.28.20"}}\n')
    (folder / "package-lock.json").write_text("{}\n")
    air = [each for each in nodes() if each["$kind"] != "subscription"]
    for each in air:
        if each["$kind"] == "defmodule":
            each["runtime"]["artifact"]["path"] = "../build/shop.wasm"
    (folder / "air/shop.air.json").write_text(json.dumps(air))
    return read_project(folder)

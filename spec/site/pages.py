"""Collect the pages of the site, and write its configuration.

    .venv/bin/python -m spec.site.pages build       build/site-pages and build/site-pages.yml

MkDocs then makes ``build/site`` of them (``make docs``). The pages keep their folders, so that the
links between them are those of the repository.
"""

from __future__ import annotations

import fnmatch
import json
import os
import posixpath
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

from spec.site.commands import FOLDER, command_pages
from spec.site.dialect import DEFINED, Links, anchor, converted

ROOT: Final = Path(__file__).parents[2]
SITE: Final = Path(__file__).parent

Group: TypeAlias = "Sequence[str] | Mapping[str, Group]"

NAVIGATION: Final[Mapping[str, Group]] = {
    "Start": ("README.md", "spec/concepts.md", "spec/glossary.md"),
    "Guides": (
        "spec/guides/deploy.md",
        "spec/guides/operate.md",
        "spec/guides/monitor.md",
        "spec/guides/backup.md",
        "spec/guides/languages.md",
        "spec/guides/integrate.md",
        "spec/changing.md",
        "spec/guides/govern.md",
        "spec/guides/statuses.md",
        "spec/guides/limits.md",
        "spec/guides/clock.md",
        "spec/guides/from_agentos.md",
        "spec/guides/*",
        "spec/extending.md",
    ),
    "Tutorials": (
        "modules/sdk-rust/TUTORIAL.md",
        "modules/sdk-assemblyscript/TUTORIAL.md",
        "modules/pyflow/TUTORIAL.md",
        "modules/sdk-rust/FLOW.md",
        "manifests/cookbook/linear/TUTORIAL.md",
    ),
    "Cookbook": ("manifests/cookbook/README.md", "manifests/cookbook/*"),
    "SDKs": (
        "modules/sdk-rust/README.md",
        "modules/sdk-assemblyscript/README.md",
        "spec/authoring.md",
        "spec/testing.md",
        "modules/sdk-*",
    ),
    "Commands": (f"{FOLDER}/README.md", f"{FOLDER}/*"),
    "Worlds": ("manifests/*", "modules/*"),
    "Design": ("ARCHITECTURE.md", "CONTRIBUTING.md", "spec/decisions.md", "spec/simulation.md"),
    "Rules": {
        "Kernel": (
            "spec/kernel.md",
            "spec/core.md",
            "spec/values.md",
            "spec/journal.md",
            "spec/state.md",
            "spec/sandbox.md",
            "spec/store.md",
            "spec/host.md",
        ),
        "Definitions": (
            "spec/manifest.md",
            "spec/sdk.md",
            "spec/flow.md",
            "spec/pyflow.md",
            "spec/python-flows.md",
            "spec/linear.md",
            "spec/schedule.md",
            "spec/sealed.md",
            "spec/agentos.md",
        ),
        "Effects": ("spec/executors.md", "spec/worker.md", "spec/evm.md", "spec/arweave.md"),
        "Operation": (
            "spec/cli.md",
            "spec/page.md",
            "spec/node*",
            "spec/worlds.md",
            "spec/groups.md",
            "spec/world-send.md",
            "spec/cluster.md",
            "spec/log.md",
            "spec/batch.md",
        ),
        "Reading and proof": (
            "spec/audit.md",
            "spec/search.md",
            "spec/index.md",
            "spec/governance.md",
            "spec/shadow.md",
            "spec/proofs.md",
            "spec/bundle.md",
            "spec/exports.md",
        ),
        "More": ("spec/*",),
    },
}
"""Groups of pages. A pattern takes every page that no other entry names, so a new page of spec/ or
of the cookbook is on the site without an edit. A page that does not exist is left out."""

FOLDERS: Final = ("spec", "modules", "manifests")
SKIPPED: Final = frozenset({"node_modules", "target", "dist", "build", "site", "__pycache__"})
ASSETS: Final = ("iframe-worker.js", "site.css")
COPIED: Final = frozenset({".png", ".svg"})
"""Suffixes of files that a browser shows. Other files that a page links to are pages of code."""

RUSTDOC: Final = re.compile(r"[A-Z]\w*")
"""A link to a type: the page is also the first page of a crate's documentation."""

LANGUAGES: Final = {
    ".rs": "rust", ".ts": "ts", ".mjs": "js", ".py": "python", ".json": "json", ".toml": "toml",
}  # fmt: skip


def main(arguments: Sequence[str]) -> int:
    [build] = arguments
    Site(Path(build)).write()
    return 0


class Site:
    """The pages below ``build/site-pages``, and the configuration next to them."""

    def __init__(self, build: Path) -> None:
        self._build = build
        self._pages = build / "site-pages"
        self._sources = {path: (ROOT / path).read_text("utf-8") for path in repository_pages()}
        self._rules = rules_of(self._sources)
        self._files = set[str]()

    def write(self) -> None:
        shutil.rmtree(self._pages, ignore_errors=True)
        for path, text in self._sources.items():
            self._put(path, converted(text, self._links(path)))
        commands = {f"{FOLDER}/{name}": text for name, text in command_pages().items()}
        for path, text in commands.items():
            self._put(path, text)
        for path in sorted(self._files):
            self._put_file(path)
        for name in ASSETS:
            self._put(f"assets/{name}", (SITE / name).read_text("utf-8"))
        configuration = {
            "INHERIT": os.path.relpath(SITE / "mkdocs.yml", self._build),
            "docs_dir": self._pages.name,
            "site_dir": "site",
            "nav": navigation([*self._sources, *commands]),
        }
        # Each document in JSON is one in YAML.
        file = self._build / f"{self._pages.name}.yml"
        file.write_text(json.dumps(configuration, indent=1), encoding="utf-8")

    def _put(self, path: str, text: str) -> None:
        file = self._pages / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def _put_file(self, path: str) -> None:
        """A file that a page links to: an image as it is, anything else as a page of code."""
        source = ROOT / path
        if source.suffix in COPIED:
            target = self._pages / path
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, target)
            return
        language = LANGUAGES.get(source.suffix, "text")
        self._put(
            f"{path}.md",
            f"---\nsearch:\n  exclude: true\n---\n\n# {source.name}\n\n`{path}`\n\n"
            f"``````{language}\n{source.read_text('utf-8')}\n``````\n",
        )

    def _links(self, page: str) -> Links:
        folder = posixpath.dirname(page)

        def seen(path: str) -> str:
            return posixpath.relpath(path, folder or ".")

        def named(code: str) -> str | None:
            path = posixpath.normpath(posixpath.join(folder, code))
            return seen(path) if code.endswith(".md") and path in self._sources else None

        def target(address: str) -> str | None:
            if "://" in address or address.startswith("#"):
                return address
            link, _, part = address.partition("#")
            path = posixpath.normpath(posixpath.join(folder, link))
            if RUSTDOC.fullmatch(link):
                return None
            if (ROOT / path).is_dir():
                path = f"{path}/README.md"
                if path not in self._sources:
                    return None
            elif path not in self._sources and (ROOT / path).is_file():
                self._files.add(path)
                path = path if Path(path).suffix in COPIED else f"{path}.md"
            return f"{seen(path)}#{part}" if part else seen(path)

        rules = {
            rule: f"#{anchor(rule)}" if path == page else f"{seen(path)}#{anchor(rule)}"
            for rule, path in self._rules.items()
        }
        return Links(rules=rules, named=named, target=target)


def repository_pages() -> Iterator[str]:
    """The Markdown files of the site, as paths from the root."""
    yield from ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md")
    for top in FOLDERS:
        for folder, below, names in os.walk(ROOT / top):
            below[:] = sorted(set(below) - SKIPPED)
            for name in sorted(names):
                if name.endswith(".md"):
                    yield (Path(folder) / name).relative_to(ROOT).as_posix()


def rules_of(sources: Mapping[str, str]) -> dict[str, str]:
    """Each rule -> the page of spec/ that specifies it."""
    return {
        match[1]: path
        for path, text in sources.items()
        if path.startswith("spec/")
        for match in DEFINED.finditer(text)
    }


def navigation(pages: Sequence[str]) -> list[Any]:
    """The value of ``nav``: groups with their pages, each page once."""
    named = {path for path in _entries(NAVIGATION) if not path.endswith("*")}
    unplaced = [path for path in pages if path not in named]

    def filled(group: Group) -> list[Any]:
        if isinstance(group, Mapping):
            parts = ({name: filled(part)} for name, part in group.items())
            return [part for part in parts if any(part.values())]
        paths = list[str]()
        for entry in group:
            if entry.endswith("*"):
                matching = [path for path in unplaced if fnmatch.fnmatchcase(path, entry)]
                unplaced[:] = [path for path in unplaced if path not in matching]
                paths += matching
            elif entry in pages:
                paths.append(entry)
        return paths

    groups = filled(NAVIGATION)
    if unplaced:
        raise ValueError(f"no group of NAVIGATION in spec/site/pages.py has {unplaced}")
    return groups


def _entries(group: Group) -> Iterator[str]:
    if isinstance(group, Mapping):
        for part in group.values():
            yield from _entries(part)
    else:
        yield from group


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""One word per idea, and names that say what they hold."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

AOS = Path(__file__).parents[1] / "kernel" / "aos"

PARALLELS = {
    "Cell",  # the core's, and what a test sees of one
    "Client",  # of a node, and of the hosts that an effect may reach
    "Effect",  # a manifest's, and one that a test answers
    "Emitted",  # the core's, and what a test sees of one
    "Retry",  # of a plan step: try again; and of a step of a flow: how often
    "Timeout",  # a failure of a flow, and the answer of an effect in a test
    "Problem",  # of a manifest, and of a request: why it is refused
}


def test_no_two_public_classes_have_the_same_name() -> None:
    homes: dict[str, list[str]] = {}
    for path in AOS.rglob("*.py"):
        if "templates" not in path.parts:
            for node in ast.parse(path.read_text("utf-8")).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    homes.setdefault(node.name, []).append(str(path.relative_to(AOS)))

    assert {name for name, paths in homes.items() if len(paths) > 1} <= PARALLELS, homes


def test_no_module_name_is_in_more_than_two_packages() -> None:
    """Each package has its ``errors``; any other name says more about one of them."""
    packages: dict[str, set[str]] = {}
    for path in AOS.rglob("*.py"):
        if "templates" not in path.parts and path.stem not in ("__init__", "errors"):
            packages.setdefault(path.stem, set()).add(path.relative_to(AOS).parts[0])

    assert {name: found for name, found in packages.items() if len(found) > 2} == {}


EMPTY_NAMES = frozenset(
    """about after again asked before both called came chosen come done each found gave given gone
    got had happened heard held here how inside it kept known left listed looked made meant mine
    more most named needed once one ones opened other others ours own picked place places rest said
    says seen shown spelled spoken taken that theirs them there these thing things this those told
    took tried used wanted what when where which who whole whom whose why wished wrong""".split()  # noqa: SIM905  # as words they are read and sorted
)
"""Names that do not say what they hold: participles, pronouns and questions."""

EMPTY_NAMES_MAX = 0.01
"""Of the names that a package binds: fields of documents, such as ``where``, keep their name."""

EMPTY_NAMES_MAX_OF = {"client": 0.015}  # its parameters are those of the node's requests


def test_names_say_what_they_hold() -> None:
    root = AOS.parents[1]
    packages = [
        *(path for path in AOS.iterdir() if path.is_dir()),
        root / "cli",
        root / "manifests" / "gateway" / "aos_gateway",
    ]
    for package in packages:
        names = Counter(
            name.lstrip("_").lower()
            for path in package.rglob("*.py")
            if "templates" not in path.parts
            for name in bound_names(ast.parse(path.read_text("utf-8")))
        )
        empty = {name: count for name, count in names.items() if name in EMPTY_NAMES}

        share_max = EMPTY_NAMES_MAX_OF.get(package.name, EMPTY_NAMES_MAX)

        assert sum(empty.values()) <= share_max * names.total(), (package.name, empty)


def bound_names(tree: ast.Module) -> Iterator[str]:
    """Variables, parameters, attributes, functions and classes, once for each place that binds."""
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name
            case ast.arg(arg=name):
                yield name
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name
            case ast.ClassDef(name=name):
                yield name
            case ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield name
            case ast.MatchMapping(rest=str(name)) | ast.ExceptHandler(name=str(name)):
                yield name

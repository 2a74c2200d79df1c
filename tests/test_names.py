"""One word per idea: a public class or a module has a name of its own."""

from __future__ import annotations

import ast
from pathlib import Path

AOS = Path(__file__).parents[1] / "kernel" / "aos"

PARALLELS = {
    "Cell",  # the core's, and what a test sees of one
    "Client",  # of a node, and of the hosts that an effect may reach
    "Effect",  # a manifest's, and one that a test answers
    "Emitted",  # the core's, and what a test sees of one
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

"""Public docstrings have a floor in each package, and code cites the rules that it implements.

Public is each module, and in it each class, function and method, if neither its name nor that of
its class begins with an underscore. A name is documented by a docstring of its own; a method also
by the docstring of the method that it implements, if its class names the other class as a base or
the protocol in its docstring; a property also by the docstring of its class, if that quotes it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
AOS = ROOT / "kernel" / "aos"
GATEWAY = ROOT / "manifests" / "gateway" / "aos_gateway"
SPEC = ROOT / "spec"
TEMPLATES = Path("author", "templates")
"""Files of the projects that ``aos new`` creates: no modules of ours."""

FLOORS = {
    "aos_gateway": 84,
    "author": 84,
    "client": 100,
    "core": 86,
    "effects": 90,
    "fastcore": 80,
    "flow": 80,
    "host": 90,
    "manifest": 87,
    "node": 80,
    "page": 85,
    "prove": 84,
    "read": 84,
    "sandbox": 96,
    "sealing": 90,
    "store": 90,
    "testing": 82,
    "values": 80,
    "worker": 90,
}
"""Minimum share of documented public names of each package, in percent."""

DOCUMENTED = """
def f():
    'F.'
    def inner(): ...

class A:
    'The size is ``a``.'
    def f(self):
        'F.'
    def __len__(self): ...
    @property
    def a(self): ...

def _private(): ...

class _Private:
    def f(self): ...
"""

BARE = """
def f(): ...

class A:
    def f(self): ...
    @property
    def a(self): ...
"""

INHERITED = """
class Ours(Protocol):
    'A protocol.'
    def f(self):
        'F.'
    def g(self): ...

class Base:
    'It has ``f``, as ``Ours`` demands.'
    def h(self):
        'H.'
    def f(self): ...

class Sub(Base):
    'It says no protocol.'
    def h(self): ...
    def f(self): ...

class Other:
    'It mentions ``Base``, which is no protocol.'
    def h(self): ...
"""

_RULE = re.compile(r"^- \*\*([A-Z]+-\d+[a-z]?)\*\*", re.MULTILINE)
_CITED = re.compile(r"\b[A-Z]+-\d+[a-z]?\b")
_RANGE = re.compile(r"\b[A-Z]+-\d+[a-z]? to (?:[A-Z]+-)?\d+[a-z]?\b")
_QUOTED = re.compile(r"`+(\w+)`+")

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True, kw_only=True)
class PublicName:
    name: str
    line: int
    documented: bool


@pytest.mark.parametrize("package", FLOORS)
def test_the_public_names_of_a_package_are_documented(package: str) -> None:
    found = {
        path: list(public_names(tree, classes()))
        for path, tree in trees().items()
        if path.parts[0] == package
    }
    missing = [
        f"{path}:{each.line} {each.name}"
        for path, names in found.items()
        for each in names
        if not each.documented
    ]
    names = sum(map(len, found.values()))

    assert len(missing) * 100 <= names * (100 - FLOORS[package]), (
        f"{len(missing)} of {names} public names in {package} have no docstring:\n"
        + "\n".join(missing)
    )


def test_every_package_has_a_floor() -> None:
    assert set(FLOORS) == {path.parts[0] for path in trees()}


@pytest.mark.parametrize("page", ["store", "host", "executors", "evm"])
def test_each_rule_is_cited_where_it_is_implemented(page: str) -> None:
    """By its own number: a range, such as the one at the top of a module, leads nowhere."""
    rules = _RULE.findall((SPEC / f"{page}.md").read_text("utf-8"))

    assert rules
    assert [rule for rule in rules if rule not in cited()] == []


def test_private_names_special_methods_and_inner_functions_need_no_docstring() -> None:
    assert missing_in(f'"""A module."""{DOCUMENTED}') == []


def test_a_module_function_class_method_and_property_each_need_a_docstring() -> None:
    assert missing_in(BARE) == ["", "f", "A", "A.f", "A.a"]


def test_a_method_shares_the_docstring_of_its_base_or_of_the_protocol_it_implements() -> None:
    assert missing_in(f'"""A module."""{INHERITED}') == ["Ours.g", "Sub.f", "Other.h"]


def missing_in(source: str) -> list[str]:
    tree = ast.parse(source)
    return [each.name for each in public_names(tree, classes_in([tree])) if not each.documented]


@cache
def texts() -> dict[Path, str]:
    """The files of the kernel and of the gateway, which is one more package."""
    return {
        path.relative_to(top): path.read_text("utf-8")
        for top, folder in ((AOS, AOS), (GATEWAY.parent, GATEWAY))
        for path in sorted(folder.rglob("*.py"))
    }


@cache
def cited() -> set[str]:
    return {rule for text in texts().values() for rule in _CITED.findall(_RANGE.sub("", text))}


@cache
def trees() -> dict[Path, ast.Module]:
    return {
        path: ast.parse(text)
        for path, text in texts().items()
        if len(path.parts) > 1 and not path.is_relative_to(TEMPLATES)
    }


@cache
def classes() -> Mapping[str, ast.ClassDef]:
    return classes_in(trees().values())


def classes_in(modules: Iterable[ast.Module]) -> dict[str, ast.ClassDef]:
    """The classes of ``modules`` by name: public classes have different names (``test_names``)."""
    return {
        node.name: node for tree in modules for node in tree.body if isinstance(node, ast.ClassDef)
    }


def public_names(tree: ast.Module, known: Mapping[str, ast.ClassDef]) -> Iterator[PublicName]:
    yield PublicName(name="", line=1, documented=has_docstring(tree))
    for node in tree.body:
        match node:
            case ast.ClassDef() if is_public(node):
                yield PublicName(name=node.name, line=node.lineno, documented=has_docstring(node))
                yield from methods(node, known)
            case ast.FunctionDef() | ast.AsyncFunctionDef() if is_public(node):
                yield PublicName(name=node.name, line=node.lineno, documented=has_docstring(node))


def methods(owner: ast.ClassDef, known: Mapping[str, ast.ClassDef]) -> Iterator[PublicName]:
    inherited = {
        each for name in implemented(owner, known) for each in documented_methods(known[name])
    }
    described = set(_QUOTED.findall(ast.get_docstring(owner) or ""))
    for node in functions(owner):
        if is_public(node):
            documented = (
                has_docstring(node)
                or node.name in inherited
                or (is_property(node) and node.name in described)
            )
            yield PublicName(
                name=f"{owner.name}.{node.name}", line=node.lineno, documented=documented
            )


def implemented(owner: ast.ClassDef, known: Mapping[str, ast.ClassDef]) -> set[str]:
    """The bases of ``owner`` and the protocols that its docstring quotes, with their bases."""
    quoted = {
        name
        for name in _QUOTED.findall(ast.get_docstring(owner) or "")
        if name in known and "Protocol" in bases(known[name])
    }
    return ancestors(owner, known).union(
        quoted, *(ancestors(known[name], known) for name in quoted)
    )


def ancestors(owner: ast.ClassDef, known: Mapping[str, ast.ClassDef]) -> set[str]:
    direct = bases(owner) & set(known)
    return direct.union(*(ancestors(known[name], known) for name in direct))


def bases(owner: ast.ClassDef) -> set[str]:
    plain = (base.value if isinstance(base, ast.Subscript) else base for base in owner.bases)
    return {base.id for base in plain if isinstance(base, ast.Name)}


def documented_methods(owner: ast.ClassDef) -> set[str]:
    described = set(_QUOTED.findall(ast.get_docstring(owner) or ""))
    return {
        node.name
        for node in functions(owner)
        if has_docstring(node) or (is_property(node) and node.name in described)
    }


def functions(owner: ast.ClassDef) -> list[Function]:
    return [node for node in owner.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


def is_property(node: Function) -> bool:
    return any(isinstance(each, ast.Name) and each.id == "property" for each in node.decorator_list)


def is_public(node: ast.ClassDef | Function) -> bool:
    return not node.name.startswith("_")


def has_docstring(node: ast.Module | ast.ClassDef | Function) -> bool:
    return bool(ast.get_docstring(node))

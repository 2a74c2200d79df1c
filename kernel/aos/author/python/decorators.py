"""The decorators ``@schema``, ``@effect`` and ``@flow``: their names and arguments (PF-5)."""

from __future__ import annotations

import ast
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from aos.author.python.python_source import PythonSource
from aos.author.python.type_annotations import last_name
from aos.manifest.names import is_name

SCHEMA: Final = "schema"
EFFECT: Final = "effect"
FLOW: Final = "flow"
DECORATORS: Final = (SCHEMA, EFFECT, FLOW)

_EXAMPLES: Final[Mapping[str, str]] = {
    SCHEMA: '@schema("shop/Order@1")',
    EFFECT: '@effect("shop/charge@1", executor="shop")',
    FLOW: '@flow("shop/order@1", key="order_id")',
}
_MISSING: Final = object()

Decorated = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True, kw_only=True)
class Decorator:
    """One decorator: the name that it gives, and its keyword arguments."""

    source: PythonSource
    node: ast.Call
    name: str
    arguments: Mapping[str, ast.expr]

    def text(self, argument: str, *, example: str) -> str | None:
        """The text of an argument; None if it is not there, or after a problem."""
        node = self.arguments.get(argument)
        if node is None:
            return None
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            return node.value
        self._refuse(argument, node, expected=f"a text such as {example}")
        return None

    def choice(self, argument: str, choices: Sequence[str]) -> str | None:
        """The text of an argument that is one of ``choices``; None as for ``text``."""
        node, text = self.arguments.get(argument), self.text(argument, example=repr(choices[0]))
        if node is not None and text is not None and text not in choices:
            self._refuse(argument, node, expected=" or ".join(map(repr, choices)))
            return None
        return text

    def number(self, argument: str, *, most: int) -> int | None:
        """An integer from 1 to ``most``; None as for ``text``."""
        node = self.arguments.get(argument)
        if node is None:
            return None
        if isinstance(node, ast.Constant) and type(node.value) is int and 1 <= node.value <= most:
            return node.value
        self._refuse(argument, node, expected=f"a number from 1 to {most:,}")
        return None

    def flag(self, argument: str) -> bool:
        """A bool; False if it is not there."""
        node = self.arguments.get(argument)
        if node is None:
            return False
        if isinstance(node, ast.Constant) and isinstance(node.value, bool):
            return node.value
        self._refuse(argument, node, expected="True or False")
        return False

    def _refuse(self, argument: str, node: ast.expr, *, expected: str) -> None:
        shown = self.source.shown(node)
        hint = "the file is read and never executed: write the value itself"
        self.source.report(
            node, f"{argument} of {self.name}", expected=expected, actual=shown, hint=hint
        )


def decorator_kind(node: ast.expr) -> str | None:
    """``schema``, ``effect`` or ``flow``; None for any other decorator."""
    name = last_name(node.func if isinstance(node, ast.Call) else node)
    return name if name in DECORATORS else None


def read_decorator(
    source: PythonSource, item: Decorated, kind: str, arguments: Collection[str]
) -> Decorator | None:
    """The decorator of this kind; None if there is none, or after a problem."""
    nodes = [node for node in item.decorator_list if decorator_kind(node) == kind]
    if not nodes:
        return None
    example = _EXAMPLES[kind]
    if len(item.decorator_list) > 1:
        source.report(
            item.decorator_list[0],
            f"{item.name} has {len(item.decorator_list)} decorators",
            expected=f"@{kind}(…) alone",
            hint=f"remove the others; @{kind} makes a dataclass by itself"
            if isinstance(item, ast.ClassDef)
            else "call the other function in the body",
        )
        return None
    node = nodes[0]
    if isinstance(node, ast.Call):
        return read_call(source, node, kind, arguments, example=example, of=item.name)
    source.report(node, f"@{kind} of {item.name}", expected=example, actual=source.shown(node))
    return None


def read_call(
    source: PythonSource,
    node: ast.Call,
    kind: str,
    arguments: Collection[str],
    *,
    example: str,
    of: str | None = None,
) -> Decorator | None:
    """A call whose one positional argument is a name; ``of`` is what it decorates."""
    if len(node.args) != 1:
        subject = kind if of is None else f"@{kind} of {of}"
        source.report(node, subject, expected=example, actual=source.shown(node))
        return None
    name = node.args[0].value if isinstance(node.args[0], ast.Constant) else _MISSING
    if not isinstance(name, str) or not is_name(name) or name.startswith("sys/"):
        source.report(
            node.args[0],
            f"the name of {of or 'another flow'}",
            expected=f"a text NAMESPACE/NAME@VERSION, such as in {example}",
            actual=source.shown(node.args[0]),
            hint="the namespace sys is that of AOS"
            if isinstance(name, str) and is_name(name)
            else None,
        )
        return None
    return Decorator(
        source=source, node=node, name=name, arguments=_keywords(source, node, kind, arguments)
    )


def _keywords(
    source: PythonSource, node: ast.Call, kind: str, arguments: Collection[str]
) -> dict[str, ast.expr]:
    keywords: dict[str, ast.expr] = {}
    for keyword in node.keywords:
        if keyword.arg in arguments:
            keywords[str(keyword.arg)] = keyword.value
            continue
        is_receipt = kind == EFFECT and keyword.arg == "receipt"
        source.report(
            keyword.value,
            f"an argument of {'@' if kind in DECORATORS else ''}{kind}",
            expected=", ".join(arguments),
            actual="**" if keyword.arg is None else keyword.arg,
            hint="write receipt: ClassVar[type[RECEIPT]] in the class, which type checkers read"
            if is_receipt
            else None,
        )
    return keywords


def derived_name(name: str, suffix: str) -> str:
    """``shop/CardChargeParams@1`` of ``shop/card.charge@1`` and ``Params``."""
    namespace, _, rest = name.partition("/")
    short, _, version = rest.partition("@")
    words = short.replace(".", " ").replace("_", " ").replace("-", " ").split()
    return f"{namespace}/{''.join(word[0].upper() + word[1:] for word in words)}{suffix}@{version}"

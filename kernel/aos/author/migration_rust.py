"""Write the skeleton of a migration in Rust, by the crate's own types (AU-93)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from aos.author.assemblyscript.model import pascal, short_name
from aos.author.migration_plan import FieldPlan, Plan, file_stem
from aos.manifest.expressions import COMMENT, Expression, form_of

SCALARS: Final[Mapping[str, str]] = {
    "bool": "bool",
    "int": "i64",
    "nat": "u64",
    "text": "String",
    "bytes": "Vec<u8>",
    "unit": "()",
    "dec128": "Decimal",
    "time": "Time",
    "duration": "Duration",
    "hash": "Hash",
    "uuid": "Uuid",
}

SYSTEM_EFFECTS: Final[Mapping[str, str]] = {
    "sys/timer.set@1": "timer::Set",
    "sys/blob.put@1": "blob::Put",
    "sys/blob.get@1": "blob::Get",
    "sys/cron.next@1": "cron::Next",
    "sys/http.request@1": "http::Request",
}
"""The SDK's types for effects that a state may have handles of, as its prelude names them."""

_WRAPPERS: Final[Mapping[str, str]] = {"option": "Option", "list": "Vec", "set": "Set"}
_HANDLE: Final = re.compile(r"pending (set )?(\S+)")

_NAMED_TYPE: Final = re.compile(
    r'#\[(?:schema|effect)\(\s*"([^"]+)"[^\]]*\]\s*'
    r"(?:(?://[^\n]*|#\[[^\]]*\])\s*)*"
    r"(?:pub(?:\([^)]*\))?\s+)?(?:struct|enum)\s+([A-Za-z_][A-Za-z0-9_]*)"
)

_KEYWORDS: Final = frozenset({
    *("as", "async", "await", "break", "const", "continue", "crate", "dyn", "else", "enum"),
    *("extern", "false", "fn", "for", "if", "impl", "in", "let", "loop", "match", "mod"),
    *("move", "mut", "pub", "ref", "return", "self", "Self", "static", "struct", "super"),
    *("trait", "true", "type", "unsafe", "use", "where", "while", "abstract", "become"),
    *("box", "do", "final", "gen", "macro", "override", "priv", "try", "typeof", "unsized"),
    *("virtual", "yield"),
})  # fmt: skip


def entrypoint(workflow: str) -> str:
    return file_stem(workflow).replace("migration_", "migrate_", 1)


def rust_text(plan: Plan, types: Mapping[str, str]) -> str:
    """The file's text. ``types`` are the crate's types by their names in AIR, among them that of
    the new state."""
    return _Writing(plan, types).text()


def declaration(plan: Plan) -> str:
    """The argument of ``#[workflow]`` that declares the migration."""
    return f"migrate(from = {short_name_of(plan.source)}, by = {entrypoint(plan.workflow)})"


def imports(plan: Plan) -> tuple[str, str]:
    """The lines that the module of the workflow needs for ``declaration``."""
    stem = file_stem(plan.workflow)
    return (
        f"mod {stem};",
        f"use crate::{stem}::{{{entrypoint(plan.workflow)}, {short_name_of(plan.source)}}};",
    )


def short_name_of(schema: str) -> str:
    """The name of the old state's type: ``shop/State@1`` -> ``StateV1``."""
    version = schema.rpartition("@")[2]
    return short_name(schema).removesuffix(f"V{version}") + f"V{version}"


@dataclass(slots=True)
class _Writing:
    plan: Plan
    types: Mapping[str, str]
    declared: list[str] = field(default_factory=list)

    def text(self) -> str:
        plan, old = self.plan, short_name_of(self.plan.source)
        new = self.types[plan.target]
        # A copied field has the type of the new state's: without a known name, it is no copy.
        fields = None if plan.fields is None else tuple(map(self._copied, plan.fields))
        self._declare(old, plan.old, schema=plan.source)
        lines = [
            *self._head(),
            "use aos_sdk::prelude::*;",
            "",
            *"\n\n".join(reversed(self.declared)).splitlines(),
            "",
            f"pub fn {entrypoint(plan.workflow)}(old: {old}) -> Result<{new}, Fault> {{",
            *self._body(fields),
            "}",
        ]
        return "\n".join(lines) + "\n"

    def _head(self) -> list[str]:
        plan = self.plan
        mod, use = imports(plan)
        return [
            f"//! Convert stored states of {plan.workflow}: from {plan.source} to {plan.target}.",
            "//!",
            "//! Replace each `compile_error!` by the value that stored states get. To declare the",
            f"//! migration, write in `src/lib.rs` `{mod}`, and in the module of the workflow:",
            "//!",
            "//! ```text",
            f"//! {use}",
            "//!",
            f'//! #[workflow("{plan.workflow}", …, {declaration(plan)})]',
            "//! ```",
            "//!",
            "//! The manifest then has, in the workflow's definition:",
            "//!",
            "//! ```json",
            f"//! {json.dumps(manifest_entry(plan, entrypoint(plan.workflow)))}",
            "//! ```",
            "",
        ]

    def _body(self, fields: tuple[FieldPlan, ...] | None) -> list[str]:
        if fields is None:
            return [f"    compile_error!({json.dumps(self.plan.todo)});"]
        lines = [
            f"    // {name} of the old state is in no field of the new one."
            for name in self.plan.dropped
        ]
        lines.append(f"    Ok({self.types[self.plan.target]} {{")
        for field_plan in fields:
            name = _identifier(field_plan.name)
            value = (
                f"old.{name}" if field_plan.problem is None else _compile_error(field_plan.problem)
            )
            lines.append(f"        {name}: {value},")
        return [*lines, "    })"]

    def _copied(self, field_plan: FieldPlan) -> FieldPlan:
        if (
            field_plan.problem is None
            and self._crate_type(self.plan.old["record"][field_plan.name]) is None
        ):
            problem = (
                f"todo: {field_plan.name} has a type without a name: convert the old "
                f"{field_plan.name}"
            )
            return FieldPlan(name=field_plan.name, problem=problem)
        return field_plan

    def _crate_type(self, expression: Expression) -> str | None:
        """The Rust type that the crate has for this; None if its name is not known."""
        handle = _HANDLE.fullmatch(str(expression.get(COMMENT, "")))
        form, argument = form_of(expression)
        if handle is not None:
            effect = self.types.get(handle[2])
            if effect is None or not handle[1]:
                return None if effect is None else f"Pending<{effect}>"
            key = self._crate_type(argument["key"])
            return None if key is None else f"PendingSet<{key}, {effect}>"
        if form in SCALARS:
            return SCALARS[form]
        if form == "ref":
            return self.types.get(argument)
        if form in _WRAPPERS:
            item = self._crate_type(argument)
            return None if item is None else f"{_WRAPPERS[form]}<{item}>"
        if form == "map":
            key, value = self._crate_type(argument["key"]), self._crate_type(argument["value"])
            return None if key is None or value is None else f"Map<{key}, {value}>"
        return None

    def _type_text(self, expression: Expression, path: str) -> str:
        """The Rust type of a part of the old state; declared here if the crate has none."""
        crate_type = self._crate_type(expression)
        if crate_type is not None:
            return crate_type
        form, argument = form_of(expression)
        if form in _WRAPPERS:
            return f"{_WRAPPERS[form]}<{self._type_text(argument, path)}>"
        if form == "map":
            key = self._type_text(argument["key"], f"{path}Key")
            return f"Map<{key}, {self._type_text(argument['value'], path)}>"
        if form == "ref":
            return f"compile_error!({json.dumps(f'todo: name the Rust type of {argument}')})"
        self._declare(path, expression)
        return path

    def _declare(self, name: str, expression: Expression, *, schema: str | None = None) -> None:
        position = len(self.declared)
        form, argument = form_of(expression)
        lines = ["#[derive(Schema)]"]
        if schema is not None:
            lines.append(f'#[schema("{schema}")]')
        if form == "record":
            lines.append(f"pub struct {name} {{")
            for member, type_ in argument.items():
                lines += _rename_attribute(member, "    ")
                type_text = self._type_text(type_, name + pascal(member))
                lines.append(f"    pub {_identifier(member)}: {type_text},")
            lines.append("}")
        elif form == "variant":
            lines.append(f"pub enum {name} {{")
            for member, type_ in argument.items():
                lines += _rename_attribute(member, "    ")
                is_unit = form_of(type_)[0] == "unit"
                content = "" if is_unit else f"({self._type_text(type_, name + pascal(member))})"
                lines.append(f"    {_identifier(member)}{content},")
            lines.append("}")
        else:
            lines.append(f"pub struct {name}(pub {self._type_text(expression, f'{name}Item')});")
        self.declared.insert(position, "\n".join(lines))


def manifest_entry(plan: Plan, entrypoint: str) -> dict[str, object]:
    return {"migrate": {"from": plan.source, "entrypoint": entrypoint}}


def _compile_error(problem: str) -> str:
    return f"compile_error!({json.dumps(problem, ensure_ascii=False)})"


def _identifier(name: str) -> str:
    plain = re.sub(r"[^A-Za-z0-9_]", "_", name)
    return f"{plain}_" if plain in _KEYWORDS or plain[:1].isdigit() else plain


def _rename_attribute(name: str, indent: str) -> list[str]:
    return [] if _identifier(name) == name else [f'{indent}#[schema(rename = "{name}")]']


def rust_types(crate: Path) -> Mapping[str, str]:
    """Find the types of a crate that have names in AIR (AU-93): name in AIR -> path of the Rust
    type, such as ``crate::state::Order``.

    Only the attributes are read, ``#[schema("…")]`` and ``#[effect("…"``, and the name of the type
    that follows. A type that a macro writes is not found; the skeleton then leaves its fields to
    the author.
    """
    types = dict(SYSTEM_EFFECTS)
    source = crate / "src"
    for file in sorted(source.rglob("*.rs")):
        module = _module_path(file.relative_to(source))
        for name, type_ in _NAMED_TYPE.findall(file.read_text("utf-8", errors="replace")):
            types.setdefault(name, f"{module}::{type_}")
    return types


def _module_path(file: Path) -> str:
    parts = file.with_suffix("").parts
    if parts[-1] in ("lib", "mod"):
        parts = parts[:-1]
    return "::".join(("crate", *parts))

"""The AssemblyScript of a type: its spelling, default, reading and writing (SA-10).

Reading is an expression over ``r``, an ``aos.Reader``; writing is a statement over ``w``, an
``aos.Writer``. A type that needs more than one call has a helper function in the generated file
(``helper``); equal types share it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """The AssemblyScript of one type. ``by_value`` is true if it cannot be null.

    ``label`` is unique for the type. It has the parts of the type, outermost first, in lower case
    and separated by ``_``, which no class name contains.
    """

    type_text: str
    label: str
    default: str
    reads: str
    writes: str
    by_value: bool = False
    hashed: bool = False
    """Whether the library's Set recognizes equal values of it."""
    helper: str = ""
    parts: tuple[Kind, ...] = ()

    def write(self, value: str) -> str:
        return self.writes.format(value)

    def helpers(self) -> Iterator[tuple[str, str]]:
        """(label, text) of every function that reading and writing it needs."""
        for part in self.parts:
            yield from part.helpers()
        if self.helper:
            yield self.label, self.helper


def _scalar(name: str, type_text: str, default: str, method: str, *, hashed: bool = True) -> Kind:
    return Kind(
        type_text=type_text,
        label=name,
        default=default,
        reads=f"r.{method}()",
        writes=f"w.{method}({{}});",
        by_value=type_text in ("bool", "i64", "u64"),
        hashed=hashed,
    )


SCALARS: Final = {
    "bool": _scalar("bool", "bool", "false", "bool"),
    "int": _scalar("int", "i64", "0", "int"),
    "nat": _scalar("nat", "u64", "0", "nat"),
    "dec128": _scalar("dec128", "string", '"0"', "dec128"),
    "bytes": _scalar("bytes", "Uint8Array", "new Uint8Array(0)", "bytes", hashed=False),
    "text": _scalar("text", "string", '""', "text"),
    "time": _scalar("time", "i64", "0", "int"),
    "duration": _scalar("duration", "i64", "0", "int"),
    "hash": _scalar("hash", "string", f'"blake3:{"0" * 64}"', "hash"),
    "uuid": _scalar("uuid", "string", '"00000000-0000-0000-0000-000000000000"', "uuid"),
    "unit": Kind(
        type_text="aos.Unit",
        label="unit",
        default="new aos.Unit()",
        reads="r.unit()",
        writes="w.null();",
    ),
}


def class_kind(name: str, *, default: str) -> Kind:
    """A generated class; ``name`` may begin with ``aos.``."""
    return Kind(
        type_text=name,
        label=name.removeprefix("aos."),
        default=default,
        reads=f"{name}.readFrom(r)",
        writes="{}.writeTo(w);",
    )


def option(item: Kind) -> Kind:
    type_text = f"aos.Some<{item.type_text}>" if item.by_value else item.type_text
    expression = f"new {type_text}({item.reads})" if item.by_value else item.reads
    value = "value.value" if item.by_value else "value"
    return _composite(
        f"option_{item.label}",
        f"{type_text} | null",
        "null",
        parts=(item,),
        read=["if (r.isNull()) return null;", f"return {expression};"],
        write=["if (value === null) w.null();", f"else {item.write(value)}"],
    )


def list_of(item: Kind) -> Kind:
    type_text = f"Array<{item.type_text}>"
    return _composite(
        f"list_{item.label}",
        type_text,
        f"new {type_text}()",
        parts=(item,),
        read=[
            f"const items = new {type_text}();",
            "for (let left = r.list(); left > 0 && !r.failed; --left) {",
            f"  items.push({item.reads});",
            "}",
            "return items;",
        ],
        write=[
            "w.list(value.length);",
            f"for (let i = 0; i < value.length; ++i) {{ {item.write('value[i]')} }}",
        ],
    )


def set_of(item: Kind) -> Kind:
    """A Set if it recognizes equal elements; else an Array, which writes equal elements once."""
    type_text = f"{'Set' if item.hashed else 'Array'}<{item.type_text}>"
    return _composite(
        f"set_{item.label}",
        type_text,
        f"new {type_text}()",
        parts=(item,),
        read=[
            f"const items = new {type_text}();",
            "let before: usize = 0;",
            "for (let left = r.list(); left > 0 && !r.failed; --left) {",
            "  const start = r.at;",
            f"  items.{'add' if item.hashed else 'push'}({item.reads});",
            "  before = r.ascending(before, start);",
            "}",
            "return items;",
        ],
        write=[
            f"const items = value{'.values()' if item.hashed else ''};",
            "const sorter = w.sorter(items.length);",
            "for (let i = 0; i < items.length; ++i) {",
            "  sorter.item();",
            f"  {item.write('items[i]')}",
            "}",
            "w.endSet(sorter);",
        ],
    )


def map_of(key: Kind, item: Kind) -> Kind:
    type_text = f"Map<{key.type_text}, {item.type_text}>"
    return _composite(
        f"map_{key.label}_{item.label}",
        type_text,
        f"new {type_text}()",
        parts=(key, item),
        read=[f"const items = new {type_text}();", *_entries(key, item, "items"), "return items;"],
        write=_write_entries(key, item, "value"),
    )


def pending(handle: str) -> Kind:
    """A handle: a class that extends ``aos.Pending``."""
    return Kind(
        type_text=handle,
        label=handle.removeprefix("aos."),
        default=f"new {handle}()",
        reads=f"aos.readPending<{handle}>(r)",
        writes="{}.writeTo(w);",
    )


def pending_set(handles: str, key: Kind) -> Kind:
    """A set of handles: a class that extends ``aos.PendingSet``."""
    type_text = f"{handles}<{key.type_text}>"
    text = SCALARS["text"]
    return _composite(
        f"by_{key.label}_{handles.removeprefix('aos.')}",
        type_text,
        f"new {type_text}()",
        parts=(key,),
        read=[
            f"const items = new {type_text}();",
            *_entries(key, text, "items.refs"),
            "return items;",
        ],
        write=_write_entries(key, text, "value.refs"),
    )


def _entries(key: Kind, item: Kind, into: str) -> list[str]:
    return [
        "let before: usize = 0;",
        "for (let left = r.map(); left > 0 && !r.failed; --left) {",
        "  const start = r.at;",
        f"  const key = {key.reads};",
        "  before = r.ascending(before, start);",
        f"  {into}.set(key, {item.reads});",
        "}",
    ]


def _write_entries(key: Kind, item: Kind, of: str) -> list[str]:
    return [
        f"const keys = {of}.keys();",
        f"const items = {of}.values();",
        "const sorter = w.sorter(keys.length);",
        "for (let i = 0; i < keys.length; ++i) {",
        "  sorter.item();",
        f"  {key.write('keys[i]')}",
        "  sorter.keyed();",
        f"  {item.write('items[i]')}",
        "}",
        "w.endMap(sorter);",
    ]


def _composite(
    label: str,
    type_text: str,
    default: str,
    *,
    parts: tuple[Kind, ...],
    read: list[str],
    write: list[str],
) -> Kind:
    helper = "\n".join(
        [
            f"function read_{label}(r: aos.Reader): {type_text} {{",
            *(f"  {line}" for line in read),
            "}",
            "",
            f"function write_{label}(w: aos.Writer, value: {type_text}): void {{",
            *(f"  {line}" for line in write),
            "}",
        ]
    )
    return Kind(
        type_text=type_text,
        label=label,
        default=default,
        reads=f"read_{label}(r)",
        writes=f"write_{label}(w, {{}});",
        helper=helper,
        parts=parts,
    )

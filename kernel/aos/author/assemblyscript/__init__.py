"""Generate ``assembly/generated.ts`` from AIR nodes (spec/sdk.md, SA-1 and SA-10 ff.).

A record or variant becomes a class that reads and writes itself; an effect becomes a request, a
handle and a set of handles; a workflow becomes a base class whose handlers the author writes, and
its migration another base class.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from aos.author.assemblyscript.classes import class_text, effect_text
from aos.author.assemblyscript.model import Model, Node
from aos.author.assemblyscript.workflows import (
    logs,
    migration_class,
    migration_text,
    workflow_text,
)
from aos.manifest.builtin_definitions import EFFECTS, SCHEMAS

__all__ = ["ASC_OPTIONS", "generate", "generate_system", "migration_class"]

_HEAP: Final = "~lib/aos-sdk/assembly/heap"

ASC_OPTIONS: Final[tuple[str, ...]] = (
    "--runtime", "stub",
    "--optimizeLevel", "3",
    "--shrinkLevel", "1",
    "--use", "abort=~lib/aos-sdk/assembly/panic/abort",
    "--use", f"__alloc={_HEAP}/allocate",
    "--use", f"__realloc={_HEAP}/reallocate",
    "--use", f"__free={_HEAP}/free",
    "--use", f"__new={_HEAP}/make",
    "--use", f"__renew={_HEAP}/resize",
)  # fmt: skip
"""Options that asc needs, in addition to the entry file and ``--outFile``. A project whose
asconfig.json ``extends`` ``aos-sdk/asconfig.json`` gets them from there. Without them a module
imports ``abort`` and has a start function, and the kernel accepts neither (SA-2)."""

_HEADER: Final = (
    "// Generated from the AIR definitions by `aos build`. Edits to this file are overwritten.\n"
)


def generate(nodes: Sequence[Mapping[str, Any]]) -> str:
    """Classes for every defschema, defeffect and defworkflow of ``nodes``; others are ignored.

    The text does not depend on the order of the definitions. It imports ``aos-sdk``; a project
    compiles it with ASC_OPTIONS.

    Raises:
        BuildFailed: Two classes would have the same name, a definition names an unknown schema or
            effect, or an event is neither a record nor a variant of refs.
        SchemaProblems: Type expressions are invalid; it has all their problems.
    """
    return _text(Model(nodes), "aos-sdk")


def generate_system() -> str:
    """The text of the SDK's own file: classes for the ``sys/`` schemas and effects."""
    nodes = [*SCHEMAS.values(), *EFFECTS.values()]
    return _text(Model(nodes, system=True), "../index")


def _text(model: Model, sdk: str) -> str:
    effects = [effect_text(model, node) for node in model.own_effects()]
    workflows = [text for node in model.workflows.values() for text in _of_workflow(model, node)]
    classes = [class_text(class_def) for class_def in model.classes.values()]
    parts = [f'{_HEADER}\nimport * as aos from "{sdk}";']
    if not model.system:
        flag = "true" if logs(model) else "false"
        parts.append(f"/** Whether a workflow logs. */\nexport const LOG: bool = {flag};")
    parts += [*classes, *effects, *workflows, *_helpers(model)]
    return "\n\n".join(parts) + "\n"


def _of_workflow(model: Model, node: Node) -> Iterator[str]:
    yield workflow_text(model, node)
    if "migrate" in node:
        yield migration_text(model, node)


def _helpers(model: Model) -> list[str]:
    """The text of each helper function, ordered by name."""
    return [text for _, text in sorted(dict(model.helpers()).items())]

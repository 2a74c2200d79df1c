"""Open a world for writing, for the time that ``--timeout`` gives; every command that sends
something begins with this (spec/cli.md, C-8a).

The option is the same everywhere, so the functions of commands do not name it: ``lazy_group`` adds
it to those of ``registry.WRITING``, and ``patience`` reads it.

Writing commands name a cell in their output by its workflow, and by its key as JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from inspect import Parameter, signature
from pathlib import Path
from typing import Annotated, Any, Final

from aos.core.journal.records import CellId
from aos.host.door.way import WaitPatience
from aos.host.door.writer import Writer, open_writer
from aos.manifest.effective import Effective
from aos.read.lens.words import as_json, name_cell
from aos_cli.options import option, span
from aos_cli.output import note, progress

_SECOND_NS: Final = 10**9
_DEFAULT_NS: Final = 30 * _SECOND_NS

Timeout = Annotated[
    int | None,
    option(
        "D",
        "How long to wait for a running world that makes nothing durable, such as on a full "
        "disk (default 30s).",
        "--timeout",
        parser=span,
    ),
]


class _CurrentTimeout:
    """The ``--timeout`` of the command that runs."""

    timeout_ns: int = _DEFAULT_NS


@contextmanager
def writing_to(world: Path) -> Iterator[Writer]:
    """Open the world for the block, and show the progress of reading its journal."""
    with progress("reading the journal") as advance:
        writer = open_writer(world, patience=patience(), progress=advance, report=note)
    for remark in writer.folder.remarks():
        note(f"aos: {remark}")
    with writer:
        yield writer


def patience() -> WaitPatience:
    """How long this command waits for a world that makes nothing durable, and reports it (C-8a)."""
    return WaitPatience(chosen_timeout_s(), report=lambda text: note(f"aos: {text}"))


def chosen_timeout_s() -> float:
    """The value of this command's ``--timeout``, in seconds."""
    return _CurrentTimeout.timeout_ns / _SECOND_NS


def with_timeout(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the option to the function of a command that writes."""

    @wraps(function)
    def wrapper(*words: Any, timeout: int | None = None, **options: Any) -> Any:
        _CurrentTimeout.timeout_ns = _DEFAULT_NS if timeout is None else timeout
        try:
            return function(*words, **options)
        finally:
            _CurrentTimeout.timeout_ns = _DEFAULT_NS

    option = Parameter("timeout", Parameter.KEYWORD_ONLY, default=None, annotation=Timeout)
    function_signature = signature(function, eval_str=True)
    parameters = [*function_signature.parameters.values(), option]
    wrapper.__signature__ = function_signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return wrapper


@dataclass(frozen=True, slots=True)
class NamedCell:
    """A cell by its name in a world of this machine or of a node.

    ``key`` is JSON; None for the only cell of a workflow without keys. ``id`` is None in the world
    of a node.
    """

    workflow: str
    key: object
    id: CellId | None = None

    @property
    def text(self) -> str:
        """The cell as text, such as ``shop/order@1 ord-1``."""
        return name_cell(self.workflow, self.key)

    @property
    def document(self) -> dict[str, object]:
        """``{workflow, key}``"""
        return {"workflow": self.workflow, "key": self.key}


def named_cell(cell: CellId, manifest: Effective | None) -> NamedCell:
    """Name a cell; the key uses the schema of the workflow, if the manifest has it."""
    return NamedCell(cell[0], cell_key(cell, manifest), cell)


def cell_document(cell: CellId, manifest: Effective | None) -> dict[str, object]:
    """``{workflow, key}``; the key uses the schema of the workflow, if the manifest has it."""
    return {"workflow": cell[0], "key": cell_key(cell, manifest)}


def cell_text(cell: CellId, manifest: Effective | None) -> str:
    """The cell as text, such as ``shop/order@1 ord-1``."""
    return name_cell(cell[0], cell_key(cell, manifest))


def cell_key(cell: CellId, manifest: Effective | None) -> object:
    """The key as JSON; None for the only cell of a workflow without keys."""
    name, key = cell
    if not key:
        return None
    workflow = manifest.workflows.get(name) if manifest else None
    return as_json(workflow.key if workflow else None, key)

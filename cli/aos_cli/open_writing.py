"""Open a world for writing: every command that sends something begins with this, with its options
``--timeout`` and ``--core`` (spec/cli.md, C-8a, C-8b).

The options are the same everywhere, so the functions of commands do not name them: ``lazy_group``
adds them to those of ``registry.WRITING``; ``patience`` and ``current_core`` read them.

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
from aos.fastcore.core_kind import CoreKind
from aos.host.door.way import WaitPatience
from aos.host.door.writer import Writer, open_writer
from aos.manifest.effective import Effective
from aos.read.lens.words import as_json, name_cell
from aos_cli.core_option import Core, chosen_core
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


class _CurrentOptions:
    """The ``--timeout`` and the ``--core`` of the command that runs."""

    timeout_ns: int = _DEFAULT_NS
    core: CoreKind | None = None


@contextmanager
def writing_to(world: Path) -> Iterator[Writer]:
    """Open the world for the block, and show the progress of reading its journal."""
    with progress("reading the journal") as advance:
        writer = open_writer(
            world, core=current_core(), patience=patience(), progress=advance, report=note
        )
    for remark in writer.folder.remarks():
        note(f"aos: {remark}")
    with writer:
        yield writer


def patience() -> WaitPatience:
    """How long this command waits for a world that makes nothing durable, and reports it (C-8a)."""
    return WaitPatience(chosen_timeout_s(), report=lambda text: note(f"aos: {text}"))


def chosen_timeout_s() -> float:
    """The value of this command's ``--timeout``, in seconds."""
    return _CurrentOptions.timeout_ns / _SECOND_NS


def current_core() -> CoreKind | None:
    """The kernel with which this command opens a world that no process runs; None: the host
    chooses."""
    return _CurrentOptions.core


def with_writing_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options to the function of a command that writes. A ``timeout`` that it has already
    is its own."""
    function_signature = signature(function, eval_str=True)
    has_own_timeout = "timeout" in function_signature.parameters

    @wraps(function)
    def wrapper(*words: Any, core: CoreKind | None = None, **options: Any) -> Any:
        timeout = None if has_own_timeout else options.pop("timeout", None)
        _CurrentOptions.timeout_ns = _DEFAULT_NS if timeout is None else timeout
        _CurrentOptions.core = chosen_core(core)
        try:
            return function(*words, **options)
        finally:
            _CurrentOptions.timeout_ns, _CurrentOptions.core = _DEFAULT_NS, None

    added = {"core": Core} if has_own_timeout else {"timeout": Timeout, "core": Core}
    parameters = [
        *function_signature.parameters.values(),
        *(
            Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
            for name, annotation in added.items()
        ),
    ]
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

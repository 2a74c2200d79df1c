"""Open a world for writing: every command that sends something begins with this, with its options
``--timeout`` and ``--core`` (spec/cli.md, C-8a, C-8b).

The options are the same everywhere, so the functions of commands do not name them: ``lazy_group``
adds them to those of ``registry.WRITING``; ``patience`` and ``current_core`` read them.

Writing commands name a cell in their output by its workflow, and by its key as JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from inspect import Parameter, signature
from pathlib import Path
from typing import Annotated, Any, Final

from aos.core.journal.records import CellId
from aos.errors import BadUsage
from aos.fastcore.core_kind import CoreKind
from aos.host.door.way import WaitPatience
from aos.host.door.writer import Writer, open_writer
from aos.manifest.effective import Effective
from aos.read.lens.words import as_json, name_cell
from aos_cli.core_option import Core, chosen_core
from aos_cli.options import Credentials, address_of, option, span
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


OperatorKey = Annotated[
    Path | None,
    option(
        "FILE",
        "With an address as --world: the file with the key that signs commands.",
        "--operator-key",
    ),
]


class _CurrentOptions:
    """The options of the command that runs."""

    timeout_ns: int | None = None
    core: CoreKind | None = None
    operator_key: Path | None = None
    credentials: Path | None = None


@contextmanager
def writing_to(world: Path) -> Iterator[Writer]:
    """Open the world for the block, and show the progress of reading its journal. ``world`` may be
    an address (C-8c)."""
    address = address_of(world)
    if address is not None:
        # Few worlds are named by an address.
        from aos_cli.addressed_world import open_at_address  # noqa: PLC0415

        with open_at_address(address) as writer:
            yield writer
        return
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
    timeout_s = explicit_timeout_s()
    return _DEFAULT_NS / _SECOND_NS if timeout_s is None else timeout_s


def explicit_timeout_s() -> float | None:
    """The same, or None if the command line does not have it."""
    timeout_ns = _CurrentOptions.timeout_ns
    return None if timeout_ns is None else timeout_ns / _SECOND_NS


def current_core() -> CoreKind | None:
    """The kernel with which this command opens a world that no process runs; None: the host
    chooses."""
    return _CurrentOptions.core


def chosen_operator_key() -> Path | None:
    """The value of this command's ``--operator-key``."""
    return _CurrentOptions.operator_key


def chosen_credentials() -> Path | None:
    """The value of this command's ``--creds``."""
    return _CurrentOptions.credentials


def with_writing_options(
    function: Callable[..., Any], *, is_writing: bool = True, is_addressed: bool = False
) -> Callable[..., Any]:
    """Add the options to the function of a command that opens a world for writing, if it
    ``is_writing``, or takes an address as its world, if it ``is_addressed``. A ``timeout`` that it
    has already is its own."""
    function_signature = signature(function, eval_str=True)
    added: dict[str, Any] = {}
    if is_writing:
        has_own_timeout = "timeout" in function_signature.parameters
        added = {"core": Core} if has_own_timeout else {"timeout": Timeout, "core": Core}
    if is_addressed:
        added |= {"operator_key": OperatorKey, "creds": Credentials}

    @wraps(function)
    def wrapper(*words: Any, **options: Any) -> Any:
        values = {name: options.pop(name, None) for name in added}
        _check_address(options.get("world"), values)
        current = _CurrentOptions
        current.timeout_ns = values.get("timeout")
        current.core = chosen_core(values.get("core")) if is_writing else None
        current.operator_key, current.credentials = values.get("operator_key"), values.get("creds")
        try:
            return function(*words, **options)
        finally:
            current.timeout_ns = current.core = None
            current.operator_key = current.credentials = None

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


def _check_address(world: Path | None, values: Mapping[str, Any]) -> None:
    """Raise BadUsage for an option that goes with an address, which ``world`` is not."""
    if world is not None and address_of(world) is not None:
        return
    for name, option_name in (("operator_key", "--operator-key"), ("creds", "--creds")):
        if values.get(name) is not None:
            raise BadUsage(
                f"{option_name} goes with the address of a replicated world",
                expected="--world nats://HOST/NAME",
            )


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

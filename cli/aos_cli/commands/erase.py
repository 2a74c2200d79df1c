"""``aos erase HASH``: permanently remove the bytes of a value (spec/cli.md, C-28)."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from aos.core.decide.answers import Admitted, Refusal
from aos.core.journal.inputs import ERASE
from aos.errors import AosError, BadUsage, Refused, Unavailable
from aos.host.door.writer import Writer
from aos.host.folder.folder import is_replicated
from aos.read.views.journal_view import read_value_hash
from aos.read.views.journal_view import value as value_document
from aos.read.views.record_view import cell_text
from aos.shell_text import shell_word
from aos.values.digests import Hash
from aos_cli.open_view import looking_at
from aos_cli.open_writing import writing_to
from aos_cli.options import DEFAULT_WORLD, Json, ValueHash, World, flag
from aos_cli.output import line, note, print_json

PLACES_SHOWN: Final = 10

ValueDocument = dict[str, Any]


def erase(
    value: ValueHash,
    *,
    yes: Annotated[bool, flag("--yes", "Erase without asking for confirmation.")] = False,
    wait: Annotated[
        bool,
        flag(
            "--wait",
            "Of a node: write a base behind the erasure, trim the log, and wait until the servers "
            "have the value no more.",
        ),
    ] = False,
    world: World = DEFAULT_WORLD,
    json: Json = False,
) -> None:
    value_hash = read_value_hash(value)
    if wait and not is_replicated(world):
        raise BadUsage(
            "--wait goes with the folder of a node: this world is embedded",
            location=str(world),
            hint="without --wait, the command removes the value from this folder, which is all",
        )
    with looking_at(world) as view:
        document = value_document(view, value)
    if document["is_there"]:
        if not json:
            _show(document)
        _ask(yes=yes)
    seq, is_compacted = _erase(world, value_hash, is_there=document["is_there"])
    is_node = is_replicated(world)
    erased_by = document["erased_by"][-1] if seq is None else seq
    if wait:
        _finish(world, erased_by)
    reason = _open_at_servers(world, erased_by)
    if json:
        of_node = {"open_at_servers": reason} if is_node else {}
        print_json({**document, "seq": seq, "compacted": is_compacted, **of_node})
        return
    _tell(document, seq, is_compacted=is_compacted, is_node=is_node)
    if reason is not None:
        line(f"the servers may still have it: {reason}")
        line(
            "to write a base, and wait until they have it no more: "
            f"aos erase {document['value']} --yes --wait --world {shell_word(str(world))}"
        )
    elif is_node:
        line("the servers have it no more")


def _finish(world: Path, seq: int) -> None:
    """Have the servers lose a value (CL-281)."""
    # Embedded worlds need none of this.
    from aos.host.cluster.erasing import finish_erasure  # noqa: PLC0415
    from aos.store.log.nats_address import NatsAccess  # noqa: PLC0415

    finish_erasure(
        world,
        NatsAccess.read(None),
        seq,
        report=lambda reason: note(f"the servers may still have it: {reason}"),
    )


def _open_at_servers(world: Path, seq: int) -> str | None:
    """Why the servers of a replicated world may still have the value that record ``seq`` has
    erased; None if they have it no more, or the world is embedded (CL-188)."""
    if not is_replicated(world):
        return None
    # Embedded worlds need none of this.
    from aos.host.cluster.erasing import open_erasure_of  # noqa: PLC0415
    from aos.store.log.nats_address import NatsAccess  # noqa: PLC0415

    try:
        return open_erasure_of(world, NatsAccess.read(None), seq)
    except AosError as problem:
        return f"they could not be asked ({problem}); aos cluster base removes it from them"


def _show(document: ValueDocument) -> None:
    """Print the hash and size of the value to remove, and the records that refer to it."""
    size = "" if document["size"] is None else f", {document['size']:,} bytes"
    line(f"{document['value']}{size}")
    for reference in document["records"][:PLACES_SHOWN]:
        of = "" if reference["cell"] is None else f" of {cell_text(reference['cell'])}"
        line(f"  {reference['where']} in record {reference['record']:,}, {reference['kind']}{of}")
    remaining = document["total"] - PLACES_SHOWN
    if remaining > 0:
        line(f"  and {remaining:,} more (aos inspect value {document['value']} --json)")
    if not document["records"]:
        line("  no record refers to it: it came with an effect or a manifest")


def _ask(*, yes: bool) -> None:
    if yes:
        return
    if sys.stdin is None or not sys.stdin.isatty():
        raise BadUsage("erase: erased bytes cannot be restored: expected --yes, or a terminal")
    if not typer.confirm("erase it for good?", err=True):
        raise Refused("nothing was erased")


def _erase(world: Path, value: Hash, *, is_there: bool) -> tuple[int | None, bool]:
    """Erase the value, if ``is_there``, and compact the store's file, if no process runs the world.

    Returns the record that erases it, or None, and whether the file was compacted.
    """
    with writing_to(world) as writer:
        seq = None
        if is_there:
            answer = writer.control(ERASE, value=value)
            if isinstance(answer, Refusal):
                raise Refused(answer.message)
            assert isinstance(answer, Admitted), "a command has no duplicate"
            seq = answer.seq
        return seq, _compact(writer)


def _compact(writer: Writer) -> bool:
    try:
        return writer.compact()
    except Unavailable as problem:
        note(f"the store's file could not be compacted: {problem}", style="yellow")
        return False


def _tell(document: ValueDocument, seq: int | None, *, is_compacted: bool, is_node: bool) -> None:
    if seq is None:
        line(f"erased already, by record {document['erased_by'][-1]:,}")
    else:
        line(f"erased by record {seq:,}; every hash and signature stays valid")
    if is_compacted:
        line("its bytes have left the store's file")
    elif is_node:
        line("its bytes stay in the store's file of each node until other data overwrites them")
    else:
        line(
            "its bytes stay in the store's file until other data overwrites them; to remove them "
            "now, run the same command while no process runs the world"
        )

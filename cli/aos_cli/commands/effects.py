"""``aos effects cancel``, ``settle`` and ``retry``: end an open effect, or run held and parked ones
again (spec/cli.md, C-27 to C-27b)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from aos.audit.lens.words import count
from aos.audit.views import intent_view
from aos.audit.views.record_view import Document, name_cell
from aos.audit.views.view import LIMIT_MAX, View
from aos.core.decide.answers import Refusal
from aos.core.journal.inputs import CANCEL, SETTLE
from aos.errors import BadUsage, Refused
from aos.host.door.remote import retry_running
from aos.values.cbor import Value, encode
from aos.values.digests import parse_hash
from aos.values.errors import ValueProblem
from aos.values.json_text import parse_json
from aos.values.schema import Schema
from aos_cli.open_view import looking_at
from aos_cli.open_writing import writing_to
from aos_cli.options import DEFAULT_WORLD, Json, World
from aos_cli.output import line, note, print_json

Intent = Annotated[
    str,
    typer.Argument(metavar="INTENT", help="The intent's hash, or at least its first 8 digits."),
]


def cancel(intent: Intent, *, world: World = DEFAULT_WORLD, json: Json = False) -> None:
    with looking_at(world) as view:
        found = intent_view.intent(view, intent)
    seq = _command(world, CANCEL, found)
    if json:
        print_json(_document(found, seq))
        return
    line(f"record {seq:,} cancels {found['effect']} of {_cell(found)}")
    line(f"  {found['intent']}")
    note("the effect may have run all the same; only its executor knows")


def settle(
    intent: Intent,
    *,
    ok: Annotated[
        str | None,
        typer.Option("--ok", metavar="JSON", help="The effect succeeded with this receipt."),
    ] = None,
    error: Annotated[
        tuple[str, str] | None,
        typer.Option(
            "--error", metavar="CODE MESSAGE", help="The effect failed with this code and message."
        ),
    ] = None,
    retryable: Annotated[
        bool,
        typer.Option("--retryable", help="With --error: the workflow may request it again."),
    ] = False,
    world: World = DEFAULT_WORLD,
    json: Json = False,
) -> None:
    if (ok is None) == (error is None) or (retryable and error is None):
        raise BadUsage(
            "effects settle: expected --ok JSON, or --error CODE MESSAGE with an optional "
            "--retryable (see aos effects settle --help)"
        )
    status = "error" if ok is None else "ok"
    with looking_at(world) as view:
        found = intent_view.intent(view, intent)
        opened = view.state.intents.get(parse_hash(found["intent"]))
        if opened is None:
            raise Refused(f"intent {found['intent']} is not open (it is {found['status']})")
        if error is not None:
            code, message = error
            given: Value = {"code": code, "message": message, "retryable": retryable}
            payload = encode(given)
        else:
            assert ok is not None
            payload = _receipt(opened.effect.receipt, ok)
    seq = _command(world, SETTLE, found, status=status, payload=payload)
    if json:
        print_json({**_document(found, seq), "status": status})
        return
    line(f"record {seq:,} settles {found['effect']} of {_cell(found)} as {status}")
    line(f"  {found['intent']}")
    note("a receipt that its executor sends later is refused")


def retry(
    intents: Annotated[
        list[str] | None,
        typer.Argument(metavar="[INTENT]...", help="Hashes, or at least their first 8 digits."),
    ] = None,
    *,
    parked: Annotated[
        bool, typer.Option("--parked", help="Retry all effects that are parked or held.")
    ] = False,
    effect: Annotated[
        str | None, typer.Option(metavar="NAME", help="With --parked: only this effect.")
    ] = None,
    code: Annotated[
        str | None, typer.Option(metavar="CODE", help="With --parked: only those with this code.")
    ] = None,
    world: World = DEFAULT_WORLD,
    json: Json = False,
) -> None:
    if bool(intents) == parked or ((effect or code) and not parked):
        raise BadUsage(
            "expected intents, or --parked with or without --effect and --code "
            "(aos inspect intents --parked lists them)"
        )
    found = _halted(world, intents or (), effect=effect, code=code)
    runs = retry_running(world, [parse_hash(each["intent"]) for each in found]) if found else []
    if json:
        print_json(
            {
                "running": None if not found else runs is not None,
                "halted": [each["intent"] for each in found],
                "retried": [f"blake3:{each.hex()}" for each in runs or ()],
            }
        )
    elif not found:
        line("no effect is parked or held")
    elif runs is None:
        line(f"no process runs this world: the next aos run retries {count(len(found), 'effect')}")
    else:
        line(f"{count(len(runs), 'effect')} retried")
        left = len(found) - len(runs)
        if left:
            note(
                f"{count(left, 'effect')} not retried: it may run only once and has run (end it "
                "with aos effects settle), it runs already, or this process has no executor for it"
            )


def _pages(view: View, *, effect: str | None, code: str | None) -> Iterator[Document]:
    offset = 0
    while True:
        page = intent_view.intents(
            view, halted=True, effect=effect, code=code, limit=LIMIT_MAX, offset=offset
        )
        yield from page["intents"]
        offset += LIMIT_MAX
        if offset >= page["total"]:
            return


def _halted(
    world: Path, intents: Sequence[str], *, effect: str | None, code: str | None
) -> list[Document]:
    """The rows of the named intents, or of all that are parked or held.

    Raises:
        Refused: A named intent is neither parked nor held.
    """
    with looking_at(world) as view:
        if not intents:
            return list(_pages(view, effect=effect, code=code))
        found = [intent_view.intent(view, each) for each in intents]
    for each in found:
        if each["halt"] is None:
            raise Refused(
                f"{each['intent']} is {each['status']}, and neither parked nor held "
                "(aos inspect intents --parked lists those that are)"
            )
    return found


def _receipt(schema: Schema, text: str) -> bytes:
    """The canonical CBOR of a receipt that was given as JSON.

    Raises:
        BadUsage: It is no JSON.
        Refused: It does not fit the effect's receipt schema.
    """
    try:
        parse_json(text)
    except ValueProblem as problem:
        raise BadUsage(f"--ok: {problem}") from problem
    try:
        return encode(schema.from_json(text))
    except ValueProblem as problem:
        raise Refused(f"--ok: {schema.name}: {problem}") from problem


def _command(
    world: Path,
    action: str,
    found: Document,
    *,
    status: str | None = None,
    payload: bytes | None = None,
) -> int:
    """Send a command about an intent and return its record. Raises: Refused: The core declined."""
    with writing_to(world) as writer:
        answer = writer.control(
            action, intent=parse_hash(found["intent"]), status=status, payload=payload
        )
    if isinstance(answer, Refusal):
        raise Refused(answer.message)
    return answer.seq


def _document(found: Document, seq: int) -> Document:
    return {
        "intent": found["intent"],
        "effect": found["effect"],
        "cell": {"workflow": found["workflow"], "key": found["key"]},
        "seq": seq,
    }


def _cell(found: Document) -> str:
    return name_cell(found["workflow"], found["key"])

"""``aos effects cancel``, ``settle`` and ``retry``: end an open effect, or run held and parked ones
again (spec/cli.md, C-27 to C-27b)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from aos.core.decide.answers import Answer, Refusal
from aos.core.journal.inputs import CANCEL, SETTLE
from aos.core.state.continuation import EFFECT_ERROR
from aos.errors import BadUsage, Refused
from aos.host.door.remote import retry_running
from aos.manifest.sealed_places import sealing_problem
from aos.read.lens.words import count, name_cell
from aos.read.operations.intent_reads import READ_INTENT, READ_INTENTS
from aos.read.views.record_view import Document
from aos.values.digests import Hash, hash_text, parse_hash
from aos.values.errors import ValueProblem
from aos.values.json_text import parse_json
from aos_cli.open_view import looking_at
from aos_cli.open_writing import writing_to
from aos_cli.options import (
    DEFAULT_WORLD,
    Json,
    NodeUrl,
    World,
    address_of,
    argument,
    client_of,
    flag,
    option,
)
from aos_cli.output import line, note, print_json
from aos_cli.world_reading import reading_of, rows_of

Intent = Annotated[str, argument("INTENT", "The intent's hash, or at least its first 8 digits.")]


def cancel(
    intent: Intent, *, world: World = DEFAULT_WORLD, node: NodeUrl = None, json: Json = False
) -> None:
    document = _intent(world, node, intent)
    seq = _command(world, node, CANCEL, document)
    if json:
        print_json(_document(document, seq))
        return
    line(f"record {seq:,} cancels {_effect(document)}")
    line(f"  {document['intent']}")
    note("the effect may have run already; only its executor can tell")


def settle(
    intent: Intent,
    *,
    ok: Annotated[str | None, option("JSON", "The effect succeeded with this receipt.")] = None,
    error: Annotated[
        tuple[str, str] | None,
        option("CODE MESSAGE", "The effect failed with this code and message."),
    ] = None,
    retryable: Annotated[
        bool, flag("--retryable", "With --error: the workflow may request it again.")
    ] = False,
    world: World = DEFAULT_WORLD,
    node: NodeUrl = None,
    json: Json = False,
) -> None:
    if (ok is None) == (error is None) or (retryable and error is None):
        raise BadUsage(
            "effects settle: expected --ok JSON, or --error CODE MESSAGE with an optional "
            "--retryable (see aos effects settle --help)"
        )
    status = "error" if ok is None else "ok"
    document = _intent(world, node, intent)
    if document.get("status", "open") != "open":
        raise Refused(f"intent {document['intent']} is not open (it is {document['status']})")
    if error is not None:
        code, message = error
        payload: object = {"code": code, "message": message, "retryable": retryable}
    else:
        assert ok is not None
        payload = _parsed(ok)
    seq = _command(world, node, SETTLE, document, status=status, payload=payload)
    if json:
        print_json({**_document(document, seq), "status": status})
        return
    line(f"record {seq:,} settles {_effect(document)} as {status}")
    line(f"  {document['intent']}")
    note("a receipt that its executor sends later is refused")


def retry(
    intents: Annotated[
        list[str] | None, argument("[INTENT]...", "Hashes, or at least their first 8 digits.")
    ] = None,
    *,
    parked: Annotated[bool, flag("--parked", "Retry all effects that are parked or held.")] = False,
    effect: Annotated[str | None, option("NAME", "With --parked: only this effect.")] = None,
    code: Annotated[str | None, option("CODE", "With --parked: only those with this code.")] = None,
    world: World = DEFAULT_WORLD,
    node: NodeUrl = None,
    json: Json = False,
) -> None:
    if bool(intents) == parked or ((effect or code) and not parked):
        raise BadUsage(
            "expected intents, or --parked with or without --effect and --code "
            "(aos inspect intents --parked lists them)"
        )
    rows = _halted(world, node, intents or (), effect=effect, code=code)
    runs = _retried(world, node, rows) if rows else []
    if json:
        print_json(
            {
                "running": None if not rows else runs is not None,
                "halted": [row["intent"] for row in rows],
                "retried": runs or [],
            }
        )
    elif not rows:
        line("no effect is parked or held")
    elif runs is None:
        line(f"no process runs this world: the next aos run retries {count(len(rows), 'effect')}")
    else:
        line(f"{count(len(runs), 'effect')} retried")
        skipped = len(rows) - len(runs)
        if skipped:
            note(
                f"{count(skipped, 'effect')} not retried: it may run only once and has run (end it "
                "with aos effects settle), it runs already, or this process has no executor for it"
            )


def _retried(world: Path, node: str | None, rows: Sequence[Document]) -> list[str] | None:
    """The intents that run again; None if no process runs the world, or any shard of a group."""
    if node is not None:
        with client_of(node) as client:
            return client.retry_effects([row["intent"] for row in rows])
    if address_of(world) is not None:
        # Few worlds are named by an address.
        from aos_cli.addressed_group import group_at, retry_in_shards  # noqa: PLC0415
        from aos_cli.addressed_world import retry_at_address  # noqa: PLC0415

        halted, group = [parse_hash(row["intent"]) for row in rows], group_at(world)
        retried_intents = (
            retry_at_address(world, halted) if group is None else retry_in_shards(group, halted)
        )
        return [hash_text(intent) for intent in retried_intents]
    by_world: dict[Path, list[Hash]] = {}
    for row in rows:
        by_world.setdefault(_world_of(world, row), []).append(parse_hash(row["intent"]))
    runs = [retry_running(path, intents) for path, intents in by_world.items()]
    if all(retried is None for retried in runs):
        return None
    return [hash_text(intent) for retried in runs for intent in retried or ()]


def _halted(
    world: Path,
    node: str | None,
    intents: Sequence[str],
    *,
    effect: str | None,
    code: str | None,
) -> list[Document]:
    """The rows of the named intents, or of all that are parked or held.

    Raises:
        Refused: A named intent is neither parked nor held.
    """
    is_address = node is None and address_of(world) is not None
    if not intents:
        if is_address:
            from aos_cli.addressed_world import refuse_choice  # noqa: PLC0415  # see below

            refuse_choice(world, "--parked")
        query = {"parked": True, "effect": effect, "code": code}
        return list(rows_of(reading_of(world, node), READ_INTENTS, "intents", query))
    rows = [_intent(world, node, intent) for intent in intents]
    for row in rows if not is_address else ():
        if row["halt"] is None:
            raise Refused(
                f"{row['intent']} is {row['status']}, and neither parked nor held "
                "(aos inspect intents --parked lists those that are)"
            )
    return rows


def _world_of(world: Path, row: Document) -> Path:
    """The world of an intent: itself, or its shard of a group."""
    return world / row["shard"] if "shard" in row else world


def _intent(world: Path, node: str | None, intent: str) -> Document:
    """The document of an intent; at an address, only its hash is known. Raises BadUsage if there is
    none."""
    if node is None and address_of(world) is not None:
        from aos_cli.addressed_world import whole_intent  # noqa: PLC0415  # few worlds have one

        return {
            "intent": hash_text(whole_intent(intent)),
            **dict.fromkeys(("effect", "workflow", "key"), None),
        }
    return reading_of(world, node).document(READ_INTENT, {"intent": intent})


def _parsed(text: str) -> object:
    try:
        return parse_json(text)
    except ValueProblem as problem:
        raise BadUsage(f"--ok: {problem}") from problem


def _command(
    world: Path,
    node: str | None,
    action: str,
    document: Document,
    *,
    status: str | None = None,
    payload: object = None,
) -> int:
    """Send a command about an intent and return its record.

    Raises:
        Refused: The world declined, or the payload does not fit the receipt schema of the effect.
    """
    intent = document["intent"]
    world = _world_of(world, document)
    if node is not None:
        with client_of(node) as client:
            answer: Answer = client.command(action, intent=intent, status=status, payload=payload)
    else:
        encoded = None if status is None else _receipt(world, parse_hash(intent), status, payload)
        answer = _control(world, action, parse_hash(intent), status, encoded)
    if isinstance(answer, Refusal):
        raise Refused(answer.message)
    return answer.seq


def _control(
    world: Path, action: str, intent: Hash, status: str | None, payload: bytes | None
) -> Answer:
    """Send a command about an intent to a world, or to the shard of a group that has it."""
    if address_of(world) is not None:
        # Few worlds are named by an address.
        from aos_cli.addressed_group import control_of_intent, group_at  # noqa: PLC0415

        group = group_at(world)
        if group is not None:
            return control_of_intent(group, action, intent, status=status, payload=payload)
    with writing_to(world) as writer:
        return writer.control(action, intent=intent, status=status, payload=payload)


def _receipt(world: Path, intent: Hash, status: str, payload: object) -> bytes:
    """The canonical CBOR of a receipt that was given as JSON.

    Raises:
        BadUsage: The world is named by its address, and ``status`` is ok: the schema of the receipt
            is not known.
        Refused: It does not fit the effect's receipt schema, or the intent is no longer open.
    """
    if address_of(world) is not None:
        if status == "ok":
            from aos_cli.addressed_world import refuse_choice  # noqa: PLC0415  # see above

            refuse_choice(world, "--ok")
        return EFFECT_ERROR.encode(EFFECT_ERROR.from_json_object(payload))
    with looking_at(world) as view:
        open_intent, manifest = view.state.intents.get(intent), view.state.manifest
    if open_intent is None:
        raise Refused(f"intent {hash_text(intent)} is not open (another receipt has settled it)")
    schema = open_intent.effect.receipt if status == "ok" else EFFECT_ERROR
    try:
        if manifest is not None and schema.name in manifest.sealing:
            sealing = sealing_problem(schema, payload, manifest.schemas)
            if sealing is not None:
                raise sealing
        return schema.encode(schema.from_json_object(payload))
    except ValueProblem as problem:
        option = "--ok" if status == "ok" else "--error"
        raise Refused(f"{option}: {schema.name}: {problem}") from problem


def _document(document: Document, seq: int) -> Document:
    return {
        "intent": document["intent"],
        "effect": document["effect"],
        "cell": None
        if document["workflow"] is None
        else {"workflow": document["workflow"], "key": document["key"]},
        "seq": seq,
    }


def _effect(document: Document) -> str:
    """The effect of an intent and its cell, as far as they are known."""
    if document["effect"] is None:
        return "the effect"
    return f"{document['effect']} of {name_cell(document['workflow'], document['key'])}"

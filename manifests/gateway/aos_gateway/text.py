"""Print the documents of ``aos gateway``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from aos.read.lens.words import count, span_text, time_text
from aos_cli.inspect_text import reason, section
from aos_cli.output import fields, line, note, table
from aos_cli.styled import Styled
from aos_gateway.keys import KINDS, LANE
from aos_gateway.policy import MS, fee_text
from aos_gateway.rows import AUTO, COMPLETED, FAILED, PENDING, RUNNING, STALLED, Row
from aos_gateway.sending import Commanded, Created, Sent

STYLES: Final = {
    PENDING: "dim",
    RUNNING: "cyan",
    STALLED: "yellow",
    COMPLETED: "green",
    FAILED: "red",
}
REFUSALS_SHOWN: Final = 10
COMMANDS_SHOWN: Final = 50
NOT_RUN: Final = "no process runs this world"

_DOING: Final = {
    "StoringEvidence": "stores the evidence",
    "PricingUpload": "asks Arweave for a price",
    "Uploading": "uploads",
    "AwaitingArweave": "waits for Arweave",
    "Checking": "asks the contract",
    "AwaitingTx": "waits for its transaction",
    "Verifying": "checks the result",
    "Quoting": "asks for nonce and fees",
    "Submitting": "publishes",
    "Awaiting": "waits for the chain",
    "Pausing": "pauses",
    "Mending": "publishes again",
    "Reconciling": "compares with the chain",
}
_PAUSES: Final = {
    "Retry": "tries again after",
    "Window": "waits for its window",
    "LaneFull": "waits for room at its lane",
}
_TRANSACTIONS: Final = (
    ("commit", "commit_tx_hash", "commit_confirmed"),
    ("transaction", "onchain_tx_hash", "onchain_confirmed"),
    ("register", "register_tx_hash", "register_confirmed"),
)


def created(answer: Created) -> None:
    pairs = [
        (answer.key.kind.name, answer.key.text),
        ("id", answer.key.id),
        ("record", "sent by another program" if answer.seq is None else f"{answer.seq}"),
    ]
    fields(pairs)
    if not answer.is_new:
        note(f"it exists with the same input ({answer.state}): nothing has changed")
    elif not answer.is_run:
        note(f"{NOT_RUN}: the {answer.key.kind.name} starts when one does (aos run)")


def show_list(document: Mapping[str, Any]) -> None:
    table(
        ["type", "state", "step", "why", "key"],
        [
            [row["type"], _state(row), row["step"] or "", _short_reason(row), row["key"]]
            for row in document["rows"]
        ],
    )
    rows_shown, total = len(document["rows"]), document["total"]
    suffix = "" if rows_shown == total else f", {rows_shown:,} shown (--limit, --offset)"
    note(f"{count(total, 'row')}{suffix}")


def show_row(row: Row) -> None:
    stored: Mapping[str, Any] = row["stored"] or {}
    pairs: list[tuple[str, str | Styled]] = [(row["type"], row["key"])]
    if row["id"] is not None:
        pairs.append(("id", row["id"]))
    pairs.append(("state", _state(row)))
    if row["step"] is not None:
        pairs.append(("step", _step(row)))
    pairs += _input(row, stored)
    pairs += _progress(stored)
    pairs += _of_lane(row)
    if stored.get("next_nonce") is not None:
        pairs.append(("next nonce", str(stored["next_nonce"])))
    pairs += [
        (name, time_text(row[field]))
        for name, field in (("created", "created_ns"), ("updated", "updated_ns"))
        if row[field] is not None
    ]
    if row["code"] is not None and row["state"] == RUNNING:
        pairs.append(("last error", f"{row['code']} in {row['error_step']}: {row['error']}"))
    pairs += [("why", reason(wait)) for wait in row["waits"]]
    fields(pairs)
    _attempts(row["attempts"])
    if row["queue"]:
        _queue(row["queue"])
    workflow = next(kind.workflow for kind in KINDS if kind.name == row["type"])
    note(f"its history: aos trace {workflow} {row['key']}")


def commanded(sent: Sent) -> None:
    for command in sent.commands[:COMMANDS_SHOWN]:
        if command.refusal is None:
            line(_commanded(command))
    if len(sent.commands) > COMMANDS_SHOWN:
        note(f"and {len(sent.commands) - COMMANDS_SHOWN:,} more (--json lists them all)")
    refused = [command for command in sent.commands if command.refusal is not None]
    for command in refused[:REFUSALS_SHOWN]:
        note(f"aos: {command.key.words}: {command.refusal}", style="red")
    if len(refused) > REFUSALS_SHOWN:
        note(f"and {len(refused) - REFUSALS_SHOWN:,} more were refused (--json lists them all)")
    if not sent.commands:
        note("no record or lane is in such a state: nothing was sent")
    elif not sent.is_run:
        note(f"{NOT_RUN}: recorded, and it takes effect at the next aos run")
    elif sent.unanswered:
        note(
            f"{sent.unanswered:,} of {count(len(sent.commands), 'command')} recorded, but not run "
            "by the world yet (aos gateway show KEY)"
        )


def _commanded(command: Commanded) -> str:
    text = f"{command.key.words}: record {command.seq:,}"
    if command.row_after is None:
        return text
    text_before, text_after = (
        _change(part._asdict()) for part in (command.row_before, command.row_after)
    )
    text += f", {text_before}" if text_before == text_after else f", {text_before} → {text_after}"
    return f"{text}: {command.note}" if command.note else text


def _change(part: Mapping[str, Any]) -> str:
    stall = f" ({part['stall']})" if part["stall"] is not None else ""
    step = f" {part['step']}" if part["step"] is not None and part["state"] != COMPLETED else ""
    return f"{part['state']}{stall}{step}"


def _state(row: Row) -> Styled:
    if row["fault"] is not None:
        return Styled(f"{row['state']}, stopped by a fault", style="red")
    text = row["state"] if row["stall"] is None else f"{row['state']} ({row['stall']})"
    if row["drift"] is not None:
        return Styled(f"{text}, drift", style="red")
    return Styled(text, style=STYLES.get(row["state"], ""))


def _short_reason(row: Row) -> str:
    if row["fault"] is not None:
        return str(row["fault"])
    if row["drift"] is not None:
        return str(row["drift"])
    if row["stall"] == AUTO:
        return f"{row['code'] or ''} until {time_text(row['stall_until_ns'])}".strip()
    if row["stall"] is not None:
        return str(row["code"] or row["stall_why"] or "")
    if row["state"] == FAILED:
        return str(row["code"])
    if row["held"] is not None:
        return f"held: {row['held']}"
    if row["pause"] in _PAUSES:
        return f"{_PAUSES[row['pause']]} {row['code'] or ''}".strip()
    doing = _DOING.get(row["doing"] or "", "")
    if row["type"] == LANE.name and row["queued"]:
        return f"{doing}, {row['queued']:,} queued".removeprefix(", ")
    return doing


def _step(row: Row) -> str:
    retries = row["step_attempts"]
    if not retries:
        return str(row["step"])
    return f"{row['step']}, {retries} {'retry' if retries == 1 else 'retries'}"


def _input(row: Row, stored: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    record_input = stored.get("input") or {}
    for name in ("chain", "studio", "epoch", "signer"):
        if row[name] is not None:
            yield name, str(row[name])
    for name in ("worker", "admin"):
        if record_input.get(f"{name}_address") is not None:
            yield name, record_input[f"{name}_address"]
    if record_input.get("evidence_bytes") is not None:
        yield (
            "evidence",
            f"{record_input['evidence_bytes']:,} bytes, {record_input['content_type']}",
        )
    if record_input.get("scores") is not None:
        yield (
            "scores",
            f"{','.join(map(str, record_input['scores']))} ({record_input['mode']['$tag']})",
        )
    if "policy" in stored:
        yield "policy", _policy(stored["policy"], is_work=row["type"] == "work")


def _policy(policy: Mapping[str, int], *, is_work: bool) -> str:
    def span(name: str) -> str:
        return span_text(policy[name] * MS)

    conf = policy["conf"]
    parts = [
        f"{count(conf, 'confirmation')}" if conf else "finalized blocks",
        f"looks of {span('wait_ms')}",
        f"fees raised after {policy['bump_after']} looks, to {fee_text(policy['max_fee'])}",
        f"{policy['retries']} retries of {span('retry_base_ms')} to {span('retry_cap_ms')}",
        f"{policy['stall_cycles']} stalls of {span('stall_base_ms')} to {span('stall_cap_ms')}",
    ]
    if is_work:
        parts.append(
            f"Arweave: {count(policy['arweave_conf'], 'confirmation')}, looks of "
            f"{span('arweave_wait_ms')}"
        )
    return "; ".join(parts)


def _progress(stored: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    progress = stored.get("progress") or {}
    if progress.get("arweave_tx_id") is not None:
        yield "arweave", f"{progress['arweave_tx_id']}{_is_done(progress['arweave_confirmed'])}"
    for name, hash_field, done_field in _TRANSACTIONS:
        hash_, is_done = progress.get(hash_field), progress.get(done_field)
        if hash_ is not None or is_done:
            transaction = hash_ or "by no transaction of this record"
            yield name, f"{transaction}{_is_done(is_done)}"


def _is_done(confirmed: bool | None) -> str:
    return ", confirmed" if confirmed else ", not confirmed"


def _of_lane(row: Row) -> Iterator[tuple[str, str]]:
    lane = row["lane"]
    if lane is None or lane["request"] is None:
        return
    position_text = f"request {lane['request']}, place {lane['place']} of {lane['of']}"
    yield "lane", f"{lane['key']}: {lane['state']}; {position_text}"


def _attempts(attempts: list[Row]) -> None:
    if not attempts:
        return
    section("attempts")
    table(
        ["nonce", "fate", "max fee", "tip", "transaction"],
        [
            [
                str(attempt["nonce"]),
                f"{attempt['fate']}{' (open)' if attempt['is_open'] else ''}",
                fee_text(attempt["max_fee"]),
                fee_text(attempt["max_tip"]),
                f"{attempt['hash'] or 'not named yet'}{', empty' if attempt['is_cancel'] else ''}",
            ]
            for attempt in attempts
        ],
        right_aligned=["nonce"],
    )


def _queue(queue: list[Row]) -> None:
    section(f"requests: {len(queue):,}")
    table(
        ["place", "owner", "request"],
        [
            [
                str(request["place"]),
                f"{request['owner']['type']} {request['owner']['key']}",
                str(request["request"]),
            ]
            for request in queue
        ],
        right_aligned=["place"],
    )

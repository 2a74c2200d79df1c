"""Print the documents of ``aos gateway``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from aos.audit.lens.words import count, span_text, time_text
from aos_cli.gateway.commanding import Commanded, Sent
from aos_cli.gateway.creating import Created
from aos_cli.gateway.keys import KINDS, LANE
from aos_cli.gateway.policy import MS, fee_text
from aos_cli.gateway.rows import AUTO, COMPLETED, FAILED, PENDING, RUNNING, STALLED, Row
from aos_cli.inspect_text import reason, section
from aos_cli.output import fields, line, note, table
from aos_cli.styled import Styled

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


def created(found: Created) -> None:
    pairs = [
        (found.key.kind.name, found.key.text),
        ("id", found.key.id),
        ("record", "sent by another program" if found.seq is None else f"{found.seq}"),
    ]
    fields(pairs)
    if not found.is_new:
        note(f"it exists with the same input ({found.state}): nothing has changed")
    elif not found.is_run:
        note(f"{NOT_RUN}: the {found.key.kind.name} starts when one does (aos run)")


def listed(found: Mapping[str, Any]) -> None:
    table(
        ["type", "state", "step", "why", "key"],
        [
            [each["type"], _state(each), each["step"] or "", _short_reason(each), each["key"]]
            for each in found["rows"]
        ],
    )
    shown, total = len(found["rows"]), found["total"]
    more = "" if shown == total else f", {shown:,} shown (--limit, --offset)"
    note(f"{count(total, 'row')}{more}")


def shown(found: Row) -> None:
    stored: Mapping[str, Any] = found["stored"] or {}
    pairs: list[tuple[str, str | Styled]] = [(found["type"], found["key"])]
    if found["id"] is not None:
        pairs.append(("id", found["id"]))
    pairs.append(("state", _state(found)))
    if found["step"] is not None:
        pairs.append(("step", _step(found)))
    pairs += _input(found, stored)
    pairs += _progress(stored)
    pairs += _of_lane(found)
    if stored.get("next_nonce") is not None:
        pairs.append(("next nonce", str(stored["next_nonce"])))
    pairs += [
        (name, time_text(found[field]))
        for name, field in (("created", "created_ns"), ("updated", "updated_ns"))
        if found[field] is not None
    ]
    if found["code"] is not None and found["state"] == RUNNING:
        pairs.append(("last error", f"{found['code']} in {found['error_step']}: {found['error']}"))
    pairs += [("why", reason(each)) for each in found["waits"]]
    fields(pairs)
    _attempts(found["attempts"])
    if found["queue"]:
        _queue(found["queue"])
    workflow = next(kind.workflow for kind in KINDS if kind.name == found["type"])
    note(f"its history: aos trace {workflow} {found['key']}")


def commanded(sent: Sent) -> None:
    for each in sent.commands[:COMMANDS_SHOWN]:
        if each.refusal is None:
            line(_commanded(each))
    if len(sent.commands) > COMMANDS_SHOWN:
        note(f"and {len(sent.commands) - COMMANDS_SHOWN:,} more (--json lists them all)")
    refused = [each for each in sent.commands if each.refusal is not None]
    for each in refused[:REFUSALS_SHOWN]:
        note(f"aos: {each.key.words}: {each.refusal}", style="red")
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


def _commanded(each: Commanded) -> str:
    text = f"{each.key.words}: record {each.seq:,}"
    if each.after is None:
        return text
    before, after = (_change(part._asdict()) for part in (each.before, each.after))
    text += f", {before}" if before == after else f", {before} → {after}"
    return f"{text}: {each.note}" if each.note else text


def _change(part: Mapping[str, Any]) -> str:
    stall = f" ({part['stall']})" if part["stall"] is not None else ""
    step = f" {part['step']}" if part["step"] is not None and part["state"] != COMPLETED else ""
    return f"{part['state']}{stall}{step}"


def _state(found: Row) -> Styled:
    if found["fault"] is not None:
        return Styled(f"{found['state']}, stopped by a fault", style="red")
    text = found["state"] if found["stall"] is None else f"{found['state']} ({found['stall']})"
    if found["drift"] is not None:
        return Styled(f"{text}, drift", style="red")
    return Styled(text, style=STYLES.get(found["state"], ""))


def _short_reason(found: Row) -> str:
    if found["fault"] is not None:
        return str(found["fault"])
    if found["drift"] is not None:
        return str(found["drift"])
    if found["stall"] == AUTO:
        return f"{found['code'] or ''} until {time_text(found['stall_until_ns'])}".strip()
    if found["stall"] is not None:
        return str(found["code"] or found["stall_why"] or "")
    if found["state"] == FAILED:
        return str(found["code"])
    if found["held"] is not None:
        return f"held: {found['held']}"
    if found["pause"] in _PAUSES:
        return f"{_PAUSES[found['pause']]} {found['code'] or ''}".strip()
    doing = _DOING.get(found["doing"] or "", "")
    if found["type"] == LANE.name and found["queued"]:
        return f"{doing}, {found['queued']:,} queued".removeprefix(", ")
    return doing


def _step(found: Row) -> str:
    retries = found["step_attempts"]
    if not retries:
        return str(found["step"])
    return f"{found['step']}, {retries} {'retry' if retries == 1 else 'retries'}"


def _input(found: Row, stored: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    given = stored.get("input") or {}
    for name in ("chain", "studio", "epoch", "signer"):
        if found[name] is not None:
            yield name, str(found[name])
    for name in ("worker", "admin"):
        if given.get(f"{name}_address") is not None:
            yield name, given[f"{name}_address"]
    if given.get("evidence_bytes") is not None:
        yield "evidence", f"{given['evidence_bytes']:,} bytes, {given['content_type']}"
    if given.get("scores") is not None:
        yield "scores", f"{','.join(map(str, given['scores']))} ({given['mode']['$tag']})"
    if "policy" in stored:
        yield "policy", _policy(stored["policy"], is_work=found["type"] == "work")


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
            what = hash_ or "by no transaction of this record"
            yield name, f"{what}{_is_done(is_done)}"


def _is_done(confirmed: bool | None) -> str:
    return ", confirmed" if confirmed else ", not confirmed"


def _of_lane(found: Row) -> Iterator[tuple[str, str]]:
    lane = found["lane"]
    if lane is None or lane["request"] is None:
        return
    place = f"request {lane['request']}, place {lane['place']} of {lane['of']}"
    yield "lane", f"{lane['key']}: {lane['state']}; {place}"


def _attempts(attempts: list[Row]) -> None:
    if not attempts:
        return
    section("attempts")
    table(
        ["nonce", "fate", "max fee", "tip", "transaction"],
        [
            [
                str(each["nonce"]),
                f"{each['fate']}{' (open)' if each['is_open'] else ''}",
                fee_text(each["max_fee"]),
                fee_text(each["max_tip"]),
                f"{each['hash'] or 'not named yet'}{', empty' if each['is_cancel'] else ''}",
            ]
            for each in attempts
        ],
        right=["nonce"],
    )


def _queue(queue: list[Row]) -> None:
    section(f"requests: {len(queue):,}")
    table(
        ["place", "owner", "request"],
        [
            [
                str(each["place"]),
                f"{each['owner']['type']} {each['owner']['key']}",
                str(each["request"]),
            ]
            for each in queue
        ],
        right=["place"],
    )

"""Print the documents of ``aos inspect`` as text."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, Final

from aos.audit.lens.words import compact, count, short, span_text, time_text
from aos.audit.views.clock_view import ahead_text
from aos.audit.views.reason import EVENT, command_words
from aos.audit.views.record_view import cell_text, control_text, kernel_cause, name_cell
from aos.host.folder.adoption import WORDS, Origin
from aos.host.machine_clock import now_ns
from aos_cli.output import (
    STATUS_STYLES,
    entry,
    fields,
    is_terminal,
    line,
    note,
    print_json,
    status_text,
    table,
    terminal_width,
)
from aos_cli.styled import Styled

KIND_STYLES: Final = {
    "genesis": "magenta",
    "start": "magenta",
    "manifest": "magenta",
    "event": "cyan",
    "step": "green",
    "fault": "red",
    "receipt": "yellow",
    "kernel_receipt": "yellow",
    "stream": "yellow",
    "attempt": "yellow",
    "control": "magenta",
}
PHASES: Final = {
    "queued": "queued",
    "running": "running",
    "backoff": "in backoff",
    "held": "held",
    "parked": "parked",
}

PREFIX_DIGITS: Final = 12
"""Digits of an intent's hash that a terminal shows; commands accept this prefix."""

MODULE_DIGITS: Final = 8

WIDE: Final = 110
"""Columns from which on a terminal has room for what cells wait for."""

_SEQ_WIDTH: Final = 7
_KIND_WIDTH: Final = 14
_HASH_NAME: Final = "blake3:"

Found = dict[str, Any]


def show(found: Found, words: Callable[[Found], None], *, json: bool) -> None:
    """Print a document as JSON, or as text."""
    if json:
        print_json(found)
    else:
        words(found)


def world(found: Found) -> None:
    journal, manifest, cells, intents = (
        found[name] for name in ("journal", "manifest", "cells", "intents")
    )
    pairs: list[tuple[str, str | Styled]] = [
        ("world", found["world"]),
        *(
            ("forked of", f"{each['world']}, after record {each['at']:,}")
            for each in reversed(found["ancestors"])
        ),
        ("folder", found["path"]),
        ("created", time_text(found["created_ns"])),
        ("operators", ", ".join(each["name"] for each in found["operators"])),
        ("as it was", f"after record {found['at']:,}")
        if found["at"] is not None
        else ("process", _process(found["process"], found["origin"])),
        (
            "journal",
            _journal(journal),
        ),
        (
            "manifest",
            "none yet (aos apply PATH)"
            if manifest is None
            else f"{manifest['hash']}, record {manifest['record']}",
        ),
        *_versions(found["versions"]),
        ("snapshot", _snapshot(found["snapshot"])),
        ("cells", _counts(cells)),
    ]
    pairs += [(f"  {name}", _counts(each)) for name, each in cells["by_workflow"].items()]
    pairs.append(("effects", _effects(intents)))
    pairs += [(f"  {name}", f"{number:,} open") for name, number in intents["by_effect"].items()]
    process = found["process"] or {"executors": {}}
    at_ns = now_ns() if found["at"] is None else journal["clock_ns"]
    pairs += [
        (f"  executor {name}", _executor(each, process["executors"].get(name, {}), at_ns))
        for name, each in intents["by_executor"].items()
    ]
    if intents["timers"]["open"]:
        pairs.append(("  timers", _executor(intents["timers"], {}, at_ns)))
    pairs += [(f"  {each['effect']}", _halted(each)) for each in intents["halted"]]
    pairs.append(("mail", _mail(found["mail"])))
    fields(pairs)
    if journal["clock_ahead_ns"]:
        note(ahead_text(journal["clock_ahead_ns"]), style="yellow")


def _executor(found: Found, phases: Found, now_ns: int) -> str:
    """The open effects of one executor: by phase if a process runs them, else by their attempts.
    Timers have neither."""
    parts = [f"{found['open']:,} open, {_age(found['oldest_open_ns'], now_ns)}"]
    if found.get("retried"):
        parts.append(f"{found['retried']:,} retried, {_age(found['oldest_retried_ns'], now_ns)}")
    parts += [
        f"{phases[phase]['number']:,} {words}, {_age(phases[phase]['since_ns'], now_ns)}"
        for phase, words in PHASES.items()
        if phase in phases
    ]
    return "; ".join(parts)


def _age(ns: int, now_ns: int) -> str:
    if ns > now_ns:
        return f"the next begins in {span_text(ns - now_ns)}"
    return f"the oldest for {span_text(now_ns - ns)}"


def _halted(found: Found) -> Styled:
    return Styled(
        f"{found['count']:,} {found['phase']}: {found['code']} (aos inspect intents --parked)",
        style="red",
    )


def _versions(found: list[Found]) -> list[tuple[str, str | Styled]]:
    """How many instances run under each manifest; empty if there is only one manifest."""
    if len(found) < 2:
        return []
    return [
        (
            "  in force" if each["in_force"] else "  pinned to",
            f"record {each['record']}: {count(each['cells'], 'cell')}",
        )
        for each in found
    ]


def _process(found: Found | None, origin: str | None) -> str:
    if origin is not None:
        return f"none: {WORDS[Origin(origin)]} (aos adopt)"
    if found is None:
        return "no process runs this world (aos run)"
    text = (
        f"pid {found['pid']} runs it: {found['steps']:,} steps, {found['queued']:,} inputs queued"
    )
    return f"{text}; {found['no_room']}" if found["no_room"] else text


def _snapshot(found: Found | None) -> str:
    if found is None:
        return "none yet (aos snapshot)"
    return f"after record {found['at']:,}: {found['document']}"


def _journal(found: Found) -> str:
    records, frames = count(found["records"], "record"), count(found["frames"], "frame")
    return f"{records} in {frames}, clock at {time_text(found['clock_ns'])}"


def _counts(found: Found) -> Styled:
    total = sum(found[name] for name in ("running", "waiting", "completed", "failed"))
    text = Styled(f"{total:,}")
    separator = ": "
    shown = {**found, "running": found["running"] - found["idle"]}
    for name in ("running", "idle", "waiting", "completed", "failed"):
        if shown[name]:
            text.append(separator)
            text.append(f"{shown[name]:,} {name}", style=STATUS_STYLES[name])
            separator = ", "
    return text


def _effects(found: Found) -> str:
    text = f"{found['open']:,} open"
    return f"{text}, {found['abandoned']:,} abandoned" if found["abandoned"] else text


def _mail(found: Found) -> str:
    parts = [f"{found['queued']:,} queued"]
    if found["behind_faults"]:
        parts.append(f"{found['behind_faults']:,} behind faults")
    if found["uncounted"]:
        parts.append(f"{found['uncounted']:,} past the limit of a mailbox")
    return ", ".join(parts)


def manifest(found: Found) -> None:
    fields(
        [
            ("manifest", found["hash"]),
            ("in force since", f"record {found['record']}"),
            *_versions(found["versions"]),
            ("schemas", f"{len(found['schemas'])} (aos inspect manifest NAME shows one)"),
        ]
    )
    section("workflows")
    table(
        ["workflow", "key", "event", "module"],
        [
            [each["name"], each["key_schema"] or "", each["event"], each["module"]]
            for each in found["workflows"]
        ],
    )
    section("effects")
    table(
        ["effect", "executor", "attempts", "timeout"],
        [
            [
                each["name"],
                each["executor"],
                str(each["attempts"]),
                span_text(each["timeout_ms"] * 1_000_000),
            ]
            for each in found["effects"]
        ],
    )
    section("routes")
    table(
        ["event", "workflow", "key"],
        [[each["event"], each["workflow"], _route_key(each)] for each in found["routes"]],
    )
    section("events from outside")
    for event in ["every event"] if found["ingress"] is None else found["ingress"] or ["none"]:
        line(event)
    section("modules")
    table(["module", "hash"], [[each["name"], each["hash"]] for each in found["modules"]])
    section("executors")
    if found["executors"] is None:
        line("the world's own key signs for every effect")
    else:
        table(
            ["executor", "public key", "effects"],
            [
                [each["name"], each["public_key"], ", ".join(each["effects"])]
                for each in found["executors"]
            ],
        )


def _route_key(found: Found) -> str:
    """The key field of a route, and whether it delivers only to existing instances."""
    only = "" if found["creates"] else "existing instances only"
    return ", ".join(filter(None, (found["key_field"], only)))


def section(title: str) -> None:
    """Begin a part of the text with its title."""
    line()
    line(title, style="bold")


def cells(found: Found) -> None:
    # A terminal has little room: leave out columns that are empty or the same in every row, and
    # the time of the last activity if a cell is pinned.
    everything = not is_terminal()
    has_fault = everything or any(each["fault"] for each in found["cells"])
    has_pin = any(each["version"]["is_pinned"] for each in found["cells"])
    has_state = any("state" in each for each in found["cells"])
    has_waits = everything or (
        terminal_width() >= WIDE
        and any(each["waits_for"] not in ([], [EVENT]) for each in found["cells"])
    )
    columns: list[tuple[str, bool, Callable[[Found], str | Styled]]] = [
        ("workflow", True, lambda each: str(each["workflow"])),
        ("key", True, lambda each: _key(each["key"])),
        ("status", True, _status),
        ("effects", True, lambda each: f"{each['in_flight']}"),
        ("mail", True, lambda each: f"{each['mailbox']}"),
        ("record", True, lambda each: f"{each['last_record']}"),
        ("last active", everything or not has_pin, _last_active),
        ("version", everything or has_pin, lambda each: _version(each["version"])),
        ("fault", has_fault, _fault_kind),
        ("waits for", has_waits, lambda each: ", ".join(each["waits_for"])),
        ("state", has_state, lambda each: _state(each["state"])),
    ]
    shown = [(title, cell) for title, is_shown, cell in columns if is_shown]
    table(
        [title for title, _ in shown],
        [[cell(each) for _, cell in shown] for each in found["cells"]],
        right=("effects", "mail", "record"),
    )
    _more(found, "cells")
    if found["total"] > len(found["cells"]) or found["total"] < found["looked_at"]:
        reasons = ", ".join(f"{number:,} {why}" for why, number in found["by_reason"].items())
        note(f"{count(found['looked_at'], 'cell')} looked at" + (f": {reasons}" if reasons else ""))


def _state(state: Any) -> str:
    """A state on one line; of a flow only what fits there, without its operations."""
    if not (isinstance(state, dict) and {"operations", "waits", "history_problem"} <= state.keys()):
        return compact(state)
    parts = [state["status"]]
    if state["waits"]:
        parts.append(f"waits at {', '.join(each['path'] for each in state['waits'])}")
    parts += [
        f"{name} {compact(state[name])}"
        for name in ("view", "output", "error")
        if state[name] is not None
    ]
    return "; ".join(parts)


def _status(found: Found) -> Styled:
    """A cell's status; ``idle`` for a running one that only waits for an event."""
    return status_text("idle" if found["is_idle"] else found["status"])


def _fault_kind(found: Found) -> Styled:
    return Styled(found["fault"]["kind"] if found["fault"] else "", style="red")


def _last_active(found: Found) -> str:
    return time_text(found["last_active_ns"]) if found["last_record"] else "never"


def _version(found: Found) -> str:
    """The first digits of the hash of the module that runs next, and whether it is pinned."""
    if found["module_hash"] is None:
        return "workflow is gone"
    digits: str = found["module_hash"].removeprefix(_HASH_NAME)[:MODULE_DIGITS]
    return f"{digits} pinned" if found["is_pinned"] else digits


def _key(key: object) -> str:
    return "" if key is None else short(key, 60)


def _more(found: Found, what: str) -> None:
    """Print a note if rows of a list were left out."""
    shown = len(found[what])
    if not found["total"]:
        note(f"no {what}")
    elif found["next_offset"] is not None:
        note(f"{shown:,} of {found['total']:,} {what} (the next: --offset {found['next_offset']})")
    elif found["offset"]:
        note(f"{shown:,} of {found['total']:,} {what}")


def _pin(found: Found) -> list[tuple[str, str | Styled]]:
    if not found["is_pinned"]:
        return []
    return [("pinned", f"to the manifest of record {found['record']}, {found['manifest']}")]


def cell(found: Found) -> None:
    pairs: list[tuple[str, str | Styled]] = [
        ("cell", name_cell(found["workflow"], found["key"])),
        ("status", _status(found)),
        ("last active", _last_active(found)),
        ("last record", f"{found['last_record']}" if found["last_record"] else "none"),
        ("module", found["module_hash"]),
        *_pin(found["version"]),
    ]
    pairs += [("why", reason(each)) for each in found["reasons"]]
    if found["fault"] is not None:
        if found["fault"]["engine_text"] is not None:
            pairs.append(("engine", found["fault"]["engine_text"].strip()))
        pairs.append(("mail", _kept(found)))
    fields(pairs)
    if found["state"] is not None:
        section("state")
        value(found["state"])
    if found["intents"]:
        section("open effects")
        _intent_table(found["intents"])
    if found["mail"]:
        section(f"mail: {found['mailbox']:,}")
        table(
            ["record", "what", "value"],
            [[str(each["record"]), *_mail_words(each)] for each in found["mail"]],
        )
    note(f"its history: aos trace {command_words(found['workflow'], found['key'])}")


def _kept(found: Found) -> str:
    """The size of the mail of a cell that does not run."""
    kept = f"{found['mailbox']:,} kept"
    if not found["mail_uncounted"]:
        return kept
    return f"{kept}, {found['mail_uncounted']:,} past the limit, in the journal alone"


def _mail_words(found: Found) -> tuple[str, str]:
    if found["kind"] == "event":
        return found["schema"], short(found["value"])
    if found["kind"] == "stream":
        frame = f"{found['frame_kind']} {found['frame_seq']} {short(found['payload'])}"
        return f"frame of {found['effect']}", frame
    return f"receipt for {found['effect']}", found["status"]


def reason(found: Found) -> Styled:
    text = Styled(found["text"], style="red" if found["is_stuck"] else "")
    if found["next"]:
        text.append(f" ▸ {found['next']}", style="bold")
    return text


def intents(found: Found) -> None:
    _intent_table(found["intents"])
    _more(found, "intents")
    if found["total"] < found.get("looked_at", 0):
        note(f"{count(found['looked_at'], 'receipt')} looked at")


def _intent_table(rows: list[Found]) -> None:
    has_path = any(each["flow"] for each in rows)
    table(
        ["intent", "effect", "cell", "status", "record", "age", *(["at"] if has_path else [])],
        [
            [
                _hash(each["intent"]),
                each["effect"],
                name_cell(each["workflow"], each["key"]),
                _intent_status(each),
                str(each["record"]),
                "" if each["age_ns"] is None else span_text(each["age_ns"]),
                *([each["flow"]["path"] if each["flow"] else ""] if has_path else []),
            ]
            for each in rows
        ],
        right=("record", "age"),
    )


def _hash(hash: str) -> str:
    """The hash in full if programs read it, else a prefix that identifies it."""
    if not is_terminal():
        return hash
    return hash.removeprefix(_HASH_NAME)[:PREFIX_DIGITS]


def _intent_status(found: Found) -> Styled:
    text = status_text(found["status"])
    if found["receipt_status"] is not None:
        text.append(f" {found['receipt_status']}")
    if found["code"] not in (None, found["receipt_status"]):
        text.append(f" {found['code']}")
    if found["halt"] is not None:
        text.append(f" {found['halt']['phase']} {found['halt']['code']}", style="red")
    return text


def intent(found: Found) -> None:
    pairs: list[tuple[str, str | Styled]] = [
        ("intent", found["intent"]),
        ("effect", found["effect"]),
        ("status", _intent_status(found)),
        ("asked for by", f"{name_cell(found['workflow'], found['key'])}, record {found['record']}"),
        ("executor", found["executor"] or "not in the manifest any more"),
        ("idempotency key", found["idempotency_key"]),
    ]
    if found["age_ns"] is not None:
        pairs.append(("open for", span_text(found["age_ns"])))
    if found["reason"] is not None:
        pairs.append(("why", reason(found["reason"])))
    pairs += [
        ("attempt", f"{each['attempt']} {each['phase']}, record {each['seq']}{_because(each)}")
        for each in found["attempts"]
    ]
    pairs += [
        ("canceled", f"by {each['principal']}, record {each['seq']}") for each in found["cancels"]
    ]
    pairs += [
        ("settled", f"as {each['status']} by {each['principal']}, record {each['seq']}")
        for each in found["settlements"]
    ]
    ended = found["abandoned_by"]
    if ended is not None:
        pairs.append(("abandoned", f"record {ended['seq']}: {control_text(ended)}"))
    if found["frames"]:
        last = found["last_frames"][-1]
        words = f"{count(found['frames'], 'frame')}, the last {last['frame_kind']}"
        pairs.append(("stream", f"{words} {last['frame_seq']} {short(last['payload'])}"))
    receipt = found["receipt"]
    if receipt is not None:
        pairs += _receipt(receipt)
        if receipt["problem"]:
            pairs.append(("problem", receipt["problem"]))
    fields(pairs)
    section("params")
    value(found["params"])
    if receipt is not None:
        section("answer")
        value(receipt["payload"])


def _because(found: Found) -> str:
    return "".join(f": {each}" for each in (found["code"], found["problem"]) if each)


def _receipt(found: Found) -> list[tuple[str, str]]:
    if found["kind"] == "kernel_receipt":
        return [
            ("settled", f"record {found['seq']}"),
            ("receipt", f"{found['status']}, {kernel_cause(found)}"),
            ("signed by", "no executor: the core made it"),
        ]
    took = span_text(found["finished_ns"] - found["started_ns"])
    batch = found["batch"]
    together = f", with {count(batch['size'] - 1, 'other')}" if batch else ""
    return [
        ("settled", f"record {found['seq']}, {time_text(found['at_ns'])}"),
        ("receipt", f"{found['status']}, attempt {found['attempt']}, took {took}"),
        ("signed by", f"{found['executor']}, {found['key_id']}{together}"),
    ]


def faults(found: Found) -> None:
    table(
        ["record", "cell", "kind", "message", "mail"],
        [
            [
                str(each["record"]),
                name_cell(each["workflow"], each["key"]),
                Styled(each["kind"], style="red"),
                each["message"],
                str(each["mailbox"]),
            ]
            for each in found["faults"]
        ],
        right=("record", "mail"),
    )
    for kind, advice in {each["kind"]: each["advice"] for each in found["faults"]}.items():
        note(f"{kind} ▸ {advice}")
    if found["faults"]:
        note(
            "to resume one: aos cells retry WORKFLOW KEY (--skip drops the entry that it failed on)"
        )
    _more(found, "faults")


def whereabouts(found: Found) -> None:
    erased = ", ".join(f"record {each}" for each in found["erased_by"])
    fields(
        [
            ("value", found["value"]),
            ("size", "" if found["size"] is None else f"{found['size']:,} bytes"),
            ("bytes", "there" if found["is_there"] else "not there"),
            ("erased by", erased or "no record"),
        ]
    )
    section(f"records: {found['total']:,}")
    table(
        ["record", "kind", "where", "cell"],
        [
            [
                str(each["record"]),
                each["kind"],
                each["where"],
                "" if each["cell"] is None else cell_text(each["cell"]),
            ]
            for each in found["records"]
        ],
        right=("record",),
    )


def record_line(found: Found) -> None:
    kind = found["kind"]
    entry(
        [(str(found["seq"]), _SEQ_WIDTH), (kind, _KIND_WIDTH)],
        found["summary"],
        style=KIND_STYLES.get(kind),
    )


def value(found: object) -> None:
    """Print a value as indented JSON."""
    for each in pretty(found, max(terminal_width(), 40) - 2):
        line(f"  {each}")


def pretty(found: object, width: int, *, taken: int = 0) -> list[str]:
    """Lines of JSON: a value that fits into ``width`` columns is on one line. ``taken`` is the
    number of columns already used on the first line."""
    whole = json.dumps(found, ensure_ascii=False)
    if taken + len(whole) <= width or not isinstance(found, dict | list) or not found:
        return [whole]
    if isinstance(found, list):
        return ["[", *_indented([("", each) for each in found], width), "]"]
    pairs = [(f"{json.dumps(name, ensure_ascii=False)}: ", each) for name, each in found.items()]
    return ["{", *_indented(pairs, width), "}"]


def _indented(parts: list[tuple[str, object]], width: int) -> Iterator[str]:
    for index, (name, each) in enumerate(parts):
        first, *rest = pretty(each, width - 2, taken=len(name) + len(","))
        lines = [f"  {name}{first}", *(f"  {line}" for line in rest)]
        if index < len(parts) - 1:
            lines[-1] += ","
        yield from lines

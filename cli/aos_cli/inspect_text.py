"""Print the documents of ``aos inspect`` as text."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, Final

from aos.host.folder.adoption import WORDS, Origin
from aos.host.stamps import now_ns
from aos.manifest.placement import Placement
from aos.read.lens.words import compact, count, name_cell, short, span_text, time_text
from aos.read.views.clock_view import ahead_text
from aos.read.views.reason import EVENT, command_words
from aos.read.views.record_view import cell_text, control_text, kernel_cause
from aos_cli.output import (
    STATUS_STYLES,
    entry,
    fields,
    is_terminal,
    line,
    list_table,
    note,
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

_STATUSES: Final = ("running", "waiting", "completed", "failed")
_SEQ_WIDTH: Final = 7
_KIND_WIDTH: Final = 14
_HASH_NAME: Final = "blake3:"

Document = dict[str, Any]


def world(document: Document) -> None:
    if "shards" in document:
        _group(document["shards"])
        return
    journal, manifest, cells, intents = (
        document[name] for name in ("journal", "manifest", "cells", "intents")
    )
    pairs: list[tuple[str, str | Styled]] = [
        ("world", document["world"]),
        *(
            ("forked of", f"{ancestor['world']}, after record {ancestor['at']:,}")
            for ancestor in reversed(document["ancestors"])
        ),
        ("folder", document["path"]),
        ("created", time_text(document["created_ns"])),
        ("operators", ", ".join(operator["name"] for operator in document["operators"])),
        ("as it was", f"after record {document['at']:,}")
        if document["at"] is not None
        else ("process", _process(document["process"], document["origin"])),
        *_replica(document.get("replica")),
        ("core", _core(document)),
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
        *_shard(None if manifest is None else manifest["shard"]),
        *_versions(document["versions"]),
        ("snapshot", _snapshot(document["snapshot"])),
        ("cells", _counts(cells)),
    ]
    pairs += [(f"  {name}", _counts(counts)) for name, counts in cells["by_workflow"].items()]
    pairs.append(("effects", _effects(intents)))
    pairs += [(f"  {name}", f"{number:,} open") for name, number in intents["by_effect"].items()]
    process = document["process"] or {"executors": {}}
    at_ns = now_ns() if document["at"] is None else journal["clock_ns"]
    pairs += [
        (f"  executor {name}", _executor(executor, process["executors"].get(name, {}), at_ns))
        for name, executor in intents["by_executor"].items()
    ]
    if intents["timers"]["open"]:
        pairs.append(("  timers", _executor(intents["timers"], {}, at_ns)))
    pairs += [(f"  {halt['effect']}", _halted(halt)) for halt in intents["halted"]]
    pairs.append(("mail", _mail(document["mail"])))
    fields(pairs)
    if journal["clock_ahead_ns"]:
        note(ahead_text(journal["clock_ahead_ns"]), style="yellow")


def _replica(replica: Document | None) -> list[tuple[str, str | Styled]]:
    """The log and the node of a replicated world."""
    if replica is None:
        return []
    role = "its process does not run"
    if replica["role"] == "owner":
        role = "it owns the world"
    elif replica["role"] is not None and replica["owner"] is None:
        role = "standby; no node owns the world"
    elif replica["role"] is not None:
        role = f"standby; {replica['owner']} owns the world, {replica['lag']:,} messages ahead"
    pairs: list[tuple[str, str | Styled]] = [
        ("log", f"{replica['address']}, stream {replica['stream']}"),
        ("node", f"{replica['node']} ({role}), position {replica['position']:,} of the log"),
    ]
    if replica["reason"]:
        pairs.append(("  waits", Styled(replica["reason"], style="yellow")))
    if replica["unverified_durability"]:
        text = "not verified: acknowledged records can be lost"
        pairs.append(("durability", Styled(text, style="yellow")))
    # Replicated worlds alone.
    from aos_cli.replica_reading import open_erasures_text, reference_text  # noqa: PLC0415

    if replica["reference"] is not None:
        style = "red" if replica["reference"]["difference"] is not None else ""
        pairs.append(("reference", Styled(reference_text(replica["reference"]), style=style)))
    text_of_erasures = open_erasures_text(replica["open_erasures"])
    if text_of_erasures is not None:
        pairs.append(("open erasures", Styled(text_of_erasures, style="yellow")))
    return pairs


def _group(shards: list[Document]) -> None:
    """Print the worlds of a group, a row for each, and whether they have the same manifest."""
    list_table(
        ["process", "records", "cells", "effects", "manifest", "world"],
        shards,
        lambda row: [
            "-" if row["process"] is None else str(row["process"]["pid"]),
            f"{row['journal']['records']:,}",
            f"{sum(counts for name, counts in row['cells'].items() if name in _STATUSES):,}",
            f"{row['intents']['open']:,}",
            _manifest_of(row) or "none",
            row["world"],
        ],
        right_aligned=("records", "cells", "effects"),
    )
    if len({_manifest_of(row) for row in shards}) > 1:
        note(
            "the manifests of the shards differ: an aos apply was interrupted (run it again)",
            style="yellow",
        )


def _manifest_of(world: Document) -> str | None:
    manifest = world["manifest"]
    return None if manifest is None else _hash(manifest["manifest_hash"])


def _executor(executor: Document, phases: Document, now_ns: int) -> str:
    """The open effects of one executor: by phase if a process runs them, else by their attempts.
    Timers have neither."""
    parts = [f"{executor['open']:,} open, {_age(executor['oldest_open_ns'], now_ns)}"]
    if executor.get("retried"):
        parts.append(
            f"{executor['retried']:,} retried, {_age(executor['oldest_retried_ns'], now_ns)}"
        )
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


def _halted(halt: Document) -> Styled:
    return Styled(
        f"{halt['count']:,} {halt['phase']}: {halt['code']} (aos inspect intents --parked)",
        style="red",
    )


def _versions(versions: list[Document]) -> list[tuple[str, str | Styled]]:
    """How many instances run under each manifest; empty if there is only one manifest."""
    if len(versions) < 2:
        return []
    return [
        (
            "  in force" if version["in_force"] else "  pinned to",
            f"record {version['record']}: {count(version['cells'], 'cell')}",
        )
        for version in versions
    ]


def _process(process: Document | None, origin: str | None) -> str:
    if origin is not None:
        return f"none: {WORDS[Origin(origin)]} (aos adopt)"
    if process is None:
        return "no process runs this world (aos run)"
    text = (
        f"pid {process['pid']} runs it: {process['steps']:,} steps, {process['queued']:,} inputs "
        "queued"
    )
    return f"{text}; {process['no_room']}" if process["no_room"] else text


def _core(document: Document) -> str:
    """The kernel of the process that runs the world, and the one that the last start names."""
    process, start = document["process"] or {}, document.get("last_start")
    parts = [f"{process['core']} runs it"] if process.get("core") else []
    if start is not None:
        parts.append(f"last start: {short(start['core'], 40)} (record {start['record']:,})")
    return "; ".join(parts) or "not named by the latest records"


def _snapshot(snapshot: Document | None) -> str:
    if snapshot is None:
        return "none yet (aos snapshot)"
    return f"after record {snapshot['at']:,}: {snapshot['document']}"


def _journal(journal: Document) -> str:
    records, frames = count(journal["records"], "record"), count(journal["frames"], "frame")
    return f"{records} in {frames}, clock at {time_text(journal['clock_ns'])}"


def _counts(counts: Document) -> Styled:
    total = sum(counts[name] for name in _STATUSES)
    text = Styled(f"{total:,}")
    separator = ": "
    by_status = {**counts, "running": counts["running"] - counts["idle"]}
    for name in ("running", "idle", "waiting", "completed", "failed"):
        if by_status[name]:
            text.append(separator)
            text.append(f"{by_status[name]:,} {name}", style=STATUS_STYLES[name])
            separator = ", "
    return text


def _effects(effects: Document) -> str:
    text = f"{effects['open']:,} open"
    return f"{text}, {effects['abandoned']:,} abandoned" if effects["abandoned"] else text


def _mail(mail: Document) -> str:
    parts = [f"{mail['queued']:,} queued"]
    if mail["behind_faults"]:
        parts.append(f"{mail['behind_faults']:,} behind faults")
    if mail["uncounted"]:
        parts.append(f"{mail['uncounted']:,} past the limit of a mailbox")
    return ", ".join(parts)


def _shard(shard: Document | None) -> list[tuple[str, str | Styled]]:
    """The field for the shard of a group that the world is; none in a world that is in no group."""
    return [] if shard is None else [("shard", f"{shard['index']} of a group of {shard['count']}")]


def manifest(document: Document) -> None:
    in_group = document["shard"] is not None
    fields(
        [
            ("manifest", document["hash"]),
            ("in force since", f"record {document['record']}"),
            *_shard(document["shard"]),
            *_versions(document["versions"]),
            ("schemas", f"{len(document['schemas'])} (aos inspect manifest NAME shows one)"),
        ]
    )
    section("workflows")
    table(
        ["workflow", "key", "event", "module", *(["shards"] if in_group else [])],
        [
            [
                *(workflow["name"], workflow["key_schema"] or "", workflow["event"]),
                workflow["module"],
                *([str(Placement(**workflow["placement"]))] if in_group else []),
            ]
            for workflow in document["workflows"]
        ],
    )
    section("effects")
    table(
        ["effect", "executor", "attempts", "timeout"],
        [
            [
                effect["name"],
                effect["executor"],
                str(effect["attempts"]),
                span_text(effect["timeout_ms"] * 1_000_000),
            ]
            for effect in document["effects"]
        ],
    )
    section("routes")
    table(
        ["event", "workflow", "key"],
        [[route["event"], route["workflow"], _route_key(route)] for route in document["routes"]],
    )
    section("events from outside")
    for event in (
        ["every event"] if document["ingress"] is None else document["ingress"] or ["none"]
    ):
        line(event)
    section("modules")
    table(["module", "hash"], [[module["name"], module["hash"]] for module in document["modules"]])
    section("executors")
    if document["executors"] is None:
        line("the world's own key signs for every effect")
    else:
        table(
            ["executor", "public key", "effects"],
            [
                [executor["name"], executor["public_key"], ", ".join(executor["effects"])]
                for executor in document["executors"]
            ],
        )


def _route_key(route: Document) -> str:
    """The key field of a route, and whether it delivers only to existing instances."""
    only = "" if route["creates"] else "existing instances only"
    return ", ".join(filter(None, (route["key_field"], only)))


def section(title: str) -> None:
    """Begin a part of the text with its title."""
    line()
    line(title, style="bold")


def cells(document: Document) -> None:
    # A terminal has little room: leave out columns that are empty or the same in every row, and
    # the time of the last activity if a cell is pinned.
    everything = not is_terminal()
    has_fault = everything or any(row["fault"] for row in document["cells"])
    has_pin = any(row["version"]["is_pinned"] for row in document["cells"])
    has_state = any("state" in row for row in document["cells"])
    has_waits = everything or (
        terminal_width() >= WIDE
        and any(row["waits_for"] not in ([], [EVENT]) for row in document["cells"])
    )
    columns: list[tuple[str, bool, Callable[[Document], str | Styled]]] = [
        ("workflow", True, lambda row: str(row["workflow"])),
        ("key", True, lambda row: _key(row["key"])),
        ("status", True, _status),
        ("effects", True, lambda row: f"{row['in_flight']}"),
        ("mail", True, lambda row: f"{row['mailbox']}"),
        ("record", True, lambda row: f"{row['last_record']}"),
        ("last active", everything or not has_pin, _last_active),
        ("version", everything or has_pin, lambda row: _version(row["version"])),
        ("fault", has_fault, _fault_kind),
        ("waits for", has_waits, lambda row: ", ".join(row["waits_for"])),
        ("state", has_state, lambda row: _state(row["state"])),
    ]
    columns_shown = [(title, cell) for title, is_shown, cell in columns if is_shown]
    list_table(
        [title for title, _ in columns_shown],
        document["cells"],
        lambda row: [cell(row) for _, cell in columns_shown],
        right_aligned=("effects", "mail", "record"),
    )
    _note_page(document, "cells")
    if document["total"] > len(document["cells"]) or document["total"] < document["looked_at"]:
        reasons = ", ".join(
            f"{number:,} {reason}" for reason, number in document["by_reason"].items()
        )
        note(
            f"{count(document['looked_at'], 'cell')} looked at"
            + (f": {reasons}" if reasons else "")
        )


def _state(state: Any) -> str:
    """A state on one line; of a flow only what fits there, without its operations."""
    if not (isinstance(state, dict) and {"operations", "waits", "history_problem"} <= state.keys()):
        return compact(state)
    parts = [state["status"]]
    if state["waits"]:
        parts.append(f"waits at {', '.join(wait['path'] for wait in state['waits'])}")
    parts += [
        f"{name} {compact(state[name])}"
        for name in ("view", "output", "error")
        if state[name] is not None
    ]
    return "; ".join(parts)


def _status(cell: Document) -> Styled:
    """A cell's status; ``idle`` for a running one that only waits for an event."""
    return status_text("idle" if cell["is_idle"] else cell["status"])


def _fault_kind(cell: Document) -> Styled:
    return Styled(cell["fault"]["kind"] if cell["fault"] else "", style="red")


def _last_active(cell: Document) -> str:
    return time_text(cell["last_active_ns"]) if cell["last_record"] else "never"


def _version(version: Document) -> str:
    """The first digits of the hash of the module that runs next, and whether it is pinned."""
    if version["module_hash"] is None:
        return "workflow is gone"
    digits: str = version["module_hash"].removeprefix(_HASH_NAME)[:MODULE_DIGITS]
    return f"{digits} pinned" if version["is_pinned"] else digits


def _key(key: object) -> str:
    return "" if key is None else short(key, 60)


def _note_page(document: Document, noun: str) -> None:
    """Print a note if rows of a list were left out."""
    rows_shown = len(document[noun])
    if not document["total"]:
        note(f"no {noun}")
    elif document["next_offset"] is not None:
        note(
            f"{rows_shown:,} of {document['total']:,} {noun} (the next: --offset "
            f"{document['next_offset']})"
        )
    elif document["offset"]:
        note(f"{rows_shown:,} of {document['total']:,} {noun}")


def _pin(version: Document) -> list[tuple[str, str | Styled]]:
    if not version["is_pinned"]:
        return []
    return [("pinned", f"to the manifest of record {version['record']}, {version['manifest']}")]


def cell(document: Document) -> None:
    pairs: list[tuple[str, str | Styled]] = [
        ("cell", name_cell(document["workflow"], document["key"])),
        *([("shard", document["shard"])] if "shard" in document else []),
        ("status", _status(document)),
        ("last active", _last_active(document)),
        ("last record", f"{document['last_record']}" if document["last_record"] else "none"),
        ("module", document["module_hash"]),
        *_pin(document["version"]),
    ]
    pairs += [("why", reason(cause)) for cause in document["reasons"]]
    if document["fault"] is not None:
        if document["fault"]["engine_text"] is not None:
            pairs.append(("engine", document["fault"]["engine_text"].strip()))
        pairs.append(("mail", _mail_size(document)))
    fields(pairs)
    if document["state"] is not None:
        section("state")
        value(document["state"])
    if document["intents"]:
        section("open effects")
        _intent_table(document["intents"])
    if document["mail"]:
        section(f"mail: {document['mailbox']:,}")
        table(
            ["record", "what", "value"],
            [[str(mail["record"]), *_mail_words(mail)] for mail in document["mail"]],
        )
    note(f"its history: aos trace {command_words(document['workflow'], document['key'])}")


def _mail_size(cell: Document) -> str:
    """The size of the mail of a cell that does not run."""
    text = f"{cell['mailbox']:,} kept"
    if not cell["mail_uncounted"]:
        return text
    return f"{text}, {cell['mail_uncounted']:,} past the limit, in the journal alone"


def _mail_words(mail: Document) -> tuple[str, str]:
    if mail["kind"] == "event":
        return mail["schema"], short(mail["value"])
    if mail["kind"] == "stream":
        frame = f"{mail['frame_kind']} {mail['frame_seq']} {short(mail['payload'])}"
        return f"frame of {mail['effect']}", frame
    return f"receipt for {mail['effect']}", mail["status"]


def reason(cause: Document) -> Styled:
    text = Styled(cause["text"], style="red" if cause["is_stuck"] else "")
    if cause["next"]:
        text.append(f" ▸ {cause['next']}", style="bold")
    return text


def intents(document: Document) -> None:
    _intent_table(document["intents"])
    _note_page(document, "intents")
    if document["total"] < document.get("looked_at", 0):
        note(f"{count(document['looked_at'], 'receipt')} looked at")


def _intent_table(rows: list[Document]) -> None:
    has_path = any(row["flow"] for row in rows)
    list_table(
        ["intent", "effect", "cell", "status", "record", "age", *(["at"] if has_path else [])],
        rows,
        lambda row: [
            _hash(row["intent"]),
            row["effect"],
            name_cell(row["workflow"], row["key"]),
            _intent_status(row),
            str(row["record"]),
            "" if row["age_ns"] is None else span_text(row["age_ns"]),
            *([row["flow"]["path"] if row["flow"] else ""] if has_path else []),
        ],
        right_aligned=("record", "age"),
    )


def _hash(hash: str) -> str:
    """The hash in full if programs read it, else a prefix that identifies it."""
    if not is_terminal():
        return hash
    return hash.removeprefix(_HASH_NAME)[:PREFIX_DIGITS]


def _intent_status(intent: Document) -> Styled:
    text = status_text(intent["status"])
    if intent["receipt_status"] is not None:
        text.append(f" {intent['receipt_status']}")
    if intent["code"] not in (None, intent["receipt_status"]):
        text.append(f" {intent['code']}")
    if intent["halt"] is not None:
        text.append(f" {intent['halt']['phase']} {intent['halt']['code']}", style="red")
    return text


def intent(document: Document) -> None:
    pairs: list[tuple[str, str | Styled]] = [
        ("intent", document["intent"]),
        ("effect", document["effect"]),
        ("status", _intent_status(document)),
        (
            "asked for by",
            f"{name_cell(document['workflow'], document['key'])}, record {document['record']}",
        ),
        ("executor", document["executor"] or "not in the manifest any more"),
        ("idempotency key", document["idempotency_key"]),
    ]
    if document["age_ns"] is not None:
        pairs.append(("open for", span_text(document["age_ns"])))
    if document["reason"] is not None:
        pairs.append(("why", reason(document["reason"])))
    pairs += [
        (
            "attempt",
            f"{attempt['attempt']} {attempt['phase']}, record {attempt['seq']}{_because(attempt)}",
        )
        for attempt in document["attempts"]
    ]
    pairs += [
        ("canceled", f"by {cancel['principal']}, record {cancel['seq']}")
        for cancel in document["cancels"]
    ]
    pairs += [
        (
            "settled",
            f"as {settlement['status']} by {settlement['principal']}, record {settlement['seq']}",
        )
        for settlement in document["settlements"]
    ]
    ended = document["abandoned_by"]
    if ended is not None:
        pairs.append(("abandoned", f"record {ended['seq']}: {control_text(ended)}"))
    if document["frames"]:
        last = document["last_frames"][-1]
        words = f"{count(document['frames'], 'frame')}, the last {last['frame_kind']}"
        pairs.append(("stream", f"{words} {last['frame_seq']} {short(last['payload'])}"))
    receipt = document["receipt"]
    if receipt is not None:
        pairs += _receipt(receipt)
        if receipt["problem"]:
            pairs.append(("problem", receipt["problem"]))
    fields(pairs)
    section("params")
    value(document["params"])
    if receipt is not None:
        section("answer")
        value(receipt["payload"])


def _because(attempt: Document) -> str:
    return "".join(f": {text}" for text in (attempt["code"], attempt["problem"]) if text)


def _receipt(receipt: Document) -> list[tuple[str, str]]:
    if receipt["kind"] == "kernel_receipt":
        return [
            ("settled", f"record {receipt['seq']}"),
            ("receipt", f"{receipt['status']}, {kernel_cause(receipt)}"),
            ("signed by", "no executor: the kernel made it"),
        ]
    duration = span_text(receipt["finished_ns"] - receipt["started_ns"])
    batch = receipt["batch"]
    together = f", with {count(batch['size'] - 1, 'other')}" if batch else ""
    return [
        ("settled", f"record {receipt['seq']}, {time_text(receipt['at_ns'])}"),
        ("receipt", f"{receipt['status']}, attempt {receipt['attempt']}, took {duration}"),
        ("signed by", f"{receipt['executor']}, {receipt['key_id']}{together}"),
    ]


def faults(document: Document) -> None:
    list_table(
        ["record", "cell", "kind", "message", "mail"],
        document["faults"],
        lambda fault: [
            str(fault["record"]),
            name_cell(fault["workflow"], fault["key"]),
            Styled(fault["kind"], style="red"),
            fault["message"],
            str(fault["mailbox"]),
        ],
        right_aligned=("record", "mail"),
    )
    for kind, advice in {fault["kind"]: fault["advice"] for fault in document["faults"]}.items():
        note(f"{kind} ▸ {advice}")
    if document["faults"]:
        note(
            "to resume one: aos cells retry WORKFLOW KEY (--skip drops the entry that it failed on)"
        )
    _note_page(document, "faults")


def whereabouts(document: Document) -> None:
    erased = ", ".join(f"record {seq}" for seq in document["erased_by"])
    fields(
        [
            ("value", document["value"]),
            ("size", "" if document["size"] is None else f"{document['size']:,} bytes"),
            ("bytes", "there" if document["is_there"] else "not there"),
            ("erased by", erased or "no record"),
        ]
    )
    section(f"records: {document['total']:,}")
    table(
        ["record", "kind", "where", "cell"],
        [
            [
                str(record["record"]),
                record["kind"],
                record["where"],
                "" if record["cell"] is None else cell_text(record["cell"]),
            ]
            for record in document["records"]
        ],
        right_aligned=("record",),
    )


def record_line(record: Document) -> None:
    kind = record["kind"]
    entry(
        [(str(record["seq"]), _SEQ_WIDTH), (kind, _KIND_WIDTH)],
        record["summary"],
        style=KIND_STYLES.get(kind),
    )


def value(json_value: object) -> None:
    """Print a value as indented JSON."""
    for text in pretty(json_value, max(terminal_width(), 40) - 2):
        line(f"  {text}")


def pretty(json_value: object, width: int, *, columns_used: int = 0) -> list[str]:
    """Lines of JSON: a value that fits into ``width`` columns is on one line. ``columns_used`` is
    the number of columns already used on the first line."""
    one_line = json.dumps(json_value, ensure_ascii=False)
    if (
        columns_used + len(one_line) <= width
        or not isinstance(json_value, dict | list)
        or not json_value
    ):
        return [one_line]
    if isinstance(json_value, list):
        return ["[", *_indented([("", element) for element in json_value], width), "]"]
    pairs = [
        (f"{json.dumps(name, ensure_ascii=False)}: ", member) for name, member in json_value.items()
    ]
    return ["{", *_indented(pairs, width), "}"]


def _indented(parts: list[tuple[str, object]], width: int) -> Iterator[str]:
    for index, (name, element) in enumerate(parts):
        first, *tail = pretty(element, width - 2, columns_used=len(name) + len(","))
        lines = [f"  {name}{first}", *(f"  {line}" for line in tail)]
        if index < len(parts) - 1:
            lines[-1] += ","
        yield from lines

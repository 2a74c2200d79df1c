"""The buttons of cells and effects as forms: retry, skip, unpin, cancel (spec/page.md, PG-64).

An operator's command is about something that a person has seen (PG-62): it is carried out on that,
or refused as stale. A person looks at a cell that failed at record 41, and presses Retry:

    cell still failed at 41 ──▶ a control record      it failed at 57 since, or runs ──▶ refused
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from aos.core.decide.answers import Refusal, Rule
from aos.core.decide.control import decide_control
from aos.core.journal.faults import FROM_OUTSIDE, FaultKind
from aos.core.journal.identity import ENTROPY_BYTES
from aos.core.journal.inputs import CANCEL, RETRY, SKIP, UNPIN, ControlInput
from aos.core.journal.ports import BlobReader
from aos.core.journal.records import CellId, Stamp
from aos.core.state.state import State
from aos.core.state.version import is_pinned, runs_under
from aos.host.door.way import PAUSE_S
from aos.host.door.writer import SIGNED_AGAIN_MAX
from aos.node.access import check_scope
from aos.node.operating import admitted, must_sign
from aos.node.problems import Problem, refused
from aos.node.routes import BY_PATH, POST
from aos.node.services import Services
from aos.page.page_calls import api_document
from aos.page.page_forms import FORM_BYTES_MAX, FormCall, FormView, Visit
from aos.page.page_links import key_segment, read_key_segment
from aos.page.page_table import CELL_PATH, cell_words
from aos.read.lens.lookup import find_intent
from aos.read.views.record_view import Document
from aos.values.digests import Hash, hash_text

COMMANDS: Final = BY_PATH["/v1/commands"][POST]
RETRY_WORK: Final = BY_PATH["/v1/work/retry"][POST]
SEEN: Final = "seen"
_NUMBER: Final = re.compile(r"[0-9]{1,18}")

_TITLES: Final = {RETRY: "Retry", SKIP: "Skip the entry that failed", UNPIN: "Unpin"}
_SUBMITS: Final = {RETRY: "Retry it", SKIP: "Skip the entry and resume", UNPIN: "Unpin it"}

STALE: Final = "form_is_stale"


def seen_in(call: FormCall) -> int:
    """Return the number that a form has seen. Raises: Problem: The field is malformed (400)."""
    seq_text = call.fields.get(SEEN, "")
    if not _NUMBER.fullmatch(seq_text):
        raise Problem(
            400, "form_is_malformed", f"{SEEN}: expected a number, found {seq_text[:40]!r}"
        )
    return int(seq_text)


def command_line(*words: str, options: Sequence[str]) -> list[str]:
    """Return the words of a command. Those that look like an option come after ``--``."""
    begin, objects = ["aos", *words[:2]], words[2:]
    if any(word.startswith("-") for word in objects):
        return [*begin, *options, "--", *objects]
    return [*begin, *objects, *options]


class CellForm:
    """A command about one cell: ``/cell/NS/NAME/KEY/ACTION``."""

    bytes_max = FORM_BYTES_MAX

    def __init__(self, services: Services, action: str) -> None:
        self.path = f"/cell/{CELL_PATH}/{action}"
        self._services = services
        self._action = action

    def check(self, visit: Visit) -> None:
        """Raises: Problem: Without the scope, or without a key of an operator (403)."""
        check_scope(visit.caller, COMMANDS)
        must_sign(self._services)

    def _command(self, call: FormCall) -> SeenCommand:
        workflow = f"{call.path['ns']}/{call.path['name']}"
        return SeenCommand(action=self._action, cell=(workflow, read_key_segment(call.path["key"])))

    async def view(self, call: FormCall) -> FormView:
        """As ``PageForm``."""
        workflow, key = await call.world.read(lambda view: cell_words(view, call.path))
        query = {"workflow": workflow} if key is None else {"workflow": workflow, "key": key}
        cell = await call.world.document("read_cell", query)
        command = self._command(call)
        seen_seq = await plan(self._services, command)
        verb = UNPIN if self._action == UNPIN else RETRY
        options = ["--skip"] if self._action == SKIP else []
        manifest = self._services.follower.state.manifest_seq
        effects = _cell_effects(self._action, cell, manifest=manifest)
        return FormView(
            title=_TITLES[self._action],
            document={"action": self._action, **query, "seen": seen_seq, "effects": effects},
            command=command_line(
                "cells", verb, *query.values(), options=[*options, *call.world_option]
            ),
            submit=_SUBMITS[self._action],
            effects=effects,
            facts=_cell_facts(cell),
            fields={SEEN: seen_seq},
            back=call.base + _cell_address(call),
        )

    async def take(self, call: FormCall) -> str:
        """As ``PageForm``."""
        seq = await carry_out(self._services, self._command(call), seen_in(call))
        return f"{call.base}/record/{seq}"


def _cell_address(call: FormCall) -> str:
    path = call.path
    key = key_segment(read_key_segment(path["key"]))
    return f"/cell/{path['ns']}/{path['name']}/{key}"


def _cell_facts(cell: Document) -> list[tuple[str, object]]:
    fault = cell["fault"] or {}
    return [
        ("cell", {"workflow": cell["workflow"], "key": cell["key"]}),
        ("status", cell["status"]),
        *((name, fault.get(name)) for name in ("kind", "message", "record", "engine_text")),
        ("mail", cell["mailbox"]),
        ("open_effects", cell["in_flight"]),
    ]


def _cell_effects(action: str, cell: Document, *, manifest: int) -> list[str]:
    version = cell["version"]
    if action == UNPIN:
        return [
            f"The instance leaves the manifest of record {version['record']:,}.",
            f"It continues under the manifest in force, of record {manifest:,}.",
            "Its state, its mail and its open effects stay.",
        ]
    fault, mail = cell["fault"], cell["mail"]
    on_entry = bool(fault and mail) and FaultKind(fault["kind"]) not in FROM_OUTSIDE
    later = cell["mailbox"] - on_entry
    sentences = []
    if on_entry:
        entry = f"The entry that failed ({mail[0]['kind']} of record {mail[0]['record']:,})"
        sentences.append(
            f"{entry} is dropped. It never runs." if action == SKIP else f"{entry} runs again."
        )
    if later:
        sentences.append(f"Then the rest of its mailbox runs, in order: {later:,} of its entries.")
    elif action == SKIP:
        sentences.append("No other mail waits: the instance waits for its next event.")
    return [
        *sentences,
        f"It runs under the manifest of record {version['record']:,}.",
        "If the cause is still there, the instance fails again, with a new fault.",
    ]


class CancelForm:
    """Cancel one open effect: ``/intent/HASH/cancel``."""

    path = "/intent/{word}/cancel"
    bytes_max = FORM_BYTES_MAX

    def __init__(self, services: Services) -> None:
        self._services = services

    def check(self, visit: Visit) -> None:
        """Raises: Problem: Without the scope, or without a key of an operator (403)."""
        check_scope(visit.caller, COMMANDS)
        must_sign(self._services)

    async def _command(self, call: FormCall) -> SeenCommand:
        target = await call.world.read(
            lambda view: find_intent(view.state, view.journal, call.path["word"])
        )
        return SeenCommand(action=CANCEL, intent=target.intent)

    async def view(self, call: FormCall) -> FormView:
        """As ``PageForm``."""
        command = await self._command(call)
        assert command.intent is not None
        hash = hash_text(command.intent)
        intent = await call.world.document("read_intent", {"intent": hash})
        seen_seq = await plan(self._services, command)
        effects = [
            "The kernel settles the effect as canceled, and its cell gets this as the receipt.",
            "A result that its executor sends later is refused.",
        ]
        if intent["attempt"] and intent["status"] != "open":
            effects.append("Work that its executor has begun outside is not undone.")
        return FormView(
            title="Cancel an effect",
            document={"action": CANCEL, "intent": hash, "seen": seen_seq, "effects": effects},
            command=command_line("effects", "cancel", hash, options=call.world_option),
            submit="Cancel the effect",
            effects=effects,
            facts=_intent_facts(intent),
            fields={SEEN: seen_seq},
            back=f"{call.base}/intent/{command.intent.hex()}",
        )

    async def take(self, call: FormCall) -> str:
        """As ``PageForm``."""
        seq = await carry_out(self._services, await self._command(call), seen_in(call))
        return f"{call.base}/record/{seq}"


class RunAgainForm:
    """Run a held or parked effect again: ``/intent/HASH/retry``. It makes no control record."""

    path = "/intent/{word}/retry"
    bytes_max = FORM_BYTES_MAX

    def __init__(self, services: Services) -> None:
        self._services = services

    def check(self, visit: Visit) -> None:
        """Raises: Problem: Without the scope (403)."""
        check_scope(visit.caller, RETRY_WORK)

    async def _halted_intent(self, call: FormCall) -> Document:
        target = await call.world.read(
            lambda view: find_intent(view.state, view.journal, call.path["word"])
        )
        hash = hash_text(target.intent)
        intent = await call.world.document("read_intent", {"intent": hash})
        if intent["halt"] is None:
            raise Problem(409, STALE, f"{hash} is neither held nor parked: it runs, or is settled")
        return intent

    async def view(self, call: FormCall) -> FormView:
        """As ``PageForm``."""
        intent = await self._halted_intent(call)
        seen_seq = intent["halt"]["record"]
        effects = [
            "The effect is given to its executor again, with all the attempts of its policy.",
        ]
        return FormView(
            title="Run an effect again",
            document={
                "action": "retry", "intent": intent["intent"], "seen": seen_seq, "effects": effects,
            },
            command=command_line("effects", "retry", intent["intent"], options=call.world_option),
            submit="Run it again",
            effects=effects,
            facts=[
                *_intent_facts(intent),
                *((name, intent["halt"][name]) for name in ("phase", "code", "problem")),
            ],
            fields={SEEN: seen_seq},
            back=f"{call.base}/intent/{intent['intent'].removeprefix('blake3:')}",
        )  # fmt: skip

    async def take(self, call: FormCall) -> str:
        """As ``PageForm``."""
        intent = await self._halted_intent(call)
        if seen_in(call) != intent["halt"]["record"]:
            raise Problem(409, STALE, "the effect has run since the form was shown (open it again)")
        hash = intent["intent"]
        document = await api_document(
            self._services, RETRY_WORK, call.visit.caller, body={"tasks": [hash]}
        )
        if not document["tasks"]:
            raise Problem(
                409, "effect_does_not_run",
                "the effect was not run again: it may run only once and has run, it runs already, "
                "or no process has an executor for it",
            )  # fmt: skip
        return f"{call.base}/intent/{hash.removeprefix('blake3:')}"


def _intent_facts(intent: Document) -> list[tuple[str, object]]:
    return [
        ("effect", intent["effect"]),
        ("intent", intent["intent"]),
        ("cell", {"workflow": intent["workflow"], "key": intent["key"]}),
        ("executor", intent["executor"]),
        ("attempt", intent["attempt"]),
        ("opened_ns", intent["opened_ns"]),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenCommand:
    """A command about a cell, or ``cancel`` about an intent."""

    action: str
    cell: CellId | None = None
    intent: Hash | None = None

    def answered_seq(self, state: State) -> int | None:
        """Return the record that the command answers: the fault of the cell, the manifest that it
        is pinned to, or the step that opened the intent. None if there is nothing to answer."""
        if self.action == CANCEL:
            intent = None if self.intent is None else state.intents.get(self.intent)
            is_ending = any(owed.intent == self.intent for owed in state.owed)
            return None if intent is None or is_ending else intent.seq
        cell = None if self.cell is None else state.cells.get(self.cell)
        if cell is None:
            return None
        if self.action == UNPIN:
            return runs_under(state, cell) if is_pinned(state, cell) else None
        return None if cell.fault is None else cell.fault_seq

    def refusal(self, state: State, read: BlobReader) -> Refusal | None:
        """Return why the world would refuse the command now; None if it would not. Nothing is
        changed."""
        control = ControlInput(
            action=self.action, principal="", serial=0, signature=b"", cell=self.cell,
            intent=self.intent, value=None, status=None, payload=None, why=None,
        )  # fmt: skip
        stamp = Stamp(ns=state.clock_ns, entropy=bytes(ENTROPY_BYTES))
        decided = decide_control(state, control, stamp, read)
        return decided if isinstance(decided, Refusal) else None


async def plan(services: Services, command: SeenCommand) -> int:
    """Return the record that a command would answer now.

    Raises:
        AosError, Problem: As the follower; or the world would refuse the command.
    """
    await services.follower.advance_to()
    state = services.follower.state
    refusal = command.refusal(state, services.follower.store.blob)
    if refusal is not None:
        raise refused(refusal, state.manifest)
    seen_seq = command.answered_seq(state)
    if seen_seq is None:
        raise _stale()
    return seen_seq


async def carry_out(services: Services, command: SeenCommand, seen_seq: int) -> int:
    """Submit a command, signed by the kernel process, and return its record.

    It is signed for the number of control records in the state that ``seen_seq`` was compared with.
    So the world refuses it if another command came in meanwhile, and the comparison is made again.

    Raises:
        AosError: As the link. The command may have been carried out.
        Problem: The node signs no commands (403), or it is refused or stale (409).
    """
    must_sign(services)
    for _ in range(SIGNED_AGAIN_MAX):
        await services.follower.advance_to()
        state = services.follower.state
        if command.answered_seq(state) != seen_seq:
            raise _stale()
        answer = await services.link.operate(
            command.action, cell=command.cell, intent=command.intent, controls=state.controls
        )
        if not (isinstance(answer, Refusal) and answer.rule is Rule.CONTROL_SERIAL_IS_WRONG):
            seq: int = admitted(services, answer)["seq"]
            return seq
        await asyncio.sleep(PAUSE_S)
    raise Problem(
        503, "commands_are_busy", "other commands came first several times (send it again)",
        retry_after_s=1,
    )  # fmt: skip


def _stale() -> Problem:
    return Problem(
        409, STALE,
        "this was done already, by this form or another command, or has changed since the form was "
        "shown (open the page again)",
    )  # fmt: skip

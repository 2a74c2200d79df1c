"""The source's lifecycle as a transcript: each command, and the columns that it changed.

``REWRITE=1 pytest tests/linear/test_lifecycle.py`` rewrites the output; then read the diff. Times
are those since the start of the instance. The commands are about the instance started last:

    start INSTANCE TYPE…              a plan of plan steps of these types, with 3 attempts each
    claim WORKER
    complete | wait | retry | dead    WORKER, then TYPE TIMEOUT of a wait, or an error; `of EPOCH`
                                      is the result of an earlier claim, `outbound ID` an event
    signal ID TYPE                    an event from outside
    cancel                            by an operator
    advance DURATION                  the clock moves, and due timers fire
    restart                           a crash, and recovery from the journal
    show                              the instance and its rows
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

from aos.read.lens.words import span_text
from aos.testing.plain import read_span
from tests.linear.stage import (
    Stage,
    Tagged,
    completed,
    dead,
    plan_step,
    retry,
    shipped,
    waiting,
)

TRANSCRIPT: Final = Path(__file__).parent / "lifecycle.txt"
TIMES: Final = (
    "next_run_at", "locked_until", "deadline_at", "completed_at", "failed_at", "canceled_at",
)  # fmt: skip
INSTANCE: Final = (
    "status", "current_step_seq", "current_step_type", "completed_at", "failed_at", "canceled_at",
    "cancel_reason",
)  # fmt: skip
ROW: Final = (
    "status", "attempts", "next_run_at", "locked_by", "locked_until", "waiting_event_type",
    "deadline_at", "last_error", "epoch", "task", "woken_by",
)  # fmt: skip


class Transcript:
    """One world that executes the lines and reports the answers and changes as text."""

    def __init__(self) -> None:
        self.stage = Stage()
        self.instance = ""
        self.before: dict[str, Any] = {}
        self.emitted = 0

    def do(self, line: str) -> list[str]:
        command, *words = line.split()
        if command == "show":
            return self.show()
        answer = self.send(command, words)
        state, before = self.stage.state(self.instance), self.before
        self.before = state
        lines = [answer] if answer else []
        lines += self.changes(f"{self.instance}:", before, state, INSTANCE)
        for seq, row in enumerate(state["steps"] if before else ()):
            lines += self.changes(f"{seq} {row['step_type']}:", before["steps"][seq], row, ROW)
        emitted = self.stage.world.emitted()
        lines += [f"emits {each.schema} {_words(each.value)}" for each in emitted[self.emitted :]]
        self.emitted = len(emitted)
        return lines

    def send(self, command: str, words: list[str]) -> str:
        stage = self.stage
        match command, words:
            case "start", [instance, *types]:
                self.instance, self.before = instance, {}
                steps = [plan_step(type, max_attempts=3) for type in types]
                return stage.begin(*steps, instance=instance)
            case "claim", [worker]:
                return stage.claim(worker, instance=self.instance)
            case "signal", [event_id, type]:
                return stage.signal(type, event_id, instance=self.instance)
            case "cancel", []:
                return stage.cancel(instance=self.instance)
            case "advance", [duration]:
                stage.advance(read_span(duration))
            case "restart", []:
                stage.world.restart()
            case _:
                return self.result(command, words)
        return ""

    def result(self, command: str, words: list[str]) -> str:
        more: dict[str, Any] = {}
        match words:
            case [*words, "of", epoch]:
                more["epoch"] = int(epoch)
            case [*words, "outbound", order]:
                more["outbound"] = [shipped(order)]
        worker, *given = words
        outcome: Tagged
        match command, given:
            case "complete", []:
                outcome = completed()
            case "wait", [type, timeout]:
                outcome = waiting(type, read_span(timeout))
            case "retry", [error]:
                outcome = retry(error)
            case "dead", [error]:
                outcome = dead(error)
            case _:
                raise AssertionError(f"no such command: {command} {words}")
        return self.stage.result(outcome, worker, instance=self.instance, **more)

    def show(self) -> list[str]:
        """The columns that are not empty."""
        state = self.stage.state(self.instance)
        lines = self.changes(f"{self.instance}:", {}, state, INSTANCE)
        for seq, row in enumerate(state["steps"]):
            empty = dict.fromkeys(ROW) | {"attempts": 0, "epoch": 0, "task": "READY_STEP"}
            lines += self.changes(f"{seq} {row['step_type']}:", empty, row, ROW)
        return lines

    def changes(
        self, title: str, before: dict[str, Any], after: dict[str, Any], columns: tuple[str, ...]
    ) -> list[str]:
        """One line with the columns that differ, if any do."""
        changed = [
            f"{column} {self.text(column, after[column])}"
            for column in columns
            if before.get(column) != after[column]
        ]
        return [f"{title} {', '.join(changed)}"] if changed else []

    def text(self, column: str, value: Any) -> str:
        if value is None:
            return "-"
        if column in TIMES:
            return span_text(value - int(self.before["created_at"]))
        return str(value["event_id"] if column == "woken_by" else value)


def _words(value: dict[str, Any]) -> str:
    return ", ".join(f"{name} {each}" for name, each in value.items() if each is not None)


def played(text: str) -> str:
    """Run every command of a transcript and return it with the current output."""
    transcript = Transcript()
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith("> "):
            lines += [line, *(f"  {each}" for each in transcript.do(line.removeprefix("> ")))]
        elif not line.startswith("  "):
            lines.append(line)
    transcript.stage.world.close()
    return "\n".join(lines) + "\n"


def test_the_lifecycle_of_the_source_plays_as_it_is_written() -> None:
    written = TRANSCRIPT.read_text("utf-8")
    found = played(written)
    if os.environ.get("REWRITE") == "1":
        TRANSCRIPT.write_text(found, "utf-8")
    assert found == written

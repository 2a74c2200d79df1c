"""A node's mistake settles nothing: effects are held or parked (K-97, K-99, X-15 to X-18)."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

from aos.core.journal.records import Attempt
from aos.host.door.remote import ask_running, retry_running
from aos.host.folder.reader import open_reader
from aos.read.views.diagnosis import INTENT_DIGITS
from aos.values.digests import Hash
from tests.cli.shell import here
from tests.host import attempt_host
from tests.host.executors.test_attempts import (
    ONCE,
    PLAIN,
    RUN_S,
    Ran,
    asked,
    host_here,
    host_once,
    send,
)

__all__ = ["asked"]


def halts(ran: Ran) -> list[tuple[str, int, str | None]]:
    return [
        (each.phase, each.attempt, each.code)
        for each in ran.records()
        if isinstance(each, Attempt) and each.phase in ("held", "parked")
    ]


def open_intents(world: Path) -> list[Hash]:
    with open_reader(world) as reader:
        return list(reader.state.intents)


def test_an_exception_parks_after_five_attempts_and_a_kill_between_them(
    asked: Path, tmp_path: Path
) -> None:
    """X-16, X-17: it stays open, and the next start gives it its attempts again."""
    send(asked, "x", effect=PLAIN)
    assert host_once(asked, tmp_path, "bug,bug,before:node,bug") == -signal.SIGKILL
    lines = host_here(asked, tmp_path, "bug,bug,before:node,bug")

    ran = Ran(asked, tmp_path)
    assert [attempt for _, attempt in ran.lines("runs")] == [1, 2, 3, 3, 4, 5]
    assert halts(ran) == [("parked", 5, "exception")]
    assert ran.answers() == []
    assert len(open_intents(asked)) == 1
    assert sum("is parked: exception: KeyError: 'as planned'" in line for line in lines) == 1

    host_here(asked, tmp_path, "bug,bug,before:node,bug,bug,bug,bug,ok")
    assert ran.answers() == [("ok", 7, None)]
    assert [attempt for _, attempt in ran.lines("runs")][-2:] == [6, 7]


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (("cancel",), ("canceled", None, "canceled")),
        (("settle", "--error", "bank_closed", "It is gone."), ("error", None, "bank_closed")),
    ],
    ids=["cancel", "settle"],
)
def test_a_parked_effect_that_may_run_once_is_not_lost_and_never_runs_again(
    asked: Path, tmp_path: Path, words: tuple[str, ...], answer: tuple[str, None, str]
) -> None:
    """K-97: the operator reads which commands end it."""
    send(asked, "x", effect=ONCE)
    for _ in range(2):
        host_here(asked, tmp_path, "bug")

    ran = Ran(asked, tmp_path)
    assert len(ran.lines("runs")) == 1
    assert halts(ran) == [("parked", 1, "exception")]
    digits = open_intents(asked)[0].hex()[:INTENT_DIGITS]
    advice = " ".join(here("inspect", "intent", digits, "--world", asked).out.split())
    assert f"aos effects settle {digits} --ok JSON | --error CODE MESSAGE" in advice
    assert f"aos effects cancel {digits}" in advice
    action, *options = words
    assert here("effects", action, digits, *options, "--world", asked).code == 0
    host_here(asked, tmp_path, "bug")
    assert ran.answers() == [answer]


def test_effects_whose_node_lacks_something_are_held_and_each_runs_once_when_it_has_it(
    asked: Path, tmp_path: Path
) -> None:
    """X-15: also those that may run only once; one line for one cause."""
    send(asked, *"abc", effect=ONCE)
    send(asked, *"xyz", effect=PLAIN, key="b")
    lines = host_here(asked, tmp_path, "lack")

    ran = Ran(asked, tmp_path)
    assert halts(ran) == [("held", 1, "no_bank")] * 6
    assert sum("no key of the bank: set BANK_KEY" in line for line in lines) == 2
    assert not any("Traceback" in line for line in lines)

    host_here(asked, tmp_path, "ok")
    assert ran.answers() == [("ok", 2, None)] * 6
    assert len(ran.lines("done")) == 6
    assert open_intents(asked) == []


def test_parked_effects_run_again_when_someone_asks_the_running_process(
    asked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H-59e; an effect that may run only once and has run is left alone."""
    monkeypatch.setenv("ATTEMPTS_FOLDER", str(tmp_path))
    plan = tmp_path / "plan"
    plan.write_text("bug")
    monkeypatch.setenv("ATTEMPTS_PLAN_FILE", str(plan))
    send(asked, *"xy", effect=PLAIN)
    send(asked, "z", effect=ONCE, key="b")
    assert retry_running(asked, open_intents(asked)) is None

    async def scene() -> list[Hash]:
        lines: list[str] = []
        running = asyncio.create_task(
            attempt_host.host(asked, report=lines.append, until_idle=False)
        )
        ran = Ran(asked, tmp_path)
        async with asyncio.timeout(RUN_S):
            while len(halts(ran)) < 3:  # noqa: ASYNC110  # the journal is on disk
                await asyncio.sleep(0.05)
            plan.write_text("ok")
            intents = open_intents(asked)
            work = await asyncio.to_thread(ask_running, asked, "work")
            runs = await asyncio.to_thread(retry_running, asked, intents)
            while len(open_intents(asked)) > 1:  # noqa: ASYNC110  # as above
                await asyncio.sleep(0.05)
            again = await asyncio.to_thread(retry_running, asked, intents)
        await asyncio.to_thread(ask_running, asked, "stop")
        ended = await running
        assert again == []
        assert [
            {name: n for name, (n, _) in each.items()} for each in work["executors"].values()
        ] == [{"parked": 3}]
        assert work["tasks"] == []
        assert [why.phase for _, why in ended.halted.values()] == ["parked"]
        return runs or []

    runs = asyncio.run(scene())

    assert len(runs) == 2
    assert Ran(asked, tmp_path).answers() == [("ok", 6, None)] * 2

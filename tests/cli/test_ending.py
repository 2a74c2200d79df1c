"""Operators settle effects, and end or remove instances (spec/cli.md, C-26b, C-26c, C-27a)."""

from __future__ import annotations

from pathlib import Path

import pytest

from aos_cli.commands import cells
from tests.cli.shell import Aos
from tests.cli.test_commands import GARBAGE, is_sound, running, send, statuses
from tests.host import puppet

CANCELED = "  1 open effect canceled: no instance waits for a receipt\n"


@pytest.fixture
def waiting(world: Path) -> Path:
    """Instance a waits for an effect, b has failed with mail behind it, c is idle."""
    send(
        world,
        puppet.do("a", puppet.asks("hello")),
        puppet.do("b", GARBAGE), puppet.do("b"),
        puppet.do("c"),
    )  # fmt: skip
    return world


def intent_of(aos: Aos, world: Path) -> str:
    [row] = aos("inspect", "intents", "--json", world=world).json["intents"]
    return str(row["intent"])


def last_record(aos: Aos, world: Path) -> int:
    return int(aos("inspect", "world", "--json", world=world).json["journal"]["records"])


# settle


def test_an_effect_is_settled_with_a_receipt(aos: Aos, waiting: Path) -> None:
    """C-27a, K-108."""
    intent = intent_of(aos, waiting)

    settled = aos("effects", "settle", intent[:20], "--ok", '{"word": "done"}', world=waiting)

    assert settled.code == 0, settled
    assert settled.out.splitlines()[0].endswith(" settles host/echo@1 of host/puppet@1 a as ok")
    found = aos("inspect", "intent", intent, "--json", world=waiting).json
    assert (found["status"], found["receipt"]["status"]) == ("settled", "ok")
    assert found["receipt"]["payload"] == {"word": "done"}
    is_sound(waiting)


def test_an_effect_is_settled_with_an_error_as_json(aos: Aos, waiting: Path) -> None:
    """C-27a"""
    intent = intent_of(aos, waiting)
    settled = aos(
        "effects", "settle", intent, "--error", "gone", "it is gone", "--retryable", "--json",
        world=waiting,
    )  # fmt: skip

    assert (settled.json["status"], settled.json["intent"]) == ("error", intent)
    found = aos("inspect", "intent", intent, "--json", world=waiting).json
    assert found["receipt"]["payload"] == {
        "code": "gone", "message": "it is gone", "retryable": True,
    }  # fmt: skip
    again = aos("effects", "settle", intent, "--ok", '{"word": "x"}', world=waiting)
    assert again == (1, "", f"aos: intent {intent} is not open (it is settled)\n")
    is_sound(waiting)


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        ((), 2, "expected --ok JSON, or --error CODE MESSAGE"),
        (("--ok", "1", "--error", "a", "b"), 2, "expected --ok JSON, or --error CODE MESSAGE"),
        (("--ok", "1", "--retryable"), 2, "expected --ok JSON, or --error CODE MESSAGE"),
        (("--ok", "{"), 2, "--ok: "),
        (("--ok", "5"), 1, "--ok: host/Word@1: $: "),
    ],
)
def test_a_wrong_settlement_is_refused_and_changes_nothing(
    aos: Aos, waiting: Path, words: tuple[str, ...], code: int, text: str
) -> None:
    """C-27a"""
    intent = intent_of(aos, waiting)
    found = aos("effects", "settle", intent, *words, world=waiting)
    assert (found.code, found.out) == (code, "")
    assert text in found.err
    assert intent_of(aos, waiting) == intent


# end


def test_an_instance_that_waits_is_ended(aos: Aos, waiting: Path) -> None:
    """C-26b, K-109."""
    ended = aos("cells", "end", "puppet", "a", "--why", "a ghost", world=waiting)

    seq = last_record(aos, waiting)
    assert ended == (
        0,
        f"host/puppet@1 a ended as completed (record {seq})\n" + CANCELED,
        "a canceled effect may have run already; only its executor can tell\n",
    )
    assert statuses(aos, waiting)["a"] == "completed"
    again = aos("cells", "end", "puppet", "a", world=waiting)
    assert again == (
        1, "", "aos: this instance of host/puppet@1 is completed already, and has no work\n",
    )  # fmt: skip
    is_sound(waiting)


def test_an_instance_that_failed_is_ended_as_failed(aos: Aos, waiting: Path) -> None:
    """C-26b"""
    ended = aos("cells", "end", "puppet", "b", "--as", "failed", "--json", world=waiting)
    assert ended.json == {
        "action": "end", "status": "failed", "why": None, "dry_run": False, "admitted": 1,
        "refused": 0,
        "cells": [
            {
                "workflow": "host/puppet@1", "key": "b", "seq": last_record(aos, waiting),
                "dropped": 2, "abandoned": 0, "refused": None,
            }
        ],
    }  # fmt: skip
    assert "b" not in statuses(aos, waiting), "it never had a state"


def test_several_instances_are_ended_with_a_record_each(aos: Aos, waiting: Path) -> None:
    """C-26b: a refused one does not stop the others."""
    ended = aos("cells", "end", "puppet", "a", "missing", "c", world=waiting)
    assert ended.code == 1
    assert ended.out.startswith("2 instances ended as completed, 1 refused (records ")
    assert ended.err.startswith(
        "aos: host/puppet@1 missing: host/puppet@1 has no cell with this key: "
    )
    assert statuses(aos, waiting) == {"a": "completed", "b": "failed", "c": "completed"}


def test_all_instances_that_have_not_ended_are_ended(aos: Aos, waiting: Path) -> None:
    """C-26b"""
    assert aos("cells", "end", "puppet", "c", world=waiting).code == 0
    ended = aos("cells", "end", "puppet", "--all", "--json", world=waiting)
    assert {each["key"] for each in ended.json["cells"]} == {"a", "b"}
    none = aos("cells", "end", "puppet", "--all", world=waiting)
    assert none == (0, "puppet has no such instance that has not ended\n", "")
    is_sound(waiting)


def test_a_pattern_chooses_by_the_text_of_the_key(aos: Aos, waiting: Path) -> None:
    """C-26b"""
    ended = aos("cells", "end", "puppet", "--pattern", "[ac]", "--json", world=waiting)
    assert {each["key"] for each in ended.json["cells"]} == {"a", "c"}


def test_a_dry_run_lists_the_work_and_changes_nothing(
    aos: Aos, waiting: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C-26b"""
    before = aos("inspect", "world", "--json", world=waiting).json["journal"]["records"]
    monkeypatch.setattr(cells, "CELLS_SHOWN", 2)

    text = aos("cells", "end", "puppet", "--all", "--dry-run", world=waiting)
    document = aos("cells", "remove", "puppet", "a", "--dry-run", "--json", world=waiting).json

    first, *_, rest = text.out.splitlines()
    assert first == ("3 instances would end as completed: 1 open effect, 2 events in the mailbox")
    assert rest == "  and 1 more (--json lists them all)"
    assert document == {
        "action": "remove", "status": None, "why": None, "dry_run": True, "total": 1,
        "cells": [
            {
                "workflow": "host/puppet@1", "key": "a", "status": "waiting", "dropped": 0,
                "abandoned": 1,
            }
        ],
    }  # fmt: skip
    gone = aos("cells", "end", "puppet", "missing", "--dry-run", world=waiting)
    assert (gone.code, gone.out) == (1, "")
    assert aos("inspect", "world", "--json", world=waiting).json["journal"]["records"] == before


@pytest.mark.parametrize(
    "words", [("a", "--all"), ("a", "--pattern", "*"), ("--all", "--pattern", "*")]
)
@pytest.mark.parametrize("action", ["end", "remove"])
def test_instances_are_named_in_one_way(
    aos: Aos, waiting: Path, action: str, words: tuple[str, ...]
) -> None:
    """C-26b"""
    found = aos("cells", action, "puppet", *words, world=waiting)
    assert (found.code, found.out) == (2, "")
    assert f"cells {action}: expected WORKFLOW KEY…, or WORKFLOW with --pattern GLOB" in found.err


def test_another_status_is_refused(aos: Aos, waiting: Path) -> None:
    """C-26b"""
    found = aos("cells", "end", "puppet", "a", "--as", "running", world=waiting)
    assert (found.code, found.out) == (2, "")
    assert "expected one of completed, failed" in found.err


def test_every_view_names_the_operator_and_the_reason(aos: Aos, waiting: Path) -> None:
    """C-26b, A-64, A-67."""
    intent = intent_of(aos, waiting)
    aos("cells", "end", "puppet", "a", "--why", "a ghost", world=waiting)
    aos("cells", "end", "puppet", "b", world=waiting)
    last = last_record(aos, waiting)
    ended = f"operator ended it as completed, by record {last - 1}: a ghost"
    line = "end host/puppet@1 a as completed by operator · 1 intent abandoned · a ghost"

    assert ended in aos("inspect", "cell", "puppet", "a", world=waiting).out
    assert f"record {last - 1}: {line}" in aos("inspect", "intent", intent, world=waiting).out
    assert line in aos("inspect", "journal", world=waiting).out
    assert f"abandoned · no cell waits for it any more: {ended}" in (
        aos("trace", intent, world=waiting).out
    )
    assert f"command {last}: end host/puppet@1 b as completed by operator · 2 events dropped" in (
        aos("trace", "puppet", "b", world=waiting).out
    )


# remove


def test_a_removed_instance_is_gone_and_an_event_creates_it_again(aos: Aos, waiting: Path) -> None:
    """C-26c, K-109a."""
    removed = aos("cells", "remove", "puppet", "a", "c", world=waiting)
    assert removed.out.startswith("2 instances removed (records ")
    assert set(statuses(aos, waiting)) == {"b"}
    gone = aos("cells", "remove", "puppet", "a", world=waiting)
    assert gone.code == 1
    send(waiting, puppet.do("a"))
    assert statuses(aos, waiting)["a"] == "running"
    is_sound(waiting)


def test_the_process_that_runs_the_world_takes_the_commands(aos: Aos, waiting: Path) -> None:
    """C-26b, C-27a: it runs the continuation immediately."""
    intent = intent_of(aos, waiting)
    with running(waiting):
        settled = aos("effects", "settle", intent, "--ok", '{"word": "done"}', world=waiting)
        ended = aos("cells", "end", "puppet", "b", "--why", "a ghost", world=waiting)
        removed = aos("cells", "remove", "puppet", "c", world=waiting)

    assert (settled.code, ended.code, removed.code) == (0, 0, 0)
    assert "2 events in the mailbox dropped" in ended.out
    assert statuses(aos, waiting) == {"a": "running"}
    is_sound(waiting)

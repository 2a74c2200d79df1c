"""Lines of counts and of answers (spec/cli.md, C-22, C-33a)."""

from __future__ import annotations

from typing import Any

import pytest

from aos.core.decide.answers import Admitted
from aos_cli.commands import send
from aos_cli.count_text import show_counts


def test_a_text_is_quoted_if_a_condition_would_not_read_the_word_as_it(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """C-33a: so the text "12" is not the integer 12."""
    values = ["12", 12, "c-12", "true", True, "null", None, "a b", "-3"]
    groups = [{"value": value, "count": 1} for value in values]
    counts = {"count": 9, "group_by": "n", "groups": groups, "other_groups": 0, "other_count": 0}

    show_counts(counts, "cell", json=False)

    shown = [row.rsplit(maxsplit=1)[0].strip() for row in capsys.readouterr().out.splitlines()]
    assert shown[1:] == ['"12"', "12", "c-12", '"true"', "true", '"null"', "null", '"a b"', '"-3"']


def test_flows_that_had_ended_are_named_up_to_a_number_and_the_others_counted(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """C-22."""
    monkeypatch.setattr(send, "CELLS_SHOWN", 2)
    no_writer: Any = None
    answers = send._Answers(no_writer, is_json=False, is_each_shown=True)
    ended = tuple(("a/flow@1", bytes([0x61, 0x61 + number])) for number in range(5))

    answers.take([Admitted(seq=1, to=ended, ended=ended)])

    notes = capsys.readouterr().err.splitlines()
    assert len(notes) == 3
    assert notes[-1] == "3 more had ended, and ignore the event"

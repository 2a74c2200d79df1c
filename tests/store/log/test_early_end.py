"""For how long a log has ended early (spec/cluster.md, CL-18, CL-85)."""

from __future__ import annotations

from aos.store.log.early_end import GAP_NS, EarlyEnd


def test_time_between_two_answers_counts() -> None:  # CL-85
    early_end = EarlyEnd()
    for now_ns in (5, 5 + GAP_NS // 2, 5 + GAP_NS):
        early_end.note_early(now_ns)

    assert early_end.span_ns == GAP_NS


def test_a_long_time_without_a_question_counts_as_a_short_one() -> None:  # CL-85
    early_end = EarlyEnd()
    early_end.note_early(0)
    early_end.note_early(100 * GAP_NS)

    assert early_end.span_ns == GAP_NS


def test_time_without_an_answer_does_not_count() -> None:  # CL-85
    early_end = EarlyEnd()
    for now_ns in range(0, 100 * GAP_NS, GAP_NS):
        early_end.note_early(now_ns)
        early_end.note_unanswered()

    assert early_end.span_ns == 0


def test_a_log_that_shows_its_end_starts_the_count_again() -> None:  # CL-85
    early_end = EarlyEnd()
    early_end.note_early(0)
    early_end.note_early(GAP_NS)
    early_end.clear()
    early_end.note_early(2 * GAP_NS)

    assert early_end.span_ns == 0

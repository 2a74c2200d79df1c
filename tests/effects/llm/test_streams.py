"""Server-sent events and the frames of their text, however the bytes are cut."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aos.effects.llm import llm
from aos.effects.llm.api_key import ApiKey
from aos.effects.llm.chat_answer import FRAME_CHARS_MAX, PAUSE_S, DeltaReports, TextDelta
from aos.effects.llm.chat_client import SseReader
from aos.effects.llm.effects import ENDPOINTS, TOKENIZERS, connected
from aos.errors import BadUsage
from aos.worker.load_executors import load
from tests.effects.builtin_effects import Progress, context
from tests.effects.llm.model_calls import KEY

STREAM = (
    b": comment\nevent: chunk\r\ndata: one\r\n\r\ndata:two\ndata: lines\nid: 7\n\n\n"
    b"data\n\ndata: {\n\ndata: last"
)
EVENTS = [b"one", b"two\nlines", b"", b"{", b"last"]


def pieces(whole: bytes, cuts: list[int]) -> Iterator[bytes]:
    places = [0, *sorted(each % (len(whole) + 1) for each in cuts), len(whole)]
    for start, end in itertools.pairwise(places):
        yield whole[start:end]


@given(st.lists(st.integers(min_value=0), max_size=20))
def test_events_do_not_depend_on_where_the_bytes_are_cut(cuts: list[int]) -> None:
    """AG-75."""
    reader = SseReader()
    found = [data for part in pieces(STREAM, cuts) for data in reader.feed(part)]

    assert [*found, *reader.end()] == EVENTS


WORDS = st.sampled_from([KEY, KEY[:5], KEY[-5:], KEY.encode().hex(), "sk", "-", "x", "é😀", " "])


@given(st.lists(WORDS, max_size=8), st.lists(st.integers(min_value=0), max_size=12))
def test_no_cut_lets_a_part_of_the_key_into_a_frame(words: list[str], cuts: list[int]) -> None:
    """AG-71, AG-76: the frames together are the text with each key replaced; no frame ends within a
    key."""
    text = "".join(words)
    ctx = context("sys/llm.generate@1", progress=(told := Progress()))
    key = ApiKey.of({"$tag": "literal", "$value": KEY}, ctx, ())
    seconds = iter(range(1000))
    reports = DeltaReports(ctx, key, clock=lambda: next(seconds) * 2 * PAUSE_S)
    places = [0, *sorted(each % (len(text) + 1) for each in cuts), len(text)]
    for start, end in itertools.pairwise(places):
        reports.add(TextDelta(text[start:end], ""))
    reports.end()

    shown = "".join(payload["text"] for _, payload in told)
    assert shown == key.redactor.text(text)
    assert [payload["offset"] for _, payload in told] == [
        sum(len(payload["text"]) for _, payload in told[:place]) for place in range(len(told))
    ]


def test_text_that_comes_at_once_is_reported_in_bounded_frames() -> None:
    """AG-76: no frame has more than 64 KiB."""
    ctx = context("sys/llm.generate@1", progress=(told := Progress()))
    reports = DeltaReports(ctx, ApiKey.of(None, ctx, ()), clock=lambda: 0.0)
    reports.add(TextDelta("ä" * (2 * FRAME_CHARS_MAX + 1), ""))
    reports.add(TextDelta("more", "why"))
    reports.end()

    assert [(kind, len(payload["text"])) for kind, payload in told] == [
        ("llm.text", FRAME_CHARS_MAX), ("llm.text", FRAME_CHARS_MAX), ("llm.text", 1),
        ("llm.reasoning", 3), ("llm.text", 4),
    ]  # fmt: skip


@pytest.mark.parametrize("url", ["no-url", "http://t0ken[x@h/v1", "http://h:70000/t0ken"])
@pytest.mark.parametrize("variable", [ENDPOINTS, TOKENIZERS])
def test_a_malformed_variable_keeps_the_worker_from_starting(
    monkeypatch: pytest.MonkeyPatch, variable: str, url: str
) -> None:
    """AG-70, AG-79."""

    async def start() -> None:
        async with connected():
            pass

    monkeypatch.setenv(variable, f"local={url}")
    with pytest.raises(BadUsage, match=f"{variable}: pair 1: expected name=URL"):
        asyncio.run(start())


def test_the_executors_are_loaded_by_name() -> None:
    """AG-50."""
    assert load("llm") is llm

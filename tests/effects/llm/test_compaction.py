"""Summaries: the window that replaces another one."""

from __future__ import annotations

from typing import Any

import pytest

from aos.effects.llm.effects import HEADING
from aos.worker import EffectFailed
from tests.effects.llm.model_calls import ModelCalls
from tests.effects.llm.stub_model import DONE, chunk, head, streamed, stub_model


def test_the_summary_replaces_the_source_between_preserved_items_and_tail() -> None:
    """AG-79a."""
    with stub_model(streamed("They ", "met.")) as stub:
        calls = ModelCalls(stub.url)
        kept, tail = calls.window("rules"), calls.window("last")
        source = calls.window("hi", {"role": "assistant", "content": "hello"})
        receipt = calls.compact(
            source_window_items=source,
            preserve_window_items=kept,
            recent_tail_items=tail,
            source_range={"start_seq": 3, "end_seq": 9},
            target_tokens=100,
        )

    [ref] = receipt["artifact_refs"]
    assert calls.document(ref) == {"role": "user", "content": HEADING + "They met."}
    first, summary, last = receipt["active_window_items"]
    assert (first["ref_"], last["ref_"]) == (kept[0]["ref_"], tail[0]["ref_"])
    assert summary["kind"]["$tag"] == "AosSummaryRef"
    assert summary["ref_"] == ref
    assert summary["source_refs"] == [each["ref_"] for each in source]
    assert summary["source_range"] == {"start_seq": 3, "end_seq": 9}
    assert summary["estimated_tokens"] == 7
    assert receipt["compacted_through"] == 9
    assert receipt["artifact_kind"]["$tag"] == "AosSummary"
    assert receipt["operation_id"] == "op-1"
    assert receipt["token_usage"] == {"prompt": 11, "completion": 7, "total": 18}
    assert receipt["warnings_ref"] is None
    body = stub.sent[0].body
    assert body["max_tokens"] == 100
    assert [each["role"] for each in body["messages"]] == ["system", "user"]
    assert body["messages"][1]["content"] == "user: hi\n\nassistant: hello"


def test_the_new_window_can_be_sent() -> None:
    """AG-72, AG-79a."""
    with stub_model(streamed("They met."), streamed("fine")) as stub:
        calls = ModelCalls(stub.url)
        receipt = calls.compact("hi", recent_tail_items=calls.window("how are you?"))
        calls.generate(window_items=receipt["active_window_items"])

    assert [each["content"] for each in stub.sent[1].body["messages"]] == [
        HEADING + "They met.", "how are you?",
    ]  # fmt: skip


def test_tool_calls_are_text_in_the_source_of_a_summary() -> None:
    """AG-79a: an endpoint may refuse tool calls in a request without tools."""
    call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    with stub_model(streamed("ok")) as stub:
        ModelCalls(stub.url).compact(
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": "42"}]},
        )

    [_, asked] = stub.sent[0].body["messages"]
    assert asked["content"].startswith('assistant: calls [{"id":"c"')
    assert asked["content"].endswith("tool: 42")


def test_a_native_compaction_is_not_supported() -> None:
    """AG-79a."""
    with pytest.raises(EffectFailed) as failed:
        ModelCalls().compact("x", strategy={"$tag": "ProviderNative"})

    assert failed.value.code == "llm_unsupported"


def test_there_is_something_to_summarize() -> None:
    """AG-79a."""
    with pytest.raises(EffectFailed) as failed:
        ModelCalls().compact(source_window_items=[])

    assert failed.value.code == "llm_bad_request"


@pytest.mark.parametrize(
    "deltas",
    [
        [({"content": "  "}, "stop")],
        [({"refusal": "no"}, "stop")],
        [({"content": "half"}, "content_filter")],
    ],
)
def test_an_answer_without_a_summary_replaces_nothing(deltas: list[Any]) -> None:
    """AG-79a."""
    script = [head(), *(chunk(*each) for each in deltas), DONE]
    with stub_model(script) as stub, pytest.raises(EffectFailed) as failed:
        ModelCalls(stub.url).compact("x")

    assert failed.value.code == "llm_bad_answer"


def test_a_summary_that_was_cut_short_has_a_warning() -> None:
    """AG-79a."""
    with stub_model(streamed("They", finish="length")) as stub:
        calls = ModelCalls(stub.url)
        receipt = calls.compact("x")

    codes = [each["code"] for each in calls.document(receipt["warnings_ref"])]
    assert codes == ["summary_truncated"]

"""Counts of tokens: exact, by a tokenizer of text, or estimated."""

from __future__ import annotations

import pytest

from aos.worker import EffectFailed
from tests.effects.llm.model_calls import ModelCalls
from tests.effects.llm.stub_model import problem, stub_model

TOOLS = [{"name": "look", "parameters": {"type": "object"}}]


def tag(receipt: dict[str, dict[str, str]]) -> str:
    return receipt["quality"]["$tag"]


def test_without_a_tokenizer_bytes_are_counted_and_called_an_estimate() -> None:
    """AG-79: "user: " and five characters of two bytes each are 16 bytes."""
    calls = ModelCalls()
    receipt = calls.count("äöüßé", {"role": "user", "content": "x"}, candidate_plan_id="plan-1")

    assert [each["tokens"] for each in receipt["counts_by_ref"]] == [4, 2]
    assert receipt["input_tokens"] == receipt["original_input_tokens"] == 6
    assert tag(receipt) == "LocalEstimate"
    assert {tag(each) for each in receipt["counts_by_ref"]} == {"LocalEstimate"}
    assert receipt["candidate_plan_id"] == "plan-1"
    assert receipt["tool_tokens"] is None
    [warning] = calls.document(receipt["warnings_ref"])
    assert warning["code"] == "estimated"


def test_an_estimate_includes_tools_and_the_response_format() -> None:
    """AG-79."""
    calls = ModelCalls()
    receipt = calls.count(
        "x",
        tool_definitions_ref=calls.blobs.put(TOOLS),
        response_format_ref=calls.blobs.put({"type": "json_object"}),
    )

    assert receipt["tool_tokens"] > receipt["response_format_tokens"] > 0
    assert receipt["input_tokens"] == (
        2 + receipt["tool_tokens"] + receipt["response_format_tokens"]
    )
    assert tag(receipt) == "LocalEstimate"


def test_a_tokenizer_that_reads_messages_gives_an_exact_number() -> None:
    """AG-79."""
    with stub_model(
        problem(200, {"count": 5, "tokens": [1]}), problem(200, {"count": 9, "max_model_len": 99})
    ) as stub:
        receipt = ModelCalls(tokenizer=f"http://127.0.0.1:{stub.port}/tokenize").count("hello")

    assert receipt["input_tokens"] == 9
    assert tag(receipt) == "Exact"
    [by_ref] = receipt["counts_by_ref"]
    assert (by_ref["tokens"], tag(by_ref)) == (5, "ProviderEstimate")
    assert receipt["warnings_ref"] is None
    assert [each.path for each in stub.sent] == ["/tokenize"] * 2
    assert stub.sent[0].body == {
        "model": "m", "prompt": "user: hello", "content": "user: hello",
    }  # fmt: skip
    assert stub.sent[1].body["messages"] == [{"role": "user", "content": "hello"}]


def test_a_tokenizer_of_text_gives_an_estimate_of_the_provider() -> None:
    """AG-79: it does not know the template of the model."""
    with stub_model(problem(200, {"tokens": [1, 2, 3]})) as stub:
        receipt = ModelCalls(tokenizer=f"http://127.0.0.1:{stub.port}/tokenize").count("hello")

    assert (receipt["input_tokens"], tag(receipt)) == (3, "ProviderEstimate")


def test_tools_make_an_exact_number_an_estimate() -> None:
    """AG-79: only the model's template knows how tools are spelled."""
    with stub_model(problem(200, {"count": 4})) as stub:
        calls = ModelCalls(tokenizer=f"http://127.0.0.1:{stub.port}/tokenize")
        receipt = calls.count("hello", tool_definitions_ref=calls.blobs.put(TOOLS))

    assert (receipt["input_tokens"], receipt["tool_tokens"]) == (8, 4)
    assert tag(receipt) == "ProviderEstimate"


@pytest.mark.parametrize(
    "answer", [{}, {"count": "5"}, {"count": -1}, {"tokens": 7}, {"count": 1.0}]
)
def test_a_tokenizer_that_answers_no_number_is_an_error(answer: dict[str, object]) -> None:
    """AG-78, AG-79."""
    with stub_model(problem(200, answer)) as stub, pytest.raises(EffectFailed) as failed:
        ModelCalls(tokenizer=f"http://127.0.0.1:{stub.port}/tokenize").count("hello")

    assert failed.value.code == "llm_bad_answer"


def test_an_empty_window_has_no_tokens() -> None:
    """AG-79."""
    receipt = ModelCalls().count(window_items=[])

    assert (receipt["input_tokens"], receipt["counts_by_ref"]) == (0, [])

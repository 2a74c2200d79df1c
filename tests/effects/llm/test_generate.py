"""Generations, from the params to the receipt and its blobs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from aos.values.sha256 import sha256_text
from aos.worker import EffectFailed, NotConfigured
from tests.effects.llm.model_calls import KEY, KEY_REF, ModelCalls, item
from tests.effects.llm.stub_model import (
    DONE,
    USAGE,
    Script,
    chunk,
    head,
    problem,
    streamed,
    stub_model,
)

SECRET = {"$tag": "secret", "$value": KEY_REF}
CALLS = [
    {"index": 0, "id": "call-a", "type": "function", "function": {"name": "look", "arguments": ""}},
    {
        "index": 1,
        "id": "call-b",
        "type": "function",
        "function": {"name": "add", "arguments": "{}"},
    },
]


def test_the_text_of_a_stream_is_the_output() -> None:
    """AG-70, AG-74."""
    with stub_model(streamed("Hel", "lo", x_ratelimit_remaining_requests="9")) as stub:
        calls = ModelCalls(stub.url)
        receipt = calls.generate({"role": "system", "content": "be brief"}, "hi")

    assert calls.document(receipt["output_ref"]) == {"assistant_text": "Hello"}
    assert receipt["finish_reason"] == {"reason": "stop", "raw": "stop"}
    assert receipt["token_usage"] == {"prompt": 11, "completion": 7, "total": 18}
    assert receipt["usage_details"] == {
        "reasoning_tokens": 2, "cache_read_tokens": 3, "cache_write_tokens": None,
    }  # fmt: skip
    assert receipt["provider_response_id"] == "resp-1"
    assert receipt["provider_id"] == "local"
    assert receipt["cost_cents"] is None
    assert receipt["warnings_ref"] is None
    assert receipt["provider_context_items"] == []
    assert calls.document(receipt["rate_limit_ref"]) == {"x-ratelimit-remaining-requests": "9"}
    raw = calls.document(receipt["raw_output_ref"])
    assert raw["choices"][0]["message"] == {"role": "assistant", "content": "Hello"}
    assert raw["usage"] == USAGE
    [sent] = stub.sent
    assert sent.path == "/v1/chat/completions"
    assert sent.headers["idempotency-key"] == "the-key"
    assert "authorization" not in sent.headers
    assert sent.body == {
        "model": "m",
        "messages": [
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": "hi"},
        ],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_tool_calls_and_reasoning_are_blobs_that_the_receipt_names() -> None:
    """AG-74: the pieces of a call are joined, and the world keeps blobs inside of blobs."""
    script = [
        head(),
        chunk({"role": "assistant", "content": None, "reasoning_content": "hm"}),
        chunk({"tool_calls": CALLS}),
        chunk({"tool_calls": [{"index": 0, "function": {"arguments": '{"q": '}}]}),
        chunk({"tool_calls": [{"index": 0, "function": {"arguments": '"ü"}'}}]}),
        chunk({}, "tool_calls"),
        chunk(usage=USAGE),
        DONE,
    ]
    with stub_model(script) as stub:
        calls = ModelCalls(stub.url)
        receipt = calls.generate()

    output = calls.document(receipt["output_ref"])
    assert output.keys() == {"tool_calls_ref", "reasoning_ref"}
    first, second = calls.document(output["tool_calls_ref"])
    assert first == {
        "call_id": "call-a",
        "tool_name": "look",
        "arguments_ref": sha256_text('{"q": "ü"}'.encode()),
        "provider_call_id": "call-a",
    }
    assert calls.document(second["arguments_ref"]) == {}
    assert calls.blobs[output["reasoning_ref"]] == b"hm"
    assert receipt["finish_reason"]["reason"] == "tool_calls"
    [keeper] = receipt["provider_context_items"]
    assert keeper["source_refs"] == [
        output["tool_calls_ref"], output["reasoning_ref"], first["arguments_ref"],
        second["arguments_ref"],
    ]  # fmt: skip


def test_an_output_is_a_message_of_the_next_window() -> None:
    """AG-72."""
    script = [head(), chunk({"content": "I look", "tool_calls": CALLS}, "tool_calls"), DONE]
    with stub_model(script, streamed("done")) as stub:
        calls = ModelCalls(stub.url)
        first = calls.generate("look it up")
        result = {"type": "function_call_output", "call_id": "call-a", "output": {"hits": 2}}
        calls.generate(
            window_items=[
                item(first["output_ref"]),
                *first["provider_context_items"],
                *calls.window(result),
            ]
        )

    assert stub.sent[1].body["messages"] == [
        {
            "role": "assistant",
            "content": "I look",
            "tool_calls": [
                {
                    "id": "call-a",
                    "type": "function",
                    "function": {"name": "look", "arguments": "{}"},
                },
                {
                    "id": "call-b",
                    "type": "function",
                    "function": {"name": "add", "arguments": "{}"},
                },
            ],
        },
        {"role": "tool", "tool_call_id": "call-a", "content": '{"hits":2}'},
    ]


def test_every_option_of_the_runtime_is_a_field_of_the_request() -> None:
    """AG-73."""
    with stub_model(streamed("x")) as stub:
        calls = ModelCalls(stub.url)
        tool = {"name": "look", "description": "looks", "input_schema": {"type": "object"}}
        function = {"name": "add", "parameters": {"type": "object"}, "strict": True}
        calls.generate(
            runtime={
                "temperature": "0.7",
                "top_p": "0.95",
                "max_tokens": 50,
                "tool_refs": [
                    calls.blobs.put({"tools": [tool]}),
                    calls.blobs.put({"type": "function", "function": function}),
                ],
                "tool_choice": {"$tag": "Tool", "$value": {"name": "look"}},
                "reasoning_effort": "low",
                "stop_sequences": ["END"],
                "metadata": {"run": "7"},
                "provider_options_ref": calls.blobs.put({"seed": 5, "max_tokens": 60}),
                "response_format_ref": calls.blobs.put({"type": "json_object"}),
            }
        )

    body = stub.sent[0].body
    assert {name: body[name] for name in body.keys() - {"messages", "stream_options"}} == {
        "model": "m",
        "stream": True,
        "temperature": 0.7,
        "top_p": 0.95,
        "max_tokens": 60,
        "stop": ["END"],
        "reasoning_effort": "low",
        "metadata": {"run": "7"},
        "seed": 5,
        "response_format": {"type": "json_object"},
        "tool_choice": {"type": "function", "function": {"name": "look"}},
        "tools": [
            {"type": "function", "function": {
                "name": "look", "parameters": {"type": "object"}, "description": "looks"}},
            {"type": "function", "function": function},
        ],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("choice", "sent"), [("Auto", "auto"), ("None", "none"), ("Required", "required")]
)
def test_a_tool_choice_is_spelled_as_endpoints_do(choice: str, sent: str) -> None:
    """AG-73."""
    with stub_model(streamed("x")) as stub:
        ModelCalls(stub.url).generate(runtime={"tool_choice": {"$tag": choice}})

    assert stub.sent[0].body["tool_choice"] == sent


@pytest.mark.parametrize(
    ("kind", "document", "message"),
    [
        ("MessageRef", "plain text", {"role": "user", "content": "plain text"}),
        ("MessageRef", "17", {"role": "user", "content": "17"}),
        ("MessageRef", {"content": "x"}, {"role": "user", "content": "x"}),
        (
            "AosSummaryRef",
            {"role": "user", "content": "so far"},
            {"role": "user", "content": "so far"},
        ),
        (
            "MessageRef",
            {"role": "user", "content": [{"type": "text", "text": "x"}], "name": "ann"},
            {"role": "user", "content": [{"type": "text", "text": "x"}], "name": "ann"},
        ),
        ("ProviderRawWindowRef", [{"role": "odd", "x": 1}], {"role": "odd", "x": 1}),
    ],
)
def test_each_kind_of_document_is_read(kind: str, document: Any, message: Any) -> None:
    """AG-72."""
    with stub_model(streamed("x")) as stub:
        calls = ModelCalls(stub.url)
        calls.generate(window_items=[item(calls.blobs.put(document), kind)])

    assert stub.sent[0].body["messages"] == [message]


def test_a_blob_may_hold_several_messages_or_text_of_a_custom_kind() -> None:
    """AG-72."""
    with stub_model(streamed("x")) as stub:
        calls = ModelCalls(stub.url)
        both = calls.blobs.put([{"role": "user", "content": "a"}, {"content": "b"}])
        calls.generate(window_items=[item(both), item(calls.blobs.put('{"a": 1}'), custom="text")])

    assert [each["content"] for each in stub.sent[0].body["messages"]] == ["a", "b", '{"a": 1}']


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"kind": {"$tag": "ProviderNativeArtifactRef"}}, "llm_unsupported"),
        ({"kind": {"$tag": "Custom", "$value": {"kind": "odd"}}}, "llm_unsupported"),
        (
            {
                "kind": {"$tag": "ProviderRawWindowRef"},
                "provider_compatibility": {
                    "provider": "elsewhere", "api_kind": "responses", "model": None,
                    "model_family": None, "artifact_type": "window", "opaque": True,
                    "encrypted": False,
                },
            },
            "llm_unsupported",
        ),
        ({"ref_": "sha256:" + 64 * "0"}, "blob_missing"),
    ],
)  # fmt: skip
def test_an_item_that_cannot_be_sent_is_an_error(wrong: dict[str, Any], code: str) -> None:
    """AG-72."""
    calls = ModelCalls()

    failure = calls.failure(window_items=[{**calls.window("x")[0], **wrong}])

    assert (failure.code, failure.retryable) == (code, False)


@pytest.mark.parametrize(
    "document",
    [
        {"role": "king", "content": "x"},
        {"role": "user"},
        {"role": "user", "content": 7},
        [1],
        {"type": "function_call_output", "output": "x"},
        {"assistant_text": "x", "tool_calls_ref": 7},
        b"\xff\xfe",
        "[" * 100_000,
    ],
)
def test_a_document_of_another_form_is_an_error_or_plain_text(document: Any) -> None:
    """AG-72: nothing is sent."""
    calls = ModelCalls()
    if document == "[" * 100_000:  # no JSON, so it is text
        assert calls.failure(document).code == "llm_unavailable"
    else:
        assert calls.failure(document).code == "llm_document_invalid"


@pytest.mark.parametrize("field", ["model", "messages", "stream", "stream_options", "n", "tools"])
def test_provider_options_cannot_set_what_the_effect_sets(field: str) -> None:
    """AG-73."""
    calls = ModelCalls()
    ref = calls.blobs.put({field: 1})

    failure = calls.failure(runtime={"provider_options_ref": ref})

    assert failure.code == "llm_document_invalid"
    assert field in failure.message


@pytest.mark.parametrize("tool", [7, {"name": 7}, {"name": ""}, {"name": "x", "parameters": []}])
def test_a_tool_without_name_or_schema_is_an_error(tool: Any) -> None:
    """AG-73."""
    calls = ModelCalls()
    assert calls.failure(runtime={"tool_refs": [calls.blobs.put([tool])]}).code == (
        "llm_document_invalid"
    )


def test_an_empty_window_is_an_error() -> None:
    """AG-73."""
    assert ModelCalls().failure(window_items=[]).code == "llm_bad_request"


def test_a_provider_without_an_endpoint_holds_the_effect() -> None:
    """AG-70."""
    with pytest.raises(NotConfigured) as held:
        ModelCalls().generate(provider="elsewhere")

    assert held.value.code == "llm_not_configured"
    assert "found local, other" in held.value.message
    assert "AOS_LLM_ENDPOINTS" in held.value.remedy


def test_the_text_is_reported_while_it_comes() -> None:
    """AG-76: each frame begins where the last one of its kind ended."""
    script: Script = [
        head(),
        chunk({"reasoning": "thi"}), 0.15,
        chunk({"content": "one "}), 0.15,
        chunk({"content": "two "}), 0.15,
        chunk({"content": "three"}, "stop"),
        DONE,
    ]  # fmt: skip
    with stub_model(script) as stub:
        calls = ModelCalls(stub.url)
        calls.generate()

    told = [payload for kind, payload in calls.progress if kind == "llm.text"]
    assert "".join(each["text"] for each in told) == "one two three"
    assert len(told) > 1
    ends = [each["offset"] + len(each["text"]) for each in told]
    assert [each["offset"] for each in told] == [0, *ends[:-1]]
    assert ("llm.reasoning", {"offset": 0, "text": "thi"}) in calls.progress


def test_an_endpoint_that_does_not_stream_is_read_too() -> None:
    """AG-75."""
    whole = {
        "id": "r",
        "choices": [{"message": {"content": "all"}, "finish_reason": "length"}],
        "usage": USAGE,
    }
    with stub_model(problem(200, whole)) as stub:
        calls = ModelCalls(stub.url)
        receipt = calls.generate()

    assert calls.document(receipt["output_ref"]) == {"assistant_text": "all"}
    assert receipt["finish_reason"] == {"reason": "length", "raw": "length"}


def test_facts_without_a_field_are_warnings() -> None:
    """AG-74: no usage, a refusal, arguments that are no JSON, an unknown reason to finish."""
    call = {"function": {"name": "look", "arguments": "{oops"}}
    script = [head(), chunk({"refusal": "no", "tool_calls": [call]}, "eos"), DONE]
    with stub_model(script) as stub:
        calls = ModelCalls(stub.url)
        receipt = calls.generate()

    codes = [each["code"] for each in calls.document(receipt["warnings_ref"])]
    assert codes == ["usage_missing", "refusal", "arguments_not_json"]
    assert receipt["token_usage"] == {"prompt": 0, "completion": 0, "total": None}
    assert receipt["usage_details"] is None
    assert receipt["finish_reason"] == {"reason": "other", "raw": "eos"}
    [told] = calls.document(calls.document(receipt["output_ref"])["tool_calls_ref"])
    assert told.keys() == {"call_id", "tool_name", "arguments_ref"}
    assert told["call_id"] == "call_0"


def test_halves_of_a_character_are_joined_or_replaced() -> None:
    """AG-75: a lone surrogate would be no text."""
    script = [
        head(),
        b'data: {"choices": [{"delta": {"content": "\\ud83d"}}]}\n\n',
        b'data: {"choices": [{"delta": {"content": "\\ude00 \\ud800"}}]}\n\n',
        DONE,
    ]
    with stub_model(script) as stub:
        calls = ModelCalls(stub.url)
        receipt = calls.generate()

    assert calls.document(receipt["output_ref"]) == {"assistant_text": "😀 \ufffd"}
    assert "".join(payload["text"] for _, payload in calls.progress) == "😀 \ufffd"


@pytest.mark.parametrize("given", [SECRET, {"$tag": "literal", "$value": KEY}])
def test_a_key_is_sent_and_kept_out_of_everything_that_comes_back(given: Any) -> None:
    """AG-71: also if the endpoint echoes it, in pieces or in another spelling."""
    echo = json.dumps(KEY)[1:-1]
    call = {"id": KEY, "function": {"name": "f", "arguments": json.dumps({"k": KEY})}}
    script: Script = [
        head(x_ratelimit_key=KEY),
        chunk({"content": f"your key is {echo[:9]}"}), 0.15,
        chunk({"content": echo[9:20]}), 0.15,
        chunk({"content": f"{echo[20:]} or {KEY.encode().hex()}", "reasoning": KEY}),
        chunk({"tool_calls": [call]}, KEY, id=KEY),
        chunk(usage={**USAGE, "note": KEY}),
        DONE,
    ]  # fmt: skip
    with stub_model(script) as stub:
        calls = ModelCalls(stub.url)
        receipt = calls.generate(api_key=given)

    assert stub.sent[0].headers["authorization"] == f"Bearer {KEY}"
    everything = repr((receipt, sorted(calls.blobs.items()), calls.progress))
    assert KEY not in everything
    assert KEY.encode().hex() not in everything
    name = "llm/key@1" if given is SECRET else "api_key"
    shown = f"your key is [secret {name}] or [secret {name}]"
    assert calls.document(receipt["output_ref"])["assistant_text"] == shown
    told = [payload["text"] for kind, payload in calls.progress if kind == "llm.text"]
    assert "".join(told) == shown
    assert told[0] == "your key is "


def test_a_key_is_kept_out_of_errors_before_they_are_cut() -> None:
    """AG-71, AG-77."""
    words = "x" * 290 + KEY
    with stub_model(problem(401, {"error": {"message": words}})) as stub:
        failure = ModelCalls(stub.url).failure(api_key=SECRET)

    assert failure.code == "llm_refused"
    assert KEY[:6] not in failure.message
    assert len(failure.message) < 400


@pytest.mark.parametrize("key", ["", "abc", "with blank", "line\nfeed", "ümlaut-key"])
def test_a_key_that_no_header_can_have_is_not_sent(key: str) -> None:
    """AG-71: a literal is an error of the workflow, a secret one of the configuration."""
    calls = ModelCalls(secret=key)

    assert calls.failure(api_key={"$tag": "literal", "$value": key}).code == "llm_bad_request"
    with pytest.raises(NotConfigured) as held:
        calls.generate(api_key=SECRET)
    assert held.value.code == "llm_key_unusable"
    assert not key or key not in str(held.value)


def test_the_path_of_an_endpoint_is_in_no_error() -> None:
    """AG-70: it may hold a token."""
    with stub_model(problem(404, {"message": "no route /v1/t0ken/chat"})) as stub:
        failure = ModelCalls(f"{stub.url}/t0ken").failure()

    assert isinstance(failure, EffectFailed)
    assert "t0ken" not in failure.message
    assert f"127.0.0.1:{stub.port}" in failure.message

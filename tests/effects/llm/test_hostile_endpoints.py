"""Endpoints that refuse, fail, lie or never end: each is one clear error."""

from __future__ import annotations

import base64
import gzip
import json
import time
from typing import Any
from urllib.parse import quote

import pytest

from aos.effects.llm import chat_client
from aos.effects.llm.chat_answer import ChatAnswer
from aos.effects.llm.chat_client import SseReader
from aos.worker import EffectFailed
from tests.effects.llm.model_calls import KEY, ModelCalls
from tests.effects.llm.stub_model import (
    DONE,
    Script,
    chunk,
    event,
    head,
    problem,
    streamed,
    stub_model,
)


def failing(code: object) -> bytes:
    return event({"error": {"message": "gone", "code": code}})


PAGE = b"<!DOCTYPE html><html><body>Bad gateway</body></html>"


@pytest.mark.parametrize(
    ("script", "code", "retryable", "words"),
    [
        (problem(400, {"error": {"message": "no field"}}), "llm_refused", False, "no field"),
        (problem(401, {"error": "bad key"}), "llm_refused", False, "bad key"),
        (problem(404, {"detail": "model?"}), "llm_refused", False, "model?"),
        (problem(422, {"error": {}}), "llm_refused", False, "an error without a message"),
        (problem(302, b"", "text/plain", location="/"), "llm_refused", False, "answered 302"),
        (problem(429, {"message": "slow down"}), "llm_unavailable", True, "slow down"),
        (problem(500, PAGE, "text/html"), "llm_unavailable", True, "answered 500"),
        (problem(502, b"it\x07 died", "text/plain"), "llm_unavailable", True, "it died"),
        (problem(503, b"", "text/plain"), "llm_unavailable", True, "answered 503"),
        (problem(200, PAGE, "text/html"), "llm_bad_answer", False, "text/html"),
        (problem(200, b'{"choices": [', "application/json"), "llm_bad_answer", False, "JSON"),
        (problem(200, []), "llm_bad_answer", False, "JSON object"),
        (problem(200, {"choices": []}), "llm_bad_answer", False, "no choice"),
        (problem(200, {"error": {"message": "odd"}}), "llm_refused", False, "odd"),
        ([head(), b'data: {"choices\n\n'], "llm_bad_answer", False, "JSON"),
        ([head(), b"data: NaN\n\n"], "llm_bad_answer", False, "JSON"),
        ([head(), b"data: " + b"[" * 100_000 + b"\n\n"], "llm_bad_answer", False, "JSON"),
        ([head(), DONE], "llm_bad_answer", False, "no choice"),
        ([head(), chunk(), DONE], "llm_bad_answer", False, "no choice"),
        ([head(), chunk({"content": "half"})], "llm_broken_off", True, "ended before"),
        ([head()], "llm_broken_off", True, "ended before"),
        ([head(), failing(503)], "llm_unavailable", True, "gone"),
        ([head(), failing("x")], "llm_refused", False, "gone"),
        ([b"HTTP/1.1 200 OK\r\nContent-Le"], "llm_broken_off", True, "broke off"),
        ([b"SSH-2.0-odd\r\n"], "llm_broken_off", True, "broke off"),
        ([b""], "llm_broken_off", True, "broke off"),
        (
            [head(content_length="9"), b"data"],
            "llm_broken_off", True, "broke off",
        ),
        ([head(content_encoding="gzip"), gzip.compress(b"x")], "llm_bad_answer", False, "encoding"),
    ],
)  # fmt: skip
def test_an_answer_that_is_no_completion_has_a_code(
    script: Script, code: str, retryable: bool, words: str
) -> None:
    """AG-75, AG-77, AG-78."""
    with stub_model(script) as stub:
        failure = ModelCalls(stub.url).failure()

    assert (failure.code, failure.retryable) == (code, retryable)
    assert words in failure.message
    assert failure.message.startswith(f"127.0.0.1:{stub.port}: ")
    assert "<html" not in failure.message


@pytest.mark.parametrize(
    "wrong",
    [
        {"choices": {}},
        {"choices": ["x"]},
        {"choices": [{"delta": []}]},
        {"choices": [{"delta": {"content": 7}}]},
        {"choices": [{"delta": {"content": ["x"]}}]},
        {"choices": [{"delta": {"reasoning": {}}}]},
        {"choices": [{"delta": {}, "finish_reason": 1}]},
        {"choices": [{"delta": {"tool_calls": "x"}}]},
        {"choices": [{"delta": {"tool_calls": [7]}}]},
        {"choices": [{"delta": {"tool_calls": [{"index": -1}]}}]},
        {"choices": [{"delta": {"tool_calls": [{"index": 10**6}]}}]},
        {"choices": [{"delta": {"tool_calls": [{"index": True}]}}]},
        {"choices": [{"delta": {"tool_calls": [{"function": "x"}]}}]},
        {"choices": [{"delta": {"tool_calls": [{"function": {"arguments": {}}}]}}]},
        {"choices": [{"delta": {"tool_calls": [{"function": {"arguments": "{}"}}]}}]},
        {"id": 7, "choices": []},
        {"usage": [], "choices": []},
        {"usage": {"prompt_tokens": "many"}, "choices": []},
        {"usage": {"prompt_tokens": -1}, "choices": []},
        {"usage": {"prompt_tokens": 2**63}, "choices": []},
        {"usage": {"prompt_tokens": 1.5}, "choices": []},
        {"usage": {"completion_tokens_details": 7}, "choices": []},
    ],
)
def test_a_field_of_another_type_is_a_bad_answer(wrong: dict[str, Any]) -> None:
    """AG-75."""
    with stub_model([head(), event(wrong), DONE]) as stub:
        failure = ModelCalls(stub.url).failure()

    assert (failure.code, failure.retryable) == ("llm_bad_answer", False)


def test_an_endpoint_that_is_not_there_may_come_back() -> None:
    """AG-77."""
    failure = ModelCalls("http://127.0.0.1:1/v1").failure()

    assert (failure.code, failure.retryable) == ("llm_unavailable", True)
    assert failure.message == "127.0.0.1:1: no connection (ConnectError)"


@pytest.mark.parametrize(
    "forever", [b": still here\n\n", b"data: " + b"x" * 4000, chunk({"content": "more "})]
)
def test_a_stream_that_never_ends_is_given_up_before_the_timeout(forever: bytes) -> None:
    """AG-77."""
    script: list[bytes | float] = [head()]
    script += (forever, 0.05) * 1200  # a minute
    with stub_model(script) as stub:
        for seconds in (0.4, 2.0, 10.0):  # on a busy machine, the request takes longer
            failure = ModelCalls(stub.url, timeout_s=chat_client.RESERVE_S + seconds).failure()
            if stub.sent:
                break

        assert (failure.code, failure.retryable) == ("llm_timeout", True)
        assert stub.gone.wait(30), "the client has left before the end of the stream"


def test_an_endless_stream_is_bounded_in_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """AG-77: in a stream, in a whole answer, and in an error."""
    monkeypatch.setattr(chat_client, "BODY_BYTES_MAX", 100_000)
    flood = [b"data: " + b"x" * 50_000] * 40
    with stub_model([head(), *flood]) as stub:
        failure = ModelCalls(stub.url).failure()
        assert (failure.code, failure.retryable) == ("llm_answer_too_large", False)
    with stub_model([head(200, "application/json"), *flood]) as stub:
        assert ModelCalls(stub.url).failure().code == "llm_answer_too_large"
    with stub_model([head(400, "text/plain"), *flood]) as stub:
        assert ModelCalls(stub.url).failure().code == "llm_refused"


def test_silence_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """AG-77."""
    monkeypatch.setattr("aos.effects.llm.effects.SILENCE_S", 0.2)
    with stub_model([head(), chunk({"content": "x"}), 60.0]) as stub:
        failure = ModelCalls(stub.url).failure()

    assert (failure.code, failure.retryable) == ("llm_broken_off", True)
    assert "ReadTimeout" in failure.message


@pytest.mark.parametrize(("status", "pause"), [(429, 1), (503, 0)])
def test_a_pause_that_the_endpoint_asks_for_is_kept_within_the_attempt(
    status: int, pause: int
) -> None:
    """AG-77."""
    busy = problem(status, {"message": "busy"}, retry_after=str(pause))
    with stub_model(busy, streamed("at last")) as stub:
        calls = ModelCalls(stub.url)
        began = time.monotonic()
        receipt = calls.generate()

    assert calls.document(receipt["output_ref"]) == {"assistant_text": "at last"}
    assert len(stub.sent) == 2
    assert time.monotonic() - began >= pause


@pytest.mark.parametrize(
    "after", ["3600", "Fri, 31 Dec 2100 23:59:59 GMT", "soon", "-5", "²", "1" * 400]
)
def test_a_pause_longer_than_the_effect_or_unreadable_ends_the_attempt(after: str) -> None:
    """AG-77."""
    with stub_model(problem(429, {"message": "busy"}, retry_after=after)) as stub:
        failure = ModelCalls(stub.url).failure()

    assert (failure.code, failure.retryable) == ("llm_unavailable", True)
    assert len(stub.sent) == 1


def test_an_endpoint_that_is_always_busy_ends_the_attempt() -> None:
    """AG-77."""
    with stub_model(problem(429, {"message": "busy"}, retry_after="0")) as stub:
        failure = ModelCalls(stub.url).failure()

    assert failure.code == "llm_unavailable"
    assert len(stub.sent) == chat_client.RESENDS_MAX + 1


def test_a_redirect_is_not_followed() -> None:
    """AG-77: the key would go to another host."""
    with stub_model(streamed("elsewhere")) as other:
        moved = problem(307, b"", "text/plain", location=f"{other.url}/chat/completions")
        with stub_model(moved) as stub, pytest.raises(EffectFailed):
            ModelCalls(stub.url).generate()

    assert other.sent == []


TOKEN = "t0ken of/9"


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 503])
@pytest.mark.parametrize("kind", ["text/plain", "application/json"])
def test_an_answer_with_retry_after_is_as_bounded_and_redacted_as_each_other(
    status: int, kind: str
) -> None:
    """AG-70, AG-71, AG-78: the token of the URL, the key, and 2,000 characters."""
    words = f"no {TOKEN} {quote(TOKEN, safe='')} {KEY} {'x' * 2000}"
    body = words.encode() if kind == "text/plain" else {"error": {"message": words}}
    with stub_model(problem(status, body, kind, retry_after="3600")) as stub:
        calls = ModelCalls(f"{stub.url}/{quote(TOKEN, safe='')}")
        failure = calls.failure(api_key={"$tag": "literal", "$value": KEY})

    begin = f"127.0.0.1:{stub.port}: the endpoint answered {status}: "
    mark = "[secret AOS_LLM_ENDPOINTS]"
    assert failure.code == ("llm_unavailable")
    assert failure.message.startswith(f"{begin}no {mark} {mark} [secret api_key] xxx")
    assert len(failure.message) <= len(begin) + 300


def test_user_and_password_of_a_url_are_in_no_error_in_any_spelling() -> None:
    """AG-70, X-69a: a server that echoes the header sends them in base64."""
    pair = base64.b64encode(b"user:pass word").decode()
    with stub_model(problem(401, {"error": f"Basic {pair}: user, pass%20word"})) as stub:
        url = stub.url.replace("//", "//user:pass%20word@")
        failure = ModelCalls(url).failure()

    mark = "[secret AOS_LLM_ENDPOINTS]"
    assert failure.message.endswith(f"answered 401: Basic {mark}: {mark}, {mark}")


def test_an_error_that_has_a_usual_word_of_the_path_is_shown() -> None:
    """AG-78: only secret parts of a URL are secrets."""
    with stub_model(problem(404, {"error": "the model qwen-v1 does not exist"})) as stub:
        assert ModelCalls(stub.url).failure().message.endswith(": the model qwen-v1 does not exist")


@pytest.mark.parametrize("number", ["1e999", "-1e999", "NaN", "-Infinity"])
@pytest.mark.parametrize("kind", ["text/event-stream", "application/json"])
def test_a_number_that_no_json_can_have_is_a_bad_answer(number: str, kind: str) -> None:
    """AG-75: it would be in a blob as ``Infinity``."""
    body = b'{"id": "x", "choices": [{"delta": {}, "message": {}}], "usage": {"cost": %s}}'
    data = body % number.encode()
    parts = [b"data: " + data + b"\n\n", DONE] if kind == "text/event-stream" else [data]
    with stub_model([head(200, kind), *parts]) as stub:
        assert ModelCalls(stub.url).failure().code == "llm_bad_answer"


def test_a_long_id_and_finish_reason_are_cut_in_the_receipt() -> None:
    """AG-74: the receipt fits, whatever the endpoint says; no part of the key is left."""
    long = "x" * 250 + KEY + "y" * 2_000_000
    script = [head(), chunk({"content": "hi"}, long, id=long), DONE]
    with stub_model(script) as stub:
        receipt = ModelCalls(stub.url).generate(api_key={"$tag": "literal", "$value": KEY})

    assert receipt["provider_response_id"] == "x" * 250 + "[secre"
    assert receipt["finish_reason"]["raw"] == "x" * 250 + "[secre"
    assert receipt["finish_reason"]["reason"] == "other"


def test_arguments_and_lines_in_many_parts_take_linear_time() -> None:
    """AG-75: 12 MiB of each would take minutes if every part copied those before."""
    began = time.process_time()
    answer, words = ChatAnswer(), "x" * 400
    part = {"tool_calls": [{"index": 0, "function": {"name": "f", "arguments": words}}]}
    data = json.dumps({"choices": [{"index": 0, "delta": part}]}).encode()
    for _ in range(30_000):
        answer.add(data)
    reader = SseReader()
    for _ in range(60_000):
        assert list(reader.feed(b"y" * 200)) == []

    assert len(answer.tool_calls[0].arguments) == 30_000 * 400
    assert list(reader.feed(b"\n")) == []
    assert time.process_time() - began < 20

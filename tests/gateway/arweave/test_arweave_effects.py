"""The three effects against a gateway that answers in every way, and against invalid params."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from aos.worker import EffectFailed, NotConfigured
from aos_gateway.arweave.arweave_effects import quote, status, upload
from aos_gateway.arweave.base64url import encode_base64url
from aos_gateway.arweave.confirmation import FIRST_PAUSE_S, PAUSE_S_MAX
from aos_gateway.arweave.data_item import (
    BUNDLE_OVERHEAD_BYTES_MAX,
    ItemTag,
    pack_bundle,
    sign_item,
)
from aos_gateway.arweave.gateway_client import BODY_BYTES_MAX, RequestTimeouts
from tests.gateway.arweave.fake_gateway import Canned, Endless, FakeGateway, answer
from tests.gateway.arweave.lab import (
    ANCHOR,
    EVIDENCE,
    SECRET,
    Clock,
    Params,
    call,
    hash_of,
    keys,
    quote_params,
    upload_params,
)

ITEM = sign_item(EVIDENCE, [ItemTag("Content-Type", "text/plain")], bytes(range(32)))
BUNDLE = pack_bundle(ITEM)
BUNDLE_ID = encode_base64url(bytes(range(32)))
AWAIT: Params = {
    "gateway": "main",
    "item": ITEM.id,
    "bundle": BUNDLE_ID,
    "conf": 2,
    "wait_ms": 0,
}
STATUS = f"GET /tx/{BUNDLE_ID}/status"
DATA = f"GET /tx/{BUNDLE_ID}/data"
TOKEN_URL = "https://user:sesame@gateway.test/tokens/open/"

NONSENSE: dict[str, Canned] = {
    "no connection": httpx.ConnectError,
    "a connection that breaks": httpx.ReadError,
    "no HTTP": httpx.RemoteProtocolError,
    "a server error": 500,
    "too many requests": 429,
    "a redirect": answer(302, location="http://elsewhere.test/"),
    "HTML": "<html>It works!</html>",
    "cut JSON": '{"height": 1',
    "another encoding": answer(200, content_encoding="gzip"),
}


def depth(number: object) -> dict[str, Any]:
    return {"block_height": 7, "number_of_confirmations": number}


# Quotes: `call` checks every result against the receipt schema of the manifest


def test_a_quote_is_the_price_of_the_longest_bundle_of_such_content() -> None:
    """AW-8."""
    gateway = FakeGateway()

    found = call(quote, quote_params(bytes=1000), transport=gateway)

    assert found == {
        "anchor": ANCHOR,
        "reward": "700000000",
        "balance": "1000000000000",
        "height": 12,
    }
    assert sorted(each.url.path for each in gateway.seen) == [
        "/info",
        f"/price/{1000 + BUNDLE_OVERHEAD_BYTES_MAX}",
        "/tx_anchor",
        f"/wallet/{keys().address}/balance",
    ]


@pytest.mark.parametrize(
    "request_line", ["GET /tx_anchor", "GET /price/", "GET /wallet/", "GET /info"]
)
@pytest.mark.parametrize("name", NONSENSE)
def test_a_quote_from_an_answer_that_is_none_is_unavailable(request_line: str, name: str) -> None:
    """AW-6."""
    gateway = FakeGateway({request_line: NONSENSE[name]})

    with pytest.raises(EffectFailed) as failed:
        call(quote, quote_params(), transport=gateway)

    assert (failed.value.code, failed.value.retryable) == ("unavailable", True)
    assert failed.value.message.startswith("the gateway gateway.test ")


@pytest.mark.parametrize(
    "text", ["", "-1", "1.5", "1e9", "07", "1_000", "٣", "0x10", "9" * 35, "null"]
)
def test_a_number_that_is_not_whole_is_unavailable(text: str) -> None:
    """AW-6."""
    gateway = FakeGateway({"GET /price/": text})

    with pytest.raises(
        EffectFailed, match="expected a whole number of at most 34 digits"
    ) as failed:
        call(quote, quote_params(), transport=gateway)

    assert failed.value.code == "unavailable"


@pytest.mark.parametrize("height", [-1, 1.0, True, "7", None, 2**63])
def test_a_height_that_is_no_natural_number_is_unavailable(height: object) -> None:
    with pytest.raises(EffectFailed, match="a whole number in height"):
        call(quote, quote_params(), transport=FakeGateway({"GET /info": {"height": height}}))


def test_a_balance_of_34_digits_is_taken() -> None:
    gateway = FakeGateway({"GET /wallet/": "9" * 34})

    assert call(quote, quote_params(), transport=gateway)["balance"] == "9" * 34


def test_a_malformed_key_holds_a_quote_before_a_request() -> None:
    """AW-4."""
    gateway = FakeGateway()
    broken = json.loads(SECRET)
    broken["jwk"]["d"] = broken["jwk"]["d"][:-4] + "AAAA"

    with pytest.raises(NotConfigured) as held:
        call(quote, quote_params(), transport=gateway, secret=json.dumps(broken))

    assert held.value.code == "secret_unusable"
    assert held.value.message == (
        "the secret gw/arweave-key@1 has no usable key: jwk.d: expected the private exponent of n "
        "and e"
    )
    assert gateway.seen == []


# Uploads


def test_an_upload_posts_one_signed_transaction_with_the_item_of_the_blob() -> None:
    """AW-5, AW-9, AW-13, AW-20."""
    gateway = FakeGateway()

    found = call(upload, upload_params(), transport=gateway)

    tags = [ItemTag("Content-Type", "application/json"), ItemTag("App-Name", "gateway")]
    item = sign_item(EVIDENCE, tags, keys().item_seed)
    (posted,) = gateway.posted
    assert posted["data"] == encode_base64url(pack_bundle(item))
    assert (posted["last_tx"], posted["reward"]) == (ANCHOR, "700000000")
    assert found == {
        "item": item.id,
        "bundle": posted["id"],
        "fate": {"$tag": "Posted"},
        "code": 200,
        "message": "the gateway gateway.test answered 200: OK",
    }
    lines = [f"{each.method} {each.url.path}" for each in gateway.seen]
    assert lines == [f"GET /tx/{posted['id']}/status", "POST /tx"]


def test_params_and_keys_alone_determine_what_is_posted() -> None:
    """AW-9."""
    first, second = FakeGateway(), FakeGateway()

    call(upload, upload_params(), transport=first)
    call(upload, upload_params(), transport=second)

    assert first.seen[1].content == second.seen[1].content


@pytest.mark.parametrize(
    ("code", "fate"),
    [
        (200, "Posted"),
        (202, "Posted"),
        (204, "Unknown"),
        (208, "Known"),
        (302, "Unknown"),
        (400, "Rejected"),
        (401, "Unknown"),
        (402, "NoFunds"),
        (403, "Rejected"),
        (404, "Unknown"),
        (410, "NoFunds"),
        (413, "Rejected"),
        (422, "Rejected"),
        (429, "Unknown"),
        (500, "Unknown"),
        (503, "Unknown"),
    ],
)
def test_the_fate_is_told_by_the_status(code: int, fate: str) -> None:
    """AW-21, where the gateway does not have the bundle and the wallet can pay."""
    found = call(upload, upload_params(), transport=FakeGateway({"POST /tx": code}))

    assert (found["fate"]["$tag"], found["code"]) == (fate, code)
    assert found["bundle"] is not None


@pytest.mark.parametrize("code", [400, 403, 404, 410, 422, 429])
def test_a_refusal_of_a_bundle_that_the_gateway_has_is_known(code: int) -> None:
    """AW-22: nodes answer 400 to "already on the weave" as well."""
    gateway = FakeGateway({"POST /tx": code, "GET /tx/": [404, 202]})

    assert call(upload, upload_params(), transport=gateway)["fate"] == {"$tag": "Known"}


@pytest.mark.parametrize(("balance", "fate"), [("699999999", "NoFunds"), ("700000000", "Rejected")])
@pytest.mark.parametrize("code", [400, 403])
def test_the_balance_distinguishes_no_funds_from_rejected(
    code: int, balance: str, fate: str
) -> None:
    """AW-22."""
    gateway = FakeGateway({"POST /tx": code, "GET /wallet/": balance})

    assert call(upload, upload_params(), transport=gateway)["fate"] == {"$tag": fate}


@pytest.mark.parametrize("unreachable", ["GET /tx/", "GET /wallet/"])
def test_a_refusal_that_cannot_be_checked_is_unknown(unreachable: str) -> None:
    """AW-22: no negative answer without evidence."""
    answers: list[Canned] = [404, 500] if unreachable == "GET /tx/" else [500]
    gateway = FakeGateway({"POST /tx": 400, unreachable: answers})

    found = call(upload, upload_params(), transport=gateway)

    assert (found["fate"], found["code"]) == ({"$tag": "Unknown"}, 400)


@pytest.mark.parametrize(
    "name", ["no connection", "a connection that breaks", "no HTTP", "another encoding"]
)
def test_a_post_without_a_complete_answer_is_unknown(name: str) -> None:
    """AW-23."""
    gateway = FakeGateway({"POST /tx": NONSENSE[name]})

    found = call(upload, upload_params(), transport=gateway)

    assert (found["fate"], found["code"]) == ({"$tag": "Unknown"}, None)
    assert found["bundle"] == gateway.posted[0]["id"]


@pytest.mark.parametrize("name", NONSENSE)
def test_nothing_is_posted_to_a_gateway_that_cannot_be_asked(name: str) -> None:
    """AW-20."""
    gateway = FakeGateway({"GET /tx/": NONSENSE[name]})

    with pytest.raises(EffectFailed) as failed:
        call(upload, upload_params(), transport=gateway)

    assert (failed.value.code, failed.value.retryable) == ("unavailable", True)
    assert gateway.posted == []


def test_a_bundle_that_the_gateway_dropped_is_posted_again() -> None:
    """AW-20: the answer to the post decides."""
    gateway = FakeGateway({"GET /tx/": 410, "POST /tx": 400})

    assert call(upload, upload_params(), transport=gateway)["fate"] == {"$tag": "Rejected"}
    assert len(gateway.posted) == 1


def test_a_malformed_key_sends_nothing_and_is_no_key() -> None:
    """AW-4."""
    gateway = FakeGateway()

    found = call(upload, upload_params(), transport=gateway, secret='{"item_seed": "aa"}')

    assert found == {
        "item": None,
        "bundle": None,
        "fate": {"$tag": "NoKey"},
        "code": None,
        "message": "the secret gw/arweave-key@1 has no usable key: item_seed: expected 64 hex "
        "digits, the seed of an Ed25519 key",
    }
    assert gateway.seen == []


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"anchor": "short"}, "anchor: expected 32 or 48 bytes in base64url, found 'short'"),
        ({"anchor": "="}, "anchor: expected 32 or 48 bytes"),
        ({"reward": "1.5"}, "reward: expected a whole number of winston, found '1.5'"),
        ({"reward": "-1"}, "reward: expected a whole number of winston, found '-1'"),
        ({"content_type": ""}, "tags[0].value: expected 1 to 3072 bytes, found 0 (tags[0] is "),
        ({"tags": [{"name": "", "value": "v"}]}, "tags[1].name: expected 1 to 1024 bytes"),
        ({"tags": [{"name": "n", "value": "v"}] * 128}, "tags: expected at most 128, found 129"),
        (
            {"tags": [{"name": "content-type", "value": "v"}]},
            "tags: Content-Type is set by content_type alone",
        ),
    ],
)
def test_params_that_no_gateway_could_take_are_a_bad_request(changes: Params, problem: str) -> None:
    """AW-3."""
    gateway = FakeGateway()

    with pytest.raises(EffectFailed) as failed:
        call(upload, upload_params(**changes), transport=gateway)

    assert (failed.value.code, failed.value.retryable) == ("arweave_bad_request", False)
    assert failed.value.message.startswith(problem)
    assert gateway.seen == []


def test_content_that_fits_in_no_transaction_is_a_bad_request() -> None:
    """AW-3."""
    content = bytes(12 * 1024 * 1024)

    with pytest.raises(EffectFailed, match="data: expected a blob of at most") as failed:
        call(upload, upload_params(content), content=content, transport=FakeGateway())
    with pytest.raises(EffectFailed, match="bytes: expected at most"):
        call(quote, quote_params(bytes=len(content)), transport=FakeGateway())

    assert failed.value.code == "arweave_bad_request"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (
            "Invalid anchor (last_tx).",
            "the gateway gateway.test answered 400: Invalid anchor (last_tx).",
        ),
        ("<html>no</html>", "the gateway gateway.test answered 400"),
        ("two\nlines", "the gateway gateway.test answered 400"),
        (
            "no such path: /tokens/x",
            "the gateway gateway.test answered 400: no such path: /[secret AOS_ARWEAVE]/x",
        ),
        (
            "sesame opens",
            "the gateway gateway.test answered 400: [secret AOS_ARWEAVE] opens",
        ),
        ("x" * 300, "the gateway gateway.test answered 400: " + "x" * 200 + "…"),
        ("", "the gateway gateway.test answered 400"),
    ],
)
def test_an_answer_is_quoted_only_if_it_is_a_line_and_without_tokens(
    body: str, message: str
) -> None:
    """AW-7."""
    gateway = FakeGateway({"POST /tx": answer(400, body.encode()), "GET /tokens/open/tx/": 404})
    gateway.answers = {
        line.replace(" /", " /tokens/open/", 1) if "tokens" not in line else line: canned
        for line, canned in gateway.answers.items()
    }

    found = call(upload, upload_params(), transport=gateway, url=TOKEN_URL)

    assert found["message"] == message
    assert gateway.seen[-1].headers["Authorization"].startswith("Basic ")


def test_no_message_has_more_of_a_url_than_its_host() -> None:
    """AW-7: also where the client's own error quotes the URL."""
    gateway = FakeGateway({"GET /tokens/open/": httpx.ConnectError})

    with pytest.raises(EffectFailed) as failed:
        call(quote, quote_params(), transport=gateway, url=TOKEN_URL)

    shown = str(failed.value)
    assert "gateway.test gave no complete answer (ConnectError)" in shown
    assert not [word for word in ("sesame", "user", "open", "token", "http:") if word in shown]
    assert failed.value.__cause__ is None


# Statuses


@pytest.mark.parametrize(
    ("canned", "state"),
    [
        (404, {"$tag": "NotFound"}),
        (410, {"$tag": "Rejected"}),
        (202, {"$tag": "Pending", "$value": {"depth": 0}}),
        ("Pending", {"$tag": "Pending", "$value": {"depth": 0}}),
        (depth(0), {"$tag": "Pending", "$value": {"depth": 0}}),
        (depth(1), {"$tag": "Pending", "$value": {"depth": 1}}),
        (depth(2), {"$tag": "Confirmed", "$value": {"depth": 2, "content": hash_of(EVIDENCE)}}),
        (depth(99), {"$tag": "Confirmed", "$value": {"depth": 99, "content": hash_of(EVIDENCE)}}),
    ],
)
def test_the_state_is_told_by_the_status_and_the_depth(canned: Canned, state: Params) -> None:
    """AW-24."""
    gateway = FakeGateway({STATUS: canned, DATA: encode_base64url(BUNDLE)})

    assert call(status, AWAIT, transport=gateway) == {"fate": state}


@pytest.mark.parametrize("name", NONSENSE)
@pytest.mark.parametrize("line", [STATUS, DATA])
def test_a_state_from_an_answer_that_is_none_is_unavailable(line: str, name: str) -> None:
    """AW-6, also for the content of a bundle that is deep enough."""
    gateway = FakeGateway({STATUS: depth(5), DATA: encode_base64url(BUNDLE), line: NONSENSE[name]})

    with pytest.raises(EffectFailed) as failed:
        call(status, AWAIT, transport=gateway)

    assert (failed.value.code, failed.value.retryable) == ("unavailable", True)


@pytest.mark.parametrize("number", [-1, "2", 2.0, None, True])
def test_a_depth_that_is_no_natural_number_is_unavailable(number: object) -> None:
    with pytest.raises(EffectFailed, match="a whole number in number_of_confirmations"):
        call(status, AWAIT, transport=FakeGateway({STATUS: depth(number)}))


@pytest.mark.parametrize("code", [404, 202])
def test_a_confirmed_bundle_whose_content_is_not_there_is_pending(code: int) -> None:
    """AW-30: a gateway may know a block before it has its content."""
    gateway = FakeGateway({STATUS: depth(5), DATA: code})

    assert call(status, AWAIT, transport=gateway) == {
        "fate": {"$tag": "Pending", "$value": {"depth": 5}}
    }


def test_content_that_is_no_bundle_is_unavailable() -> None:
    """AW-30: a cut answer proves nothing."""
    gateway = FakeGateway({STATUS: depth(5), DATA: encode_base64url(BUNDLE[:-1])})

    with pytest.raises(EffectFailed, match="returned no bundle as") as failed:
        call(status, AWAIT, transport=gateway)

    assert (failed.value.code, failed.value.retryable) == ("unavailable", True)


def test_other_content_is_confirmed_with_another_hash() -> None:
    """AW-31."""
    other = BUNDLE[:-1] + bytes([BUNDLE[-1] ^ 1])
    gateway = FakeGateway({STATUS: depth(5), DATA: encode_base64url(other)})

    state = call(status, AWAIT, transport=gateway)["fate"]

    assert state["$tag"] == "Confirmed"
    assert state["$value"]["content"] not in (hash_of(EVIDENCE), hash_of(EVIDENCE[:-1] + b"|"))


def test_a_gateway_that_never_answers_is_unavailable_and_its_post_unknown() -> None:
    """AW-5, AW-23."""
    at_once = RequestTimeouts(get_s=0.01, data_s=0.01, post_s=0.01)
    mute = FakeGateway({STATUS: depth(5)}, silent=frozenset({"GET /info", STATUS, "POST /tx"}))

    for effect, params in ((quote, quote_params()), (status, AWAIT)):
        with pytest.raises(EffectFailed, match=r"gave no complete answer \(TimeoutError\)"):
            call(effect, params, transport=mute, timeouts=at_once)
    found = call(upload, upload_params(), transport=mute, timeouts=at_once)

    assert (found["fate"], found["code"]) == ({"$tag": "Unknown"}, None)


def test_a_body_is_read_up_to_16_mib() -> None:
    """AW-6."""
    endless = Endless()
    gateway = FakeGateway({STATUS: depth(5), DATA: httpx.Response(200, stream=endless)})

    with pytest.raises(EffectFailed, match="answered more than 16,777,216 bytes"):
        call(status, AWAIT, transport=gateway)

    assert endless.sent == BODY_BYTES_MAX + (1 << 20)


def test_a_wait_looks_again_until_the_bundle_is_deep_enough() -> None:
    """AW-25: a 404 and an unusable answer on the way end nothing."""
    clock = Clock()
    looks: list[Canned] = [404, 202, 500, depth(1), depth(2)]
    gateway = FakeGateway({STATUS: looks, DATA: encode_base64url(BUNDLE)})

    found = call(status, {**AWAIT, "wait_ms": 60_000}, transport=gateway, clock=clock)

    assert found["fate"]["$tag"] == "Confirmed"
    assert clock.pauses == [FIRST_PAUSE_S * 1.5**step for step in range(4)]


@pytest.mark.parametrize(
    ("last", "state"),
    [(404, "NotFound"), (202, "Pending"), (depth(1), "Pending")],
)
def test_a_wait_that_ends_reports_its_last_look(last: Canned, state: str) -> None:
    """AW-25."""
    clock = Clock()
    gateway = FakeGateway({STATUS: [202, 500, last]})

    found = call(status, {**AWAIT, "wait_ms": 10_000}, transport=gateway, clock=clock)

    assert found["fate"]["$tag"] == state
    assert clock.now_s == pytest.approx(10.0)
    assert max(clock.pauses) <= PAUSE_S_MAX


def test_a_wait_whose_last_look_failed_is_unavailable() -> None:
    """AW-25."""
    gateway = FakeGateway({STATUS: [202, 500]})

    with pytest.raises(EffectFailed, match="answered 500"):
        call(status, {**AWAIT, "wait_ms": 1000}, transport=gateway, clock=Clock())


def test_a_wait_is_shorter_than_the_timeout_of_its_attempt() -> None:
    """AW-25: the tests' attempts time out after an hour, less the reserve of the last look."""
    clock = Clock()

    call(status, {**AWAIT, "wait_ms": 2**60}, transport=FakeGateway({STATUS: 202}), clock=clock)

    assert 3600 - 31 < clock.now_s <= 3600 - 30


def test_a_rejected_bundle_is_not_waited_for() -> None:
    clock = Clock()
    gateway = FakeGateway({STATUS: 410})

    found = call(status, {**AWAIT, "wait_ms": 9000}, transport=gateway, clock=clock)

    assert (found["fate"], clock.pauses) == ({"$tag": "Rejected"}, [])


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"item": "x"}, "item: expected 32 bytes in base64url, found 'x'"),
        ({"bundle": "../../info" + "A" * 33}, "bundle: expected 32 bytes in base64url"),
        ({"bundle": encode_base64url(bytes(33))}, "bundle: expected 32 bytes in base64url"),
        ({"conf": 0}, "conf: expected at least 1, found 0"),
    ],
)
def test_a_status_of_nothing_is_a_bad_request(changes: Params, problem: str) -> None:
    """AW-3."""
    gateway = FakeGateway()

    with pytest.raises(EffectFailed) as failed:
        call(status, {**AWAIT, **changes}, transport=gateway)

    assert failed.value.code == "arweave_bad_request"
    assert failed.value.message.startswith(problem)
    assert gateway.seen == []

"""The life of an upload on a gateway: on the stub, and with ``AOS_ARLOCAL=1`` on arlocal too.

arlocal checks ids, signatures, data roots and the items of a bundle with Arweave's own packages: it
mines no bundle whose items it cannot verify. ``make gateway-arlocal`` runs this file on it.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from aos_gateway.arweave.arweave_effects import quote, status, upload
from aos_gateway.arweave.base64url import encode_base64url, is_anchor
from tests.gateway.arweave.lab import (
    EVIDENCE,
    GATEWAY,
    RICH,
    Lab,
    Params,
    arlocal_lab,
    call,
    content_of_size,
    hash_of,
    quote_params,
    stub_lab,
    upload_params,
    vectors,
)
from tests.gateway.arweave.losing_proxy import losing_proxy

WITH_ARLOCAL = os.environ.get("AOS_ARLOCAL") == "1"
LABS = {"stub": stub_lab, **({"arlocal": arlocal_lab} if WITH_ARLOCAL else {})}


@pytest.fixture(scope="module", params=LABS)
def shared(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Lab]:
    with LABS[request.param](tmp_path_factory.mktemp(request.param)) as lab:
        yield lab


@pytest.fixture
def lab(shared: Lab) -> Lab:
    shared.set_balance(RICH)
    shared.mine()
    return shared


class Upload:
    """One upload of content that no other test uploads."""

    def __init__(self, lab: Lab, content: bytes, *, url: str | None = None) -> None:
        self.lab = lab
        self.url = url or lab.url
        self.content = content
        self.params: Params = {}
        self.receipt: dict[str, Any] = {}

    def quote(self) -> Params:
        found: Params = call(quote, quote_params(bytes=len(self.content)), url=self.url)
        return found

    def post(self, **changes: Any) -> str:
        """Quote unless that was done, and upload. Returns the fate."""
        if not self.params:
            quoted = self.quote()
            self.params = upload_params(
                self.content, anchor=quoted["anchor"], reward=quoted["reward"]
            )
        params = {**self.params, **changes}
        self.receipt = call(upload, params, url=self.url, content=self.content)
        return str(self.receipt["fate"]["$tag"])

    def state(self, conf: int = 1) -> dict[str, Any]:
        params = {
            "gateway": "main",
            "item": self.receipt["item"],
            "bundle": self.receipt["bundle"],
            "conf": conf,
            "wait_ms": 0,
        }
        found: dict[str, Any] = (call(status, params, url=self.url))["fate"]
        return found


def test_an_upload_is_posted_mined_and_read_back(lab: Lab) -> None:
    """AW-20, AW-24, AW-31."""
    one = Upload(lab, EVIDENCE)

    assert one.post() == "Posted"
    assert one.state()["$tag"] == "Pending"
    lab.mine(3)

    state = one.state(conf=2)
    assert state["$tag"] == "Confirmed"
    assert state["$value"]["content"] == hash_of(EVIDENCE)
    assert state["$value"]["depth"] >= 2
    assert (one.state(conf=1000))["$tag"] == "Pending"


def test_evidence_of_the_longest_size_is_uploaded_and_read_back(lab: Lab) -> None:
    """AW-14: several chunks, the last of them full."""
    one = Upload(lab, content_of_size(512 * 1024))

    assert one.post() == "Posted"
    lab.mine(2)

    assert one.state()["$value"]["content"] == hash_of(one.content)


def test_an_upload_that_is_repeated_is_known_and_posts_nothing(lab: Lab) -> None:
    """AW-9, AW-20: before and after its block."""
    one = Upload(lab, b"repeated")
    one.post()
    ids = one.receipt["item"], one.receipt["bundle"]

    with losing_proxy(lab.url) as proxy:
        one.url = proxy.url
        assert one.post() == "Known"
        lab.mine()
        assert one.post() == "Known"

        assert [each for each in proxy.seen if each.startswith("POST")] == []
    assert (one.receipt["item"], one.receipt["bundle"]) == ids


def test_a_forgotten_upload_is_posted_with_a_new_anchor_as_the_same_item(lab: Lab) -> None:
    """AW-11, AW-24: the id of the item is that of the content, the bundle is another."""
    one = Upload(lab, b"forgotten")
    one.post()
    first = one.receipt
    lab.forget(first["bundle"])
    assert one.state() == {"$tag": "NotFound"}

    lab.change_anchor()
    one.params = {}

    assert one.post() == "Posted"
    assert one.receipt["item"] == first["item"]
    assert one.receipt["bundle"] != first["bundle"]
    lab.mine(2)
    assert one.state()["$value"]["content"] == hash_of(b"forgotten")


def test_a_wallet_that_cannot_pay_has_no_funds(lab: Lab) -> None:
    """AW-22: told from an invalid transaction by the balance, not by words."""
    one = Upload(lab, b"poor")
    lab.set_balance(1)

    assert one.post() == "NoFunds"
    assert one.receipt["code"] in (400, 410)
    assert one.quote()["balance"] == "1"
    assert one.state() == {"$tag": "NotFound"}

    lab.set_balance(RICH)
    assert one.post() == "Posted"


def test_a_bundle_that_the_gateway_calls_invalid_is_rejected(lab: Lab) -> None:
    """AW-21: here its anchor is no block of this chain."""
    one = Upload(lab, b"rejected")

    assert one.post(anchor=encode_base64url(bytes(48))) == "Rejected"
    assert one.receipt["code"] == 400
    assert one.receipt["bundle"] is not None
    assert one.state() == {"$tag": "NotFound"}


def test_other_bytes_come_back_as_another_content(lab: Lab) -> None:
    """AW-31."""
    one = Upload(lab, b"tampered")
    one.post()
    lab.mine(2)
    lab.tamper(one.receipt["bundle"])

    state = one.state()

    assert state["$tag"] == "Confirmed"
    assert state["$value"]["content"] != hash_of(b"tampered")


def test_a_lost_answer_is_unknown_and_the_repetition_finds_the_upload(lab: Lab) -> None:
    """AW-23."""
    with losing_proxy(lab.url) as proxy:
        one = Upload(lab, b"lost", url=proxy.url)
        proxy.loses = "POST /tx"

        assert one.post() == "Unknown"
        assert one.receipt["code"] is None
        assert one.receipt["bundle"] is not None
        assert one.post() == "Known"

        assert len([each for each in proxy.seen if each.startswith("POST")]) == 1
    lab.mine(2)
    one.url = lab.url
    assert one.state()["$value"]["content"] == hash_of(b"lost")


def test_a_quote_has_what_an_upload_needs(lab: Lab) -> None:
    """AW-8."""
    one = Upload(lab, b"priced")

    before = one.quote()
    lab.mine()
    after = one.quote()

    assert before["balance"] == str(RICH)
    assert 0 < int(before["reward"]) < RICH
    assert after["height"] > before["height"]
    assert is_anchor(after["anchor"])


if WITH_ARLOCAL:

    def test_the_vectors_are_what_the_packages_make_today() -> None:
        """``vectors.json`` is the output of ``vectors.js``, which uses the packages of arlocal."""
        ran = subprocess.run(
            ["node", "vectors.js"],
            cwd=GATEWAY / "arlocal",
            check=True,
            capture_output=True,
            text=True,
        )

        assert json.loads(ran.stdout) == vectors()

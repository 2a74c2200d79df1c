"""Secrets: where values come from, where they go, and that they do not come back (X-67 to X-69)."""

from __future__ import annotations

import asyncio
import base64
import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import cbor2
import pytest

from aos.errors import BadUsage, Refused
from aos.host.executors.http import HttpExecutor
from aos.host.folder.secrets import SecretProblem, Secrets, read_secrets
from aos.manifest.hosts import HostPort
from aos.manifest.manifest_secrets import Secret, read_binding
from aos.values.cbor import encode
from aos.values.digests import Hash, content_hash
from aos.worker.failure import EffectFailed, NotConfigured
from aos.worker.http import Client
from aos.worker.redaction import Redactor
from aos.worker.request import read_request
from aos.worker.worker_secrets import SecretValue, from_wire, to_wire
from tests.core.decide.test_secrets import world
from tests.worker.stage import store_of, task
from tests.worker.test_http import Server, context, value, with_server

VALUE = b"s3cret/value+1"
NAME = "t/bank@1"
HEADERS: dict[str, Any] = {
    "Authorization": {"$tag": "secret", "$value": {"alias": "t/bank", "version": 1}}
}


def asking(url: str) -> Any:
    """Params in normal form, as a manifest with secrets takes them."""
    return {"method": "GET", "url": url, "headers": HEADERS, "body": None, "body_ref": None}


def secret(binding: str = "env:AOS_TEST_SECRET", **more: Any) -> Secret:
    fields: dict[str, Any] = {"expected_digest": None, "hosts": None, "workflows": None, **more}
    return Secret(name=NAME, hash=Hash(bytes(32)), binding=read_binding(binding), **fields)


def held(*hosts: HostPort, data: bytes = VALUE) -> SecretValue:
    return SecretValue(name=NAME, value=data, hosts=hosts or None)


def file_of(folder: Path, text: str, mode: int = 0o600) -> Path:
    file = folder / "secrets"
    file.write_text(text)
    file.chmod(mode)
    return file


# Where values come from


def test_a_value_is_the_environments_at_this_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Secrets()
    for text in ("first", "second"):
        monkeypatch.setenv("AOS_TEST_SECRET", text)
        assert found.value(secret()) == text.encode()


@pytest.mark.parametrize(
    "text", ["# a note\n\nBANK = s3cret/value+1 \n", '{"BANK": "s3cret/value+1"}']
)
def test_a_file_is_lines_or_one_object(tmp_path: Path, text: str) -> None:
    assert Secrets(file_of(tmp_path, text)).value(secret("file:BANK")) == VALUE


def test_a_file_that_changes_is_read_again(tmp_path: Path) -> None:
    found = Secrets(file_of(tmp_path, "BANK=first"))
    assert found.value(secret("file:BANK")) == b"first"
    file_of(tmp_path, "BANK=second-value")
    assert found.value(secret("file:BANK")) == b"second-value"
    (tmp_path / "secrets").chmod(0o644)
    with pytest.raises(SecretProblem, match="others may read") as caught:
        found.value(secret("file:BANK"))
    assert caught.value.code == "secret_unavailable"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o666])
def test_a_file_that_others_may_read_is_refused(tmp_path: Path, mode: int) -> None:
    with pytest.raises(Refused, match="chmod 600"):
        read_secrets(file_of(tmp_path, "BANK=value", mode))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("BANK", "line 1: expected KEY=VALUE"),
        ("A=1234\nA=5678", "line 2: A is defined twice"),
        ("A='quoted'", "line 1: A has quotes around it"),
        ('{"A": 1}', "A: expected text"),
        ('{"A": "x", "A": "y"}', "not one JSON object"),
        ("bad key=1", "line 1: expected KEY=VALUE"),
    ],
)
def test_a_file_that_is_none_is_refused_without_its_words(
    tmp_path: Path, text: str, problem: str
) -> None:
    with pytest.raises(BadUsage, match=problem):
        read_secrets(file_of(tmp_path, text))


def test_a_missing_file_or_folder_is_told(tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(BadUsage, match=str(path)):
            read_secrets(path)


@pytest.mark.parametrize(
    ("given", "binding", "more", "code"),
    [
        (None, "env:AOS_TEST_SECRET", {}, "secret_unavailable"),
        ("abc", "env:AOS_TEST_SECRET", {}, "secret_unavailable"),
        ("x" * 32_769, "env:AOS_TEST_SECRET", {}, "secret_unavailable"),
        ("s3cret", "file:BANK", {}, "secret_unavailable"),
        (
            "s3cret",
            "env:AOS_TEST_SECRET",
            {"expected_digest": content_hash(b"x")},
            "secret_mismatch",
        ),
    ],
)
def test_a_value_that_cannot_be_used_has_a_code(
    monkeypatch: pytest.MonkeyPatch, given: str | None, binding: str, more: Any, code: str
) -> None:
    if given is None:
        monkeypatch.delenv("AOS_TEST_SECRET", raising=False)
    else:
        monkeypatch.setenv("AOS_TEST_SECRET", given)
    with pytest.raises(SecretProblem) as caught:
        Secrets().value(secret(binding, **more))
    assert caught.value.code == code
    assert given is None or len(given) < 4 or given not in str(caught.value)


def test_no_repr_shows_a_value(tmp_path: Path) -> None:
    file = file_of(tmp_path, "BANK=s3cret/value+1")
    for each in (held(), Secrets(file), read_secrets(file)):
        assert "s3cret" not in repr(each)


# Where they may go


def test_a_secret_of_a_task_is_unchanged_after_encoding_and_decoding() -> None:
    given = held(HostPort(host="bank.example", port=None), HostPort(host="127.0.0.1", port=81))
    assert from_wire(to_wire([given])) == {NAME: given}


def test_a_secret_goes_to_its_hosts_only() -> None:
    limited = held(HostPort(host="bank.example", port=None))
    for url, may in [
        ("https://bank.example/x", True),
        ("http://BANK.example/", True),
        ("https://bank.example:8443/", False),
        ("https://evil.example/?bank.example", False),
        ("https://bank.example.evil.example/", False),
    ]:
        given = asking(url)
        if may:
            request = read_request(given, context(), {NAME: limited})
            assert (b"Authorization", VALUE) in request.headers
        else:
            with pytest.raises(EffectFailed) as caught:
                read_request(given, context(), {NAME: limited})
            assert caught.value.code == "secret_host_denied"


def test_a_value_that_would_break_a_header_is_not_sent() -> None:
    for data in (b"a\r\nX: y", b"a\0bc"):
        with pytest.raises(NotConfigured) as caught:
            read_request(asking("http://bank.example/"), context(), {NAME: held(data=data)})
        assert caught.value.code == "secret_unavailable"
        assert "X: y" not in caught.value.message


def test_the_process_gets_the_value_with_its_task_and_nothing_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("T_BANK", VALUE.decode())
    executor = HttpExecutor(read=store_of({}), secrets=Secrets(), report=lambda _: None)

    async def prepared() -> Any:
        executor.use(world().effective)
        plain = task(1, "sys/http.request@1", {"method": "GET", "url": "http://x/", "headers": {}})
        return executor.prepare(replace(plain, params=encode(asking("http://x/"))))

    enclosed = asyncio.run(prepared())

    assert enclosed.blobs == {}
    assert cbor2.loads(to_wire(enclosed.secrets)) == [{"name": NAME, "value": VALUE, "hosts": None}]
    assert "T_BANK" not in (executor._process.environment or {})


# Results


SPELT = [
    VALUE,
    quote(VALUE, safe="").encode(),
    quote(VALUE, safe="").lower().encode(),
    base64.b64encode(VALUE),
    base64.urlsafe_b64encode(VALUE),
    base64.b64encode(b"u:" + VALUE),
    VALUE.hex().encode(),
    json.dumps(VALUE.decode()).replace("/", "\\/").encode(),
]


@pytest.mark.parametrize("spelt", SPELT)
def test_every_usual_spelling_is_taken_out(spelt: bytes) -> None:
    redactor = Redactor([held()])
    found = redactor.redacted(b"before " + spelt + b" after")
    assert found.startswith(b"before ")
    assert b"[secret t/bank@1]" in found
    for part in (VALUE, spelt.strip(b'="')[4:-4]):
        assert part not in found


def test_a_header_of_a_scheme_is_taken_out_in_its_parts() -> None:
    pair = b"user:pass-word-1"
    basic = Redactor([held(data=b"Basic " + base64.b64encode(pair))])
    for part in (pair, b"pass-word-1", base64.b64encode(pair)):
        assert part not in basic.redacted(b"<" + part + b">")
    assert b"tok-123" not in Redactor([held(data=b"Bearer tok-123")]).redacted(b"tok-123")


def found_in(value: bytes, *spelt: bytes) -> list[bytes]:
    """Those of the spellings that a secret of this value hides."""
    redactor = Redactor([held(data=value)])
    return [each for each in spelt if redactor.holds(b"<" + each + b">")]


def test_each_part_of_a_value_with_several_is_taken_out_alone() -> None:
    """X-69: without its 0x, in the other case, as bytes, and in base64."""
    keys = [bytes(range(at, at + 32)) for at in (160, 192)]
    value = ",".join(f"0x{each.hex()}" for each in keys).encode()
    for key in keys:
        spelt = (
            key.hex().encode(),
            key.hex().upper().encode(),
            key,
            repr(key).encode()[2:-1],
            base64.b64encode(key),
            base64.b64encode(key.hex().encode()),
            key.hex().encode().hex().encode(),
        )
        assert found_in(value, *spelt) == list(spelt)
    redacted = Redactor([held(data=value)]).redacted(b"key " + keys[0].hex().encode())
    assert redacted == b"key [secret t/bank@1]"
    assert Redactor([held(data=value)]).redacted(value) == b"[secret t/bank@1]"


def test_short_parts_and_words_around_them_are_no_secrets() -> None:
    value = b"account=acme, Bearer sixteen-or-more-chars"
    assert found_in(value, b"account=acme", b"sixteen-or-more-chars") == [b"sixteen-or-more-chars"]


def test_the_private_members_of_a_json_key_are_parts_and_the_public_ones_are_not() -> None:
    n, d, seed = (bytes([at]) * 48 for at in (5, 6, 7))
    texts = [base64.urlsafe_b64encode(each).rstrip(b"=").decode() for each in (n, d)]
    jwk = {"kty": "RSA", "n": texts[0], "e": "AQAB", "d": texts[1]}
    value = json.dumps({"item_seed": seed.hex(), "jwk": jwk}).encode()

    assert found_in(value, n, texts[0].encode(), b"AQAB") == []
    private = (d, texts[1].encode(), d.hex().encode(), seed, seed.hex().encode())
    assert found_in(value, *private) == list(private)


def test_each_line_of_a_pem_file_is_a_part() -> None:
    lines = [base64.b64encode(bytes([at]) * 48) for at in range(3)]
    value = b"\n".join([b"-----BEGIN PRIVATE KEY-----", *lines, b"-----END PRIVATE KEY-----"])
    assert found_in(value, *lines) == lines


def test_a_value_without_secrets_keeps_its_bytes() -> None:
    data = b"nothing here"
    assert Redactor([held()]).redacted(data) is data


class Echo(Server):
    """Tells everything that it was sent, in the head and in the body."""

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            self.requests.append(head)
            told = next(
                line.partition(b":")[2].strip()
                for line in head.split(b"\r\n")
                if line.lower().startswith(b"authorization:")
            )
            body = b"you sent " + told + b" and " + base64.b64encode(told)
            lines = [b"HTTP/1.1 200 OK", b"X-Echo: " + told, b"Content-Length: %d" % len(body)]
            if b"/broken" in head:
                lines = [b"HTTP/1.1 " + told]
            if b"/encoded" in head:
                lines.append(b"Content-Encoding: a-long-prefix-of-an-encoding-%s, gzip" % told)
            writer.write(b"\r\n".join(lines) + b"\r\n\r\n" + body)
            await writer.drain()


def test_an_honest_echo_does_not_reach_the_receipt(monkeypatch: pytest.MonkeyPatch) -> None:
    """X-69: neither in headers, nor in the body, nor in the words of an error."""
    monkeypatch.setattr("tests.worker.test_http.Server", Echo)
    results: list[Any] = []

    async def play(server: Server, client: Client) -> None:
        ctx = context(held())
        url = f"http://127.0.0.1:{server.port}"
        results.append(await client.request(asking(f"{url}/echo"), ctx))
        with pytest.raises(EffectFailed) as caught:
            await client.request(asking(f"{url}/broken"), ctx)
        results.append(caught.value)
        with pytest.raises(EffectFailed) as caught:
            await client.request(asking(f"{url}/encoded"), ctx)
        results.append(caught.value)

    server = with_server(play)

    assert VALUE in server.requests[0]
    found = value(results[0])
    mark = "[secret t/bank@1]"
    assert found["headers"]["x-echo"] == mark
    assert found["body"] == f"you sent {mark} and {mark}".encode()
    assert "content-length" not in found["headers"]
    assert "s3cret" not in str(results[1])
    # Before it is cut: half of a secret is not found (X-69b).
    assert f"a-long-prefix-of-an-encoding-{mark}, gzip" in str(results[2])
    assert results[1].__cause__ is None

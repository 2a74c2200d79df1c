"""Secrets and tokens of URLs stay out of every file, line and log, whatever a server answers (X-69,
X-69a, X-69b, X-77a)."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pytest

from aos.core.decide.answers import Admitted
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import Receipt, slot_bytes
from aos.host.door.writer import open_writer
from aos.host.folder.folder import open_folder
from aos.host.folder.making import init_world
from aos.manifest.load import load
from aos.values.sha256 import sha256_text
from tests.cli.shell import here, run
from tests.effects.hostile_services import MOODS, hostile_services, traces
from tests.effects.llm.model_calls import NO_RUNTIME, item
from tests.gateway.arweave.lab import SECRET as ARWEAVE_KEYS
from tests.gateway.arweave.lab import hash_of
from tests.gateway.evm.stage import KEYS as EVM_KEYS
from tests.gateway.evm.stage import SIGNER, STUDIO
from tests.host.puppet import DO, asks_for, files

AIR: Final = Path(__file__).parents[2] / "manifests" / "gateway" / "air" / "generated.air.json"

MODEL_KEY: Final = 'mk7Q-c4nary/key+"<&=\\9'
HTTP_KEY: Final = "hk8W-c4nary/key+~<&=\\9 'z"
PASSWORD: Final = 'pw9E c4nary/pass+"<&=@\\9'
USER: Final = "us3rR-c4nary"
PATH_TOKEN: Final = 'pt5T c4nary/path+"<&\\9'
QUERY_TOKEN: Final = 'qt6Y c4nary/query+"<&\\9'
URL_SECRETS: Final = (PASSWORD, USER, PATH_TOKEN)
CHAINS: Final = {mood: number for number, mood in enumerate(MOODS, 1)}

PUT, GENERATE, COUNT = "sys/blob.put@1", "sys/llm.generate@1", "sys/llm.count_tokens@1"
REQUEST, QUOTE, STATUS = "sys/http.request@1", "arweave/quote@1", "arweave/status@1"
CALL, TX_QUOTE, SUBMIT, FATE = (
    "evm/call@1", "evm/tx.quote@1", "evm/tx.submit@1", "evm/tx.receipt@1",
)  # fmt: skip
UPLOAD: Final = "arweave/upload@1"
EFFECTS: Final = (
    PUT, GENERATE, COUNT, REQUEST, QUOTE, STATUS, UPLOAD, CALL, TX_QUOTE, SUBMIT, FATE,
)  # fmt: skip
SECRETS: Final = {
    "llm/key": MODEL_KEY,
    "web/key": HTTP_KEY,
    "gw/arweave-key": json.dumps({**json.loads(ARWEAVE_KEYS), "item_seed": "b7c4a9d2" * 8}),
    "gw/evm-keys": ",".join(EVM_KEYS),
}
MESSAGE: Final = b'{"role":"user","content":"hello"}'


def make_world(path: Path) -> None:
    """A world whose cells request all effects of the shipped executors that send something."""
    given = files(effects=EFFECTS, secrets=[{"name": f"{name}@1"} for name in SECRETS])
    nodes = [
        each
        for each in json.loads(given["m.air.json"])
        if each["$kind"] != "defeffect" or each["name"].startswith("sys/")
    ]
    own = [
        each
        for each in json.loads(AIR.read_text("utf-8"))
        if each["$kind"] in ("defschema", "defeffect")
        and each["name"].startswith(("arweave/", "evm/"))
    ]
    for each in nodes:
        if each["$kind"] == "manifest":
            each["schemas"] += [{"name": s["name"]} for s in own if s["$kind"] == "defschema"]
    nodes += own
    nodes += [
        {"$kind": "defsecret", "name": f"{name}@1", "binding_id": f"file:{name}"}
        for name in SECRETS
    ]
    init_world(path)
    with open_writer(path) as writer:
        loaded = load({**given, "m.air.json": json.dumps(nodes).encode()})
        assert isinstance(writer.apply(loaded).answer, Admitted)


def request(world: Path, key: str, *effects: tuple[str, Any]) -> None:
    out = base64.b64encode(asks_for(*effects)).decode()
    sent = here("send", DO, json.dumps({"key": key, "out": out}), "--world", world)
    assert sent.code == 0, sent


def of_mood(mood: str, port: int) -> list[tuple[str, Any]]:
    """Each effect, to the server of a mood."""
    provider = mood.replace(" ", "-")
    secret = {"$tag": "secret", "$value": {"alias": "llm/key", "version": 1}}
    window = [item(sha256_text(MESSAGE))]
    ours = {"correlation_id": None, "provider": provider, "model": "m", "window_items": window}
    keys = {"alias": "gw/arweave-key", "version": 1}
    evm = {"alias": "gw/evm-keys", "version": 1}
    chain, signer = CHAINS[mood], "0x" + "19" * 20
    call = {"to": STUDIO, "data": b"\x01\x02\x03\x04"}
    sent = {**call, "value": "0"}
    headers = {"authorization": {**secret, "$value": {"alias": "web/key", "version": 1}}}
    item_id, bundle = (base64.urlsafe_b64encode(bytes([n]) * 32).decode()[:43] for n in (1, 2))
    return [
        (GENERATE, {**ours, "runtime": NO_RUNTIME, "api_key": secret}),
        (
            COUNT,
            {
                **ours, "tool_definitions_ref": None, "response_format_ref": None,
                "provider_options_ref": None, "rendering_profile": None,
                "candidate_plan_id": None, "metadata": {}, "api_key": secret,
            },
        ),
        (
            REQUEST,
            {
                "method": "GET", "url": f"http://127.0.0.1:{port}/x", "headers": headers,
                "body": None, "body_ref": None,
            },
        ),
        (QUOTE, {"keys": keys, "gateway": provider, "bytes": 9}),
        (
            STATUS,
            {"gateway": provider, "item": item_id, "bundle": bundle, "conf": 1, "wait_ms": 0},
        ),
        (
            UPLOAD,
            {
                "keys": keys, "gateway": provider, "data": hash_of(MESSAGE),
                "content_type": "text/plain", "tags": [], "reward": "7",
                "anchor": base64.urlsafe_b64encode(bytes(range(48))).decode(),
            },
        ),
        (CALL, {"chain": chain, **call, "block": {"$tag": "Depth", "$value": 1}}),
        (TX_QUOTE, {"chain": chain, "signer": signer, **sent, "conf": 1, "guard": None}),
        (
            SUBMIT,
            {
                "keys": evm, "chain": chain, "signer": SIGNER, "nonce": 0, **sent,
                "gas": 120_000, "max_fee": 3, "max_tip": 1,
            },
        ),
        (
            FATE,
            {
                "chain": chain, "signer": signer, "nonce": 0, "hashes": [], **sent, "conf": 1,
                "since": 0, "wait_ms": 0,
            },
        ),
    ]  # fmt: skip


def environment_of(ports: dict[str, int]) -> dict[str, str]:
    """URLs with tokens in every place that a URL has."""
    userinfo = f"{quote(USER, safe='')}:{quote(PASSWORD, safe='')}"
    path = quote(PATH_TOKEN, safe="")
    query = f"?key={quote(QUERY_TOKEN, safe='')}"
    urls = {mood: f"http://{userinfo}@127.0.0.1:{port}/v1/{path}" for mood, port in ports.items()}
    named = " ".join(f"{mood.replace(' ', '-')}={url}" for mood, url in urls.items())
    nodes = " ".join(f"{CHAINS[mood]}={url}{query}" for mood, url in urls.items())
    return {
        # A user in a URL would replace the header with the key.
        "AOS_LLM_ENDPOINTS": named.replace(f"{userinfo}@", ""),
        "AOS_LLM_TOKENIZERS": named,
        "AOS_ARWEAVE": named,
        "AOS_EVM_RPC": nodes,
    }


def secrets_of(text: str) -> list[str]:
    """The texts of a secret that must not be anywhere: of a JSON key, the private members."""
    try:
        document = json.loads(text)
    except ValueError:
        return text.split(",")
    return [document["item_seed"], *(document["jwk"][name] for name in ("d", "p", "q"))]


@pytest.mark.parametrize(
    "moods",
    [
        pytest.param(("is busy", "answers plainly", "completes", "is a node"), id="some"),
        pytest.param(tuple(MOODS), id="all", marks=pytest.mark.long),
    ],
)
def test_no_answer_of_a_server_brings_a_secret_into_a_file_or_a_line(
    tmp_path: Path, moods: tuple[str, ...]
) -> None:
    """X-69, X-69a, X-69b, X-77a, AG-70, AG-71, AW-7, EV-3: of all effects that use the network."""
    world, secrets = tmp_path / "w", tmp_path / "secrets"
    secrets.write_text(json.dumps(SECRETS))
    secrets.chmod(0o600)
    make_world(world)
    request(world, "begin", (PUT, {"bytes": MESSAGE, "blob_ref": sha256_text(MESSAGE), "refs": []}))
    assert here("run", "--until-idle", "--world", world).code == 0
    canaries = [*URL_SECRETS, QUERY_TOKEN]
    canaries += [each for text in SECRETS.values() for each in secrets_of(text)]
    with hostile_services(moods) as services:
        ports = {mood: service.port for mood, service in services.items()}
        for mood, port in ports.items():
            request(world, mood, *of_mood(mood, port))
        words: list[str | Path] = [
            "run", "--until-idle", "--max-wait", "45s", "--world", world, "--secrets", secrets,
        ]  # fmt: skip
        for spec in ("llm", "arweave", "evm"):
            words += ["--executors", spec]
        for port in ports.values():
            words += ["--allow-http", f"127.0.0.1:{port}"]
        done = run(*words, env=environment_of(ports), timeout=120)
    assert min(service.served for service in services.values()) >= 4

    shown = here("inspect", "journal", "--json", "--from", "1", "--world", world).out
    said = {"stdout": done.out.encode(), "stderr": done.err.encode(), "shown": shown.encode()}
    said |= {str(file): file.read_bytes() for file in world.rglob("*") if file.is_file()}
    said |= contents_of(world)
    found = [
        (name, canary, trace)
        for name, data in said.items()
        for canary in canaries
        for trace in traces(canary)
        if trace in data
    ]
    assert found == []
    # The answers did arrive, and the marks are where the secrets were.
    for name in ("AOS_LLM_ENDPOINTS", "AOS_ARWEAVE", "AOS_EVM_RPC", "llm/key@1", "web/key@1"):
        assert any(f"[secret {name}]".encode() in data for data in said.values()), name


def contents_of(world: Path) -> dict[str, bytes]:
    """Every blob of the world and every record, uncompressed."""
    found: dict[str, bytes] = {}
    with open_folder(world).open_store() as store:
        for frame in store.frames():
            for number, data in enumerate(frame.records, frame.header.first):
                found[f"record {number}"] = data
                record = from_bytes(data)
                if isinstance(record, Receipt):
                    found[f"payload {number}"] = slot_bytes(record.payload, store.blob)
        for name in store.blob_hashes():
            found[f"blob {name.hex()}"] = store.blob(name)
    return found

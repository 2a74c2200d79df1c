"""A real ``aos run`` with the executors of models and of the vault, and a key of ``--secrets``."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any, Final

from aos.core.decide.answers import Admitted
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import Receipt, slot_bytes
from aos.host.door.writer import open_writer
from aos.host.folder.folder import open_folder
from aos.host.folder.making import init_world
from aos.host.folder.secrets import read_secrets
from aos.manifest.load import load
from aos.values.cbor import decode_record
from aos.values.sha256 import parse_sha256, sha256_text
from tests.cli.shell import here, run
from tests.effects.llm.model_calls import KEY, KEY_REF, NO_RUNTIME, item
from tests.effects.llm.stub_model import DONE, USAGE, chunk, head, stub_model
from tests.host.puppet import DO, asks_for, files

PUT, GENERATE, STORE = "sys/blob.put@1", "sys/llm.generate@1", "sys/vault.put@1"
MESSAGE: Final = b'{"role":"user","content":"what is 6 times 7?"}'
VALUE: Final = b"a-rotating-token"
ARGUMENTS: Final = '{"a":6,"b":7}'


def make_world(path: Path) -> None:
    """A world whose cells request these effects, with one secret."""
    given = files(effects=(PUT, GENERATE, STORE), secrets=[{"name": "llm/key@1"}])
    nodes = json.loads(given["m.air.json"])
    nodes.insert(0, {"$kind": "defsecret", "name": "llm/key@1", "binding_id": "file:model-key"})
    init_world(path)
    with open_writer(path) as writer:
        loaded = load({**given, "m.air.json": json.dumps(nodes).encode()})
        assert isinstance(writer.apply(loaded).answer, Admitted)


def request(world: Path, *effects: tuple[str, Any]) -> None:
    out = base64.b64encode(asks_for(*effects)).decode()
    sent = here("send", DO, f'{{"key": "agent", "out": "{out}"}}', "--world", world)
    assert sent.code == 0, sent


def put(data: bytes) -> tuple[str, Any]:
    return PUT, {"bytes": data, "blob_ref": sha256_text(data), "refs": []}


def question() -> tuple[str, Any]:
    return GENERATE, {
        "correlation_id": None,
        "provider": "local",
        "model": "m",
        "window_items": [item(sha256_text(MESSAGE))],
        "runtime": NO_RUNTIME,
        "api_key": {"$tag": "secret", "$value": KEY_REF},
    }


def storing() -> tuple[str, Any]:
    ref = sha256_text(VALUE)
    params = {
        "alias": "shop/bank", "binding_id": "file:bank", "value_ref": ref, "expected_digest": ref,
    }  # fmt: skip
    return STORE, params


def test_a_workflow_asks_a_model_and_puts_a_secret(tmp_path: Path) -> None:
    """AG-71, AG-74, AG-80: the key is in no file of the world, and a collection keeps the blobs
    inside of the output."""
    world, secrets = tmp_path / "w", tmp_path / "secrets"
    secrets.write_text(f"model-key={KEY}\n")
    secrets.chmod(0o600)
    make_world(world)
    call = {"id": "c1", "function": {"name": "times", "arguments": ARGUMENTS}}
    script = [head(), chunk({"content": KEY, "tool_calls": [call]}, "tool_calls"),
              chunk(usage=USAGE), DONE]  # fmt: skip
    request(world, put(MESSAGE), put(VALUE))
    with stub_model(script) as stub:
        env = {"AOS_LLM_ENDPOINTS": f"local={stub.url}", "AOS_VAULT_FILE": str(secrets)}
        words: list[str | Path] = [
            "run", "--until-idle", "--world", world, "--secrets", secrets,
            "--executors", "llm", "--executors", "vault",
        ]  # fmt: skip
        assert run(*words, env=env).code == 0
        request(world, question(), storing())
        done = run(*words, env=env)
        assert done.code == 0, done

    assert stub.sent[0].headers["authorization"] == f"Bearer {KEY}"
    assert stub.sent[0].body["messages"] == [json.loads(MESSAGE)]
    assert read_secrets(secrets).values["bank"] == VALUE
    for file in world.rglob("*"):
        assert not file.is_file() or KEY.encode() not in file.read_bytes(), file
    assert here("snapshot", "--world", world).code == 0
    assert here("gc", "--world", world).code == 0
    with open_folder(world).open_store() as store:
        records = [from_bytes(data) for frame in store.frames() for data in frame.records]
        receipts = {
            each.effect: decode_record(slot_bytes(each.payload, store.blob))
            for each in records
            if isinstance(each, Receipt) and each.status == "ok"
        }

        def document(ref: Any) -> Any:
            name = parse_sha256(ref)
            assert name is not None
            blob = store.hash_by_sha256(name)
            assert blob is not None
            return json.loads(store.blob(blob))

        receipt: Any = receipts[GENERATE]
        output = document(receipt["output_ref"])
        assert output["assistant_text"] == "[secret llm/key@1]"
        [told] = document(output["tool_calls_ref"])
        assert document(told["arguments_ref"]) == {"a": 6, "b": 7}
    stored: Any = receipts[STORE]
    assert (stored["version"], stored["digest"]) == (1, sha256_text(VALUE))
    assert here("replay", "--world", world).code == 0

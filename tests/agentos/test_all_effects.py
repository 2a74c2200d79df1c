"""All effects of AIR 2 in running worlds, requested and answered as modules of the SDK do it."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from typing import Any, Final

import cbor2
import pytest

from aos.values.sha256 import sha256_text
from tests.agentos import sdk_receipts
from tests.agentos.asking_world import AskingWorld, asking_world, new_world
from tests.agentos.world import ASK, THEIRS, WORKSPACES, nodes, published
from tests.cli.shell import here, start
from tests.cli.test_halts import a_bank
from tests.effects.llm.model_calls import KEY
from tests.effects.llm.stub_model import StubModel, streamed, stub_model

NO_BLOB: Final = "sha256:" + 64 * "0"
OTHER_WORLD: Final = "1b4e28ba-2fa1-41d2-883f-0016d3cca427"

ENDPOINT: Final = ("sys/llm.", "sys/vault.", "sys/portal.")
KERNEL: Final = ("sys/introspect.", "sys/workspace.resolve@1")
NODE: Final = ("sys/blob.", "sys/timer.", "sys/http.")
MACHINE: Final = ("sys/host.",)
TREES: Final = ("sys/workspace.",)

NO_BLOBS: Final = ("meta.manifest_hash", "meta.snapshot_hash", "state_hash", "message_id")
"""Hashes of something else than blobs (AG-25, AG-85)."""


NEVER_FAIL: Final = {
    "sys/introspect.journal_head@1",
    "sys/workspace.empty_root@1",
    "sys/workspace.resolve@1",
}
"""Effects that answer whatever the params are, as long as these fit their schema."""


def of(*prefixes: str) -> set[str]:
    return {name for name in THEIRS if name.startswith(prefixes)}


def test_every_effect_of_air_2_is_in_one_of_the_worlds() -> None:
    """AG-41: the receipts that the SDK declares are those of the effects that are built in."""
    assert set(sdk_receipts.RECEIPTS) == set(THEIRS)
    assert of(*ENDPOINT, *KERNEL, *NODE, *MACHINE, *TREES) == set(THEIRS)


def test_the_reader_of_receipts_refuses_what_the_sdk_refuses() -> None:
    good = {"blob_ref": NO_BLOB, "edge_ref": NO_BLOB, "size": 1, "later": "field"}
    effect = "sys/blob.put@1"
    assert sdk_receipts.read(effect, cbor2.dumps(good))[1] == {
        "blob_ref": NO_BLOB,
        "edge_ref": NO_BLOB,
    }
    for change, told in (
        ({"size": -1}, "size: expected a value of type nat, found -1"),
        ({"size": None}, "size: expected a value of type nat, found None"),
        ({"edge_ref": "blake3:" + 64 * "0"}, "edge_ref: expected a value of type hash"),
    ):
        with pytest.raises(sdk_receipts.DoesNotFitError, match=f"^{told}"):
            sdk_receipts.read(effect, cbor2.dumps({**good, **change}))
    del good["size"]
    with pytest.raises(sdk_receipts.DoesNotFitError, match=r"^size: expected this field"):
        sdk_receipts.read(effect, cbor2.dumps(good))
    for wrong in ({"$tag": "other"}, "local", {"$tag": "blob", "$value": {}}):
        receipt = {"exit_code": 0, "status": "ok", "started_at_ns": 1, "ended_at_ns": 1}
        with pytest.raises(sdk_receipts.DoesNotFitError, match=r"^stdout"):
            sdk_receipts.read("sys/host.exec@1", cbor2.dumps({**receipt, "stdout": wrong}))


def test_the_effects_of_the_kernel_and_of_every_process(tmp_path: Path) -> None:
    """AG-15, AG-16, AG-20 to AG-26, AG-31, AG-32."""
    with a_bank() as (port, _), asking_world(
        tmp_path, "--allow-http", f"127.0.0.1:{port}", "--allow-http", "127.0.0.1:1"
    ) as world:  # fmt: skip
        blobs(world)
        timers(world)
        requests(world, port)
        views(world)
        world.check_hashes(*NO_BLOBS)

    assert world.answered == of(*NODE, *KERNEL)
    assert world.failed == of(*NODE, *KERNEL) - NEVER_FAIL


def blobs(world: AskingWorld) -> None:
    put = world.ok("sys/blob.put@1", {"bytes": b"hello"})
    assert put["blob_ref"] == sha256_text(b"hello")
    # Bytes as a list of numbers, and as text.
    for spelling in ([104, 105], "hi"):
        found = world.ok("sys/blob.put@1", {"bytes": spelling, "refs": [put["blob_ref"]]})
        assert found["blob_ref"] == sha256_text(b"hi")
    assert world.ok("sys/blob.get@1", {"blob_ref": put["blob_ref"]})["bytes"] == b"hello"
    world.rejects("blob_ref_unknown", "sys/blob.put@1", {"bytes": b"x", "refs": [NO_BLOB]})
    world.rejects("blob_missing", "sys/blob.get@1", {"blob_ref": NO_BLOB})


def timers(world: AskingWorld) -> None:
    fired = world.ok("sys/timer.set@1", {"deliver_at_ns": 1, "key": "k"})
    assert fired["key"] == "k"
    key = world.send("sys/timer.set@1", {"deliver_at_ns": time.time_ns() + 10**15})
    cancel(world, "sys/timer.set@1", key)


def cancel(world: AskingWorld, effect: str, key: str) -> None:
    """Cancel the one open effect of this name, as an operator does."""
    world.client.wait(ASK, key, until="waiting")
    shown = here("inspect", "intents", "--json", "--world", world.path).json["intents"]
    [intent] = [each["intent"] for each in shown if each["effect"] == effect]
    assert here("effects", "cancel", intent, "--world", world.path).code == 0
    world.is_rejected("canceled", effect, key)


def requests(world: AskingWorld, port: int) -> None:
    request = {"url": f"http://127.0.0.1:{port}/", "body_ref": None}
    header: Any = {"accept": {"literal": "text/plain"}}
    found = world.ok("sys/http.request@1", {**request, "method": "POST", "headers": header})
    assert found["status"] == 204
    header = {"accept": "text/plain"}  # as it was in AIR 2
    found = world.ok("sys/http.request@1", {**request, "method": "POST", "headers": header})
    assert world.blob(found["body_ref"]) == b""
    for method, url, status in (
        ("GET", "http://127.0.0.1:1/", 599),
        ("BREW", "http://127.0.0.1:1/", 405),
        ("GET", "mailto:x", 400),
    ):
        params = {"method": method, "url": url, "headers": {}}
        found = world.receipt("sys/http.request@1", params, "error")
        world.failed.add("sys/http.request@1")
        assert found["status"] == status
        told = world.blob(found["body_ref"])
        assert told is not None
        assert told.startswith(b"http_"), told


def views(world: AskingWorld) -> None:
    head = {"consistency": "head"}
    manifest = world.ok("sys/introspect.manifest@1", head)
    assert isinstance(cbor2.loads(manifest["manifest"]), dict)
    at = world.ok("sys/introspect.journal_head@1", {})["meta"]
    assert at["manifest_hash"] == manifest["meta"]["manifest_hash"]
    # A record without fields may be null.
    assert world.ok("sys/introspect.journal_head@1", None)["meta"]["journal_height"] > 0
    key = b"\xd9\xd9\xf7" + cbor2.dumps("c0")
    listed = world.ok("sys/introspect.list_cells@1", {"workflow": ASK})
    assert key in [each["key"] for each in listed["cells"]]
    cell = {"workflow": ASK, "key": key}
    state = world.ok("sys/introspect.workflow_state@1", {**cell, **head})["state"]
    assert cbor2.loads(state)["answers"][0]["effect"] == "sys/blob.put@1"
    world.rejects("consistency_unsupported", "sys/introspect.manifest@1", {"consistency": "old"})
    for effect in ("sys/introspect.list_cells@1", "sys/introspect.workflow_state@1"):
        world.rejects("workflow_unknown", effect, {"workflow": "x/y@1", **head})
    assert world.ok("sys/workspace.resolve@1", {"workspace": "w"})["exists"] is False


def test_the_effects_of_workspaces(tmp_path: Path) -> None:
    """AG-16, AG-52 to AG-57."""
    with asking_world(tmp_path, "--executors", "workspace") as world:
        trees(world)
        world.check_hashes(*NO_BLOBS)

    assert world.answered == of(*TREES)
    assert world.failed == of(*TREES) - NEVER_FAIL


def trees(world: AskingWorld) -> None:
    def ok(effect: str, **params: Any) -> Any:
        return world.ok(f"sys/workspace.{effect}@1", params)

    root = empty = ok("empty_root", workspace="w")["root_hash"]
    file = {"path": "a/b.txt", "bytes": b"beta"}
    wrote = ok("write_bytes", root_hash=root, **file)
    # Bytes as text, an option as null.
    again = ok("write_bytes", root_hash=root, path="a/b.txt", bytes="beta", mode=None)
    assert wrote == again
    root = wrote["new_root_hash"]
    ref = {"path": "c", "blob_hash": wrote["blob_hash"], "mode": 0o755}
    root = ok("write_ref", root_hash=root, **ref)["new_root_hash"]
    patch = {"note": wrote["blob_hash"], "old": None}
    noted = ok("annotations_set", root_hash=root, path="c", annotations_patch=patch)
    root = noted["new_root_hash"]
    found = ok("annotations_get", root_hash=root, path="c")["annotations"]
    assert found == {"note": wrote["blob_hash"]}
    listed = ok("list", root_hash=root, scope="subtree", limit=0)["entries"]
    assert [each["path"] for each in listed] == ["a", "a/b.txt", "c"]
    assert ok("read_ref", root_hash=root, path="c")["mode"] == 0o755
    assert ok("read_ref", root_hash=root, path="nothing") is None
    assert ok("read_bytes", root_hash=root, path="c", range={"start": 1, "end": 3}) == b"et"
    changes = ok("diff", root_a=empty, root_b=root)["changes"]
    assert [each["path"] for each in changes] == ["a", "a/b.txt", "c"]
    assert ok("remove", root_hash=root, path="c")["new_root_hash"] != root

    commit = {"workspace": "w", "expected_head": 0}
    meta = {"root_hash": root, "owner": "me", "created_at": 1}
    world.client.send("sys/WorkspaceCommit@1", {**commit, "meta": meta})
    assert ok("resolve", workspace="w")["root_hash"] == root
    assert ok("resolve", workspace="w", version=7) == {
        "exists": False, "resolved_version": None, "head": 1, "root_hash": None,
    }  # fmt: skip

    def rejects(code: str, effect: str, **params: Any) -> None:
        world.rejects(code, f"sys/workspace.{effect}@1", params)

    rejects("path_invalid", "write_bytes", root_hash=root, path="../x", bytes=b"")
    rejects("blob_missing", "write_ref", root_hash=root, path="d", blob_hash=NO_BLOB)
    rejects("not_empty", "remove", root_hash=root, path="a")
    rejects("not_found", "annotations_set", root_hash=root, path="z", annotations_patch={})
    rejects("not_found", "annotations_get", root_hash=root, path="z")
    rejects("scope_invalid", "list", root_hash=root, scope="all", limit=0)
    rejects("blob_missing", "read_ref", root_hash=NO_BLOB, path="c")
    rejects("range_invalid", "read_bytes", root_hash=root, path="c", range={"start": 2, "end": 9})
    rejects("node_invalid", "diff", root_a=root, root_b=wrote["blob_hash"])


def test_the_effects_of_a_machine(tmp_path: Path) -> None:
    """AG-62: a failure is a receipt, and only a cancellation a rejection (AG-16)."""
    root = tmp_path / "root"
    root.mkdir()
    with asking_world(tmp_path, "--host-root", root) as world:
        session = sessions(world)
        programs(world, session)
        files(world, session)
        signals(world, session)
        world.check_hashes()

    assert world.answered == world.failed == of(*MACHINE)


def refuses(world: AskingWorld, status: str, code: str, effect: str, **params: Any) -> Any:
    receipt = world.receipt(f"sys/host.{effect}@1", params)
    assert (receipt["status"], receipt["error_code"]) == (status, code), receipt
    world.failed.add(f"sys/host.{effect}@1")
    return receipt


def sessions(world: AskingWorld) -> str:
    local = {"network_mode": "host", "env": {"WHO": "you"}}
    for target in ({"local": local}, {"$tag": "local", "$value": local}):
        opened = world.ok("sys/host.session.open@1", {"target": target, "labels": {}})
        assert opened["status"] == "ready"
    sandbox = {"sandbox": {"image": "debian"}}
    refuses(world, "error", "target_unsupported", "session.open", target=sandbox)
    return str(opened["session_id"])


def programs(world: AskingWorld, session: str) -> None:
    argv = ["/bin/sh", "-c", "echo $WHO; cat; printf '\\377' >&2; exit 3"]
    given = put(world, b"input")
    params = {"session_id": session, "argv": argv, "stdin_ref": given}
    ran = world.ok("sys/host.exec@1", params)
    assert (ran["status"], ran["exit_code"]) == ("ok", 3)
    assert ran["stdout"] == {"$tag": "inline_text", "$value": {"text": "you\ninput"}}
    assert ran["stderr"]["$value"] == {"bytes": b"\xff"}
    ran = world.ok("sys/host.exec@1", {**params, "output_mode": "blob"})
    assert world.blob(ran["stdout"]["$value"]["blob_ref"]) == b"you\ninput"
    slow = {"session_id": session, "argv": ["sleep", "60"], "timeout_ns": 1_500_000_000}
    ran = refuses(world, "timeout", "timeout", "exec", **slow)
    assert ran["exit_code"] < 0
    refuses(world, "not_found", "program_not_found", "exec", session_id=session, argv=["no-such"])
    refuses(world, "error", "session_unknown", "exec", session_id="s-0", argv=["true"])
    key = world.send("sys/host.exec@1", {"session_id": session, "argv": ["sleep", "60"]})
    cancel(world, "sys/host.exec@1", key)


def files(world: AskingWorld, session: str) -> None:
    def ok(effect: str, **params: Any) -> Any:
        receipt = world.ok(f"sys/host.fs.{effect}@1", {"session_id": session, **params})
        assert receipt["status"] == "ok", receipt
        return receipt

    def not_found(effect: str, **params: Any) -> None:
        params = {"session_id": session, "path": "none", **params}
        refuses(world, "not_found", "not_found", f"fs.{effect}", **params)

    def outside(effect: str, **params: Any) -> None:
        params = {"session_id": session, "path": "../x", **params}
        refuses(world, "forbidden", "path_outside", f"fs.{effect}", **params)

    text = {"inline_text": {"text": "one\ntwo\n"}}
    for content in (text, {"$tag": "inline_bytes", "$value": {"bytes": [49]}}):
        ok("write_file", path="a/b.txt", content=content, create_parents="true")
    ok("write_file", path="a/b.txt", content=text)
    read = ok("read_file", path="a/b.txt", output_mode="blob")["content"]
    assert world.blob(read["$value"]["blob_ref"]) == b"one\ntwo\n"
    ref = {"blob_ref": {"blob_ref": read["$value"]["blob_ref"]}}
    ok("write_file", path="c", content=ref)
    edit = {"path": "c", "new_string": "2"}
    assert ok("edit_file", **edit, old_string="two")["replacements"] == 1
    refuses(world, "error", "old_string_not_found", "fs.edit_file", session_id=session, **edit,
            old_string="two")  # fmt: skip
    patch = "*** Begin Patch\n*** Update File: c\n@@\n-one\n+1\n*** End Patch\n"
    applied = ok("apply_patch", patch={"inline_text": {"text": patch}})
    assert (applied["changed_paths"], applied["ops"]["update"]) == (["c"], 1)
    refuses(world, "error", "patch_does_not_apply", "fs.apply_patch", session_id=session,
            patch={"inline_text": {"text": patch}})  # fmt: skip
    assert ok("grep", pattern="^two", path=None)["match_count"] == 1
    refuses(world, "error", "invalid_pattern", "fs.grep", session_id=session, pattern="(")
    assert ok("glob", pattern="**/*.txt")["count"] == 1
    assert ok("list_dir")["entries"]["$value"] == {"text": "a/\nc"}
    assert ok("stat", path="a")["is_dir"] is True
    assert ok("exists", path="none")["exists"] is False
    not_found("read_file")
    not_found("stat")
    not_found("list_dir")
    not_found("glob", pattern="*")
    outside("exists")
    outside("write_file", content=text)


def signals(world: AskingWorld, session: str) -> None:
    closed = world.ok("sys/host.session.signal@1", {"session_id": session, "signal": "term"})
    assert closed["status"] == "signaled"
    known = {"session_id": session}
    refuses(world, "error", "session_closed", "exec", **known, argv=["true"])
    refuses(world, "not_found", "session_unknown", "session.signal", session_id="s-0",
            signal="term")  # fmt: skip


def test_the_effects_of_models_the_vault_and_the_portal(tmp_path: Path) -> None:
    """AG-16, AG-71 to AG-79a, AG-80 to AG-83, AG-85 to AG-89."""
    air = nodes(WORKSPACES)
    air[-1]["secrets"] = [{"name": "llm/key@1"}]
    secret = {"$kind": "defsecret", "name": "llm/key@1", "binding_id": "file:model-key"}
    folder = {**published(), "air/all.air.json": json.dumps([secret, *air]).encode()}
    values = tmp_path / "secrets"
    values.write_text(f"model-key={KEY}\n")
    values.chmod(0o600)
    receiver = tmp_path / "receiver"
    new_world(receiver, tmp_path / "receiver-air", published())
    with stub_model(streamed("forty-", "two")) as model:
        env = {
            "AOS_LLM_ENDPOINTS": f"local={model.url}",
            "AOS_VAULT_FILE": str(values),
            "AOS_PORTAL_WORLDS": f"{OTHER_WORLD}={receiver}",
        }
        options: list[str | Path] = ["--secrets", values]
        for name in ("llm", "vault", "portal"):
            options += ["--executors", f"aos.effects.{name}:{name}"]
        with asking_world(tmp_path, *options, env=env, files=folder) as world:
            messages(world, model)
            stored(world)
            portal(world, receiver)
            world.check_hashes(*NO_BLOBS)

    assert world.answered == world.failed == of(*ENDPOINT)


def put(world: AskingWorld, data: bytes) -> str:
    name: str = world.receipt("sys/blob.put@1", {"bytes": data})["blob_ref"]
    return name


def messages(world: AskingWorld, model: StubModel) -> None:
    message = put(world, b'{"role":"user","content":"what is 6 times 7?"}')
    common = {"provider": "local", "model": "m"}

    def window(kind: Any, ref: str = message) -> list[Any]:
        return [{"item_id": "i", "kind": kind, "ref_": ref, "source_refs": [], "metadata": {}}]

    runtime = {"temperature": "0.5", "max_tokens": 9, "tool_choice": {"$tag": "Auto"}}
    key = {"api_key": {"secret": {"alias": "llm/key", "version": 1}}}
    for kind in ("MessageRef", {"$tag": "MessageRef"}, {"MessageRef": None}):
        params = {**common, **key, "window_items": window(kind), "runtime": runtime}
        answer = world.ok("sys/llm.generate@1", params)
        output = world.blob(answer["output_ref"])
        assert output is not None
        assert json.loads(output)["assistant_text"] == "forty-two"
        assert answer["finish_reason"]["reason"] == "stop"
    assert model.sent[-1].headers["authorization"] == f"Bearer {KEY}"
    assert {each.body["temperature"] for each in model.sent} == {0.5}
    custom = window({"Custom": {"kind": "text"}})
    counted = world.ok("sys/llm.count_tokens@1", {**common, "window_items": custom, "metadata": {}})
    assert counted["input_tokens"] > 0
    assert counted["quality"]["$tag"] == "LocalEstimate"
    sources = {
        "operation_id": "op", "source_window_items": window("MessageRef"),
        "preserve_window_items": [], "recent_tail_items": window("MessageRef"),
    }  # fmt: skip
    compacted = world.ok("sys/llm.compact@1", {**common, **sources, "strategy": "Auto"})
    assert compacted["artifact_kind"]["$tag"] == "AosSummary"
    assert len(compacted["active_window_items"]) == 2

    native = window("ProviderNativeArtifactRef")
    world.rejects("llm_unsupported", "sys/llm.generate@1",
                  {**common, "window_items": native, "runtime": {}})  # fmt: skip
    world.rejects("blob_missing", "sys/llm.count_tokens@1",
                  {**common, "window_items": window("MessageRef", NO_BLOB), "metadata": {}}
                  )  # fmt: skip
    world.rejects("llm_unsupported", "sys/llm.compact@1",
                  {**common, **sources, "strategy": {"ProviderNative": None}})  # fmt: skip


def stored(world: AskingWorld) -> None:
    value = put(world, b"a-rotating-token")
    entry = {"alias": "shop/bank", "binding_id": "file:bank", "expected_digest": value}
    assert world.ok("sys/vault.put@1", {**entry, "value_ref": value})["version"] == 1
    assert world.ok("sys/vault.rotate@1", {**entry, "version": 2})["version"] == 2
    elsewhere = {**entry, "binding_id": "env:BANK"}
    world.rejects("vault_binding_unsupported", "sys/vault.put@1",
                  {**elsewhere, "value_ref": value})  # fmt: skip
    world.rejects("vault_version_conflict", "sys/vault.rotate@1", {**entry, "version": 0})


def portal(world: AskingWorld, receiver: Path) -> None:
    event = {"id": "from afar", "effect": "sys/timer.set@1", "params": cbor2.dumps(
        {"deliver_at_ns": 1})}  # fmt: skip
    params = {"dest_world": OTHER_WORLD, "mode": "typed", "schema": "agentos/Ask@1"}
    process = start("run", "--world", receiver, stderr=subprocess.DEVNULL)
    try:
        receipt = world.ok("sys/portal.send@1", {**params, "value_cbor": cbor2.dumps(event)})
        world.rejects("portal_rejected", "sys/portal.send@1", {**params, "value_cbor": b"\xa0"})
    finally:
        process.terminate()
        assert process.wait(60) == 0
    assert receipt["dest_world"] == OTHER_WORLD
    shown = here("inspect", "cell", ASK, "from afar", "--json", "--world", receiver)
    assert [each["effect"] for each in shown.json["state"]["answers"]] == ["sys/timer.set@1"]

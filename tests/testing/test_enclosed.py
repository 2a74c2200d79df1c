"""Secrets and blobs of the author's own functions in a test (spec/testing.md, T-25b)."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from aos.core.journal.record_codec import to_bytes
from aos.errors import BadUsage
from aos.manifest.load import load
from aos.testing import World
from aos.values.cbor import decode_record
from aos.values.digests import content_hash, hash_text
from aos.worker import EffectContext, EffectFailed, effect
from tests.host.puppet import DO, asks_for
from tests.worker.keyed import FLOW, KEYED, KEYS, SECRET, files, params

Plain = dict[str, Any]


@effect(KEYED, attempts=1, blobs=("data",))
async def keyed(given: Plain, ctx: EffectContext) -> Plain:
    value = ctx.secret(given["keys"][0])
    match given["what"]:
        case "blob":
            return {"said": ctx.blob(given["data"]).decode()}
        case "fail":
            raise EffectFailed("refused", f"{value} is unknown")
        case "return":
            return {"said": base64.b64encode(value.encode()).decode()}
        case "progress":
            ctx.progress("step", value)
    return {"said": hash_text(content_hash(value.encode()))}


def keyed_world(**given: Any) -> World:
    return World(load(files()), executors=keyed, **given)


def ask(world: World, name: str = KEYED, /, *, key: str = "a", **given: Any) -> None:
    asked = params(**given) if name == KEYED else given
    world.send(DO, {"key": key, "out": asks_for((name, asked))})
    world.run()


def status(world: World) -> str:
    return world.asked(KEYED)[-1].status


def receipts(world: World) -> list[Any]:
    """The payloads of all receipts."""
    return [decode_record(each.payload) for each in world._desk.receipts.values()]


def test_a_function_gets_the_secret_that_the_test_gives() -> None:
    with keyed_world(secrets={KEYS: SECRET}) as world:
        ask(world)
        assert status(world) == "ok"
        assert receipts(world) == [{"said": hash_text(content_hash(SECRET.encode())), "raw": None}]


def test_without_a_value_the_effect_is_held_and_runs_again_with_one() -> None:
    """X-76; a change counts for the next attempt."""
    with keyed_world() as world:
        ask(world)
        assert world.effect(KEYED).is_open
        assert "held" in world.trace()
        assert "the test gives no value" in world.trace()

        world.secrets[KEYS] = SECRET
        world.restart()
        world.run()
        assert status(world) == "ok"


@pytest.mark.parametrize(
    ("alias", "code"),
    [("test/hosted", "secret_host_denied"), ("test/others", "secret_workflow_denied")],
)
def test_a_use_that_the_manifest_forbids_is_an_error(alias: str, code: str) -> None:
    with keyed_world(secrets={KEYS: SECRET}) as world:
        world.send(
            DO,
            {"key": "a", "out": asks_for((KEYED, params(keys=[{"alias": alias, "version": 1}])))},
        )
        world.run(may_fail=True)
        if code == "secret_workflow_denied":
            assert "may not be used by" in world.faults(FLOW)[0].message  # by the kernel already
        else:
            assert [each["code"] for each in receipts(world)] == [code]


def test_a_result_a_failure_and_progress_with_a_secret_in_them_do_not_reach_the_journal() -> None:
    """X-77, X-78."""
    with keyed_world(secrets={KEYS: SECRET}) as world:
        for what in ("return", "fail", "progress"):
            ask(world, key=what, what=what)
        assert [each.status for each in world.asked(KEYED)] == ["open", "error", "ok"]
        assert "secret_in_result" in world.trace()
        assert receipts(world)[0]["message"] == f"[secret {KEYS}] is unknown"
        journal = b"".join(map(to_bytes, world._desk.records))
        for spelt in (SECRET[2:].encode(), base64.b64encode(SECRET.encode())):
            assert spelt not in journal


def test_a_function_gets_the_blobs_of_the_test_world() -> None:
    """X-79."""
    with keyed_world(secrets={KEYS: SECRET}) as world:
        named = hash_text(content_hash(b"the evidence"))
        ask(world, what="blob", data=named)
        assert [each["code"] for each in receipts(world)] == ["blob_missing"]

        ask(world, "sys/blob.put@1", key="b", bytes=b"the evidence", blob_ref=None, refs=None)
        ask(world, key="c", what="blob", data=named)
        assert status(world) == "ok"
        assert receipts(world)[-1] == {"said": "the evidence", "raw": None}


def test_a_secret_that_the_manifest_does_not_have_is_a_mistake_of_the_test() -> None:
    with pytest.raises(BadUsage, match="no such secret") as caught:
        keyed_world(secrets={"test/kees@1": SECRET})
    assert KEYS in str(caught.value)
    assert SECRET not in str(caught.value)


def test_a_script_gets_no_secrets() -> None:
    def script(given: Plain, ctx: EffectContext) -> Plain:
        return {"said": ctx.secret(given["keys"][0])}

    with World(load(files())) as world:
        world.on(KEYED, script)
        with pytest.raises(BadUsage, match="expected a sys/SecretRef@1"):
            ask(world)

"""Scripts, the author's own functions, blobs and HTTP (spec/testing.md, T-24 to T-26)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from aos.errors import BadUsage
from aos.testing import NEVER, After, Fail, Timeout, World, WorldProblem, in_turn, response
from aos.worker import EffectContext, EffectFailed, Executors, effect
from tests.testing.stage import (
    CELL,
    CHARGE,
    DO,
    ONCE,
    SECOND,
    TIMER,
    charge,
    out,
    stage,
    then,
    timer,
)

START = 1_704_067_200 * SECOND


def ask(world: World, key: str = "a", name: str = CHARGE, ref: str | None = "count") -> None:
    world.send(DO, {"key": key, "out": out(effects=((name, charge(key), ref),))})


def ended(world: World, name: str = CHARGE) -> list[str]:
    return [each.status for each in world.asked(name)]


def test_a_value_a_failure_a_timeout_and_nothing_at_all_are_scripts() -> None:
    for script, status in (
        ({"ref": "r"}, "ok"),
        (Fail("declined"), "error"),
        (Timeout(), "timeout"),
        (NEVER, "open"),
        (lambda params: {"ref": params["id"]}, "ok"),
        (lambda params, ctx: Fail(f"{params['id']} {ctx.key}"), "error"),
    ):
        with stage() as world:
            world.on(CHARGE, script)
            ask(world)
            world.run()
            assert ended(world) == [status], script


def test_a_function_may_be_async_and_may_fail_as_an_effect_does() -> None:
    seen: list[EffectContext] = []

    async def script(params: Any, ctx: EffectContext) -> object:
        seen.append(ctx)
        if params["id"] == "a":
            raise EffectFailed("declined", "no", retryable=True)
        ctx.cost_cents = 7
        ctx.progress("half", 50)
        return {"ref": "r"}

    with stage() as world:
        world.on(CHARGE, script)
        ask(world, "a")
        ask(world, "b")
        world.run()

        assert ended(world) == ["error", "ok"]
        assert [(each.attempt, each.workflow, each.key) for each in seen] == [
            (1, CELL, "a"),
            (1, CELL, "b"),
        ]
        assert seen[0].idempotency_key == world.asked()[0].idempotency_key
        assert world.state(CELL, "b") == 3, "the frame and the receipt"


def test_another_exception_of_a_function_is_the_tests_own() -> None:
    world = stage()
    world.on(CHARGE, lambda params: params["no such key"])
    ask(world)
    with pytest.raises(KeyError, match="no such key"):
        world.run()


def test_answers_come_in_turn_and_later() -> None:
    with stage() as world:
        world.on(CHARGE, in_turn(Fail("one"), After("3s", {"ref": "two"}), then=Timeout()))
        for key in "abcd":
            ask(world, key)
        world.run()
        assert ended(world) == ["error", "open", "timeout", "timeout"]
        world.advance("3s")
        assert ended(world) == ["error", "ok", "timeout", "timeout"]


def test_more_than_the_script_answers_is_told() -> None:
    world = stage()
    world.on(CHARGE, in_turn({"ref": "r"}))
    ask(world, "a")
    ask(world, "b")
    with pytest.raises(
        WorldProblem, match=r"t/charge@1: requested 2 times, but in_turn\(…\) has 1"
    ):
        world.run()


def test_an_effect_that_is_already_open_is_answered_too() -> None:
    with stage() as world:
        ask(world)
        world.run()
        world.on("charge", {"ref": "r"})
        world.run()
        assert ended(world) == ["ok"]
        with pytest.raises(BadUsage, match="no effect is called 'chrge'"):
            world.on("chrge", {})


def test_a_script_answers_again_after_a_crash_and_a_delayed_answer_is_lost() -> None:
    keys: list[str] = []

    def script(_: Any, ctx: EffectContext) -> object:
        keys.append(ctx.idempotency_key)
        return After("1s", {"ref": "r"})

    with stage() as world:
        world.on(CHARGE, script)
        ask(world)
        world.run()
        world.restart()
        world.run()
        assert keys == [keys[0]] * 2
        world.advance("1s")
        assert world.state(CELL, "a") == 2


def test_an_at_most_once_effect_is_begun_by_its_script() -> None:
    with stage() as world:
        world.on(ONCE, After("1s", {"ref": "r"}))
        ask(world, name=ONCE)
        world.run()
        world.restart()
        world.advance("1m")
        assert ended(world, ONCE) == ["error"], "the outcome is unknown"


# T-25


@effect(CHARGE, attempts=3, backoff_ms=100)
def plain_charge(params: Any, ctx: EffectContext) -> Any:
    if params["id"] == "bad":
        return {"ref": 1}
    if params["id"] == "bug":
        raise ZeroDivisionError
    if ctx.attempt < 3:
        raise EffectFailed("busy", retryable=True)
    return {"ref": f"{params['id']} at attempt {ctx.attempt}", "data": ctx.resource}


@asynccontextmanager
async def connected() -> AsyncIterator[bytes]:
    ENTERED.append("in")
    yield b"db"
    ENTERED.append("out")


ENTERED: list[str] = []


@effect(ONCE)
async def async_once(params: Any, ctx: EffectContext) -> Any:
    return {"ref": params["id"], "data": ctx.resource}


def test_the_authors_own_functions_run_with_attempts_on_the_tests_clock() -> None:
    with stage(executors=[plain_charge]) as world:
        ask(world)
        world.run()
        assert ended(world) == ["open"]
        world.advance("100ms")
        assert ended(world) == ["open"]
        world.advance("200ms")
        assert ended(world) == ["ok"]
        assert [each for each in world.trace().splitlines() if "attempt" in each] != []


def test_attempts_survive_a_crash() -> None:
    with stage(executors=[plain_charge]) as world:
        ask(world)
        world.run()
        world.restart()
        world.run()
        assert ended(world) == ["open"], "it continued with the second attempt, which failed"
        world.finish()
        assert ended(world) == ["ok"]
        assert world.trace().count(" begun for ") == 2


def test_any_fault_of_a_function_parks_its_effect(capsys: pytest.CaptureFixture[str]) -> None:
    """X-17: nothing settles, and the test's clock has seen the pauses."""
    with stage(executors=plain_charge) as world:
        ask(world, "bad")
        ask(world, "bug")
        world.advance("1m")
        assert ended(world) == ["open", "open"]
        lines = world.trace().splitlines()
    assert sum("attempt 3 parked" in line for line in lines) == 2
    assert not any("receipt" in line for line in lines)
    assert "ZeroDivisionError" in capsys.readouterr().err


def test_setup_is_entered_once_and_left_at_the_end() -> None:
    ENTERED.clear()
    with stage(executors=Executors("shop", [async_once], setup=connected)) as world:
        assert ENTERED == []
        ask(world, "a", ONCE)
        ask(world, "b", ONCE)
        world.run()
        assert ended(world, ONCE) == ["ok", "ok"]
        assert ENTERED == ["in"]
    assert ENTERED == ["in", "out"]


def test_a_setup_that_fails_is_the_tests_own() -> None:
    ENTERED.clear()

    @asynccontextmanager
    async def broken() -> AsyncIterator[None]:
        if not ENTERED:
            raise BadUsage("SHOP_URL is not set")
        yield

    world = stage(executors=Executors("shop", [async_once], setup=broken))
    ask(world, "a", ONCE)
    with pytest.raises(BadUsage, match="SHOP_URL"):
        world.run()
    world.close()


def test_functions_are_found_by_file_and_name(tmp_path: Path) -> None:
    file = tmp_path / "found_effects.py"
    file.write_text(
        "from aos.worker import effect\n"
        f"@effect({CHARGE!r})\n"
        "def run(params, ctx):\n    return {'ref': 'from the file'}\n"
    )
    with stage(executors=f"{file}:run") as world:
        ask(world)
        world.run()
        assert ended(world) == ["ok"]
    with pytest.raises(BadUsage, match="executors: expected an Executors"):
        stage(executors=7)


# T-26


def test_blobs_work_by_themselves() -> None:
    put = (("sys/blob.put@1", {"bytes": b"picture", "blob_ref": None, "refs": None}, "count"),)
    with stage() as world:
        world.send(DO, {"key": "a", "out": out(effects=put)})
        world.run()
        assert ended(world, "sys/blob.put@1") == ["ok"]
        ref = "blake3:" + world._desk.store.blob_hashes().__next__().hex()
        for key, wanted in (("b", ref), ("c", "blake3:" + "00" * 32)):
            get = (("sys/blob.get@1", {"blob_ref": wanted}, "count"),)
            world.send(DO, {"key": key, "out": out(effects=get)})
        world.run()
        assert ended(world, "sys/blob.get@1") == ["ok", "error"]


def test_times_of_a_calendar_come_by_themselves() -> None:
    asked = {"cron": "0 0 1 1 *", "tz": "UTC", "after_ns": 0, "count": 1}
    with stage() as world:
        for key, tz in (("a", "UTC"), ("b", "Nowhere")):
            ask = (("sys/cron.next@1", {**asked, "tz": tz}, "count"),)
            world.send(DO, {"key": key, "out": out(effects=ask)})
        world.run()
        assert ended(world, "sys/cron.next@1") == ["ok", "error"]


def test_an_event_for_another_world_is_scripted_or_stays_open() -> None:
    event = {"to": "bank", "schema": "bank/Paid@1", "value": b"\xa0"}
    sent = {"world": "blake3:" + "00" * 32, "seq": 7, "duplicate": False}
    with stage() as world:
        world.send(DO, {"key": "a", "out": out(effects=(("sys/world.send@1", event, "count"),))})
        world.run()
        assert world.effect("world.send").params["to"] == "bank"
        world.on("world.send", sent)
        world.run()
        assert ended(world, "sys/world.send@1") == ["ok"]


def test_http_is_scripted_or_stays_open() -> None:
    params: dict[str, object] = {
        "method": "GET",
        "url": "http://a.test/",
        "headers": {},
        "body_ref": None,
        "body": None,
    }
    asked = (("sys/http.request@1", params, "count"),)
    with stage() as world:
        world.send(DO, {"key": "a", "out": out(effects=asked)})
        world.run()
        assert world.effect("http.request").params["url"] == "http://a.test/"
        world.on("http.request", lambda _: response(503, json={"a": [1]}))
        world.run()
        assert ended(world, "sys/http.request@1") == ["ok"]
    assert response(200, body=b"x", headers={"a": "b"}) == {
        "status": 200,
        "headers": {"a": "b"},
        "body_ref": None,
        "body": b"x",
        "timings": {"start_ns": 0, "end_ns": 0},
    }
    assert response(json={"a": 1})["body"] == b'{"a":1}'


def test_a_script_takes_the_place_of_the_clock() -> None:
    with stage() as world:
        world.on(TIMER, NEVER)
        asked = ((TIMER, timer(START + SECOND), then(out(5))),)
        world.send(DO, {"key": "a", "out": out(effects=asked)})
        world.advance("1h")
        assert world.state(CELL, "a") == 1
        world.timers()[0].answer({"delivered_at_ns": world.now_ns, "key": None})
        world.run()
        assert world.state(CELL, "a") == 5

"""``@effect`` and ``Executors`` refuse an invalid definition immediately (X-40)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from typing import Any, cast

import pytest

from aos.errors import BadUsage
from aos.worker import EffectContext, EffectFunction, Executors, effect

Plain = dict[str, Any]


@effect("acme/charge@1", concurrency=3, attempts=2, timeout_s=1.5, backoff_ms=7)
async def charge(params: Plain, ctx: EffectContext) -> Plain:
    return {**params, "attempt": ctx.attempt}


@effect("acme/ship@1")
def ship(params: Plain, ctx: EffectContext) -> Plain:
    return params


def context(**changes: Any) -> EffectContext:
    given: dict[str, Any] = {
        "intent": "blake3:00",
        "effect": "acme/charge@1",
        "idempotency_key": "key",
        "attempt": 1,
        "workflow": "acme/order@1",
        "key": None,
        "issuer_ref": None,
        "world": "blake3:11",
        "deadline_ns": 0,
    }
    return EffectContext(**{**given, **changes})


def test_a_decorated_function_is_called_as_the_function_that_it_was() -> None:
    assert asyncio.run(charge({"n": 1}, context(attempt=2))) == {"n": 1, "attempt": 2}
    assert ship({"n": 1}, context()) == {"n": 1}


def test_the_decorator_keeps_what_it_was_given() -> None:
    assert (charge.name, charge.is_async, charge.concurrency) == ("acme/charge@1", True, 3)
    assert (charge.attempts, charge.timeout_s, charge.backoff_ms) == (2, 1.5, 7)
    assert (ship.is_async, ship.concurrency, ship.timeout_s) == (False, 16, None)
    assert ship.attempts is None


class Callables:
    """Anything that can be called with (params, ctx) will do."""

    def __call__(self, params: Plain, _ctx: EffectContext) -> Plain:
        return params

    async def method(self, params: Plain, _ctx: EffectContext, _more: int = 1) -> Plain:
        return params


def test_objects_methods_and_lambdas_are_functions() -> None:
    assert not effect("acme/a@1")(Callables()).is_async
    assert effect("acme/a@1")(Callables().method).is_async
    assert not effect("acme/a@1")(lambda params, _: params).is_async


def generator(params: Plain, ctx: EffectContext) -> Iterator[Plain]:
    yield params


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda: None, "cannot be called with (params, ctx): too many positional arguments"),
        (lambda _: None, "cannot be called with (params, ctx): too many positional arguments"),
        (
            lambda _, _2, _3: None,
            "cannot be called with (params, ctx): missing a required argument: '_3'",
        ),
        (lambda _, _2, *, _3: None, "argument: '_3'"),
        (generator, "generator yields: expected a function that returns its result"),
        (charge, "acme/charge@1 is on this function already: expected one @effect"),
        ("charge", "expected a function, found 'charge'"),
    ],
)
def test_a_callable_that_does_not_take_params_and_ctx_is_refused(
    function: Any, message: str
) -> None:
    with pytest.raises(BadUsage) as caught:
        effect("acme/x@1")(function)

    assert str(caught.value).startswith("effect 'acme/x@1': ")
    assert message in str(caught.value)


@pytest.mark.parametrize("name", ["", "charge", "acme/charge", "acme/charge@0", "A/b@1", 7])
def test_a_bad_name_is_refused(name: Any) -> None:
    with pytest.raises(BadUsage, match="expected a name such as com"):
        effect(name)


def test_progress_goes_nowhere_in_a_context_of_a_test_unless_it_looks() -> None:
    """X-70."""
    heard: list[tuple[Any, Any, Any]] = []

    def look(kind: Any, payload: Any, blob: Any) -> None:
        heard.append((kind, payload, blob))

    async def tell(ctx: EffectContext) -> None:
        ctx.progress("begun")
        await ctx.progress("half", {"n": 1}, blob=b"x")

    asyncio.run(tell(context()))
    asyncio.run(tell(context(on_progress=look)))

    assert heard == [("begun", None, None), ("half", {"n": 1}, b"x")]


def test_the_effects_of_the_node_are_refused() -> None:
    with pytest.raises(BadUsage, match="sys/… effects are run by the node itself"):
        effect("sys/http.request@1")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"concurrency": 0}, "concurrency: expected a whole number from 1 to 1024, found 0"),
        ({"concurrency": 2.0}, "concurrency: expected a whole number from 1 to 1024, found 2.0"),
        ({"attempts": 101}, "attempts: expected a whole number from 1 to 100, found 101"),
        ({"attempts": True}, "attempts: expected a whole number from 1 to 100, found True"),
        ({"backoff_ms": -1}, "backoff_ms: expected a whole number from 0 to 3600000, found -1"),
        ({"backoff_cap_ms": "1"}, "backoff_cap_ms: expected a whole number from 0 to 3600000"),
        ({"timeout_s": 0}, "timeout_s: expected more than 0 and at most 86400 seconds, found 0"),
        ({"timeout_s": float("nan")}, "timeout_s: expected more than 0 and at most 86400 seconds"),
        (
            {"timeout_s": "5"},
            "timeout_s: expected more than 0 and at most 86400 seconds, found '5'",
        ),
    ],
)
def test_a_bad_number_is_refused(given: dict[str, Any], message: str) -> None:
    with pytest.raises(BadUsage) as caught:
        effect("acme/x@1", **given)

    assert message in str(caught.value)


@pytest.mark.parametrize("given", ["data", ("data", ""), ("a..b",), (b"data",), True, (7,)])
def test_bad_fields_of_blobs_are_refused(given: Any) -> None:
    """X-79."""
    with pytest.raises(BadUsage, match="blobs: expected names of fields of the params"):
        effect("acme/x@1", blobs=given)


def test_a_secret_or_blob_that_did_not_come_is_named_and_no_value_is_shown() -> None:
    ctx = context(secrets={("acme/key", 1): "the-value"}, blobs={"blake3:00": b"x"})
    assert ctx.secret({"alias": "acme/key", "version": 1}) == "the-value"
    wrong: list[Any] = [
        {"alias": "acme/key", "version": 2},
        "the-value",
        {"alias": []},
        None,
        ["the-value"],
    ]
    for ref in wrong:
        with pytest.raises(BadUsage, match="expected a sys/SecretRef@1 of the params") as caught:
            ctx.secret(ref)
        assert "the-value" not in str(caught.value)
    with pytest.raises(BadUsage, match="'blake3:11' did not come with this task"):
        ctx.blob("blake3:11")


def test_an_effect_that_is_there_twice_is_refused_with_both_functions() -> None:
    @effect("acme/charge@1")
    def again(params: Plain, ctx: EffectContext) -> Plain:
        return params

    with pytest.raises(BadUsage, match=r"acme/charge@1 is there twice: charge and .*again"):
        Executors("shop", [charge, again])


def test_a_plain_function_among_the_effects_is_refused() -> None:
    plain = cast("list[EffectFunction[Any]]", [charge, generator])

    with pytest.raises(BadUsage, match=r'put @effect\("namespace/name@1"\) above it'):
        Executors("shop", plain)


def test_no_effects_are_refused() -> None:
    with pytest.raises(BadUsage, match="expected at least one effect or step, found none"):
        Executors("shop", [])


@pytest.mark.parametrize("name", ["", "1shop", "shop shop", "node", "kernel", "x" * 129, None])
def test_a_bad_name_of_executors_is_refused(name: Any) -> None:
    with pytest.raises(BadUsage, match="expected a name of letters, digits"):
        Executors(name, [charge])


def test_a_setup_that_is_not_a_function_is_refused() -> None:
    setup = cast("Callable[[], AbstractAsyncContextManager[Any]]", "setup")

    with pytest.raises(BadUsage, match="setup: expected a function that makes an async context"):
        Executors("shop", [charge], setup=setup)

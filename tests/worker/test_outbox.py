"""The worker's output: the results of one turn under one signature, preceded by stream frames
(X-48, X-70 to X-74)."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from aos.core.journal.inputs import StreamInput
from aos.core.journal.signing import is_signed
from aos.values.cbor import encode
from aos.values.digests import content_hash, hash_text
from aos.worker import EffectContext, effect
from aos.worker.executor_key import Signer, read_key
from tests.worker.stage import WORLD, intent_of
from tests.worker.test_runner import Node, Plain, counting, rehearse


def test_results_of_one_turn_have_one_signature(tmp_path: Path) -> None:
    """J-40, X-48."""
    signer = signer_in(tmp_path)

    async def scene(node: Node) -> None:
        for number in range(5):
            node.cancel(number)
        await node.results(5)
        node.cancel(9)
        await node.results(6)

    node = rehearse([counting("test/echo@1", lambda _: None)], scene, signer=signer)
    together, alone = node.done[:5], node.done[5]
    assert len({each["signature"] for each in together}) == 1
    assert [each["batch"][:2] for each in together] == [[n, 5] for n in range(5)]
    assert alone["batch"] is None
    assert alone["signature"] != together[0]["signature"]


def test_a_result_that_is_asked_for_before_it_is_signed_comes_once(tmp_path: Path) -> None:
    """X-55."""

    async def scene(node: Node) -> None:
        node.cancel(1)
        node.run(1)
        await node.results(1)
        await asyncio.sleep(0.01)
        node.run(1)
        await node.results(2)

    node = rehearse([counting("test/echo@1", lambda _: None)], scene, signer=signer_in(tmp_path))
    assert len(node.done) == 2
    assert node.done[0] == node.done[1]
    assert node.done[0]["signature"] is not None


def test_a_task_runs_again_whose_result_was_given_up_before_it_was_signed(tmp_path: Path) -> None:
    """W-3: its lease was lost, and this process has the next attempt."""

    async def scene(node: Node) -> None:
        node.cancel(1)
        node.ack(1)
        node.run(1, attempt=2)
        await node.results(1)
        await asyncio.sleep(0.01)

    node = rehearse([counting("test/echo@1", lambda _: None)], scene, signer=signer_in(tmp_path))
    assert [(each["attempt"], each["status"]) for each in node.done] == [(2, "ok")]


def test_a_result_leaves_before_the_node_is_asked_to_end_the_process(tmp_path: Path) -> None:
    release = threading.Event()

    @effect("test/quick@1", concurrency=1)
    def hangs(params: Plain, ctx: EffectContext) -> Plain:
        release.wait(60)
        return params

    async def scene(node: Node) -> None:
        node.run(1, "test/quick@1")
        await node.until(lambda: len(node.heard) == 2)
        release.set()

    node = rehearse([hangs], scene, signer=signer_in(tmp_path))
    assert [each["op"] for each in node.heard] == ["done", "stuck"]
    assert node.done[0]["signature"] is not None


def signer_in(folder: Path) -> Signer:
    (folder / "key").write_text("ab" * 32)
    (folder / "key").chmod(0o600)
    return read_key("troupe", folder / "key")


@pytest.mark.parametrize("is_async", [True, False])
def test_a_function_tells_how_far_it_is(is_async: bool, tmp_path: Path) -> None:
    """X-70: signed, numbered, ahead of the result."""
    signer = signer_in(tmp_path)

    def tell(ctx: EffectContext) -> None:
        ctx.progress("begun")
        ctx.progress("part", {"done": 1, "of": [2, "x"]})
        ctx.progress("raw", b"\x00\xff", blob=b"a picture")

    @effect("test/echo@1")
    async def asynchronous(params: Plain, ctx: EffectContext) -> Plain:
        tell(ctx)
        await ctx.progress("awaited")
        return params

    @effect("test/echo@1")
    def plain(params: Plain, ctx: EffectContext) -> Plain:
        tell(ctx)
        ctx.progress("awaited")
        return params

    async def scene(node: Node) -> None:
        node.run(1, attempt=3)
        await node.results()

    function: Any = asynchronous if is_async else plain
    node = rehearse([function], scene, signer=signer)
    assert [each["op"] for each in node.heard] == ["progress"] * 4 + ["done"]
    frames = node.frames
    assert [(each["attempt"], each["frame_seq"] - (3 << 32)) for each in frames] == [
        (3, number) for number in range(4)
    ]
    assert [(each["frame_kind"], each["payload"], each["blob"]) for each in frames] == [
        ("begun", encode(None), None),
        ("part", encode({"done": 1, "of": [2, "x"]}), None),
        ("raw", b"\x00\xff", b"a picture"),
        ("awaited", encode(None), None),
    ]
    assert node.done[0]["dropped"] == 0
    for each in frames:
        given = StreamInput(
            intent=each["intent"],
            effect="test/echo@1",
            attempt=each["attempt"],
            frame_seq=each["frame_seq"],
            frame_kind=each["frame_kind"],
            payload=each["payload"],
            payload_ref=None if each["blob"] is None else content_hash(each["blob"]),
            executor="troupe",
            key_id=signer.public_key,
            signature=each["signature"],
        )
        assert is_signed(given.signed_message(WORLD), given.signature, given.key_id)


def test_a_later_attempt_numbers_its_frames_above() -> None:
    """X-71."""

    @effect("test/retried@1")
    async def function(params: Plain, ctx: EffectContext) -> Plain:
        ctx.progress("at", ctx.attempt)
        if ctx.attempt == 1:
            raise ConnectionError
        return params

    async def scene(node: Node) -> None:
        node.run(1, "test/retried@1", next_frame=(1 << 32) + 7)
        await node.results()

    frames = rehearse([function], scene).frames
    assert [(each["frame_seq"], each["payload"]) for each in frames] == [
        ((1 << 32) + 7, encode(1)),
        (2 << 32, encode(2)),
    ]


def test_without_a_taker_nothing_is_sent_and_all_is_counted() -> None:
    """X-74."""

    @effect("test/echo@1")
    async def echo(params: Plain, ctx: EffectContext) -> Plain:
        for _ in range(30):
            ctx.progress("at")
        return params

    async def scene(node: Node) -> None:
        node.run(1, has_taker=False)
        await node.results()

    (done,) = rehearse([echo], scene).done
    assert (done["op"], done["status"], done["dropped"]) == ("done", "ok", 30)


def test_a_report_that_cannot_be_sent_costs_one_line_of_output(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """X-73."""

    class Hostile(dict[str, int]):
        def items(self) -> Any:
            raise ZeroDivisionError("gotcha")

    @effect("test/echo@1")
    async def echo(params: Plain, ctx: EffectContext) -> Plain:
        kind: Any = 7
        ctx.progress("share", 0.5)
        ctx.progress(kind)
        ctx.progress("", 1)
        ctx.progress("k", Hostile(a=1))
        ctx.progress("k", bytes(70_000))
        ctx.progress("fine", 1)
        return params

    async def scene(node: Node) -> None:
        node.run(1)
        assert (await node.result())[0] == "ok"

    node = rehearse([echo], scene)
    assert [each["frame_kind"] for each in node.frames] == ["fine"]
    (line,) = capsys.readouterr().err.splitlines()
    assert line == (
        f"test/echo@1 {hash_text(intent_of(1))}: progress: $: expected no floats, found float 0.5 "
        "(use an integer, or dec128 text) (dropped; the effect continues; reported only once)"
    )


def test_a_call_that_continues_past_its_end_sends_no_more_reports() -> None:
    release, told = threading.Event(), threading.Event()

    @effect("test/quick@1")
    def hangs(params: Plain, ctx: EffectContext) -> Plain:
        ctx.progress("before")
        release.wait(60)
        ctx.progress("after")
        told.set()
        return params

    async def scene(node: Node) -> None:
        node.run(1, "test/quick@1")
        assert (await node.result())[0] == "timeout"
        release.set()
        await asyncio.to_thread(told.wait, 60)
        await asyncio.sleep(0.01)

    node = rehearse([hangs], scene)
    assert [each["frame_kind"] for each in node.frames] == ["before"]

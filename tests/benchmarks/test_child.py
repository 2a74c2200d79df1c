"""The harness on a small world: what it counts is what the journal holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from benchmarks.child import Spec, run
from benchmarks.cores import TURNS
from benchmarks.plan import Point, Workload
from benchmarks.watch import Watch
from benchmarks.workloads import load_of

from aos.core.journal.inputs import EventInput
from aos.core.journal.ports import Call, Ran
from aos.fastcore.core_kind import CORE_VARIABLE
from aos.host.folder.folder import open_folder
from aos.host.folder.reader import open_reader
from aos.host.world.engine import Engine
from aos.store.store import head_of
from aos.values.cbor import encode
from aos.values.digests import Hash, content_hash
from benchmarks import __main__ as bench
from benchmarks import child, workloads

CELLS = 20


def spec(path: Path, workload: Workload, do: str, *points: Point) -> Spec:
    return Spec(do=do, path=path / "world", workload=workload, size=CELLS, points=points)


def measure(path: Path, workload: Workload, *points: Point) -> Any:
    run(spec(path, workload, "make"))
    return run(spec(path, workload, "measure", *points))


def items(number: int, cells: Any = "many", *, in_flight: int = 8) -> Point:
    return Point(in_flight=in_flight, cells=cells, items=number, warm_s=0)


@dataclass(frozen=True)
class Counted:
    """A world of 20 counters that was given 50 items one by one, then 30 in batches."""

    path: Path
    found: Any


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> Counted:
    path = tmp_path_factory.mktemp("counted")
    points = items(50), items(30, "stream", in_flight=2)
    return Counted(path, measure(path, "counter", *points))


def test_fifty_additions_are_counted_timed_and_replayed(counted: Counted) -> None:
    found = counted.found
    replayed = run(spec(counted.path, "counter", "replay"))

    first, stream = found["points"]
    assert (first["items"], first["all_items"], first["steps"]) == (50, 50, 50)
    assert first["records"] == 100  # 50 events, 50 steps
    assert stream["items"] == 30
    assert 0 < first["accept_ms"]["p50"] <= first["accept_ms"]["p99"]
    assert 0 < first["finish_ms"]["p50"] <= first["finish_ms"]["p99"]
    assert first["rate"] > 0
    assert first["floor"]["step_us"] > 0
    assert first["floor"]["rate"] > 0
    # A genesis, a manifest and two starts.
    assert found["start"]["cells"] == (found["start"]["records"] - 4) // 2 == CELLS
    assert found["end"]["rss_anon_mib"] > 1
    assert replayed["steps"] == CELLS + 50 + 30


def test_the_bytes_of_an_item_are_those_of_the_journal(counted: Counted) -> None:
    point = counted.found["points"][0]
    before = counted.found["start"]["records"]

    with open_folder(counted.path / "world").open_store(readonly=True) as store:
        frames = list(store.frames(before + 1, before + point["records"]))
    assert point["bytes_per_item"] == sum(len(each.to_bytes()) for each in frames) / 50
    assert point["frames"] == len(frames)
    assert 1 <= point["commits"] <= point["frames"]


def test_each_run_takes_three_effects_and_four_steps(tmp_path: Path) -> None:
    kinds = ("many", "hot", "line", "fresh")

    found = measure(tmp_path, "steps", *(items(12, each, in_flight=4) for each in kinds))

    for point in found["points"]:
        assert (point["items"], point["steps"], point["receipts"]) == (12, 48, 36), point["cells"]


def test_a_flow_takes_the_same_effects_in_as_many_steps(tmp_path: Path) -> None:
    [point] = measure(tmp_path, "flow", items(12, "fresh", in_flight=4))["points"]

    assert (point["items"], point["steps"], point["receipts"]) == (12, 48, 36)


def test_a_point_ends_by_the_clock(tmp_path: Path) -> None:
    for seconds in (0.2, 2.0, 10.0):  # a busy machine may do nothing in the first of them
        point = Point(in_flight=2, seconds=seconds, warm_s=0.1, is_busy=True)
        path = tmp_path / f"{seconds}"
        path.mkdir()
        [counted] = measure(path, "counter", point)["points"]
        if counted["items"] > 0:
            break

    assert counted["seconds"] == pytest.approx(seconds)
    assert 0 < counted["items"] < counted["all_items"]
    assert counted["wall_s"] >= seconds


def test_an_item_that_is_refused_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def wrong(_item: int, _cell: str, _: Any) -> EventInput:
        return EventInput(schema="bench/Add@1", value=b"\x00")

    run(spec(tmp_path, "counter", "make"))
    broken = replace(load_of("counter"), event=wrong)
    monkeypatch.setattr(child, "load_of", lambda _: broken)

    with pytest.raises(AssertionError, match="items were refused"):
        run(spec(tmp_path, "counter", "measure", items(5)))


def test_a_step_that_fails_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def overflowing(item: int, cell: str, _: Any) -> EventInput:
        value = {"key": cell, "by": 2**64 - 1, "item": item}
        return workloads._event("bench/Add@1", value)

    run(spec(tmp_path, "counter", "make"))
    broken = replace(load_of("counter"), event=overflowing)
    monkeypatch.setattr(child, "load_of", lambda _: broken)

    with pytest.raises(AssertionError, match="steps failed"):
        run(spec(tmp_path, "counter", "measure", items(5)))


class Counting:
    """An engine of which only the figures are looked at."""

    def __init__(self, *, steps: int, faults: int = 0) -> None:
        self.figures = SimpleNamespace(steps=steps, faults=faults)

    def stats(self) -> Any:
        return SimpleNamespace(figures=self.figures)


def test_a_watch_says_when_its_figures_may_not_be_believed() -> None:
    watch = Watch(lambda _call, _output: None)

    for engine, is_over, words in (
        (Counting(steps=7), False, "7 steps ran, 0 were seen"),
        (Counting(steps=0, faults=2), False, "2 steps failed"),
        (Counting(steps=0), True, "the world ended"),
    ):
        watch.engine = cast(Engine, engine)
        watch.is_over = lambda is_over=is_over: is_over  # type: ignore[misc]  # bound to this round
        with pytest.raises(AssertionError, match=words):
            watch.check()


def test_an_item_is_finished_once_its_step_is_durable() -> None:
    watch, told = Watch(lambda call, _output: int(call.input)), []

    def tell(items: Sequence[int], _at_ns: int) -> None:
        told.append(tuple(items))

    def published(steps: int) -> Any:
        return SimpleNamespace(figures=SimpleNamespace(steps=steps))

    watch.on_finished = tell
    for number in (b"10", b"11", b"12"):
        watch.ran(_call(number), Ran(output=b"", fault=None, fuel=0, pages=0))
    watch.durable(published(0))
    watch.durable(published(2))
    watch.durable(published(3))

    assert told == [(10, 11), (12,)]


def _call(data: bytes) -> Call:
    return Call(
        module=content_hash(b""), entrypoint="e", input=data, fuel=1, memory_bytes=1, output_bytes=1
    )


def test_orders_close_one_by_one(tmp_path: Path) -> None:
    [point] = measure(tmp_path, "orders", items(6, in_flight=3))["points"]

    assert point["items"] == 6
    # Three of the shop; and one for the timer that is canceled when an order is closed, which may
    # come after everything else.
    assert 18 <= point["receipts"] <= 24


def test_the_customer_of_hot_orders_is_another_one_at_each_point(tmp_path: Path) -> None:
    """Otherwise the ledger of a point would be as long as the earlier points were fast."""
    points = [items(number, "hot", in_flight=number) for number in (1, 2)]
    found = measure(tmp_path, "orders", *points)["points"]

    assert [point["all_items"] for point in found] == [1, 2]
    with open_reader(tmp_path / "world") as reader:
        keys = [id[1] for id in reader.state.cells]
    assert {encode(f"hot-{number}") for number in (1, 2)} <= set(keys)


def test_each_kernel_is_measured_on_a_copy_of_the_same_world(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begins: list[tuple[str, Hash, int]] = []

    def run_here(spec: dict[str, Any], _: Path, *, env: dict[str, str], **more: object) -> Any:
        if spec["do"] == "measure":
            with open_folder(spec["path"]).open_store(readonly=True) as store:
                head = head_of(store)
            begins.append((env[CORE_VARIABLE], head.frame, head.seq))
        return run(Spec.read(spec))

    monkeypatch.setattr(bench, "run_child", run_here)
    options = bench.Options(in_flight=(1,), seconds=0.1, warm_s=0.0)
    rows = bench.Bench(options, tmp_path)._world("counter", CELLS, is_smallest=True)

    (first, *one), (second, *other) = begins
    assert {first, second} == set(TURNS)
    assert one == other
    assert [row["points"][0]["all_items"] > 0 for row in rows] == [True, True]
    assert not list(tmp_path.iterdir())

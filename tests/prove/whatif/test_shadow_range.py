"""Where a shadow begins and ends (spec/shadow.md, SH-5 to SH-8)."""

from __future__ import annotations

import pytest

import aos.prove.whatif.shadowing as ranges
from aos.core.decide.answers import Admitted
from aos.errors import BadUsage
from aos.prove.replay.journal_source import JournalSource, source_of_store
from aos.prove.whatif.shadowing import RecordRange, chosen_range
from tests.prove.journals import MODULES, Shop, shop, store_of
from tests.prove.whatif.shadows import beginnings


def long_shop() -> tuple[Shop, dict[str, int]]:
    """A shop with two manifests and two snapshots, and where each is in the journal."""
    world = Shop()
    at = {"first": 2, "start": 3}
    for number in range(3):
        world.place(f"a-{number}", 5)
        world.run()
        world.charged(f"a-{number}")
        world.run()
    at["snapshot"] = _seq(world.snapshot())
    world.seal()
    at["second"] = _seq(world.apply(shop(2), MODULES))
    world.seal()
    for number in range(3):
        world.place(f"b-{number}", 5)
        world.run()
    at["newest"] = _seq(world.snapshot())
    world.place("b-9", 5)
    world.run()
    return world, at


def _seq(answer: object) -> int:
    assert isinstance(answer, Admitted), answer
    return answer.seq


@pytest.fixture(scope="module")
def long() -> tuple[JournalSource, dict[str, int]]:
    world, at = long_shop()
    return source_of_store(store_of(world)), at


def test_a_shadow_begins_at_a_manifest_a_start_or_a_snapshot(
    long: tuple[JournalSource, dict[str, int]],
) -> None:
    source, at = long

    assert beginnings(source) == sorted(at.values())


def test_without_options_it_follows_the_manifest_in_force(
    long: tuple[JournalSource, dict[str, int]],
) -> None:
    source, at = long

    assert chosen_range(source) == RecordRange(first=at["second"], last=source.last)
    assert chosen_range(source, is_all=True) == chosen_range(source)


def test_of_a_long_time_it_follows_so_many_records_at_least(
    long: tuple[JournalSource, dict[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, at = long
    monkeypatch.setattr(ranges, "DEFAULT_RECORDS", source.last - at["newest"])

    assert chosen_range(source).first == at["newest"]
    assert chosen_range(source, is_all=True).first == at["second"]

    monkeypatch.setattr(ranges, "DEFAULT_RECORDS", source.last - at["newest"] + 1)

    assert chosen_range(source).first == at["second"]


def test_from_is_the_nearest_place_before(long: tuple[JournalSource, dict[str, int]]) -> None:
    source, at = long

    assert chosen_range(source, first=at["newest"] + 1).first == at["newest"]
    assert chosen_range(source, first=at["newest"] - 1).first == at["second"]
    assert chosen_range(source, first=3).first == at["start"]


def test_it_ends_before_the_next_manifest(long: tuple[JournalSource, dict[str, int]]) -> None:
    source, at = long

    assert chosen_range(source, first=2) == RecordRange(first=2, last=at["second"] - 1)
    assert chosen_range(source, around=5) == RecordRange(first=2, last=at["second"] - 1)
    assert chosen_range(source, first=2, last=7) == RecordRange(first=2, last=7)
    assert chosen_range(source, first=2, last=source.last).last == at["second"] - 1


@pytest.mark.parametrize(
    ("first", "last", "message"),
    [
        (1, None, "--from: no shadow can begin there: expected a record from 2 on"),
        (0, None, "--from: there is no such record: expected a record from 1 to"),
        (10_000, None, "--from: there is no such record: expected a record from 1 to"),
        (None, 10_000, "--to: there is no such record: expected a record from 1 to"),
        (None, 1, "nothing to shadow"),
    ],
)
def test_another_range_is_refused(
    long: tuple[JournalSource, dict[str, int]], first: int | None, last: int | None, message: str
) -> None:
    with pytest.raises(BadUsage, match=message):
        chosen_range(long[0], first=first, last=last)


def test_a_range_that_ends_before_it_begins_is_refused(
    long: tuple[JournalSource, dict[str, int]],
) -> None:
    source, at = long

    with pytest.raises(BadUsage, match="--from: it is after the end: expected at most 5"):
        chosen_range(source, first=at["newest"], last=5)

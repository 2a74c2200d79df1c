"""A machine whose clock was ahead for one command, and ``aos clock`` (K-12a, K-109b, C-29b)."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from aos.manifest.limits import DAY_NS
from tests.cli.shell import Aos
from tests.fake_clock import set_machine_clock

ORDERS = Path(__file__).parents[2] / "manifests" / "orders"
RIGHT_NS = 1_795_000_000_000_000_000
PLACED = "shop/OrderPlaced@1"


def order(name: str, *, patience: str = "2s") -> str:
    return (
        f'{{"order_id": "{name}", "customer_id": "c-1", "patience": "{patience}", "items": '
        '[{"sku": "tea", "quantity": 2, "price_cents": 625}]}'
    )


@pytest.fixture
def shop(aos: Aos, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A world with one event that the right clock has stamped, under the id ``first``."""
    set_machine_clock(monkeypatch, RIGHT_NS)
    world = tmp_path / "shop"
    assert aos("init", world).code == 0
    assert aos("apply", ORDERS, world=world).code == 0
    assert aos("send", PLACED, order("o-1"), "--id", "first", world=world).code == 0
    return world


def ahead(aos: Aos, shop: Path, monkeypatch: pytest.MonkeyPatch, leap_ns: int) -> None:
    """One event, and its steps, by a clock that is so far ahead; then the right time again."""
    set_machine_clock(monkeypatch, RIGHT_NS + leap_ns)
    assert aos("send", PLACED, order("o-2"), "--id", "second", world=shop).code == 0
    assert aos("run", "--until-waiting", world=shop).code == 0
    set_machine_clock(monkeypatch, RIGHT_NS + 10**9, runs=True)


@pytest.mark.parametrize(("leap_ns", "from_snapshot"), [(8 * DAY_NS, False), (3650 * DAY_NS, True)])
def test_a_clock_that_was_ahead_is_seen_everywhere_forgets_nothing_and_is_mended(
    aos: Aos, shop: Path, monkeypatch: pytest.MonkeyPatch, leap_ns: int, *, from_snapshot: bool
) -> None:
    ahead(aos, shop, monkeypatch, leap_ns)
    if from_snapshot:
        assert aos("snapshot", world=shop).code == 0

    # It is seen.
    told = aos("run", "--until-waiting", world=shop)
    assert "ahead of this machine's clock" in told.err
    assert "aos clock --set" in told.err
    shown = aos("inspect", "world", world=shop)
    assert "ahead of this machine's clock" in shown.err
    found = aos("inspect", "world", "--json", world=shop).json
    assert found["journal"]["clock_ahead_ns"] > leap_ns - 10 * 60 * 10**9
    assert "the journal clock is" in aos("clock", world=shop).out

    # No id is forgotten.
    again = aos("send", PLACED, order("o-1"), "--id", "first", "--json", world=shop)
    assert again.code == 0
    assert "uplicate" in again.out, again.out

    # It is mended.
    before = aos("clock", "--json", world=shop).json
    assert before["is_ahead"]
    done = aos("clock", "--set", world=shop)
    assert done.code == 0, done.err
    assert "sets the journal clock to" in done.out
    after = aos("clock", "--json", world=shop).json
    assert not after["is_ahead"]
    assert abs(after["ahead_ns"]) < 600 * 10**9
    assert after["window_ns"] == before["window_ns"]
    refused = aos("clock", "--set", world=shop)
    assert refused.code == 1
    assert "the journal clock is not ahead" in refused.err
    assert "ahead of" not in aos("inspect", "world", world=shop).err

    # A sleep of two seconds takes two seconds, and the timer of the leap stays until it is settled.
    assert aos("send", PLACED, order("o-3"), world=shop).code == 0
    assert aos("run", "--until-waiting", world=shop).code == 0
    late = aos("clock", "--json", world=shop).json["timers"]
    assert "o-2" in {each["key"] for each in late}
    for each in late:
        words = shlex.split(each["settle"])
        assert words[:3] == ["aos", "effects", "settle"]
        assert aos(*words[1:], world=shop).code == 0
    assert aos("clock", "--json", world=shop).json["timers"] == []
    # This workflow compares the clock with its deadline and would set its timer again.
    assert aos("cells", "end", "deadline", "o-2", world=shop).code == 0
    ended = aos("run", "--until-idle", "--max-wait", "60s", "--json", world=shop)
    assert ended.code == 0, ended.err
    timers = aos("inspect", "world", "--json", world=shop).json["intents"]["timers"]
    assert timers["open"] == 0

    # The history is whole.
    assert again == aos("send", PLACED, order("o-1"), "--id", "first", "--json", world=shop)
    for check in (["verify"], ["replay"]):
        checked = aos(*check, world=shop)
        assert checked.code == 0, checked.out + checked.err
    journal = aos("inspect", "journal", "--kind", "control", world=shop)
    assert "clock is set to" in journal.out


def test_a_clock_that_is_right_has_nothing_to_set(
    aos: Aos, shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_machine_clock(monkeypatch, RIGHT_NS + 3 * 10**9)

    shown = aos("clock", world=shop)

    assert shown.code == 0
    assert "the last stamp is 3.0 s old" in shown.out
    assert shown.err == ""
    assert aos("clock", "--json", world=shop).json["timers"] == []
    assert aos("clock", "--set", world=shop).code == 1


def test_a_start_long_after_the_last_record_says_so(
    aos: Aos, shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C-25f: an idle year cannot be told from a wrong year."""
    set_machine_clock(monkeypatch, RIGHT_NS + DAY_NS)
    assert "after the last record" not in aos("run", "--until-waiting", world=shop).err
    set_machine_clock(monkeypatch, RIGHT_NS + 3 * DAY_NS)

    told = aos("run", "--until-waiting", world=shop)

    assert "this machine's clock is 2 d after the last record" in told.err

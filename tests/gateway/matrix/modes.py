"""All runs of the matrix, by mode."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from random import Random
from typing import Final

from mischief import Rates

from tests.gateway.matrix import mishaps
from tests.gateway.matrix.deaths import IN_WORKER, Death, Point
from tests.gateway.matrix.runs import Action, Run

FIRST, LAST = 7, 131
"""The records of a run with a revealed score, without those before it begins."""

SENDS: Final = 8
QUICK: Final = {"retries": 1, "stall_cycles": 1, "stall_base_ms": 50}
"""A policy that parks soon."""

CLOSED: Final = dict.fromkeys(("work 1", "work 2"), frozenset({"EPOCH_CLOSED"}))
TAKEN: Final = dict.fromkeys(("work 1", "work 2"), frozenset({"CONFLICT"}))


def all_runs() -> list[Run]:
    """Every run of the long form."""
    return [run for mode in MODES.values() for run in mode()]


def sample(seed: int, count: int) -> list[Run]:
    """So many runs, of as many modes as possible, chosen by a seed."""
    chance = Random(seed)
    modes = [list(mode()) for mode in MODES.values()]
    for each in modes:
        chance.shuffle(each)
    chance.shuffle(modes)
    turns = [run for turn in range(count) for each in modes for run in each[turn : turn + 1]]
    return turns[:count]


def every_commit() -> Iterator[Run]:
    """All die before and after the commit that holds record N, for every N."""
    for point in (Point.BEFORE_COMMIT, Point.AFTER_COMMIT):
        for number in range(FIRST, LAST + 1):
            death = Death(point=point, number=number)
            yield Run(
                mode="every record",
                name=f"{death}",
                deaths=(death,),
                is_revealed=number % 2 == 0,
            )


def every_send() -> Iterator[Run]:
    """All die before a send, after it, after its reply, and before a look."""
    for point in IN_WORKER:
        for number in range(1, SENDS + 1):
            death = Death(point=point, number=number)
            yield Run(
                mode="every send", name=f"{death}", deaths=(death,), is_revealed=number % 2 == 0
            )


def twice() -> Iterator[Run]:
    """Two lives end at the same point."""
    for point in IN_WORKER:
        for number in (1, 3):
            again = Death(point=point, number=1)
            deaths = (Death(point=point, number=number), again)
            yield Run(mode="twice", name=f"{deaths[0]}, again {again}", deaths=deaths)
    for number in range(20, LAST, 20):
        death = Death(point=Point.BEFORE_COMMIT, number=number)
        yield Run(mode="twice", name=f"{death}, again", deaths=(death, death), is_revealed=True)
        after = Death(point=Point.AFTER_COMMIT, number=number)
        later = Death(point=Point.AFTER_COMMIT, number=number + 1)
        yield Run(mode="twice", name=f"{after}, {later}", deaths=(after, later))


def worker_alone() -> Iterator[Run]:
    for point in IN_WORKER:
        for number in (1, 4, 7):
            death = Death(point=point, number=number, is_whole=False)
            yield Run(mode="worker alone", name=f"{death}", deaths=(death,))


def snapshots() -> Iterator[Run]:
    """With a snapshot every 20 records."""
    for number in range(15, LAST, 9):
        point = Point.AFTER_COMMIT if number % 2 else Point.BEFORE_COMMIT
        death = Death(point=point, number=number)
        yield Run(
            mode="snapshots", name=f"{death}", deaths=(death,), snapshot_records=20,
            is_revealed=True,
        )  # fmt: skip


# --- modes of the chain


def _dying(count: int) -> Iterator[tuple[int, tuple[Death, ...]]]:
    """No death, and then deaths at each of the points in a worker."""
    yield 0, ()
    for number in range(1, count):
        point = IN_WORKER[number % len(IN_WORKER)]
        yield number, (Death(point=point, number=1 + number // 2),)


def slow() -> Iterator[Run]:
    for number, deaths in _dying(8):
        yield Run(
            mode="slow", name=_name(deaths), deaths=deaths, policy={"conf": 2},
            always=mishaps.mine_slowly, is_revealed=number % 2 == 0,
        )  # fmt: skip


def dropping() -> Iterator[Run]:
    for number, deaths in _dying(8):
        yield Run(
            mode="dropping", name=f"{_name(deaths)}, {number}", deaths=deaths,
            policy={"conf": 2}, rates=Rates(drop=0.4), always=mishaps.mine_slowly,
        )  # fmt: skip


def rising() -> Iterator[Run]:
    for number, deaths in _dying(8):
        yield Run(
            mode="rising", name=f"{_name(deaths)}, {number}", deaths=deaths,
            policy={"wait_ms": 200}, always=mishaps.drop_the_cheap, scene="works",
        )  # fmt: skip


def losing() -> Iterator[Run]:
    for number, deaths in _dying(10):
        yield Run(
            mode="losing replies", name=f"{_name(deaths)}, {number}", deaths=deaths,
            rates=Rates(lose=0.08, cut=0.03, fail_after=0.03, limit=0.03),
            is_revealed=number % 2 == 0,
        )  # fmt: skip


def refusing() -> Iterator[Run]:
    for send in (1, 2, 3):
        for point in (None, Point.AFTER_REPLY):
            deaths = () if point is None else (Death(point=point, number=send),)
            yield Run(
                mode="refusing", name=f"send {send}, {_name(deaths)}", scene="works",
                deaths=deaths, pranks=partial(mishaps.refuse, number=send),
                during=mishaps.raise_the_limit,
            )  # fmt: skip


def raced() -> Iterator[Run]:
    for scene, ends in (("works", TAKEN), ("epoch", {})):
        for point in (None, *IN_WORKER):
            deaths = () if point is None else (Death(point=point, number=1),)
            yield Run(
                mode="raced", name=f"{scene}, {_name(deaths)}", scene=scene, deaths=deaths,
                pranks=partial(mishaps.race, number=1), ends=ends,
            )  # fmt: skip


def sharing() -> Iterator[Run]:
    for what, send in (("other", 1), ("other", 3), ("empty", 3), ("same", 3)):
        for number, _ in _dying(4):
            deaths = (Death(point=IN_WORKER[number - 1], number=send),) if number else ()
            yield Run(
                mode="sharing the key",
                name=f"{what} before send {send}, {_name(deaths)}",
                scene="works",
                deaths=deaths,
                pranks=partial(mishaps.share, number=send, what=what),
            )


def reorganising() -> Iterator[Run]:
    for number, deaths in _dying(8):
        yield Run(
            mode="reorganising", name=f"{_name(deaths)}, {number}", deaths=deaths,
            policy={"conf": 4, "wait_ms": 600}, always=mishaps.mine_and_reorganise, scene="works",
        )  # fmt: skip


def _name(deaths: tuple[Death, ...]) -> str:
    return ", ".join(map(str, deaths)) or "no death"


# --- while down


DOWN: Final[Mapping[str, tuple[Action, Mapping[str, object]]]] = {
    "mined": (mishaps.mined, {}),
    "pending": (mishaps.nothing, {"during": mishaps.mine_later}),
    "dropped": (mishaps.dropped, {}),
    "reverted": (mishaps.reverted, {"ends": CLOSED}),
    "replaced": (mishaps.replaced, {}),
    "nonce taken": (mishaps.nonce_taken, {}),
    "submitted by another": (mishaps.submitted_by_another, {"ends": TAKEN}),
    "epoch closed": (mishaps.epoch_closed, {"ends": CLOSED}),
    "reorg below depth": (mishaps.reorganised, {"is_deep_reorg": True}),
    "funds drained": (mishaps.funds_drained, {"after": mishaps.funded, "policy": QUICK}),
    "pool lost": (mishaps.pool_lost, {"has_own_node": True}),
    "RPC down": (
        mishaps.unreachable,
        {"after": mishaps.reachable, "policy": QUICK, "rates": Rates()},
    ),
    "two heads": (
        mishaps.nothing,
        {
            "always": mishaps.mine_slowly,
            "rates": Rates(stale=0.4, stale_blocks=1),
            "policy": {"conf": 2},
            "pranks": None,
        },
    ),
}
"""The events while a world is down, and the other fields of such a run."""

FIRST_SEND_ONLY: Final = ("reverted", "submitted by another", "epoch closed")
"""A work that is submitted can be registered whatever happens then."""


def while_down() -> Iterator[Run]:
    """At each position between a submit and its settlement, of the first and the third submit."""
    for name, (action, more) in DOWN.items():
        for send in (1,) if name in FIRST_SEND_ONLY else (1, 3):
            for point in IN_WORKER:
                death = Death(point=point, number=send)
                held = partial(mishaps.hold_mining, number=send)
                options: dict[str, object] = {"pranks": held, **more}
                yield Run(
                    mode=f"down: {name}", name=f"{death}", scene="works", deaths=(death,),
                    down=action, **options,  # type: ignore[arg-type]  # fields of Run by name
                )  # fmt: skip


def old_anchors() -> Iterator[Run]:
    """Between the quote of an upload and the upload, so many blocks pass on Arweave that it rejects
    the upload."""
    for number in range(12, 18):
        death = Death(point=Point.AFTER_COMMIT, number=number)
        yield Run(
            mode="down: old anchors", name=f"{death}", scene="works", deaths=(death,),
            down=mishaps.anchors_aged,
        )  # fmt: skip


MODES: Final[Mapping[str, Callable[[], Iterator[Run]]]] = {
    each.__name__: each
    for each in (
        every_commit, every_send, twice, worker_alone, snapshots, slow, dropping, rising, losing,
        refusing, raced, sharing, reorganising, while_down, old_anchors,
    )
}  # fmt: skip

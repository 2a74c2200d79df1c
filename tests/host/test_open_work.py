"""The open effects of a run: by effect, how many, since when the oldest, when the next timer is due
(H-81a)."""

from __future__ import annotations

from typing import Any, cast

from aos.core.state.cell import OpenIntent
from aos.host.open_work import OpenEffect, OpenEffects
from aos.manifest.names import TIMER
from aos.values.digests import Hash, content_hash


class _Effect:
    def __init__(self, name: str) -> None:
        self.name = name


def hash_of(number: int) -> Hash:
    return content_hash(b"%d" % number)


def opened(number: int, effect: str) -> OpenIntent:
    """Intent ``number``, opened at so many ns."""
    return OpenIntent(
        intent=hash_of(number), cell=("w", b""), workflow_hash=hash_of(0), seq=number, index=0,
        opened_ns=number, manifest=hash_of(0), effect=cast("Any", _Effect(effect)), executors=None,
        params=b"", params_hash=hash_of(0), key=None, idempotency_key="", issuer_ref=None,
    )  # fmt: skip


def test_open_effects_are_listed_by_name_with_the_oldest_of_each() -> None:
    work = OpenEffects()
    work.add([opened(3, TIMER), opened(4, "a/b@1"), opened(5, TIMER), opened(6, "a/b@1")])
    work.add([opened(3, TIMER)])
    assert (len(work), work.by_effect()) == (4, {TIMER: 2, "a/b@1": 2})
    assert set(work) == {hash_of(number) for number in (3, 4, 5, 6)}

    work.end([hash_of(3), hash_of(9)])
    assert hash_of(5) in work
    assert hash_of(3) not in work
    assert work.open_effects(next_timer_ns=7) == (
        OpenEffect(effect="a/b@1", number=2, oldest_ns=4, due_ns=None),
        OpenEffect(effect=TIMER, number=1, oldest_ns=5, due_ns=7),
    )

    work.end([hash_of(5)])
    assert [effect.effect for effect in work.open_effects(next_timer_ns=None)] == ["a/b@1"]
    assert work.by_effect() == {"a/b@1": 2}

"""Each fuzz target over its seeds, over the inputs that a fuzzer kept, and over altered ones, which
the seed of the run chooses.

``make fuzz`` continues with a fuzzer that follows the code that runs.
"""

from __future__ import annotations

import time

import pytest

from tests.fuzz.mutate import MOST_BYTES, mutations
from tests.fuzz.targets import CORPUS, FILES, beginning, find, kept
from tests.run_seed import run_seed
from tests.tools import long_form

LONG = 100
"""How many times as many in the long form."""

LONG_S = 60.0
"""After so long the long form of a slow target has done enough."""


@pytest.mark.parametrize("name", FILES)
def test_a_target_holds_for_its_seeds(name: str) -> None:
    target = find(name)

    for data in beginning(name):
        target.target(data)


@pytest.mark.long
@pytest.mark.parametrize("name", FILES)
def test_a_target_holds_for_altered_seeds(name: str) -> None:
    target = find(name)
    count = target.RUNS * (LONG if long_form() else 1)

    end_s = time.monotonic() + LONG_S
    altered = mutations(beginning(name), count=count, tokens=target.TOKENS, seed=run_seed())
    for number, data in enumerate(altered):
        if number >= target.RUNS and time.monotonic() > end_s:
            break
        try:
            target.target(data)
        except BaseException as problem:
            problem.add_note(f"input: {data.hex()}")
            raise


@pytest.mark.parametrize("name", FILES)
def test_a_target_says_what_must_hold(name: str) -> None:
    said = (find(name).target.__doc__ or "").splitlines()

    assert said
    assert said[0].endswith(".")


def test_every_kept_corpus_belongs_to_a_target_and_is_small() -> None:
    found = {file.stem: file.stat().st_size for file in CORPUS.glob("*")}

    assert set(found) <= set(FILES)
    assert all(size < 50_000 for size in found.values()), found
    assert all(len(data) <= MOST_BYTES for name in found for data in kept(name))


def test_alterations_are_the_same_each_time_and_differ_from_the_seeds() -> None:
    seeds = [b"", b"abcdef" * 10, bytes(100)]

    one, other = (list(mutations(seeds, count=300, seed=3)) for _ in range(2))

    assert one == other
    assert len(set(one)) > 150
    assert one != list(mutations(seeds, count=300, seed=4))

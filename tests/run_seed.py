"""The seed of a test run: one for each day, so that the few examples of a run become many over the
weeks.

Every random choice of the tests comes from it: the examples of hypothesis, the seeds of simulated
worlds, the alterations of the fuzz targets. pytest prints the seed at the start of a run and after
a failure; set ``AOS_TEST_SEED`` to repeat a run.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, MutableMapping, Sequence
from datetime import date
from typing import Final, TypeVar

from hypothesis import HealthCheck, core, settings

from tests.tools import long_form

VARIABLE: Final = "AOS_TEST_SEED"
FORM: Final = re.compile(r"[0-9]{1,9}")

EXAMPLES: Final = 20
"""How many examples a property test generates that names no other number."""

LONG_TIMES: Final = 20
"""How many times as many examples the long form of a test generates."""


Choice = TypeVar("Choice")


class WrongSeedError(ValueError):
    """``AOS_TEST_SEED`` is not a seed."""


def settle_seed(environment: MutableMapping[str, str], today: date) -> int:
    """Return the seed of this run, and write it into the environment for every process of it, which
    may start after midnight.

    Raises:
        WrongSeedError: The variable is set to something else than a seed.
    """
    text = environment.setdefault(VARIABLE, today.strftime("%Y%m%d"))
    if not FORM.fullmatch(text):
        raise WrongSeedError(f"{VARIABLE}: expected a number of at most 9 digits, found {text!r}")
    return int(text)


def run_seed() -> int:
    """Return the seed of this run, which ``settle_seed`` has written into the environment."""
    return int(os.environ[VARIABLE])


def seeds(count: int) -> range:
    """Return ``count`` seeds for worlds: no two days share one."""
    first = run_seed() * 10_000
    return range(first, first + count)


def examples(count: int) -> int:
    """Return how many examples a property test generates: ``count``, or more in its long form."""
    return count * LONG_TIMES if long_form() else count


def rotated(choices: Sequence[Choice]) -> list[Choice]:
    """Return all choices in the long form of a test, otherwise one of them, another each day."""
    return list(choices) if long_form() else [choices[run_seed() % len(choices)]]


def in_turns(days: int, choices: Iterable[Choice]) -> list[Choice]:
    """Return all choices in the long form of a test, otherwise one in ``days`` of them, others each
    day: at most four, so that each has its turn in a week, also where a month ends."""
    every_choice = list(choices)
    assert days <= min(4, len(every_choice))
    return every_choice if long_form() else every_choice[run_seed() % days :: days]


def use_in_hypothesis(seed: int) -> None:
    """Make hypothesis generate all examples from this seed, and keep none in a database. How long
    an example takes fails no test."""
    settings.register_profile(
        "aos",
        max_examples=examples(EXAMPLES),
        deadline=None,
        database=None,
        derandomize=False,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )
    settings.load_profile("aos")
    vars(core)["global_force_seed"] = seed  # as --hypothesis-seed does

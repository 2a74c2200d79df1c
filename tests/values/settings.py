"""One profile for every property test here: the same examples each time, and few."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

quick = settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)

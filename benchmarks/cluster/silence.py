"""Times of acknowledgements and ends of stores -> recovery times and lags. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.figures import NS_PER_MS


def longest_silence_ms(acknowledged_ns: Iterable[int], start_ns: int, until_ns: int) -> float:
    """Return the longest time without an acknowledgement between ``start_ns`` and ``until_ns``.

    An answer that was on its way when the owner was killed arrives in a moment. So the recovery is
    this time, and not the one to the first answer.

    Raises:
        ValueError: Nothing was acknowledged in that time.
    """
    times = sorted(at_ns for at_ns in acknowledged_ns if start_ns < at_ns <= until_ns)
    if not times:
        raise ValueError("nothing was acknowledged")
    before = [start_ns, *times]
    return max(at - last for last, at in zip(before, times, strict=False)) / NS_PER_MS


@dataclass(frozen=True, slots=True)
class Ends:
    """The last records in the stores of the owner and of a standby, at one time."""

    at_ns: int
    owner: int
    standby: int


def lags_ms(samples: Sequence[Ends], start_ns: int, end_ns: int) -> list[float]:
    """Return the lag at each sample from ``start_ns`` to ``end_ns``: for how long the owner's store
    has had a record that the standby's lacks. It is as exact as the samples are close."""
    owners = [sample.owner for sample in samples]
    lags = []
    for sample in samples:
        if start_ns <= sample.at_ns <= end_ns:
            first = bisect_right(owners, sample.standby)
            lacks = first < len(samples) and samples[first].at_ns <= sample.at_ns
            since_ns = samples[first].at_ns if lacks else sample.at_ns
            lags.append((sample.at_ns - since_ns) / NS_PER_MS)
    return lags


@dataclass(frozen=True, slots=True)
class Balance:
    """Requests that were acknowledged, and those of them that had no effect or two."""

    acknowledged: int
    lost: int
    doubled: int


def balance(acknowledged: Mapping[str, int], sums: Mapping[str, int]) -> Balance:
    """Compare the books of the callers with the sums of the system, by key. Each acknowledged
    request adds 1."""
    differences = [sums.get(key, 0) - count for key, count in acknowledged.items()]
    return Balance(
        acknowledged=sum(acknowledged.values()),
        lost=-sum(difference for difference in differences if difference < 0),
        doubled=sum(difference for difference in differences if difference > 0),
    )

"""The books of the benchmark of replicated worlds: recovery, lags, lost and doubled events."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest
from benchmarks.cluster.probe import Probe
from benchmarks.cluster.processor import processor_s
from benchmarks.cluster.silence import Balance, Ends, balance, lags_ms, longest_silence_ms

from aos.errors import Unavailable

MS = 1_000_000


def test_recovery_is_the_longest_silence_and_not_the_first_answer() -> None:
    on_its_way, again, later = 101 * MS, 3_000 * MS, 3_020 * MS
    acknowledged = [40 * MS, later, on_its_way, again, 9_000 * MS]

    assert longest_silence_ms(acknowledged, 100 * MS, later) == 2_899
    assert longest_silence_ms([again], 100 * MS, again) == 2_900
    with pytest.raises(ValueError, match="nothing"):
        longest_silence_ms([100 * MS, 9_000 * MS], 100 * MS, later)


def test_a_lag_is_the_age_of_the_first_record_that_the_standby_lacks() -> None:
    samples = [
        Ends(10 * MS, owner=5, standby=5),
        Ends(20 * MS, owner=7, standby=5),  # lacks 6 since now
        Ends(30 * MS, owner=9, standby=5),  # lacks 6 since 20 ms
        Ends(40 * MS, owner=9, standby=8),  # lacks 9 since 30 ms
        Ends(50 * MS, owner=9, standby=9),
        Ends(60 * MS, owner=9, standby=10),  # it reads the log itself: no lag
    ]

    assert lags_ms(samples, 0, 100 * MS) == [0, 0, 10, 10, 0, 0]
    assert lags_ms(samples, 30 * MS, 40 * MS) == [10, 10]
    assert lags_ms([], 0, 1) == []


def test_books_are_compared_key_by_key() -> None:
    """One lost and one doubled are not nothing."""
    assert balance({"a": 3, "b": 4}, {"a": 3, "b": 4}) == Balance(7, lost=0, doubled=0)
    assert balance({"a": 3, "b": 4, "c": 1}, {"a": 2, "b": 6}) == Balance(8, lost=2, doubled=2)


def test_a_caller_sends_the_same_id_until_it_is_acknowledged() -> None:
    sent: list[tuple[str, str]] = []
    is_third = threading.Event()

    def send(key: str, submission_id: str) -> None:
        sent.append((key, submission_id))
        if len(sent) <= 2:
            raise ConnectionRefusedError
        if len(sent) >= 5:
            is_third.set()

    with Probe([send]) as probe:
        assert is_third.wait(120)
        assert probe.wait_for_answer(0) == probe.acknowledged_ns[0]

    assert [submission_id for _, submission_id in sent[:5]] == [
        "probe-0-0", "probe-0-0", "probe-0-0", "probe-0-1", "probe-0-2",
    ]  # fmt: skip
    assert probe.counts == {"probe-0": len(sent) - 2}
    assert len(probe.acknowledged_ns) == probe.counts["probe-0"]


def test_a_refusal_ends_the_measurement() -> None:
    def send(_key: str, _submission_id: str) -> None:
        raise ValueError("refused")

    with pytest.raises(Unavailable, match="refused"), Probe([send]) as probe:
        probe.wait_for_answer(0)


def test_processor_time_is_that_of_a_process_and_its_children() -> None:
    code = (
        "import os, sys\n"
        "while sum(os.times()[:2]) < 0.15: pass\n"
        "print(flush=True)\n"
        "sys.stdin.read()"
    )
    script = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {code!r}])"
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        used_s = processor_s([process.pid])
        process.communicate()

    assert used_s >= 0.14
    assert processor_s([process.pid]) == 0, "it has ended"
    assert processor_s([os.getpid(), os.getpid()]) >= processor_s([os.getpid()])

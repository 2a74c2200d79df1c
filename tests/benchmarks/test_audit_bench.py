"""Readers for auditors: a small run from its journals to its tables, and the checks of its
figures."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from benchmarks.audit import child
from benchmarks.audit.__main__ import BENCHMARK, SHARE, Options
from benchmarks.audit.tables import GROWTH_MIB, audit_aims, audit_tables

from benchmarks import report

pytestmark = pytest.mark.rotated(3)

ITEMS = 16
RECORDS = 8
"""Of one item: an event, four steps and three receipts."""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A run whose children are this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "benchmarks.audit.__main__.run_child", lambda given, *_, **__: child.run(given)
        )
        return BENCHMARK.run(
            Options(items=ITEMS, frames=200, rounds=2), tmp_path_factory.mktemp("audit")
        )


def test_every_reader_reads_every_record(found: Any) -> None:
    for each in found["rounds"]:
        for size, items in (("small", ITEMS // SHARE), ("large", ITEMS)):
            records = {reader["records"] for reader in each[size].values()}
            # The genesis, the manifest and the start.
            assert records == {items * RECORDS + 3}
            assert each[size]["fold"]["cells"] == items
            for form in ("json", "sqlite"):
                # A log has no start and no genesis; steps have an event for each request.
                assert each[size][form]["events"] == items * (1 + 3 + 3) + 1
                assert each[size][form]["objects"] == items * (1 + 3) + 1
        assert each["small"]["replay"]["steps"] == each["small"]["shadow"]["steps"]
        assert "shadow" not in each["large"]


def test_the_tables_have_each_reader_and_each_aim(found: Any) -> None:
    text = audit_tables(found)

    assert text.count("| OCEL, json |") == text.count("| OCEL, sqlite |") == 2
    assert "## Audits" in report.render(None, None, "", audit=found)
    assert {each.is_met for each in audit_aims(None)} == {None}
    assert len(audit_aims(found)) == len(audit_aims(None)) == 9
    assert text.count("| replay |") == text.count("| shadow |") == 1


def test_an_aim_is_missed_by_what_is_slow_or_grows(found: Any) -> None:
    good = deepcopy(found)
    for each in good["rounds"]:
        for size in each.values():
            for reader in size.values():
                reader.update(rate=100.0, added_mib=1.0)
    for proven in good["proofs"].values():
        for made in proven["rounds"]:
            made["checkpoint"]["cpu_s"] = 0.1
            made["proofs"].update(cpu_ms=1.0, without_bytes=4096, added_mib=1.0)
    assert {each.is_met for each in audit_aims(good)} == {True}
    slow, growing, slow_shadow = deepcopy(good), deepcopy(good), deepcopy(good)
    for each in slow["rounds"]:
        each["large"]["json"]["rate"] = 30.0
    for each in slow_shadow["rounds"]:
        each["small"]["shadow"]["rate"] = 49.0
    growing["rounds"][0]["large"]["sqlite"]["added_mib"] = 2.0 + GROWTH_MIB

    assert [each.is_met for each in audit_aims(slow)][:5] == [False, True, True, True, True]
    assert [each.is_met for each in audit_aims(growing)][:5] == [True, True, True, False, True]
    assert [each.is_met for each in audit_aims(slow_shadow)][:5] == [True, True, True, True, False]

    for number, (what, name, value) in enumerate(
        [
            ("proofs", "without_bytes", 4097),
            ("proofs", "cpu_ms", 2.1),
            ("proofs", "added_mib", 1.1 + GROWTH_MIB),
            ("checkpoint", "cpu_s", 0.21),
        ]
    ):
        bad = deepcopy(good)
        for made in bad["proofs"]["many"]["rounds"]:
            made[what][name] = value
        missed = [at for at, each in enumerate(audit_aims(bad)) if not each.is_met]
        assert missed == [5 + number]


def test_a_checkpoint_reads_the_new_frames_and_a_proof_is_of_a_record(found: Any) -> None:
    for size in found["proofs"].values():
        assert [each["checkpoint"]["added"] for each in size["rounds"]] == [1000, 1000]
        assert all(0 < each["proofs"]["without_bytes"] < 4096 for each in size["rounds"])

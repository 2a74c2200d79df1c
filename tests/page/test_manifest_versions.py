"""Any two manifests of a world are compared (spec/page.md, PG-91; audit.md, A-62a)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.shell import here
from tests.page.part_site import PartSite


@pytest.fixture(scope="module")
def site(governed: Path) -> Iterator[PartSite]:
    found = PartSite(governed)
    yield found
    found.browser.close()


@pytest.fixture(scope="module")
def records(governed: Path) -> tuple[int, int]:
    """The records of the two manifests."""
    rows = here("inspect", "journal", "--kind", "manifest", "--json", "-w", governed).lines
    first, second = (each["seq"] for each in rows)
    return first, second


def test_every_version_is_listed_with_who_applied_it(
    site: PartSite, records: tuple[int, int], governed: Path
) -> None:
    """PG-91"""
    first, second = records
    text = site.text("governed", "manifest")
    links = site.seen("governed", "manifest").links
    base = site.bases["governed"]
    hashes = [
        here("inspect", "record", str(seq), "--json", "-w", governed).json["hash"][7:19]
        for seq in records
    ]

    versions = text.partition("2 manifests put in force")[2].partition("Routes")[0]
    assert f"operator, proposal 12 pin {hashes[1]} in force" in versions
    assert versions.index(hashes[1]) < versions.index(hashes[0])
    assert f"operator strict {hashes[0]}" in versions
    assert f"{base}proposals/12" in links
    assert f"{base}manifest/diff?since={first}&at={second}" in links
    past = site.text("governed", f"manifest?at={second - 1}")
    assert "1 manifest put in force" in past
    assert hashes[1] not in past


def test_the_form_offers_every_pair_of_versions(site: PartSite, records: tuple[int, int]) -> None:
    """PG-91"""
    first, second = records
    page = site.browser.get(f"{site.bases['governed']}manifest").text
    form = page.partition(f'action="{site.bases["governed"]}manifest/diff"')[2].partition(
        "</form>"
    )[0]

    for name in ("since", "at"):
        choice = form.partition(f'<select name="{name}">')[2].partition("</select>")[0]
        for seq in records:
            assert f'<option value="{seq}"' in choice
    assert f'<option value="{first}" selected>' in form
    assert form.count("selected") == 1
    again = site.browser.get(
        f"{site.bases['governed']}manifest/diff?since={second}&at={first}"
    ).text
    assert f'<option value="{second}" selected>' in again
    assert f'<option value="{first}" selected>' in again


def test_two_versions_are_compared_in_both_orders(site: PartSite, records: tuple[int, int]) -> None:
    """PG-91, A-62a: also by the command."""
    first, second = records
    for since, at, order, line in (
        (first, second, "the later", "~ host/puppet@1 effects: 63 -> 62"),
        (second, first, "the earlier", "~ host/puppet@1 effects: 62 -> 63"),
    ):
        path = f"manifest/diff?since={since}&at={at}"
        text = site.text("governed", path)
        assert f"From the manifest of record {since} to {order} one of record {at} ." in text
        assert line in text
        words = site.seen("governed", path).command
        assert words is not None
        printed = here(*words[1:], "--json")
        assert printed.json == site.document("governed", path)
        assert printed.json["since"]["record"] == since
        assert printed.json["now"]["record"] == at
        other = f"{site.bases['governed']}manifest/diff?since={at}&at={since}"
        assert other in site.seen("governed", path).links
    same = site.text("governed", f"manifest/diff?since={second}&at={second}")
    assert "Nothing has changed." in same


def test_a_record_that_is_no_manifest_is_named(site: PartSite, records: tuple[int, int]) -> None:
    """PG-91"""
    first, second = records
    text = site.text("governed", f"manifest/diff?since={first + 2}&at={second + 2}")

    for given, found in ((first + 2, first), (second + 2, second)):
        sentence = f"Record {given} is no manifest: the manifest of record {found} was in force"
        assert sentence in text
    plain = site.text("governed", f"manifest/diff?since={first}&at={second}")
    assert "is no manifest" not in plain


@pytest.mark.parametrize(
    ("query", "status", "text"),
    [
        ("since=1", 404, "no manifest was in force after record 1"),
        ("since=5&at=1", 404, "no manifest was in force after record 1"),
        ("since=99999&at=5", 404, "since: expected a record, 1 to "),
        ("since=99999", 404, "since: expected a record, 1 to "),
        ("since=2&at=99999", 404, "expected a record from 1 to "),
        ("at=5", 400, "since: expected this parameter"),
        ("since=0", 400, "expected 1 to"),
    ],
)
def test_a_manifest_that_was_not_in_force_has_a_sentence(
    site: PartSite, query: str, status: int, text: str
) -> None:
    """PG-91"""
    assert text in site.text("governed", f"manifest/diff?{query}", status)


def test_changes_of_authority_are_apart(site: PartSite) -> None:
    """PG-91, M-60: in a section of their own, before the others."""
    rows = site.document("governed", "proposals")["proposals"]
    [number] = [each["proposal"] for each in rows if each["status"] == "withdrawn"]
    page = site.browser.get(f"{site.bases['governed']}proposals/{number}").text

    authority = page.partition('<section class="authority">')[2].partition("</section>")[0]
    assert "the approval of 3 approvers" in authority
    assert "host/puppet@1 effects" not in authority
    assert page.index('class="authority"') < page.index('class="changes"')

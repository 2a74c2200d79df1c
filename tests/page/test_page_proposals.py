"""The page of a proposal with its votes, its shadow reports and its patch (spec/page.md, PG-92)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aos.core.journal.governing import REPORT
from aos.host.door.writer import open_writer
from aos.host.folder.reader import open_reader
from aos.values.cbor import decode_record, encode
from aos.values.digests import parse_hash
from tests.cli.shell import here
from tests.copies import copied
from tests.node.nodes import front, running_kernel
from tests.page.hostile import TEXTS
from tests.page.part_site import PartSite


@pytest.fixture(scope="module")
def site(governed: Path) -> Iterator[PartSite]:
    found = PartSite(governed)
    yield found
    found.browser.close()


@pytest.fixture(scope="module")
def proposals(governed: Path) -> dict[str, int]:
    """The number of the proposal of each status."""
    rows = here("gov", "list", "--json", "-w", governed).json["proposals"]
    return {each["status"]: each["proposal"] for each in rows}


@pytest.fixture(scope="module")
def shown(governed: Path, proposals: dict[str, int]) -> Any:
    """The document of the open proposal."""
    return here("gov", "show", str(proposals["open"]), "--json", "-w", governed).json


def test_an_open_proposal_shows_its_votes_and_what_each_has_read(
    site: PartSite, shown: Any
) -> None:
    """PG-92"""
    number, first = shown["proposal"], shown["reports"][0]["hash"]
    text = site.text("governed", f"proposals/{number}")
    links = site.seen("governed", f"proposals/{number}").links

    votes = text.partition(" Votes ")[2].partition(" Shadow reports ")[0]
    assert "2 votes; the quorum is 2 of ann, bob, cat" in votes
    assert f"ann approve {shown['votes'][0]['seq']} 20" in votes
    assert f"{first[7:19]} nothing of ours needs five" in votes
    assert "bob reject" in votes
    assert "the order of Mrs. Lee does" in votes
    report = f"{site.bases['governed']}proposals/{number}/report?report=blake3%3A{first[7:]}"
    assert links.count(report) == 2
    assert "It still needs 1 approval (of cat)" in text
    assert "four effects in a step are enough" in text


def test_the_shadow_report_over_most_records_is_on_the_page(site: PartSite, shown: Any) -> None:
    """PG-92: the differences and the blockers, as the command prints them."""
    number = shown["proposal"]
    first, second = shown["reports"]
    text = site.text("governed", f"proposals/{number}")
    report = text.partition("The shadow report over most records:")[2].partition("Definitions")[0]

    assert report.startswith(f" from record {first['from']} to {first['to']} Cells differ.")
    assert "Compared: 2 steps; different: 1, missing in the shadow: 0" in report
    assert "host/puppet@1 1 1 1 fault" in report
    assert f"An apply at record {first['from']} would have been blocked:" in report
    assert "host/puppet@1 much intent_is_open 6 host/echo@1 of record 10" in report
    assert "host/puppet@1 more fault It differs first at record" in report
    assert "kind step fault too_many_effects: expected at most 4 effects, found 6" in report
    assert "At the end waiting 1 failed too_many_effects" in report
    assert "host/echo@1 6 0" in report
    assert "Open at the end: 12 effects as recorded, 6 in the shadow." in report
    other = site.text("governed", f"proposals/{number}/report?report={second['hash']}")
    assert "No cell differs. Compared: 2 steps." in other
    assert "11 of 11 blockers" in other


def test_the_page_of_a_report_is_the_document_of_its_command(
    site: PartSite, shown: Any, governed: Path
) -> None:
    """PG-3, PG-92, C-143"""
    for each in shown["reports"]:
        path = f"proposals/{shown['proposal']}/report?report={each['hash']}"
        words = site.seen("governed", path).command
        assert words is not None
        printed = here(*words[1:], "--json")
        assert printed.code == 0, printed.err

        answer = site.browser.get(f"{site.bases['governed']}{path.replace('?', '.json?')}")

        assert printed.out == answer.text
        assert printed.json["record"] == each["seq"]
        text = here("gov", "show", str(shown["proposal"]), "--report", each["hash"], "-w", governed)
        assert f"from record {each['from']} to {each['to']}" in text.out


def test_the_patch_is_shown(site: PartSite, shown: Any) -> None:
    """PG-92, GV-10"""
    number = shown["proposal"]
    text = site.seen("governed", f"proposals/{number}").text

    assert "1 operation on the manifest that was in force, as JSON" in text
    patch = text.partition("as JSON")[2]
    assert '"replace": {' in patch
    assert f'"base": "{shown["base"]}"' in patch
    assert '"effects": 4' in patch


def test_closed_proposals_show_how_they_ended(site: PartSite, proposals: dict[str, int]) -> None:
    """PG-92"""
    applied = site.text("governed", f"proposals/{proposals['applied']}")
    withdrawn = site.text("governed", f"proposals/{proposals['withdrawn']}")

    assert "applied proposed by operator" in applied
    assert "2 votes" in applied
    assert "No cell differs." in applied
    assert "There was no vote." in withdrawn
    assert "Authority - a manifest needs the approval of 2 approvers" in withdrawn


def test_a_report_that_does_not_have_its_form_is_no_page_but_a_sentence(
    governed: Path, shown: Any, tmp_path: Path
) -> None:
    """PG-21, PG-92: the kernel checks only the head of a report, so the rest may be anything."""
    world = copied(governed, tmp_path / "world")
    number = shown["proposal"]
    with open_reader(world) as reader:
        report: Any = decode_record(reader.store.blob(parse_hash(shown["reports"][0]["hash"])))
    lies = [
        {**report, "cells": TEXTS[0], "to": report["to"] + 3},
        {**report, "differences": [{TEXTS[1]: TEXTS[2]}], "to": report["to"] + 2},
        {**report, "effects": {"recorded": {TEXTS[0]: {"asked": 1, "receipts": {TEXTS[1]: 2}}},
                               "shadow": {}}},
    ]  # fmt: skip
    hashes = []
    with open_writer(world) as writer:
        for lie in lies:
            writer.govern(REPORT, number, report=encode(lie))
    hashes = [
        each["hash"]
        for each in here("gov", "show", str(number), "--json", "-w", world).json["reports"][2:]
    ]
    assert len(hashes) == 3
    site = PartSite(world)
    try:
        for hash, text in zip(
            hashes, ("cells: expected dict, found str", "differences[0].cell: expected this field"),
            strict=False,
        ):  # fmt: skip
            path = f"proposals/{number}/report?report={hash}"
            assert f"does not have the form of aos-shadow/1: {text}" in site.text(
                "world", path, 404
            )
            printed = here("gov", "show", str(number), "--report", hash, "-w", world)
            assert (printed.code, text in printed.err) == (2, True)
        shown_ = site.text("world", f"proposals/{number}")
        assert "The one over most records cannot be shown: report blake3:" in shown_
        hostile = site.text("world", f"proposals/{number}/report?report={hashes[2]}")
        assert TEXTS[0] in hostile
        assert f"2 {TEXTS[1]}" in hostile
    finally:
        site.browser.close()


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("proposals/{open}/report", 400, "report: expected this parameter"),
        ("proposals/{open}/report?report=x", 400, "report: expected"),
        ("proposals/{open}/report?report=" + "0" * 64, 404, "has no journaled report blake3:0000"),
        ("proposals/{withdrawn}/report?report=" + "0" * 64, 404, "journals one"),
        ("proposals/3/report?report=" + "0" * 64, 404, "no proposal is record 3"),
    ],
)
def test_a_report_that_is_not_there_has_a_sentence(
    site: PartSite, proposals: dict[str, int], path: str, status: int, text: str
) -> None:
    """PG-92"""
    assert text in site.text("governed", path.format(**proposals), status)


def test_a_node_shows_reports_and_versions(governed: Path, shown: Any, tmp_path: Path) -> None:
    """PG-51, PG-91, PG-92, N-118d"""
    world = copied(governed, tmp_path / "world")
    number, hash = str(shown["proposal"]), shown["reports"][0]["hash"]
    with (
        running_kernel(world, executors=False) as kernel,
        front(world, tmp_path / "front", kernel, module="aos.page.node_page") as node,
    ):
        client = node.client()
        [address] = [row["address"] for row in client.get("/.json").json()["worlds"]]
        for form in ((), ("--json",)):
            words = ("gov", "show", number, "--report", hash, *form)
            assert here(*words, "--node", node.url) == here(*words, "-w", world)
        page = client.get(f"{address}proposals/{number}")
        assert "The shadow report over most records" in page.text
        assert "2 manifests put in force" in client.get(f"{address}manifest").text
        back = client.get(f"{address}manifest/diff.json?since=16&at=2").json()
        assert (
            back
            == here(
                "inspect", "manifest", "--since", "16", "--at", "2", "--json", "--node", node.url
            ).json
        )

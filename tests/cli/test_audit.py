"""``aos audit``, and the event logs of ``aos export`` (C-41c, C-42a)."""

from __future__ import annotations

import json
import os
import sqlite3
from pathlib import Path

import pytest

from aos.prove.report.chapters import CHAPTERS
from tests.cli.shell import Aos
from tests.copies import copied
from tests.host import puppet


def test_a_report_is_written_in_every_form(aos: Aos, settled: Path, tmp_path: Path) -> None:
    """C-41c. The file decides about the form, and the document is the same."""
    # A bundle is verified in this process, a folder in one of its own.
    assert aos("export", tmp_path / "w.aos", world=settled).code == 0
    for suffix in ("html", "md", "json"):
        done = aos("audit", tmp_path / "w.aos", "--out", tmp_path / f"r.{suffix}")
        assert done.code == 0, done.err
        assert done.out == f"audited to record 16: {tmp_path / f'r.{suffix}'}\n"
    printed = aos("audit", tmp_path / "w.aos", "--json")
    text = aos("audit", tmp_path / "w.aos")

    assert printed.code == text.code == 0
    assert json.loads((tmp_path / "r.json").read_text()) == printed.json
    assert (tmp_path / "r.md").read_text() == text.out
    for _, title, _ in CHAPTERS:
        assert f"## {title}\n" in text.out
        assert f"<h2>{title}</h2>" in (tmp_path / "r.html").read_text()
    assert printed.json["effects"]["answers"][0]["executor"] == "node"


def test_the_counts_are_those_of_inspect(aos: Aos, settled: Path) -> None:
    """C-41c"""
    report = aos("audit", "--json", world=settled).json
    world = aos("inspect", "world", "--json", world=settled).json

    assert report["open"]["cells"] == world["cells"]
    assert report["open"]["intents"] == world["intents"]
    assert report["open"]["mail"] == world["mail"]
    assert report["anchors"]["head"]["log_root"] == world["journal"]["log_root"]
    assert report["horizon"]["last"] == world["journal"]["records"]


def test_a_bundle_has_the_report_of_its_world(aos: Aos, settled: Path, tmp_path: Path) -> None:
    """C-41c. With a replay in the real sandbox."""
    assert aos("export", tmp_path / "w.aos", world=settled).code == 0
    left = aos("audit", "--replay", "--json", world=settled)
    right = aos("audit", tmp_path / "w.aos", "--replay", "--json")

    assert left.code == right.code == 0
    assert left.json == right.json
    assert left.json["replay"]["identical"] is True


def test_an_existing_report_is_kept_without_force(aos: Aos, world: Path, tmp_path: Path) -> None:
    """C-41c"""
    file = tmp_path / "r.md"
    file.write_text("mine")
    assert aos("export", tmp_path / "w.aos", world=world).code == 0

    refused = aos("audit", tmp_path / "w.aos", "--out", file)

    assert refused.code == 1
    assert file.read_text() == "mine"
    assert aos("audit", tmp_path / "w.aos", "--out", file, "--force").code == 0
    assert file.read_text() != "mine"


def test_a_damaged_bundle_has_a_report_and_exit_3(aos: Aos, world: Path, tmp_path: Path) -> None:
    """C-1, C-41c"""
    bundle = tmp_path / "w.aos"
    assert aos("export", bundle, world=world).code == 0
    data = bytearray(bundle.read_bytes())
    data[data.index(b"frame") + 200] ^= 1
    bundle.write_bytes(data)

    done = aos("audit", bundle, "--out", tmp_path / "r.html")

    assert done.code == 3
    assert done.out == ""
    assert "the report names damage" in done.err
    assert "The journal or a value is damaged" in (tmp_path / "r.html").read_text()
    os.truncate(bundle, 100)
    assert aos("audit", bundle, "--json").code == 3


def test_a_store_that_kills_its_reader_has_a_report(
    aos: Aos, lived_in: Path, tmp_path: Path
) -> None:
    """C-1, A-29"""
    path = copied(lived_in, tmp_path / "w")
    os.truncate(path / "store" / "data.mdb", 20_000)

    done = aos("audit", "--json", world=path)

    assert done.code == 3
    assert done.json["verify"]["findings"][0]["kind"] == "store_unreadable"
    assert done.json["problem"] == "the journal cannot be opened"


@pytest.mark.parametrize("words", [("--out", "r.pdf"), ("nowhere.aos",), ("--out", "r")])
def test_a_wrong_word_is_exit_2(aos: Aos, world: Path, words: tuple[str, ...]) -> None:
    """C-1"""
    refused = aos("audit", *words, world=world)

    assert refused.code == 2
    assert refused.out == ""


def test_an_event_log_is_written_in_every_format(aos: Aos, settled: Path, tmp_path: Path) -> None:
    """C-42a"""
    rows = aos("inspect", "intents", "--status", "all", "--json", world=settled).json["intents"]
    cells = aos("inspect", "cells", "--json", world=settled).json["cells"]

    as_json = aos("export", tmp_path / "l.json", "--format", "ocel", "--json", world=settled)
    as_sqlite = aos("export", tmp_path / "l.sqlite", "--format", "ocel", world=settled)
    lines = aos("export", tmp_path / "l.jsonl", "--format", "jsonl", world=settled)
    traces = aos(
        "export", tmp_path / "l.xes", "--format", "xes", "--workflow", "puppet", world=settled
    )

    assert {each.code for each in (as_json, as_sqlite, lines, traces)} == {0}
    made = as_json.json
    assert (made["format"], made["workflow"], made["first"], made["seq"]) == ("ocel", None, 1, 16)
    # The cells, the effects, and the world, which the manifest is about.
    assert made["objects"] == len(cells) + len(rows) + 1
    assert as_sqlite.out.splitlines()[0] == f"exported to record 16: {tmp_path / 'l.sqlite'}"
    assert traces.out.splitlines()[1].startswith(f"  {made['events'] - 1} events and 4 traces, ")
    assert len((tmp_path / "l.jsonl").read_text().splitlines()) == made["events"]
    with sqlite3.connect(tmp_path / "l.sqlite") as database:
        [(events,)] = database.execute("SELECT count(*) FROM event").fetchall()
    database.close()
    assert events == made["events"]


def test_values_are_exported_on_request(aos: Aos, lived_in: Path, tmp_path: Path) -> None:
    """C-42a"""
    file = tmp_path / "l.jsonl"
    assert aos("export", file, "--format", "jsonl", world=lived_in).code == 0
    without = file.read_text()
    done = aos(
        "export", file, "--format", "jsonl", "--values", "scalars", "--force", world=lived_in
    )

    assert done.code == 0
    assert "value." not in without
    assert '"value.key": "ada"' in file.read_text()


@pytest.mark.parametrize(
    "words",
    [
        ("x.json", "--format", "parquet"),
        ("x.xml", "--format", "ocel"),
        ("x.xes", "--format", "xes"),
        ("x.json", "--format", "ocel", "--workflow", "nothing"),
        ("x.json", "--format", "ocel", "--values", "all"),
        ("x.json", "--format", "ocel", "--to", "3"),
        ("x.aos", "--workflow", "puppet"),
        ("x.aos", "--values", "scalars"),
    ],
)
def test_a_wrong_word_for_a_log_writes_nothing(
    aos: Aos, world: Path, tmp_path: Path, words: tuple[str, ...]
) -> None:
    """C-1, C-42a"""
    refused = aos("export", tmp_path / "new" / words[0], *words[1:], world=world)

    assert refused.code == 2, refused.err
    assert not (tmp_path / "new").exists()


def test_a_log_is_read_from_a_running_world(aos: Aos, template: Path, tmp_path: Path) -> None:
    """C-10. Nothing in the folder changes."""
    path = copied(template, tmp_path / "w")
    assert aos("send", puppet.DO, '{"key": "x"}', world=path).code == 0
    before = {
        each: each.read_bytes()
        for each in path.rglob("*")
        if each.is_file() and each.name != "lock.mdb"
    }

    assert aos("export", tmp_path / "l.json", "--format", "ocel", world=path).code == 0
    assert aos("audit", "--out", tmp_path / "r.html", world=path).code == 0

    assert {each: each.read_bytes() for each in before} == before

"""No message quotes all of a long name from outside (C-24a)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from aos.core.decide.answers import Refusal
from aos.host.door.writer import Item, open_writer
from aos.manifest.forms import Misshapen, canonical
from aos.values.cbor import encode
from aos_cli.output import bounded
from tests.cli.shell import Aos, Result
from tests.host import puppet

# Two bytes each in UTF-8, six where a terminal would obey them.
LONG = "\u00e9\u0007" * 500_000
BYTES_MAX = 4096


def quotes_little(found: Result) -> bool:
    """The message was made short, and not only cut where it was printed."""
    lines = (found.out + found.err).splitlines()
    return all(len(each.encode()) <= BYTES_MAX and "bytes left out" not in each for each in lines)


@pytest.mark.parametrize(
    "node",
    [
        {LONG: 1},
        {"$kind": LONG},
        {"$kind": "defschema", "name": LONG, "type": {"unit": {}}},
        {"$kind": "defschema", "name": "a/b@1", "type": {LONG: {}}},
        {"$kind": "defschema", "name": "a/b@1", "type": {"ref": LONG}},
        {"$kind": "defschema", "name": "a/b@1", "type": {"unit": {}}, LONG: 1},
        {"$kind": "defschema", "name": "a/b@1", "type": {"record": {LONG: {"ref": LONG}}}},
        {"$kind": "defsecret", "name": "a/b@1", "binding_id": LONG},
        {"$kind": "defsecret", "name": "a/b@1", "binding_id": {LONG: LONG}},
        {"$kind": "defeffect", "name": "a/b@1", "params": LONG, "receipt": LONG,
         "impl": {"executor": LONG}},
        {"$kind": "defworkflow", "name": "a/b@1", "state": LONG, "event": LONG,
         "effects_emitted": [LONG, LONG], "impl": {"module": LONG, "entrypoint": LONG}},
        {"$kind": "manifest", "air_version": "2", "schemas": [{"name": LONG}], "modules": [],
         "workflows": [], "effects": [], "executors": [{"name": LONG, "keys": [LONG]}]},
    ],
)  # fmt: skip
def test_a_problem_of_a_manifest_quotes_the_beginning(
    aos: Aos, world: Path, tmp_path: Path, node: dict[str, Any]
) -> None:
    """C-24a"""
    folder = tmp_path / "manifest"
    folder.mkdir()
    manifest = {"$kind": "manifest", "air_version": "2", "schemas": [], "modules": [],
                "workflows": [], "effects": []}  # fmt: skip
    nodes = [node] if node.get("$kind") == "manifest" else [node, manifest]
    (folder / "a.air.json").write_text(json.dumps(nodes))

    text = aos("apply", folder, world=world)
    document = aos("apply", folder, "--json", world=world)

    assert (text.code, document.code) == (1, 1)
    assert quotes_little(text)
    assert quotes_little(document)


def test_a_misshapen_node_of_a_document_is_quoted_by_its_beginning() -> None:
    """C-24a"""
    for node in ({"$kind": LONG}, {"$kind": "defschema", "name": [LONG]}):
        with pytest.raises(Misshapen) as found:
            canonical(node)
        assert len(str(found.value)) < 300


@pytest.mark.parametrize(
    "value", [{LONG: 1}, {"key": {LONG: 1}}, {"key": "a", "out": LONG}, LONG, [[LONG]]]
)
def test_a_refused_event_is_quoted_by_its_beginning(
    aos: Aos, world: Path, tmp_path: Path, value: object
) -> None:
    """C-24a. As JSON, in text and in the document of --json; and as CBOR."""
    file = tmp_path / "events.jsonl"
    file.write_text(json.dumps({"schema": puppet.DO, "value": value}))

    text = aos("send", "--jsonl", file, world=world)
    document = aos("send", "--jsonl", file, "--json", world=world)
    with open_writer(world) as writer:
        [answer] = writer.send([Item(schema=puppet.DO, value=encode(value))])  # type: ignore[arg-type]  # any value

    assert (text.code, document.code) == (1, 1)
    assert quotes_little(text)
    assert quotes_little(document)
    assert isinstance(answer, Refusal)
    assert len(answer.message.encode()) <= BYTES_MAX


@pytest.mark.parametrize(
    "toml",
    [
        "NAME = 1",
        "[project]\nname = NAME\nlang = 'rust'",
        "[project]\nname = 'a'\nlang = NAME",
        "[project]\nname = 'a'\nlang = 'rust'\nworld = NAME\nNAME = 1",
        "[project]\nname = 'a'\nlang = 'rust'\n[modules.NAME]\nsource = 'a'",
        "[project]\nname = 'a'\nlang = 'rust'\nexecutors = NAME",
        "[project]\nname = 'a'\nlang = 'rust'\n[manifest]\nNAME = 1\nNAME = 2",
    ],
)
@pytest.mark.parametrize("command", ["build", "dev", "test"])
def test_a_problem_of_aos_toml_quotes_the_beginning(
    aos: Aos, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, toml: str, command: str
) -> None:
    """C-24a"""
    name = json.dumps("\u00e9" * 20_000, ensure_ascii=False)
    (tmp_path / "aos.toml").write_text(toml.replace("NAME", name))
    monkeypatch.chdir(tmp_path)

    found = aos(command)

    assert found.code == 2
    assert quotes_little(found)


@pytest.mark.parametrize(
    "toml",
    [
        "NAME = 1",
        "about = [NAME]\n[[step]]\nsend = 'a'",
        "[[step]]\nNAME = 1",
        "[[step]]\nexpect = NAME",
        "[[step]]\nsend = [NAME]",
        "[[step]]\nsend = 'a'\nvalue = {}\nNAME = 1",
        "NAME = 1\nNAME = 2",
    ],
)
def test_a_problem_of_a_scenario_quotes_the_beginning(aos: Aos, tmp_path: Path, toml: str) -> None:
    """C-24a"""
    name = json.dumps("\u00e9" * 100_000, ensure_ascii=False)
    file = tmp_path / "a.scenario.toml"
    file.write_text(toml.replace("NAME", name))

    found = aos("test", file)

    assert found.code == 2
    assert quotes_little(found)


def test_a_line_of_a_message_is_measured_as_it_is_printed() -> None:
    """C-24a"""
    for text in (
        "a" * 5000,
        "\u00e9" * 3000,
        "\U0001f600" * 1025,
        "\u0007" * 1000,
        "\ud800" * 3000,
    ):
        found = bounded(text)

        assert len(found.encode()) <= BYTES_MAX
        assert "bytes left out) " in found
    assert bounded("\u00e9" * 2048) == "\u00e9" * 2048

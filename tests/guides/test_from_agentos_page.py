"""spec/guides/from_agentos.md is true: a test types its commands, and compares its tables with what
the kernel does."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from aos.manifest.builtin_definitions import EFFECTS
from aos.manifest.load import ManifestProblems, load
from aos.worker.shipped import option_for, shipped_executors
from tests.agentos.agent_surroundings import ANSWER, outside
from tests.agentos.world import THEIRS, WORKSPACES, nodes, published, write_folder
from tests.cli.shell import here
from tests.cookbook.typed import bin_, blocks, follow
from tests.cookbook.worlds import ROOT

pytestmark = pytest.mark.rotated(3)

__all__ = ["bin_"]

PAGE: Final = ROOT / "spec" / "guides" / "from_agentos.md"
OUTPUT: Final = re.compile(r"^```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
GOVERNANCE: Final = {
    f"sys/governance.{verb}@1" for verb in ("propose", "shadow", "approve", "apply")
}


def text() -> str:
    return PAGE.read_text("utf-8")


def section(title: str) -> str:
    return text().partition(f"\n## {title}\n")[2].partition("\n## ")[0]


def rows(title: str) -> list[list[str]]:
    """The cells of a section's table, without its head."""
    lines = [line for line in section(title).splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def typed(briefs: str, model: str) -> list[str]:
    """The blocks of commands, with the ports of this test. The output of ``aos run`` has its
    list of missing options."""
    place = briefs.removeprefix("http://")
    return [
        block.replace("127.0.0.1:8080", place)
        .replace("http://127.0.0.1:8000/v1", model)
        .replace("# lists the missing options", "2>&1")
        for block in blocks(PAGE)
    ]


def test_the_commands_do_what_the_page_says(bin_: Path, tmp_path: Path) -> None:
    write_folder(Path("folder"), published())
    lacks, printed = OUTPUT.findall(text())

    with outside(tmp_path) as around:
        found = [follow(each, bin_=bin_) for each in typed(around.briefs, around.model.url)]

    assert len(found) == 4
    assert set(lacks.splitlines()) <= set(found[1].splitlines()), found[1]
    assert found[2].endswith(printed.strip())
    assert printed.strip().encode() == ANSWER
    assert '"stage": "done"' in found[2]
    assert "byte-identical" in found[3]
    assert Path("checkout/a1.json").read_bytes() == ANSWER


def test_without_the_option_instances_fail_and_resume_as_the_page_says(tmp_path: Path) -> None:
    """AG-2."""
    folder, world = write_folder(tmp_path / "folder", published()), tmp_path / "world"
    value = json.dumps({"id": "a1", "url": "http://127.0.0.1:1/"})

    def status() -> str:
        shown = here("inspect", "cell", "agentos/agent@1", "a1", "--json", "--world", world)
        found: str = shown.json["status"]
        return found

    def done(*words: str | Path) -> None:
        assert here(*words, "--world", world).code == 0

    assert here("init", world).code == 0
    done("apply", folder)
    done("send", "agentos/Begin@1", value)
    done("run", "--until-waiting")
    assert status() == "failed"
    done("apply", folder, "--abi", "agentos")
    done("cells", "retry", "agentos/agent@1", "a1")
    done("run", "--until-waiting")
    assert status() == "waiting"


def test_the_table_has_all_effects_with_their_options() -> None:
    """AG-41, AG-50."""
    found = {row[0].strip("`"): row[1:3] for row in rows("The effects")}

    assert len(found) == 41
    assert set(found) == {*THEIRS, *GOVERNANCE}
    for effect in THEIRS:
        runner, option = (cell.strip("`") for cell in found[effect])
        if EFFECTS[effect]["impl"] == {"executor": "kernel"}:
            assert (runner, option) == ("the kernel", "-"), effect
        elif (name := shipped_executors(effect)) is not None:
            assert (runner, option) == (name, option_for(effect)), effect
        else:
            assert runner == "the process of the world", effect
            is_http = effect == "sys/http.request@1"
            assert option == ("--allow-http HOST" if is_http else "-"), effect


def test_a_folder_with_a_refused_feature_is_answered_as_the_table_says(tmp_path: Path) -> None:
    """AG-40."""
    air = nodes(WORKSPACES)
    named = {each["name"]: each for each in air if "name" in each}
    named["agentos/case@1"]["effects_emitted"] += sorted(GOVERNANCE)
    named["agentos/guest_wasm@1"]["runtime"]["artifact"]["hash"] = "sha256:" + 64 * "0"
    air[-1]["modules"].append({"name": "sys/Http@1"})
    given = {**published(), "air/all.air.json": json.dumps(air).encode()}
    world = tmp_path / "world"
    assert here("init", world).code == 0

    refused = here("apply", write_folder(tmp_path / "f", given), "--abi", "agentos",
                   "--world", world)  # fmt: skip

    assert refused.code == 1
    messages = [row[1].strip("`") for row in rows("Refused features")]
    assert [refused.err.count(each) for each in messages[:3]] == [4, 1, 1], refused.err


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("hash", "leave the hash out and it is filled in"),
        ("defop", 'found "defop"'),
        ("ops", "unknown field ops"),
        ("caps", "unknown field caps"),
        ("policies", "unknown field policies"),
        ("air_version", 'air_version: expected "2", found "1"'),
    ],
)
def test_a_hash_of_a_reference_and_older_formats_are_refused(name: str, message: str) -> None:
    """AG-40."""
    air = nodes(WORKSPACES)
    changes: Mapping[str, Any] = {"ops": [], "caps": [], "policies": [], "air_version": "1"}
    if name == "defop":
        air.insert(0, {"$kind": "defop", "name": "agentos/op@1"})
    elif name == "hash":
        air[-1]["schemas"][0]["hash"] = "sha256:" + 64 * "0"
    else:
        air[-1][name] = changes[name]

    with pytest.raises(ManifestProblems, match=message):
        load({**published(), "air/all.air.json": json.dumps(air).encode()}, abi="agentos")
    assert name in " ".join(row[0] for row in rows("Refused features"))


def test_rules_that_the_page_cites_are_there() -> None:
    rules = (ROOT / "spec" / "agentos.md").read_text("utf-8")

    for rule in re.findall(r"AG-\d+[a-z]?", text()):
        assert f"**{rule}**" in rules, rule

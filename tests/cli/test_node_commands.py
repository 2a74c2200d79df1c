"""The commands of operators do with a node what they do with the folder of its world (C-92)."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from aos.client import Client
from aos.core.decide.answers import Admitted
from aos.errors import AosError
from aos.host.door.writer import open_writer
from aos.host.folder.making import init_world
from aos.manifest.load import load
from tests.cli.shell import Result, here, in_silence, start
from tests.cli.test_commands import GARBAGE, is_sound, running, send
from tests.cli.test_halts import asking, run
from tests.copies import copied
from tests.free_ports import free_port
from tests.host import puppet
from tests.memory_world import schema

WAIT_S = 60.0
RECORD = re.compile(r"(records?|\"seq\":|\"at\":) ?[\d,]+( to [\d,]+)?|seq\": \d+")

CELLS = [
    ("cells", "retry", "puppet", "a"),
    ("cells", "retry", "puppet", "c"),
    ("cells", "retry", "puppet", '"b"', "--skip", "--json"),
    ("cells", "retry", "boring"),
    ("cells", "retry", "puppet"),
    ("cells", "retry", "--all-failed", "--skip"),
    ("cells", "retry", "--all-failed", "--json"),
    ("cells", "unpin", "--all-pinned"),
    ("cells", "unpin", "--all-pinned", "--workflow", "boring"),
    ("cells", "unpin", "puppet", "c"),
    ("cells", "end", "puppet", "c", "w-1", "c", "--dry-run"),
    ("cells", "end", "puppet", "--pattern", "w-[12]", "--dry-run", "--json"),
    ("cells", "end", "puppet", "w-1", "--as", "failed", "--why", "a test"),
    ("cells", "end", "puppet", "w-1"),
    ("cells", "end", "puppet", "--pattern", "w-*", "--json"),
    ("cells", "end", "puppet", "--all", "--dry-run"),
    ("cells", "remove", "puppet", "--pattern", "w-*", "--why", "a test"),
    ("cells", "remove", "puppet", "--pattern", "w-*", "--json"),
    ("cells", "remove", "puppet", "--all", "--dry-run", "--json"),
    ("effects", "retry", "--parked"),
    ("effects", "retry", "--parked", "--effect", "echo", "--json"),
]


@pytest.fixture
def lived_in(world: Path) -> Path:
    """Two instances have failed, one is idle, four wait for effects."""
    send(
        world,
        puppet.do("a", GARBAGE), puppet.do("b", GARBAGE), puppet.do("b"), puppet.do("c"),
        *(puppet.do(f"w-{n}", puppet.asks("hello")) for n in range(4)),
    )  # fmt: skip
    return world


@contextmanager
def served(path: Path, *options: str | Path) -> Iterator[None]:
    """Have a node run the world at ``path``."""
    process = start(
        "node", "--world", path, "--listen", "127.0.0.1:0", *options,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        until = time.monotonic() + WAIT_S
        while not _answers(path):
            assert process.poll() is None
            assert time.monotonic() < until
            time.sleep(0.1)
        yield
        process.terminate()
        assert process.wait(WAIT_S) == 0
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def node(lived_in: Path, tmp_path: Path) -> Iterator[Path]:
    """The folder of a twin of ``lived_in``, whose world a node runs that signs commands."""
    path = copied(lived_in, tmp_path / "twin")
    with served(path, "--operator-key", path / "keys" / "operator.key"):
        yield path


def _answers(path: Path) -> bool:
    try:
        with Client(str(path)) as client:
            client.document("/readyz")
    except AosError:
        return False
    return True


def alike(result: Result) -> tuple[int, str, str]:
    """A result without the numbers of its records, which depend on when steps ran."""
    return result.code, RECORD.sub("record", result.out), RECORD.sub("record", result.err)


def settle_down(path: Path) -> None:
    """Wait until no instance has something to run."""
    until = time.monotonic() + WAIT_S
    while any(
        each["mailbox"] and each["fault"] is None
        for each in here("inspect", "cells", "--json", "--world", path).json["cells"]
    ):
        assert time.monotonic() < until
        time.sleep(0.05)


def test_cells_of_a_node_are_commanded_as_those_of_a_folder(lived_in: Path, node: Path) -> None:
    """C-26 to C-26c, C-27b, C-92"""
    with running(lived_in):
        for words in CELLS:
            for path in (lived_in, node):
                settle_down(path)
            by_folder = here(*words, "--world", lived_in)
            by_node = here(*words, "--node", node)

            if by_folder.err.startswith("aos: ") and by_folder.code:
                assert by_node.code == by_folder.code, (words, by_node)
                assert (by_node.out, by_node.err[:5]) == (by_folder.out, "aos: "), words
            else:
                assert alike(by_node) == alike(by_folder), words
    by_node = here("inspect", "cells", "--json", "--node", node).json["cells"]
    by_folder = here("inspect", "cells", "--json", "--world", lived_in).json["cells"]
    assert [(each["key"], each["status"]) for each in by_node] == [
        (each["key"], each["status"]) for each in by_folder
    ]
    assert {each["key"] for each in by_node} == {"b", "c"}


def test_effects_of_a_node_are_ended_and_its_state_is_saved(node: Path) -> None:
    """C-27, C-27a, C-29, C-92"""
    rows = here("inspect", "intents", "--json", "--node", node).json["intents"]
    first, second, third, _ = (each["intent"] for each in rows)

    canceled = here("effects", "cancel", first, "--node", node)
    settled = here("effects", "settle", second[:20], "--ok", '{"word": "hi"}', "--node", node)
    failed = here(
        "effects", "settle", third, "--error", "gone", "it is gone", "--json", "--node", node
    )
    misfit = here("effects", "settle", rows[3]["intent"], "--ok", '{"word": 1}', "--node", node)
    again = here("effects", "cancel", first, "--node", node)
    twice = here("effects", "settle", first, "--ok", '{"word": "hi"}', "--node", node)
    unknown = here("effects", "cancel", "0123456789abcdef", "--node", node)
    saved = here("snapshot", "--json", "--node", node)
    text = here("snapshot", "--node", node)

    assert canceled.code == settled.code == failed.code == 0, (canceled, settled, failed)
    assert " cancels host/echo@1 of host/puppet@1 w-" in canceled.out
    assert " settles host/echo@1 of host/puppet@1 w-" in settled.out
    assert (failed.json["status"], failed.json["intent"]) == ("error", third)
    found = here("inspect", "intent", second, "--json", "--node", node).json["receipt"]
    assert (found["status"], found["payload"]) == ("ok", {"word": "hi"})
    assert misfit.code == 1
    assert "word" in misfit.err
    assert (again.code, twice.code, unknown.code) == (1, 1, 2)
    assert twice.err == f"aos: intent {first} is not open (it is settled)\n"
    assert (saved.code, text.code) == (0, 0)
    assert saved.json["cells"] == 7
    assert text.out.startswith("snapshot of the world after record ")


def test_a_receipt_may_be_null(tmp_path: Path) -> None:
    """C-27a: in a folder, and over HTTP."""
    files = puppet.files()
    nodes = json.loads(files["m.air.json"])
    for each in nodes:
        if each["$kind"] == "defeffect":
            each["receipt"] = "host/Nothing@1"
        if each["$kind"] == "manifest":
            each["schemas"].append({"name": "host/Nothing@1"})
    nodes.insert(0, schema("host/Nothing@1", {"unit": {}}))
    world = tmp_path / "w"
    init_world(world)
    with open_writer(world) as writer:
        loaded = load({**files, "m.air.json": json.dumps(nodes).encode()})
        assert isinstance(writer.apply(loaded).answer, Admitted)
    send(world, puppet.do("a", puppet.asks("x")), puppet.do("b", puppet.asks("y")))
    rows = here("inspect", "intents", "--json", "--world", world).json["intents"]
    first, second = (each["intent"] for each in rows)

    in_folder = here("effects", "settle", first, "--ok", "null", "--world", world)
    with served(world, "--operator-key", world / "keys" / "operator.key"):
        on_node = here("effects", "settle", second, "--ok", "null", "--node", world)

    assert (in_folder.code, on_node.code) == (0, 0), (in_folder, on_node)
    for intent in (first, second):
        found = here("inspect", "intent", intent, "--json", "--world", world).json["receipt"]
        assert (found["status"], found["payload"]) == ("ok", None)


def test_held_effects_of_a_node_run_again(tmp_path: Path) -> None:
    """C-27b, C-92"""
    world = tmp_path / "w"
    asking(world, 9, "a", "b")
    run(world)
    rows = here("inspect", "intents", "--json", "--world", world).json["intents"]
    held = [each["intent"] for each in rows]
    with served(world):
        every = here("effects", "retry", "--parked", "--json", "--node", world)
        none = here("effects", "retry", "--parked", "--code", "exception", "--node", world)
        unknown = here("effects", "retry", "0123456789abcdef", "--node", world)

    assert every.code == 0, every
    assert every.json["running"] is True
    assert every.json["halted"] == held
    assert sorted(every.json["retried"]) == sorted(held)
    assert none.out == "no effect is parked or held\n"
    assert (unknown.code, unknown.out) == (2, "")


def test_a_node_that_signs_nothing_says_so(lived_in: Path) -> None:
    """C-92"""
    away = f"http://127.0.0.1:{free_port()}"
    with served(lived_in):
        refused = here("cells", "retry", "puppet", "a", "--node", lived_in)
        chosen = here("inspect", "world", "--world", lived_in, env={"AOS_NODE": away})

    assert (refused.code, refused.out, chosen.code) == (1, "", 0)
    assert refused.err.endswith("(or start it with --operator-key FILE)\n")
    for words in [
        ("cells", "retry", "--all-failed"),
        ("effects", "cancel", "0" * 16),
        ("snapshot",),
    ]:
        unreached = here(*words, "--node", away)
        assert unreached == (4, "", unreached.err)
        assert f"the node at {away} does not answer" in unreached.err
    assert in_silence("verify", "--world", lived_in) == 0
    is_sound(lived_in)

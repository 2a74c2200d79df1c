"""A folder of AgentOS from ``aos apply`` to its end, with the executors that ship with AOS.

Six agents fetch a brief over HTTP, ask a model, run a program on its answer, and commit what the
program printed to a workspace. ``aos run`` is killed on the way. Then the world is copied in every
way, and shortened.
"""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from typing import Any, Final, NamedTuple

import pytest

from aos import client
from aos.client import Accepted
from aos.host.folder.folder import open_folder
from aos.values.digests import content_hash
from aos.values.sha256 import true_name
from tests.agentos.agent_surroundings import ANSWER, Outside, outside
from tests.agentos.world import AGENT, published, write_folder
from tests.cli.shell import here, run, start
from tests.copies import copied
from tests.effects.workspace.editor_world import contents, history, named
from tests.effects.workspace.trees import Trees

AGENTS: Final = tuple(f"a{number}" for number in range(6))
STAGES: Final = (
    "sys/http.request@1",
    "sys/llm.generate@1",
    "sys/host.session.open@1",
    "sys/host.fs.write_file@1",
    "sys/host.exec@1",
    "sys/workspace.empty_root@1",
    "sys/workspace.write_ref@1",
    "sys/workspace.write_bytes@1",
    "sys/workspace.read_bytes@1",
    "sys/workspace.resolve@1",
    "done",
)
"""The effects for which an agent waits, in order."""

KILLS: Final = (0.05, 0.25, 0.45)
"""``aos run`` is killed once this part of all stages is done."""

TURNS: Final = (AGENTS[:2], AGENTS[2:4], AGENTS[4:5], AGENTS[5:])
"""The agents that begin before each kill, and after the last one. So there is progress left for the
next kill, however late the one before it is."""

COMMANDS: Final = (("verify",), ("replay", "--core", "both"))
"""The checks of a copy."""

WAIT_S: Final = 150.0
PLACE: Final = "out/answer.json"


class Lived(NamedTuple):
    """The world at its end, and the progress at which ``aos run`` was killed."""

    world: Path
    root: Path
    killed_at: tuple[int, ...]


def begin(world: client.WorldClient, url: str, *agents: str) -> None:
    for each in agents:
        assert isinstance(world.send("agentos/Begin@1", {"id": each, "url": url}), Accepted)


def progress(world: client.WorldClient) -> int:
    """The number of stages that all agents have done."""
    found = [world.instance(AGENT, each) for each in AGENTS]
    assert [each.fault for each in found if each is not None and each.fault] == []
    return sum(STAGES.index(each.state["stage"]) for each in found if each and each.state)


def killed_at(
    path: Path, world: client.WorldClient, around: Outside, agents: tuple[str, ...], least: int
) -> int:
    """Run the world, let these agents begin, and end the process by SIGKILL at this progress, and
    not before it has made some; return the progress."""
    least = max(least, progress(world) + 1)
    process = start("run", *around.options, "--world", path, env=around.env,
                    stderr=subprocess.DEVNULL)  # fmt: skip
    try:
        begin(world, around.briefs, *agents)
        deadline_s = time.monotonic() + WAIT_S
        while progress(world) < least:
            assert time.monotonic() < deadline_s, "it makes no progress"
            assert process.poll() is None, "it ended by itself"
            time.sleep(0.01)
    finally:
        process.kill()
        process.wait()
    return progress(world)


def run_to_the_end(path: Path, around: Outside) -> None:
    words = ("run", "--until-idle", "--max-wait", f"{WAIT_S:.0f}s", *around.options)
    done = run(*words, "--world", path, env=around.env)
    assert done.code == 0, done.err


@pytest.fixture(scope="session")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Lived:
    """Tests that write take a copy."""
    place = tmp_path_factory.mktemp("whole")
    folder, path, root = (place / name for name in ("folder", "world", "root"))
    root.mkdir()
    write_folder(folder, published())
    assert here("init", path).code == 0
    applied = run("apply", folder, "--abi", "agentos", "--world", path)
    assert applied.code == 0, applied.err
    with outside(root) as around:
        stages = len(AGENTS) * (len(STAGES) - 1)
        with client.connect(path) as world:
            killed = tuple(
                killed_at(path, world, around, agents, int(part * stages) + 1)
                for part, agents in zip(KILLS, TURNS, strict=False)
            )
        starter = start("run", "--world", path, stderr=subprocess.DEVNULL)
        try:
            with client.connect(path) as world:
                begin(world, around.briefs, *TURNS[-1])
        finally:
            starter.terminate()
            starter.wait()
        run_to_the_end(path, around)
    return Lived(path, root, killed)


def states(path: Path, agents: tuple[str, ...] = AGENTS) -> dict[str, Any]:
    with client.connect(path) as world:
        found = {each: world.instance(AGENT, each) for each in agents}
    assert [each.fault for each in found.values() if each is not None and each.fault] == []
    return {name: each.state for name, each in found.items() if each is not None}


def has_all_files(path: Path, agents: tuple[str, ...] = AGENTS) -> None:
    """Each agent's version has its files, and the blobs that its state names are there."""
    with open_folder(path).open_store(readonly=True) as store:
        for name, state in states(path, agents).items():
            assert state["stage"] == "done"
            assert named(store, state["printed"]) == ANSWER
            brief = named(store, state["brief"])
            assert brief is not None
            assert json.loads(brief)["role"] == "user"
            assert history(path, name)["versions"][1]["root_hash"] == state["root"]
            assert contents(path, state["root"]) == {PLACE: ANSWER, "id": name.encode()}


def holds(*words: str | Path) -> None:
    done = here(*words)
    assert done.code == 0, done.out + done.err


def test_killed_three_times_each_agent_commits_its_file_once(lived: Lived) -> None:
    """AG-43, AG-52, AG-54, AG-71, AG-107: a program whose end is unknown was run again by its
    agent, as another intent; each intent ran it at most once."""
    assert len(set(lived.killed_at)) == len(KILLS)
    assert max(lived.killed_at) < len(AGENTS) * (len(STAGES) - 1)
    for name, state in states(lived.world).items():
        assert (state["stage"], state["version"]) == ("done", 1)
        assert history(lived.world, name)["latest"] == 1
        runs = (lived.root / f"{name}.log").read_text().count("ran\n")
        assert 1 <= runs <= state["tries"]
    has_all_files(lived.world)


@pytest.mark.parametrize("engine", ["native", "pulley"])
def test_it_replays_on_both_engines(lived: Lived, engine: str) -> None:
    """AG-14."""
    holds("replay", "--core", "both", "--engine", engine, "--world", lived.world)


def test_it_verifies(lived: Lived) -> None:
    """AG-14, AG-35."""
    holds("verify", "--world", lived.world)


@pytest.mark.parametrize("part", [0.5, 1.0])
def test_a_fork_verifies_and_has_the_files(lived: Lived, tmp_path: Path, part: float) -> None:
    """AG-36: from the end, and from the middle, where effects are open."""
    fork = tmp_path / "fork"
    with client.connect(lived.world) as world:
        at = int(world.seq() * part)
    holds("fork", fork, "--at", str(at), "--world", lived.world)
    for command in COMMANDS:
        holds(*command, "--world", fork)
    if part == 1.0:
        has_all_files(fork)


def test_a_bundle_verifies_and_has_the_files(lived: Lived, tmp_path: Path) -> None:
    """AG-36."""
    bundle, imported = tmp_path / "world.aos", tmp_path / "imported"
    holds("export", bundle, "--world", lived.world)
    for command in COMMANDS:
        holds(*command, bundle)
    holds("import", bundle, imported)
    for command in COMMANDS:
        holds(*command, "--world", imported)
    has_all_files(imported)


def test_pruned_and_collected_it_keeps_its_files_and_continues(
    lived: Lived, tmp_path: Path
) -> None:
    """AG-34, AG-56: the only blobs that go are those of a tree that nothing names."""
    world = copied(lived.world, tmp_path / "world")
    trees = Trees()
    abandoned = trees.tree(("draft", b"given up"))
    with open_folder(world).open_store() as store:
        documents = (true_name(each).to_bytes() for each in trees.blobs.values())
        found = [*trees.blobs.values(), *documents]
        store.put_blobs({content_hash(each): each for each in found})
    assert _has(world, abandoned)
    holds("snapshot", "--world", world)
    holds("run", "--until-idle", "--world", world)
    where = ("--archive", tmp_path / "old.aos", "--world", world)
    holds("journal", "prune", "--before", "newest", *where)
    holds("gc", "--keep-snapshots", "1", "--world", world)

    assert not _has(world, abandoned)
    has_all_files(world)
    root = tmp_path / "root"
    root.mkdir()
    with outside(root) as around:
        sent = {"id": "later", "url": around.briefs}
        holds("send", "agentos/Begin@1", json.dumps(sent), "--world", world)
        run_to_the_end(world, around)
    has_all_files(world, (*AGENTS, "later"))
    holds("verify", "--world", world)
    holds("replay", "--core", "both", "--from", "snapshot", "--world", world)


def _has(world: Path, name: str) -> bool:
    with open_folder(world).open_store(readonly=True) as store:
        return named(store, name) is not None

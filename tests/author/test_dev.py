"""aos dev in a process of its own, with a compiler that is not there (AU-80 to AU-89, C-62)."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import httpx
import pytest

from aos.author.project import Project
from aos.errors import Unavailable
from aos.host.door.remote import ask_running
from aos.host.folder.folder import open_folder
from aos.host.folder.making import init_world
from aos.values.cbor import Value, encode
from tests.author import fakes
from tests.author.test_build import ends
from tests.author.test_in_force import changed
from tests.cli.shell import Aos, here, run, start

WAIT_S = 90.0


class Dev:
    """``aos dev``, what it has written, and a way to type to it."""

    def __init__(self, project: Project, *words: str) -> None:
        self.project = project
        self.process = start(
            "dev", project.folder, *words,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env={"PYTHONUNBUFFERED": "1"},
        )  # fmt: skip
        self.said = ""
        self._at = 0
        assert self.process.stdout is not None
        self._reader = threading.Thread(target=self._read, args=(self.process.stdout,))
        self._reader.start()

    def _read(self, out: IO[bytes]) -> None:
        while data := os.read(out.fileno(), 65536):
            self.said += data.decode()

    def type(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line.encode() + b"\n")
        self.process.stdin.flush()

    def expect(self, text: str) -> str:
        """Wait for ``text`` after the last expected text; return the output up to its end."""
        deadline = time.monotonic() + WAIT_S
        while (found := self.said.find(text, self._at)) < 0:
            assert time.monotonic() < deadline, f"expected {text!r} in\n{self.said[self._at :]}"
            assert self.process.poll() is None or text in self.said[self._at :], self.said
            time.sleep(0.02)
        before, self._at = self._at, found + len(text)
        return self.said[before : self._at]

    def write(self, name: str, text: str) -> None:
        (self.project.folder / name).write_text(text)

    def source(self, version: int) -> None:
        self.write("src/lib.rs", fakes.source(fakes.nodes(version=version)))

    def end(self) -> int:
        code = self.process.wait(WAIT_S)
        self._reader.join(WAIT_S)
        return code


@contextlib.contextmanager
def dev(project: Project, *words: str) -> Iterator[Dev]:
    running = Dev(project, *words)
    try:
        yield running
    finally:
        running.process.kill()
        running.process.communicate()
        running._reader.join(WAIT_S)


def do(key: str, *, asks: bool = False, effect: str = "host/echo@1") -> str:
    """A line that makes a cell count, or ask for the echo of a word and then count."""
    fields = f'"key": "{key}"'
    if asks:
        echo: dict[str | int, Value] = {
            "effect": effect,
            "params": encode({"word": "hi"}),
            "issuer_ref": "count",
        }
        out = encode({"state": encode(1), "effects": [echo]})
        fields += f', "out": "{base64.b64encode(out).decode()}"'
    return f"{fakes.DO} {{{fields}}}"


def test_it_follows_every_change_and_says_what_became_of_it(project: Project) -> None:
    """One long story, because each of its processes takes a while to start."""
    with dev(project) as running:
        running.expect("build/shop.wasm")
        running.expect("+ workflow host/puppet@1")
        running.expect("in another terminal: export AOS_WORLD=")
        running.expect("running ")

        # An event, and what the executors answer (AU-86, AU-87).
        running.type(do("ada", asks=True))
        running.expect("event 4: host/Do@1")
        running.expect("step 5: host/puppet@1 ada → waiting")
        running.expect("ok after ")
        running.expect('{"word":"hi!"}')
        running.expect("step 7: host/puppet@1 ada → running")

        # One from another process (AU-87).
        world = project.folder / ".aos/dev"
        sent = here("send", fakes.DO, '{"key": "bob"}', "--world", world)
        assert sent.code == 0
        running.expect("host/puppet@1 bob → running")

        # An invalid line is reported and changes nothing.
        running.type("nonsense")
        running.expect("aos: a line: expected SCHEMA JSON")
        running.type(f"{fakes.DO} {{}}")
        running.expect("aos: host/Do@1: $.key")

        # A compiler that refuses (AU-81).
        running.write("src/lib.rs", "not rust")
        running.expect("src/lib.rs changed: building")
        running.expect("error: expected item, found `not`")
        running.expect("the previous version keeps running")
        running.type(do("ada"))
        running.expect("host/puppet@1 ada → running")

        # A change that fits: states stay (AU-84).
        running.source(2)
        running.expect("host/puppet@1 effects: 63 -> 62")
        running.type(do("ada"))
        running.expect("host/puppet@1 ada → running")
        assert (
            here("inspect", "cell", "puppet", "ada", "--json", "--world", world).json["state"] == 4
        )

        # Executors that cannot be loaded: the world continues, their effects wait (AU-85).
        running.write("effects.py", "nonsense(")
        running.expect("effects.py changed: restarting executors")
        running.expect("SyntaxError: '(' was never closed")
        running.expect("the world runs without executors")
        running.expect("running ")
        running.type(do("eve", asks=True))
        running.expect("host/puppet@1 eve is waiting")

        # Something is in flight: pinned (AU-84).
        running.source(3)
        running.expect("instances in flight finish on the version that they began with")
        running.expect("host/puppet@1 effects: 62 -> 61")
        running.write("effects.py", fakes.EFFECTS.replace('"!"', '"?"'))
        running.expect("effects.py changed: restarting executors")
        running.expect('{"word":"hi?"}')
        running.expect("host/puppet@1 eve → running")

        # Stored states that do not fit: keep the old version, or an empty world (AU-82, AU-84).
        running.write(
            "src/lib.rs",
            fakes.source(fakes.nodes()).replace(
                '"host/Count@1", "type": {"nat"', '"host/Count@1", "type": {"int"'
            ).replace('{"nat": {}}', '{"text": {}}').replace('{"int": {}}', '{"text": {}}'),
        )  # fmt: skip
        running.expect("cell_does_not_fit")
        running.expect("type `fresh`")
        running.expect("or migrate the old states: migrate(from = …, by = …) in #[workflow]")
        running.expect("the previous version keeps running")
        before = open_folder(world).world
        running.type("fresh")
        running.expect("an empty world")
        running.expect("+ schema host/Count@1")
        running.expect("running ")
        assert open_folder(world).world != before
        running.source(1)
        running.expect("~ schema host/Count@1")
        running.type(do("new"))
        running.expect("host/puppet@1 new → running")

        # The end (AU-88).
        running.process.send_signal(signal.SIGTERM)
        assert running.end() == 0
        assert "Traceback (most recent call last)" not in running.said.split("SyntaxError")[-1]
    with pytest.raises(Unavailable):
        ask_running(world, "status")
    assert here("verify", "--world", world).code == 0


def test_an_effect_that_the_manifest_does_not_have_is_told_until_it_is_mended(
    project: Project,
) -> None:
    """AU-85a"""

    def with_effect(name: str) -> str:
        text = fakes.source(fakes.nodes())
        return text.replace('"host/echo@1"', json.dumps(name))

    refund = '@effect("host/refund@1")\ndef refund(params, ctx):\n    return params\n\nechoes ='
    more = fakes.EFFECTS.replace("echoes =", refund).replace("[echo]", "[echo, refund]")
    project.folder.joinpath("effects.py").write_text(more)
    with dev(project) as running:
        # One more than there are: the others are run.
        running.expect(
            'aos: @effect("host/refund@1") is not in the manifest, so no workflow requests it: '
            "expected one of host/echo@1 (fix the name, or define the effect and have a workflow "
        )
        running.expect("running ")
        running.type(do("ada", asks=True))
        running.expect('{"word":"hi!"}')

        # A slip, which aos run refuses, and which the sources mend.
        running.write("effects.py", fakes.EFFECTS.replace("host/echo@1", "host/ecco@1"))
        running.expect("executor echoes runs host/ecco@1, which the manifest does not define (did")
        running.expect("the world runs without executors")
        running.expect("running ")
        running.write("src/lib.rs", with_effect("host/ecco@1"))
        running.expect("+ effect host/ecco@1")
        running.expect("running ")
        running.type(do("bob", asks=True, effect="host/ecco@1"))
        running.expect('{"word":"hi!"}')

        # The manifest loses it while it is run: told, and silent once it is back.
        running.write("src/lib.rs", with_effect("host/shout@1"))
        running.expect('aos: @effect("host/ecco@1") is not in the manifest')
        running.write("src/lib.rs", with_effect("host/ecco@1"))
        running.expect("+ effect host/ecco@1")
        running.type(do("eve", asks=True, effect="host/ecco@1"))
        running.expect('{"word":"hi!"}')
        running.type("quit")

        assert running.end() == 0
    assert running.said.count("is not in the manifest") == 2


def test_states_are_taken_over_while_the_world_runs(project: Project) -> None:
    """AU-84b"""
    with dev(project) as running:
        running.expect("running ")
        running.type(do("ada"))
        running.expect("host/puppet@1 ada → running")
        changed(project)
        running.expect("host/puppet@1: its migration has converted the old states")
        running.type("quit")

        assert running.end() == 0
    world = project.folder / ".aos/dev"
    found = here("inspect", "cell", "puppet", "ada", "--json", "--world", world)
    assert found.json["state"] == [2]
    assert here("replay", "--world", world).code == 0


def test_a_project_that_cannot_be_built_is_waited_for(project: Project) -> None:
    """AU-81"""
    (project.folder / "src/lib.rs").write_text("not rust")
    with dev(project) as running:
        running.expect("error: expected item, found `not`")
        running.expect("waiting for a change")
        running.source(1)
        running.expect("+ workflow host/puppet@1")
        running.type(do("ada"))
        running.expect("host/puppet@1 ada → running")
        running.type("quit")

        assert running.end() == 0


def test_ctrl_c_ends_it_while_it_compiles(project: Project) -> None:
    """AU-4, AU-88"""
    (project.folder / "src/lib.rs").write_text("takes for ever")
    with dev(project) as running:
        file, deadline = project.folder / "compiling", time.monotonic() + WAIT_S
        while not (file.exists() and file.read_text()):
            assert time.monotonic() < deadline
            time.sleep(0.02)
        running.process.send_signal(signal.SIGINT)

        assert running.end() == 0
    assert ends(int(file.read_text()))


def test_one_runs_a_project_and_its_world_ends_with_it(project: Project) -> None:
    """AU-82, AU-85"""
    world = project.folder / ".aos/dev"
    with dev(project) as running:
        running.expect("running ")

        second = run("dev", project.folder, "--fresh", "--until-idle", input="")
        running.process.kill()
        running.end()

    assert second.code == 4
    assert "the world is written by pid" in second.err
    deadline = time.monotonic() + WAIT_S
    with contextlib.suppress(Unavailable):
        while ask_running(world, "status"):
            assert time.monotonic() < deadline, "it is still run"
            time.sleep(0.05)
    assert here("run", "--until-idle", "--world", world).code == 0


def test_with_a_page_the_scratch_world_is_shown_until_the_end(project: Project) -> None:
    """PG-24, C-62"""
    with dev(project, "--page", "--fresh") as running:
        url = running.expect("valid once: ") and running.expect("\n").strip()
        running.expect("to end")
        with httpx.Client(follow_redirects=True, timeout=WAIT_S, trust_env=False) as client:
            shown = client.get(url)
            assert shown.status_code == 200
            assert str(project.folder / ".aos/dev") in shown.text
        running.process.send_signal(signal.SIGINT)
        assert running.end() == 0
        with pytest.raises(httpx.ConnectError):
            httpx.get(url, trust_env=False)


def test_until_idle_sends_what_stdin_has_shows_it_and_ends(project: Project) -> None:
    """AU-82, AU-89"""
    lines = f"{do('ada', asks=True)}\n\n{do('bob')}\n"
    bad = f"{fakes.DO} {{}}\n{do('ada')}\nnonsense"

    first = run("dev", project.folder, "--until-idle", input=lines)
    second = run("dev", project.folder, "--until-idle", input=bad)

    assert first.code == 0, first.err
    assert first.out.count("event ") == 2
    assert '{"word":"hi!"}' in first.out
    assert "+ workflow host/puppet@1" in first.out
    assert "host/puppet@1 ada → running" in first.out
    assert second.code == 1, "a line is refused, and the others are sent all the same"
    assert "aos: host/Do@1: $.key" in second.err
    assert "+ workflow" not in second.out, "the world is the one of before"
    assert "host/puppet@1 ada → running" in second.out


def test_until_idle_what_cannot_be_built_or_run_is_its_exit_code(project: Project) -> None:
    """AU-89"""
    good = (project.folder / "src/lib.rs").read_text()
    (project.folder / "src/lib.rs").write_text("not rust")
    unbuilt = run("dev", project.folder, "--until-idle", input="")
    (project.folder / "src/lib.rs").write_text(good)
    (project.folder / "effects.py").write_text("nonsense(")
    unrun = run("dev", project.folder, "--until-idle", input="")

    assert unbuilt.code == 1
    assert "the Rust compiler failed" in unbuilt.err
    assert unrun.code == 2
    assert "SyntaxError" in unrun.err


def test_a_world_that_is_not_its_own_is_never_run(aos: Aos, project: Project) -> None:
    """AU-82"""
    init_world(project.folder / ".aos/dev")

    refused = aos("dev", project.folder, "--until-idle")

    assert refused.code == 1
    assert "this is not a scratch world of aos dev, so it is not changed" in refused.err


def test_a_path_outside_of_projects_is_refused(aos: Aos, tmp_path: Path) -> None:
    assert aos("dev", tmp_path).code == 2

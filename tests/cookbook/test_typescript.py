"""manifests/cookbook/typescript: a client of a node, generated from its OpenAPI document."""

from __future__ import annotations

import email.utils
import http.server
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from tests.cli.shell import here
from tests.client.conftest import template
from tests.cookbook.typed import bin_, blocks, follow
from tests.cookbook.worlds import ROOT, executors, recipe
from tests.copies import copied
from tests.free_ports import free_port
from tests.node.test_node_process import WAIT_S, started, wait_until
from tests.tools import missing

pytestmark = pytest.mark.rotated(3)

__all__ = ["bin_", "template"]

FOLDER: Final = recipe("typescript")

RETRIES: Final = """
import { Client, NodeError } from "CLIENT";
const client = new Client(process.env.URL, { retries: 3, token: "t" });
const said = [];
said.push((await client.send("a/B@1", {}, {}, "key")).seq);
said.push((await client.readWorld()).cells);
try { await client.sendCommand({ action: "retry" }); }
catch (error) { said.push([error instanceof NodeError, error.status, error.problem.rule]); }
try { await client.readManifest(); }
catch (error) { said.push([error.status, error.message]); }
console.log(JSON.stringify(said));
"""

FEED: Final = """
import { Client } from "CLIENT";
const client = new Client(process.env.AOS_NODE);
for await (const event of client.streamFeed({ schema: ["trip/Booked@1"] })) {
  console.log(event.data.key);
}
"""


SLOW: Final = """
import { Client } from "CLIENT";
const client = new Client(process.env.URL, { retries: 0, answerMs: 300, silenceMs: 300 });
const said = [];
try { await client.readWorld(); }
catch (error) { said.push(error.message); }
for await (const event of client.streamFeed({ schema: ["a/B@1"] })) {
  said.push(event.id);
  if (event.id === "2") break;
}
console.log(JSON.stringify(said));
"""


@pytest.fixture(scope="session")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The client, compiled by the pinned compiler with every strict option of its project."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        missing("there is no Node.js here: the TypeScript client is not tested")
    folder = tmp_path_factory.mktemp("typescript") / "client"
    shutil.copytree(FOLDER, folder, ignore=shutil.ignore_patterns("node_modules", "dist"))
    for words in (["npm", "ci", "--silent", "--no-audit", "--no-fund"], ["npx", "tsc"]):
        done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    return folder


def script(folder: Path, text: str, name: str) -> Path:
    file = folder / f"{name}.mjs"
    file.write_text(text.replace("CLIENT", str(folder / "dist" / "client.js")))
    return file


def test_the_client_is_the_one_of_the_document() -> None:
    command = [sys.executable, str(FOLDER / "generate.py"), str(ROOT / "spec" / "openapi.json")]
    written = subprocess.run(command, capture_output=True, text=True, check=True).stdout

    assert written == (FOLDER / "client.ts").read_text()
    document = json.loads((ROOT / "spec" / "openapi.json").read_text())
    operations = [each for methods in document["paths"].values() for each in methods.values()]
    for each in operations:
        first, *rest = each["operationId"].split("_")
        assert f"\n  {first}{''.join(word.title() for word in rest)}(" in written


def test_the_lock_file_has_no_addresses() -> None:
    assert "http" not in (FOLDER / "package-lock.json").read_text()


def test_the_commands_of_the_readme_do_what_it_says(bin_: Path, compiled: Path) -> None:
    for name in ("manifests", "modules"):
        Path(name).symlink_to(ROOT / name)
    for name in ("node", "npm", "npx", "curl"):
        found = shutil.which(name)
        assert found is not None
        if not (bin_ / name).exists():
            (bin_ / name).symlink_to(found)
    port = str(free_port())  # other tests run at the same time
    typed = [
        block.replace("7460", port).replace("aos node", f"aos node --listen 127.0.0.1:{port}")
        for block in blocks(FOLDER / "README.md")
    ]

    found = "".join(follow(block, bin_=bin_) for block in typed)

    [shown] = [
        each.partition("```")[0]
        for each in (FOLDER / "README.md").read_text().split("```text\n")[1:]
    ]
    assert shown in found, found


class Answers:
    """A node that answers as it is told, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, dict[str, str]]] = []
        self.answers: dict[str, list[tuple[int, dict[str, str], Any]]] = {}


@contextmanager
def answering(answers: Answers) -> Iterator[str]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def answer(self) -> None:
            size = int(self.headers.get("content-length") or 0)
            self.rfile.read(size)
            headers = {name.lower(): value for name, value in self.headers.items()}
            answers.asked.append((self.command, self.path, headers))
            status, more, document = answers.answers[self.path].pop(0)
            if status == 0:
                self.close_connection = True
                return
            data = json.dumps(document).encode()
            self.send_response(status)
            for name, value in {**more, "content-length": str(len(data))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = answer  # noqa: N815

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/"
    finally:
        server.shutdown()
        server.server_close()


def test_only_requests_that_may_be_repeated_are_repeated(compiled: Path) -> None:
    problem = {"type": "urn:aos:x", "status": 503, "rule": "stopping", "detail": "it stops"}
    date = email.utils.formatdate(time.time() + 5, usegmt=True)
    began = time.monotonic()
    answers = Answers()
    answers.answers = {
        "/v1/events": [(0, {}, None), (503, {"retry-after": "0"}, problem), (200, {}, {"seq": 7})],
        "/v1/world": [(429, {"retry-after": date}, problem), (200, {}, {"cells": 3})],
        "/v1/commands": [(503, {}, problem)],
        "/v1/manifest": [(404, {}, "not a problem")],
    }
    with answering(answers) as url:
        file = script(compiled, RETRIES, "retries")
        done = subprocess.run(
            ["node", file], env={**os.environ, "URL": url}, capture_output=True, text=True,
            timeout=WAIT_S, check=False,
        )  # fmt: skip

    assert time.monotonic() - began > 3.9, "Retry-After may be a date"
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [7, 3, [True, 503, "stopping"], [404, '"not a problem"']]
    assert [path for _, path, _ in answers.asked] == [
        "/v1/events", "/v1/events", "/v1/events", "/v1/world", "/v1/world", "/v1/commands",
        "/v1/manifest",
    ]  # fmt: skip
    keys = [headers.get("idempotency-key") for _, _, headers in answers.asked]
    assert keys == ["key"] * 3 + [None] * 4
    assert {headers["authorization"] for _, _, headers in answers.asked} == {"Bearer t"}


def test_a_node_that_answers_slowly_or_is_silent_is_given_up(compiled: Path) -> None:
    """W-4b: an answer has a time, however often a part of it comes; so has the silence of a
    stream, which continues behind its last event."""
    is_over = threading.Event()
    resumed: list[str | None] = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            if "feed" not in self.path:
                while not is_over.wait(0.05):
                    self.wfile.write(b" ")
                return
            resumed.append(self.headers.get("last-event-id"))
            self.wfile.write(f"id: {len(resumed)}\ndata: {{}}\n\n".encode())
            is_over.wait(WAIT_S)

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        done = subprocess.run(
            ["node", script(compiled, SLOW, "slow")],
            env={**os.environ, "URL": f"http://127.0.0.1:{server.server_port}"},
            capture_output=True, text=True, timeout=WAIT_S, check=False,
        )  # fmt: skip
    finally:
        is_over.set()
        server.shutdown()
        server.server_close()

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [
        "the node has sent no whole answer within 300 ms", "1", "2",
    ]  # fmt: skip
    assert resumed == [None, "1"]


def test_a_feed_continues_when_the_front_is_killed(
    compiled: Path, template: Path, tmp_path: Path
) -> None:
    path = copied(template, tmp_path / "trips")
    seen = tmp_path / "seen"
    with (
        started(path, tmp_path / "log", "--executors", executors("saga", "agencies")) as node,
        seen.open("w") as opened,
    ):
        reader = subprocess.Popen(
            ["node", script(compiled, FEED, "feed")], env={**os.environ, "AOS_NODE": node.url},
            stdout=opened,
        )  # fmt: skip
        try:
            for number in range(4):
                if number == 2:
                    wait_until(lambda: seen.read_text().split() == ["f-0", "f-1"])
                    [front] = node.fronts()
                    os.kill(front, signal.SIGKILL)
                    wait_until(lambda before=front: node.fronts() not in ([], [before]))
                value = json.dumps({"trip_id": f"f-{number}", "city": "Lisbon"})
                sent = here("send", "trip/Requested@1", value, "--world", path)
                assert sent.code == 0, sent.err
            wait_until(lambda: seen.read_text().split() == [f"f-{each}" for each in range(4)])
        finally:
            reader.kill()
            reader.wait()

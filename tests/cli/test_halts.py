"""Forgetting an option of ``aos run`` loses nothing (spec/cli.md, C-25, C-27b; K-99)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from aos.core.decide.answers import Admitted
from aos.host.door.writer import open_writer
from aos.host.folder.making import init_world
from aos.manifest.load import load
from tests.cli.shell import Result, here
from tests.host.puppet import asks_for, do, files

HTTP = "sys/http.request@1"


@contextmanager
def a_bank() -> Iterator[tuple[int, list[str]]]:
    """A server on this machine: its port, and the idempotency keys of the requests that came."""
    keys: list[str] = []

    class Bank(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            keys.append(self.headers["Idempotency-Key"])
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Bank)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_port, keys
    finally:
        server.shutdown()
        server.server_close()


def asking(path: Path, port: int, *cells: str) -> None:
    """Make a world in which each cell has asked the bank once."""
    init_world(path)
    request: dict[str, Any] = {
        "method": "POST", "url": f"http://127.0.0.1:{port}/pay", "headers": {}, "body": None,
        "body_ref": None,
    }  # fmt: skip
    with open_writer(path) as writer:
        assert isinstance(writer.apply(load(files(effects=(HTTP,)))).answer, Admitted)
        list(writer.send([do(each, asks_for((HTTP, request))) for each in cells]))


def run(world: Path, *options: str) -> Result:
    return here("run", "--until-idle", "--world", world, *options)


def test_forgetting_allow_http_loses_nothing_and_each_request_is_sent_once(tmp_path: Path) -> None:
    """X-15, X-18, X-19: told at the start and once for its cause; a restart sends each."""
    world = tmp_path / "w"
    with a_bank() as (port, keys):
        asking(world, port, "a", "b", "c")
        for _ in range(2):
            forgot = run(world)
            assert forgot.code == 0
            assert f"  {HTTP}: no host is allowed (--allow-http HOST)" in forgot.err
            assert forgot.err.count(f"run the world with --allow-http 127.0.0.1:{port}") == 1
            assert f"3 held: {HTTP}: http_not_allowed" in forgot.out
        assert keys == []
        journal = here("inspect", "journal", "--kind", "attempt", "--world", world, "--json")
        assert [each["phase"] for each in journal.lines] == ["held"] * 3, "once, not each time"

        [row] = here("inspect", "world", "--world", world, "--json").json["intents"]["halted"]
        assert (row["effect"], row["phase"], row["code"], row["count"]) == (
            HTTP, "held", "http_not_allowed", 3,
        )  # fmt: skip
        found = here("inspect", "intents", "--parked", "--world", world, "--json").json["intents"]
        assert [each["halt"]["code"] for each in found] == ["http_not_allowed"] * 3
        why = here("inspect", "intent", found[0]["intent"], "--world", world).out
        assert f"run the world with --allow-http 127.0.0.1:{port}" in " ".join(why.split())
        assert "aos effects retry" in why
        assert "attempt 1 held" in here("trace", found[0]["intent"], "--world", world).out

        allowed = run(world, "--allow-http", f"127.0.0.1:{port}")

    assert allowed.err.count("lacks") == 0
    assert len(keys) == len(set(keys)) == 3
    assert here("inspect", "intents", "--world", world, "--json").json["intents"] == []
    assert here("verify", "--world", world).code == 0
    assert here("replay", "--world", world).code == 0


def test_effects_retry_without_a_process_says_who_will(tmp_path: Path) -> None:
    """C-27b."""
    world = tmp_path / "w"
    asking(world, 9, "a", "b")
    assert (
        "no effect is parked or held" in here("effects", "retry", "--parked", "--world", world).out
    )
    run(world)
    [gone, _] = here("inspect", "intents", "--world", world, "--json").json["intents"]
    told = here("effects", "retry", "--parked", "--code", "http_not_allowed", "--world", world)
    assert told.out == ("no process runs this world: the next aos run retries 2 effects\n")
    other = here("effects", "retry", "--parked", "--code", "exception", "--world", world)
    assert other.out == "no effect is parked or held\n"

    assert here("effects", "cancel", gone["intent"], "--world", world).code == 0
    refused = here("effects", "retry", gone["intent"], "--world", world)
    assert refused.code == 1
    assert "neither parked nor held" in refused.err


@pytest.mark.parametrize("words", [(), ("abcdef01", "--parked"), ("abcdef01", "--code", "x")])
def test_effects_retry_wants_intents_or_parked(tmp_path: Path, words: tuple[str, ...]) -> None:
    refused = here("effects", "retry", *words, "--world", tmp_path)
    assert refused.code == 2
    assert "expected intents, or --parked" in refused.err

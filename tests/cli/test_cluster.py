"""``aos cluster up``: three servers on this machine (C-117; spec/cluster.md, CL-30 to CL-36)."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aos.host.nats_program import PROGRAM_VARIABLE
from aos.host.nats_servers import SERVERS
from aos.store.log.entry import parts_of
from aos.store.log.log import LogUnreachable
from aos.store.log.nats_address import NatsAddress
from aos.store.log.nats_connection import NatsConnection
from aos.store.log.nats_durability import check_durable
from aos.store.log.nats_errors import Unanswered
from aos.store.log.nats_log import NatsLog
from tests.cli.shell import Result, here, start
from tests.nats_servers import nats_program, new_log
from tests.running_process import is_running

WAIT_S = 90.0


@contextlib.contextmanager
def cluster(folder: Path, *words: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process of ``aos cluster up``, and the end of it whatever happens."""
    nats_program()
    with start("cluster", "up", folder, "--json", *words, stdout=subprocess.PIPE,
               stderr=subprocess.PIPE) as process:  # fmt: skip
        try:
            yield process
        finally:
            process.kill()


def line_of(process: subprocess.Popen[bytes]) -> Any:
    assert process.stdout is not None
    return json.loads(process.stdout.readline())


def ended(process: subprocess.Popen[bytes], number: int = signal.SIGINT) -> Result:
    """End a process by a signal."""
    process.send_signal(number)
    out, err = process.communicate(timeout=WAIT_S)
    return Result(process.returncode, out.decode(), err.decode())


def check_gone(pids: list[int]) -> None:
    until = time.monotonic() + WAIT_S
    while any(map(is_running, pids)):
        assert time.monotonic() < until
        time.sleep(0.02)


def test_three_servers_run_until_a_signal_and_again_with_the_same_address_and_data(  # CL-30, CL-32
    tmp_path: Path,
) -> None:
    folder = tmp_path / "my servers"
    with cluster(folder) as process:
        first = line_of(process)
        pids = [row["pid"] for row in first["servers"]]
        assert [row["name"] for row in first["servers"]] == ["n1", "n2", "n3"]
        check_durable([row["monitor"] for row in first["servers"]], ["n1", "n2", "n3"])
        with NatsConnection(address_of(first)) as connection:
            log = new_log(connection, replicas=3)
            log.append(parts_of(b"kept", 8), 0)

        refused = here("cluster", "up", folder)
        assert refused.code == 4
        assert "another process runs the servers of this folder" in refused.err
        os.kill(pids[1], signal.SIGKILL)
        assert line_of(process) == {"ended": "n2", "code": -9}

        assert ended(process).code == 0
        check_gone(pids)

    with cluster(folder) as process:
        again = line_of(process)
        assert again["url"] == first["url"]
        with NatsConnection(address_of(again)) as connection:
            [message] = until_answered(connection, log.stream)
            assert message.part is not None
            assert message.part.data == b"kept"
        # The servers end with a process that can end nothing any more.
        process.kill()
        check_gone([row["pid"] for row in again["servers"]])


def address_of(document: Any) -> NatsAddress:
    return NatsAddress.parse(document["url"].replace("NAME", "shop"))


def until_answered(connection: NatsConnection, stream: str) -> list[Any]:
    until = time.monotonic() + WAIT_S
    while True:
        try:
            return list(NatsLog(connection, stream).read(0))
        except (LogUnreachable, Unanswered):
            assert time.monotonic() < until


def test_a_cluster_with_one_server_left_ends(tmp_path: Path) -> None:  # CL-34
    with cluster(tmp_path / "servers") as process:
        pids = [row["pid"] for row in line_of(process)["servers"]]
        for pid in pids[:2]:
            os.kill(pid, signal.SIGKILL)
        out, err = process.communicate(timeout=WAIT_S)

        assert process.returncode == 4
        assert out.count(b'"ended"') == 2
        assert b"too few servers are left" in err
        assert b"expected at least 2 of 3, found 1" in err
        check_gone(pids)


def test_a_server_that_cannot_start_is_named_with_its_log(tmp_path: Path) -> None:  # CL-33
    with cluster(tmp_path) as process:
        line_of(process)
        assert ended(process).code == 0
    shutil.rmtree(tmp_path / "n2")
    (tmp_path / "n2").write_text("a file where the data of n2 goes")

    ran = here("cluster", "up", tmp_path)

    assert ran.code == 4
    assert "the server n2 ended" in ran.err
    assert "n2.log" in ran.err


@pytest.mark.parametrize("port", ["0", "-1", "65536", "63534", "x"])
def test_a_port_that_is_none_is_refused_and_nothing_is_made(tmp_path: Path, port: str) -> None:
    # CL-31
    nats_program()
    ran = here("cluster", "up", tmp_path / "servers", "--port", port)

    assert ran.code == 2
    assert not (tmp_path / "servers").exists()


def test_ports_in_use_and_ports_of_another_start_are_refused(tmp_path: Path) -> None:  # CL-31
    nats_program()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        if port < 60_000:
            ran = here("cluster", "up", tmp_path / "a", "--port", str(port))
            assert ran.code == 4
            assert f"port {port} of 127.0.0.1 cannot be used" in ran.err
    folder = tmp_path / "b"
    folder.mkdir()
    (folder / "cluster.json").write_text('{"ports": [[1001, 1, 2], [1002, 3, 4], [1003, 5, 6]]}')
    ran = here("cluster", "up", folder, "--port", "4222")
    assert ran.code == 2
    assert "expected no --port, or --port 1001, found --port 4222" in ran.err


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[1]",
        '{"ports": 1}',
        '{"ports": [[1, 2]]}',
        "{",
        '{"ports": [[1, 2, 70000], [3, 4, 5], [6, 7, 8]]}',
    ],
)
def test_a_damaged_file_of_ports_is_damage_and_is_kept(tmp_path: Path, text: str) -> None:  # CL-32
    nats_program()
    file = tmp_path / "cluster.json"
    file.write_text(text)

    ran = here("cluster", "up", tmp_path)

    assert ran.code == 3
    assert "the file of ports cannot be read" in ran.err
    assert file.read_text() == text


def test_a_path_that_is_no_folder_is_refused(tmp_path: Path) -> None:  # CL-30
    nats_program()
    file = tmp_path / "file"
    file.write_text("")

    for path in (file, file / "below"):
        ran = here("cluster", "up", path)
        assert ran.code == 2
        assert "not a folder for servers" in ran.err


def program(folder: Path, text: str) -> Path:
    path = folder / "nats-server"
    path.write_text(f"#!{sys.executable}\nprint({text!r})\n")
    path.chmod(0o700)
    return path


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        ("nats-server: v2.9.25", 1, "expected 2.14 or newer, found v2.9.25"),
        ("nats-server: v2.13.9", 1, "this release of nats-server is too old"),
        ("something else", 2, "is no nats-server"),
    ],
)
def test_a_program_that_is_too_old_or_another_is_refused(  # CL-35
    tmp_path: Path, text: str, code: int, words: str
) -> None:
    other = program(tmp_path, text)

    ran = here("cluster", "up", tmp_path / "servers", env={PROGRAM_VARIABLE: str(other)})

    assert ran.code == code
    assert words in ran.err
    assert not (tmp_path / "servers").exists()


def test_without_the_program_the_error_says_how_to_get_it(tmp_path: Path) -> None:  # CL-35
    none = here(
        "cluster", "up", tmp_path / "servers", env={PROGRAM_VARIABLE: str(tmp_path / "none")}
    )
    assert none.code == 2
    assert "AOS_NATS_SERVER: expected the path of a program" in none.err


def test_the_program_is_found_next_to_the_python_that_runs(  # CL-35
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path, "nats-server: v2.9.25")
    monkeypatch.delenv(PROGRAM_VARIABLE, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))

    assert "found v2.9.25" in here("cluster", "up", tmp_path / "servers").err

    monkeypatch.setattr(sys, "executable", str(tmp_path / "empty" / "python"))
    ran = here("cluster", "up", tmp_path / "servers")
    assert ran.code == 2
    assert "nats-server was not found (install nats-server 2.14 or newer (make nats-server" in (
        ran.err
    )


def test_a_configuration_syncs_and_is_for_this_machine_alone(
    tmp_path: Path,
) -> None:  # CL-10, CL-33
    with cluster(tmp_path / "servers") as process:
        assert len(line_of(process)["servers"]) == SERVERS
        for name in ("n1", "n2", "n3"):
            document = json.loads((tmp_path / "servers" / f"{name}.conf").read_text())
            assert document["jetstream"]["sync_interval"] == "always"
            places = (document["listen"], document["http"], document["cluster"]["listen"])
            assert all(place.startswith("127.0.0.1:") for place in places)


def test_a_folder_with_other_things_is_refused_and_stays_as_it_is(tmp_path: Path) -> None:  # CL-32
    (tmp_path / "world.json").write_text("{}")

    refused = here("cluster", "up", tmp_path, env={PROGRAM_VARIABLE: str(nats_program())})

    assert refused.code == 2
    assert "not a folder of servers" in refused.err
    assert "world.json in it" in refused.err
    assert [path.name for path in tmp_path.iterdir()] == ["world.json"]

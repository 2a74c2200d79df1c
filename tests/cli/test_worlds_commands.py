"""``aos world`` and ``aos node --worlds``, typed (spec/cli.md, C-111 to C-115)."""

from __future__ import annotations

import signal
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from aos.node.worlds.worlds_folder import WorldsFolder
from tests.cli.shell import here, start
from tests.free_ports import free_port
from tests.node.test_front import make_certificate

WAIT_S = 90.0


@pytest.fixture
def worlds(tmp_path: Path) -> Path:
    """A folder of two worlds, which no node serves."""
    path = tmp_path / "worlds"
    path.mkdir()
    for name in ("shop", "bank"):
        assert here("world", "create", name, "--node", path).code == 0
    return path


@contextmanager
def hosted(path: Path, *options: str) -> Iterator[str]:
    """Have a node serve the worlds in ``path``; its URL."""
    port = free_port()
    process = start(
        "node", "--worlds", path, "--listen", f"127.0.0.1:{port}", *options,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        until = time.monotonic() + WAIT_S
        while not (path / "node" / "http.sock").exists():
            assert process.poll() is None
            assert time.monotonic() < until
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
        process.send_signal(signal.SIGTERM)
        assert process.wait(WAIT_S) == 0
        assert not (path / "node" / "http.sock").exists()
    finally:
        process.kill()
        process.wait()


def phases(node: Path | str, **environment: str) -> dict[str, str]:
    document = here("world", "list", "--node", node, "--json", env=environment).json
    return {row["name"]: row["phase"] for row in document["worlds"]}


def test_a_folder_without_a_node_is_changed_directly(worlds: Path) -> None:
    assert phases(worlds) == {"bank": "asleep", "shop": "asleep"}
    stopped = here("world", "stop", "shop", "--node", worlds, "--json").json
    assert (stopped["name"], stopped["phase"]) == ("shop", "stopped")
    assert phases(worlds) == {"bank": "asleep", "shop": "stopped"}
    started = here("world", "start", "shop", "--node", worlds)
    assert started.out == "shop starts with the next node\n"
    listed = here("world", "list", "--node", worlds).out
    assert listed.splitlines()[0].split("\t") == ["name", "phase", "process", "wakes", "world"]
    removed = here("world", "remove", "bank", "--yes", "--node", worlds)
    assert removed.out.startswith("removed bank, blake3:")
    assert sorted(path.name for path in worlds.iterdir()) == ["shop"]


def test_a_node_is_asked_through_its_folder_and_its_address(worlds: Path) -> None:
    token = here("token", "create", "ops", "--scope", "operate", "--worlds", worlds).out.strip()
    read = here("token", "create", "eye", "--scope", "read", "--worlds", worlds).out.strip()
    listed = here("token", "list", "--worlds", worlds, "--json").json["tokens"]
    assert [row["name"] for row in listed] == ["ops", "eye"]
    with hosted(worlds) as url:
        assert set(phases(worlds)) == {"bank", "shop"}
        assert set(phases(url, AOS_TOKEN=read)) == {"bank", "shop"}
        refused = here("world", "stop", "shop", "--node", url, env={"AOS_TOKEN": read})
        assert refused.code != 0
        assert "the scope operate for all worlds is missing" in refused.err
        made = here("world", "create", "mill", "--node", url, "--json", env={"AOS_TOKEN": token})
        assert made.json["path"] == str(worlds / "mill")
        early = here("world", "remove", "mill", "--yes", "--node", worlds)
        assert early.code != 0
        assert "only a stopped world is removed (aos world stop mill)" in early.err
        stopped = here("world", "stop", "mill", "--node", url, env={"AOS_TOKEN": token})
        assert stopped.out == "mill is stopped (aos world start mill)\n"
        assert here("world", "remove", "mill", "--yes", "--node", worlds).code == 0
        # A token for all worlds is one of each world.
        one = here("inspect", "world", "--node", f"{url}/w/shop", env={"AOS_TOKEN": read})
        assert one.code == 0, one.err
        none = here("inspect", "world", "--node", f"{url}/w/shop")
        assert none.code != 0
        assert here("token", "revoke", "eye", "--worlds", worlds).code == 0
        time.sleep(1.0)
        revoked = here("inspect", "world", "--node", f"{url}/w/shop", env={"AOS_TOKEN": read})
        assert revoked.code != 0


def test_bad_input_is_refused_and_changes_nothing(worlds: Path, tmp_path: Path) -> None:
    before = phases(worlds)
    for words, sentence in (
        (("create", "Shop"), "not a name of a world"),
        (("create", "../shop"), "not a name of a world"),
        (("create", "node"), "not a name of a world"),
        (("create", "shop"), "there is a world called shop already"),
        (("stop", "mill"), "no world is called mill"),
        (("start", "mill"), "no world is called mill"),
        (("remove", "mill"), "no world is called mill"),
        (("remove", "shop"), "aos world remove shop --yes"),
    ):
        refused = here("world", *words, "--node", worlds)
        assert refused.code in (1, 2), words
        assert sentence in refused.err, words
        assert not refused.out
    assert phases(worlds) == before
    for node in (tmp_path / "nothing", worlds / "shop"):
        refused = here("world", "create", "mill", "--node", node)
        assert refused.code == 2
        assert "expected a folder of worlds" in refused.err
    idle = here("node", "--idle", "5m", "--world", worlds / "shop")
    assert (idle.code, "--idle: expected --worlds DIR with it" in idle.err) == (2, True)


@pytest.mark.parametrize("root", ["worlds/bank", "worlds", "worlds/bank/keys", ".", "worlds/new"])
def test_a_root_that_shows_another_world_is_refused(worlds: Path, root: str) -> None:
    """AG-60: effects of one world read no keys of its neighbour."""
    (worlds / "new").mkdir()
    folder = worlds.parent / root

    hosting = here("node", "--worlds", worlds, "--listen", "127.0.0.1:0", "--host-root", folder)

    assert (hosting.code, "expected a folder apart from the world" in hosting.err) == (2, True)


def test_a_root_in_a_world_that_this_process_does_not_run_is_refused(worlds: Path) -> None:
    """AG-60"""
    ran = here("run", "--until-idle", "--host-root", worlds / "bank", "--world", worlds / "shop")
    assert (ran.code, f"apart from the world {worlds / 'bank'}, whose keys" in ran.err) == (2, True)


def test_a_removal_of_a_world_that_runs_elsewhere_is_refused(worlds: Path) -> None:
    process = start(
        "run", "--world", worlds / "shop", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        until = time.monotonic() + WAIT_S
        while not (worlds / "shop" / "aos.sock").exists():
            assert time.monotonic() < until
            time.sleep(0.05)
        refused = here("world", "remove", "shop", "--yes", "--node", worlds)
        assert refused.code == 4
        assert (worlds / "shop" / "world.json").exists()
    finally:
        process.kill()
        process.wait()


def test_a_signal_makes_the_node_read_its_certificate_again(worlds: Path, tmp_path: Path) -> None:
    """WD-19. A certificate that cannot be read leaves the one in use."""
    cert, key, log = (tmp_path / name for name in ("cert.pem", "key.pem", "log"))
    make_certificate(key, cert)
    key.chmod(0o600)
    port = free_port()

    def served() -> str:
        return ssl.get_server_certificate(("127.0.0.1", port), timeout=WAIT_S)

    def wait_for(words: str) -> None:
        until = time.monotonic() + WAIT_S
        while words not in log.read_text():
            assert time.monotonic() < until
            time.sleep(0.05)

    with log.open("w") as output:
        process = start(
            "node", "--worlds", worlds, "--listen", f"127.0.0.1:{port}", "--tls-cert", cert,
            "--tls-key", key, stdout=subprocess.DEVNULL, stderr=output,
        )  # fmt: skip
    try:
        wait_for("serving the worlds")
        first = served()
        make_certificate(key, cert)
        process.send_signal(signal.SIGHUP)
        wait_for("read the certificate again")
        second = served()
        assert first.strip() != second.strip() == cert.read_text().strip()
        cert.write_text("broken")
        process.send_signal(signal.SIGHUP)
        wait_for("the certificate was not read again")
        assert served() == second
    finally:
        process.kill()
        process.wait()


def test_a_killed_node_takes_its_worlds_with_it_and_the_next_one_goes_on(worlds: Path) -> None:
    for _ in range(2):
        port = free_port()
        process = start(
            "node", "--worlds", worlds, "--listen", f"127.0.0.1:{port}",
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        try:
            until = time.monotonic() + WAIT_S
            url = f"http://127.0.0.1:{port}/w/shop"
            while here("inspect", "world", "--node", url).code != 0:
                assert process.poll() is None
                assert time.monotonic() < until
                time.sleep(0.1)
        finally:
            process.kill()
            process.wait()
        until = time.monotonic() + WAIT_S
        while any(WorldsFolder(worlds).is_held(name) for name in ("shop", "bank")):
            assert time.monotonic() < until
            time.sleep(0.05)
    # The killed node has left its socket: the folder is read without it.
    assert (worlds / "node" / "http.sock").is_socket()
    assert set(phases(worlds)) == {"bank", "shop"}

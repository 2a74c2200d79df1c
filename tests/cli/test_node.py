"""``aos node``: the options that it refuses before it opens the world (C-110)."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from aos.host.folder.making import init_world
from tests.cli.shell import Aos


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("node") / "world"
    init_world(path)
    return path


def test_an_address_that_is_none_is_refused(aos: Aos, world: Path) -> None:
    found = aos("node", "--listen", "everywhere", world=world)
    assert found.code == 2
    assert found.err == (
        "aos: --listen: expected HOST:PORT, such as 127.0.0.1:7460 or [::1]:7460, found "
        "'everywhere'\n"
    )


def test_other_machines_are_served_with_a_token_and_encryption_alone(aos: Aos, world: Path) -> None:
    """N-4"""
    everywhere = "0.0.0.0:0"
    found = aos("node", "--listen", everywhere, "--insecure-http", world=world)
    assert found.code == 1
    assert "other machines reach this address, and this world has no tokens" in found.err
    aos("token", "create", "reader", "--scope", "read", world=world)
    found = aos("node", "--listen", everywhere, world=world)
    assert found.code == 1
    assert "tokens would cross the network unencrypted" in found.err


def test_a_port_that_is_taken_ends_the_command_at_once(aos: Aos, world: Path) -> None:  # N-3
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        found = aos("node", "--listen", f"127.0.0.1:{port}", world=world)
        assert found.code == 4
    assert f"--listen 127.0.0.1:{port}: cannot listen there: Address already in use" in found.err
    assert "running" not in found.err


def test_a_certificate_and_its_key_come_together(aos: Aos, world: Path, tmp_path: Path) -> None:
    for words in (("--tls-cert", "c.pem"), ("--tls-key", "k.pem"), ("--tls-client-ca", "a.pem")):
        found = aos("node", *words, world=world)
        assert found.code == 2
        assert found.err == "aos: --tls-cert, --tls-key: expected both of them, found only one\n"
    missing = tmp_path / "c.pem"
    found = aos("node", "--tls-cert", missing, "--tls-key", missing, world=world)
    assert found.code == 2
    assert found.err == f"aos: {missing}: expected a file in PEM format, found none\n"


def test_an_operators_key_that_others_may_read_is_refused(
    aos: Aos, world: Path, tmp_path: Path
) -> None:
    key = tmp_path / "operator.key"
    key.write_text("0" * 64)
    key.chmod(0o644)
    found = aos("node", "--operator-key", key, "--listen", "127.0.0.1:0", world=world)
    assert found.code == 1
    assert "others may read this secret key" in found.err
    key.chmod(0o600)
    found = aos("node", "--operator-key", key, "--listen", "127.0.0.1:0", world=world)
    assert found.code == 1
    assert "this key may not operate this world" in found.err

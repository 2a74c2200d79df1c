"""Servers that refuse a program, and servers that a program refuses (spec/cluster.md, CL-1 to CL-10
and CL-26 to CL-28)."""

from __future__ import annotations

import base64
import binascii
import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from nacl.signing import SigningKey

from aos.errors import AosError, BadUsage, Refused, Unavailable
from aos.store.log.entry import parts_of
from aos.store.log.nats_address import CREDENTIALS_VARIABLE, NatsAccess, NatsAddress
from aos.store.log.nats_bucket import WORLDS, NatsBucket
from aos.store.log.nats_connection import NatsConnection
from aos.store.log.nats_durability import check_durable
from aos.store.log.nats_errors import Unanswered
from tests.nats_servers import Servers, new_log
from tests.tools import takes_less_than

SECRET = "hunter2"  # a secret of a test


@pytest.mark.parametrize(
    ("text", "servers", "is_tls"),
    [
        ("nats://a/shop", ("a:4222",), False),
        ("nats://a:4223,b,10.0.0.1:1/shop", ("a:4223", "b:4222", "10.0.0.1:1"), False),
        ("tls://[::1]:4222/eu.shop-1", ("[::1]:4222",), True),
    ],
)
def test_an_address_names_servers_and_a_world(  # CL-1
    text: str, servers: tuple[str, ...], is_tls: bool
) -> None:
    address = NatsAddress.parse(text)

    assert (address.servers, address.is_tls) == (servers, is_tls)
    assert NatsAddress.parse(address.text) == address


@pytest.mark.parametrize(
    "text",
    [
        "", "nats://", "nats://a", "nats://a/", "http://a/shop", "nats:a/shop", "nats:///shop",
        "nats://a,/shop", "nats://a:0/shop", "nats://a:65536/shop", "nats://a:x/shop",
        "nats://a b/shop", "nats://a/sh op", "nats://a/shop/x", "nats://a/shop?x=1", "nats://a/../x",
        "nats://a\n/shop", "nats://a/ä",
    ],
)  # fmt: skip
def test_anything_else_is_refused_with_the_form_that_is_expected(text: str) -> None:  # CL-1
    with pytest.raises(BadUsage, match="expected"):
        NatsAddress.parse(text)


@pytest.mark.parametrize("text", ["nats://a", "nats://a/", "tls://a,b:4223"])
def test_an_address_of_servers_needs_no_name(text: str) -> None:  # CL-1, CL-172
    address = NatsAddress.parse(text, needs_name=False)

    assert address.name == ""
    assert NatsAddress.parse(address.text, needs_name=False) == address
    assert [address.of_server(server).servers for server in address.servers] == [
        (server,) for server in address.servers
    ]


@pytest.mark.parametrize(
    "text",
    [
        f"nats://user:{SECRET}@a/shop", f"nats://a,{SECRET}@b/shop", f"tls://{SECRET}@a/shop",
        # Each is wrong in another way, too.
        f"nats://user:{SECRET}@a", f"nat://user:{SECRET}@a/shop", f"nats://user:{SECRET}/x@a/shop",
        f"user:{SECRET}@a/shop", f"nats://user:{SECRET}@a:99999/_aos",
    ],
)  # fmt: skip
def test_a_password_in_an_address_is_refused_and_not_shown(text: str) -> None:  # CL-2
    with pytest.raises(BadUsage, match=CREDENTIALS_VARIABLE) as refused:
        NatsAddress.parse(text)

    assert SECRET not in str(refused.value)


def test_credentials_come_from_a_file_that_the_environment_or_an_option_names(  # CL-3
    tmp_path: Path,
) -> None:
    seed, _ = user()
    file = tmp_path / "user.nk"
    file.write_text(f"{seed}\n")

    assert NatsAccess.read(environ={}).credentials is None
    assert NatsAccess.read(file, environ={}).credentials == seed
    access = NatsAccess.read(environ={CREDENTIALS_VARIABLE: str(file)})
    assert access.credentials == seed
    assert seed not in repr(access)


@pytest.mark.parametrize("content", [b"", b"secret", b"\xff" * 10, b"SUA", b"BEGIN NATS USER JWT"])
def test_a_file_that_has_no_credentials_is_refused(tmp_path: Path, content: bytes) -> None:  # CL-3
    file = tmp_path / "user.creds"
    file.write_bytes(content)

    with pytest.raises(BadUsage, match=r"credentials") as refused:
        NatsAccess.read(file, environ={})
    assert str(file) in str(refused.value)
    with pytest.raises(BadUsage, match="the credentials cannot be read"):
        NatsAccess.read(tmp_path / "none", environ={})


def test_without_the_client_of_nats_an_address_says_what_installs_it(  # CL-4
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "aos.store.log.nats_session", None)

    with pytest.raises(BadUsage, match=r"pip install 'aos-kernel\[cluster\]'"):
        NatsConnection(NatsAddress.parse("nats://a/shop"))


def test_the_default_install_imports_no_client_of_nats() -> None:  # CL-4
    modules = "nats_address, nats_connection, nats_stream, nats_log, nats_bucket, nats_durability"
    code = f"from aos.store.log import {modules}\nimport sys\nassert 'nats' not in sys.modules"

    subprocess.run([sys.executable, "-c", code], check=True)


@contextlib.contextmanager
def port_of_no_server() -> Iterator[int]:
    """A port that refuses connections, and that no other program gets meanwhile."""
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]


def test_servers_that_are_away_are_named_within_a_second_each() -> None:  # CL-8
    with socket.socket() as silent, port_of_no_server() as closed:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        ports = closed, silent.getsockname()[1]
        address = NatsAddress.parse(f"nats://127.0.0.1:{ports[0]},127.0.0.1:{ports[1]}/shop")

        def connect() -> None:
            with NatsConnection(address) as connection, pytest.raises(Unanswered) as away:
                connection.run(connection.session())
            assert all(f"127.0.0.1:{port} cannot be reached" in str(away.value) for port in ports)

        assert takes_less_than(2.5, connect)


def test_another_server_is_used_if_the_first_is_away(server: Servers) -> None:  # CL-8
    port = server.servers[0].ports.client
    with port_of_no_server() as closed:
        address = NatsAddress.parse(f"nats://127.0.0.1:{closed},127.0.0.1:{port}/shop")
        with NatsConnection(address, answer_seconds=30.0) as connection:
            assert new_log(connection).tail() == 0


def fake_server(version: str) -> Iterator[int]:
    """A server that says of itself that it is of some release."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()

        def serve() -> None:
            connection, _ = listener.accept()
            with connection:
                information = {"version": version, "max_payload": 1_048_576, "headers": True}
                connection.sendall(b"INFO %s\r\n" % json.dumps(information).encode())
                while b"PING" not in connection.recv(65536):
                    pass
                connection.sendall(b"PONG\r\n")
                connection.recv(65536)

        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1]
        thread.join(10)


@pytest.mark.parametrize("version", ["2.9.25", "2.13.4", "1.99.0"])
def test_a_server_of_an_old_release_is_refused(version: str) -> None:  # CL-7
    for port in fake_server(version):
        address = NatsAddress.parse(f"nats://127.0.0.1:{port}/shop")
        with NatsConnection(address) as connection, pytest.raises(Refused) as refused:
            connection.run(connection.session())
        assert f"expected 2.14 or newer, found {version}" in str(refused.value)


def test_servers_without_jetstream_are_refused(tmp_path: Path) -> None:  # CL-9
    with Servers(tmp_path, extra={"jetstream": None}) as servers:
        servers.start_server(servers.servers[0])
        with (
            servers.connected() as connection,
            pytest.raises(Refused, match="JetStream is not enabled"),
        ):
            until_reached(connection)


def until_reached(connection: NatsConnection) -> None:
    for _ in range(100):
        try:
            connection.run(connection.session())
        except Unanswered:
            time.sleep(0.05)
        else:
            return
    raise AssertionError("no answer")


def user(kind: int = 20 << 3) -> tuple[str, str]:
    """The seed and the public key of a user of NATS, or of another ``kind``."""
    key = SigningKey(os.urandom(32))
    prefix = bytes([(18 << 3) | (kind >> 5), (kind & 31) << 3])
    return coded(prefix + bytes(key)), coded(bytes([kind]) + bytes(key.verify_key))


def coded(data: bytes) -> str:
    check = binascii.crc_hqx(data, 0).to_bytes(2, "little")
    return base64.b32encode(data + check).decode().rstrip("=")


def test_only_a_program_with_the_credentials_is_let_in(tmp_path: Path) -> None:  # CL-3, CL-9
    seed, public = user()
    extra = {"authorization": {"users": [{"nkey": public}]}}
    with Servers(tmp_path, extra=extra) as servers:
        servers.start()
        with servers.connected(access=NatsAccess(credentials=seed)) as connection:
            assert new_log(connection).tail() == 0
        for access in (NatsAccess(), NatsAccess(credentials=user()[0])):
            with (
                servers.connected(access=access) as connection,
                pytest.raises(Refused, match=r"refuses the credentials: .*AOS_NATS_CREDS"),
            ):
                connection.run(connection.session())


@pytest.mark.parametrize(
    ("denied", "named"),
    [
        ("aos.log.>", "aos.log."),
        ("$KV.AOS.>", "$kv.aos.shop"),
        ("$JS.API.>", "$js.api.info"),
        ("$JS.API.STREAM.PURGE.>", "$js.api.stream.purge.aos-"),
    ],
)
def test_a_program_without_a_permission_learns_which_one(  # CL-9
    tmp_path: Path, denied: str, named: str
) -> None:
    seed, public = user()
    permissions = {"publish": {"deny": [denied]}}
    extra = {"authorization": {"users": [{"nkey": public, "permissions": permissions}]}}
    with Servers(tmp_path, extra=extra) as servers:
        servers.start()
        with servers.connected(access=NatsAccess(credentials=seed)) as connection:
            with pytest.raises(Refused, match=r"not permit a request: .* for publish to") as no:
                use_everything(connection)
            assert f'"{named}' in str(no.value)
            assert "CL-10" in str(no.value)


def use_everything(connection: NatsConnection) -> None:
    log = new_log(connection)
    log.append(parts_of(b"x", 8), 0)
    log.trim(2)
    NatsBucket(connection, WORLDS, replicas=1).create("shop", b"1")


def token(claims: dict[str, Any], issuer: tuple[str, str]) -> str:
    """A token of NATS: a JWT that a key of NATS signed."""
    seed, public = issuer
    key = SigningKey(base64.b32decode(seed + "=" * (-len(seed) % 8))[2:34])
    claims = {"jti": os.urandom(8).hex(), "iat": int(time.time()), "iss": public, **claims}
    parts = [
        base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=")
        for part in ({"typ": "JWT", "alg": "ed25519-nkey"}, claims)
    ]
    signed = b".".join(parts)
    signature = base64.urlsafe_b64encode(key.sign(signed).signature).rstrip(b"=")
    return (signed + b"." + signature).decode()


def test_a_file_of_credentials_lets_a_program_into_its_account(tmp_path: Path) -> None:  # CL-3
    """As nsc makes them: an operator signs accounts, and an account signs its users."""
    operator, account, person = user(14 << 3), user(0), user()
    limits = {"subs": -1, "data": -1, "payload": -1, "imports": -1, "exports": -1, "conn": -1}
    storage = {"mem_storage": -1, "disk_storage": -1, "streams": -1, "consumer": -1}
    version = {"version": 2}
    operator_token = token(
        {"sub": operator[1], "name": "op", "nats": {"type": "operator", **version}}, operator
    )
    account_token = token(
        {"sub": account[1], "name": "shop",
         "nats": {"type": "account", "limits": {**limits, **storage}, **version}}, operator,
    )  # fmt: skip
    user_limits = {"subs": -1, "data": -1, "payload": -1}
    user_token = token(
        {"sub": person[1], "name": "aos", "nats": {"type": "user", **user_limits, **version}},
        account,
    )
    file = tmp_path / "aos.creds"
    file.write_text(
        f"-----BEGIN NATS USER JWT-----\n{user_token}\n------END NATS USER JWT------\n\n"
        f"-----BEGIN USER NKEY SEED-----\n{person[0]}\n------END USER NKEY SEED------\n"
    )
    system = user(0)
    system_token = token(
        {"sub": system[1], "name": "SYS", "nats": {"type": "account", "limits": limits, **version}},
        operator,
    )
    extra = {
        "operator": operator_token,
        "system_account": system[1],
        "resolver": "MEMORY",
        "resolver_preload": {account[1]: account_token, system[1]: system_token},
    }
    with Servers(tmp_path / "servers", extra=extra) as servers:
        servers.start()
        with servers.connected(access=NatsAccess.read(file, environ={})) as connection:
            assert new_log(connection).tail() == 0
        with servers.connected() as connection, pytest.raises(Refused, match="credentials"):
            connection.run(connection.session())


def openssl(*words: str | Path) -> None:
    ran = subprocess.run(["openssl", *words], check=False, capture_output=True)
    assert ran.returncode == 0, ran.stderr


def certificate(folder: Path, name: str) -> tuple[Path, Path]:
    """A certificate for this machine that signs itself, and its key."""
    cert, key = folder / f"{name}.pem", folder / f"{name}-key.pem"
    openssl(
        "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
        "-days", "1", "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout",
        key, "-out", cert,
    )  # fmt: skip
    return cert, key


def test_with_tls_both_sides_show_a_certificate_that_the_other_trusts(  # CL-5, CL-9
    tmp_path: Path,
) -> None:
    cert, key = certificate(tmp_path, "server")
    own_cert, own_key = certificate(tmp_path, "client")
    other_cert, other_key = certificate(tmp_path, "other")
    tls = {"cert_file": str(cert), "key_file": str(key), "ca_file": str(own_cert), "verify": True}
    right = NatsAccess(authorities=cert, certificate=own_cert, certificate_key=own_key)
    with Servers(tmp_path / "servers", extra={"tls": tls}) as servers:
        servers.start()
        for is_tls in (False, True):
            with servers.connected(access=right, is_tls=is_tls) as connection:
                assert new_log(connection).tail() == 0
        untrusted = NatsAccess(certificate=own_cert, certificate_key=own_key)
        with (
            servers.connected(access=untrusted, is_tls=True) as connection,
            pytest.raises(Refused, match=r"TLS with .* failed: .*certificate verify failed"),
        ):
            connection.run(connection.session())
        for access in (
            NatsAccess(authorities=cert),
            NatsAccess(authorities=cert, certificate=other_cert, certificate_key=other_key),
        ):
            with (
                servers.connected(access=access, is_tls=True) as connection,
                pytest.raises(AosError, match=r"AOS_NATS_CERT"),
            ):
                connection.run(connection.session())


def test_an_address_of_tls_refuses_a_server_without_it(server: Servers) -> None:  # CL-5
    with (
        server.connected(is_tls=True) as connection,
        pytest.raises(Refused, match="the server has no TLS"),
    ):
        connection.run(connection.session())


def test_files_that_are_no_certificates_are_refused(tmp_path: Path) -> None:  # CL-3
    file = tmp_path / "ca.pem"
    file.write_text("no certificate")

    for environ in (
        {"AOS_NATS_CA": str(file)},
        {"AOS_NATS_CA": str(tmp_path / "none")},
        {"AOS_NATS_CERT": str(file), "AOS_NATS_KEY": str(file)},
    ):
        with pytest.raises(BadUsage, match="a certificate cannot be used"):
            NatsAccess.read(environ=environ)


def test_servers_that_sync_what_they_acknowledge_are_accepted(  # CL-27
    server: Servers, three: Servers
) -> None:
    check_durable(server.monitors, ["n1"])
    check_durable(three.monitors, ["n1", "n2", "n3"])
    check_durable(three.monitors, ["n2"])


def test_a_server_that_does_not_answer_may_be_passed_over(three: Servers) -> None:  # CL-111
    with port_of_no_server() as closed:
        silent = f"http://127.0.0.1:{closed}"
        check_durable([*three.monitors[:2], silent], ["n1", "n2", "n3"], needs_all=False)
    with pytest.raises(Refused, match="none of n3"):
        check_durable(three.monitors[:2], ["n1", "n2", "n3"], needs_all=False)


def test_a_server_that_does_not_sync_is_refused_by_its_name(tmp_path: Path) -> None:  # CL-27
    with Servers(tmp_path, extra={"jetstream": {"sync_interval": "2m"}}) as servers:
        servers.start()
        with pytest.raises(
            Refused, match=r"n1 at http.*expected sync_interval: always.*found.*120s"
        ):
            check_durable(servers.monitors, ["n1"])


def test_durability_that_cannot_be_checked_is_refused(three: Servers, server: Servers) -> None:
    # CL-27, CL-28
    for monitors in ((), three.monitors[:2]):
        with pytest.raises(Refused, match="--unverified-durability"):
            check_durable(monitors, ["n1", "n2", "n3"])
    unanswered = pytest.raises(Unavailable, match="does not answer for monitoring")
    with port_of_no_server() as closed, unanswered:
        check_durable([f"http://127.0.0.1:{closed}"], ["n1"])
    with pytest.raises(Unavailable, match="does not answer for monitoring"):
        check_durable([f"http://127.0.0.1:{server.servers[0].ports.client}"], ["n1"])
    for text in ("", "127.0.0.1:8222", "file:///etc/passwd", "ftp://a"):
        with pytest.raises(BadUsage, match="expected http://HOST:8222"):
            check_durable([text], ["n1"])

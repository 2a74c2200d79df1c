"""The front as a process: workers elsewhere, commands, TLS, restarts, and its end."""

from __future__ import annotations

import base64
import contextlib
import json
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from aos.client import Client
from aos.client.node_connection import NodeUnavailable
from aos.host.apply.commands import sign_control
from aos.host.door.writer import open_writer
from aos.host.folder.folder import open_folder
from aos.values.cbor import encode
from aos.values.digests import hash_text, parse_hash
from tests.cli.shell import environment, here, in_silence, start
from tests.copies import copied
from tests.node.nodes import WAIT_S, Node, event, front, running_kernel, wait_ready
from tests.node.test_streaming import events

HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def idle(template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A node whose kernel process runs no executor of the trips."""
    folder = tmp_path_factory.mktemp("idle")
    path = copied(template, folder / "trips")
    with (
        running_kernel(path, executors=False) as kernel,
        front(path, folder / "front", kernel) as found,
    ):
        yield found


def ask(client: httpx.Client, path: str, body: Any) -> Any:
    answer = client.post(path, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_a_worker_elsewhere_carries_out_the_effects_of_a_trip(idle: Node) -> None:
    client = idle.client()
    sent: list[httpx.Response] = []
    sending = threading.Thread(
        target=lambda: sent.append(
            idle.client().post("/v1/events", json=event("w-1"), params={"wait": "settled"})
        )
    )
    sending.start()
    done = 0
    until = time.monotonic() + WAIT_S
    while sending.is_alive() and time.monotonic() < until:
        claim = {"worker": "w", "claim": f"c-{done}", "max": 10, "wait_ms": 500}
        claim["lease_ms"] = HOUR_MS
        tasks = ask(client, "/v1/work/claim", claim)["tasks"]
        leases = [{"task": each["task"], "epoch": each["epoch"]} for each in tasks]
        if not leases:
            continue
        beaten = ask(client, "/v1/work/heartbeat", {"worker": "w", "leases": leases})["answers"]
        assert {each["answer"] for each in beaten} == {"leased"}
        now = time.time_ns()
        results = [
            {
                "task": each["task"], "epoch": each["epoch"], "status": "ok",
                "payload": {"reference": each["idempotency_key"][:8]}, "started_ns": now,
                "finished_ns": now,
            }
            for each in tasks
        ]  # fmt: skip
        taken = ask(client, "/v1/work/results", {"worker": "w", "results": results})["answers"]
        assert {each["answer"] for each in taken} == {"settled"}
        done += len(taken)
    sending.join(WAIT_S)

    assert sent[0].status_code == 200, sent[0].text
    assert sent[0].json()["to"][0]["status"] == "completed"
    assert done >= 2


def test_a_poll_whose_client_goes_away_leases_nothing(idle: Node) -> None:
    client = idle.client()
    claim = {"worker": "gone", "claim": "g-1", "max": 10, "wait_ms": 60_000}
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(
            f"{idle.url}/v1/work/claim",
            json=claim,
            timeout=httpx.Timeout(WAIT_S, read=0.5),
            trust_env=False,
        )
    client.post("/v1/events", json=event("g-1"), params={"wait": "ran"})

    tasks: list[Any] = []
    until = time.monotonic() + WAIT_S
    while not tasks and time.monotonic() < until:
        body = {"worker": "next", "claim": f"n-{time.time_ns()}", "max": 10, "wait_ms": 1_000}
        tasks = ask(client, "/v1/work/claim", body)["tasks"]

    assert {each["key"] for each in tasks} == {"g-1"}
    shown = idle.owner().get("/v1/work/tasks")
    assert shown.status_code == 200, shown.text
    assert "gone" not in shown.text
    for each in tasks:
        lease = {"task": each["task"], "epoch": each["epoch"]}
        ask(client, "/v1/work/release", {"worker": "next", "leases": [{**lease, "began": False}]})


def test_a_body_for_workers_is_checked_by_its_schema(idle: Node) -> None:
    client = idle.client()

    misspelt = client.post("/v1/work/claim", json={"worker": "w", "claim": "c", "waitms": 1})
    assert (misspelt.status_code, misspelt.json()["pointer"]) == (400, "/waitms")
    assert "did you mean wait_ms?" in misspelt.json()["detail"]
    both = idle.owner().post("/v1/work/retry", json={})
    assert both.status_code == 400
    assert client.get("/v1/work/tasks").status_code == 403


def test_a_command_signed_by_its_sender_is_journaled(idle: Node) -> None:
    client, owner = idle.client(), idle.owner()
    client.post("/v1/events", json=event("cmd-1"), params={"wait": "ran"})
    folder = open_folder(idle.path)
    with open_writer(idle.path) as writer:
        about = writer.signed_state()
    intent = client.get("/v1/intents", params={"key_prefix": "cmd-1"}).json()["intents"][0]
    hash = parse_hash(intent["intent"])
    given = sign_control(
        "cancel", intent=hash, world=about.world, serial=about.controls,
        operators=about.operators, key=folder.operator_key(),
    )  # fmt: skip
    body = {
        "action": "cancel", "intent": hash_text(hash), "principal": given.principal,
        "serial": given.serial, "signature": base64.b64encode(given.signature).decode(),
    }  # fmt: skip

    forged = owner.post("/v1/commands", json={**body, "signature": "AAAA" * 21 + "AA=="})
    done = owner.post("/v1/commands", json=body)
    again = owner.post("/v1/commands", json=body)
    unsigned = owner.post("/v1/commands", json={"action": "cancel", "intent": intent["intent"]})

    assert (forged.status_code, forged.json()["rule"]) == (403, "control_signature_is_wrong")
    assert done.status_code == 200, done.text
    record = client.get("/v1/record", params={"seq": done.json()["seq"]}).json()
    assert (record["kind"], record["action"]) == ("control", "cancel")
    assert (again.status_code, again.json()["rule"]) == (409, "control_serial_is_wrong")
    assert (unsigned.status_code, unsigned.json()["rule"]) == (403, "command_is_not_signed")
    assert client.post("/v1/commands", json=body).status_code == 403


def test_a_retry_that_its_sender_signs_has_restamp_as_the_signature_says(idle: Node) -> None:
    """N-118, J-42a, K-101b."""
    client, owner = idle.client(), idle.owner()
    client.post("/v1/events", json=event("cmd-2"), params={"wait": "ran"})
    [row] = client.get("/v1/cells", params={"key_prefix": "cmd-2"}).json()["cells"]
    cell = (row["workflow"], encode(row["key"]))
    with open_writer(idle.path) as writer:
        about = writer.signed_state()
    signed = sign_control(
        "retry", cell=cell, world=about.world, serial=about.controls, operators=about.operators,
        key=open_folder(idle.path).operator_key(),
    )  # fmt: skip
    named = {"action": "retry", "workflow": row["workflow"], "key": row["key"]}
    body = {
        **named, "principal": signed.principal, "serial": signed.serial, "restamp": True,
        "signature": base64.b64encode(signed.signature).decode(),
    }  # fmt: skip

    admissible = owner.post("/v1/commands", json=body)
    without = owner.post("/v1/commands", json={**body, "restamp": False})
    unsigned = owner.post("/v1/commands", json={**named, "restamp": True})

    assert admissible.json()["rule"] == "cell_has_not_failed"
    assert without.json()["rule"] == "control_signature_is_wrong"
    assert (unsigned.status_code, unsigned.json()["rule"]) == (400, "body_is_invalid")
    assert "restamp" in unsigned.json()["detail"]


def test_the_kernel_process_signs_for_those_who_may_operate(template: Path, tmp_path: Path) -> None:
    path = copied(template, tmp_path / "trips")
    with aos_node(path) as owner:
        owner.post("/v1/events", json=event("op-1"), params={"wait": "ran"})
        [intent] = owner.get("/v1/intents", params={"key_prefix": "op-1", "limit": 1}).json()[
            "intents"
        ]
        done = owner.post("/v1/commands", json={"action": "cancel", "intent": intent["intent"]})
        assert done.status_code == 200, done.text
        record = owner.get("/v1/record", params={"seq": done.json()["seq"]}).json()
        assert (record["action"], record["principal"]) == ("cancel", "operator")
        unknown = owner.post("/v1/commands", json={"action": "retry", "workflow": "x"})
        assert (unknown.status_code, unknown.json()["rule"]) == (404, "name_is_unknown")
        half = owner.post("/v1/commands", json={"action": "cancel", "serial": 1})
        assert half.status_code == 400


@contextlib.contextmanager
def aos_node(path: Path) -> Iterator[httpx.Client]:
    """Run ``aos node`` with its operator's key and no executors; the owner's client."""
    process = start(
        "node", "--world", path, "--listen", "127.0.0.1:0", "--operator-key",
        path / "keys" / "operator.key", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    transport = httpx.HTTPTransport(uds=str(path / "node" / "http.sock"), verify=False)
    try:
        with httpx.Client(base_url="http://node", transport=transport, timeout=WAIT_S) as client:
            until = time.monotonic() + WAIT_S
            while not _listens(path / "node" / "http.sock") or client.get("/readyz").is_error:
                assert process.poll() is None
                assert time.monotonic() < until
                time.sleep(0.1)
            yield client
        process.terminate()
        assert process.wait(WAIT_S) == 0
    finally:
        process.kill()
        process.wait()


def _listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        return probe.connect_ex(str(path)) == 0


def test_a_module_is_kept_for_its_manifest_and_an_unknown_one_is_named(idle: Node) -> None:
    owner = idle.owner()
    wasm = b"\x00asm\x01\x00\x00\x00"
    kept = owner.post("/v1/modules", content=wasm, headers={"content-type": "application/wasm"})
    assert kept.status_code == 200, kept.text
    for bytes_ in (b"", b"\x7fELF", b"\x00as"):
        other = owner.post("/v1/modules", content=bytes_)
        assert (other.status_code, other.json()["rule"]) == (422, "module_is_invalid")
    body = {
        "document": "AAAA", "principal": "operator", "serial": 1,
        "signature": "AAAA" * 21 + "AA==", "modules": [kept.json()["module"], "0" * 64],
    }  # fmt: skip

    unknown = owner.post("/v1/manifests", json=body)
    garbage = owner.post("/v1/manifests", json={**body, "modules": [kept.json()["module"]]})

    assert (unknown.status_code, unknown.json()["pointer"]) == (404, "/modules/1")
    assert garbage.status_code in (403, 422, 409, 400), garbage.text


def test_a_stream_has_every_record_across_the_death_of_the_kernel_and_of_the_front(
    template: Path, tmp_path: Path
) -> None:
    path = copied(template, tmp_path / "trips")
    seen: list[int] = []

    def read(node: Node, until: int) -> None:
        headers = {"Last-Event-ID": str(seen[-1])} if seen else {}
        query = {} if seen else {"from": 1}
        with node.client().stream(
            "GET", "/v1/journal/stream", params=query, headers=headers
        ) as answer:
            assert answer.status_code == 200, answer.read()
            for each in events(answer):
                seen.append(int(each.id))
                if seen[-1] >= until:
                    return

    with running_kernel(path) as kernel, front(path, tmp_path / "a", kernel) as node:
        sent = node.client().post("/v1/events", json=event("k-1"), params={"wait": "settled"})
        read(node, sent.json()["to"][0]["record"])
        kernel.kill()
        kernel.wait()
        away = node.client().post("/v1/events", json=event("k-2"))
        assert away.status_code == 503, away.text
        assert away.headers["retry-after"]
        assert node.client().get("/v1/cell?workflow=booking&key=k-1").status_code == 200
        until = time.monotonic() + WAIT_S
        while node.client().get("/readyz").status_code == 200:
            assert time.monotonic() < until
            time.sleep(0.1)
        with running_kernel(path):
            back = node.client().post("/v1/events", json=event("k-2"), params={"wait": "settled"})
            assert back.status_code == 200, back.text
            read(node, back.json()["to"][0]["record"])
            wait_ready(node.client())
            node.process.kill()
            node.process.wait()
            with front(path, tmp_path / "b", kernel) as second:
                last = second.client().post(
                    "/v1/events", json=event("k-3"), params={"wait": "settled"}
                )
                read(second, last.json()["to"][0]["record"])

    assert seen == list(range(1, len(seen) + 1))


def test_the_front_ends_with_its_stdin_though_a_stream_is_open(node: Node, tmp_path: Path) -> None:
    with (
        front(node.path, tmp_path, node.kernel) as other,
        other.client().stream("GET", "/v1/journal/stream") as answer,
    ):
        next(answer.iter_raw())
        assert other.stop_front() == 0


@pytest.mark.parametrize("has_settings", [True, False])
def test_a_front_whose_kernel_process_is_killed_before_it_is_ready_ends_without_a_word(
    template: Path, tmp_path: Path, has_settings: bool
) -> None:
    path = copied(template, tmp_path / "trips")
    front = subprocess.Popen(
        [sys.executable, "-m", "aos.node.front"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True, env=environment(),
    )  # fmt: skip
    assert front.stdin is not None
    assert front.stdout is not None
    assert front.stderr is not None
    if has_settings:
        given = {"world": str(path), "tcp": None, "unix": None, "address": None, "tls": None}
        more = {"insecure": False, "operator_key": False, "mount": None}
        front.stdin.write(json.dumps({**given, **more}) + "\n")
    front.stdout.close()
    front.stdin.close()

    with front.stderr:
        assert front.stderr.read() == ""
    assert front.wait(WAIT_S) == 0


def test_a_client_does_not_learn_where_the_world_is(template: Path, tmp_path: Path) -> None:
    path = copied(template, tmp_path / "trips")
    with (
        running_kernel(path, executors=False) as kernel,
        front(path, tmp_path / "front", kernel) as node,
    ):
        client = node.client()
        client.post("/v1/events", json=event("p-1"), params={"wait": "ran"}).raise_for_status()
        claim = {"worker": "w", "claim": "c", "wait_ms": 60_000}
        task = ask(client, "/v1/work/claim", claim)["tasks"][0]
        kernel.kill()
        kernel.wait()
        result = {
            "task": task["task"], "epoch": task["epoch"], "status": "ok",
            "payload": {"reference": "r"}, "started_ns": 1, "finished_ns": 2,
        }  # fmt: skip

        sent = client.post("/v1/events", json=event("p-2"))
        settled = client.post("/v1/work/results", json={"worker": "w", "results": [result]})

        assert sent.status_code == 503
        problem = settled.json()["answers"][0]["problem"]
        assert problem["status"] == 503
        for text in (sent.text, settled.text):
            assert "DIR" in text
            assert str(tmp_path) not in text


def make_certificate(key: Path, cert: Path) -> None:
    """Write a new key and its certificate for this machine."""
    made = subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
         "-nodes", "-days", "1", "-subj", "/CN=localhost", "-addext",
         "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", key, "-out", cert],
        check=False, capture_output=True,
    )  # fmt: skip
    assert made.returncode == 0, made.stderr


def test_a_node_may_ask_its_clients_for_a_certificate(
    node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C-92a: by the arguments of a client, and by the environment of commands and workers."""
    files = [tmp_path / name for name in ("key.pem", "cert.pem", "own-key.pem", "own-cert.pem")]
    key, cert, own_key, own_cert = files
    make_certificate(key, cert)
    make_certificate(own_key, own_cert)
    tls = {"cert": str(cert), "key": str(key), "client_ca": str(own_cert)}
    with front(node.path, tmp_path / "front", node.kernel, tls=tls) as other:
        with pytest.raises(NodeUnavailable), Client(other.url, authorities=cert) as nameless:
            nameless.seq()
        with Client(other.url, authorities=cert, certificate=(own_cert, own_key)) as named:
            assert named.seq() > 0
        unknown = here("inspect", "world", "--node", other.url)
        assert (unknown.code, "certificate verify failed" in unknown.err) == (4, True)
        given = {"AOS_NODE_CA": cert, "AOS_NODE_CERT": own_cert, "AOS_NODE_KEY": own_key}
        for name, path in given.items():
            monkeypatch.setenv(name, str(path))
        assert here("inspect", "world", "--node", other.url).code == 0
        assert here("tasks", "list", "--node", str(node.path)).code == 4, "the socket is another's"

    for name, path in {"AOS_NODE_CA": tmp_path / "none", "AOS_NODE_CERT": key}.items():
        with monkeypatch.context() as patch:
            patch.setenv(name, str(path))
            wrong = here("inspect", "world", "--node", "https://127.0.0.1:1")
        assert (wrong.code, wrong.out) == (2, "")
        assert wrong.err.startswith(f"aos: {name}: {path}"), wrong.err
    monkeypatch.delenv("AOS_NODE_KEY")
    half = here("inspect", "world", "--node", "https://127.0.0.1:1")
    assert half == (2, "", "aos: AOS_NODE_CERT is set: expected AOS_NODE_KEY, too\n")


def test_tls_protects_tcp_and_not_the_nodes_own_socket(node: Node, tmp_path: Path) -> None:
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    make_certificate(key, cert)
    tls = {"cert": str(cert), "key": str(key), "client_ca": None}
    with front(node.path, tmp_path / "front", node.kernel, tls=tls) as other:
        client = other.client(verify=ssl.create_default_context(cafile=str(cert)))
        answer = client.post("/v1/events", json=event("tls-1"), params={"wait": "ran"})
        assert answer.status_code == 200, answer.text
        assert other.owner().get("/v1/world").status_code == 200
        before = cert.read_text()
        make_certificate(key, cert)
        assert cert.read_text() != before
        other.process.send_signal(signal.SIGHUP)
        until = time.monotonic() + WAIT_S
        while "read the certificate again" not in other.log.read_text():
            assert time.monotonic() < until
            time.sleep(0.05)
        fresh = other.client(verify=ssl.create_default_context(cafile=str(cert)))
        assert fresh.get("/healthz").status_code == 200
        with pytest.raises(httpx.HTTPError):
            httpx.get(f"http://127.0.0.1:{other.port}/healthz", trust_env=False)


def test_a_damaged_world_ends_the_front_with_a_message(tmp_path: Path) -> None:
    assert in_silence("init", tmp_path / "w") == 0
    process = start("version", stdout=subprocess.DEVNULL)
    process.wait()
    data = tmp_path / "w" / "store" / "data.mdb"
    data.write_bytes(b"\x00" * data.stat().st_size)

    with pytest.raises(AssertionError, match="aos node:"), front(tmp_path / "w", tmp_path, process):
        pass

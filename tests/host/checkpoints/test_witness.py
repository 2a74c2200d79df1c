"""Witnesses: what they answer, and what a world makes of their answers (PF-80 to PF-88)."""

from __future__ import annotations

import http.client
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from nacl.signing import SigningKey

from aos.errors import BadUsage, Damage, Refused, Unavailable
from aos.host.checkpoints.attestations import NamedServer, Posted, Witness, stamp
from aos.host.checkpoints.checkpointing import make_checkpoint
from aos.host.checkpoints.named_files import as_witness, new_key
from aos.host.checkpoints.proving import ProofRequest, prove
from aos.host.checkpoints.witness_service import (
    WitnessServer,
    WitnessService,
    cosign_file,
    witness_state,
)
from aos.prove.headerlog.checkpoint import Checkpoint, log_key, open_checkpoint
from aos.prove.headerlog.header_tree import consistency, leaf_hash, root
from aos.prove.headerlog.signed_note import NoteKey, NoteSignature, cosign, parse_note
from aos.prove.headerlog.tiles import Growth, Tile, TiledLog
from aos.prove.headerlog.witness_protocol import Answer, format_request
from aos.values.digests import Hash
from tests.host.checkpoints.test_checkpointing import orders
from tests.host.on_disk import folder_of, more_of
from tests.memory_world import WORLD_KEY
from tests.prove.journals import Shop

KEY = SigningKey(bytes([5]) * 32)
LOG = SigningKey(bytes([6]) * 32)
WORLD = Hash(bytes(range(32)))
LOG_KEY = log_key(WORLD, bytes(LOG.verify_key))
NAME = "w.example/1"
VKEY = as_witness(bytes(KEY.verify_key), NAME)
NOW = 1_700_000_000


def witness_at(url: str) -> Witness:
    return Witness.of(f"{url}={VKEY.text}")


def post(url: str, body: bytes, *, kind: str, seconds: float = 60.0) -> Posted:
    return NamedServer.at(url, "--witness").post(body, kind=kind, seconds=seconds)


class Log:
    """A log whose leaves are their number, or in another version of it something else."""

    def __init__(self, size: int, *, is_other: bool = False) -> None:
        self.tiles: dict[Tile, bytes] = {}
        growth = Growth(self.tiles.__setitem__)
        for each in range(size):
            data = f"{'other' if is_other and each > 2 else 'leaf'} {each}".encode()
            growth.add(data, leaf_hash(data))
        growth.finish()
        self.log = TiledLog(size, self.tiles.__getitem__)
        self.size = size

    def checkpoint(self, size: int) -> Checkpoint:
        found = root(size, self.log.node)
        return Checkpoint(origin=LOG_KEY.name, size=size, root=found)

    def request(self, old: int, size: int, *, key: SigningKey = LOG) -> bytes:
        path = consistency(old, size, self.log.node) if old <= size else []
        return format_request(old, path, self.checkpoint(size).signed(key).full_text)


@pytest.fixture
def service(tmp_path: Path) -> Iterator[WitnessService]:
    with witness_state(tmp_path / "state") as folder:
        yield WitnessService(name=NAME, key=KEY, logs=[LOG_KEY], folder=folder, clock=lambda: NOW)


def status(found: NoteSignature | Answer) -> int:
    return found.status if isinstance(found, Answer) else 200


def test_a_witness_cosigns_a_log_that_grows(service: WitnessService) -> None:
    log = Log(40)
    for old, size in ((0, 3), (3, 3), (3, 17), (17, 40)):
        found = service.add_checkpoint(log.request(old, size))

        assert isinstance(found, NoteSignature)
        note = log.checkpoint(size).signed(LOG).with_signatures([found])
        assert note.is_signed_by(VKEY)
        assert found.time == NOW


def test_the_answers_have_the_status_codes_that_c2sp_gives_them(service: WitnessService) -> None:
    log, other = Log(40), Log(40, is_other=True)
    assert status(service.add_checkpoint(log.request(0, 7))) == 200
    whole = log.request(7, 9)

    def answers(body: bytes) -> tuple[int, int | None]:
        found = service.add_checkpoint(body)
        assert isinstance(found, Answer)
        return found.status, found.latest

    assert answers(b"") == (400, None)
    assert answers(whole.replace(b"old 7", b"old 07")) == (400, None)
    assert answers(whole.replace(b"old 7", b"new 7")) == (400, None)
    assert answers(whole.replace(b"\n", b"\r\n")) == (400, None)
    assert answers(b"old 7\n" + b"YQ==\n" * 3 + b"\n" + whole.partition(b"\n\n")[2]) == (400, None)
    assert answers(format_request(7, [bytes(32)] * 64, "x")) == (400, None)
    assert answers(b"old 0\n\n" + b"\xff" * 50) == (400, None)
    assert answers(b"x" * 1_000_000) == (400, None)
    assert answers(log.request(12, 9)) == (400, None)
    assert answers(log.request(7, 9, key=KEY)) == (403, None)
    assert answers(log.request(7, 9).replace(LOG_KEY.name.encode(), b"other.example/log")) == (
        404, None,
    )  # fmt: skip
    assert answers(log.request(0, 9)) == (409, 7)
    assert answers(log.request(6, 9)) == (409, 7)
    assert answers(log.request(0, 5)) == (409, 7)
    assert answers(other.request(7, 7)) == (409, None)
    assert answers(other.request(7, 9)) == (422, None)
    assert answers(format_request(7, [], log.checkpoint(9).signed(LOG).full_text)) == (422, None)
    assert status(service.add_checkpoint(log.request(7, 9))) == 200


def test_a_witness_that_starts_again_remembers(tmp_path: Path) -> None:
    log = Log(40)
    for old, size in ((0, 5), (5, 9)):
        with witness_state(tmp_path / "state") as folder:
            service = WitnessService(name=NAME, key=KEY, logs=[LOG_KEY], folder=folder)
            wrong = log.request(old + 1, size)
            assert status(service.add_checkpoint(wrong)) == 409
            assert status(service.add_checkpoint(log.request(old, size))) == 200


def test_two_witnesses_do_not_share_a_folder(tmp_path: Path) -> None:
    with (
        witness_state(tmp_path / "state"),
        pytest.raises(Unavailable, match="another witness"),
        witness_state(tmp_path / "state"),
    ):
        raise AssertionError("both have it")


def test_it_signs_nothing_that_it_could_not_store(
    service: WitnessService, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Durable before it answers."""
    log = Log(9)
    for name in ("create", "rename", "sync"):
        with monkeypatch.context() as patch:
            patch.setattr(type(service.folder), name, full)
            with pytest.raises(Unavailable, match="stored"):
                service.add_checkpoint(log.request(0, 7))
            # After the rename the checkpoint may be there: the client asks again with its size.
        latest = service.latest(LOG_KEY.name)
        assert latest is None or (name == "sync" and latest.size == 7)


def full(*_: object) -> None:
    raise OSError(28, "No space left on device")


def test_two_requests_at_a_time_are_answered_one_after_the_other(service: WitnessService) -> None:
    log = Log(40)
    assert status(service.add_checkpoint(log.request(0, 3))) == 200
    answers: list[int] = []

    def ask(size: int) -> None:
        answers.append(status(service.add_checkpoint(log.request(3, size))))

    threads = [threading.Thread(target=ask, args=(size,)) for size in range(10, 26)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()

    assert sorted(answers) == [200] + [409] * 15


# Over HTTP


@contextmanager
def served(server: HTTPServer) -> Iterator[str]:
    thread = threading.Thread(target=lambda: server.serve_forever(0.01))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_witness_answers_over_http(service: WitnessService) -> None:
    log = Log(9)
    with served(WitnessServer("127.0.0.1", 0, service, print)) as url:
        found = post(f"{url}/add-checkpoint", log.request(0, 7), kind="text/plain")
        assert (found.status, found.kind.partition(";")[0]) == (200, "text/plain")
        assert found.body.decode().startswith(f"\u2014 {NAME} ")
        again = post(f"{url}/add-checkpoint", log.request(0, 7), kind="text/plain")
        assert (again.status, again.kind, again.body) == (409, "text/x.tlog.size", b"7\n")
        assert post(f"{url}/other", b"", kind="text/plain").status == 404
        connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=60)
        connection.putrequest("POST", "/add-checkpoint")
        connection.putheader("Content-Length", "99999999")
        connection.endheaders()
        assert connection.getresponse().status == 413
        connection.close()


@pytest.fixture
def shop() -> Shop:
    world = Shop()
    orders(world, 0, 5)
    return world


@pytest.fixture
def folder(shop: Shop, tmp_path: Path) -> Path:
    return folder_of(shop, tmp_path / "world")


def test_a_world_is_witnessed_rolled_back_and_found_out(
    shop: Shop, folder: Path, tmp_path: Path
) -> None:
    """The witness knows more of the log than the older journal has."""
    own = log_key(shop.state.world, bytes(WORLD_KEY.verify_key))
    shutil.copytree(folder, tmp_path / "older")
    with witness_state(tmp_path / "state") as state:
        service = WitnessService(name=NAME, key=KEY, logs=[own], folder=state, clock=lambda: NOW)
        with served(WitnessServer("127.0.0.1", 0, service, print)) as url:
            witness = witness_at(url)
            first = make_checkpoint(folder, witnesses=[witness])
            orders(shop, 50, 3)
            more_of(shop, folder)
            made = make_checkpoint(folder, witnesses=[witness], out=tmp_path / "kept")
            assert (first.cosigned, made.cosigned) == (((NAME, NOW),), ((NAME, NOW),))
            assert made.failed == ()
            stored = (folder / "log/checkpoint").read_bytes()
            assert open_checkpoint(stored, own)[1].is_signed_by(VKEY)
            assert stored == (tmp_path / "kept").read_bytes()

            # Its log is lost too: only the witness remembers.
            with pytest.raises(Damage, match="rolled back"):
                make_checkpoint(tmp_path / "older", witnesses=[witness])
            assert not (tmp_path / "older/log/checkpoint").exists()
            # A lost log of the real journal asks the witness for the size that it knows.
            shutil.rmtree(folder / "log")
            assert make_checkpoint(folder, witnesses=[witness]).cosigned == ((NAME, NOW),)


def test_a_rewritten_journal_is_found_out_by_a_witness(
    shop: Shop, folder: Path, tmp_path: Path
) -> None:
    own = log_key(shop.state.world, bytes(WORLD_KEY.verify_key))
    other = Shop()
    orders(other, 100, 5)
    assert other.state.world == shop.state.world
    path = folder_of(other, tmp_path / "other")
    with witness_state(tmp_path / "state") as state:
        service = WitnessService(name=NAME, key=KEY, logs=[own], folder=state)
        with served(WitnessServer("127.0.0.1", 0, service, print)) as url:
            make_checkpoint(folder, witnesses=[witness_at(url)])
            with pytest.raises(Damage, match="rewritten"):
                make_checkpoint(path, witnesses=[witness_at(url)])
    assert not (path / "log/checkpoint").exists()


def test_a_restored_backup_that_grew_past_the_witness_is_found_out(
    shop: Shop, folder: Path, tmp_path: Path
) -> None:
    """PF-86: the witness refuses the path from the size that it names itself; and, with the log of
    the backup's own checkpoint, the path from the size in that log."""
    own = log_key(shop.state.world, bytes(WORLD_KEY.verify_key))
    backup = Shop()
    orders(backup, 0, 5)
    assert backup.frames == shop.frames
    with witness_state(tmp_path / "state") as state:
        service = WitnessService(name=NAME, key=KEY, logs=[own], folder=state)
        with served(WitnessServer("127.0.0.1", 0, service, print)) as url:
            witness = witness_at(url)
            make_checkpoint(folder, witnesses=[witness])
            restored = folder_of(backup, tmp_path / "restored")
            shutil.copytree(folder / "log", restored / "log")
            orders(shop, 50, 3)
            more_of(shop, folder)
            cosigned = make_checkpoint(folder, witnesses=[witness]).checkpoint.size
            orders(backup, 80, 9)
            more_of(backup, restored)
            assert len(backup.frames) > cosigned
            before = (restored / "log/checkpoint").read_bytes()

            with pytest.raises(Damage, match=r"rewritten.*begins with the"):
                make_checkpoint(restored, witnesses=[witness])
            assert (restored / "log/checkpoint").read_bytes() == before
            # The folder has stored the checkpoint alone meanwhile, with more frames.
            make_checkpoint(restored)
            orders(backup, 100, 2)
            more_of(backup, restored)
            before = (restored / "log/checkpoint").read_bytes()
            with pytest.raises(Damage, match=r"rewritten.*begins with the"):
                make_checkpoint(restored, witnesses=[witness])
    assert (restored / "log/checkpoint").read_bytes() == before


class _Fake(HTTPServer):
    """Answers every request with the same bytes."""

    def __init__(self, answer: Callable[[BaseHTTPRequestHandler], None]) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                answer(self)

            def log_message(self, format: str, *args: object) -> None:
                pass

        super().__init__(("127.0.0.1", 0), Handler)


def saying(code: int, body: bytes, kind: str = "text/plain") -> Callable[..., None]:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(code)
        handler.send_header("Content-Type", kind)
        handler.end_headers()
        try:
            handler.wfile.write(body)
        except OSError:
            return  # the client heard enough

    return answer


FORGED = cosign("another text\n", NAME, KEY, NOW).line.encode()
LIES = {
    "nothing": saying(200, b""),
    "a cosignature of something else": saying(200, FORGED),
    "two cosignatures": saying(200, FORGED * 2),
    "a line that is none": saying(200, b"hello\n"),
    "bytes": saying(200, b"\xff" * 100),
    "a megabyte": saying(200, b"x" * 1_000_000),
    "an error": saying(500, b"\x1b[31mbroken\n"),
    "a refusal of the path from nothing": saying(422, b"no\n"),
    "a redirect": saying(302, b""),
    "a conflict with no size": saying(409, b"x\n", "text/x.tlog.size"),
    "a conflict with a huge size": saying(409, b"9" * 30 + b"\n", "text/x.tlog.size"),
    "a conflict with our own size": saying(409, b"0\n", "text/x.tlog.size"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_witness_that_lies_is_named_and_the_checkpoint_is_stored_without_it(
    shop: Shop, folder: Path, lie: str
) -> None:
    with served(_Fake(LIES[lie])) as url:
        if lie.startswith("a conflict with") and "our own" not in lie:
            with pytest.raises(Damage):
                make_checkpoint(folder, witnesses=[witness_at(url)])
            return
        made = make_checkpoint(folder, witnesses=[witness_at(url)])

    (failed,) = made.failed
    assert url in failed
    assert failed.isprintable()
    assert len(failed) < 500
    assert made.cosigned == ()
    own = log_key(shop.state.world, bytes(WORLD_KEY.verify_key))
    stored = (folder / "log/checkpoint").read_bytes()
    assert open_checkpoint(stored, own)[0].size == len(shop.frames)


TOKEN = "kq7-93Zt+secret/x9"


@pytest.mark.parametrize(
    "address", ["{}/v1/kq7-93Zt%2Bsecret%2Fx9", "{}?token=kq7-93Zt%2Bsecret%2Fx9"]
)
def test_no_message_shows_the_token_of_an_address(folder: Path, address: str) -> None:
    """PF-87a: also where the witness repeats it, decoded."""
    with served(_Fake(saying(500, f"no such path: {TOKEN}".encode()))) as url:
        [repeats] = make_checkpoint(folder, witnesses=[witness_at(address.format(url))]).failed
    [gone] = make_checkpoint(
        folder, witnesses=[witness_at(address.format("http://127.0.0.1:1"))]
    ).failed
    with pytest.raises(BadUsage) as refused:
        Witness.of(address.format("ftp://w.example"))
    with pytest.raises(Unavailable) as stamp_failed:
        stamp(parse_note((folder / "log/checkpoint").read_bytes()), address.format(url))

    assert "answered 500" in repeats
    assert "no answer" in gone
    for message in (repeats, gone, str(refused.value), str(stamp_failed.value)):
        assert "kq7" not in message
        assert "[secret --" in message


@pytest.mark.parametrize(
    "address",
    ["http://[::1", "https://user:s3cr3t@ex\u2100mple.org", "http://s3cr3t.example:70000"],
)
def test_an_address_that_is_no_url_is_refused_without_its_token(folder: Path, address: str) -> None:
    """PF-87a: the message names the option alone, whether the key is there or not."""
    make_checkpoint(folder)
    note = parse_note((folder / "log/checkpoint").read_bytes())
    for option, ask_of in (
        ("--witness", lambda: Witness.of(address)),
        ("--witness", lambda: witness_at(address)),
        ("--timestamp", lambda: stamp(note, address)),
    ):
        with pytest.raises(BadUsage, match=f"^{option}: expected a URL") as refused:
            ask_of()
        assert "s3cr3t" not in str(refused.value)


def test_a_witness_that_is_gone_does_not_stop_a_checkpoint(folder: Path) -> None:
    made = make_checkpoint(folder, witnesses=[witness_at("http://127.0.0.1:1")])

    assert "no answer" in made.failed[0]


@pytest.mark.parametrize("part", ["nothing", "a line of headers", "a part of the body"])
def test_a_witness_that_sends_a_byte_now_and_then_is_not_waited_for(part: str) -> None:
    release = threading.Event()

    def drip(handler: BaseHTTPRequestHandler) -> None:
        if part != "nothing":
            handler.wfile.write(b"HTTP/1.0 200 OK\r\n")
        if part == "a part of the body":
            handler.wfile.write(b"Content-Length: 1000\r\n\r\n")
        while not release.wait(0.02):
            try:
                handler.wfile.write(b"x")
            except OSError:
                return

    with served(_Fake(drip)) as url:
        try:
            with pytest.raises(Unavailable, match=r"no whole answer|no answer"):
                post(url, b"x", kind="text/plain", seconds=0.3)
        finally:
            release.set()


@pytest.mark.parametrize(
    "text", ["", "http://w", "ftp://w=" + VKEY.text, "http://w=" + LOG_KEY.text, VKEY.text]
)
def test_a_witness_is_named_by_url_and_key(text: str) -> None:
    with pytest.raises(BadUsage):
        Witness.of(text)
    assert Witness.of(f"http://w/={VKEY.text}") == witness_at("http://w")


# Offline


def test_a_checkpoint_is_cosigned_without_a_server(
    shop: Shop, folder: Path, tmp_path: Path
) -> None:
    key_file, one, two = tmp_path / "w.key", tmp_path / "one", tmp_path / "two"
    key = as_witness(bytes(new_key(key_file).verify_key), None)
    own = log_key(shop.state.world, bytes(WORLD_KEY.verify_key))
    make_checkpoint(folder, out=one)
    assert key_file.stat().st_mode & 0o777 == 0o600
    with pytest.raises(Refused):
        new_key(key_file)

    cosign_file(one, key_file=key_file, logs=[own.text])
    assert parse_note(one.read_bytes()).is_signed_by(key)
    orders(shop, 70, 2)
    more_of(shop, folder)
    make_checkpoint(folder, out=two)
    with pytest.raises(Refused, match="--proof"):
        cosign_file(two, key_file=key_file, logs=[own.text])
    proof = tmp_path / "proof"
    proof.write_bytes(prove(folder, ProofRequest(words=("since", str(one)))).data)
    cosign_file(two, key_file=key_file, logs=[own.text], proof=proof)
    assert parse_note(two.read_bytes()).is_signed_by(key)

    with pytest.raises(Damage, match="rolled back"):
        cosign_file(one, key_file=key_file, logs=[own.text])
    with pytest.raises(Refused, match="does not know the log"):
        cosign_file(two, key_file=key_file, logs=[LOG_KEY.text], state=tmp_path / "fresh")
    with pytest.raises(Refused, match="other checkpoints"):
        cosign_file(two, key_file=key_file, logs=[own.text], proof=proof)


def test_a_cosigned_checkpoint_is_an_anchor(folder: Path, shop: Shop, tmp_path: Path) -> None:
    key_file, kept = tmp_path / "w.key", tmp_path / "kept"
    new_key(key_file)
    own = log_key(shop.state.world, bytes(WORLD_KEY.verify_key))
    make_checkpoint(folder, out=kept)
    cosign_file(kept, key_file=key_file, logs=[own.text])

    made = prove(folder, ProofRequest(words=("3",), checkpoint=kept))

    assert made.data.count(b"aos-witness/") == 1


def test_names_of_witnesses_are_checked() -> None:
    assert isinstance(as_witness(bytes(32), "w.example/1"), NoteKey)
    for name in ("", "a b", "a+b", "a\x07", "x" * 256):
        with pytest.raises(BadUsage):
            as_witness(bytes(32), name)

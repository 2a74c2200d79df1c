"""Tools of others open our signatures: Go's libraries of transparency logs, and OpenSSL.

The short form asks OpenSSL; the long form also builds a Go program, which takes a while.
"""

from __future__ import annotations

import base64
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from aos.errors import Unavailable
from aos.host.checkpoints.checkpointing import make_checkpoint
from aos.host.checkpoints.named_files import as_witness, new_key
from aos.host.checkpoints.proving import ProofRequest, prove
from aos.host.checkpoints.witness_service import cosign_file
from aos.prove.headerlog.checkpoint import log_key
from aos.prove.headerlog.header_tree import consistency, inclusion, root
from aos.prove.headerlog.stored_log import StoredLog
from aos.prove.headerlog.tiles import TiledLog
from aos.prove.proofs.proof_file import CheckpointAnchor, read_proof
from tests.cli.shell import Aos
from tests.host.checkpoints.test_checkpointing import orders
from tests.host.on_disk import folder_of
from tests.memory_world import WORLD_KEY
from tests.prove.journals import Shop
from tests.tools import long_form, missing

PEER = Path(__file__).parent / "peer"
VERIFIER = Path(__file__).parents[3] / "spec" / "verify_proof.py"


@pytest.fixture(scope="module")
def shop() -> Shop:
    world = Shop()
    orders(world, 0, 9)
    return world


@pytest.fixture
def folder(shop: Shop, tmp_path: Path) -> Path:
    return folder_of(shop, tmp_path / "world")


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not long_form():
        pytest.skip("the Go program is built in the long form")
    if shutil.which("go") is None:
        # Go is in no list of tools to install: Debian's is older than the libraries need.
        pytest.skip("SKIPPED FOR A MISSING TOOL: Go: no library of others opens our checkpoints")
    program = tmp_path_factory.mktemp("peer") / "peer"
    built = subprocess.run(
        ["go", "build", "-o", str(program), "."], cwd=PEER, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    if built.returncode:
        missing(f"the Go program cannot be built: {built.stderr[-500:]}")
    return program


def asked(program: Path, *words: str, data: bytes = b"") -> tuple[int, str]:
    ended = subprocess.run([str(program), *words], input=data, capture_output=True, check=False)
    return ended.returncode, (ended.stdout or ended.stderr).decode()


def spelled(hash: bytes) -> str:
    return base64.b64encode(hash).decode()


@pytest.mark.long
def test_go_opens_notes_cosignatures_and_proofs(
    shop: Shop, folder: Path, peer: Path, tmp_path: Path
) -> None:
    own = log_key(shop.state.world, bytes(WORLD_KEY.verify_key))
    kept, key_file = tmp_path / "kept", tmp_path / "w.key"
    witness = as_witness(bytes(new_key(key_file).verify_key), None)
    size = make_checkpoint(folder, out=kept).checkpoint.size
    cosign_file(kept, key_file=key_file, logs=[own.text])
    note = kept.read_bytes()
    with StoredLog.of_world(folder) as stored:
        assert stored is not None
        log = TiledLog(size, stored.read_tile)
        top = spelled(root(size, log.node))

        assert asked(peer, "note", own.text, witness.text, data=note) == (0, f"{size} {top}\n")
        assert asked(peer, "note", own.text, witness.text, data=note[:-9] + b"AAAAAAAA\n")[0] == 1
        for index in range(size):
            path = " ".join(map(spelled, inclusion(index, size, log.node)))
            words = ("leaf", str(index), str(size), top, path)
            assert asked(peer, *words, data=log.header(index)) == (0, "")
            assert asked(peer, *words, data=log.header(index)[:-1] + b"x")[0] == 1
        for old in range(1, size + 1):
            path = " ".join(map(spelled, consistency(old, size, log.node)))
            before = spelled(root(old, log.node))
            assert asked(peer, "tree", str(old), before, str(size), top, path) == (0, "")
            if old < size:
                assert asked(peer, "tree", str(old), top, str(size), top, path)[0] == 1


# Time-stamps

CONFIG = """
[ tsa ]
default_tsa = one
[ one ]
dir = .
serial = ./serial
signer_cert = ./tsa.pem
signer_key = ./tsa.key
signer_digest = sha256
default_policy = 1.2.3.4.1
digests = sha256
accuracy = secs:1
ordering = no
tsa_name = no
ess_cert_id_chain = no
[ ca ]
basicConstraints = critical,CA:true
keyUsage = critical,keyCertSign
subjectKeyIdentifier = hash
[ leaf ]
basicConstraints = CA:false
keyUsage = critical,digitalSignature
extendedKeyUsage = critical,timeStamping
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid
"""


def openssl(folder: Path, *words: str) -> None:
    ended = subprocess.run(
        ["openssl", *words], cwd=folder, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a certificate authority, and the certificate of a time-stamp server."""
    if shutil.which("openssl") is None:
        missing("OpenSSL is not there: no one issues or checks a time-stamp")
    pytest.importorskip("rfc3161_client")
    found = tmp_path_factory.mktemp("authority")
    (found / "tsa.cnf").write_text(CONFIG)
    (found / "serial").write_text("01\n")
    for name, subject in (("ca", "/CN=Root"), ("tsa", "/CN=Time-stamps"), ("other", "/CN=Other")):
        openssl(found, "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256",
                "-out", f"{name}.key")  # fmt: skip
        openssl(found, "req", "-new", "-key", f"{name}.key", "-subj", subject, "-out",
                f"{name}.csr")  # fmt: skip
    for name in ("ca", "other"):
        openssl(found, "x509", "-req", "-in", f"{name}.csr", "-signkey", f"{name}.key",
                "-days", "30", "-extfile", "tsa.cnf", "-extensions", "ca",
                "-out", f"{name}.pem")  # fmt: skip
    openssl(found, "x509", "-req", "-in", "tsa.csr", "-CA", "ca.pem", "-CAkey", "ca.key",
            "-CAcreateserial", "-days", "30", "-extfile", "tsa.cnf", "-extensions", "leaf",
            "-out", "tsa.pem")  # fmt: skip
    return found


@contextmanager
def time_stamping(authority: Path, *, lies: bytes | None = None) -> Iterator[str]:
    """A server that lets OpenSSL answer; or that gives this answer to everyone."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            answer = lies
            if answer is None:
                (authority / "query").write_bytes(body)
                openssl(authority, "ts", "-reply", "-config", "tsa.cnf", "-section", "one",
                        "-queryfile", "query", "-out", "reply")  # fmt: skip
                answer = (authority / "reply").read_bytes()
            self.send_response(200)
            self.send_header("Content-Type", "application/timestamp-reply")
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=lambda: server.serve_forever(0.01))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_openssl_stamps_a_checkpoint_and_both_check_it(
    shop: Shop, folder: Path, authority: Path, tmp_path: Path, aos: Aos
) -> None:
    kept, key_file = tmp_path / "kept", tmp_path / "w.key"
    own = log_key(shop.state.world, bytes(WORLD_KEY.verify_key))
    with time_stamping(authority) as url:
        made = make_checkpoint(folder, out=kept, timestamp=url)
    assert made.failed == ()
    openssl(authority, "ts", "-verify", "-data", str(kept), "-in", f"{kept}.tsr", "-CAfile",
            "ca.pem")  # fmt: skip

    # A witness that signs later does not make the time-stamp void.
    new_key(key_file)
    cosign_file(kept, key_file=key_file, logs=[own.text])
    world = f"blake3:{shop.state.world.hex()}"
    for number, chosen in enumerate((None, kept)):
        file = tmp_path / f"proof-{number}"
        file.write_bytes(prove(folder, ProofRequest(words=("3",), checkpoint=chosen)).data)
        right = aos("verify-proof", file, "--ca", authority / "ca.pem", "--json", world=None)
        assert right.code == 1, "no one said whom to trust"
        assert right.json["time"] is not None
        for ca, code in (("ca.pem", 0), ("other.pem", 1)):
            found = aos("verify-proof", file, "--world", world, "--ca", authority / ca)
            assert found.code == code, found.err
            assert independent(file, "--world", world, "--ca", str(authority / ca)) == code
        assert independent(file, "--world", world, "--ca", str(tmp_path / "none.pem")) == 2
        assert independent(file, "--ca", str(authority / "ca.pem")) == 1


def independent(*words: str | Path) -> int:
    command = [sys.executable, VERIFIER, *words]
    return subprocess.run(command, capture_output=True, check=False).returncode


def test_a_time_stamp_of_another_file_is_refused(
    folder: Path, shop: Shop, authority: Path, tmp_path: Path, aos: Aos
) -> None:
    with time_stamping(authority) as url:
        first = make_checkpoint(folder, timestamp=url)
    assert first.timestamp is not None
    with time_stamping(authority, lies=first.timestamp) as url:
        made = make_checkpoint(folder, timestamp=url)
    assert "something else" in made.failed[0]
    with time_stamping(authority, lies=b"no time-stamp") as url:
        made = make_checkpoint(folder, timestamp=url)
    assert "cannot be read" in made.failed[0]

    # In a proof: of another checkpoint.
    other = folder_of(shop, tmp_path / "other")
    make_checkpoint(other)
    (other / "log/checkpoint.tsr").write_bytes(b"x" * 100)
    anchor = read_proof(prove(other, ProofRequest(words=("3",))).data).anchor
    assert isinstance(anchor, CheckpointAnchor)
    assert anchor.timestamp is None, "one of another file is not carried along"
    file = tmp_path / "proof"
    data = prove(folder, ProofRequest(words=("3",))).data
    file.write_bytes(data)
    world = f"blake3:{shop.state.world.hex()}"
    for changed in (b"AAAA", base64.b64encode(first.timestamp[:-1])):
        start = data.index(b'"timestamp": "') + len(b'"timestamp": "')
        end = data.index(b'"', start)
        file.write_bytes(data[:start] + changed + data[end:])
        found = aos("verify-proof", file, "--world", world, "--ca", authority / "ca.pem")
        assert found.code == 1
        assert "time-stamp is not accepted" in found.err
        assert independent(file, "--world", world) == 0
        assert independent(file, "--world", world, "--ca", authority / "ca.pem") == 1


def test_without_a_time_stamp_server_the_checkpoint_is_stored(folder: Path) -> None:
    pytest.importorskip("rfc3161_client")
    made = make_checkpoint(folder, timestamp="http://127.0.0.1:1")

    assert "no answer" in made.failed[0]
    assert (folder / "log/checkpoint").exists()
    assert Unavailable.exit_code == 4

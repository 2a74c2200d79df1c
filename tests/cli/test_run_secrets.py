"""A real ``aos run --secrets`` gives a function its secret, and leaves it nowhere (X-67, X-75 to
X-78)."""

from __future__ import annotations

import base64
import signal
import subprocess
import threading
from pathlib import Path
from typing import Final

import pytest

from aos.core.decide.answers import Admitted
from aos.host.door.writer import open_writer
from aos.host.folder.making import init_world
from aos.manifest.load import load
from aos.values.digests import content_hash, hash_text
from tests.cli.shell import here, start
from tests.host.puppet import asks_for
from tests.worker.keyed import KEYED, KEYS, SECRET, files, params
from tests.worker.test_effect_secrets import KEEPER
from tests.worker.test_worker_secrets import file_of

MARK: Final = f"[secret {KEYS}]"


@pytest.fixture
def world(tmp_path: Path) -> Path:
    path = tmp_path / "w"
    init_world(path)
    with open_writer(path) as writer:
        assert isinstance(writer.apply(load(files())).answer, Admitted)
    return path


def ask(world: Path, key: str, what: str) -> None:
    """Let a cell request the effect once."""
    out = base64.b64encode(asks_for((KEYED, params(what)))).decode()
    sent = here("send", "host/Do@1", f'{{"key": "{key}", "out": "{out}"}}', "--world", world)
    assert sent.code == 0, sent


class Lines:
    """The stderr of a process, line by line."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stderr is not None
        self._pipe = process.stderr
        self.all: list[str] = []

    def until(self, text: str) -> None:
        """Read until a line has ``text``."""
        for line in iter(self._pipe.readline, b""):
            self.all.append(line.decode())
            if text in self.all[-1]:
                return
        raise AssertionError(f"{text} was not printed:\n{''.join(self.all)}")


def processes_of(parent: int) -> list[Path]:
    """A process and its children, below ``/proc``."""
    found = [Path("/proc") / str(parent)]
    for each in Path("/proc").glob("[0-9]*"):
        try:
            stat = (each / "stat").read_text()
        except OSError:
            continue  # it has ended
        if int(stat.rpartition(")")[2].split()[1]) == parent:
            found.append(each)
    return found


def spellings() -> list[bytes]:
    bare = SECRET.removeprefix("0x")
    raw = bytes.fromhex(bare)
    encoded = [base64.b64encode(each).rstrip(b"=")[:-1] for each in (bare.encode(), raw)]
    return [bare.encode(), bare.upper().encode(), raw, bare.encode().hex().encode(), *encoded]


def test_a_secrets_file_that_others_may_read_is_refused(tmp_path: Path, world: Path) -> None:
    file = file_of(tmp_path, f"keys={SECRET}", 0o644)
    refused = here("run", "--until-idle", "--secrets", file, "--world", world)
    assert refused.code == 1
    assert "others may read these secrets" in refused.err
    assert SECRET not in refused.err


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="it looks into /proc")
def test_the_value_reaches_the_function_and_no_other_place(tmp_path: Path, world: Path) -> None:
    file = file_of(tmp_path, "other=12345678")
    ask(world, "early", "digest")
    process = start(
        "run", "--secrets", file, "--executors", KEEPER, "--world", world,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    # A reader that never gets its line must not wait for ever.
    ending = threading.Timer(180, process.kill)
    ending.start()
    try:
        lines = Lines(process)
        lines.until("is held: secret_unavailable")
        assert f"secret {KEYS} at file:keys: {file} has no key keys" in lines.all[-1]

        file_of(tmp_path, f"other=12345678\nkeys={SECRET}")
        ask(world, "late", "look")
        lines.until(f"reached {MARK}")
        for each in ("print", "crash", "return"):
            ask(world, each, each)
        lines.until("secret_in_result")
        retried = here(
            "effects", "retry", "--parked", "--code", "secret_unavailable", "--world", world
        )
        assert retried.code == 0, retried
        ask(world, "again", "look")
        lines.until(f"reached {MARK}")
        about = [
            (each / part).read_bytes()
            for each in processes_of(process.pid)
            for part in ("environ", "cmdline")
        ]
        process.send_signal(signal.SIGINT)
        out, err = process.communicate()
    finally:
        ending.cancel()
        process.kill()
        process.wait()

    assert process.returncode == 0
    assert len(about) >= 4, "the process and its worker"
    journal = here("inspect", "journal", "--json", "--world", world)
    said = {
        each["cell"]["key"]: each["payload"]["said"]
        for each in journal.lines
        if each["kind"] == "receipt"
    }
    below = [each.read_bytes() for each in world.rglob("*") if each.is_file()]
    printed = [*(each.encode() for each in lines.all), out, err, journal.out.encode()]
    for spelt in spellings():
        assert [each[:200] for each in (*about, *below, *printed) if spelt in each] == []
    open_ones = here("inspect", "intents", "--json", "--world", world).json["intents"]
    assert sorted(each["halt"]["code"] for each in open_ones) == ["exception", "secret_in_result"]
    digest = hash_text(content_hash(SECRET.encode()))
    clean = str(False)  # its answer after a look at its own environment and command line
    assert said == {"early": digest, "late": clean, "print": digest, "again": clean}

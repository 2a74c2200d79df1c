"""A running world whose workflow requests the effects that a test names, as a module of the SDK."""

from __future__ import annotations

import base64
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count, cycle
from pathlib import Path
from typing import Any, Final

import cbor2

from aos import client
from aos.client import Accepted
from aos.host.folder.folder import open_folder
from aos.values.sha256 import parse_sha256
from tests.agentos import sdk_receipts
from tests.agentos.world import ASK, published, write_folder
from tests.cli.shell import NOTHING, in_silence, start

ENCODINGS: Final[tuple[Callable[[Any], bytes], ...]] = (
    cbor2.dumps,
    sdk_receipts.without_lengths,
    sdk_receipts.with_tags,
)
"""The encodings in which params are sent, in turn (AG-20)."""

READABLE: Final = re.compile(r"([a-z_]+): [^\s{\[].*[\w.)'\"]", re.DOTALL)
WAIT_S: Final = 60.0


@dataclass
class AskingWorld:
    """``answered`` and ``failed`` have the effects that were requested with these ends."""

    path: Path
    client: client.WorldClient
    answered: set[str] = field(default_factory=set)
    failed: set[str] = field(default_factory=set)
    hashes: dict[str, str] = field(default_factory=dict)
    _ids: Iterator[int] = field(default_factory=count)
    _encodings: Iterator[Callable[[Any], bytes]] = field(default_factory=lambda: cycle(ENCODINGS))

    def send(self, effect: str, params: Any) -> str:
        """Let a new cell request an effect; return the cell's key."""
        key = f"c{next(self._ids)}"
        data = base64.b64encode(next(self._encodings)(params)).decode()
        value = {"id": key, "effect": effect, "params": data}
        assert isinstance(self.client.send("agentos/Ask@1", value), Accepted)
        return key

    def answer(self, key: str) -> Any:
        """The answer that a cell has got. Nothing may have trapped."""
        found = self.client.wait(
            ASK, key, until=lambda cell: bool(cell.fault or cell.state["answers"]), timeout_s=WAIT_S
        )
        assert found.fault is None, found.fault
        [answer] = found.state["answers"]
        return answer

    def receipt(self, effect: str, params: Any, status: str = "ok") -> Any:
        """Request an effect, and read its receipt as the SDK does."""
        answer = self.answer(self.send(effect, params))
        assert (answer["effect"], answer["status"]) == (effect, status), answer
        value, hashes = sdk_receipts.read(effect, base64.b64decode(answer["payload"]))
        self.hashes |= {f"{effect} {place}": each for place, each in hashes.items()}
        return value

    def ok(self, effect: str, params: Any) -> Any:
        """Request an effect that succeeds, and return its receipt."""
        receipt = self.receipt(effect, params)
        self.answered.add(effect)
        return receipt

    def rejects(self, code: str, effect: str, params: Any) -> None:
        """Request an effect that fails, and check the rejection (AG-16)."""
        self.is_rejected(code, effect, self.send(effect, params))

    def is_rejected(self, code: str, effect: str, key: str) -> None:
        answer = self.answer(key)
        assert (answer["effect"], answer["payload"]) == (effect, None), answer
        assert answer["code"] == "receipt_payload_invalid"
        readable = READABLE.fullmatch(answer["message"])
        assert readable is not None, answer["message"]
        assert readable[1] == code, answer["message"]
        self.failed.add(effect)

    def blob(self, name: str) -> bytes | None:
        """The blob with this SHA-256 name; None if the world has none."""
        with open_folder(self.path).open_store(readonly=True) as store:
            sha256 = parse_sha256(name)
            assert sha256 is not None
            blob = store.hash_by_sha256(sha256)
            return None if blob is None else store.blob(blob)

    def check_hashes(self, *others: str) -> None:
        """Each hash of each receipt names a blob of the world, apart from those whose place ends
        with one of ``others``."""
        unknown = {
            place for place, name in self.hashes.items() if not place.endswith(others or ("-",))
            and self.blob(name) is None
        }  # fmt: skip
        assert unknown == set()


def new_world(path: Path, folder: Path, files: Mapping[str, bytes]) -> None:
    """Create a world with the manifest of these files, which are written into ``folder``."""
    write_folder(folder, files)
    assert in_silence("init", path) == 0
    assert in_silence("apply", folder, "--abi", "agentos", "--world", path) == 0


@contextmanager
def asking_world(
    place: Path,
    *options: str | Path,
    env: Mapping[str, str] = NOTHING,
    files: Mapping[str, bytes] | None = None,
) -> Iterator[AskingWorld]:
    """Run a new world in ``place`` with these options of ``aos run``. At the end it must have no
    fault, and verify and replay."""
    path = place / "world"
    new_world(path, place / "air", published() if files is None else files)
    process = start("run", *options, "--world", path, env=env, stderr=subprocess.DEVNULL)
    try:
        with client.connect(path) as connected:
            yield AskingWorld(path, connected)
        process.terminate()
        assert process.wait(WAIT_S) == 0
    finally:
        process.kill()
        process.wait()
    for command in (("verify",), ("replay", "--core", "both")):
        assert in_silence(*command, "--world", path) == 0

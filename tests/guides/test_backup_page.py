"""spec/guides/backup.md is true: its commands back up a running world under load, restore it in
another place, verify it, and let it continue."""

from __future__ import annotations

import shutil
import threading
from collections import Counter
from pathlib import Path
from typing import Final

import pytest

import aos.client
from aos.client import Accepted, Duplicate
from aos.core.journal.record_codec import from_bytes
from aos.core.journal.records import Receipt, Step
from aos.errors import BadUsage
from aos.host.folder.folder import open_folder
from tests.cli.shell import here
from tests.client.conftest import running_trips, template
from tests.cookbook.typed import bin_, blocks, follow
from tests.copies import copied

pytestmark = pytest.mark.rotated(3)

__all__ = ["bin_", "template"]

PAGE: Final = Path(__file__).parents[2] / "spec" / "guides" / "backup.md"
WANTED: Final = "trip/Requested@1"


def test_a_running_world_is_backed_up_under_load_restored_elsewhere_and_continued(
    template: Path, bin_: Path
) -> None:
    back_up, restore = blocks(PAGE)
    world = copied(template, Path("world"))
    accepted: dict[str, int] = {}
    is_over = threading.Event()

    def send() -> None:
        with aos.client.connect(world) as client:
            while not is_over.is_set():
                name = f"t-{len(accepted)}"
                answer = client.send(WANTED, {"trip_id": name, "city": "Oslo"}, id=name)
                assert isinstance(answer, Accepted)
                accepted[name] = answer.seq

    with running_trips(world):
        sender = threading.Thread(target=send, name="sender")
        sender.start()
        try:
            while len(accepted) < 20 and sender.is_alive():
                sender.join(0.01)
            before, seq = dict(accepted), max(accepted.values())
            backed_up = follow(back_up, bin_=bin_)
            while len(accepted) < len(before) + 20 and sender.is_alive():
                sender.join(0.01)
        finally:
            is_over.set()
            sender.join(150)

    # The machine is lost with its disk.
    shutil.rmtree(world)
    restored = follow(restore, bin_=bin_)
    with aos.client.connect("restored") as client:
        last = client.seq()
        assert last > seq, "everything that was accepted before the export is there"
        with pytest.raises(BadUsage, match="restored from an older backup"):
            next(client.follow(after=last + 1))
    with running_trips(Path("restored")), aos.client.connect("restored") as client:
        answers = {
            name: client.send(WANTED, {"trip_id": name, "city": "Oslo"}, id=name)
            for name in accepted
        }
        for name in accepted:
            assert client.wait("booking", name).status == "completed"

    assert {name for name, each in answers.items() if isinstance(each, Duplicate)} >= set(before)
    assert any(isinstance(each, Accepted) for each in answers.values())
    opened, settled = effects(Path("restored"))
    assert opened == settled, "each effect has one receipt"
    for command in ("verify", "replay"):
        assert here(command, "--world", "restored").code == 0
    assert "exported to record" in backed_up
    assert "imported to record" in restored


def effects(world: Path) -> tuple[Counter[bytes], Counter[bytes]]:
    """Every intent that was requested, and every one that an executor settled, by the journal."""
    with open_folder(world).open_store(readonly=True) as store:
        records = [from_bytes(data) for frame in store.frames() for data in frame.records]
    asked = [each.intent for step in records if isinstance(step, Step) for each in step.intents]
    return Counter(asked), Counter(each.intent for each in records if isinstance(each, Receipt))

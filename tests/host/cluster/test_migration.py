"""The owner of a replicated world is killed while it migrates states (spec/cluster.md, CL-183)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from aos.core.decide.answers import Admitted
from aos.core.journal.inputs import MIGRATE
from aos.host.door.writer import open_writer
from tests.host import puppet
from tests.host.apply.test_upgrades import in_force, replays, states
from tests.host.cluster.node_processes import (
    NodeProcess,
    are_level,
    is_applied,
    joined,
    made,
    send,
    waits,
)
from tests.host.upgrades import migrating, version
from tests.nats_servers import Servers
from tests.run_seed import rotated

CELLS = 150


@pytest.mark.parametrize("delay_s", rotated([0.0, 0.1, 0.3, 0.6]))
def test_a_migration_is_whole_or_absent_after_a_kill_of_the_owner(
    delay_s: float, tmp_path: Path, three: Servers, run: Callable[..., NodeProcess]
) -> None:
    """K-76 on several nodes: a state that was made for a migration without a record does not
    count."""
    top = tmp_path / f"migrates-{round(1000 * delay_s)}"
    top.mkdir()
    assert made(three, top / "a").code == 0
    folders = [top / "a", *(joined(top / "a", top / name, name) for name in ("b", "c"))]
    a = run(folders[0])
    a.wait(lambda: a.owns)
    with open_writer(folders[0]) as writer:
        assert isinstance(writer.apply(version(1)).answer, Admitted)
    send(folders[0], [puppet.do(f"cell-{number}") for number in range(CELLS)])
    others = [run(folder) for folder in folders[1:]]
    for node in others:
        node.wait(lambda node=node: node.follows)  # type: ignore[misc]
    a.wait(lambda: a.status().get("ready_cells") == 0)
    applying = threading.Thread(target=is_applied, args=(folders[1], migrating(), MIGRATE))

    applying.start()
    time.sleep(delay_s)
    a.kill()

    applying.join()
    waits(lambda: any(node.owns for node in others), lambda: str([node.output for node in others]))
    waits(lambda: are_level(others))
    is_new = in_force(folders[1]) == migrating().effective.hash
    for folder in folders[1:]:
        after_kill = states(folder)
        assert len(after_kill) == CELLS
        assert {type(state) for state in after_kill.values()} == {list if is_new else int}
    if not is_new:
        waits(
            lambda: (
                is_applied(folders[2], migrating(), MIGRATE)
                or in_force(folders[2]) == migrating().effective.hash
            )
        )
    again = run(folders[0])
    nodes = [again, *others]
    again.wait(lambda: again.follows)
    waits(lambda: are_level(nodes))
    assert [node.stop() for node in nodes] == [0, 0, 0]
    for folder in folders:
        assert states(folder) == {f"cell-{number}": [2] for number in range(CELLS)}
        replays(folder)

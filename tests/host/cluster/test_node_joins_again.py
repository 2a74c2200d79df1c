"""Nodes that run join again by themselves (spec/cluster.md, CL-154, CL-155)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from aos.core.decide.answers import Admitted
from aos.host.door.writer import open_writer
from tests.cli.shell import here
from tests.host import puppet
from tests.host.cluster.node_processes import NodeProcess, is_in_journal, made, send, waits
from tests.nats_servers import Servers


def test_a_node_that_was_left_behind_joins_again_and_takes_over(
    tmp_path: Path, three: Servers, run: Callable[..., NodeProcess]
) -> None:
    top = tmp_path / "joinsagain"
    top.mkdir()
    first, second = top / "a", top / "b"
    world = made(three, first, "--json")
    assert world.code == 0, world.err
    address = world.json["replica"]["address"]
    joined = here(
        "join", address, second, "--keys", first / "keys", "--node", "b", "--unverified-durability",
        "--json",
    )  # fmt: skip
    assert joined.code == 0, joined.err
    assert not joined.json["from_base"]

    a = run(first)
    a.wait(lambda: a.owns)
    with open_writer(first) as writer:
        assert isinstance(writer.apply(puppet.manifest()).answer, Admitted)
    for number in range(20):
        [answer] = send(first, [puppet.do(f"cell-{number}", submission_id=f"event-{number}")])
        assert is_in_journal(answer)
    base = here("cluster", "base", "--world", first, "--json")
    assert base.code == 0, base.err
    assert base.json["new"]

    # Its next message was trimmed.
    b = run(second)
    b.wait(lambda: b.follows)
    assert "this node joins again: " in b.output
    waits(lambda: b.has_all)
    again = here("join", address, top / "c", "--keys", first / "keys", "--node", "b",
                 "--unverified-durability")  # fmt: skip
    assert again.code == 1
    assert "another node of this world has this name, and runs" in again.err
    assert a.stop() == 0
    b.wait(lambda: b.owns)
    [answer] = send(second, [puppet.do("cell-1", submission_id="after")])
    assert is_in_journal(answer)
    assert b.stop() == 0
    # The world goes back into one folder, with everything that was acknowledged.
    taken = here("adopt", "--world", first, "--embedded", "--json")
    assert taken.code == 0, taken.err
    assert taken.json["seq"] >= 23
    [answer] = send(first, [puppet.do("cell-2", submission_id="embedded")])
    assert is_in_journal(answer)

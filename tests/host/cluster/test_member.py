"""A member decides what runs on its machine (spec/cluster.md, CL-230 to CL-238)."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest
from nacl.signing import SigningKey

from aos.errors import Refused
from aos.host.cluster.beating import Beats
from aos.host.cluster.group_registration import GroupRegistration, register_group
from aos.host.cluster.member import ClusterMember, MemberSettings
from aos.host.cluster.member_child import ChildCommands, WorldChild
from aos.host.cluster.member_values import Preference, drain_key, drain_value, member_key
from aos.host.cluster.placement import MemberView, place
from aos.host.cluster.registration import WorldRegistration, register
from aos.store.log.logged_store import LogEnd
from aos.store.log.memory_bucket import MemoryBucket, SharedBucket
from aos.values.digests import content_hash
from tests.memory_world import START_NS

KEY = SigningKey(b"k" * 32)
WORLD = content_hash(b"world")
STREAM = "shop-1"
ORDER = place(
    WORLD, [MemberView(name=name, worlds=frozenset([WORLD])) for name in ("m1", "m2", "m3")]
).members
FIRST, SECOND = ORDER


def commands(_world: str, path: Path, _keys: Path) -> ChildCommands:
    """A world that is joined at once, and runs until it is stopped."""
    return ChildCommands(
        join=["/bin/sh", "-c", f"mkdir -p {path} && touch {path}/world.json"],
        run=["/bin/sh", "-c", f"touch {path}/runs && exec sleep 1000"],
    )


class Account:
    """Servers in memory, with one registered world."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.now_s = 1000.0
        clock = lambda: START_NS + round(self.now_s * 1e9)  # noqa: E731
        self.worlds, self.beats = SharedBucket(now_ns=clock), SharedBucket(now_ns=clock)
        registration = WorldRegistration(name="shop", world=WORLD, stream=STREAM)
        register(MemoryBucket(self.worlds), registration.signed(KEY))
        keys = folder / "keys" / "shop"
        keys.mkdir(parents=True)
        (keys / "world.key").touch(mode=0o600)
        (keys / "world.key").write_text(bytes(KEY).hex() + "\n")
        self.members: list[ClusterMember] = []
        self.lines: list[str] = []
        self.asked: list[tuple[str, Future[None]]] = []

    def member(
        self, name: str, *, keys: Path | None = None, move_every_s: float = 10
    ) -> ClusterMember:
        (self.folder / name).mkdir(exist_ok=True)
        settings = MemberSettings(
            name=name, folder=self.folder / name, keys=keys or self.folder / "keys",
            commands=commands, report=lambda _, text: self.lines.append(f"{name}: {text}"),
            move_every_s=move_every_s, now_s=lambda: self.now_s,
        )  # fmt: skip

        def ask(_registration: object, _key: object, node: str) -> Future[None]:
            self.asked.append((node, Future()))
            return self.asked[-1][1]

        member = ClusterMember(settings, MemoryBucket(self.worlds), MemoryBucket(self.beats), ask)
        member.begin()
        self.members.append(member)
        return member

    def node(self, name: str) -> Beats:
        return Beats(
            MemoryBucket(self.beats), stream=STREAM, world=WORLD, key=KEY, node=name,
            instance=name.encode().ljust(16, b"."), inbox=f"inbox.{name}",
        )  # fmt: skip

    def pass_time(self, seconds: int, *acts: Callable[[], object]) -> None:
        """Let the members do their turns; the nodes ``acts`` beat meanwhile."""
        for _ in range(seconds):
            self.now_s += 1.0
            for act in acts:
                act()
            for member in self.members:
                member.turn()

    def runs(self, name: str) -> bool:
        """Wait until the process of the world runs at a member."""
        until_s = time.monotonic() + 120
        while not (self.folder / name / "shop" / "runs").exists():
            assert time.monotonic() < until_s, self.lines
            self.pass_time(1)
            time.sleep(0.02)
        return True


END = LogEnd(position=7, seq=7, frame=content_hash(b"frame"))


@pytest.fixture
def account(tmp_path: Path) -> Iterator[Account]:
    account = Account(tmp_path)
    yield account
    for member in account.members:
        account.now_s += 100
        member.close()


def test_a_world_runs_at_the_members_where_it_is_placed(account: Account) -> None:  # CL-233, CL-235
    for name in ("m1", "m2", "m3"):
        account.member(name)
    account.pass_time(5)
    assert account.runs(FIRST)
    assert account.runs(SECOND)
    [other] = {"m1", "m2", "m3"} - {*ORDER}
    assert f"{other}: members: m1, m2, m3" in account.lines


def test_a_world_without_a_key_is_named_once_and_left_alone(account: Account) -> None:  # CL-230
    keys = account.folder / "other keys"
    (keys / "shop").mkdir(parents=True)
    (keys / "shop" / "world.key").touch(mode=0o600)
    (keys / "shop" / "world.key").write_text((b"x" * 32).hex() + "\n")
    member = account.member("m1", keys=keys)
    account.pass_time(5)
    assert account.lines.count(f"m1: world shop: its key is not in {keys}: it is left alone") == 1
    assert not member.children


def test_a_member_asks_for_its_world_once_its_node_is_ready_and_one_move_at_a_time(  # CL-236
    account: Account,
) -> None:
    account.member(FIRST)
    account.runs(FIRST)
    owner, standby = account.node("by-hand"), account.node(FIRST)
    owner.claim(END)
    behind = LogEnd(position=6, seq=6, frame=content_hash(b"earlier"))
    account.pass_time(3, lambda: owner.renew(END), lambda: standby.stand_by(behind))
    assert not account.asked, "it is behind"

    def beat() -> None:
        owner.renew(END)
        standby.stand_by(END)

    account.pass_time(3, beat)
    assert [node for node, _ in account.asked] == [FIRST]
    account.asked[0][1].set_exception(Refused("the owner hands over to another node already"))
    account.pass_time(5, beat)
    assert len(account.asked) == 1, "moves are 10 s apart"
    account.pass_time(8, beat)
    assert len(account.asked) == 2
    owner.release(END)
    taken = account.node(FIRST)
    taken.claim(END)
    account.pass_time(2, lambda: taken.renew(END))
    assert f"{FIRST}: world shop: moved here from node by-hand" in account.lines


def test_a_world_that_an_operator_has_moved_to_a_node_stays_there(account: Account) -> None:
    # CL-229
    wish = Preference(name="shop", world=WORLD, node="by-hand")
    MemoryBucket(account.worlds).create(wish.key, wish.to_bytes())
    account.member(FIRST)
    owner, standby = account.node("by-hand"), account.node(FIRST)
    owner.claim(END)

    def beat() -> None:
        owner.renew(END)
        standby.stand_by(END)

    account.pass_time(20, beat)
    assert not account.asked
    MemoryBucket(account.worlds).remove(wish.key)
    account.pass_time(3, beat)
    assert account.asked


def test_a_member_that_drains_stops_a_world_once_another_node_owns_it(  # CL-237, CL-238
    account: Account,
) -> None:
    for name in ORDER:
        account.member(name)
        account.pass_time(2)
    account.runs(FIRST)
    here, other = account.node(FIRST), account.node(SECOND)
    here.claim(END)
    MemoryBucket(account.worlds).create(drain_key(FIRST), drain_value(FIRST))

    def beat() -> None:
        here.renew(END)
        other.stand_by(END)

    account.pass_time(3, beat)
    assert [node for node, _ in account.asked] == [SECOND]
    assert account.members[0].children, "it is the owner"
    here.release(END)
    other.claim(END)
    here.stand_by(END)
    account.pass_time(4, lambda: other.renew(END))
    assert f"{FIRST}: world shop: stops here, and node {SECOND} owns it" in account.lines
    until_s = time.monotonic() + 120
    while account.members[0].children:
        assert time.monotonic() < until_s
        account.pass_time(1, lambda: other.renew(END))
    assert MemoryBucket(account.beats).get(f"{STREAM}.standby.{FIRST}") is None
    assert (account.folder / FIRST / "shop").is_dir(), "folders stay"


def test_a_world_whose_registration_is_gone_stops(account: Account) -> None:  # CL-237
    member = account.member(FIRST)
    account.runs(FIRST)
    MemoryBucket(account.worlds).remove("shop")
    account.pass_time(2)
    assert f"{FIRST}: world shop: not registered any more: stops here" in account.lines
    until_s = time.monotonic() + 120
    while member.children:  # its process may have ended already
        assert time.monotonic() < until_s
        account.pass_time(1)


def test_the_registration_of_a_group_is_no_world_of_a_member(account: Account) -> None:
    """CL-231: its shards have registrations of their own."""
    group = GroupRegistration(name="orders", worlds=(content_hash(b"one"), content_hash(b"two")))
    register_group(MemoryBucket(account.worlds), group.signed(KEY))
    account.member(FIRST)
    account.pass_time(5)
    assert account.runs(FIRST)
    assert not [line for line in account.lines if "orders" in line]


def test_of_two_members_with_one_name_the_later_one_ends(  # CL-232
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    account.member("m1")
    account.pass_time(2)
    with monkeypatch.context() as patch:
        patch.setattr(time, "sleep", lambda _: account.pass_time(3))
        with pytest.raises(Refused, match="another process runs under the name of this member"):
            account.member("m1")


def test_a_member_that_was_killed_starts_again_under_its_name(  # CL-232
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    account.member("m1")
    account.pass_time(2)
    [killed] = account.members
    account.members.clear()
    with monkeypatch.context() as patch:
        patch.setattr(time, "sleep", lambda _: account.pass_time(3))
        account.member("m1")
    account.pass_time(3)
    assert account.runs("m1")
    with pytest.raises(Refused, match="another process runs under the name of this member"):
        killed.turn()
    account.now_s += 100
    killed.close()
    assert MemoryBucket(account.beats).get(member_key("m1")) is not None, "that of the other one"


def test_a_member_that_stops_is_gone_at_once(account: Account) -> None:  # CL-232
    member = account.member("m1")
    account.runs("m1")
    member.close()
    assert not member.children
    assert MemoryBucket(account.beats).get(member_key("m1")) is None


def test_a_process_that_dies_is_started_again_after_a_pause(tmp_path: Path) -> None:  # CL-235
    lines: list[str] = []
    now_s = [0.0]
    child = WorldChild(
        "shop", tmp_path, commands("shop", tmp_path / "shop", tmp_path),
        report=lambda _, text: lines.append(text), now_s=lambda: now_s[0],
    )  # fmt: skip
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop" / "world.json").touch()
    for pause_s in ("0.5", "1", "2"):
        child.look()
        process = child._process
        assert process is not None
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        child.look()
        assert child._process is None
        child.look()
        assert child._process is None, "it waits"
        assert f"ended with signal 9; started again in {pause_s} s" in lines[-1]
        now_s[0] += float(pause_s)
    child.look()
    child.stop()
    until_s = time.monotonic() + 120
    while not child.is_over:
        assert time.monotonic() < until_s
        child.look()

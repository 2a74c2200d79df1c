"""``sys/host.session.open@1`` and ``sys/host.session.signal@1`` (AG-69 to AG-102)."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from aos.effects.machine import machine
from aos.effects.machine.machine_host import (
    KEPT_NS,
    TTL_DEFAULT_NS,
    TTL_MAX_NS,
    HostSessions,
    MachineHost,
    StateFile,
    StateFolder,
    opened_machine,
)
from aos.errors import BadUsage, Damage
from aos.worker import NotConfigured
from tests.effects.machine.bench import Bench, inline, status, until

INTENT = "blake3:" + 64 * "a"


def local(**changes: Any) -> dict[str, Any]:
    return {"target": {"$tag": "local", "$value": {"network_mode": "host", **changes}}}


def test_a_second_attempt_finds_the_same_session(bench: Bench) -> None:
    """AG-69: also in another process."""
    params = local() | {"session_ttl_ns": 10**12}

    first = bench.run(lambda: bench.call("session.open", params, intent=INTENT))
    again = bench.run(lambda: bench.call("session.open", params, intent=INTENT))
    other = bench.run(lambda: bench.call("session.open", params))

    assert first == again
    assert status(first) == ("ready", None)
    assert first["expires_at_ns"] == first["started_at_ns"] + 10**12
    assert first["session_id"] == "host-" + 32 * "a"
    assert other["session_id"] != first["session_id"]


def test_a_session_outlives_the_process(bench: Bench) -> None:
    """AG-69: with its workdir and its environment."""
    (bench.root / "w").mkdir()
    session = bench.run(lambda: bench.open(workdir="/w", env={"A": "b"}))

    found = bench.run(lambda: bench.sh(session, "pwd; echo $A"))

    assert bench.text(found["stdout"]) == f"{bench.root / 'w'}\nb\n"


@pytest.mark.parametrize(("given", "used"), [(None, TTL_DEFAULT_NS), (10**18, TTL_MAX_NS), (5, 5)])
def test_a_session_has_an_end(bench: Bench, given: int | None, used: int) -> None:
    """AG-100."""
    found = bench.run(lambda: bench.call("session.open", local() | {"session_ttl_ns": given}))

    assert found["expires_at_ns"] - found["started_at_ns"] == used


SANDBOX = {"target": {"$tag": "sandbox", "$value": {"image": "debian"}}}
MOUNT = {"host_path": "/", "guest_path": "/", "mode": "ro"}


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        (SANDBOX, ("error", "target_unsupported")),
        (local(mounts=[MOUNT]), ("error", "target_unsupported")),
        (local(network_mode="bridge"), ("error", "target_unsupported")),
        (local(mounts=[]), ("ready", None)),
        (local(network_mode="egress"), ("ready", None)),
        (local(env={"": "x"}), ("error", "invalid_params")),
        (local(env={"A": "x" * 70_000}), ("error", "invalid_params")),
        (local(env={"A": "x\0"}), ("error", "invalid_params")),
        (local(workdir="none"), ("not_found", "not_found")),
        (local(workdir="file"), ("error", "not_a_directory")),
    ],
)
def test_a_target_that_this_machine_does_not_have_is_refused(
    bench: Bench, params: dict[str, Any], expected: tuple[str, str]
) -> None:
    """AG-101, AG-102."""
    (bench.root / "file").write_text("")

    found = bench.run(lambda: bench.call("session.open", params))

    assert status(found) == expected
    assert (found["session_id"] == "") == (expected[0] != "ready")
    assert bool(found["error_message"]) == (expected[0] != "ready")


def test_no_network_is_refused_where_the_machine_cannot_cut_it_off(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AG-102."""

    async def body() -> Any:
        assert bench.host is not None

        async def cannot() -> bool:
            return False

        monkeypatch.setattr(bench.host.commands, "can_cut_off_network", cannot)
        return await bench.call("session.open", local(network_mode="none"))

    assert status(bench.run(body)) == ("error", "target_unsupported")


EFFECTS: list[tuple[str, dict[str, Any]]] = [
    ("exec", {"argv": ["true"]}),
    ("fs.read_file", {"path": "f"}),
    ("fs.write_file", {"path": "f", "content": inline("x")}),
    ("fs.write_file", {"path": "g", "content": inline("x"), "mode": "create_new"}),
    ("fs.edit_file", {"path": "f", "old_string": "a", "new_string": "b"}),
    ("fs.apply_patch", {"patch": inline("*** Begin Patch\n*** Add File: a\n+b\n*** End Patch")}),
    ("fs.grep", {"pattern": "a"}),
    ("fs.glob", {"pattern": "*"}),
    ("fs.list_dir", {}),
    ("fs.stat", {"path": "f"}),
    ("fs.exists", {"path": "f"}),
]


@pytest.mark.parametrize("id", ["", "host-", "../x", "host-" + 32 * "f", "host-" + 32 * "F"])
def test_every_effect_knows_an_unknown_session(bench: Bench, id: str) -> None:
    """AG-100."""

    async def body() -> list[Any]:
        return [await bench.call(name, {"session_id": id, **params}) for name, params in EFFECTS]

    assert {status(each) for each in bench.run(body)} == {("error", "session_unknown")}
    assert list(bench.root.iterdir()) == []


def test_every_effect_knows_an_expired_and_a_closed_session(bench: Bench) -> None:
    """AG-100."""

    async def body() -> None:
        expired = await bench.call("session.open", local() | {"session_ttl_ns": 0})
        closed = await bench.open()
        await bench.call("session.signal", {"session_id": closed, "signal": "term"})
        for id, code in ((expired["session_id"], "session_expired"), (closed, "session_closed")):
            for name, params in EFFECTS:
                found = await bench.call(name, {"session_id": id, **params})
                assert status(found) == ("error", code), name

    bench.run(body)

    assert list(bench.root.iterdir()) == []


@pytest.mark.parametrize("word", ["term", "SIGTERM", "kill", "close"])
def test_a_closing_signal_ends_the_commands_of_its_session(bench: Bench, word: str) -> None:
    """AG-101: and no others. The same intent gets the same answer again."""

    async def body() -> None:
        session, other = await bench.open(), await bench.open()
        script = "trap '' TERM; echo x > begun; sleep 60; sleep 60"
        running = asyncio.ensure_future(bench.sh(session, script))
        staying = asyncio.ensure_future(bench.sh(other, "sleep 0.6; echo stayed"))
        await until((bench.root / "begun").exists)
        params = {"session_id": session, "signal": word, "grace_timeout_ns": 200_000_000}
        first = await bench.call("session.signal", params, intent=INTENT)
        assert running.done() or (await asyncio.wait_for(running, 60))
        ended = await running
        assert status(ended) == ("signaled", None)
        assert ended["exit_code"] == -9
        again = await bench.call("session.signal", params, intent=INTENT)
        later = await bench.call("session.signal", params)
        assert (status(first), again) == (("signaled", None), first)
        assert first["ended_at_ns"] is not None
        assert status(later) == ("already_exited", None)
        assert later["ended_at_ns"] == first["ended_at_ns"]
        assert bench.text((await staying)["stdout"]) == "stayed\n"

    bench.run(body)


def test_another_signal_reaches_the_commands_and_the_session_stays_open(bench: Bench) -> None:
    """AG-101."""

    async def body() -> None:
        session = await bench.open()
        script = "trap 'echo got; exit 4' USR1; echo x > begun; while :; do sleep 0.05; done"
        running = asyncio.ensure_future(bench.sh(session, script))
        await until((bench.root / "begun").exists)
        found = await bench.call("session.signal", {"session_id": session, "signal": "usr1"})
        assert status(found) == ("signaled", None)
        ended = await running
        assert (ended["exit_code"], bench.text(ended["stdout"])) == (4, "got\n")
        assert status(await bench.sh(session, "true")) == ("ok", None)

    bench.run(body)


def test_a_signal_to_no_session_and_an_unknown_signal_are_reported(bench: Bench) -> None:
    """AG-101."""

    async def body() -> None:
        session = await bench.open()
        unknown = await bench.call("session.signal", {"session_id": "x", "signal": "term"})
        odd = await bench.call("session.signal", {"session_id": session, "signal": "wink"})
        assert status(unknown) == ("not_found", "session_unknown")
        assert status(odd) == ("error", "invalid_params")

    bench.run(body)


def session_file(bench: Bench, session: str) -> StateFile:
    return StateFolder(bench.state).inner(session).file("session")


def test_a_session_file_that_was_altered_gives_no_way_out(bench: Bench) -> None:
    """AG-69: its workdir is walked from the root again."""
    session = bench.run(bench.open)
    file = session_file(bench, session)
    value = file.read()
    (bench.folder / "secret").write_text("s")

    for workdir, code in (["..", ".."], "path_outside"), (["../.."], "not_found"):
        file.write({**value, "workdir": list[Any](workdir)})
        found = bench.run(
            lambda: bench.call("fs.read_file", {"session_id": session, "path": "secret"})
        )
        assert found["error_code"] == code
    for odd in (
        {**value, "workdir": 7},
        {**value, "expires_ns": "x"},
        {**value, "env": {"A": 1}},
        {**value, "more": 1},
        {**value, "id": "host-" + 32 * "0"},
        {},
        7,
    ):
        file.write(odd)
        found = bench.run(lambda: bench.sh(session, "true"))
        assert status(found) == ("error", "session_unknown")


def test_sessions_are_not_kept_behind_a_link(bench: Bench) -> None:
    """AG-69: the folder of a world may come from someone else."""
    (bench.folder / "elsewhere").mkdir()
    bench.state.symlink_to("elsewhere")
    with pytest.raises(Damage, match="found a symbolic link"):
        MachineHost(bench.root, bench.state)

    bench.state.unlink()
    session = bench.run(bench.open)
    (bench.state / session / "begun").symlink_to(bench.folder / "elsewhere")
    with pytest.raises(Damage, match="found a symbolic link"):
        bench.run(lambda: bench.sh(session, "echo x > ran"))

    assert list((bench.folder / "elsewhere").iterdir()) == []
    assert list(bench.root.iterdir()) == []


def test_files_of_sessions_that_ended_long_ago_are_removed(bench: Bench) -> None:
    """AG-100."""
    old, young = bench.run(bench.open), bench.run(bench.open)
    file = session_file(bench, old)
    ended = time.time_ns() - KEPT_NS - 10**9
    file.write(file.read() | {"expires_ns": ended})
    (bench.state / "notes").mkdir()

    HostSessions(bench.state)

    assert sorted(each.name for each in bench.state.iterdir()) == sorted([young, "notes"])


@pytest.mark.parametrize("effect", sorted(machine.effects))
def test_without_a_root_every_effect_is_held(bench: Bench, effect: str) -> None:
    """AG-60."""

    async def body() -> None:
        with pytest.raises(NotConfigured) as held:
            await machine.effects[effect]({}, bench.context(effect, INTENT))
        assert held.value.code == "host_root_missing"
        assert "--host-root DIR" in str(held.value)

    asyncio.run(body())


def test_root_and_state_come_from_the_environment(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AG-60."""

    async def opened() -> MachineHost | None:
        async with opened_machine() as host:
            return host

    monkeypatch.delenv("AOS_HOST_ROOT", raising=False)
    assert asyncio.run(opened()) is None
    monkeypatch.setenv("AOS_HOST_ROOT", str(bench.root))
    with pytest.raises(BadUsage, match="AOS_HOST_STATE"):
        asyncio.run(opened())
    monkeypatch.setenv("AOS_HOST_STATE", str(bench.state))
    assert isinstance(asyncio.run(opened()), MachineHost)


@pytest.mark.parametrize("state", ["root", "root/state", "."])
def test_the_state_is_apart_from_the_root(bench: Bench, state: str) -> None:
    """AG-69."""
    with pytest.raises(BadUsage, match="expected a folder apart from the root"):
        MachineHost(bench.root, bench.folder / state)

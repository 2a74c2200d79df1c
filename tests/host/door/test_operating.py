"""Commands that the process signs with an operator's key of its own (H-59f)."""

from __future__ import annotations

from pathlib import Path

import pytest
from nacl.signing import SigningKey

from aos.core.decide.answers import Admitted, Refusal, Rule
from aos.errors import BadUsage, Refused
from aos.host.door.server import Server
from aos.store.lmdb_store import LmdbStore
from tests.host.door.test_link import linked, run
from tests.host.door.test_server import error
from tests.host.puppet import manifest
from tests.host.rig import FaultyStore, Rig, asking, begin
from tests.host.served import Served, served
from tests.memory_world import OPERATOR, OPERATOR_KEY


def test_a_command_without_a_signature_is_signed_in_the_operators_name(tmp_path: Path) -> None:
    async def body(world: Served) -> None:
        world.rig.ask(asking("a"))
        [intent] = world.rig.opened(1)
        async with linked(world) as link:
            answer = await link.operate("cancel", intent=intent.intent)
            again = await link.operate("cancel", intent=intent.intent)
        assert isinstance(answer, Admitted)
        assert isinstance(again, Refusal)
        assert again.rule is Rule.INTENT_IS_NOT_OPEN

    with served(tmp_path / "w", operator_key=OPERATOR_KEY) as world:
        run(body(world))
    [control] = [each for each in world.rig.records() if each.KIND == "control"]
    assert control.principal == OPERATOR.name  # type: ignore[union-attr]  # it is a control record


def test_a_manifest_without_a_signature_is_signed_and_its_modules_come_with_it(
    tmp_path: Path,
) -> None:
    async def body(world: Served) -> None:
        new = manifest()
        async with linked(world) as link:
            answer = await link.apply_here(new.effective.document, new.modules)
            assert isinstance(answer, Admitted)
            with pytest.raises(Refused, match="the manifest is refused"):
                await link.apply_here(b"nonsense", {})

    (tmp_path / "w").mkdir()
    with LmdbStore.create(tmp_path / "w" / "store") as store:
        begin(store)
        rig = Rig(FaultyStore(store))
        with served(tmp_path / "w", rig, operator_key=OPERATOR_KEY) as world:
            run(body(world))
            in_force = world.rig.engine.stats().figures.manifest
            assert in_force is not None
            assert in_force.hash == manifest().effective.hash


def test_without_a_key_or_with_half_a_signature_nothing_is_signed(tmp_path: Path) -> None:
    async def body(world: Served) -> None:
        async with linked(world) as link:
            with pytest.raises(BadUsage, match="principal"):
                await link.operate("retry", cell=("t/counter@1", b""))

    with served(tmp_path / "w") as world:
        run(body(world))
    with served(tmp_path / "v", operator_key=OPERATOR_KEY) as world, world.connect() as connection:
        half = world.ask(connection, op="control", action="retry", principal="operator", serial=0)
        assert error(half)[0] == "usage"
        assert "control" not in world.rig.kinds()


def test_the_key_of_someone_else_is_refused_at_the_start(tmp_path: Path) -> None:
    with served(tmp_path / "w") as world, pytest.raises(Refused, match="this key may not operate"):
        Server(
            world.rig.engine,
            world=world.rig.world,
            operators=(OPERATOR,),
            stop=lambda: None,
            operator_key=SigningKey(bytes(32)),
        )


def test_a_command_for_a_number_of_commands_is_refused_after_another_one(tmp_path: Path) -> None:
    """H-59f"""

    async def body(world: Served) -> None:
        world.rig.ask(asking("a"))
        world.rig.ask(asking("b"))
        first, second = world.rig.opened(2)
        async with linked(world) as link:
            answer = await link.operate("cancel", intent=first.intent, controls=0)
            late = await link.operate("cancel", intent=second.intent, controls=0)
            again = await link.operate("cancel", intent=second.intent, controls=1)
        assert isinstance(answer, Admitted)
        assert isinstance(late, Refusal)
        assert late.rule is Rule.CONTROL_SERIAL_IS_WRONG
        assert isinstance(again, Admitted)

    with served(tmp_path / "w", operator_key=OPERATOR_KEY) as world:
        run(body(world))
    assert sum(each.KIND == "control" for each in world.rig.records()) == 2

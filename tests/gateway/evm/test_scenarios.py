"""The stories of ``scenarios.py``, on the fake node and on anvil."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from tests.gateway.evm.fake_node import CHAIN_ID, FakeNode
from tests.gateway.evm.scenarios import SCENARIOS, Ground
from tests.gateway.evm.stage import STUDIO, opened
from tests.gateway.evm.studio import Studio
from tests.gateway.real_chain import MANUAL, chain_up

Story = Callable[[Ground], Awaitable[None]]


def play(story: Story, url: str, control: Callable[..., Any], studio: str) -> None:
    async def played() -> None:
        async with opened(f"{CHAIN_ID}={url}") as effects:
            await story(Ground(story.__name__, effects, control, studio))

    asyncio.run(played())


@pytest.fixture(scope="module", params=["anvil", "geth"])
def fake(request: pytest.FixtureRequest) -> Iterator[FakeNode]:
    with FakeNode(style=request.param) as node:
        node.chain.put_studio(STUDIO, Studio(reveal_delay=5))
        node.mine(3)
        yield node


@pytest.mark.parametrize("story", SCENARIOS)
def test_a_story_is_true_on_the_fake_node(fake: FakeNode, story: Story) -> None:
    play(story, fake.url, fake.ask, STUDIO)


@pytest.fixture(scope="module")
def anvil(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Any, str]]:
    """One node for all stories, or a loud skip."""
    with chain_up(tmp_path_factory.mktemp("anvil"), MANUAL) as chain:
        yield chain.url, lambda method, *params: chain.rpc(method, params), chain.studio


@pytest.mark.parametrize("story", SCENARIOS)
def test_a_story_is_true_on_anvil(anvil: tuple[str, Any, str], story: Story) -> None:
    play(story, *anvil)

"""One node for the tests that do not stop it: the trips of the cookbook, and a front."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.client.conftest import template, trips
from tests.copies import copied
from tests.node.nodes import Node, front, running_kernel

__all__ = ["template", "trips"]


@pytest.fixture(scope="session")
def node(template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    folder = tmp_path_factory.mktemp("node")
    path = copied(template, folder / "trips")
    with running_kernel(path) as kernel, front(path, folder / "front", kernel) as found:
        yield found


@pytest.fixture(scope="session")
def client(node: Node) -> httpx.Client:
    """A client on loopback, without a token."""
    return node.client()

"""Use a world from a Python service: send events, wait for instances, read states, follow the
journal (spec/guides/integrate.md).

    import aos.client

    with aos.client.connect("shop") as world:
        world.send("shop/OrderPlaced@1", order, id="web-4711")
        print(world.wait("order", "o-1").state)

``connect`` uses a world of this machine. ``Client`` and ``AsyncClient`` have the same methods, and
use the world of a node, over HTTP.
"""

from aos.client.async_node_client import AsyncClient
from aos.client.connecting import WorldClient, connect
from aos.client.current import Instance, WaitTimedOut
from aos.client.node_client import Client
from aos.client.sending import Accepted, SendAnswer
from aos.core.decide.answers import Duplicate, Refusal, Rule
from aos.host.door.writer import Item

__all__ = [
    "Accepted", "AsyncClient", "Client", "Duplicate", "Instance", "Item", "Refusal", "Rule",
    "SendAnswer", "WaitTimedOut", "WorldClient", "connect",
]  # fmt: skip

"""Projects in Python: small ones for tests, whose flow asks an effect once."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from aos.author.project import Project, read_project

TOML: Final = '[project]\nname = "shop"\nlang = "python"\nexecutors = ["effects.py:shop"]\n'

FLOW: Final = '''\
"""An order."""

from typing import Annotated, ClassVar

from aos.flow import Cx, Nat, effect, flow, schema


@schema("shop/Order@1")
class Order:
    """A customer's order."""

    order_id: str
    cents: Annotated[int, Nat]


@schema("shop/Paid@1")
class Paid:
    charge: str


@effect("shop/charge@1", executor="shop")
class Charge:
    cents: Annotated[int, Nat]
    receipt: ClassVar[type[Paid]]


@flow("shop/order@1", key="order_id")
async def order(cx: Cx, placed: Order) -> Paid:
    """Charge an order."""
    return await cx.step("charge", Charge(placed.cents))
'''

EFFECTS: Final = """
from aos.worker import Executors, effect

@effect("shop/charge@1")
def charge(params, ctx):
    return {"charge": f"ch-{params['cents']}"}

shop = Executors("shop", [charge])
"""


def project(folder: Path, *, more: str = "", **sources: str | bytes) -> Project:
    """A project with ``flow.py``, or with these sources: ``orders="…"`` is ``orders.py``."""
    folder.mkdir(parents=True)
    (folder / "aos.toml").write_text(TOML + more)
    (folder / "effects.py").write_text(EFFECTS)
    for name, text in (sources or {"flow": FLOW}).items():
        data = text if isinstance(text, bytes) else text.encode()
        (folder / f"{name}.py").write_bytes(data)
    return read_project(folder)

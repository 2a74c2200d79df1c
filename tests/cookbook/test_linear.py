"""manifests/cookbook/linear: two plans, their handlers, and the README as a user types it."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any, Final

import pytest

from aos.testing import World
from tests.cookbook.typed import bin_, blocks, follow
from tests.cookbook.worlds import ROOT, recipe
from tests.free_ports import free_port

pytestmark = pytest.mark.rotated(3)

__all__ = ["bin_"]

FOLDER: Final = recipe("linear")
TEA: Final = {"items": [{"sku": "tea", "cents": 450}]}
PAYMENT: Final = {"id": "p-17", "cents": 450}


@pytest.fixture
def world() -> World:
    return World(str(FOLDER), executors=f"{FOLDER / 'plans.py'}:shop")


def shown(world: World, instance: str) -> dict[str, Any]:
    found = world.linear(instance)
    assert found is not None
    return found


def test_an_order_is_paid_on_the_second_day_and_shipped(world: World) -> None:
    with world:
        world.start_linear("order.process", "i-1", TEA, biz_key="o-1")
        world.advance("1d")
        assert shown(world, "i-1")["steps"][1]["status"] == "WAITING"

        world.signal_linear("i-1", "PAID", "p-16", {"id": "p-16", "cents": 1})
        world.signal_linear("i-1", "PAID", "p-17", PAYMENT)
        world.run()

        found = shown(world, "i-1")
        assert found["status"] == "COMPLETED"
        assert found["context"] == TEA | {
            "total_cents": 450, "payment": "p-17", "parcel": "parcel-i-1/2",
        }  # fmt: skip
        assert world.events("shop/Shipped@1") == [{"order": "i-1", "parcel": "parcel-i-1/2"}]


def test_an_order_without_a_payment_ends_after_three_days_to_the_nanosecond(world: World) -> None:
    with world:
        world.start_linear("order.process", "i-1", TEA)
        world.run()
        world.advance(3 * 86_400 * 10**9 - 1)
        assert shown(world, "i-1")["status"] == "RUNNING"

        world.advance(1)

        found = shown(world, "i-1")
        assert (found["status"], found["last_error"]) == ("FAILED", "nobody paid")
        assert world.status("aos/linear@1", "i-1") == "failed"


def test_a_carrier_that_does_not_answer_is_asked_three_times(world: World) -> None:
    with world:
        world.start_linear("order.process", "i-1", TEA | {"address": "Limbo"})
        world.signal_linear("i-1", "PAID", "p-17", PAYMENT)
        world.advance("2s")

        found = shown(world, "i-1")["steps"][2]
        assert (found["status"], found["attempts"]) == ("DEAD", 3)
        assert found["last_error"] == "the carrier does not answer"
        assert world.events("shop/Shipped@1") == []
        assert len(world.emitted("aos/LinearEnded@1")) == 1
        assert shown(world, "i-1")["failed_at"] == "2024-01-01T00:00:01.500Z"  # 500 ms, then 1 s


@pytest.mark.parametrize(
    ("plan", "context", "error"),
    [
        ("order.process", {}, "the order has no items"),
        ("order.return", {}, "no_payment: there is nothing to refund"),
    ],
)
def test_a_handler_fails_an_instance_at_once(
    world: World, plan: str, context: dict[str, Any], error: str
) -> None:
    with world:
        world.start_linear(plan, "i-1", context)
        world.run()

        found = shown(world, "i-1")
        assert (found["status"], found["attempts"], found["last_error"]) == ("FAILED", 1, error)


def test_a_schedule_starts_an_order_each_month_unless_the_last_one_is_open(world: World) -> None:
    with world:
        world.advance_to("2024-02-01T09:00:00Z")
        first = "tea-club@2024-02-01T08:00:00Z"
        assert shown(world, first)["status"] == "RUNNING"

        world.signal_linear(first, "PAID", "p-17", PAYMENT)
        world.advance_to("2024-03-01T09:00:00Z")

        assert shown(world, first)["status"] == "COMPLETED"
        assert shown(world, "tea-club@2024-03-01T08:00:00Z")["schedule"] == "tea-club"
        found = world.schedule("tea-club")
        assert found is not None
        assert (found["runs"], found["overlapped"]) == (3, 0)


def test_a_restart_between_any_two_steps_changes_nothing(world: World) -> None:
    with world:
        world.start_linear("order.process", "i-1", TEA)
        for step in range(1, 12):
            world.crash_after(world.steps + step % 3 + 1)
            world.run()
            if step == 3:
                world.signal_linear("i-1", "PAID", "p-17", PAYMENT)
        assert shown(world, "i-1")["status"] == "COMPLETED"
        assert len(world.events("shop/Shipped@1")) == 1


def test_the_readme_as_a_user_types_it(bin_: Path) -> None:
    for folder in ("manifests", "modules"):
        Path(folder).symlink_to(ROOT / folder)
    port = str(free_port())
    typed = [
        block.replace("aos node ", f"aos node --listen 127.0.0.1:{port} ")
        for block in blocks(FOLDER / "README.md")
    ]

    found = follow("\n".join(typed), bin_=bin_)

    for each in (
        r"refused",
        r"PAY  WAITING  0 of 10 attempts failed  waits for PAID",
        r'"payment":"p-17"',
        r"r-1(.|\n)*status    COMPLETED",
        r"i-1(.|\n)*2  SHIP  DONE  1 of 3 attempts failed",
        r"i-1  order.process@1  COMPLETED",
        r"byte-identical",
    ):
        assert re.search(each, found), f"{each}\n{found}"


def test_the_tutorial_is_true_word_for_word(bin_: Path) -> None:
    (bin_ / "python3").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (bin_ / "python3").chmod(0o755)
    port = str(free_port())
    typed = [
        block.replace("aos node ", f"aos node --listen 127.0.0.1:{port} ")
        for block in blocks(FOLDER / "TUTORIAL.md")
    ]

    found = follow("\n".join(typed), bin_=bin_)

    for each in (
        r"the customer got 450 cents after 30 days",
        r"0  INSPECT  DONE(.|\n)*1  DECIDE  WAITING",
        r"one return at a time",
        r"2  REFUND  DONE  1 of 5 attempts failed",
        r"begin r-1/2\nbegin r-1/2\nrefund r-1/2 450\n",
        r"r-3  parcel.return@1  COMPLETED",
        r"r-4  parcel.return@2  COMPLETED",
        r"2  RESTOCK  DONE",
        r"byte-identical",
    ):
        assert re.search(each, found), f"{each}\n{found}"

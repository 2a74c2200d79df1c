"""Random histories of a desk (tests/core/desk.py), in memory and on disk."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from aos.core.state.cell import OpenIntent
from tests.core.desk import (
    EFFECT_CANCEL,
    INTROSPECT,
    ONCE,
    PAY,
    cancel,
    cell_id,
    pay,
    timer,
    wish,
)
from tests.host.on_disk import folder_of, more_of
from tests.prove.desks import Desk

KEYS = (
    "a",
    "ab",
    "abc",
    "b",
    "",
    "ä",
    "k" * 30,
    "k" * 31 + "x",
    "z" * 300,
    "y" * 600,
    "y" * 601,
    "y" * 599 + "a",
    "y" * 599 + "z",
)


class History:
    """A world on disk whose journal grows by random inputs."""

    def __init__(self, path: Path, seed: object) -> None:
        self.chosen = random.Random(f"index {seed}")
        self.world = Desk()
        self.path = folder_of(self.world, path)

    def grow(self, inputs: int) -> None:
        """Give the world so many random inputs, and write their frames to the disk."""
        self.give(inputs)
        more_of(self.world, self.path)

    def give(self, inputs: int) -> None:
        """Give the world so many random inputs."""
        for _ in range(inputs):
            self._input()
            if self.chosen.random() < 0.1:
                self.world.now_ns += self.chosen.randrange(200 * 10**9)
        self.world.run()

    def _input(self) -> None:
        world, chosen = self.world, self.chosen
        key = chosen.choice(KEYS)
        cell = world.state.cells.get(cell_id(key))
        match chosen.randrange(12):
            case 0:
                self._tell(key, note=chosen.choice(["fail", "delete"]))
            case 1 | 2 | 3:
                self._tell(key, *(self._ask() for _ in range(chosen.randrange(1, 4))))
            case 4:
                self._tell(key, cancel(ref=chosen.choice("pt"), of=EFFECT_CANCEL))
            case 5 | 6 if payable := self._payable():
                self._settle(chosen.choice(payable))
            case 7 if payable := self._payable():
                world.control("cancel", intent=chosen.choice(payable).intent)
                world.run()
            case 8 if cell is not None and cell.fault is not None:
                world.control(chosen.choice(["retry", "skip"]), cell=cell.id)
            case 9 if cell is not None:
                if chosen.random() < 0.5:
                    world.control(
                        "end", cell=cell.id, status=chosen.choice(["completed", "failed"])
                    )
                else:
                    world.control("remove", cell=cell.id, why="test")
            case 10 if payable := self._payable():
                world.attempt(chosen.choice(payable), chosen.randrange(1, 3))
            case _:
                self._tell(key, note="x" * chosen.randrange(3))
        if chosen.random() < 0.7:
            world.run()

    def _tell(self, key: str, *asks: Any, note: str = "") -> None:
        self.world.send("t/Tell@1", {"key": key, "asks": list(asks), "note": note})

    def _ask(self) -> Any:
        match self.chosen.randrange(5):
            case 0:
                return timer(self.world, "t")
            case 1:
                return wish(ONCE, {"n": 1}, "o")
            case 2:
                return wish(INTROSPECT[2], {})
        return pay("p", self.chosen.randrange(5))

    def _payable(self) -> list[OpenIntent]:
        held = [*self.world.open(), *self.world.state.abandoned.values()]
        return [each for each in held if each.effect.name == PAY]

    def _settle(self, intent: OpenIntent) -> None:
        if self.chosen.random() < 0.3:
            given = self.world.receipt(
                intent, {"code": "declined", "message": "no"}, status="error"
            )
        else:
            payload: Any = {"ref": "x"} if self.chosen.random() < 0.8 else {"wrong": 1}
            given = self.world.receipt(intent, payload)
        self.world.kernel.admit(given, self.world.stamp())  # refused, after a later attempt

    def snapshot(self) -> None:
        """A snapshot of the world, as it is now."""
        self.world.run()
        self.world.snapshot()
        self.world.run()
        more_of(self.world, self.path)

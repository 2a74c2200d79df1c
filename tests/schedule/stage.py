"""A world with `aos/schedule@1`, and a clock that can be wrong or stand still."""

from __future__ import annotations

from typing import Any, Final

from aos.testing import World

SECOND: Final = 10**9
MINUTE: Final = 60 * SECOND
HOUR: Final = 60 * MINUTE
DAY: Final = 24 * HOUR
START: Final = "2026-03-01T00:00:00Z"
SWEEP: Final = "shop/Sweep@1"
SCHEDULE: Final = "aos/schedule@1"


def nodes(*schedules: dict[str, Any], **more: Any) -> list[dict[str, Any]]:
    """A manifest with these schedules, and an event for them."""
    return [
        {
            "$kind": "defschema",
            "name": SWEEP,
            "type": {"record": {"id": {"text": {}}, "days": {"nat": {}}}},
        },
        {
            "$kind": "manifest",
            "air_version": "2",
            "schemas": [{"name": SWEEP}],
            "modules": [],
            "workflows": [],
            "effects": [],
            "uses": ["aos/schedule@1", "aos/linear@1"],
            "plans": [{"type": "report", "version": 1, "steps": [{"type": "MAKE"}]}],
            "schedules": list(schedules),
        }
        | more,
    ]


def sweep(id: str = "nightly", **more: Any) -> dict[str, Any]:
    """A schedule that emits `shop/Sweep@1` each night."""
    made = {
        "id": id, "cron": "30 2 * * *", "event": SWEEP, "value": {"days": 30}, "at_field": "id",
    }  # fmt: skip
    if "every_ms" in more:
        del made["cron"]
    return made | more


class Stage:
    """A world, and the outcomes of its schedules."""

    def __init__(self, *schedules: dict[str, Any], now: str = START, **more: Any) -> None:
        self.world = World(nodes(*schedules, **more), now=now)
        self.world.run()

    def due(self) -> list[str]:
        """The due times of the events so far, as their ids have them."""
        return [str(each["id"]).partition("@")[2] for each in self.world.events(SWEEP)]

    def show(self, id: str = "nightly") -> dict[str, Any]:
        found = self.world.schedule(id)
        assert found is not None
        return found

    def create(self, **definition: Any) -> None:
        self.world.create_schedule(**sweep(**definition))
        self.world.run()

    def tell(self, word: str, id: str = "nightly") -> str:
        """Send `aos/Schedule<word>@1`; return the answer."""
        before = len(self.world.annotations(SCHEDULE, id))
        self.world.send(f"aos/Schedule{word}@1", {"schedule" if word == "Done" else "id": id})
        self.world.run()
        found = self.world.annotations(SCHEDULE, id)[before]
        return str(found.get("$value", {}).get("detail", found["$tag"]))

    def jump(self, ns: int, *, crash: bool = True) -> None:
        """The clock moves while the world does not run; then it runs again."""
        self.world._desk.now_ns += ns
        if crash:
            self.world.restart()
        self.world.run()

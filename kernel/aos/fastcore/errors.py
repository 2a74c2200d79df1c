"""The errors of the second kernel, in a file that needs no engine."""

from __future__ import annotations


class CoreDefect(Exception):
    """The core trapped: its own error, not one of its input. Its instance is not used any more."""

    def stops(self) -> str:
        """Return why a world with this core stops, and how it continues (CR-36)."""
        return (
            f"{self} (a defect of the second kernel; everything acknowledged is durable; start "
            "again with --core python to continue from there)"
        )

    def reads(self) -> str:
        """Return why the reference reads a world in the place of the core (CR-39)."""
        return f"{self} (a defect of the second kernel; the kernel in Python reads this world)"

    def replays(self) -> str:
        """Return why a replay with this core ends, and how to replay the journal (CR-36)."""
        return (
            f"{self} (a defect of the second kernel; the journal is not changed; --core python "
            "replays it with the kernel in Python)"
        )


class CoreFull(CoreDefect):
    """As ``CoreDefect``: the core needed more memory than its instance may have. The world fits
    into an instance with more, or into a kernel without this bound."""

    def stops(self) -> str:
        return (
            f"{self} (everything acknowledged is durable; start again with a larger value, or with "
            "--core python, to continue from there)"
        )

    def reads(self) -> str:
        return f"{self} (the kernel in Python reads this world; a larger value makes room)"

    def replays(self) -> str:
        return f"{self} (start again with a larger value, or with --core python)"


def gives_way(reason: str) -> str:
    """Return the line that says why the reference runs a world, and how to change that (CR-37a).
    ``reason`` names the variable that bounds the memory, with its value."""
    return (
        "this world does not fit into the second kernel, so the kernel in Python runs it: "
        f"{reason}; a larger value makes room, and --core python skips the attempt"
    )


class CoreUnusable(Exception):
    """An operation after one that left the core's world half changed, or after a trap (CR-12). The
    host opens another kernel, which continues from the journal."""

"""The streams of worlds in memory, for tests and the simulator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from aos.errors import Damage
from aos.store.log.log import Log, LogUnreachable
from aos.store.log.memory_log import Fate, MemoryLog, SharedStream
from aos.store.log.world_streams import StreamAge, base_prefix
from aos.values.digests import Hash


@dataclass(slots=True)
class SharedStreams:
    """The streams that all servers have, by name. ``now_ns`` is their clock; ``written_ns`` is when
    something was written to a stream of a base, as far as this model knows: when it was made."""

    streams: dict[str, SharedStream] = field(default_factory=dict)
    now_ns: Callable[[], int] = lambda: 0
    written_ns: dict[str, int] = field(default_factory=dict)


class MemoryStreams:
    """One node's view of them, as ``WorldStreams``. ``fate`` decides about each message that this
    node sends; ``step`` is called with the name of each request before it is carried out and after
    that, and may raise."""

    def __init__(
        self,
        shared: SharedStreams,
        fate: Callable[[], Fate] = lambda: Fate.ANSWERED,
        *,
        step: Callable[[str], None] = lambda _: None,
        part_bytes: int = 2000,
    ) -> None:
        self.shared = shared
        self.is_away = False
        self._fate = fate
        self._step = step
        self._part_bytes = part_bytes

    def make(self, stream: str) -> None:
        """As ``WorldStreams.make``."""
        self._reach(f"make {stream}")
        if stream not in self.shared.streams:
            self.shared.streams[stream] = SharedStream()
            self.shared.written_ns[stream] = self.shared.now_ns()
        self._step(f"made {stream}")

    def log(self, stream: str) -> Log:
        """As ``WorldStreams.log``."""
        self._reach(f"open {stream}")
        return SteppedLog(self._stream(stream), self._fate, self._step)

    def part_bytes(self) -> int:
        """As ``WorldStreams.part_bytes``."""
        return self._part_bytes

    def size_bytes(self, stream: str) -> int:
        """As ``WorldStreams.size_bytes``."""
        self._reach(f"size {stream}")
        shared = self._stream(stream)
        kept = shared.messages[shared.first - 1 :]
        return sum(len(part.data) for part in kept if part is not None)

    def first(self, stream: str) -> int:
        """As ``WorldStreams.first``."""
        self._reach(f"first of {stream}")
        return self._stream(stream).first

    def seal(self, stream: str) -> None:
        """As ``WorldStreams.seal``."""
        self._reach(f"seal {stream}")
        self._stream(stream).is_sealed = True
        self._step(f"sealed {stream}")

    def remove(self, stream: str) -> None:
        """As ``WorldStreams.remove``."""
        self._reach(f"remove {stream}")
        self.shared.streams.pop(stream, None)
        self._step(f"removed {stream}")

    def bases(self, world: Hash) -> list[StreamAge]:
        """As ``WorldStreams.bases``."""
        self._reach("bases")
        now_ns, written_ns = self.shared.now_ns(), self.shared.written_ns
        return [
            StreamAge(name, now_ns - written_ns.get(name, now_ns))
            for name in sorted(self.shared.streams)
            if name.startswith(base_prefix(world))
        ]

    def _stream(self, stream: str) -> SharedStream:
        shared = self.shared.streams.get(stream)
        if shared is None:
            raise Damage("the stream is missing", location="memory", expected=f"{stream}")
        return shared

    def _reach(self, request: str) -> None:
        if self.is_away:
            raise LogUnreachable("the servers do not answer")
        self._step(request)


class SteppedLog(MemoryLog):
    """A log that calls ``step`` before each request."""

    def __init__(
        self, stream: SharedStream, fate: Callable[[], Fate], step: Callable[[str], None]
    ) -> None:
        super().__init__(stream, fate)
        self._before = step

    def _reach(self) -> None:
        self._before("log")
        super()._reach()

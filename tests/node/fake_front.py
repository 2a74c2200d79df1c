"""A front that a test tells how to behave: ``python -m tests.node.fake_front LOG WORD…``.

It notes each start in LOG, with its process id. The words of the first, second, … start are
``WORD…``; the last one holds for all further starts:

    good     answers each connection with its process id; ends when the world stops, or stdin does
    busy     as good, but never ends when the world stops
    deaf     as busy, and ignores the end of stdin
    mute     never says that it is ready
    refuse   ends at once with exit code 2
    damaged  ends at once with exit code 3
    brief    says that it is ready, then ends with exit code 3
"""

from __future__ import annotations

import json
import os
import selectors
import socket
import sys
import time
from pathlib import Path

from aos.host.door.protocol import LENGTH_BYTES, pack, unpack

MOST_S = 60.0
"""Seconds after which it ends in any case."""


def main(log: Path, *words: str) -> int:
    settings = json.loads(sys.stdin.buffer.readline())
    with log.open("a") as opened:
        opened.write(json.dumps({"pid": os.getpid(), **settings}) + "\n")
    number = len(log.read_text().splitlines())
    word = words[min(number, len(words)) - 1]
    if word == "refuse":
        return 2
    if word == "damaged":
        return 3
    if word != "mute":
        sys.stdout.write("ready\n")
        sys.stdout.flush()
    return 3 if word == "brief" else serve(settings, word)


def serve(settings: dict[str, object], word: str) -> int:
    mount = settings["mount"]
    door = mount["door"] if isinstance(mount, dict) else None
    doors = [
        socket.socket(fileno=fd)
        for fd in (settings["tcp"], settings["unix"], door)
        if isinstance(fd, int)
    ]
    following = socket.socket(socket.AF_UNIX)
    following.connect(str(Path(str(settings["world"])) / "aos.sock"))
    following.sendall(pack({"op": "follow"}))
    selector = selectors.DefaultSelector()
    for each in (*doors, following):
        selector.register(each, selectors.EVENT_READ)
    selector.register(sys.stdin, selectors.EVENT_READ)
    until_s = time.monotonic() + MOST_S
    while time.monotonic() < until_s:
        for key, _ in selector.select(1.0):
            if key.fileobj is sys.stdin:
                if word != "deaf":
                    return 0
                selector.unregister(sys.stdin)
            elif key.fileobj is following:
                if is_stopping(following) and word == "good":
                    return 0
            else:
                door = next(each for each in doors if each is key.fileobj)
                client, _ = door.accept()
                with client:
                    client.sendall(f"{os.getpid()}\n".encode())
    return 0


def is_stopping(following: socket.socket) -> bool:
    header = following.recv(LENGTH_BYTES, socket.MSG_WAITALL)
    if not header:
        return True
    body = following.recv(int.from_bytes(header, "big"), socket.MSG_WAITALL)
    return "stopping" in unpack(body)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), *sys.argv[2:]))

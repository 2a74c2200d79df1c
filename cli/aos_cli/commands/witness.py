"""``aos witness``: cosign the checkpoints of worlds over HTTP (spec/cli.md, C-132)."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import Annotated

from aos.host.checkpoints.named_files import as_witness
from aos.host.checkpoints.witness_service import (
    WitnessServer,
    WitnessService,
    state_folder,
    witness_state,
)
from aos.host.folder.folder import read_key
from aos.node.sockets import ListenAddress
from aos.prove.headerlog.signed_note import parse_note_key
from aos_cli.commands.key import Name, StateFolder
from aos_cli.options import Json, option
from aos_cli.output import note, print_json_line


def witness(
    *,
    listen: Annotated[
        str,
        option(
            "HOST:PORT", "Address to listen on. The protocol has no secrets; a proxy may add TLS."
        ),
    ],
    key: Annotated[Path, option("FILE", "Secret key of the witness (aos key new).")],
    log: Annotated[
        list[str],
        option(
            "VKEY",
            "Verifier key of a log to cosign, as aos checkpoint prints it. May be given "
            "several times.",
        ),
    ],
    name: Name = None,
    state: StateFolder = None,
    json: Json = False,
) -> None:
    secret = read_key(key)
    note_key = as_witness(bytes(secret.verify_key), name)
    address = ListenAddress.read(listen)
    with witness_state(state_folder(key, state)) as folder:
        service = WitnessService(
            name=note_key.name, key=secret, logs=tuple(map(parse_note_key, log)), folder=folder
        )
        with WitnessServer(address.host, address.port, service, note) as server:
            host, port = server.server_address[:2]
            bound = ListenAddress(host=str(host), port=int(port))
            if json:
                print_json_line(
                    {"url": f"http://{bound.text}", "witness": note_key.text}, at_once=True
                )
            else:
                note(f"witness at http://{bound.text} (Ctrl-C stops it)")
                note(f"  {note_key.text}")
            _serve(server)


def _serve(server: WitnessServer) -> None:
    """Answer until a signal."""

    def stop(*_: object) -> None:
        # shutdown waits for serve_forever, which this thread runs.
        threading.Thread(target=server.shutdown, daemon=True).start()

    handlers = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        server.serve_forever(poll_interval=0.1)
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)

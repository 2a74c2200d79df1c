"""``aos page``: look at worlds and bundles in a browser (spec/cli.md, C-160)."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Annotated

from aos.node.sockets import ListenAddress
from aos.page.page_server import LISTEN, run_page
from aos_cli.options import DEFAULT_WORLD, Json, World, argument, flag, option
from aos_cli.output import finish, line, note, print_json


def page(
    path: Annotated[
        list[Path] | None,
        argument(
            "[DIR|BUNDLE]…",
            "Worlds, and bundles (see aos export), to show (default: the world of --world).",
        ),
    ] = None,
    *,
    listen: Annotated[
        str, option("HOST:PORT", "Loopback address of the page; port 0 lets the system choose.")
    ] = LISTEN.text,
    open_: Annotated[bool, flag("--open", "Open the page in the browser of this machine.")] = False,
    no_token: Annotated[
        bool,
        flag(
            "--no-token",
            "Show the page to every program and user of this machine, without a token.",
        ),
    ] = False,
    world: World = DEFAULT_WORLD,
    json: Json = False,
) -> None:
    def announce(url: str) -> None:
        if json:
            print_json({"url": url}, at_once=True)
        else:
            line(url)
            finish()
            note("Ctrl-C ends the page" if no_token else "valid once; Ctrl-C ends the page")
        if open_:
            webbrowser.open(url)

    run_page(
        path or [world], ListenAddress.read(listen), needs_token=not no_token, on_open=announce
    )

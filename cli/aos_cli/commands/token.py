"""``aos token``: create, list and revoke the tokens of a node (spec/cli.md, C-100 to C-102)."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Annotated

from aos.errors import BadUsage
from aos.host.folder.folder import open_folder
from aos.node import tokens
from aos.node.tokens import TokenFolder
from aos.node.worlds.worlds_folder import WorldsFolder
from aos.values.spelling import time_text
from aos_cli.options import DEFAULT_WORLD, Json, World, argument, option, span
from aos_cli.output import line, note, print_json, table

Name = Annotated[str, argument("NAME", "Name of the token, for you and the log.")]
Worlds = Annotated[
    Path | None,
    option(
        "DIR", "Tokens for all worlds of this folder, and for the node that hosts them.", "--worlds"
    ),
]


def _folder(world: Path, worlds: Path | None) -> TokenFolder:
    if worlds is None:
        return open_folder(world)
    folder = WorldsFolder(worlds)
    folder.check()
    return folder


def create(
    name: Name,
    *,
    scope: Annotated[
        list[str] | None,
        option(
            "SCOPE",
            "send[:SCHEMA], read, work[:EFFECT] or operate; SCHEMA and EFFECT may end with *. "
            "May be given several times.",
        ),
    ] = None,
    expires: Annotated[
        int | None, option("D", "Lifetime, such as 12h or 90d (default: no end).", parser=span)
    ] = None,
    rate: Annotated[
        str | None,
        option(
            "RATE",
            "Most requests on average, such as 50/s, 100/min or 10/h (default: no limit). "
            "Each event of a batch counts.",
        ),
    ] = None,
    burst: Annotated[int, option("N", "With --rate: how many may come at once (default 1).")] = 1,
    worlds: Worlds = None,
    world: World = DEFAULT_WORLD,
    json: Json = False,
) -> None:
    if burst != 1 and rate is None:
        raise BadUsage("token create: --burst: expected --rate with it")
    if not scope:
        raise BadUsage(
            f"token create: expected at least one --scope (aos token create {name} --scope read)"
        )
    now_ns = time.time_ns()
    expires_ns = None if expires is None else now_ns + expires
    secret = tokens.create(
        _folder(world, worlds),
        name,
        tuple(map(tokens.Scope.read, scope)),
        secret=os.urandom(tokens.SECRET_BYTES),
        now_ns=now_ns,
        expires_ns=expires_ns,
        rate=rate,
        burst=burst,
    )
    if json:
        print_json(
            {
                "name": name,
                "token": secret,
                "scopes": scope,
                "expires_ns": expires_ns,
                "rate": rate,
                "burst": burst,
            }
        )
        return
    note("the token is shown only now; send it as: Authorization: Bearer TOKEN")
    line(secret)


def list_tokens(*, worlds: Worlds = None, world: World = DEFAULT_WORLD, json: Json = False) -> None:
    all_tokens = tokens.load(_folder(world, worlds)).by_name.values()
    if json:
        print_json({"tokens": [token.to_document() for token in all_tokens]})
        return
    now_ns = time.time_ns()
    table(
        ("name", "scopes", "created", "expires", "rate"),
        [
            (
                token.name,
                " ".join(scope.text for scope in token.scopes),
                time_text(token.created_ns),
                _expiry(token, now_ns),
                token.rate or "-",
            )
            for token in all_tokens
        ],
    )


def _expiry(token: tokens.Token, now_ns: int) -> str:
    if token.expires_ns is None:
        return "-"
    return time_text(token.expires_ns) + (" (expired)" if token.is_expired(now_ns) else "")


def revoke(
    name: Name, *, worlds: Worlds = None, world: World = DEFAULT_WORLD, json: Json = False
) -> None:
    tokens.revoke(_folder(world, worlds), name)
    if json:
        print_json({"revoked": name})
        return
    line(f"revoked {name}: a running node refuses it within a second")

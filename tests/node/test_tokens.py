"""Tokens: made once, kept as hashes, limited by scopes and dates, revocable (N-130 to N-136)."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from aos.errors import BadUsage, Damage, Refused
from aos.host.folder.folder import WorldFolder, open_folder
from aos.node.tokens import LOCAL, OWNER, LiveTokens, Scope, create, load, revoke
from tests.cli.shell import here, in_silence


@pytest.fixture
def folder(tmp_path: Path) -> WorldFolder:
    assert in_silence("init", tmp_path / "world") == 0
    return open_folder(tmp_path / "world")


def made(
    folder: WorldFolder, name: str = "web", *scopes: str, expires_ns: int | None = None
) -> str:
    return create(
        folder, name, tuple(map(Scope.read, scopes or ("read",))), secret=os.urandom(32), now_ns=1,
        expires_ns=expires_ns,
    )  # fmt: skip


def test_a_token_is_found_by_its_secret_alone(folder: WorldFolder) -> None:
    secret = made(folder, "web", "send:shop/*", "read")
    other = made(folder, "other")

    found = load(folder).find(secret, now_ns=2)

    assert found is not None
    assert (found.name, [each.text for each in found.scopes]) == ("web", ["send:shop/*", "read"])
    assert secret != other
    assert load(folder).find(secret[:-1], now_ns=2) is None
    assert load(folder).find("", now_ns=2) is None
    assert load(folder).find("\ud800", now_ns=2) is None


def test_the_file_holds_no_secret_and_only_its_owner_reads_it(folder: WorldFolder) -> None:
    secret = made(folder)
    file = folder.path / "node" / "tokens.json"

    assert secret.removeprefix("aos_") not in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    ("scope", "verb", "name", "allowed"),
    [
        ("send", "send", "shop/A@1", True),
        ("send:shop/*", "send", "shop/A@1", True),
        ("send:shop/*", "send", "shops/A@1", False),
        ("send:shop/A@1", "send", "shop/A@1", True),
        ("send:shop/A@1", "send", "shop/A@10", False),
        ("send:*", "send", "shop/A@1", True),
        ("work:bank.*", "work", "bank.pay", True),
        ("work:bank.*", "send", "bank.pay", False),
        ("read", "operate", None, False),
        ("send:shop/*", "send", None, True),
    ],
)
def test_a_scope_allows_its_verb_and_its_names(
    scope: str, verb: str, name: str | None, allowed: bool
) -> None:
    assert Scope.read(scope).text == scope
    assert Scope.read(scope).allows(verb, name) is allowed


@pytest.mark.parametrize("scope", ["", "write", "read:x", "send:", "Send", "operate:x", ":", "*"])
def test_a_misspelt_scope_is_refused(scope: str) -> None:
    with pytest.raises(BadUsage, match="not a scope: expected send"):
        Scope.read(scope)


def test_without_a_token_loopback_operates_nothing(folder: WorldFolder) -> None:
    assert not LOCAL.allows("operate")
    assert OWNER.allows("operate")
    assert len(load(folder)) == 0


def test_an_expired_or_revoked_token_is_not_found(folder: WorldFolder) -> None:
    short, secret = made(folder, "short", expires_ns=10), made(folder, "long")
    tokens = load(folder)
    kept = tokens.find(secret, now_ns=9)
    assert kept is not None
    assert tokens.find(short, now_ns=9) is not None
    assert tokens.find(short, now_ns=10) is None

    revoke(folder, "long")

    assert load(folder).find(secret, now_ns=9) is None
    assert not load(folder).has(kept, now_ns=9)


def test_a_token_of_the_same_name_is_another_token(folder: WorldFolder) -> None:
    secret = made(folder)
    first = load(folder).find(secret, now_ns=2)
    assert first is not None
    with pytest.raises(Refused, match="there is a token called web already"):
        made(folder)
    revoke(folder, "web")
    made(folder)

    assert not load(folder).has(first, now_ns=2)


def test_a_name_that_no_token_has_cannot_be_revoked(folder: WorldFolder) -> None:
    made(folder)

    with pytest.raises(BadUsage, match="no token is called 'wob': expected one of web"):
        revoke(folder, "wob")
    for name in ("", "a b", "x" * 65, "../x", "-x"):
        with pytest.raises(BadUsage, match="not a name of a token"):
            made(folder, name)


@pytest.mark.parametrize(
    "text",
    ["", "{}", "[]", "null", '{"version": 2, "tokens": []}', '{"version": 1, "tokens": [{}]}',
     '{"version": 1, "tokens": 3}', '{"version": 1, "tokens": [1]}', "\x00"],
)  # fmt: skip
def test_a_damaged_file_of_tokens_is_named_and_opens_nothing(
    folder: WorldFolder, text: str
) -> None:
    secret = made(folder)
    said: list[str] = []
    now = [0.0]
    live = LiveTokens(folder, lambda: now[0], said.append)
    assert live.now().find(secret, now_ns=2) is not None

    (folder.path / "node" / "tokens.json").write_text(text)
    now[0] += 1

    assert len(live.now()) == 0
    assert live.exist
    assert "tokens.json" in said[0]
    with pytest.raises(Damage, match="the file of tokens cannot be read"):
        load(folder)
    with pytest.raises(Damage):
        made(folder, "more")


def test_a_file_that_others_may_read_is_refused(folder: WorldFolder) -> None:
    made(folder)
    (folder.path / "node" / "tokens.json").chmod(0o640)

    with pytest.raises(Refused, match="others may read or change the tokens"):
        load(folder)


def test_a_running_node_takes_a_new_token_and_drops_a_revoked_one(folder: WorldFolder) -> None:
    now = [0.0]
    live = LiveTokens(folder, lambda: now[0], lambda _: None)
    assert len(live.now()) == 0
    assert not live.exist

    secret = made(folder)
    now[0] += 0.3
    assert live.now().find(secret, now_ns=2) is not None

    revoke(folder, "web")
    now[0] += 0.3
    assert live.now().find(secret, now_ns=2) is None
    assert live.exist


# Tokens for all worlds (N-134a)


@pytest.fixture
def all_worlds(tmp_path: Path) -> WorldFolder:
    """A folder whose file of tokens is for all worlds."""
    assert in_silence("init", tmp_path / "all") == 0
    return open_folder(tmp_path / "all")


class BothFiles:
    """The live tokens of a world and of all worlds, with a clock that a test moves."""

    def __init__(self, folder: WorldFolder, all_worlds: WorldFolder) -> None:
        self.file = all_worlds.path / "node" / "tokens.json"
        self.now_s = 0.0
        self.said: list[str] = []
        self.live = LiveTokens(folder, lambda: self.now_s, self.said.append, shared=self.file)

    def name_of(self, secret: str, *, now_ns: int = 2) -> str | None:
        """The name of the token with this secret, half a second later."""
        self.now_s += 0.5
        token = self.live.now().find(secret, now_ns=now_ns)
        return None if token is None else token.name


def test_a_token_for_all_worlds_is_valid_in_each_until_it_is_revoked(
    folder: WorldFolder, all_worlds: WorldFolder
) -> None:
    both = BothFiles(folder, all_worlds)
    both.live.now()
    assert not both.live.exist, "neither file has a token"

    shared, own = made(all_worlds, "web", "send"), made(folder, "web", "read")

    assert both.name_of(own) == "web"
    assert both.name_of(shared) == "*/web", "tokens of one name are two tokens"
    token = both.live.now().find(shared, now_ns=2)
    assert token is not None
    assert [each.text for each in token.scopes] == ["send"]

    revoke(all_worlds, "web")

    assert both.name_of(shared) is None
    assert both.name_of(own) == "web"
    assert not both.live.now().has(token, now_ns=2), "its streams end"
    revoke(folder, "web")
    assert both.name_of(own) is None
    assert both.live.exist, "the node stays closed"


@pytest.mark.parametrize("owner", ["all", "world"])
def test_a_token_in_one_of_the_files_closes_the_node(
    folder: WorldFolder, all_worlds: WorldFolder, owner: str
) -> None:
    both = BothFiles(folder, all_worlds)
    made(all_worlds if owner == "all" else folder)

    assert len(both.live.now()) == 1
    assert both.live.exist


def test_the_same_secret_in_both_files_is_valid_while_one_of_them_is(
    folder: WorldFolder, all_worlds: WorldFolder
) -> None:
    secret = made(folder, "web", expires_ns=10)
    both = BothFiles(folder, all_worlds)
    both.file.parent.mkdir(mode=0o700, exist_ok=True)
    text = (folder.path / "node" / "tokens.json").read_text()
    both.file.write_text(text.replace('"expires_ns": 10', '"expires_ns": null'))
    both.file.chmod(0o600)

    assert both.name_of(secret, now_ns=9) == "web"
    assert both.name_of(secret, now_ns=10) == "*/web"


def spoil_text(file: Path) -> None:
    file.write_text('{"version": 1, "tokens": [{}]}')


def spoil_mode(file: Path) -> None:
    file.chmod(0o640)


def spoil_kind(file: Path) -> None:
    file.unlink()
    file.mkdir()


def spoil_link(file: Path) -> None:
    file.rename(file.with_name("moved"))
    file.symlink_to("moved")


def spoil_end(file: Path) -> None:
    file.unlink()
    file.symlink_to("nowhere")


def spoil_parent(file: Path) -> None:
    file.unlink()
    (file.parent / "tokens.lock").unlink()
    file.parent.rmdir()
    file.parent.write_text("")


@pytest.mark.parametrize(
    "spoil", [spoil_text, spoil_mode, spoil_kind, spoil_link, spoil_end, spoil_parent]
)
@pytest.mark.parametrize("has_own", [True, False], ids=["own", "none"])
def test_a_spoilt_file_for_all_worlds_makes_its_tokens_invalid_and_opens_nothing(
    folder: WorldFolder, all_worlds: WorldFolder, spoil: Callable[[Path], None], has_own: bool
) -> None:
    shared = made(all_worlds)
    own = made(folder) if has_own else ""
    both = BothFiles(folder, all_worlds)
    assert both.name_of(shared) == "*/web"

    spoil(both.file)

    assert both.name_of(shared) is None
    assert both.name_of(own) == ("web" if has_own else None)
    assert both.live.exist
    assert len(both.said) == 1, "it is reported once"
    assert both.said[0].startswith("no token for all worlds is valid: ")


def test_the_command_prints_the_token_once(folder: WorldFolder) -> None:
    created = here(
        "token", "create", "web", "--scope", "send:shop/*", "--scope", "read", "--expires", "90d",
        "--world", folder.path,
    )  # fmt: skip
    assert created.code == 0, created.err
    secret = created.out.strip()
    found = load(folder).find(secret, now_ns=2)
    assert found is not None
    assert found.expires_ns is not None

    listed = here("token", "list", "--world", folder.path)
    assert secret not in listed.out
    assert "web" in listed.out
    assert "send:shop/* read" in listed.out
    [row] = here("token", "list", "--json", "--world", folder.path).json["tokens"]
    assert row["scopes"] == ["send:shop/*", "read"]

    rated = here(
        "token", "create", "slow", "--scope", "read", "--rate", "50/min", "--burst", "9",
        "--world", folder.path,
    )  # fmt: skip
    slow = load(folder).find(rated.out.strip(), now_ns=2)
    assert slow is not None
    assert (slow.rate, slow.burst) == ("50/min", 9)
    for words, error in {
        ("--rate", "50"): "aos: rate of a token: expected text such as",
        ("--rate", "50/min", "--burst", "0"): "aos: burst of a token: expected 1 to 1,000,000",
        ("--burst", "2"): "aos: token create: --burst: expected --rate with it",
    }.items():
        wrong = here("token", "create", "w", "--scope", "read", *words, "--world", folder.path)
        assert (wrong.code, wrong.out) == (2, "")
        assert wrong.err.startswith(error)

    for name in ("web", "slow"):
        assert here("token", "revoke", name, "--world", folder.path).code == 0
    assert here("token", "list", "--json", "--world", folder.path).json == {"tokens": []}
    bare = here("token", "create", "web", "--world", folder.path)
    assert bare.code == 2
    assert "at least one --scope" in bare.err
    assert json.loads(
        here("token", "create", "b", "--scope", "read", "--json", "--world", folder.path).out
    )["token"].startswith("aos_")

"""Wrong words of ``aos cluster serve`` (C-177): none of them needs a server."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.shell import here

STORE = "nats://127.0.0.1:1"
MONITOR = ("--monitor", "http://127.0.0.1:1")


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ((), "expected DIR"),
        (("m", "--store", STORE, "--keys", "keys"), "--name is required"),
        (
            ("m", "--store", f"{STORE}/shop", "--name", "m", "--keys", "keys", *MONITOR),
            f"expected the address without /shop, found {STORE}/shop",
        ),
        (
            ("m", "--store", STORE, "--name", "m 1", "--keys", "keys", *MONITOR),
            "found 'm 1' (choose one with --name NAME)",
        ),
        (
            ("m", "--store", STORE, "--name", "m", "--keys", "keys"),
            "expected --monitor URL for each server",
        ),
        (
            ("m", "--store", STORE, "--name", "m", "--keys", "keys", "--standbys", "99", *MONITOR),
            "--standbys: expected 0 to 16, found 99",
        ),
        (
            ("m", "--store", STORE, "--name", "m", "--keys", "nothing", *MONITOR),
            "nothing: --keys: there is no such folder",
        ),
        (
            ("m", "--store", STORE, "--name", "m", "--keys", "keys", *MONITOR, "--", "--nonsense"),
            "there is no option --nonsense (see aos run --help)",
        ),
    ],
)
def test_wrong_words_are_refused_before_anything_is_made(
    words: tuple[str, ...], text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("keys").mkdir()

    refused = here("cluster", "serve", *words)

    assert (refused.code, text in refused.err) == (2, True), refused.err
    assert [path.name for path in tmp_path.iterdir()] == ["keys"]

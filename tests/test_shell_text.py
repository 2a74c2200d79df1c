"""Commands to copy: every character is seen, and a shell reads the same words (C-6a)."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import unicodedata
from pathlib import Path

import pytest

from aos.errors import Refused
from aos.host.door.remote import ask_running
from aos.host.folder.folder import open_folder
from aos.host.folder.making import init_world
from aos.node.problems import text_for_clients
from aos.read.views.reason import command_words
from aos.shell_text import is_hidden, shell_text
from tests.cli.shell import run
from tests.in_bash import in_bash
from tests.tools import missing

UNSEEN = "\u200b\u00ad\ufeff\u2060\u180e\u2028\u2029\u202e\u3164\ufe0f\u034f\u2800\u00a0\ue000\x85"
UNSEEN_ABOVE = "\U000e0041\U000e0100\U000f0000\U0001d173"
HIDDEN = frozenset({"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"})


def every_sign() -> list[str]:
    return [chr(code) for code in range(1, 0x110000) if not 0xD800 <= code < 0xE000]


def test_every_sign_of_a_hidden_category_is_hidden_and_no_letter_is() -> None:
    for sign in every_sign():
        category = unicodedata.category(sign)
        if category in HIDDEN or (category == "Zs" and sign != " "):
            assert is_hidden(sign), f"{ord(sign):x} {category}"
        if category[0] in "NP" or category in ("Lu", "Ll"):
            assert not is_hidden(sign), f"{ord(sign):x} {category}"
    assert all(map(is_hidden, UNSEEN + UNSEEN_ABOVE + "\ud83e"))


def test_every_sign_that_unicode_calls_ignorable_is_hidden() -> None:
    perl = shutil.which("perl")
    if perl is None:
        missing("there is no perl: Unicode's list of ignorable characters is not compared")
    words = r'print join(" ", grep { chr($_) =~ /\p{Default_Ignorable_Code_Point}/ } 0..0x10ffff)'
    listed = subprocess.run([perl, "-e", words], capture_output=True, check=True, text=True).stdout
    found = [chr(int(word)) for word in listed.split()]
    assert len(found) > 4_000
    assert [each for each in found if not is_hidden(each)] == []


def test_words_of_all_kinds_are_quoted_so_that_bash_reads_them_back() -> None:
    """Every character up to U+2070, every byte, and characters after a hidden one."""
    signs = [chr(code) for code in range(1, 0x2070)]
    words = ["", "plain", *("".join(signs[at : at + 64]) for at in range(0, len(signs), 64))]
    words += [os.fsdecode(bytes([byte]) + b"ab0") for byte in range(1, 256)]
    words += [f"a{sign}b0 'c'" for sign in UNSEEN + UNSEEN_ABOVE]
    command = shell_text(["aos", *words])

    assert not any(map(is_hidden, command))
    assert in_bash(command) == ["aos", *words]


@pytest.mark.parametrize("sign", UNSEEN + UNSEEN_ABOVE, ids=lambda sign: f"{ord(sign):x}")
def test_a_key_with_a_sign_that_no_one_sees_is_json_with_escapes(sign: str) -> None:
    for key in (f"a{sign}b", f"-{sign}", sign, {"name": f"x{sign}"}, [sign]):
        command = command_words("t/work@1", key)
        assert not any(map(is_hidden, command)), command
        assert command.isascii()
        assert len(shlex.split(command)) == 2


def test_the_advice_of_errors_quotes_the_folder(tmp_path: Path) -> None:
    """Each command in a sentence about a folder with such a name reads as one word."""
    path = tmp_path / "it's a\u200b\U000e0041\u00ad\ufeffworld"
    init_world(path)
    found = [run("inspect", "world", "--world", path / "absent").err]
    with pytest.raises(Exception, match="aos run") as caught:
        ask_running(path, "status")
    found.append(str(caught.value))
    key = path / "keys" / "world.key"
    key.chmod(0o644)
    with pytest.raises(Refused) as refused:
        open_folder(path).world_key()
    found.append(str(refused.value))

    commands = [
        word
        for text in found
        for word in re.findall(r"(?:aos [a-z]+|chmod 600)[^$]* (\$'(?:\\.|[^'])*')", text)
    ]
    assert len(commands) == len(found), found
    for word in commands:
        assert not any(map(is_hidden, word))
        assert in_bash(f"aos {word}")[1].startswith(str(path))


@pytest.mark.parametrize("name", ["world", "a world", "it's", "a\u200bworld"])
def test_no_client_of_a_node_learns_the_folder_from_a_command(tmp_path: Path, name: str) -> None:
    """N-120"""
    path = tmp_path / name
    command = shell_text(["chmod", "600", path / "keys" / "world.key"])
    text = text_for_clients(Refused(f"{path}: it is open to others ({command})"), path)

    assert str(tmp_path) not in text
    assert text.startswith("DIR: it is open")
    assert "DIR/keys/world.key" in text

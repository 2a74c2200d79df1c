"""Run one command line; turn every error into its message and exit code, and words that the parser
refuses into a message in the words of our other errors (C-1, C-2, C-9).
"""

from __future__ import annotations

import os
import re
import sys
import traceback
from collections.abc import Callable
from typing import Annotated, Final

import typer
from typer.exceptions import TyperException

import aos
from aos.errors import AosError, BadUsage, either
from aos_cli import output, registry
from aos_cli.lazy_group import RootGroup
from aos_cli.output import note

BUG = 70
INTERRUPTED = 130
WORLD_NAMES = ("--world", "-w")

app = typer.Typer(
    name="aos",
    cls=RootGroup,
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(is_asked: bool) -> None:
    if is_asked:
        output.line(f"aos {aos.__version__}")
        raise typer.Exit


def _install_completion(is_asked: bool) -> None:
    if is_asked:
        from aos_cli import completion_scripts  # noqa: PLC0415  # a user needs it once

        output.line(completion_scripts.install_completion(completion_scripts.current_shell()))
        raise typer.Exit


def _show_completion(is_asked: bool) -> None:
    if is_asked:
        from aos_cli import completion_scripts  # noqa: PLC0415  # as above

        output.write(completion_scripts.SCRIPTS[completion_scripts.current_shell()])
        raise typer.Exit


@app.callback()
def root(
    *,
    version: Annotated[  # its callback runs before a command is required
        bool,
        typer.Option(
            "--version", help="Print the version and exit.", is_eager=True, callback=_version
        ),
    ] = False,
    install_completion: Annotated[
        bool,
        typer.Option(
            "--install-completion",
            help="Install completion for your shell: bash, zsh or fish, by the variable SHELL.",
            is_eager=True,
            callback=_install_completion,
        ),
    ] = False,
    show_completion: Annotated[
        bool,
        typer.Option(
            "--show-completion",
            help="Print the script of completion for your shell.",
            is_eager=True,
            callback=_show_completion,
        ),
    ] = False,
) -> None:
    """A deterministic, event-sourced workflow kernel."""


def main() -> None:
    """Run the command line and end the process with its exit code."""
    output.prepare()
    code = run_command(sys.argv[1:])
    calls = sys.modules.get("aos.worker.calls")  # a command that runs functions has it
    if calls is not None:
        calls.end_process(code)
    sys.exit(code)


def run_command(arguments: list[str]) -> int:
    """Run one command and return its exit code. Errors are printed to stderr, one sentence each."""
    output.escape_words([*arguments, os.environ.get("AOS_WORLD", "")])
    code = _exit_code(arguments)
    try:
        output.finish()
    except AosError as error:
        say(error)
        return error.exit_code
    return code


def _exit_code(arguments: list[str]) -> int:
    try:
        result = app(args=arguments, prog_name="aos", standalone_mode=False)
    except AosError as error:
        say(error)
        return error.exit_code
    except TyperException as error:
        return _misuse(error, arguments)
    except (typer.Abort, KeyboardInterrupt):
        return _interrupted()
    except SystemExit:
        return 0  # raised while help was printed and its reader had closed stdout
    except Exception:  # noqa: BLE001  # any other exception is a bug of ours, and reported as one
        traceback.print_exc()
        package = _package_of(arguments)
        note(
            f"aos: this is a bug in the package {package}; please report it to its authors, with "
            "the text above."
            if package
            else "aos: this is a bug in aos; the journal of the world is not affected by it. "
            "Please report it with the text above.",
            style="red",
        )
        return BUG
    # Typer returns this code for Ctrl-C.
    if result == INTERRUPTED:
        return _interrupted()
    return result if isinstance(result, int) else 0


def _package_of(arguments: list[str]) -> str:
    """The package of an extension whose command was called, with its version; else empty."""
    registered = sys.modules.get("aos_cli.extension_commands")
    return registered.package_of(arguments[0]) if registered is not None and arguments else ""


def say(error: AosError) -> None:
    """Print an error: one line, or one for each of several problems."""
    for text in output.with_escapes(str(error)).splitlines() or [type(error).__name__]:
        note(f"aos: {text}", style="red")


def _misuse(error: TyperException, arguments: list[str]) -> int:
    """Print an error of the command line's parser as one sentence, and return the exit code."""
    text = parser_message(error)
    if not text:
        return BadUsage.exit_code  # Typer has printed the help already
    context = getattr(error, "ctx", None)
    command = _command_named(arguments) if context is None else context.command_path
    hint = f"see {command} --help"
    if command == "aos" and arguments[0].partition("=")[0] in WORLD_NAMES:
        hint = "options follow their command: aos inspect world --world DIR; or set AOS_WORLD"
    say(BadUsage(text, location=command.removeprefix("aos").strip() or None, hint=hint))
    return BadUsage.exit_code


def _command_named(arguments: list[str]) -> str:
    """The command that a refused command line names, if the parser does not report it."""
    paths = {command.path for command in registry.COMMANDS}
    candidates = (" ".join(arguments[:n]) for n in (2, 1))
    return " ".join(["aos", *(path for path in candidates if path in paths)][:2])


def _interrupted() -> int:
    note("aos: interrupted")
    return INTERRUPTED


def parser_message(error: TyperException) -> str:
    """The parser's message as one clause, without a full stop."""
    text = error.format_message().strip().rstrip(".").replace("Value error, ", "")
    for pattern, write in _FORMS:
        match = re.fullmatch(pattern, text, re.DOTALL)
        if match is not None:
            return write(match) + _values_of(error, text)
    return text[:1].lower() + text[1:]


def _values_of(error: TyperException, text: str) -> str:
    """The values of a missing option that has a fixed choice."""
    metavar = getattr(getattr(error, "param", None), "metavar", None) or ""
    if not text.startswith("Missing option") or "|" not in metavar:
        return ""
    return f": {either(metavar.split('|'))}"


def _choices(text: str) -> str:
    return either(text.replace("'", "").split(", "))


def _near(match: re.Match[str]) -> str:
    names = [name for name in (match["near"] or "").split(", ") if name not in ("", "--help")]
    hint = f"; did you mean {' or '.join(names)}?" if names else ""
    return f"there is no option {match['name']}{hint}"


_Form = Callable[[re.Match[str]], str]

_FORMS: Final[tuple[tuple[str, _Form], ...]] = (
    (r"No such option: (?P<name>\S+)(?: \(Possible options?: (?P<near>.+)\))?", _near),
    (
        r"No such command '(?P<name>.+?)'(?:\. Did you mean (?P<near>.+)\?)?",
        lambda match: (
            f"there is no command {match['name']!r}"
            + (f"; did you mean {_choices(match['near'])}?" if match["near"] else "")
        ),
    ),
    (r"Missing argument '(.+)'", lambda match: f"expected {match[1]}"),
    (r"Missing option '(.+)'", lambda match: f"{match[1]} is required"),
    (r"Missing command", lambda _: "expected a command"),
    (r"Option '(.+)' requires an argument", lambda match: f"{match[1]} needs a value"),
    (r"Option '(.+)' does not take a value", lambda match: f"{match[1]} takes no value"),
    (
        r"Got unexpected extra arguments?(?:\(s\))? \((.+)\)",
        lambda match: f"too many words: {match[1]}",
    ),
    (
        r"Invalid value for '(.+?)': (.+) is not one of (.+)",
        lambda match: f"{match[1]}: expected {_choices(match[3])}, found {match[2]}",
    ),
    (r"Invalid value for '(.+?)': (.+)", lambda match: f"{match[1]}: {match[2]}"),
)
"""Patterns of the parser's messages, and ours. They are compiled for an error alone: that takes
longer than the words of a command."""

"""Read ``NAME.scenario.toml`` into a Scenario, or report every problem in it (T-60 to T-63)."""

from __future__ import annotations

import datetime as dt
import difflib
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from aos.errors import BadUsage, either, excerpt, sentence
from aos.manifest.forms import ABI_DEFAULT, ABIS
from aos.testing import words
from aos.testing.words import (
    ANSWER,
    CHECKS,
    EVERYWHERE,
    EXPECTED,
    FILE,
    RESPONSE,
    ROWS,
    WORDS,
    Fields,
)

SUFFIX: Final = ".scenario.toml"
FILE_BYTES_MAX: Final = 4 * 1024 * 1024

_HEADER: Final = re.compile(r"^[ \t]*\[\[[ \t]*step[ \t]*\]\]", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScenarioStep:
    """One step. ``word`` is its action, ``value`` the word's value, ``fields`` the other fields.

    ``line`` is None in a file that does not write its steps as ``[[step]]``.
    """

    number: int
    line: int | None
    word: str
    value: Any
    fields: Mapping[str, Any]

    @property
    def name(self) -> str:
        suffix = f" {self.value}" if self.word == "expect" else ""
        return f"step {self.number} ({self.word}{suffix})"


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """One scenario file. ``manifest`` is the path as written, or None; ``crashes`` says that it is
    played once for each step, with a crash right after it."""

    path: Path
    about: str
    manifest: str | None
    now: str | None
    seed: str | None
    abi: str | None
    executors: tuple[str, ...]
    replay: bool
    crashes: bool
    steps: tuple[ScenarioStep, ...]


def read_scenario(path: Path) -> Scenario:
    """Read a scenario file.

    Raises:
        BadUsage: It cannot be read, or is not a scenario. The text has a line for each problem.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise BadUsage(f"{path}: the file cannot be read: {error.strerror}") from error
    if len(data) > FILE_BYTES_MAX:
        raise BadUsage(f"{path}: the file is too large: expected at most {FILE_BYTES_MAX} bytes")
    return parse(data, path)


def parse(data: bytes, path: Path) -> Scenario:
    """Raises: BadUsage: As ``read_scenario``."""
    try:
        text = data.decode("utf-8")
        document = tomllib.loads(text)
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadUsage(f"{path}: the file is not TOML: {excerpt(str(error))}") from error
    return _Reader(text, path).scenario(document)


class _Reader:
    """Reads one file. Problems are collected and raised together."""

    def __init__(self, text: str, path: Path) -> None:
        self._path = path
        self._problems: list[str] = []
        self._lines = [text.count("\n", 0, match.start()) + 1 for match in _HEADER.finditer(text)]

    def scenario(self, document: dict[str, Any]) -> Scenario:
        self._check(document, FILE, "the file", line=None)
        step_tables = document.get("step", [])
        rows = (
            [table for table in step_tables if isinstance(table, dict)]
            if isinstance(step_tables, list)
            else []
        )
        # A multi-line text may contain a header. Then no line number is better than a wrong one.
        if len(self._lines) != len(rows):
            self._lines = []
        if not rows and "step" not in document:
            self._problems.append(f"{self._path}: it has no step (write one: [[step]])")
        steps = [self._step(number, row) for number, row in enumerate(rows, 1)]
        if document.get("abi", ABI_DEFAULT) not in ABIS:
            actual = repr(document["abi"])
            self._say(None, "the file: abi", "invalid value", expected=either(ABIS), actual=actual)
        if document.get("crash", EVERYWHERE) != EVERYWHERE:
            actual = repr(document["crash"])
            self._say(None, "the file: crash", "invalid value", expected=EVERYWHERE, actual=actual)
        if self._problems:
            raise BadUsage("\n".join(self._problems))
        document = _plain(document)
        return Scenario(
            path=self._path,
            about=document.get("about", ""),
            manifest=document.get("manifest"),
            now=document.get("now"),
            seed=document.get("seed"),
            abi=document.get("abi"),
            executors=tuple(document.get("executors", ())),
            replay=document.get("replay", True),
            crashes="crash" in document,
            steps=tuple(step for step in steps if step is not None),
        )

    def _step(self, number: int, row: dict[str, Any]) -> ScenarioStep | None:
        line = self._lines[number - 1] if self._lines else None
        # Exactly one key of a row is an action; ``timeout`` and ``fail`` are actions too.
        actions = [name for name in row if name in WORDS]
        if len(actions) != 1:
            expected = "one of " + ", ".join(WORDS)
            hint = _near(next(iter(row), ""), WORDS)
            actual = ", ".join(actions) or None
            problem = "a step has exactly one action"
            self._say(line, f"step {number}", problem, expected=expected, actual=actual, hint=hint)
            return None
        word = actions[0]
        location = f"step {number} ({word})"
        kind = WORDS[word]
        fields = {name: value for name, value in row.items() if name != word}
        if word == "expect":
            expectation = EXPECTED.get(str(row[word]))
            if expectation is None:
                expected = "one of " + ", ".join(EXPECTED)
                hint = _near(str(row[word]), EXPECTED)
                problem = f"unknown expectation {row[word]!r}"
                self._say(line, location, problem, expected=expected, hint=hint)
                return None
            kind = expectation
            location = f"step {number} (expect {row[word]})"
            self._rows(row, location, line)
        self._value(row[word], kind.value, f"{location}: {word}", line)
        self._check(fields, kind.fields, location, line=line)
        for name in sorted(kind.required - fields.keys()):
            self._say(line, location, f"{name} is missing")
        if word == "on":
            self._answers(fields.get("answers"), location, line)
        if word == "answer":
            if fields.keys() >= {"value", "response"}:
                self._say(line, location, "an answer has value or response, not both")
            self._response(fields, location, line)
        return ScenarioStep(
            number=number, line=line, word=word, value=_plain(row[word]), fields=_plain(fields)
        )

    def _rows(self, row: dict[str, Any], location: str, line: int | None) -> None:
        subject = str(row["expect"])
        *first_fields, last = CHECKS[subject]
        if not row.keys() & {*first_fields, last}:
            expected = f"{', '.join(first_fields)} or {last}"
            self._say(line, location, "the step checks nothing", expected=expected)
        for index, row_table in enumerate(_list(row.get("are"))):
            if isinstance(row_table, dict):
                self._check(row_table, ROWS[subject], f"{location}: are[{index}]", line=line)

    def _answers(self, answers: object, location: str, line: int | None) -> None:
        for index, answer in enumerate(_list(answers)):
            if isinstance(answer, dict):
                answer_location = f"{location}: answers[{index}]"
                self._check(answer, ANSWER, answer_location, line=line)
                self._response(answer, answer_location, line)
                outcomes = ("value", "response", "fail", "timeout", "never")
                present_outcomes = [name for name in outcomes if name in answer]
                if len(present_outcomes) != 1:
                    expected = "one of " + ", ".join(outcomes)
                    actual = ", ".join(present_outcomes) or None
                    self._say(
                        line,
                        answer_location,
                        "an answer has one outcome",
                        expected=expected,
                        actual=actual,
                    )
        if not _list(answers):
            self._say(line, location, "answers is empty", expected="at least one answer")

    def _response(self, row: dict[str, Any], location: str, line: int | None) -> None:
        """Check an HTTP response (T-62a)."""
        http_response = row.get("response")
        if not isinstance(http_response, dict):
            return
        response_location = f"{location}: response"
        self._check(http_response, RESPONSE, response_location, line=line)
        if "json" in http_response and "body" in http_response:
            self._say(line, response_location, "a response has json or body, not both")

    def _check(
        self, row: dict[str, Any], fields: Fields, location: str, *, line: int | None
    ) -> None:
        for name, value in row.items():
            if name not in fields:
                expected = "one of " + ", ".join(fields)
                problem, hint = f"unknown field {name}", _near(name, fields)
                self._say(line, location, problem, expected=expected, hint=hint)
            else:
                self._value(value, fields[name], f"{location}: {name}", line)

    def _value(self, value: object, kind: str, location: str, line: int | None) -> None:
        if not _fits(value, kind):
            self._say(line, location, "invalid value", expected=kind, actual=repr(value))
            return
        # Problems inside a step are reported with the line of the step.
        for problem in _unfit(value) if kind != words.TABLES else ():
            self._say(line, location, problem)

    def _say(self, line: int | None, location: str, problem: str, **parts: str | None) -> None:
        """Add a problem. ``parts`` goes to ``sentence``; ``expected`` never quotes the file."""
        file_line = f"{self._path}:{line}" if line is not None else f"{self._path}"
        if parts.get("actual"):
            parts["actual"] = excerpt(str(parts["actual"]))
        self._problems.append(
            sentence(excerpt(problem), location=f"{file_line}: {excerpt(location)}", **parts)
        )


def _fits(value: object, kind: str) -> bool:
    match kind:
        case words.TEXT:
            return isinstance(value, str)
        case words.TIME:
            return isinstance(value, str | dt.datetime)
        case words.BOOL:
            return isinstance(value, bool)
        case words.TRUE:
            return value is True
        case words.WHOLE:
            return type(value) is int
        case words.TABLE:
            return isinstance(value, dict)
        case words.TEXTS:
            return isinstance(value, list) and all(isinstance(element, str) for element in value)
        case words.TABLES:
            return isinstance(value, list) and all(isinstance(element, dict) for element in value)
        case _:
            return True


def _unfit(value: object) -> Iterator[str]:
    """The parts of a TOML value that have no form as a value."""
    match value:
        case float():
            yield f"no floats: expected an integer, or dec128 as text, found {value!r}"
        case dt.datetime() if value.tzinfo is None:
            yield f"a time needs Z or an offset, found {value.isoformat()}"
        case dt.date() if not isinstance(value, dt.datetime):
            yield f"expected a time with its date, found {value.isoformat()}"
        case dt.time():
            yield f"expected a time with its date, found {value.isoformat()}"
        case dict():
            for part in value.values():
                yield from _unfit(part)
        case list():
            for part in value:
                yield from _unfit(part)
        case _:
            pass


def _plain(value: Any) -> Any:
    """The value with TOML's times as RFC 3339 text."""
    if isinstance(value, dt.datetime):
        return value.isoformat()
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_plain(part) for part in value]
    return value


def _list(value: object) -> Sequence[object]:
    return value if isinstance(value, list) else []


def _near(name: str, known_names: Mapping[str, object]) -> str | None:
    matches = difflib.get_close_matches(name, known_names, n=1)
    return f"did you mean {matches[0]}?" if matches else None

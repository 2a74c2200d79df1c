"""Parts of URLs that may be secrets, and words from outside in messages (X-69a, X-69b, X-77a)."""

from __future__ import annotations

import pytest

from aos.errors import BadUsage
from aos.worker.failure import AttemptFailure
from aos.worker.redaction import SEARCHED_CHARS_MAX, Redactor
from aos.worker.secret_leaks import process_secrets, without_process_secrets
from aos.worker.url_secrets import is_usual, url_secrets
from aos.worker.worker_secrets import SecretValue


def redactor(url: str) -> Redactor:
    return Redactor(url_secrets(url, "URL"))


@pytest.mark.parametrize(
    ("url", "secrets"),
    [
        ("https://h/v1", []),
        ("https://h/openai/v1beta2/chat-completions/2024-10-21", []),
        ("https://h/v1/t0ken", ["t0ken"]),
        ("https://h/secrettoken/rpc", ["secrettoken"]),
        ("https://h/a%2Fb%20c/", ["a%2Fb%20c", "a/b c"]),
        ("https://h/x;key=letmein", ["x;key=letmein", "letmein"]),
        ("https://h/?key=one1&two2&v=", ["one1", "two2"]),
        ("https://user:p%40ss@h/", ["user:p%40ss", "user:p@ss", "user", "p%40ss", "p@ss"]),
        ("https://abc@h/", []),
        ("", []),
    ],
)
def test_the_parts_of_a_url_that_may_be_tokens_are_secrets(url: str, secrets: list[str]) -> None:
    """X-69a: usual words of paths, versions and parts of less than 4 bytes are none."""
    found = [each.value.decode() for each in url_secrets(url, "URL")]

    assert [each for each in found if each not in ("dXNlcjpwQHNz", "YWJj")] == secrets


@pytest.mark.parametrize(
    "url",
    [
        "http://[::1",
        "https://user:s3cr3t-token@ex\u2100mple.org/",
        "http://s3cr3t[x@h/",
        "http://h:70000/s3cr3t",
    ],
)
def test_a_text_that_is_no_url_is_refused_without_its_parts(url: str) -> None:
    """PF-87a: the library's own words quote user and password."""
    with pytest.raises(BadUsage) as refused:
        url_secrets(url, "URL")

    assert str(refused.value) == "URL: expected a URL, such as https://service.example/path"
    assert refused.value.__suppress_context__


@pytest.mark.parametrize(
    "said", ["p@ss/1", "p%40ss%2F1", "p%40ss%2f1", "dXNlcjpwQHNzLzE=", "user:p@ss/1", "p@ss\\/1"]
)
def test_user_and_password_are_found_in_each_spelling(said: str) -> None:
    """X-69a: also as a header of the scheme Basic has them."""
    redacted = redactor("https://user:p%40ss%2F1@h/").line(f"no <{said}>", characters_max=300)

    assert redacted == "no <[secret URL]>"


def test_usual_words_are_usual_in_any_case() -> None:
    assert is_usual("OpenAI")
    assert not is_usual("openai-4f9c")


@pytest.mark.parametrize("size", [5, 40, 5000, SEARCHED_CHARS_MAX])
def test_words_are_searched_before_they_are_cut(size: int) -> None:
    """X-69b: no beginning of a secret is left, wherever words are cut."""
    value = "".join(chr(97 + at * 7 % 26) for at in range(size))
    hidden = Redactor([SecretValue(name="k@1", value=value.encode(), hosts=None)])
    for words in (value * 3, "x" * 290 + value, "x" * (SEARCHED_CHARS_MAX - size // 2) + value):
        line = hidden.line(words * 4, characters_max=300)
        assert len(line) <= 301
        assert value[:5] not in line.replace("[secret k@1]", "")


def test_words_become_one_printable_line() -> None:
    """X-69b."""
    assert (
        redactor("").line(b"\x1b[31m two\n\tlines \xff", characters_max=300) == "[31m two lines �"
    )
    assert redactor("").line("x" * 301, characters_max=300) == "x" * 300 + "…"


def test_a_failure_has_no_secret_of_its_process() -> None:
    """X-77a: while the process uses them."""
    failure = AttemptFailure(
        code="exception", message="no route to https://h/t0ken", retryable=True, end="park"
    )
    with process_secrets(url_secrets("https://h/t0ken", "URL")):
        assert without_process_secrets(failure).message == "no route to https://h/[secret URL]"
    assert without_process_secrets(failure) == failure

"""The policy of a record: how long to wait, how often to try, and how much to pay."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, Final, NamedTuple

import typer

from aos.errors import BadUsage
from aos_cli.options import number, option, span

GWEI: Final = 10**9
MS: Final = 10**6
SECOND_MS: Final = 1_000
MINUTE_MS: Final = 60 * SECOND_MS

_WAIT_MS_MAX: Final = 50 * SECOND_MS
_PAUSE_MS_MAX: Final = 24 * 60 * MINUTE_MS
_COUNT_MAX: Final = 1_000
_DEPTH_MAX: Final = 10_000
_FEE_MAX: Final = 10**18
_FEE: Final = re.compile(r"([0-9]{1,20})(?:\.([0-9]{1,9}))? ?(gwei|wei)?")


def fee(text: str) -> int:
    """Parse an option's fee for a unit of gas, in wei: ``200gwei``, ``1.5gwei``, ``30000000000``.
    Raises ``typer.BadParameter``."""
    match = _FEE.fullmatch(text.strip().lower())
    if match is not None:
        integer_part, fraction, unit = match.groups()
        if unit == "gwei":
            return int(integer_part) * GWEI + int((fraction or "").ljust(9, "0"))
        if fraction is None:
            return int(integer_part)
    raise typer.BadParameter(f"expected a fee such as 200gwei or 30000000000, found {text!r}")


class Field(NamedTuple):
    """A field of ``gw/Policy@1``: its option, its default, and its bounds."""

    option: str
    default: int
    least: int
    maximum: int
    metavar: str
    parser: Callable[[str], int]
    help: str


FIELDS: Final[Mapping[str, Field]] = {
    "conf": Field(
        "--conf", 2, 0, _DEPTH_MAX, "N", number,
        "Confirmations of a final block (default 2); 0: the chain's finalized block.",
    ),
    "wait_ms": Field(
        "--wait", 15 * SECOND_MS, 1, _WAIT_MS_MAX, "D", span,
        "Time that one look at the chain waits for a transaction (default 15s, at most 50s).",
    ),
    "bump_after": Field(
        "--bump-after", 3, 1, _COUNT_MAX, "N", number,
        "Raise the fees after so many looks that find it pending (default 3).",
    ),
    "max_fee": Field(
        "--max-fee", 200 * GWEI, 1, _FEE_MAX, "FEE", fee,
        "Maximum price of a unit of gas, in wei or such as 30gwei (default 200gwei).",
    ),
    "retries": Field(
        "--retries", 5, 0, _COUNT_MAX, "N", number,
        "Retries of a step before it stalls (default 5).",
    ),
    "retry_base_ms": Field(
        "--retry-base", SECOND_MS, 1, _PAUSE_MS_MAX, "D", span,
        "Pause before the first retry, doubled for each further one (default 1s).",
    ),
    "retry_cap_ms": Field(
        "--retry-cap", 60 * SECOND_MS, 1, _PAUSE_MS_MAX, "D", span,
        "Longest pause before a retry (default 60s).",
    ),
    "stall_base_ms": Field(
        "--stall-base", MINUTE_MS, 1, _PAUSE_MS_MAX, "D", span,
        "Length of the first automatic stall, doubled for each further one (default 1m).",
    ),
    "stall_cap_ms": Field(
        "--stall-cap", 15 * MINUTE_MS, 1, _PAUSE_MS_MAX, "D", span,
        "Longest automatic stall (default 15m).",
    ),
    "stall_cycles": Field(
        "--stall-cycles", 5, 0, _COUNT_MAX, "N", number,
        "Automatic stalls in a row before the record is parked (default 5).",
    ),
    "arweave_conf": Field(
        "--arweave-conf", 10, 1, _DEPTH_MAX, "N", number,
        "Confirmations of the upload on Arweave (default 10, about 20 minutes there).",
    ),
    "arweave_wait_ms": Field(
        "--arweave-wait", 15 * SECOND_MS, 1, _WAIT_MS_MAX, "D", span,
        "Time that one look at Arweave waits (default 15s, at most 50s).",
    ),
}  # fmt: skip


def fee_text(wei: int) -> str:
    """A fee as people write it: ``1.5 gwei``, or ``7 wei`` below a thousandth of a gwei."""
    if 0 < wei < GWEI // 1_000:
        return f"{wei} wei"
    gwei, remainder = divmod(wei, GWEI)
    digits = f"{remainder:09}".rstrip("0")
    return f"{gwei}.{digits} gwei" if digits else f"{gwei} gwei"


def policy_of(**values: int | None) -> dict[str, int]:
    """The ``gw/Policy@1`` with these fields, and the defaults for those that are None.

    Durations are given in ns, by the names of the fields without ``_ms``.

    Raises:
        BadUsage: A field is out of its bounds, or a duration is not in whole milliseconds.
    """
    policy = {}
    for name, field in FIELDS.items():
        is_span = name.endswith("_ms")
        value = values.pop(name.removesuffix("_ms"), None)
        if value is not None and is_span:
            value = _milliseconds(value, field.option)
        policy[name] = field.default if value is None else value
        if not field.least <= policy[name] <= field.maximum:
            unit = " ms" if is_span else " wei" if name == "max_fee" else ""
            raise BadUsage(
                field.option,
                expected=f"{field.least:,} to {field.maximum:,}{unit}",
                actual=f"{policy[name]:,}",
            )
    assert not values, f"fields that no policy has: {sorted(values)}"
    return policy


def _milliseconds(ns: int, option: str) -> int:
    if ns % MS:
        raise BadUsage(option, expected="whole milliseconds", actual=f"{ns} ns")
    return ns // MS


def with_policy(*, has_upload: bool) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of a policy in the place of its parameter ``policy``, those of
    Arweave only if its record ``has_upload``."""
    options = {
        name.removesuffix("_ms"): Annotated[
            int | None, option(field.metavar, field.help, parser=field.parser)
        ]
        for name, field in FIELDS.items()
        if has_upload or not name.startswith("arweave_")
    }

    def decorated(function: Callable[..., None]) -> Callable[..., None]:
        def command(**values: Any) -> None:
            chosen_values = {name: values.pop(name) for name in options}
            function(policy=policy_of(**chosen_values), **values)

        parameters: list[Parameter] = []
        for parameter in signature(function, eval_str=True).parameters.values():
            if parameter.name == "policy":
                parameters += [
                    Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
                    for name, annotation in options.items()
                ]
            else:
                parameters.append(parameter)
        command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return command

    return decorated

"""The names of the package ``aos/linear@1``: workflows and schemas (spec/linear.md)."""

from __future__ import annotations

from typing import Final

from aos.manifest.names import SYSTEM

LINEAR_PACKAGE: Final = "aos/linear@1"

LINEAR: Final = "aos/linear@1"
"""The workflow of instances."""

BIZ_KEY: Final = "aos/linear.bizkey@1"
"""The workflow of business keys."""

START: Final = "aos/LinearStart@1"
RESERVE: Final = "aos/LinearReserve@1"
RESERVED: Final = "aos/LinearReserved@1"
RELEASED: Final = "aos/LinearReleased@1"
CLAIM: Final = "aos/LinearClaim@1"
EXTEND: Final = "aos/LinearExtend@1"
RESULT: Final = "aos/LinearResult@1"
SIGNAL: Final = "aos/LinearSignal@1"
CANCEL: Final = "aos/LinearCancel@1"
ENDED: Final = "aos/LinearEnded@1"
ANSWER: Final = "aos/LinearAnswer@1"
INSTANCE: Final = "aos/LinearInstance@1"

NOT_FROM_SENDERS: Final = frozenset({RESERVED, RELEASED, CLAIM, EXTEND, RESULT})
"""Events that only the package itself and the claims of workers may make (spec/linear.md, L-31)."""

SENT_TO_LINEAR: Final = frozenset({START, RESERVE, SIGNAL, CANCEL, CLAIM, EXTEND, RESULT})
"""Events of senders, and those that a node sends for the claims of workers. Only instances and
business keys make the others."""

OUTBOUND_REFUSED: Final = (SYSTEM, "aos/Linear")
"""Beginnings of schemas that a handler cannot emit."""

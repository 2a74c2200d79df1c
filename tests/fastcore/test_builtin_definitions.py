"""The data that both implementations of the core share."""

from __future__ import annotations

from tests.fastcore import builtin_definitions


def test_the_core_in_rust_has_the_built_in_schemas_of_the_reference() -> None:
    """M-50; ``python -m tests.fastcore.builtin_definitions`` writes them."""
    assert builtin_definitions.FILE.read_bytes() == builtin_definitions.content()

"""Choose the dialect of a workflow by the ABI of its module."""

from __future__ import annotations

from aos.core.decide.dialect.agentos import AGENTOS_DIALECT
from aos.core.decide.dialect.aos import AOS, Dialect
from aos.manifest.effective import Workflow
from aos.manifest.forms import AGENTOS


def dialect_of(workflow: Workflow) -> Dialect:
    """Return the dialect of a workflow's module."""
    return AGENTOS_DIALECT if workflow.module.abi == AGENTOS else AOS

"""Names of definitions: ``namespace/name@version`` (spec/manifest.md, M-10).

After the form of a name come the names of built-in definitions, which the kernel and its host treat
in a way of their own (M-51; ``builtin_definitions`` has the definitions themselves), and the names
of the package ``aos/linear@1`` (spec/linear.md).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

NAME: Final = re.compile(r"[a-z][a-z0-9._-]*/[A-Za-z][A-Za-z0-9._-]*@[1-9][0-9]*")
EXECUTOR_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9._/@-]{0,127}")
NAME_CHARS_MAX: Final = 256

SYSTEM: Final = "sys/"
NODE: Final = "node"
"""The executor name of the world's own key."""

KERNEL: Final = "kernel"
"""Used as the executor's name of effects that the core answers itself. No executor may have it."""

PROVIDED_EFFECTS: Final = tuple(
    f"{SYSTEM}{short}@1"
    for short in (
        "workspace.empty_root", "workspace.list", "workspace.read_ref", "workspace.read_bytes",
        "workspace.write_bytes", "workspace.write_ref", "workspace.remove", "workspace.diff",
        "workspace.annotations_get", "workspace.annotations_set", "host.session.open",
        "host.session.signal", "host.exec", "host.fs.read_file", "host.fs.write_file",
        "host.fs.edit_file", "host.fs.apply_patch", "host.fs.grep", "host.fs.glob", "host.fs.stat",
        "host.fs.exists", "host.fs.list_dir", "llm.generate", "llm.count_tokens", "llm.compact",
        "vault.put", "vault.rotate", "portal.send",
    )
)  # fmt: skip
"""Built-in effects that the node does not run by itself, in the order of AIR 2: an ``Executors``
may provide them."""

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


def is_name(text: str) -> bool:
    return len(text) <= NAME_CHARS_MAX and NAME.fullmatch(text) is not None


def is_system(name: str) -> bool:
    """Whether the name is built in: available everywhere, never defined by a user (M-11)."""
    return name.startswith(SYSTEM)


def is_run_by_node(effect: str) -> bool:
    """Whether the node runs an effect by itself, so that no ``Executors`` may: a ``sys/`` effect
    that is not among ``PROVIDED_EFFECTS``."""
    return is_system(effect) and effect not in PROVIDED_EFFECTS


def is_built_in(kind: str, name: str) -> bool:
    """Whether a definition is built in: known in every manifest, and never a part of an author's
    own. All names ``sys/`` are, except the workflow ``WORKSPACE``, which has a module."""
    return is_system(name) and (kind, name) != ("defworkflow", WORKSPACE)


UNSUPPORTED_EFFECTS: Final = frozenset({f"{SYSTEM}task.run@1"})
"""Known names of AIR 2, refused as not supported by this version."""

TIMER: Final = "sys/timer.set@1"
HTTP: Final = "sys/http.request@1"
CRON: Final = "sys/cron.next@1"
BLOB_PUT: Final = "sys/blob.put@1"
BLOB_GET: Final = "sys/blob.get@1"
WORLD_SEND: Final = "sys/world.send@1"
TIMER_CANCEL: Final = "sys/timer.cancel@1"
EFFECT_CANCEL: Final = "sys/effect.cancel@1"
INTROSPECT_MANIFEST: Final = "sys/introspect.manifest@1"
INTROSPECT_STATE: Final = "sys/introspect.workflow_state@1"
INTROSPECT_HEAD: Final = "sys/introspect.journal_head@1"
INTROSPECT_CELLS: Final = "sys/introspect.list_cells@1"
WORKSPACE: Final = "sys/Workspace@1"
"""The one workflow of this namespace. It ships with AOS, and a manifest that has it contains its
definition (AG-54)."""

WORKSPACE_RESOLVE: Final = "sys/workspace.resolve@1"
ANSWERED_EFFECTS: Final = (
    TIMER_CANCEL, EFFECT_CANCEL, INTROSPECT_MANIFEST, INTROSPECT_STATE, INTROSPECT_HEAD,
    INTROSPECT_CELLS, WORKSPACE_RESOLVE,
)  # fmt: skip
KERNEL_EFFECTS: Final = frozenset(ANSWERED_EFFECTS)
"""Effects that the core answers itself: no executor runs them, and none may sign for them."""

CONTEXT: Final = "sys/WorkflowContext@1"
ERROR: Final = "sys/EffectError@1"
ENVELOPE: Final = "sys/EffectReceiptEnvelope@1"
REJECTED: Final = "sys/EffectReceiptRejected@1"
STREAM: Final = "sys/EffectStreamFrame@1"
HTTP_PARAMS: Final = "sys/HttpRequestParams@1"

LEGACY_ARMS: Final[Mapping[str, str]] = {
    TIMER: "sys/TimerFired@1",
    BLOB_PUT: "sys/BlobPutResult@1",
    BLOB_GET: "sys/BlobGetResult@1",
}
"""Effect -> the older schema that carries its receipt, for a workflow without an envelope arm."""

CONTINUATIONS: Final = frozenset({ENVELOPE, REJECTED, STREAM, *LEGACY_ARMS.values()})
"""Schemas of values that only the kernel makes: neither a subscription nor a sender may deliver
one (M-35)."""

ONLY_DELIVERED: Final = "is a continuation, which only the kernel delivers"

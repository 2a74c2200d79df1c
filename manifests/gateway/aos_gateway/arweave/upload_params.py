"""The params of the three effects, checked once: an invalid one is refused before a request."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from aos.worker import EffectFailed
from aos_gateway.arweave.base64url import is_anchor, is_id
from aos_gateway.arweave.data_item import (
    BUNDLE_BYTES_MAX,
    BUNDLE_OVERHEAD_BYTES_MAX,
    ItemTag,
    tag_problem,
)

BAD_REQUEST: Final = "arweave_bad_request"
CONTENT_BYTES_MAX: Final = BUNDLE_BYTES_MAX - BUNDLE_OVERHEAD_BYTES_MAX
CONTENT_TYPE: Final = "Content-Type"

_WINSTON: Final = re.compile(r"0|[1-9][0-9]{0,33}")


def bad_request(problem: str) -> EffectFailed:
    """The error of params that no gateway could take (AW-3)."""
    return EffectFailed(BAD_REQUEST, problem)


def checked_size(size: int) -> int:
    """``bytes`` of a quote, or ``bad_request``."""
    if not 0 <= size <= CONTENT_BYTES_MAX:
        raise bad_request(f"bytes: expected at most {CONTENT_BYTES_MAX:,}, found {size:,}")
    return size


def checked_id(params: Mapping[str, Any], name: str) -> str:
    """``item`` or ``bundle``, or ``bad_request``."""
    id_text = params[name]
    if not is_id(id_text):
        raise bad_request(f"{name}: expected 32 bytes in base64url, found {id_text!r:.80}")
    return str(id_text)


def checked_anchor(anchor: str) -> str:
    """``anchor`` of an upload, or ``bad_request``."""
    if not is_anchor(anchor):
        raise bad_request(f"anchor: expected 32 or 48 bytes in base64url, found {anchor!r:.80}")
    return anchor


def checked_winston(reward: str) -> int:
    """``reward`` of an upload, or ``bad_request``."""
    if not _WINSTON.fullmatch(reward):
        raise bad_request(f"reward: expected a whole number of winston, found {reward!r:.80}")
    return int(reward)


def checked_tags(params: Mapping[str, Any]) -> tuple[ItemTag, ...]:
    """The tags of the item, the one of its content type first, or ``bad_request`` (AW-12)."""
    param_tags = [ItemTag(fields["name"], fields["value"]) for fields in params["tags"]]
    if any(tag.name.lower() == CONTENT_TYPE.lower() for tag in param_tags):
        raise bad_request(f"tags: {CONTENT_TYPE} is set by content_type alone")
    tags = (ItemTag(CONTENT_TYPE, params["content_type"]), *param_tags)
    problem = tag_problem(tags)
    if problem is not None:
        raise bad_request(f"{problem} (tags[0] is {CONTENT_TYPE})")
    return tags


def checked_content(content: bytes) -> bytes:
    """The blob of an upload, or ``bad_request``."""
    if len(content) > CONTENT_BYTES_MAX:
        raise bad_request(
            f"data: expected a blob of at most {CONTENT_BYTES_MAX:,} bytes, found {len(content):,}"
        )
    return content

"""The error codes of these effects (AG-84), and the functions that make some of the errors.

Only ``vault_write_failed`` is retryable: after any other code, the same params will never work, or
not with this state of the vault.
"""

from __future__ import annotations

from typing import Final

from aos.worker import EffectFailed, NotConfigured

BINDING_UNSUPPORTED: Final = "vault_binding_unsupported"
ALIAS_INVALID: Final = "vault_alias_invalid"
VALUE_UNSUPPORTED: Final = "vault_value_unsupported"
KEY_TAKEN: Final = "vault_key_taken"
VALUE_MISSING: Final = "vault_value_missing"
DIGEST_MISMATCH: Final = "vault_digest_mismatch"
VERSION_CONFLICT: Final = "vault_version_conflict"
FULL: Final = "vault_full"
WRITE_FAILED: Final = "vault_write_failed"
NOT_CONFIGURED: Final = "vault_not_configured"
FILE_UNUSABLE: Final = "vault_file_unusable"


def write_failed(error: OSError) -> EffectFailed:
    """The system could not write the file. It is as it was."""
    return EffectFailed(
        WRITE_FAILED, f"the secrets file cannot be written: {error.strerror}", retryable=True
    )


def attempt_over() -> EffectFailed:
    """The attempt has ended before it changed the file; its outcome is another one."""
    return EffectFailed(
        WRITE_FAILED,
        "the attempt ended while another process used the secrets file",
        retryable=True,
    )


def not_configured() -> NotConfigured:
    """This process has no vault."""
    return NotConfigured(
        NOT_CONFIGURED,
        "AOS_VAULT_FILE names no file, so there is no vault",
        "set it to the file of --secrets and restart the process",
    )


def file_unusable(problem: str) -> NotConfigured:
    """The file cannot be read or replaced by this process. It is as it was."""
    return NotConfigured(
        FILE_UNUSABLE,
        f"the vault cannot be used: {problem}",
        "correct the file that AOS_VAULT_FILE names, then run `aos effects retry`",
    )

"""Schemas of the effects ``sys/host.*``: processes and files of a machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from aos.manifest.builtin_types import (
    BOOL,
    BYTES,
    HASH,
    INT,
    NAT,
    TEXT,
    Type,
    list_of,
    map_of,
    option,
    record,
    ref,
    variant,
)

HOST_TYPES: Final[Mapping[str, Type]] = {
    "HostMount": record(host_path=TEXT, guest_path=TEXT, mode=TEXT),
    "HostLocalTarget": record(
        mounts=option(list_of(ref("HostMount"))), workdir=option(TEXT), env=option(map_of(TEXT)),
        network_mode=TEXT,
    ),
    "HostSandboxTarget": record(
        image=TEXT, runtime_class=option(TEXT), workdir=option(TEXT), env=option(map_of(TEXT)),
        network_mode=option(TEXT), mounts=option(list_of(ref("HostMount"))),
        cpu_limit_millis=option(NAT), memory_limit_bytes=option(NAT),
    ),
    "HostTarget": variant({"local": ref("HostLocalTarget"), "sandbox": ref("HostSandboxTarget")}),
    "HostSessionOpenParams": record(
        target=ref("HostTarget"), session_ttl_ns=option(NAT), labels=option(map_of(TEXT)),
    ),
    "HostSessionOpenReceipt": record(
        session_id=TEXT, status=TEXT, started_at_ns=NAT, expires_at_ns=option(NAT),
        error_code=option(TEXT), error_message=option(TEXT),
    ),
    "HostOutput": variant({
        "inline_text": record(text=TEXT), "inline_bytes": record(bytes=BYTES),
        "blob": record(blob_ref=HASH, size_bytes=NAT, preview_bytes=option(BYTES)),
    }),
    "HostExecParams": record(
        session_id=TEXT, argv=list_of(TEXT), cwd=option(TEXT), timeout_ns=option(NAT),
        env_patch=option(map_of(TEXT)), stdin_ref=option(HASH), output_mode=option(TEXT),
    ),
    "HostExecReceipt": record(
        exit_code=INT, status=TEXT, stdout=option(ref("HostOutput")),
        stderr=option(ref("HostOutput")), started_at_ns=NAT, ended_at_ns=NAT,
        error_code=option(TEXT), error_message=option(TEXT),
    ),
    "HostExecProgressFrame": record(
        exec_id=option(TEXT), elapsed_ns=NAT, stdout_delta=BYTES, stderr_delta=BYTES,
        stdout_bytes=NAT, stderr_bytes=NAT,
    ),
    "HostSessionSignalParams": record(session_id=TEXT, signal=TEXT, grace_timeout_ns=option(NAT)),
    "HostSessionSignalReceipt": record(
        status=TEXT, exit_code=option(INT), ended_at_ns=option(NAT), error_code=option(TEXT),
        error_message=option(TEXT),
    ),
    "HostBlobRefInput": record(blob_ref=HASH),
    "HostFileContentInput": variant({
        "inline_text": record(text=TEXT), "inline_bytes": record(bytes=BYTES),
        "blob_ref": ref("HostBlobRefInput"),
    }),
    "HostFsReadFileParams": record(
        session_id=TEXT, path=TEXT, offset_bytes=option(NAT), max_bytes=option(NAT),
        encoding=option(TEXT), output_mode=option(TEXT),
    ),
    "HostFsReadFileReceipt": record(
        status=TEXT, content=option(ref("HostOutput")), truncated=option(BOOL),
        size_bytes=option(NAT), mtime_ns=option(NAT), error_code=option(TEXT),
        error_message=option(TEXT),
    ),
    "HostFsWriteFileParams": record(
        session_id=TEXT, path=TEXT, content=ref("HostFileContentInput"),
        create_parents=option(BOOL), mode=option(TEXT),
    ),
    "HostFsWriteFileReceipt": record(
        status=TEXT, written_bytes=option(NAT), created=option(BOOL), new_mtime_ns=option(NAT),
        error_code=option(TEXT),
    ),
    "HostFsEditFileParams": record(
        session_id=TEXT, path=TEXT, old_string=TEXT, new_string=TEXT, replace_all=option(BOOL),
    ),
    "HostFsEditFileReceipt": record(
        status=TEXT, replacements=option(NAT), applied=option(BOOL), summary_text=option(TEXT),
        error_code=option(TEXT),
    ),
    "HostPatchInput": variant({
        "inline_text": record(text=TEXT), "blob_ref": ref("HostBlobRefInput"),
    }),
    "HostPatchOpsSummary": record(add=NAT, update=NAT, delete=NAT, move=NAT),
    "HostFsApplyPatchParams": record(
        session_id=TEXT, patch=ref("HostPatchInput"), patch_format=option(TEXT),
        dry_run=option(BOOL),
    ),
    "HostFsApplyPatchReceipt": record(
        status=TEXT, files_changed=option(NAT), changed_paths=option(list_of(TEXT)),
        ops=option(ref("HostPatchOpsSummary")), summary_text=option(TEXT),
        errors=option(list_of(TEXT)), error_code=option(TEXT),
    ),
    "HostTextOutput": variant({
        "inline_text": record(text=TEXT),
        "blob": record(blob_ref=HASH, size_bytes=NAT, preview_bytes=option(BYTES)),
    }),
    "HostFsGrepParams": record(
        session_id=TEXT, pattern=TEXT, path=option(TEXT), glob_filter=option(TEXT),
        case_insensitive=option(BOOL), max_results=option(NAT), output_mode=option(TEXT),
    ),
    "HostFsGrepReceipt": record(
        status=TEXT, matches=option(ref("HostTextOutput")), match_count=option(NAT),
        truncated=option(BOOL), error_code=option(TEXT), summary_text=option(TEXT),
    ),
    "HostFsGlobParams": record(
        session_id=TEXT, pattern=TEXT, path=option(TEXT), max_results=option(NAT),
        output_mode=option(TEXT),
    ),
    "HostFsGlobReceipt": record(
        status=TEXT, paths=option(ref("HostTextOutput")), count=option(NAT), truncated=option(BOOL),
        error_code=option(TEXT), summary_text=option(TEXT),
    ),
    "HostFsStatParams": record(session_id=TEXT, path=TEXT),
    "HostFsStatReceipt": record(
        status=TEXT, exists=option(BOOL), is_dir=option(BOOL), size_bytes=option(NAT),
        mtime_ns=option(NAT), error_code=option(TEXT),
    ),
    "HostFsExistsParams": record(session_id=TEXT, path=TEXT),
    "HostFsExistsReceipt": record(status=TEXT, exists=option(BOOL), error_code=option(TEXT)),
    "HostFsListDirParams": record(
        session_id=TEXT, path=option(TEXT), max_results=option(NAT), output_mode=option(TEXT),
    ),
    "HostFsListDirReceipt": record(
        status=TEXT, entries=option(ref("HostTextOutput")), count=option(NAT),
        truncated=option(BOOL), error_code=option(TEXT), summary_text=option(TEXT),
    ),
}  # fmt: skip

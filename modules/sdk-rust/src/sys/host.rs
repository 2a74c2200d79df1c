//! Processes and files of a machine: `sys/host.*@1`, in the folder that `aos run --host-root DIR` names.

use alloc::string::String;
use alloc::vec::Vec;

use crate::types::{Hash, Map};
use crate::{Effect, Schema};

/// Open a session in a folder of the machine.
#[derive(Effect, Clone, Debug, PartialEq)]
#[effect("sys/host.session.open@1", receipt = SessionOpenReceipt, executor = "node", params = "sys/HostSessionOpenParams@1")]
pub struct SessionOpen {
    pub target: Target,
    pub session_ttl_ns: Option<u64>,
    pub labels: Option<Map<String, String>>,
}

/// `sys/HostSessionOpenReceipt@1`.
#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("sys/HostSessionOpenReceipt@1")]
pub struct SessionOpenReceipt {
    pub session_id: String,
    pub status: String,
    pub started_at_ns: u64,
    pub expires_at_ns: Option<u64>,
    pub error_code: Option<String>,
    pub error_message: Option<String>,
}

/// Signal the programs of a session, or close it.
#[derive(Effect, Clone, Debug, PartialEq)]
#[effect("sys/host.session.signal@1", receipt = SessionSignalReceipt, executor = "node", params = "sys/HostSessionSignalParams@1")]
pub struct SessionSignal {
    pub session_id: String,
    pub signal: String,
    pub grace_timeout_ns: Option<u64>,
}

/// `sys/HostSessionSignalReceipt@1`.
#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("sys/HostSessionSignalReceipt@1")]
pub struct SessionSignalReceipt {
    pub status: String,
    pub exit_code: Option<i64>,
    pub ended_at_ns: Option<u64>,
    pub error_code: Option<String>,
    pub error_message: Option<String>,
}

/// Run a program in a session.
#[derive(Effect, Clone, Debug, PartialEq)]
#[effect("sys/host.exec@1", receipt = ExecReceipt, executor = "node", params = "sys/HostExecParams@1")]
pub struct Exec {
    pub session_id: String,
    pub argv: Vec<String>,
    pub cwd: Option<String>,
    pub timeout_ns: Option<u64>,
    pub env_patch: Option<Map<String, String>>,
    pub stdin_ref: Option<Hash>,
    pub output_mode: Option<String>,
}

/// `sys/HostExecReceipt@1`.
#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("sys/HostExecReceipt@1")]
pub struct ExecReceipt {
    pub exit_code: i64,
    pub status: String,
    pub stdout: Option<Output>,
    pub stderr: Option<Output>,
    pub started_at_ns: u64,
    pub ended_at_ns: u64,
    pub error_code: Option<String>,
    pub error_message: Option<String>,
}

/// Read a file.
#[derive(Effect, Clone, Debug, PartialEq)]
#[effect("sys/host.fs.read_file@1", receipt = FsReadFileReceipt, executor = "node", params = "sys/HostFsReadFileParams@1")]
pub struct FsReadFile {
    pub session_id: String,
    pub path: String,
    pub offset_bytes: Option<u64>,
    pub max_bytes: Option<u64>,
    pub encoding: Option<String>,
    pub output_mode: Option<String>,
}

/// `sys/HostFsReadFileReceipt@1`.
#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("sys/HostFsReadFileReceipt@1")]
pub struct FsReadFileReceipt {
    pub status: String,
    pub content: Option<Output>,
    pub truncated: Option<bool>,
    pub size_bytes: Option<u64>,
    pub mtime_ns: Option<u64>,
    pub error_code: Option<String>,
    pub error_message: Option<String>,
}

/// Write a file as a whole.
#[derive(Effect, Clone, Debug, PartialEq)]
#[effect("sys/host.fs.write_file@1", receipt = FsWriteFileReceipt, executor = "node", params = "sys/HostFsWriteFileParams@1")]
pub struct FsWriteFile {
    pub session_id: String,
    pub path: String,
    pub content: FileContentInput,
    pub create_parents: Option<bool>,
    pub mode: Option<String>,
}

/// `sys/HostFsWriteFileReceipt@1`.
#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("sys/HostFsWriteFileReceipt@1")]
pub struct FsWriteFileReceipt {
    pub status: String,
    pub written_bytes: Option<u64>,
    pub created: Option<bool>,
    pub new_mtime_ns: Option<u64>,
    pub error_code: Option<String>,
}

/// Replace a text in a file.
#[derive(Effect, Clone, Debug, PartialEq)]
#[effect("sys/host.fs.edit_file@1", receipt = FsEditFileReceipt, executor = "node", params = "sys/HostFsEditFileParams@1")]
pub struct FsEditFile {
    pub session_id: String,
    pub path: String,
    pub old_string: String,
    pub new_string: String,
    pub replace_all: Option<bool>,
}

/// `sys/HostFsEditFileReceipt@1`.
#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("sys/HostFsEditFileReceipt@1")]
pub struct FsEditFileReceipt {
    pub status: String,
    pub replacements: Option<u64>,
    pub applied: Option<bool>,
    pub summary_text: Option<String>,
    pub error_code: Option<String>,
}

/// Apply a patch to several files, or to none.
#[derive(Effect, Clone, Debug, PartialEq)]
#[effect("sys/host.fs.apply_patch@1", receipt = FsApplyPatchReceipt, executor = "node", params = "sys/HostFsApplyPatchParams@1")]
pub struct FsApplyPatch {
    pub session_id: String,
    pub patch: PatchInput,
    pub patch_format: Option<String>,
    pub dry_run: Option<bool>,
}

/// `sys/HostFsApplyPatchReceipt@1`.
#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("sys/HostFsApplyPatchReceipt@1")]
pub struct FsApplyPatchReceipt {
    pub status: String,
    pub files_changed: Option<u64>,
    pub changed_paths: Option<Vec<String>>,
    pub ops: Option<PatchOpsSummary>,
    pub summary_text: Option<String>,
    pub errors: Option<Vec<String>>,
    pub error_code: Option<String>,
}

/// Find lines that a pattern matches.
#[derive(Effect, Clone, Debug, PartialEq)]
#[effect("sys/host.fs.grep@1", receipt = FsGrepReceipt, executor = "node", params = "sys/HostFsGrepParams@1")]
pub struct FsGrep {
    pub session_id: String,
    pub pattern: String,
    pub path: Option<String>,
    pub glob_filter: Option<String>,
    pub case_insensitive: Option<bool>,
    pub max_results: Option<u64>,
    pub output_mode: Option<String>,
}

/// `sys/HostFsGrepReceipt@1`.
#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("sys/HostFsGrepReceipt@1")]
pub struct FsGrepReceipt {
    pub status: String,
    pub matches: Option<TextOutput>,
    pub match_count: Option<u64>,
    pub truncated: Option<bool>,
    pub error_code: Option<String>,
    pub summary_text: Option<String>,
}

/// Find paths that a pattern matches.
#[derive(Effect, Clone, Debug, PartialEq)]
#[effect("sys/host.fs.glob@1", receipt = FsGlobReceipt, executor = "node", params = "sys/HostFsGlobParams@1")]
pub struct FsGlob {
    pub session_id: String,
    pub pattern: String,
    pub path: Option<String>,
    pub max_results: Option<u64>,
    pub output_mode: Option<String>,
}

/// `sys/HostFsGlobReceipt@1`.
#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("sys/HostFsGlobReceipt@1")]
pub struct FsGlobReceipt {
    pub status: String,
    pub paths: Option<TextOutput>,
    pub count: Option<u64>,
    pub truncated: Option<bool>,
    pub error_code: Option<String>,
    pub summary_text: Option<String>,
}

/// Ask for the size and the time of a file.
#[derive(Effect, Clone, Debug, PartialEq)]
#[effect("sys/host.fs.stat@1", receipt = FsStatReceipt, executor = "node", params = "sys/HostFsStatParams@1")]
pub struct FsStat {
    pub session_id: String,
    pub path: String,
}

/// `sys/HostFsStatReceipt@1`.
#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("sys/HostFsStatReceipt@1")]
pub struct FsStatReceipt {
    pub status: String,
    pub exists: Option<bool>,
    pub is_dir: Option<bool>,
    pub size_bytes: Option<u64>,
    pub mtime_ns: Option<u64>,
    pub error_code: Option<String>,
}

/// Ask whether a path exists.
#[derive(Effect, Clone, Debug, PartialEq)]
#[effect("sys/host.fs.exists@1", receipt = FsExistsReceipt, executor = "node", params = "sys/HostFsExistsParams@1")]
pub struct FsExists {
    pub session_id: String,
    pub path: String,
}

/// `sys/HostFsExistsReceipt@1`.
#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("sys/HostFsExistsReceipt@1")]
pub struct FsExistsReceipt {
    pub status: String,
    pub exists: Option<bool>,
    pub error_code: Option<String>,
}

/// List a folder.
#[derive(Effect, Clone, Debug, PartialEq)]
#[effect("sys/host.fs.list_dir@1", receipt = FsListDirReceipt, executor = "node", params = "sys/HostFsListDirParams@1")]
pub struct FsListDir {
    pub session_id: String,
    pub path: Option<String>,
    pub max_results: Option<u64>,
    pub output_mode: Option<String>,
}

/// `sys/HostFsListDirReceipt@1`.
#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("sys/HostFsListDirReceipt@1")]
pub struct FsListDirReceipt {
    pub status: String,
    pub entries: Option<TextOutput>,
    pub count: Option<u64>,
    pub truncated: Option<bool>,
    pub error_code: Option<String>,
    pub summary_text: Option<String>,
}

/// `sys/HostExecProgressFrame@1`.
#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("sys/HostExecProgressFrame@1")]
pub struct ExecProgressFrame {
    pub exec_id: Option<String>,
    pub elapsed_ns: u64,
    pub stdout_delta: Vec<u8>,
    pub stderr_delta: Vec<u8>,
    pub stdout_bytes: u64,
    pub stderr_bytes: u64,
}

/// `sys/HostTarget@1`.
#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("sys/HostTarget@1")]
pub enum Target {
    #[schema(rename = "local")]
    Local(LocalTarget),
    #[schema(rename = "sandbox")]
    Sandbox(SandboxTarget),
}

/// `sys/HostOutput@1`.
#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("sys/HostOutput@1")]
pub enum Output {
    #[schema(rename = "inline_text")]
    InlineText(OutputInlineText),
    #[schema(rename = "inline_bytes")]
    InlineBytes(OutputInlineBytes),
    #[schema(rename = "blob")]
    Blob(OutputBlob),
}

#[derive(Schema, Clone, Debug, PartialEq)]
pub struct OutputInlineText {
    pub text: String,
}

#[derive(Schema, Clone, Debug, PartialEq)]
pub struct OutputInlineBytes {
    pub bytes: Vec<u8>,
}

#[derive(Schema, Clone, Debug, PartialEq)]
pub struct OutputBlob {
    pub blob_ref: Hash,
    pub size_bytes: u64,
    pub preview_bytes: Option<Vec<u8>>,
}

/// `sys/HostFileContentInput@1`.
#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("sys/HostFileContentInput@1")]
pub enum FileContentInput {
    #[schema(rename = "inline_text")]
    InlineText(FileContentInputInlineText),
    #[schema(rename = "inline_bytes")]
    InlineBytes(FileContentInputInlineBytes),
    #[schema(rename = "blob_ref")]
    BlobRef(BlobRefInput),
}

#[derive(Schema, Clone, Debug, PartialEq)]
pub struct FileContentInputInlineText {
    pub text: String,
}

#[derive(Schema, Clone, Debug, PartialEq)]
pub struct FileContentInputInlineBytes {
    pub bytes: Vec<u8>,
}

/// `sys/HostPatchInput@1`.
#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("sys/HostPatchInput@1")]
pub enum PatchInput {
    #[schema(rename = "inline_text")]
    InlineText(PatchInputInlineText),
    #[schema(rename = "blob_ref")]
    BlobRef(BlobRefInput),
}

#[derive(Schema, Clone, Debug, PartialEq)]
pub struct PatchInputInlineText {
    pub text: String,
}

/// `sys/HostPatchOpsSummary@1`.
#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("sys/HostPatchOpsSummary@1")]
pub struct PatchOpsSummary {
    pub add: u64,
    pub update: u64,
    pub delete: u64,
    #[schema(rename = "move")]
    pub moved: u64,
}

/// `sys/HostTextOutput@1`.
#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("sys/HostTextOutput@1")]
pub enum TextOutput {
    #[schema(rename = "inline_text")]
    InlineText(TextOutputInlineText),
    #[schema(rename = "blob")]
    Blob(TextOutputBlob),
}

#[derive(Schema, Clone, Debug, PartialEq)]
pub struct TextOutputInlineText {
    pub text: String,
}

#[derive(Schema, Clone, Debug, PartialEq)]
pub struct TextOutputBlob {
    pub blob_ref: Hash,
    pub size_bytes: u64,
    pub preview_bytes: Option<Vec<u8>>,
}

/// `sys/HostLocalTarget@1`.
#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("sys/HostLocalTarget@1")]
pub struct LocalTarget {
    pub mounts: Option<Vec<Mount>>,
    pub workdir: Option<String>,
    pub env: Option<Map<String, String>>,
    pub network_mode: String,
}

/// `sys/HostSandboxTarget@1`.
#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("sys/HostSandboxTarget@1")]
pub struct SandboxTarget {
    pub image: String,
    pub runtime_class: Option<String>,
    pub workdir: Option<String>,
    pub env: Option<Map<String, String>>,
    pub network_mode: Option<String>,
    pub mounts: Option<Vec<Mount>>,
    pub cpu_limit_millis: Option<u64>,
    pub memory_limit_bytes: Option<u64>,
}

/// `sys/HostBlobRefInput@1`.
#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("sys/HostBlobRefInput@1")]
pub struct BlobRefInput {
    pub blob_ref: Hash,
}

/// `sys/HostMount@1`.
#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("sys/HostMount@1")]
pub struct Mount {
    pub host_path: String,
    pub guest_path: String,
    pub mode: String,
}

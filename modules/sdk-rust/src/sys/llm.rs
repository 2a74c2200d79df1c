//! Requests to a language model: `sys/llm.*@1`, with `--executors llm`.

use alloc::string::String;
use alloc::vec::Vec;

use crate::types::{Decimal, Hash, Map};
use crate::{Effect, Schema, TextOrSecretRef};

/// Ask a model for one answer to a window of messages.
#[derive(Effect, Clone, Debug, PartialEq)]
#[effect("sys/llm.generate@1", receipt = GenerateReceipt, executor = "node", params = "sys/LlmGenerateParams@1")]
pub struct Generate {
    pub correlation_id: Option<String>,
    pub provider: String,
    pub model: String,
    pub window_items: Vec<WindowItem>,
    pub runtime: GenerateRuntime,
    pub api_key: Option<TextOrSecretRef>,
}

#[derive(Schema, Clone, Debug, PartialEq)]
pub struct GenerateRuntime {
    pub temperature: Option<Decimal>,
    pub top_p: Option<Decimal>,
    pub max_tokens: Option<u64>,
    pub tool_refs: Option<Vec<Hash>>,
    pub tool_choice: Option<ToolChoice>,
    pub reasoning_effort: Option<String>,
    pub stop_sequences: Option<Vec<String>>,
    pub metadata: Option<Map<String, String>>,
    pub provider_options_ref: Option<Hash>,
    pub response_format_ref: Option<Hash>,
}

/// `sys/LlmGenerateReceipt@1`.
#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("sys/LlmGenerateReceipt@1")]
pub struct GenerateReceipt {
    pub output_ref: Hash,
    pub raw_output_ref: Option<Hash>,
    pub provider_response_id: Option<String>,
    pub provider_context_items: Vec<WindowItem>,
    pub finish_reason: GenerateReceiptFinishReason,
    pub token_usage: GenerateReceiptTokenUsage,
    pub usage_details: Option<GenerateReceiptUsageDetails>,
    pub warnings_ref: Option<Hash>,
    pub rate_limit_ref: Option<Hash>,
    pub cost_cents: Option<u64>,
    pub provider_id: String,
}

#[derive(Schema, Clone, Debug, PartialEq)]
pub struct GenerateReceiptFinishReason {
    pub reason: String,
    pub raw: Option<String>,
}

#[derive(Schema, Clone, Debug, PartialEq)]
pub struct GenerateReceiptTokenUsage {
    pub prompt: u64,
    pub completion: u64,
    pub total: Option<u64>,
}

#[derive(Schema, Clone, Debug, PartialEq)]
pub struct GenerateReceiptUsageDetails {
    pub reasoning_tokens: Option<u64>,
    pub cache_read_tokens: Option<u64>,
    pub cache_write_tokens: Option<u64>,
}

/// Count the tokens of a window.
#[derive(Effect, Clone, Debug, PartialEq)]
#[effect("sys/llm.count_tokens@1", receipt = CountTokensReceipt, executor = "node", params = "sys/LlmCountTokensParams@1")]
pub struct CountTokens {
    pub correlation_id: Option<String>,
    pub provider: String,
    pub model: String,
    pub window_items: Vec<WindowItem>,
    pub tool_definitions_ref: Option<Hash>,
    pub response_format_ref: Option<Hash>,
    pub provider_options_ref: Option<Hash>,
    pub rendering_profile: Option<String>,
    pub candidate_plan_id: Option<String>,
    pub metadata: Map<String, String>,
    pub api_key: Option<TextOrSecretRef>,
}

/// `sys/LlmCountTokensReceipt@1`.
#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("sys/LlmCountTokensReceipt@1")]
pub struct CountTokensReceipt {
    pub input_tokens: Option<u64>,
    pub original_input_tokens: Option<u64>,
    pub counts_by_ref: Vec<TokenCountByRef>,
    pub tool_tokens: Option<u64>,
    pub response_format_tokens: Option<u64>,
    pub quality: TokenCountQuality,
    pub provider: String,
    pub model: String,
    pub candidate_plan_id: Option<String>,
    pub provider_metadata_ref: Option<Hash>,
    pub warnings_ref: Option<Hash>,
}

/// Replace a part of a window by a summary.
#[derive(Effect, Clone, Debug, PartialEq)]
#[effect("sys/llm.compact@1", receipt = CompactReceipt, executor = "node", params = "sys/LlmCompactParams@1")]
pub struct Compact {
    pub correlation_id: Option<String>,
    pub operation_id: String,
    pub provider: String,
    pub model: String,
    pub strategy: CompactStrategy,
    pub source_window_items: Vec<WindowItem>,
    pub preserve_window_items: Vec<WindowItem>,
    pub recent_tail_items: Vec<WindowItem>,
    pub source_range: Option<TranscriptRange>,
    pub target_tokens: Option<u64>,
    pub provider_options_ref: Option<Hash>,
    pub api_key: Option<TextOrSecretRef>,
}

/// `sys/LlmCompactReceipt@1`.
#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("sys/LlmCompactReceipt@1")]
pub struct CompactReceipt {
    pub operation_id: String,
    pub artifact_kind: CompactionArtifactKind,
    pub artifact_refs: Vec<Hash>,
    pub source_range: Option<TranscriptRange>,
    pub compacted_through: Option<u64>,
    pub active_window_items: Vec<WindowItem>,
    pub token_usage: Option<TokenUsage>,
    pub provider_metadata_ref: Option<Hash>,
    pub warnings_ref: Option<Hash>,
    pub provider_id: String,
}

/// `sys/LlmWindowItem@1`.
#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("sys/LlmWindowItem@1")]
pub struct WindowItem {
    pub item_id: String,
    pub kind: WindowItemKind,
    pub ref_: Hash,
    pub lane: Option<String>,
    pub source_range: Option<TranscriptRange>,
    pub source_refs: Vec<Hash>,
    pub provider_compatibility: Option<ProviderCompatibility>,
    pub estimated_tokens: Option<u64>,
    pub metadata: Map<String, String>,
}

/// `sys/LlmToolChoice@1`.
#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("sys/LlmToolChoice@1")]
pub enum ToolChoice {
    Auto,
    #[schema(rename = "None")]
    Nothing,
    Required,
    Tool(ToolChoiceTool),
}

#[derive(Schema, Clone, Debug, PartialEq)]
pub struct ToolChoiceTool {
    pub name: String,
}

/// `sys/LlmTokenCountByRef@1`.
#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("sys/LlmTokenCountByRef@1")]
pub struct TokenCountByRef {
    pub ref_: Hash,
    pub tokens: u64,
    pub quality: TokenCountQuality,
}

/// `sys/LlmTokenCountQuality@1`.
#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("sys/LlmTokenCountQuality@1")]
pub enum TokenCountQuality {
    Exact,
    ProviderEstimate,
    LocalEstimate,
    Unknown,
}

/// `sys/LlmCompactStrategy@1`.
#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("sys/LlmCompactStrategy@1")]
pub enum CompactStrategy {
    ProviderNative,
    AosSummary,
    Auto,
}

/// `sys/LlmTranscriptRange@1`.
#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("sys/LlmTranscriptRange@1")]
pub struct TranscriptRange {
    pub start_seq: u64,
    pub end_seq: u64,
}

/// `sys/LlmCompactionArtifactKind@1`.
#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("sys/LlmCompactionArtifactKind@1")]
pub enum CompactionArtifactKind {
    AosSummary,
    ProviderNative,
    Mixed,
}

/// `sys/TokenUsage@1`.
#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("sys/TokenUsage@1")]
pub struct TokenUsage {
    pub prompt: u64,
    pub completion: u64,
    pub total: Option<u64>,
}

/// `sys/LlmWindowItemKind@1`.
#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("sys/LlmWindowItemKind@1")]
pub enum WindowItemKind {
    MessageRef,
    AosSummaryRef,
    ProviderNativeArtifactRef,
    ProviderRawWindowRef,
    Custom(WindowItemKindCustom),
}

#[derive(Schema, Clone, Debug, PartialEq)]
pub struct WindowItemKindCustom {
    pub kind: String,
}

/// `sys/LlmProviderCompatibility@1`.
#[derive(Schema, Clone, Debug, PartialEq)]
#[schema("sys/LlmProviderCompatibility@1")]
pub struct ProviderCompatibility {
    pub provider: String,
    pub api_kind: String,
    pub model: Option<String>,
    pub model_family: Option<String>,
    pub artifact_type: String,
    pub opaque: bool,
    pub encrypted: bool,
}

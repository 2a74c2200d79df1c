//! Public keys in a manifest: `ed25519:<64 hex>` (`kernel/aos/manifest/keys.py`, M-37).

use crate::values::digests::unhex;
use crate::values::errors::ValueProblem;

/// The 32 bytes of a key. The document was judged, so the point is known to be safe.
pub fn parse_key(text: &str) -> Result<[u8; 32], ValueProblem> {
    text.strip_prefix("ed25519:").and_then(unhex).ok_or_else(|| {
        ValueProblem::new("expected ed25519:<64 lower-case hex digits>, found something else")
    })
}

/// Inverse of `parse_key`.
pub fn key_text(key: &[u8; 32]) -> String {
    format!("ed25519:{}", crate::values::digests::hex(key))
}

//! Hashes: all are BLAKE3, and every structured preimage is an array that begins with a domain
//! (spec/values.md, V-60).

use crate::values::cbor::{put_array, put_text};
use crate::values::errors::{quoted, ValueProblem};

/// 32 raw bytes, BLAKE3.
pub type Hash = [u8; 32];

pub const HASH_BYTES: usize = 32;

/// Hash of a structured object: BLAKE3 over the canonical array `[domain, part…]`. `write` appends
/// the canonical bytes of the `parts` parts.
pub fn digest(domain: &str, parts: usize, write: impl FnOnce(&mut Vec<u8>)) -> Hash {
    let mut preimage = Vec::with_capacity(256);
    put_array(&mut preimage, 1 + parts);
    put_text(&mut preimage, domain);
    write(&mut preimage);
    content_hash(&preimage)
}

/// Hash of plain bytes: blobs, modules, params, payloads, outputs.
pub fn content_hash(data: &[u8]) -> Hash {
    *blake3::hash(data).as_bytes()
}

/// `blake3:` and 64 lower-case hex digits.
pub fn hash_text(hash: &Hash) -> String {
    format!("blake3:{}", hex(hash))
}

/// Inverse of `hash_text`. Any other text is refused, with advice.
pub fn parse_hash(text: &str) -> Result<Hash, ValueProblem> {
    if let Some(hash) = text.strip_prefix("blake3:").and_then(unhex) {
        return Ok(hash);
    }
    Err(ValueProblem::new(match text.split_once(':') {
        Some((algorithm, _)) if algorithm != "blake3" => format!(
            "expected blake3:<64 hex>, found a {} hash (AOS hashes are BLAKE3; leave the hash out \
             and it is filled in)",
            quoted(algorithm)
        ),
        _ => format!("expected blake3:<64 lower-case hex digits>, found {}", quoted(text)),
    }))
}

/// The bytes of 64 lower-case hex digits; None for other text.
pub fn unhex(digits: &str) -> Option<[u8; 32]> {
    let value = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    if digits.len() != 64 {
        return None;
    }
    let mut out = [0; 32];
    for (byte, pair) in out.iter_mut().zip(digits.as_bytes().chunks_exact(2)) {
        *byte = value(pair[0])? << 4 | value(pair[1])?;
    }
    Some(out)
}

/// Lower-case hex digits.
pub fn hex(data: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut out = String::with_capacity(2 * data.len());
    for b in data {
        out.push(DIGITS[(b >> 4) as usize] as char);
        out.push(DIGITS[(b & 15) as usize] as char);
    }
    out
}

/// `size` bytes by BLAKE3's key derivation mode.
pub fn derive(context: &str, key_material: &[u8], size: usize) -> Vec<u8> {
    let mut out = vec![0; size];
    blake3::Hasher::new_derive_key(context).update(key_material).finalize_xof().fill(&mut out);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_digits() {
        assert_eq!(hex(&[0x00, 0x9f, 0xff]), "009fff");
        assert_eq!(
            hash_text(&content_hash(b"")),
            "blake3:af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"
        );
    }
}

//! `hash`: `algorithm:hex` in lower case.

use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::fmt;

use crate::air::Type;
use crate::cbor::{self, Reader, Stop};
use crate::schema::{Key, Schema, text_order};

/// A hash as text, such as `blake3:` and 64 hex digits. A module does not compute
/// hashes: receipts and the context contain them.
///
/// ```
/// use aos_sdk::Hash;
///
/// let text = format!("sha256:{}", "0a".repeat(32));
/// assert_eq!(Hash::parse(&text).unwrap().text(), text);
/// assert_eq!(Hash::parse("sha256:0A"), None);
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hash(String);

/// Each algorithm's name with its colon, and its number of digits.
const ALGORITHMS: [(&str, usize); 4] =
    [("blake3:", 64), ("sha256:", 64), ("sha384:", 96), ("sha512:", 128)];

impl Hash {
    /// Of `algorithm:hex`: `blake3` or `sha256` with 64 digits, `sha384` with 96, `sha512` with
    /// 128, all in lower case.
    pub fn parse(text: &str) -> Option<Hash> {
        is_hash(text).then(|| Hash(String::from(text)))
    }

    pub fn text(&self) -> &str {
        &self.0
    }
}

fn is_hash(text: &str) -> bool {
    ALGORITHMS.iter().any(|(name, digits)| match text.strip_prefix(name) {
        Some(hex) => {
            hex.len() == *digits
                && hex.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
        }
        None => false,
    })
}

/// BLAKE3 with all digits 0, which is the hash of nothing that anyone knows.
impl Default for Hash {
    fn default() -> Hash {
        let mut text = String::from("blake3:");
        (0..64).for_each(|_| text.push('0'));
        Hash(text)
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.0)
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.0)
    }
}

impl Schema for Hash {
    const TYPE: Type = Type::Hash;

    fn write(&self, out: &mut Vec<u8>) {
        cbor::write_text(&self.0, out);
    }

    fn read(from: &mut Reader<'_>) -> Result<Hash, Stop> {
        let text = from.text()?;
        Hash::parse(text).ok_or_else(|| from.stop("a hash before here"))
    }

    fn order(&self, other: &Hash) -> Ordering {
        text_order(&self.0, &other.0)
    }
}

impl Key for Hash {}

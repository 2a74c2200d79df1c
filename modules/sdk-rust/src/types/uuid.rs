//! `uuid`: 16 bytes, written as RFC 4122 text in lower case.

use alloc::string::String;
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::fmt;

use crate::air::Type;
use crate::cbor::{self, Reader, Stop};
use crate::number::{HEX, hex_digit};
use crate::schema::{Key, Schema};

/// An RFC 4122 identifier. Fresh ones come from [`Context::uuid`](crate::Context::uuid).
///
/// ```
/// use aos_sdk::Uuid;
///
/// let id = Uuid::parse("00112233-4455-6677-8899-AABBCCDDEEFF").unwrap();
/// assert_eq!(id.text(), "00112233-4455-6677-8899-aabbccddeeff");
/// assert_eq!(Uuid::parse("00112233"), None);
/// ```
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Uuid([u8; 16]);

const LENGTH: usize = 36;

impl Uuid {
    pub const fn from_bytes(bytes: [u8; 16]) -> Uuid {
        Uuid(bytes)
    }

    pub const fn bytes(&self) -> [u8; 16] {
        self.0
    }

    /// Of 8-4-4-4-12 hex digits, in either case.
    pub fn parse(text: &str) -> Option<Uuid> {
        let text = text.as_bytes();
        if text.len() != LENGTH {
            return None;
        }
        let mut bytes = [0; 16];
        let mut at = 0;
        for (index, byte) in bytes.iter_mut().enumerate() {
            if dash_before(index) {
                if text[at] != b'-' {
                    return None;
                }
                at += 1;
            }
            *byte = hex_digit(text[at])? << 4 | hex_digit(text[at + 1])?;
            at += 2;
        }
        Some(Uuid(bytes))
    }

    pub fn text(&self) -> String {
        let mut text = String::with_capacity(LENGTH);
        for (index, byte) in self.0.iter().enumerate() {
            if dash_before(index) {
                text.push('-');
            }
            text.push(HEX[(byte >> 4) as usize] as char);
            text.push(HEX[(byte & 15) as usize] as char);
        }
        text
    }
}

fn dash_before(index: usize) -> bool {
    matches!(index, 4 | 6 | 8 | 10)
}

impl fmt::Debug for Uuid {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.text())
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.text())
    }
}

impl Schema for Uuid {
    const TYPE: Type = Type::Uuid;

    fn write(&self, out: &mut Vec<u8>) {
        cbor::write_text(&self.text(), out);
    }

    fn read(from: &mut Reader<'_>) -> Result<Uuid, Stop> {
        let text = from.text()?;
        match Uuid::parse(text) {
            // Upper case is not the normal form.
            Some(uuid) if !text.bytes().any(|byte| byte.is_ascii_uppercase()) => Ok(uuid),
            _ => Err(from.stop("a uuid before here")),
        }
    }

    /// Lower-case hex is in the order of the bytes that it spells.
    fn order(&self, other: &Uuid) -> Ordering {
        self.cmp(other)
    }
}

impl Key for Uuid {}

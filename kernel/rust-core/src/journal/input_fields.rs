//! Fields of inputs as a host gives them: some are none that a record can hold (spec/core.md, CR-19).
//!
//! Python has no limits for its integers, its text may have lone surrogates, and a hash is any byte
//! string. Admission refuses such fields by the first rule that they break, in the reference's words.

use std::rc::Rc;

use crate::values::cbor::{put_bytes, put_integer, put_nat, put_text};
use crate::values::digests::Hash;
use crate::values::errors::{quoted, quoted_points, Failure, Outcome};

/// The text of an input; `Other` has the code points of one with a lone surrogate, which is equal to
/// no text of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InputText {
    Unicode(Rc<str>),
    Other(Rc<[u32]>),
}

impl InputText {
    pub fn text(&self) -> Option<&Rc<str>> {
        match self {
            InputText::Unicode(text) => Some(text),
            InputText::Other(_) => None,
        }
    }

    /// As `text`. A failure if there are no bytes of it, which only a defect of the host can cause.
    pub fn written(&self) -> Outcome<&Rc<str>> {
        self.text().ok_or(Failure::Unwritable)
    }

    pub fn is(&self, name: &str) -> bool {
        self.text().is_some_and(|text| **text == *name)
    }

    /// As `values::errors::quoted`.
    pub fn quoted(&self) -> String {
        match self {
            InputText::Unicode(text) => quoted(text),
            InputText::Other(points) => quoted_points(points.iter().copied()),
        }
    }

    /// Its code points.
    pub fn points(&self) -> Vec<u32> {
        match self {
            InputText::Unicode(text) => text.chars().map(u32::from).collect(),
            InputText::Other(points) => points.to_vec(),
        }
    }

    /// Bytes of UTF-8; 0 if it has none.
    pub fn size(&self) -> usize {
        self.text().map_or(0, |text| text.len())
    }
}

/// The number of an input. `Other` is no natural number below 2^64: its digits, and the words that
/// describe it (CR-22).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InputNat {
    Nat(u64),
    Other { digits: Rc<str>, words: Rc<str> },
}

impl InputNat {
    pub fn nat(&self) -> Option<u64> {
        match self {
            InputNat::Nat(number) => Some(*number),
            InputNat::Other { .. } => None,
        }
    }

    pub fn is(&self, number: u64) -> bool {
        self.nat() == Some(number)
    }

    /// As `values::show::describe`.
    pub fn described(&self) -> String {
        match self {
            InputNat::Nat(number) => format!("nat {number}"),
            InputNat::Other { words, .. } => words.to_string(),
        }
    }

    pub fn digits(&self) -> String {
        match self {
            InputNat::Nat(number) => number.to_string(),
            InputNat::Other { digits, .. } => digits.to_string(),
        }
    }

    pub fn is_negative(&self) -> bool {
        matches!(self, InputNat::Other { digits, .. } if digits.starts_with('-'))
    }

    /// Append it to a message. A failure if it has no CBOR.
    pub fn put(&self, out: &mut Vec<u8>) -> Outcome<()> {
        match self {
            InputNat::Nat(number) => put_nat(out, *number),
            InputNat::Other { digits, .. } => {
                let number = digits.parse::<i128>().ok();
                let least = -(1i128 << 64);
                let number = number.filter(|number| (least..0).contains(number));
                put_integer(out, number.ok_or(Failure::Unwritable)?);
            }
        }
        Ok(())
    }
}

/// The hash of an input; `Other` has another length, so that no value has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InputHash {
    Hash(Hash),
    Other(Rc<[u8]>),
}

impl InputHash {
    pub fn hash(&self) -> Option<Hash> {
        match self {
            InputHash::Hash(hash) => Some(*hash),
            InputHash::Other(_) => None,
        }
    }

    /// As `hash`. A failure if it is none, which only a defect of the host can cause.
    pub fn written(&self) -> Outcome<Hash> {
        self.hash().ok_or(Failure::Unwritable)
    }

    pub fn bytes(&self) -> &[u8] {
        match self {
            InputHash::Hash(hash) => hash,
            InputHash::Other(data) => data,
        }
    }
}

/// The option of a record for that of an input, by `of`.
pub fn option<'a, T, U>(
    field: &'a Option<T>,
    of: impl FnOnce(&'a T) -> Outcome<U>,
) -> Outcome<Option<U>> {
    field.as_ref().map(of).transpose()
}

/// Append text to a message. A failure if it has no CBOR.
pub fn put_input_text(out: &mut Vec<u8>, text: &InputText) -> Outcome<()> {
    put_text(out, text.written()?);
    Ok(())
}

/// Append a hash of any length to a message.
pub fn put_input_hash(out: &mut Vec<u8>, hash: &InputHash) {
    put_bytes(out, hash.bytes());
}

//! `aos/Sealed@1`: a value that a workflow carries and cannot read.

use alloc::vec::Vec;
use core::fmt;

use crate::air::{Definition, Type};
use crate::cbor::{self, Reader, Stop};
use crate::schema::{Named, Schema};

/// A sealed value: ciphertext of a field that the workflow only passes on.
///
/// Sender and workers have the key, the workflow has not: it can store a `Sealed`, clone it and put
/// it into params and events. In the worker, the effect function gets the plaintext. The manifest
/// needs `"uses": ["aos/sealed@1"]`, which `aos build` adds by itself.
///
/// ```
/// use aos_sdk::prelude::*;
///
/// #[derive(Schema)]
/// #[schema("shop/CardGiven@1")]
/// pub struct CardGiven {
///     pub order_id: String,
///     pub card: Sealed,
/// }
/// ```
///
/// Two values that are equal were sealed together: the same plaintext at the same place of one
/// event. Others differ, even if their plaintexts are equal.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Sealed(Vec<u8>);

/// The length alone: a log line has no use for ciphertext.
impl fmt::Debug for Sealed {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "Sealed({} bytes)", self.0.len())
    }
}

impl Schema for Sealed {
    const TYPE: Type = Type::Ref(&Sealed::DEFINITION);

    fn write(&self, out: &mut Vec<u8>) {
        cbor::write_bytes(&self.0, out);
    }

    fn read(from: &mut Reader<'_>) -> Result<Sealed, Stop> {
        from.bytes().map(|bytes| Sealed(Vec::from(bytes)))
    }
}

/// The package `aos/sealed@1` defines the schema, so no module does.
impl Named for Sealed {
    const NAME: &'static str = "aos/Sealed@1";
    const DEFINITION: Definition = Definition { name: "aos/Sealed@1", of: Type::Bytes };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{decode, encode};
    use alloc::format;

    #[test]
    fn a_sealed_value_is_passed_on_byte_for_byte() {
        let bytes = [0x44, 0x01, 0x02, 0x03, 0xff];
        let sealed: Sealed = decode(&bytes).unwrap();

        assert_eq!(encode(&sealed), bytes);
        assert_eq!(sealed.clone(), sealed);
    }

    #[test]
    fn its_debug_text_has_no_byte_of_it() {
        let sealed: Sealed = decode(&[0x43, 0x01, 0x02, 0x03]).unwrap();

        assert_eq!(format!("{sealed:?}"), "Sealed(3 bytes)");
    }

    #[test]
    fn only_bytes_are_sealed() {
        assert!(decode::<Sealed>(&[0x61, 0x61]).is_err());
    }
}

//! A step that cannot be done.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::cbor::{self, Misfit};

/// The reason why a step cannot be done. The kernel keeps the state as it was, drops the events and
/// effects of the step, and fails the instance with this message; `aos cells retry` runs the event
/// again.
///
/// ```
/// use aos_sdk::Fault;
///
/// fn share(cents: u64, people: u64) -> Result<u64, Fault> {
///     match people {
///         0 => Err(Fault::new("nobody", "there is nobody to share with")),
///         _ => Ok(cents / people),
///     }
/// }
/// assert_eq!(share(10, 0).unwrap_err().kind, "nobody");
/// ```
///
/// A panic is a trap: the instance fails too, with the panic's place and message. A planned end is
/// not a fault but a status ([`Context::status`](crate::Context::status)).
#[derive(Clone, PartialEq, Eq)]
pub struct Fault {
    /// One word, for programs.
    pub kind: String,
    /// One sentence, for people. Kind and message have at most 4,096 bytes together.
    pub message: String,
    /// Further data, at most 4,096 bytes.
    pub detail: Option<Vec<u8>>,
}

impl Fault {
    pub fn new(kind: impl Into<String>, message: impl Into<String>) -> Fault {
        Fault { kind: kind.into(), message: message.into(), detail: None }
    }

    /// Module and manifest do not belong together: the kernel has checked these bytes against the
    /// manifest's schemas.
    pub(crate) fn input(what: &str, misfit: Misfit) -> Fault {
        let mut message = String::from(what);
        message.push_str(": ");
        message.push_str(&misfit.words());
        Fault::new("sdk_input", message)
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        let mut out = Vec::from(b"\xa1\x65fault");
        cbor::write_map(2 + self.detail.is_some() as usize, &mut out);
        out.extend_from_slice(b"\x64kind");
        cbor::write_text(&self.kind, &mut out);
        if let Some(detail) = &self.detail {
            out.extend_from_slice(b"\x66detail");
            cbor::write_bytes(detail, &mut out);
        }
        out.extend_from_slice(b"\x67message");
        cbor::write_text(&self.message, &mut out);
        out
    }
}

impl fmt::Debug for Fault {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.kind)?;
        to.write_str(": ")?;
        to.write_str(&self.message)
    }
}

/// For bytes that an author decodes: what another cell kept, what a stream brought.
impl From<Misfit> for Fault {
    fn from(misfit: Misfit) -> Fault {
        Fault::new("sdk_payload", misfit.words())
    }
}

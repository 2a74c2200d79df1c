//! The closed set of fault kinds: a fault fails one instance and nothing else (K-33;
//! `kernel/aos/core/journal/faults.py`).

use std::rc::Rc;

use crate::journal::vocabulary::{words, Word};

/// Longest message of a fault, and longest problem of a receipt, in bytes of UTF-8; both are in the
/// journal.
pub const MESSAGE_BYTES_MAX: usize = 4096;

words! {
    /// Spelling is part of the journal format.
    FaultKind {
        Trap = "trap",
        Fuel = "fuel",
        Memory = "memory",
        OutputTooLarge = "output_too_large",
        OutputMalformed = "output_malformed",
        StateInvalid = "state_invalid",
        AnnotationInvalid = "annotation_invalid",
        EventInvalid = "event_invalid",
        KeyInvalid = "key_invalid",
        EffectUndeclared = "effect_undeclared",
        ParamsInvalid = "params_invalid",
        TooManyEvents = "too_many_events",
        TooManyEffects = "too_many_effects",
        IdempotencyConflict = "idempotency_conflict",
        OpenWorkExceeded = "open_work_exceeded",
        DeletedWithEffects = "deleted_with_effects",
        CascadeTooDeep = "cascade_too_deep",
        CascadeTooLong = "cascade_too_long",
        Guest = "guest",
        ReceiptInvalid = "receipt_invalid",
        Overloaded = "overloaded",
        Stack = "stack",
        HostMemory = "host_memory",
        Watchdog = "watchdog",
    }
}

/// Why an instance failed. `detail` are bytes that a module added to its own fault.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    pub kind: FaultKind,
    pub message: Rc<str>,
    pub detail: Option<Rc<[u8]>>,
}

impl Fault {
    pub fn new(kind: FaultKind, message: impl Into<Rc<str>>) -> Self {
        Fault { kind, message: message.into(), detail: None }
    }

    /// Whether running an entry failed the instance; the entry is still first in the mailbox.
    pub fn by_entry(&self) -> bool {
        !matches!(self.kind, FaultKind::ReceiptInvalid | FaultKind::Overloaded)
    }
}

/// `text`, cut so that it fits a record. The path into a hostile value can be very long.
pub fn clipped(text: &str) -> String {
    if text.len() <= MESSAGE_BYTES_MAX {
        return text.to_string();
    }
    let mut end = MESSAGE_BYTES_MAX - 3;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}…", &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clipped_text_ends_at_a_character() {
        assert_eq!(clipped(&"x".repeat(4096)).len(), 4096);
        let cut = clipped(&"é".repeat(3000));
        assert_eq!((cut.len(), cut.chars().count()), (2 * 2046 + 3, 2047));
        assert_eq!(FaultKind::of("watchdog"), Some(FaultKind::Watchdog));
    }
}

//! The fixed words of inputs and records (`kernel/aos/core/journal/vocabulary.py`).
//!
//! Admission looks the word of an input up with `of` and refuses an unknown one; for the record
//! gate an unknown word is damage.

/// A closed set of words, each spelled as in a record.
pub trait Word: Copy + Eq + 'static {
    /// All words, in the order in which Python lists them.
    const WORDS: &'static [Self];

    fn word(self) -> &'static str;

    /// The word that `text` spells; None if it spells none of the set.
    fn of(text: &str) -> Option<Self> {
        Self::WORDS.iter().copied().find(|each| each.word() == text)
    }
}

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($variant:ident = $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $($variant),+
        }

        impl Word for $name {
            const WORDS: &'static [$name] = &[$($name::$variant),+];

            fn word(self) -> &'static str {
                match self {
                    $($name::$variant => $text),+
                }
            }
        }
    };
}
pub(crate) use words;

words! {
    /// The ways in which an effect ends; its receipt names one.
    ReceiptStatus { Ok = "ok", Error = "error", Timeout = "timeout", Canceled = "canceled" }
}
words! {
    /// The results of a receipt for its cell: see `records::Receipt`.
    ReceiptOutcome {
        Delivered = "delivered",
        Rejected = "rejected",
        Faulted = "faulted",
        Abandoned = "abandoned",
        Overloaded = "overloaded",
    }
}
words! {
    CellStatus {
        Running = "running",
        Waiting = "waiting",
        Completed = "completed",
        Failed = "failed",
    }
}
words! {
    /// A module declares one of these about its instance, or nothing.
    DeclaredStatus { Running = "running", Completed = "completed", Failed = "failed" }
}
words! {
    TerminalStatus { Completed = "completed", Failed = "failed" }
}
words! {
    /// Why an intent does not run although it is open: see `records::Attempt`.
    HaltPhase { Held = "held", Parked = "parked" }
}
words! {
    AttemptPhase { Begun = "begun", Lost = "lost", Held = "held", Parked = "parked" }
}
words! {
    /// The ways in which a manifest comes into force (K-70, K-72, K-76).
    ApplyMode { Strict = "strict", Pin = "pin", Migrate = "migrate" }
}
words! {
    /// A fork cancels the open intents of its parent, or keeps them open.
    OpenWork { Cancel = "cancel", Keep = "keep" }
}
words! {
    ControlAction {
        Retry = "retry",
        Skip = "skip",
        Cancel = "cancel",
        Erase = "erase",
        Unpin = "unpin",
        Settle = "settle",
        End = "end",
        Remove = "remove",
        Clock = "clock",
    }
}
words! {
    GovernanceAction {
        Propose = "propose",
        Report = "report",
        Approve = "approve",
        Reject = "reject",
        Withdraw = "withdraw",
    }
}
words! {
    Vote { Approve = "approve", Reject = "reject" }
}
words! {
    /// How a proposal ends.
    ClosedStatus {
        Rejected = "rejected",
        Withdrawn = "withdrawn",
        Applied = "applied",
        Stale = "stale",
    }
}
words! {
    ProposalStatus {
        Open = "open",
        Approved = "approved",
        Rejected = "rejected",
        Withdrawn = "withdrawn",
        Applied = "applied",
        Stale = "stale",
    }
}
words! {
    /// The ways in which an operator may settle an intent.
    SettledStatus { Ok = "ok", Error = "error" }
}
words! {
    /// The statuses that a command may name: those of `SettledStatus` and `TerminalStatus`.
    ControlStatus { Ok = "ok", Error = "error", Completed = "completed", Failed = "failed" }
}

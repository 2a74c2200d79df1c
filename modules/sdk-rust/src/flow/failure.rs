//! Terminal failures: values that an operation ends with, and that a flow may catch.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

use crate::cbor::{self, Reader, Stop};
use crate::fault::Fault;

/// Why an operation failed for good.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failure {
    /// One word, for programs.
    pub code: String,
    /// One sentence, for people.
    pub message: String,
    /// The path of the operation that failed; empty for the flow itself.
    pub path: String,
    /// The failures of the branches of a join or race, or that of a child flow.
    pub causes: Vec<FlowError>,
}

/// The error of every operation of a flow. It is final: the retries are over.
///
/// A failure is stored once, in the history. The same value is returned in the turn in which it
/// happens and in every replay.
///
/// ```
/// use aos_sdk::flow::FlowError;
///
/// fn price(stock: u64) -> Result<u64, FlowError> {
///     match stock {
///         0 => Err(FlowError::critical("sold_out", "there is no tea left")),
///         _ => Ok(450),
///     }
/// }
/// assert_eq!(price(0).unwrap_err().code(), "sold_out");
/// ```
#[derive(Clone, PartialEq, Eq)]
pub enum FlowError {
    /// An error that a retry cannot mend.
    Critical(Failure),
    /// The flow has to be rolled back. It ends a race and a join at once.
    Rollback(Failure),
    /// Every attempt of a step failed.
    Exhausted(Failure),
    /// The time ran out. The effect may have happened.
    Timeout(Failure),
    /// An operator, or the parent flow, canceled it. The effect may have happened.
    Canceled(Failure),
    /// Branches of a join failed: `causes`, in the order of the branches.
    Join(Failure),
    /// All branches of a race failed: `causes`, in the order of the branches.
    Race(Failure),
}

/// The words of the kinds in a stored failure.
const KINDS: [(&str, fn(Failure) -> FlowError); 7] = [
    ("critical", FlowError::Critical),
    ("rollback", FlowError::Rollback),
    ("exhausted", FlowError::Exhausted),
    ("timeout", FlowError::Timeout),
    ("canceled", FlowError::Canceled),
    ("join", FlowError::Join),
    ("race", FlowError::Race),
];

/// A failure without path and causes.
pub(super) fn failure(code: &str, message: &str) -> Failure {
    Failure { code: code.into(), message: message.into(), ..Failure::default() }
}

impl FlowError {
    /// A failure that no retry can mend. In a branch it fails this branch only.
    pub fn critical(code: impl Into<String>, message: impl Into<String>) -> FlowError {
        FlowError::Critical(failure(&code.into(), &message.into()))
    }

    /// A failure that ends every race and join around it, for a flow that has to be rolled back.
    pub fn rollback(code: impl Into<String>, message: impl Into<String>) -> FlowError {
        FlowError::Rollback(failure(&code.into(), &message.into()))
    }

    /// The same failure as a rollback: in a branch it ends every race and join around it.
    ///
    /// ```
    /// # use aos_sdk::{prelude::*, flow::{Cx, FlowError}};
    /// # #[derive(Schema)] #[schema("shop/Parcel@1")] struct Parcel { id: String }
    /// # #[derive(Effect)] #[effect("shop/ship@1", receipt = Parcel, executor = "shop")]
    /// # struct Ship { id: String }
    /// async fn ship(cx: Cx, id: String) -> Result<Parcel, FlowError> {
    ///     cx.step("ship", Ship { id }).await.map_err(FlowError::into_rollback)
    /// }
    /// ```
    pub fn into_rollback(mut self) -> FlowError {
        FlowError::Rollback(core::mem::take(self.failure_mut()))
    }

    /// One word, for programs.
    pub fn code(&self) -> &str {
        &self.failure().code
    }

    /// One sentence, for people.
    pub fn message(&self) -> &str {
        &self.failure().message
    }

    /// The path of the operation that failed; empty for the flow itself.
    pub fn path(&self) -> &str {
        &self.failure().path
    }

    /// The failures of the branches of a join or race, or that of a child flow.
    pub fn causes(&self) -> &[FlowError] {
        &self.failure().causes
    }

    /// `critical`, `rollback`, `exhausted`, `timeout`, `canceled`, `join` or `race`.
    pub fn kind(&self) -> &'static str {
        KINDS[self.number()].0
    }

    fn number(&self) -> usize {
        match self {
            FlowError::Critical(_) => 0,
            FlowError::Rollback(_) => 1,
            FlowError::Exhausted(_) => 2,
            FlowError::Timeout(_) => 3,
            FlowError::Canceled(_) => 4,
            FlowError::Join(_) => 5,
            FlowError::Race(_) => 6,
        }
    }

    fn failure(&self) -> &Failure {
        match self {
            FlowError::Critical(failure)
            | FlowError::Rollback(failure)
            | FlowError::Exhausted(failure)
            | FlowError::Timeout(failure)
            | FlowError::Canceled(failure)
            | FlowError::Join(failure)
            | FlowError::Race(failure) => failure,
        }
    }

    pub(super) fn failure_mut(&mut self) -> &mut Failure {
        match self {
            FlowError::Critical(failure)
            | FlowError::Rollback(failure)
            | FlowError::Exhausted(failure)
            | FlowError::Timeout(failure)
            | FlowError::Canceled(failure)
            | FlowError::Join(failure)
            | FlowError::Race(failure) => failure,
        }
    }

    /// `[kind, code, message, path, [cause, …]]`.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        let Failure { code, message, path, causes } = self.failure();
        cbor::write_list(5, out);
        for text in [self.kind(), code, message, path] {
            cbor::write_text(text, out);
        }
        cbor::write_list(causes.len(), out);
        causes.iter().for_each(|cause| cause.write(out));
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.write(&mut out);
        out
    }

    pub(super) fn read(from: &mut Reader<'_>) -> Result<FlowError, Stop> {
        if from.list()? != 5 {
            return Err(from.stop("a failure"));
        }
        let kind = from.text()?;
        let Some((_, make)) = KINDS.iter().find(|(word, _)| *word == kind) else {
            return Err(from.stop("the kind of a failure before here"));
        };
        let (code, message, path) = (from.text()?, from.text()?, from.text()?);
        let mut causes = Vec::new();
        for _ in 0..from.list()? {
            causes.push(FlowError::read(from)?);
        }
        Ok(make(Failure { code: code.into(), message: message.into(), path: path.into(), causes }))
    }
}

impl fmt::Display for FlowError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failure { code, message, path, .. } = self.failure();
        for part in [self.kind(), " ", code, ": ", message] {
            to.write_str(part)?;
        }
        if !path.is_empty() {
            to.write_str(" (")?;
            to.write_str(path)?;
            to.write_str(")")?;
        }
        Ok(())
    }
}

impl fmt::Debug for FlowError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, to)?;
        if !self.causes().is_empty() {
            to.write_str(" ")?;
            to.debug_list().entries(self.causes()).finish()?;
        }
        Ok(())
    }
}

impl core::error::Error for FlowError {}

/// For `?` on what the rest of the SDK returns, such as JSON that cannot be read: Critical, with
/// the fault's kind as its code.
impl From<Fault> for FlowError {
    fn from(fault: Fault) -> FlowError {
        FlowError::critical(fault.kind, fault.message)
    }
}

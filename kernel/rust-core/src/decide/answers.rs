//! The results of a decision of the core: a record that follows the state, or an answer to the
//! sender (`kernel/aos/core/decide/answers.py`).
//!
//! The core decides an input (`admit`, `settle`, `control`), a step (`step`) or a receipt of its own
//! (`owed`). Deciding changes nothing; the kernel applies the decision.

use std::rc::Rc;

use crate::journal::faults::{clipped, Fault};
use crate::journal::records::{CellId, Record, Slot};
use crate::journal::vocabulary::{words, Word};
use crate::values::digests::Hash;
use crate::values::errors::Failure;

words! {
    /// The rules that refuse an input. The spelling is part of the public contract.
    Rule {
        WorldHasNoManifest = "world_has_no_manifest",
        EventSchemaIsUnknown = "event_schema_is_unknown",
        EventIsInternal = "event_is_internal",
        EventIsInvalid = "event_is_invalid",
        EventKeyIsInvalid = "event_key_is_invalid",
        KeyOfAnotherShard = "key_of_another_shard",
        EventReachesTooMany = "event_reaches_too_many",
        EventDoesNotFitInstance = "event_does_not_fit_instance",
        InstanceIsUnknown = "instance_is_unknown",
        SubmissionIdIsTaken = "submission_id_is_taken",
        SubmissionIdIsInvalid = "submission_id_is_invalid",
        DeliveryIsTooOld = "delivery_is_too_old",
        WorldIsBusy = "world_is_busy",
        ReceiptIntentIsUnknown = "receipt_intent_is_unknown",
        ReceiptIntentIsSettled = "receipt_intent_is_settled",
        ReceiptEffectDiffers = "receipt_effect_differs",
        ReceiptAttemptIsOld = "receipt_attempt_is_old",
        ReceiptStatusIsUnknown = "receipt_status_is_unknown",
        ReceiptIsTooLarge = "receipt_is_too_large",
        ReceiptTimesAreInvalid = "receipt_times_are_invalid",
        ReceiptExecutorMayNotSign = "receipt_executor_may_not_sign",
        ReceiptSignatureIsWrong = "receipt_signature_is_wrong",
        TimerIsNotDue = "timer_is_not_due",
        StreamFrameIsOld = "stream_frame_is_old",
        StreamFrameIsInvalid = "stream_frame_is_invalid",
        StreamFrameIsTooLarge = "stream_frame_is_too_large",
        StreamIsTooFast = "stream_is_too_fast",
        StreamIsTooLong = "stream_is_too_long",
        StreamHasNoTaker = "stream_has_no_taker",
        AttemptIsOld = "attempt_is_old",
        AttemptIsInvalid = "attempt_is_invalid",
        SnapshotIsOld = "snapshot_is_old",
        ControlPrincipalIsUnknown = "control_principal_is_unknown",
        ControlSerialIsWrong = "control_serial_is_wrong",
        ControlSignatureIsWrong = "control_signature_is_wrong",
        ControlIsInvalid = "control_is_invalid",
        CellHasNotFailed = "cell_has_not_failed",
        CellHasNothingToSkip = "cell_has_nothing_to_skip",
        CellDoesNotFit = "cell_does_not_fit",
        CellIsNotPinned = "cell_is_not_pinned",
        CellIsUnknown = "cell_is_unknown",
        CellHasEnded = "cell_has_ended",
        CellHasOwnCommand = "cell_has_own_command",
        ClockIsNotAhead = "clock_is_not_ahead",
        IntentIsNotOpen = "intent_is_not_open",
        SettlementDoesNotFit = "settlement_does_not_fit",
        ValueIsInUse = "value_is_in_use",
        ValueIsUnknown = "value_is_unknown",
        ManifestPrincipalIsUnknown = "manifest_principal_is_unknown",
        ManifestSignatureIsWrong = "manifest_signature_is_wrong",
        ManifestSerialIsWrong = "manifest_serial_is_wrong",
        ManifestIsInvalid = "manifest_is_invalid",
        ManifestIsInForce = "manifest_is_in_force",
        ManifestModeIsUnknown = "manifest_mode_is_unknown",
        ManifestDoesNotFit = "manifest_does_not_fit",
        ManifestCheckIsOld = "manifest_check_is_old",
        ManifestNeedsProposal = "manifest_needs_proposal",
        WorldIsNotQuiescent = "world_is_not_quiescent",
        WorldIsNotGoverned = "world_is_not_governed",
        GovernancePrincipalIsUnknown = "governance_principal_is_unknown",
        GovernanceSerialIsWrong = "governance_serial_is_wrong",
        GovernanceSignatureIsWrong = "governance_signature_is_wrong",
        ProposalIsUnknown = "proposal_is_unknown",
        ProposalIsClosed = "proposal_is_closed",
        ProposalIsStale = "proposal_is_stale",
        ProposalIsInvalid = "proposal_is_invalid",
        ProposalLacksQuorum = "proposal_lacks_quorum",
        ProposalDiffers = "proposal_differs",
        TooManyProposals = "too_many_proposals",
        ReportIsInvalid = "report_is_invalid",
        TooManyReports = "too_many_reports",
        VoteIsTaken = "vote_is_taken",
        ReportIsNeeded = "report_is_needed",
    }
}

/// Why a manifest cannot be applied now: one of the kinds of K-70 and K-71. `cell` has no key if a
/// whole workflow is the blocker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocker {
    pub kind: &'static str,
    pub cell: CellId,
    pub detail: String,
}

/// The input breaks `rule`. Nothing has changed. `message` is one sentence for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub rule: Rule,
    pub message: String,
    pub blockers: Vec<Blocker>,
}

/// A refusal whose message fits an answer.
pub fn refusal(rule: Rule, message: impl AsRef<str>) -> Refusal {
    Refusal { rule, message: clipped(message.as_ref()), blockers: Vec::new() }
}

/// Values that a record names by hash. They become durable with the record's frame.
#[derive(Clone, Debug, Default)]
pub struct NewBlobs(Vec<(Hash, Rc<[u8]>)>);

impl NewBlobs {
    pub fn add(&mut self, hash: Hash, data: impl Into<Rc<[u8]>>) {
        self.0.push((hash, data.into()));
    }

    /// The slot of a record for `data`; a long value is added. Python: `slot`.
    pub fn slot(&mut self, data: &[u8]) -> Slot {
        Slot::of(data, &mut |hash, data| self.add(hash, data))
    }
}

impl IntoIterator for NewBlobs {
    type Item = (Hash, Rc<[u8]>);
    type IntoIter = std::vec::IntoIter<Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

/// The next record of the journal, and the blobs to store with it. Nothing has been folded yet.
#[derive(Clone, Debug)]
pub struct Decided {
    pub record: Record,
    pub blobs: NewBlobs,
}

impl Decided {
    /// A record without blobs.
    pub fn of(record: Record) -> Self {
        Decided { record, blobs: NewBlobs::default() }
    }
}

/// The decision about an input: a record that admits it, the record that it is already, or the
/// rule that it breaks.
#[derive(Clone, Debug)]
pub enum Decision {
    Decided(Decided),
    Duplicate { seq: u64 },
    Refusal(Refusal),
}

/// Why a decision ends before its record is complete: the answer is known, or a blob that it needs
/// cannot be read. `?` returns either.
#[derive(Clone, Debug)]
pub enum Stop {
    Refusal(Refusal),
    Duplicate { seq: u64 },
    Failure(Failure),
}

impl From<Refusal> for Stop {
    fn from(refusal: Refusal) -> Self {
        Stop::Refusal(refusal)
    }
}

impl From<Failure> for Stop {
    fn from(failure: Failure) -> Self {
        Stop::Failure(failure)
    }
}

/// The decision that a complete record or a stop is.
pub fn decision(decided: Result<Decided, Stop>) -> Result<Decision, Failure> {
    match decided {
        Ok(decided) => Ok(Decision::Decided(decided)),
        Err(Stop::Refusal(refusal)) => Ok(Decision::Refusal(refusal)),
        Err(Stop::Duplicate { seq }) => Ok(Decision::Duplicate { seq }),
        Err(Stop::Failure(failure)) => Err(failure),
    }
}

/// The output of a module breaks a rule and becomes a recorded fault, or a blob that the step needs
/// cannot be read.
#[derive(Clone, Debug)]
pub enum Misfit {
    Fault(Fault),
    Failure(Failure),
}

impl From<Failure> for Misfit {
    fn from(failure: Failure) -> Self {
        Misfit::Failure(failure)
    }
}

//! The steps of the three records, and their order.

use crate::record::{RecordType, Step};

impl Step {
    pub fn name(self) -> &'static str {
        match self {
            Step::UploadEvidence => "UPLOAD_EVIDENCE",
            Step::AwaitArweaveConfirm => "AWAIT_ARWEAVE_CONFIRM",
            Step::SubmitWorkOnchain => "SUBMIT_WORK_ONCHAIN",
            Step::AwaitTxConfirm => "AWAIT_TX_CONFIRM",
            Step::RegisterWork => "REGISTER_WORK",
            Step::AwaitRegisterConfirm => "AWAIT_REGISTER_CONFIRM",
            Step::SubmitScore => "SUBMIT_SCORE",
            Step::CommitScore => "COMMIT_SCORE",
            Step::AwaitCommitConfirm => "AWAIT_COMMIT_CONFIRM",
            Step::RevealScore => "REVEAL_SCORE",
            Step::AwaitRevealConfirm => "AWAIT_REVEAL_CONFIRM",
            Step::RegisterValidator => "REGISTER_VALIDATOR",
            Step::CheckPreconditions => "CHECK_PRECONDITIONS",
            Step::SubmitCloseEpoch => "SUBMIT_CLOSE_EPOCH",
        }
    }
}

impl Step {
    /// The step that sends the transaction for which this step waits; other steps are their own.
    pub fn submit(self, of: RecordType) -> Step {
        match (self, of) {
            (Step::AwaitTxConfirm, RecordType::WorkSubmission) => Step::SubmitWorkOnchain,
            (Step::AwaitTxConfirm, RecordType::ScoreSubmission) => Step::SubmitScore,
            (Step::AwaitTxConfirm, RecordType::CloseEpoch) => Step::SubmitCloseEpoch,
            (Step::AwaitRegisterConfirm, RecordType::ScoreSubmission) => Step::RegisterValidator,
            (Step::AwaitRegisterConfirm, _) => Step::RegisterWork,
            (Step::AwaitCommitConfirm, _) => Step::CommitScore,
            (Step::AwaitRevealConfirm, _) => Step::RevealScore,
            _ => self,
        }
    }

    /// The step that waits for this step's transaction.
    pub fn awaiting(self) -> Step {
        match self {
            Step::RegisterWork | Step::RegisterValidator => Step::AwaitRegisterConfirm,
            Step::CommitScore => Step::AwaitCommitConfirm,
            Step::RevealScore => Step::AwaitRevealConfirm,
            Step::SubmitWorkOnchain | Step::SubmitScore | Step::SubmitCloseEpoch => {
                Step::AwaitTxConfirm
            }
            _ => self,
        }
    }

    /// The step after this one; of a step that sends a transaction, the one after its confirmation.
    pub fn next(self) -> Option<Step> {
        match self {
            Step::UploadEvidence => Some(Step::AwaitArweaveConfirm),
            Step::AwaitArweaveConfirm => Some(Step::SubmitWorkOnchain),
            Step::SubmitWorkOnchain => Some(Step::RegisterWork),
            Step::SubmitScore | Step::RevealScore => Some(Step::RegisterValidator),
            Step::CommitScore => Some(Step::RevealScore),
            Step::CheckPreconditions => Some(Step::SubmitCloseEpoch),
            _ => None,
        }
    }
}

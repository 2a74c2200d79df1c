//! From the question whether a step is done, through its transaction, to the check at the block in
//! which that landed.

use aos_sdk::prelude::*;

use crate::events::{Attempt, TxOutcome};
use crate::evm::{BlockAt, CallResult, Called, Cause};
use crate::record::{Doing, Pause, Question, Step};
use crate::run::Run;
use crate::studio::{failure_of, opens_at, told_window, told_works, Studio, Told};

/// Added to the time at which a window opens: the chain's clock counts whole seconds.
const WINDOW_SLACK: Duration = Duration::seconds(1);

impl Run<'_, '_> {
    // Questions.

    pub fn answered(&mut self, question: Question, called: Called) {
        let CallResult::Returned(returned) = called.result else {
            self.not_a_studio();
            return;
        };
        match question {
            Question::Done => {
                let told = Studio::of(self.record).told(self.submit_step(), &returned);
                self.told(told);
            }
            Question::Submitter => {
                let told = Studio::of(self.record).told_submitter(&returned);
                self.told_submitter(told);
            }
            Question::Window => match told_window(&returned) {
                Some(opens_at) => self.reveal_from(opens_at),
                None => self.not_a_studio(),
            },
            Question::Works => match told_works(&returned) {
                Some(0) => self.stall("EPOCH_EMPTY", "the epoch has no works"),
                Some(_) => self.advance(Some(Step::SubmitCloseEpoch)),
                None => self.not_a_studio(),
            },
        }
    }

    fn not_a_studio(&mut self) {
        let input = &self.record.input;
        let message = format!(
            "no Studio contract answers at {} on chain {}",
            input.studio_address, input.chain
        );
        self.retry("STUDIO_UNKNOWN", &message);
    }

    fn told(&mut self, told: Told) {
        let suspect = self.record.suspect.take();
        match told {
            Told::Done => self.done(None),
            Told::Conflict(message) => self.fail("CONFLICT", &message),
            Told::Unknown => {
                self.record.suspect = suspect;
                self.not_a_studio();
            }
            Told::Missing => {
                self.record.suspect = suspect;
                self.suspect_the_lane();
                self.retry("CHAIN_REORGANISED", "the commitment is no longer in the chain");
            }
            Told::Undone if self.record.is_canceling => {
                self.fail("CANCELED", "the record was canceled");
            }
            Told::Undone => match suspect {
                Some(error) => self.fail_as_suspected(error),
                None => self.undone(),
            },
        }
    }

    /// The contract says that the step is not done: what to ask next, or the transaction.
    fn undone(&mut self) {
        match self.submit_step() {
            Step::SubmitScore | Step::CommitScore => self.ask(Question::Submitter),
            Step::RevealScore => self.ask(Question::Window),
            Step::CheckPreconditions => self.ask(Question::Works),
            _ => self.request(),
        }
    }

    fn told_submitter(&mut self, told: Told) {
        match told {
            Told::Done => self.request(),
            Told::Undone => {
                self.record.doing = Doing::Checking(Question::Done);
                self.stall("WORK_NOT_SUBMITTED", "no one has submitted the work yet");
            }
            Told::Conflict(message) => {
                let message =
                    format!("the worker of this score did not submit the work: {message}");
                self.fail("INVALID_INPUT", &message);
            }
            Told::Missing | Told::Unknown => self.not_a_studio(),
        }
    }

    /// The chain's clock may be behind the world's: then the transaction would revert, and is
    /// requested again.
    fn reveal_from(&mut self, opens_at_s: u64) {
        let opens_at = at_second(opens_at_s);
        if opens_at <= self.cx.now() {
            self.request();
            return;
        }
        self.wake_at(opens_at, Pause::Window);
        self.note("waiting until the score may be revealed");
    }

    // Outcomes.

    /// The lane has settled the request: `attempts` are all submissions of it.
    pub fn settled(&mut self, request: u64, outcome: TxOutcome, attempts: Vec<Attempt>) {
        if self.record.at_lane != Some(request) {
            self.note("an answer of the lane to another request: ignored");
            return;
        }
        self.record.at_lane = None;
        self.record.attempts.extend(attempts);
        if self.is_parked() {
            self.record.settled = Some(outcome);
            self.note("settled by the lane, and still parked");
            return;
        }
        self.take_outcome(outcome);
    }

    pub fn take_outcome(&mut self, outcome: TxOutcome) {
        self.close();
        self.record.settled = None;
        self.record.step = self.submit_step();
        self.record.doing = Doing::Checking(Question::Done);
        match outcome {
            TxOutcome::Confirmed { hash, block, .. } => {
                self.record.step = self.record.step.awaiting();
                self.record.doing = Doing::Verifying { hash, block };
                self.call(Question::Done, BlockAt::Number(block));
            }
            TxOutcome::Canceled if self.record.is_canceling => {
                self.fail("CANCELED", "the record was canceled");
            }
            // At the block that the lane has seen: a node that is behind it cannot deny it.
            TxOutcome::Done { block } => self.call(Question::Done, BlockAt::Number(block)),
            // Nothing of it will land: it ends here, unless the chain says that it is done.
            _ if self.record.is_canceling => self.ask(Question::Done),
            TxOutcome::Reverted { cause, .. } => self.reverted(&cause, true),
            TxOutcome::WouldRevert { cause, at_depth } => self.reverted(&cause, at_depth),
            TxOutcome::Canceled => self.park("its transaction was canceled at the lane"),
            TxOutcome::Foreign { hash, .. } => self.foreign(&hash),
            TxOutcome::NoFunds { balance, needed } => {
                let (has, needs) = (balance.text(), needed.text());
                let message =
                    format!("the signer has {has} wei, and the transaction needs {needs}");
                self.stall("NO_FUNDS", &message);
            }
            TxOutcome::LaneFull => self.sleep_for_room(),
            TxOutcome::Invalid(why) => self.fail("INVALID_INPUT", &why),
        }
    }

    /// A revert at depth is final, landed or not. Before that, its cause may still be reorganised
    /// away.
    fn reverted(&mut self, cause: &Cause, at_depth: bool) {
        let (code, message) = failure_of(cause);
        if let Some(opens_at_s) = opens_at(cause) {
            let opens_at = at_second(opens_at_s).max(self.cx.now());
            let wake = opens_at.checked_add(WINDOW_SLACK).unwrap_or(opens_at);
            self.wake_at(wake, Pause::Window);
            self.note(&message);
        } else if matches!(code, "INCONSISTENT" | "WORK_NOT_SUBMITTED") {
            // A transaction of an earlier step is missing at the head: a reorganisation.
            self.suspect_the_lane();
            self.retry("CHAIN_REORGANISED", &message);
        } else if at_depth {
            self.suspect(code, &message);
        } else {
            self.retry(code, &message);
        }
    }

    /// A stranger with the same key took the nonce. It may have done the work, too.
    fn foreign(&mut self, hash: &str) {
        self.record.step_attempts += 1;
        let message = format!("{hash} of another sender with this key took the nonce");
        if self.record.step_attempts > self.record.policy.retries {
            self.stall("FOREIGN", &message);
        } else {
            self.note(&message);
            self.ask(Question::Done);
        }
    }

    /// The answer at the block in which the transaction landed.
    pub fn verified(&mut self, hash: String, block: u64, called: Called) {
        let told = match &called.result {
            CallResult::Returned(returned) => {
                Studio::of(self.record).told(self.submit_step(), returned)
            }
            CallResult::Reverted(_) => Told::Unknown,
        };
        match told {
            Told::Done => return self.done(Some(hash)),
            Told::Unknown => return self.not_a_studio(),
            Told::Undone | Told::Conflict(_) | Told::Missing => {}
        }
        let message = format!(
            "{hash} is confirmed in block {block}, and at that block the contract does not have \
             its effect: it is never sent again"
        );
        self.fail("INCONSISTENT", &message);
    }

    /// The step is done at depth: by the transaction with this hash, or it was found done.
    fn done(&mut self, hash: Option<String>) {
        let submit = self.submit_step();
        let progress = &mut self.record.progress;
        let (landed, confirmed) = match submit {
            Step::CommitScore => (&mut progress.commit_tx_hash, &mut progress.commit_confirmed),
            Step::RegisterWork | Step::RegisterValidator => {
                (&mut progress.register_tx_hash, &mut progress.register_confirmed)
            }
            _ => (&mut progress.onchain_tx_hash, &mut progress.onchain_confirmed),
        };
        if landed.is_none() {
            *landed = hash;
        }
        *confirmed = Some(true);
        self.record.step = submit;
        match submit {
            // Closed already: there is nothing left to do.
            Step::CheckPreconditions => self.advance(None),
            _ => self.advance(submit.next()),
        }
    }
}

/// A second of the chain's clock. The last time that there is, where it is later than that.
fn at_second(second: u64) -> Time {
    let ns = i64::try_from(second).unwrap_or(i64::MAX).saturating_mul(1_000_000_000);
    Time::from_ns(ns)
}

//! The request in flight: quote, submit, wait for its fate.
//!
//! Rule 1: a nonce that an attempt has ends only by being consumed at depth. Until then every
//! attempt has this nonce.
//!
//! Rule 2: whatever a submit answers, the chain is asked for the fate of the nonce next.
//!
//! Rule 3: one effect is open at a time, so one transaction is in flight.

use aos_sdk::prelude::*;
use aos_sdk::SecretRef;

use crate::events::{Attempt, AttemptFate, TxOutcome};
use crate::evm::{
    AwaitReceipt, Fate, Quote, QuoteResult, Quoted, Submit, SubmitFate, Submitted, TxFate,
};
use crate::lane::{InFlight, Landed, Lane, LaneDoing};
use crate::nonce::Fees;
use crate::record::{RecordError, Stall};

pub const EMPTY_GAS: u64 = 21_000;

/// The signers' keys: a secret that only this workflow may name.
pub fn keys() -> SecretRef {
    SecretRef { alias: "gw/evm-keys".into(), version: 1 }
}

/// One step of a lane: the lane that it changes, and its decision in words.
pub struct Turn<'s, 'c> {
    pub lane: &'s mut Lane,
    pub cx: &'s mut Context<'c>,
    pub note: String,
}

impl<'s, 'c> Turn<'s, 'c> {
    pub fn new(lane: &'s mut Lane, cx: &'s mut Context<'c>) -> Turn<'s, 'c> {
        Turn { lane, cx, note: String::new() }
    }

    pub fn note(&mut self, text: &str) {
        if !self.note.is_empty() {
            self.note.push_str("; ");
        }
        self.note.push_str(text);
    }

    pub fn open<E: Effect>(&mut self, effect: E, doing: LaneDoing) {
        let pending = self.cx.effect(effect).start();
        self.lane.open = pending.issuer_ref().map(String::from);
        self.lane.doing = doing;
    }

    /// Cancel what is open. A late answer has another reference, so it changes nothing.
    pub fn close(&mut self) {
        if let Some(reference) = self.lane.open.take() {
            self.cx.effect(effect::Cancel::by_reference(reference)).forget();
        }
        self.lane.doing = LaneDoing::Nothing;
    }

    /// The lane moves: all retries are available again.
    pub fn progressed(&mut self) {
        self.lane.step_attempts = 0;
        self.lane.stall_cycles = 0;
    }

    // Stages.

    pub fn quote(&mut self) {
        let Some(current) = &self.lane.current else { return };
        let request = &current.request;
        let quote = Quote {
            chain: self.lane.chain,
            signer: self.lane.signer_address.clone(),
            to: request.to.clone(),
            data: request.data.clone(),
            value: request.value,
            conf: request.policy.conf,
            guard: request.guard.clone(),
        };
        self.open(quote, LaneDoing::Quoting);
    }

    /// Submit a new attempt at the current nonce.
    fn attempt(&mut self, fees: Fees, is_cancel: bool) {
        let Some(current) = &mut self.lane.current else { return };
        let Some(nonce) = current.nonce else { return };
        let Fees { max_fee, max_tip } = fees;
        let (hash, fate) = (String::new(), AttemptFate::Sending);
        current.attempts.push(Attempt { hash, nonce, max_fee, max_tip, is_cancel, fate });
        current.looks = 0;
        let what = if is_cancel { "an empty transaction" } else { "the transaction" };
        self.note(&format!("submitting {what} at nonce {nonce}, {max_fee} wei for a unit of gas"));
        self.submit();
    }

    /// Submit the last attempt: the same bytes whenever it is repeated.
    fn submit(&mut self) {
        let Some(current) = &self.lane.current else { return };
        let Some(last) = current.attempts.last() else { return };
        let fees = Fees { max_fee: last.max_fee, max_tip: last.max_tip };
        let request = &current.request;
        let submit = match last.is_cancel {
            true => self.empty(last.nonce, fees),
            false => Submit {
                keys: keys(),
                chain: self.lane.chain,
                signer: self.lane.signer_address.clone(),
                nonce: last.nonce,
                to: request.to.clone(),
                data: request.data.clone(),
                value: request.value,
                gas: current.gas,
                max_fee: fees.max_fee,
                max_tip: fees.max_tip,
            },
        };
        self.open(submit, LaneDoing::Submitting);
    }

    fn await_fate(&mut self) {
        let Some(current) = &self.lane.current else { return };
        let wait_ms = current.request.policy.wait_ms;
        self.look_at_current(wait_ms, LaneDoing::Awaiting);
    }

    fn look_at_current(&mut self, wait_ms: u64, doing: LaneDoing) {
        let Some(current) = &self.lane.current else { return };
        let Some(nonce) = current.nonce else { return };
        let request = &current.request;
        let hashes = current.attempts.iter().map(|attempt| attempt.hash.clone());
        let look = AwaitReceipt {
            chain: self.lane.chain,
            signer: self.lane.signer_address.clone(),
            nonce,
            hashes: hashes.filter(|hash| !hash.is_empty()).collect(),
            to: request.to.clone(),
            data: request.data.clone(),
            value: request.value,
            conf: request.policy.conf,
            since: current.since,
            wait_ms,
        };
        self.open(look, doing);
    }

    /// Continue with the current request: with a quote or with the fate of its nonce. A transaction
    /// that the chain did not have is published again first, with the same bytes.
    fn continue_current(&mut self) {
        let is_absent = self.lane.error.as_ref().is_some_and(|error| error.step == ABSENT);
        match &self.lane.current {
            Some(current) if current.attempts.is_empty() => self.quote(),
            Some(_) if is_absent && !self.is_cancel_due() => self.submit(),
            Some(_) => self.await_fate(),
            None => self.begin_next(),
        }
    }

    // Answers.

    pub fn answer(&mut self, answer: &impl Continuation) -> Result<(), Fault> {
        if self.lane.open.is_none() || answer.issuer_ref() != self.lane.open.as_deref() {
            self.note("an answer that no one waits for: ignored");
            return Ok(());
        }
        self.lane.open = None;
        let doing = core::mem::take(&mut self.lane.doing);
        match doing {
            LaneDoing::Nothing => {}
            LaneDoing::Quoting => match answer.outcome::<Quoted>()? {
                Outcome::Ok(quoted) => self.quoted(quoted),
                other => self.unanswered(other, doing),
            },
            LaneDoing::Submitting => match answer.outcome::<Submitted>()? {
                Outcome::Ok(submitted) => self.submitted(submitted),
                other => self.unsubmitted(other),
            },
            LaneDoing::Awaiting => match answer.outcome::<Fate>()? {
                Outcome::Ok(fate) => self.fate(fate),
                other => self.unanswered(other, doing),
            },
            LaneDoing::Mending if self.lane.is_parking => self.park("by command"),
            LaneDoing::Mending => {
                // The answer is a hint: the next quote or receipt says whether it is mended.
                let message = "a reorganisation took back a transaction that had landed";
                self.retry("CHAIN_REORGANISED", message);
            }
            LaneDoing::Reconciling => match answer.outcome::<Fate>()? {
                Outcome::Ok(fate) if self.lane.current.is_some() => self.reconciled_current(fate),
                Outcome::Ok(fate) => self.reconciled(fate),
                _ => {
                    self.note("no answer: unchanged");
                    self.begin_next();
                }
            },
            LaneDoing::Pausing | LaneDoing::Stalling => {
                self.lane.stall = None;
                self.continue_current();
            }
        }
        Ok(())
    }

    fn quoted(&mut self, quoted: Quoted) {
        let Some(current) = &mut self.lane.current else { return };
        let cap = current.request.policy.max_fee;
        match quoted.quote {
            QuoteResult::Ready { nonce, gas, base_fee, tip } => {
                let fees = Fees::first(base_fee, tip, cap);
                let freed = self.lane.next_nonce.is_some_and(|next| nonce < next);
                match fees {
                    None => {
                        let message = format!(
                            "a unit of gas costs {base_fee} + {tip} wei: more than the policy's {cap}"
                        );
                        self.retry("UNDERPRICED", &message);
                    }
                    Some(fees) if freed => self.mend(nonce, fees),
                    Some(fees) => {
                        (current.nonce, current.gas) = (Some(nonce), gas);
                        current.since = quoted.block;
                        self.attempt(fees, false);
                    }
                }
            }
            QuoteResult::Done { .. } => self.settle(TxOutcome::Done { block: quoted.block }),
            QuoteResult::Reverted { cause, at_depth } => {
                self.settle(TxOutcome::WouldRevert { cause, at_depth });
            }
            QuoteResult::NoFunds { balance, needed } => {
                self.settle(TxOutcome::NoFunds { balance, needed });
            }
        }
    }

    fn submitted(&mut self, submitted: Submitted) {
        let Submitted { hash, fate, message, .. } = submitted;
        let fate = match fate {
            SubmitFate::Accepted => AttemptFate::Accepted,
            SubmitFate::Known => AttemptFate::Known,
            SubmitFate::NonceUsed => AttemptFate::NonceUsed,
            SubmitFate::Underpriced => AttemptFate::Underpriced,
            SubmitFate::NoFunds => AttemptFate::NoFunds,
            SubmitFate::Refused => AttemptFate::Refused,
            SubmitFate::Unknown => AttemptFate::Unknown,
            SubmitFate::NoKey => AttemptFate::NoKey,
        };
        self.note(&format!("submitted: {fate:?}"));
        self.sent(hash, fate, &message);
    }

    fn unsubmitted(&mut self, outcome: Outcome<Submitted>) {
        let message = match outcome {
            Outcome::Error(error) => format!("{} ({})", error.message, error.code),
            Outcome::Rejected(rejection) => rejection.message,
            Outcome::Ok(_) | Outcome::Timeout | Outcome::Canceled => "no answer in time".into(),
        };
        self.note(&message);
        self.sent(None, AttemptFate::Unknown, &message);
    }

    fn sent(&mut self, hash: Option<String>, fate: AttemptFate, message: &str) {
        let Some(last) = self.lane.current.as_mut().and_then(|it| it.attempts.last_mut()) else {
            return;
        };
        last.fate = fate;
        if let Some(hash) = hash {
            last.hash = hash;
        }
        self.lane.error = match fate {
            AttemptFate::Accepted | AttemptFate::Known => None,
            _ => Some(error(ABSENT, code_of(fate), message)),
        };
        if self.lane.is_parking {
            self.park("by command");
            return;
        }
        self.await_fate();
    }

    fn fate(&mut self, answer: Fate) {
        let Some(nonce) = self.lane.current.as_ref().and_then(|current| current.nonce) else {
            return;
        };
        match answer.fate {
            TxFate::Confirmed { hash, block, gas_used } => {
                self.marked(nonce, &hash, false, AttemptFate::Confirmed);
                self.settle(TxOutcome::Confirmed { hash, block, gas_used });
            }
            TxFate::Reverted { hash, block, cause, .. } => {
                self.marked(nonce, &hash, false, AttemptFate::Reverted);
                self.settle(TxOutcome::Reverted { hash, block, cause });
            }
            TxFate::Canceled { hash, .. } if self.has_sent_a_cancel() => {
                self.marked(nonce, &hash, true, AttemptFate::Confirmed);
                self.settle(TxOutcome::Canceled);
            }
            // An empty transaction that is not this lane's: someone canceled it in a wallet.
            TxFate::Canceled { hash, block } | TxFate::Foreign { hash, block } => {
                self.consumed(nonce);
                self.mark(|_| AttemptFate::Replaced);
                self.settle(TxOutcome::Foreign { hash, block });
            }
            TxFate::Pending { depth } => self.pending(depth),
            TxFate::NotFound => self.not_found(),
            TxFate::Gap { nonce: missing } => match self.last_fees() {
                Some(fees) if missing < nonce => self.mend(missing, fees),
                // The current nonce is no gap: no other transaction may fill it.
                _ => self.not_found(),
            },
        }
    }

    /// Note the fate of each attempt: one landed, and the others never will. The executor finds a
    /// transaction whose hash was lost by its contents: it is the attempt without a hash.
    fn marked(&mut self, nonce: u64, hash: &str, is_cancel: bool, fate: AttemptFate) {
        let Some(current) = &mut self.lane.current else { return };
        let is_known = current.attempts.iter().any(|attempt| attempt.hash == hash);
        if !is_known {
            let is_lost = |it: &&mut Attempt| it.hash.is_empty() && it.is_cancel == is_cancel;
            let lost = current.attempts.iter_mut().rev().find(is_lost);
            lost.into_iter().for_each(|attempt| attempt.hash = hash.into());
        }
        self.mark(|attempt| if attempt.hash == hash { fate } else { AttemptFate::Replaced });
        if let Some(current) = self.lane.current.clone() {
            self.landed(&current, nonce, hash, is_cancel);
        }
    }

    fn mark(&mut self, fate: impl Fn(&Attempt) -> AttemptFate) {
        if let Some(current) = &mut self.lane.current {
            for attempt in &mut current.attempts {
                attempt.fate = fate(attempt);
            }
        }
    }

    fn last_fees(&self) -> Option<Fees> {
        let last = self.lane.current.as_ref()?.attempts.last()?;
        Some(Fees { max_fee: last.max_fee, max_tip: last.max_tip })
    }

    fn pending(&mut self, depth: u64) {
        self.progressed();
        self.lane.error = None;
        let Some(current) = &mut self.lane.current else { return };
        let is_due = current.looked() && depth == 0;
        self.note(&format!("pending, {depth} confirmations"));
        let is_due = is_due || depth == 0 && self.is_cancel_due();
        if !is_due || !self.replaced() {
            self.await_fate();
        }
    }

    fn has_sent_a_cancel(&self) -> bool {
        let current = self.lane.current.as_ref();
        current.is_some_and(|current| current.attempts.iter().any(|attempt| attempt.is_cancel))
    }

    /// Whether the empty transaction that cancels the request is still to be sent.
    fn is_cancel_due(&self) -> bool {
        let Some(current) = &self.lane.current else { return false };
        current.is_canceling && current.attempts.last().is_some_and(|last| !last.is_cancel)
    }

    /// Submit an attempt that replaces the last one, if the fees may rise.
    fn replaced(&mut self) -> bool {
        let Some(current) = &self.lane.current else { return false };
        let (cap, is_canceling) = (current.request.policy.max_fee, current.is_canceling);
        let Some(fees) = self.last_fees().and_then(|fees| fees.bumped(cap)) else {
            self.note(&format!("its fees are at the policy's {cap} wei already"));
            return false;
        };
        self.attempt(fees, is_canceling);
        true
    }

    fn not_found(&mut self) {
        let Some(current) = &mut self.lane.current else { return };
        let cap = current.request.policy.max_fee;
        // A node that took it and does not have it has dropped it: others may have paid more.
        let is_cheap = match current.attempts.last().map(|last| last.fate) {
            Some(AttemptFate::Underpriced) => true,
            Some(AttemptFate::Accepted | AttemptFate::Known) => current.looked(),
            _ => false,
        };
        match self.last_fees() {
            // There is nothing to replace, so the same fees will do.
            Some(fees) if self.is_cancel_due() => {
                return self.attempt(fees.bumped(cap).unwrap_or(fees), true);
            }
            _ if is_cheap && self.replaced() => return self.progressed(),
            _ => {}
        }
        let (code, message) = match &self.lane.error {
            Some(error) if error.step == ABSENT => (error.code.clone(), error.message.clone()),
            _ => ("NOT_FOUND".into(), "the node does not have the transaction".into()),
        };
        self.retry_absent(&code, &message);
    }

    fn unanswered<R>(&mut self, outcome: Outcome<R>, doing: LaneDoing) {
        let (code, message) = match outcome {
            Outcome::Error(error) if error.code == "evm_bad_request" => {
                if doing == LaneDoing::Quoting {
                    self.settle(TxOutcome::Invalid(error.message));
                } else {
                    self.park(&error.message);
                }
                return;
            }
            Outcome::Error(error) if error.code == "wrong_chain" => ("WRONG_CHAIN", error.message),
            Outcome::Error(error) if error.code == "block_unknown" => {
                ("BLOCK_UNKNOWN", error.message)
            }
            Outcome::Error(error) => ("NODE_UNAVAILABLE", error.message),
            Outcome::Rejected(rejection) => ("NODE_UNAVAILABLE", rejection.message),
            Outcome::Canceled => {
                self.park("its effect was canceled by an operator");
                return;
            }
            Outcome::Timeout | Outcome::Ok(_) => {
                ("TIMED_OUT", "the effect had no answer in time".into())
            }
        };
        self.retry(code, &message);
    }

    // Retries, stalls.

    fn retry(&mut self, code: &str, message: &str) {
        let stage = if self.has_attempts() { AWAITING } else { QUOTING };
        self.pause(error(stage, code, message));
    }

    fn retry_absent(&mut self, code: &str, message: &str) {
        self.pause(error(ABSENT, code, message));
    }

    fn has_attempts(&self) -> bool {
        self.lane.current.as_ref().is_some_and(|current| !current.attempts.is_empty())
    }

    /// Wait before the next try; after the retries, stall; after the stalls, park. The nonce stays.
    fn pause(&mut self, error: RecordError) {
        self.note(&format!("{} ({})", error.message, error.code));
        let message = error.message.clone();
        self.lane.error = Some(error);
        let Some(current) = &self.lane.current else {
            self.lane.error = None;
            self.begin_next();
            return;
        };
        let policy = current.request.policy.clone();
        self.lane.step_attempts += 1;
        let retry = self.lane.step_attempts;
        if retry <= policy.retries {
            let wait = policy.retry_pause(retry, self.cx);
            self.note(&format!("retry {retry} in {} ms", wait.ns() / 1_000_000));
            self.open(timer::after(self.cx, wait).key("retry"), LaneDoing::Pausing);
            return;
        }
        self.lane.step_attempts = 0;
        self.lane.stall_cycles += 1;
        let cycle = self.lane.stall_cycles;
        if cycle > policy.stall_cycles {
            self.park(&message);
            return;
        }
        let wait = policy.stall_pause(cycle, self.cx);
        let until = self.cx.now() + wait;
        self.lane.stall = Some(Stall::Auto { until, cycle });
        self.note(&format!("stalled for {} ms", wait.ns() / 1_000_000));
        self.open(timer::at(until).key("stall"), LaneDoing::Stalling);
    }

    // Commands.

    /// Stop with nothing open. Nonce and hashes stay.
    pub fn park(&mut self, why: &str) {
        self.close();
        self.lane.is_parking = false;
        self.lane.stall = Some(Stall::Parked { why: why.into() });
        self.note(&format!("parked: {why}"));
    }

    pub fn resume(&mut self) {
        self.lane.is_parking = false;
        self.lane.stall = None;
        self.progressed();
        self.note("resumed");
        if !self.is_submitting() {
            self.close();
            self.continue_current();
        }
    }

    pub fn is_submitting(&self) -> bool {
        matches!(self.lane.doing, LaneDoing::Submitting | LaneDoing::Mending)
    }

    /// The current request is no longer wanted. Once it has an attempt, an empty transaction at the
    /// same nonce competes with it, and the one that lands decides.
    pub fn cancel_current(&mut self) {
        if !self.has_attempts() {
            self.close();
            if matches!(self.lane.stall, Some(Stall::Auto { .. })) {
                self.lane.stall = None;
            }
            self.settle(TxOutcome::Canceled);
            return;
        }
        if let Some(current) = &mut self.lane.current {
            current.is_canceling = true;
        }
        self.note("canceling");
        let is_parked = matches!(self.lane.stall, Some(Stall::Parked { .. }));
        if is_parked || self.is_submitting() {
            return;
        }
        self.lane.stall = None;
        self.close();
        if !self.is_cancel_due() || !self.replaced() {
            self.await_fate();
        }
    }

    /// Compare with the chain: the fate of the current nonce, or of the one that landed last.
    pub fn reconcile(&mut self) {
        let is_busy = self.lane.open.is_some();
        match (&self.lane.stall, self.lane.landed.last().cloned()) {
            (Some(Stall::Auto { .. }), _) => self.resume(),
            _ if is_busy => self.note("it reads the chain already"),
            (Some(Stall::Parked { .. }), _) if self.has_attempts() => {
                self.look_at_current(1, LaneDoing::Reconciling);
            }
            (None, Some(landed)) => self.look_at(landed),
            _ => self.note("nothing has been sent: unchanged"),
        }
    }

    /// The fate of a parked nonce: if it is consumed, the lane continues.
    fn reconciled_current(&mut self, answer: Fate) {
        match answer.fate {
            TxFate::Pending { .. } | TxFate::NotFound | TxFate::Gap { .. } => {
                self.note("its nonce is not consumed at depth: still parked");
            }
            TxFate::Confirmed { .. }
            | TxFate::Reverted { .. }
            | TxFate::Canceled { .. }
            | TxFate::Foreign { .. } => {
                self.lane.stall = None;
                self.fate(answer);
            }
        }
    }

    fn look_at(&mut self, landed: Landed) {
        let look = AwaitReceipt {
            chain: self.lane.chain,
            signer: self.lane.signer_address.clone(),
            nonce: landed.nonce,
            hashes: vec![landed.hash],
            to: landed.to,
            data: landed.data,
            value: landed.value,
            conf: 1,
            since: landed.since,
            wait_ms: 1,
        };
        self.open(look, LaneDoing::Reconciling);
    }

    /// The transaction that landed last is there, or it is published again.
    fn reconciled(&mut self, answer: Fate) {
        let last = self.lane.landed.last();
        let Some(fees) = last.map(|last| Fees { max_fee: last.max_fee, max_tip: last.max_tip })
        else {
            return;
        };
        let nonce = self.lane.landed.last().map_or(0, |last| last.nonce);
        match answer.fate {
            TxFate::NotFound => self.mend(nonce, fees),
            TxFate::Gap { nonce } => self.mend(nonce, fees),
            _ => {
                self.note("what landed is in the chain");
                self.begin_next();
            }
        }
    }
}

impl InFlight {
    /// Count a look that did not settle it. Return whether an attempt with higher fees is due.
    fn looked(&mut self) -> bool {
        self.looks += 1;
        self.looks >= self.request.policy.bump_after
    }
}

/// The stages in which a lane fails.
const QUOTING: &str = "QUOTE";
const AWAITING: &str = "AWAIT_TX_CONFIRM";
/// The chain does not have the transaction: the same bytes are submitted again.
const ABSENT: &str = "SUBMIT";

fn error(step: &str, code: &str, message: &str) -> RecordError {
    let (step, code, message) = (step.into(), code.into(), message.into());
    RecordError { step, code, message, recoverable: true }
}

fn code_of(fate: AttemptFate) -> &'static str {
    match fate {
        AttemptFate::NoKey => "NO_KEY",
        AttemptFate::NoFunds => "NO_FUNDS",
        AttemptFate::Refused => "REFUSED",
        AttemptFate::Underpriced => "UNDERPRICED",
        AttemptFate::NonceUsed => "NONCE_USED",
        _ => "NODE_UNAVAILABLE",
    }
}

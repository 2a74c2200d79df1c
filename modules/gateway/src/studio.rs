//! The contract `Studio` (`manifests/gateway/contracts/Studio.sol`): the transaction of each step,
//! the view that tells whether it is done, and the meaning of the answers and of the errors.

use aos_sdk::prelude::*;

use crate::abi::{self, call, encode, number, read_number, selector, word_at, Argument};
use crate::events::ScoreMode;
use crate::evm::{Cause, CauseKind, Guard};
use crate::hex::{self, Address, Word};
use crate::keccak::keccak256;
use crate::record::{Input, Progress, Question, Record, Step};

/// The contract's answer about a step.
#[derive(Debug, PartialEq)]
pub enum Told {
    /// Not done.
    Undone,
    /// Done by this record's signer, or by anyone where that is the same.
    Done,
    /// Another one did it, or did something else: the sentence says who or what.
    Conflict(String),
    /// A step before this one is no longer done: a reorganisation took it back.
    Missing,
    /// The answer is not one of a Studio.
    Unknown,
}

/// The arguments of the contract's functions, read from a record's input.
pub struct Studio<'r> {
    input: &'r Input,
    progress: &'r Progress,
}

const ZERO: Word = [0u8; 32];
/// `scoreStatusOf`.
const COMMITTED: u64 = 1;
const SCORED: u64 = 2;

impl<'r> Studio<'r> {
    pub fn of(record: &'r Record) -> Studio<'r> {
        Studio { input: &record.input, progress: &record.progress }
    }

    // The input was checked when the record was created, so every text here is well-formed.

    fn signer(&self) -> Address {
        hex::parse(&self.input.signer_address).unwrap_or_default()
    }

    fn worker(&self) -> Address {
        self.input.worker_address.as_deref().and_then(hex::parse).unwrap_or_default()
    }

    fn data_hash(&self) -> Argument<'r> {
        Argument::Word(self.input.data_hash.as_deref().and_then(hex::parse).unwrap_or_default())
    }

    fn scores(&self) -> &'r [u64] {
        self.input.scores.as_deref().unwrap_or_default()
    }

    fn salt(&self) -> Word {
        let salt = self.progress.salt.as_deref().and_then(|salt| salt.try_into().ok());
        salt.unwrap_or(ZERO)
    }

    /// `bytes32 dataHash, address worker, address validator`.
    fn score(&self) -> [Argument<'r>; 3] {
        let [worker, validator] = [self.worker(), self.signer()];
        [self.data_hash(), Argument::Address(worker), Argument::Address(validator)]
    }

    /// The hash that binds a validator to its scores. A direct score has the salt 0.
    fn commitment(&self) -> Word {
        let [data_hash, worker, validator] = self.score();
        let (scores, salt) = (Argument::Numbers(self.scores()), Argument::Word(self.salt()));
        keccak256(&encode(&[data_hash, worker, validator, scores, salt]))
    }

    /// The data of the step's transaction. None for a step that sends none.
    pub fn transaction(&self, step: Step) -> Option<Vec<u8>> {
        let worker = Argument::Address(self.worker());
        let scores = Argument::Numbers(self.scores());
        Some(match step {
            Step::SubmitWorkOnchain => {
                let item = self.progress.arweave_tx_id.as_deref().unwrap_or_default();
                let epoch = Argument::Number(self.input.epoch);
                let arguments = [self.data_hash(), epoch, Argument::Text(item)];
                call("submitWork(bytes32,uint64,string)", &arguments)
            }
            Step::RegisterWork => call("registerWork(bytes32)", &[self.data_hash()]),
            Step::SubmitScore => {
                call("submitScore(bytes32,address,uint16[])", &[self.data_hash(), worker, scores])
            }
            Step::CommitScore => call(
                "commitScore(bytes32,address,bytes32)",
                &[self.data_hash(), worker, Argument::Word(self.commitment())],
            ),
            Step::RevealScore => call(
                "revealScore(bytes32,address,uint16[],bytes32)",
                &[self.data_hash(), worker, scores, Argument::Word(self.salt())],
            ),
            Step::RegisterValidator => {
                call("registerValidator(bytes32,address,address)", &self.score())
            }
            Step::SubmitCloseEpoch => {
                call("closeEpoch(uint64)", &[Argument::Number(self.input.epoch)])
            }
            _ => return None,
        })
    }

    /// The view that answers a question, as the data of its call.
    pub fn question(&self, step: Step, question: Question) -> Vec<u8> {
        let epoch = [Argument::Number(self.input.epoch)];
        match question {
            Question::Submitter => call("submitterOf(bytes32)", &[self.data_hash()]),
            Question::Window => call("revealWindowOf(bytes32,address,address)", &self.score()),
            Question::Works => call("worksIn(uint64)", &epoch),
            Question::Done => match step {
                Step::RegisterWork => {
                    let by = Argument::Address(self.signer());
                    call("registrationsOf(bytes32,address)", &[self.data_hash(), by])
                }
                Step::SubmitScore | Step::CommitScore => {
                    call("commitmentOf(bytes32,address,address)", &self.score())
                }
                Step::RevealScore => call("scoreStatusOf(bytes32,address,address)", &self.score()),
                Step::RegisterValidator => {
                    call("validatorRegistrationsOf(bytes32,address,address)", &self.score())
                }
                Step::CheckPreconditions | Step::SubmitCloseEpoch => {
                    call("closerOf(uint64)", &epoch)
                }
                _ => call("submitterOf(bytes32)", &[self.data_hash()]),
            },
        }
    }

    /// The guard of the step's transaction: the view of [`Question::Done`].
    pub fn guard(&self, step: Step) -> Guard {
        let undone = match step {
            Step::RevealScore => number(COMMITTED),
            _ => ZERO,
        };
        Guard {
            to: self.input.studio_address.clone(),
            data: self.question(step, Question::Done),
            undone: undone.to_vec(),
        }
    }

    /// The meaning of an answer to [`Question::Done`].
    pub fn told(&self, step: Step, returned: &[u8]) -> Told {
        let (Some(word), 32) = (word_at(returned, 0), returned.len()) else {
            return Told::Unknown;
        };
        match step {
            Step::RevealScore => match read_number(&word) {
                Some(COMMITTED) => Told::Undone,
                Some(SCORED) => Told::Done,
                Some(0) => Told::Missing,
                _ => Told::Unknown,
            },
            _ if word == ZERO => Told::Undone,
            Step::RegisterWork | Step::RegisterValidator if read_number(&word).is_none() => {
                Told::Unknown
            }
            Step::SubmitWorkOnchain | Step::CheckPreconditions | Step::SubmitCloseEpoch
                if !is_address(&word) =>
            {
                Told::Unknown
            }
            Step::SubmitWorkOnchain if word != abi::address_word(&self.signer()) => {
                Told::Conflict(format!("{} has submitted this work", hex::text(&word[12..])))
            }
            Step::SubmitScore | Step::CommitScore if word != self.commitment() => {
                Told::Conflict("this validator has committed or submitted other scores".into())
            }
            _ => Told::Done,
        }
    }

    /// Whether the worker of a score submitted the work. [`Told::Undone`]: no one has.
    pub fn told_submitter(&self, returned: &[u8]) -> Told {
        match (word_at(returned, 0), returned.len()) {
            (Some(ZERO), 32) => Told::Undone,
            (Some(word), 32) if word == abi::address_word(&self.worker()) => Told::Done,
            (Some(word), 32) if is_address(&word) => {
                Told::Conflict(format!("{} submitted the work", hex::text(&word[12..])))
            }
            _ => Told::Unknown,
        }
    }
}

fn is_address(word: &Word) -> bool {
    word[..12] == ZERO[..12]
}

/// The first second in which a commitment may be revealed. None if the answer has another form.
pub fn told_window(returned: &[u8]) -> Option<u64> {
    let opens_at = read_number(&word_at(returned, 0)?)?;
    (returned.len() == 64).then_some(opens_at)
}

/// The works of an epoch. None if the answer has another form.
pub fn told_works(returned: &[u8]) -> Option<u64> {
    let works = read_number(&word_at(returned, 0)?);
    (returned.len() == 32).then_some(works.unwrap_or(u64::MAX))
}

/// The code and the sentence of a revert.
pub fn failure_of(cause: &Cause) -> (&'static str, String) {
    let known: [(&str, &str, &str); 11] = [
        ("AlreadySubmitted(bytes32,address)", "CONFLICT", "the work has been submitted"),
        ("EpochClosed(uint64)", "EPOCH_CLOSED", "the epoch is closed"),
        ("EpochEmpty(uint64)", "EPOCH_EMPTY", "the epoch has no works"),
        ("UnknownWork(bytes32)", "WORK_NOT_SUBMITTED", "no one has submitted the work"),
        ("NotTheWorker(bytes32,address)", "INVALID_INPUT", "the worker did not submit the work"),
        ("AlreadyScored(bytes32,address,address)", "CONFLICT", "the validator has scored the work"),
        (
            "NotCommitted(bytes32,address,address)",
            "INCONSISTENT",
            "there is no commitment or score",
        ),
        ("WrongReveal(bytes32,address,address)", "CONFLICT", "the commitment is of other scores"),
        ("WindowNotOpen(uint64)", "WINDOW_NOT_OPEN", "the score may not be revealed yet"),
        ("WindowClosed(uint64)", "WINDOW_CLOSED", "the time to reveal the score is over"),
        ("NotTheSubmitter(bytes32,address)", "CONFLICT", "another signer submitted the work"),
    ];
    let found = known.into_iter().find(|(signature, ..)| {
        cause.kind == CauseKind::Custom && cause.data.get(..4) == Some(&selector(signature)[..])
    });
    if let Some((_, code, message)) = found {
        return (code, message.into());
    }
    let what = match cause.kind {
        CauseKind::Error => format!("the contract reverted: {}", cause.text),
        CauseKind::Panic => format!("the contract panicked with the code {}", cause.text),
        CauseKind::Custom => {
            let start = &cause.data[..cause.data.len().min(4)];
            format!("the contract reverted with the custom error {}", hex::text(start))
        }
        CauseKind::Empty => "the contract reverted without data".into(),
    };
    ("TX_REVERTED", what)
}

/// When a score may be revealed, from the error `WindowNotOpen`.
pub fn opens_at(cause: &Cause) -> Option<u64> {
    let is_it = cause.data.get(..4) == Some(&selector("WindowNotOpen(uint64)")[..]);
    if !is_it || cause.kind != CauseKind::Custom {
        return None;
    }
    read_number(&word_at(&cause.data[4..], 0)?)
}

/// The first tx step of a score.
pub fn first_score_step(mode: ScoreMode) -> Step {
    match mode {
        ScoreMode::Direct => Step::SubmitScore,
        ScoreMode::CommitReveal => Step::CommitScore,
    }
}

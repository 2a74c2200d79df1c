//! The gateway: works, scores and epochs as records that reconcile with a blockchain
//! (`spec/gateway.md`).
//!
//! `gw/work@1`, `gw/score@1` and `gw/epoch@1` are the records. They share `record` (the state), `run`
//! (one step), `create`, `answer`, `command`, `upload` and `transaction`; `steps` has their order.
//! `gw/signer@1` is the lane of a signer: `lane` has its state, `queue`, `flight` and `nonce` what it
//! does. `studio` knows the contract; `evm` and `arweave` are the effects.

#![no_std]

extern crate alloc;

mod abi;
mod answer;
mod arweave;
mod command;
mod create;
mod events;
mod evm;
mod flight;
mod hex;
mod keccak;
mod lane;
mod nonce;
mod policy;
mod queue;
mod record;
mod run;
mod steps;
mod studio;
mod transaction;
mod upload;

use aos_sdk::prelude::*;

use arweave::{AwaitStatus, Price, Upload};
use events::{
    EpochCloseRequested, EpochCommand, EpochKey, EpochTxSettled, LaneCommand, LaneKey, Note,
    ScoreCommand, ScoreKey, ScoreRequested, ScoreTxSettled, TxCancelRequested, TxRequested,
    WorkCommand, WorkKey, WorkRequested, WorkTxSettled,
};
use evm::{AwaitReceipt, Call, Quote, Submit};
use lane::{Lane, LaneEvent};
use record::Record;
use run::{RecordEvent, Request};

#[derive(Event)]
#[schema("gw/WorkEvent@1")]
pub enum WorkEvent {
    Requested(WorkRequested),
    Command(WorkCommand),
    Settled(WorkTxSettled),
    Receipt(Receipt),
    Rejected(Rejected),
}

/// A piece of work: its evidence on Arweave, submitted and registered on the chain.
#[workflow(
    "gw/work@1",
    key = WorkKey,
    module = "gw/gateway.module@1",
    annotations = Note,
    // The evidence is in the state and in the params of its effect.
    limits(output_bytes = 2_097_152),
    effects(
        Call,
        Price,
        Upload,
        AwaitStatus,
        blob::Put,
        timer::Set,
        effect::Cancel
    ),
    routes(
        WorkRequested by "work",
        WorkCommand by "work" creates = false,
        WorkTxSettled by "work" creates = false
    )
)]
fn work(state: &mut Record, event: WorkEvent, cx: &mut Context) -> Result<(), Fault> {
    let event = match event {
        WorkEvent::Requested(asked) => RecordEvent::Requested(Request::Work(asked)),
        WorkEvent::Command(command) => RecordEvent::Command(command.what, command.why),
        WorkEvent::Settled(told) => RecordEvent::Settled(told.request, told.outcome, told.attempts),
        WorkEvent::Receipt(receipt) => RecordEvent::Receipt(receipt),
        WorkEvent::Rejected(rejected) => RecordEvent::Rejected(rejected),
    };
    run::take(state, event, cx)
}

#[derive(Event)]
#[schema("gw/ScoreEvent@1")]
pub enum ScoreEvent {
    Requested(ScoreRequested),
    Command(ScoreCommand),
    Settled(ScoreTxSettled),
    Receipt(Receipt),
    Rejected(Rejected),
}

/// A validator's score of a work: submitted directly, or committed and then revealed.
#[workflow(
    "gw/score@1",
    key = ScoreKey,
    module = "gw/gateway.module@1",
    annotations = Note,
    effects(Call, timer::Set, effect::Cancel),
    routes(
        ScoreRequested by "score",
        ScoreCommand by "score" creates = false,
        ScoreTxSettled by "score" creates = false
    )
)]
fn score(state: &mut Record, event: ScoreEvent, cx: &mut Context) -> Result<(), Fault> {
    let event = match event {
        ScoreEvent::Requested(asked) => RecordEvent::Requested(Request::Score(asked)),
        ScoreEvent::Command(command) => RecordEvent::Command(command.what, command.why),
        ScoreEvent::Settled(told) => {
            RecordEvent::Settled(told.request, told.outcome, told.attempts)
        }
        ScoreEvent::Receipt(receipt) => RecordEvent::Receipt(receipt),
        ScoreEvent::Rejected(rejected) => RecordEvent::Rejected(rejected),
    };
    run::take(state, event, cx)
}

#[derive(Event)]
#[schema("gw/EpochEvent@1")]
pub enum EpochEvent {
    Requested(EpochCloseRequested),
    Command(EpochCommand),
    Settled(EpochTxSettled),
    Receipt(Receipt),
    Rejected(Rejected),
}

/// The end of an epoch.
#[workflow(
    "gw/epoch@1",
    key = EpochKey,
    module = "gw/gateway.module@1",
    annotations = Note,
    effects(Call, timer::Set, effect::Cancel),
    routes(
        EpochCloseRequested by "epoch_key",
        EpochCommand by "epoch_key" creates = false,
        EpochTxSettled by "epoch_key" creates = false
    )
)]
fn epoch(state: &mut Record, event: EpochEvent, cx: &mut Context) -> Result<(), Fault> {
    let event = match event {
        EpochEvent::Requested(asked) => RecordEvent::Requested(Request::Epoch(asked)),
        EpochEvent::Command(command) => RecordEvent::Command(command.what, command.why),
        EpochEvent::Settled(told) => {
            RecordEvent::Settled(told.request, told.outcome, told.attempts)
        }
        EpochEvent::Receipt(receipt) => RecordEvent::Receipt(receipt),
        EpochEvent::Rejected(rejected) => RecordEvent::Rejected(rejected),
    };
    run::take(state, event, cx)
}

/// The lane of one signer on one chain: its nonces, its fees, and the requests that wait for them.
#[workflow(
    "gw/signer@1",
    key = LaneKey,
    module = "gw/gateway.module@1",
    annotations = Note,
    // 256 requests of the largest size.
    limits(output_bytes = 4_194_304, state_bytes = 2_097_152),
    effects(Quote, Submit, AwaitReceipt, timer::Set, effect::Cancel),
    routes(
        TxRequested by "lane",
        TxCancelRequested by "lane" creates = false,
        LaneCommand by "lane" creates = false
    )
)]
fn signer(state: &mut Lane, event: LaneEvent, cx: &mut Context) -> Result<(), Fault> {
    queue::take(state, event, cx)
}

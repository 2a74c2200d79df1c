//! The requests of a lane: how they come, wait in order, and end.
//!
//! Rule 1: a lane is of one signer on one chain, and its key has one spelling.
//!
//! Rule 2: requests are taken in the order of their arrival. At most 256 wait.
//!
//! Rule 3: a request ends with exactly one settlement, which its owner gets by its own event.

use core::ops::Range;

use aos_sdk::cbor::{self, Misfit, Reader};
use aos_sdk::prelude::*;

use crate::events::{
    Attempt, CommandKind, EpochKey, EpochTxSettled, LaneCommand, Note, Owner, ScoreKey,
    ScoreTxSettled, TxCancelRequested, TxOutcome, TxRequested, WorkKey, WorkTxSettled,
};
use crate::flight::Turn;
use crate::hex;
use crate::lane::{InFlight, Lane, LaneEvent};
use crate::record::Stall;

const QUEUE_MAX: u64 = 256;
/// A score has at most 32 numbers, and its reveal then 1,188 bytes.
const DATA_BYTES_MAX: usize = 1280;
const OWNER_BYTES_MAX: usize = 512;

/// One step of a lane: what `gw/signer@1` does with an event.
pub fn take(lane: &mut Lane, event: LaneEvent, cx: &mut Context) -> Result<(), Fault> {
    let is_new = cx.is_new();
    let key: String = cx.key()?;
    let mut turn = Turn::new(lane, cx);
    match event {
        LaneEvent::Requested(request) => {
            let Some((chain, signer)) = hex::read_lane_key(&key) else {
                turn.refuse(request, "no lane has this key: expected a chain, / and an address");
                return Ok(turn.finish_without_a_lane());
            };
            if is_new {
                turn.lane.chain = chain;
                turn.lane.signer_address = signer;
            }
            turn.requested(request);
        }
        _ if is_new => return Ok(turn.finish_without_a_lane()),
        LaneEvent::CancelRequested(asked) => turn.cancel_requested(&asked),
        LaneEvent::Command(command) => turn.command(&command),
        LaneEvent::Receipt(receipt) => turn.answer(&receipt)?,
        LaneEvent::Rejected(rejected) => turn.answer(&rejected)?,
    }
    turn.finish();
    Ok(())
}

impl Turn<'_, '_> {
    pub fn finish(self) {
        self.lane.updated_at = self.cx.now();
        self.cx.annotate(Note(self.note));
    }

    fn finish_without_a_lane(self) {
        self.cx.annotate(Note(self.note));
        self.cx.delete();
    }

    // In.

    fn requested(&mut self, request: TxRequested) {
        if self.has(&request.owner, request.request) {
            self.note("requested again: unchanged");
        } else if let Some(problem) = problem_of(&request) {
            self.refuse(request, &problem);
        } else if self.lane.queued >= QUEUE_MAX {
            self.note("256 requests wait already");
            self.tell(request.owner, request.request, TxOutcome::LaneFull, Vec::new());
        } else {
            let name = name_of(&request.owner, request.request);
            cbor::write_text(&name, &mut self.lane.queue);
            cbor::write_bytes(&encode(&request), &mut self.lane.queue);
            self.lane.queued += 1;
            self.note("queued");
            self.begin_next();
        }
    }

    fn refuse(&mut self, request: TxRequested, problem: &str) {
        self.note(problem);
        let outcome = TxOutcome::Invalid(problem.into());
        self.tell(request.owner, request.request, outcome, Vec::new());
    }

    fn has(&self, owner: &Owner, request: u64) -> bool {
        let is_it = |other: &Owner, number: u64| other == owner && number == request;
        let lane = &*self.lane;
        let name = name_of(owner, request);
        lane.current.iter().any(|current| is_it(&current.request.owner, current.request.request))
            || lane.landed.iter().any(|landed| is_it(&landed.owner, landed.request))
            || lane.waiting().any(|waiting| waiting.name == name)
    }

    /// Take the next request, if the lane is free for one.
    pub fn begin_next(&mut self) {
        if self.lane.current.is_some() || self.lane.stall.is_some() || self.lane.open.is_some() {
            return;
        }
        let first = self.lane.waiting().next();
        let Some((place, Ok(request))) = first.map(|first| (first.place.clone(), first.read()))
        else {
            return;
        };
        self.lane.queue.drain(place);
        self.lane.queued -= 1;
        self.lane.current = Some(InFlight {
            request,
            nonce: None,
            gas: 0,
            since: 0,
            attempts: Vec::new(),
            looks: 0,
            is_canceling: false,
        });
        self.quote();
    }

    // Out.

    /// End the current request, and take the next one.
    pub fn settle(&mut self, outcome: TxOutcome) {
        let Some(current) = self.lane.current.take() else { return };
        self.close();
        let (owner, request) = (current.request.owner, current.request.request);
        self.tell(owner, request, outcome, current.attempts);
        self.progressed();
        self.lane.error = None;
        if self.lane.is_parking {
            self.park("by command");
        }
        self.begin_next();
    }

    fn tell(&mut self, owner: Owner, request: u64, outcome: TxOutcome, attempts: Vec<Attempt>) {
        self.note(&format!("settled request {request}: {}", outcome.name()));
        match owner {
            Owner::Work(key) => {
                let work = WorkKey(key);
                self.cx.emit(WorkTxSettled { work, request, outcome, attempts });
            }
            Owner::Score(key) => {
                let score = ScoreKey(key);
                self.cx.emit(ScoreTxSettled { score, request, outcome, attempts });
            }
            Owner::Epoch(key) => {
                let epoch_key = EpochKey(key);
                self.cx.emit(EpochTxSettled { epoch_key, request, outcome, attempts });
            }
        }
    }

    fn cancel_requested(&mut self, asked: &TxCancelRequested) {
        let current = self.lane.current.as_ref().map(|current| &current.request);
        if current.is_some_and(|it| it.owner == asked.owner && it.request == asked.request) {
            self.cancel_current();
            return;
        }
        let name = name_of(&asked.owner, asked.request);
        let found = self.lane.waiting().find(|waiting| waiting.name == name);
        let Some(place) = found.map(|found| found.place) else {
            self.note("no such request waits here");
            return;
        };
        self.lane.queue.drain(place);
        self.lane.queued -= 1;
        self.tell(asked.owner.clone(), asked.request, TxOutcome::Canceled, Vec::new());
    }

    // Commands.

    fn command(&mut self, command: &LaneCommand) {
        self.note(&format!("{:?}", command.what));
        let is_parked = matches!(self.lane.stall, Some(Stall::Parked { .. }));
        match command.what {
            CommandKind::Park if is_parked => self.note("it is parked already"),
            CommandKind::Park if self.is_submitting() => {
                self.lane.is_parking = true;
                self.note("it parks as soon as the open submit has ended");
            }
            CommandKind::Park => {
                let why = if command.why.is_empty() { "by command" } else { &command.why };
                self.park(why);
            }
            CommandKind::Resume if self.lane.stall.is_some() || self.lane.is_parking => {
                self.resume();
            }
            CommandKind::Resume => self.note("it is running already"),
            CommandKind::Cancel if self.lane.current.is_some() => self.cancel_current(),
            CommandKind::Cancel => self.note("no request is in flight"),
            CommandKind::Reconcile => self.reconcile(),
        }
    }
}

/// A waiting request, not yet decoded.
struct Waiting<'a> {
    name: &'a str,
    request: &'a [u8],
    place: Range<usize>,
}

impl Waiting<'_> {
    fn read(&self) -> Result<TxRequested, Misfit> {
        decode(self.request)
    }
}

impl Lane {
    fn waiting(&self) -> impl Iterator<Item = Waiting<'_>> {
        let mut reader = Reader::new(&self.queue);
        core::iter::from_fn(move || {
            let start = reader.position();
            let name = reader.text().ok()?;
            let request = reader.bytes().ok()?;
            Some(Waiting { name, request, place: start..reader.position() })
        })
    }
}

/// The name of a request in the queue.
fn name_of(owner: &Owner, request: u64) -> String {
    match owner {
        Owner::Work(key) => format!("work {key} {request}"),
        Owner::Score(key) => format!("score {key} {request}"),
        Owner::Epoch(key) => format!("epoch {key} {request}"),
    }
}

impl TxOutcome {
    fn name(&self) -> &'static str {
        match self {
            TxOutcome::Confirmed { .. } => "confirmed",
            TxOutcome::Reverted { .. } => "reverted",
            TxOutcome::WouldRevert { .. } => "it would revert",
            TxOutcome::Done { .. } => "done already",
            TxOutcome::Canceled => "canceled",
            TxOutcome::Foreign { .. } => "a stranger's transaction took the nonce",
            TxOutcome::NoFunds { .. } => "no funds",
            TxOutcome::LaneFull => "the lane is full",
            TxOutcome::Invalid(_) => "invalid",
        }
    }
}

/// The first problem of a request, as a sentence.
fn problem_of(request: &TxRequested) -> Option<String> {
    let (Owner::Work(owner) | Owner::Score(owner) | Owner::Epoch(owner)) = &request.owner;
    if owner.len() > OWNER_BYTES_MAX {
        return Some(format!("owner: expected at most {OWNER_BYTES_MAX} bytes"));
    }
    if hex::parse::<20>(&request.to).is_none() {
        let found = &request.to;
        return Some(format!("to: expected 0x and 40 lower-case hex digits, found {found:.64}"));
    }
    if request.value.is_negative() || request.value.text().contains('.') {
        return Some("value: expected a whole number of wei, at least 0".into());
    }
    if let Some(guard) = &request.guard {
        if hex::parse::<20>(&guard.to).is_none() {
            return Some("guard.to: expected 0x and 40 lower-case hex digits".into());
        }
        if guard.data.len().max(guard.undone.len()) > DATA_BYTES_MAX {
            return Some(format!("guard: expected at most {DATA_BYTES_MAX} bytes"));
        }
    }
    if request.data.len() > DATA_BYTES_MAX {
        let found = request.data.len();
        return Some(format!("data: expected at most {DATA_BYTES_MAX} bytes, found {found}"));
    }
    request.policy.problem()
}

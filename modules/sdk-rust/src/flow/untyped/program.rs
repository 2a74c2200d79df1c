//! The interface between the engine of flows and a program: pauses, requests and answers.

use alloc::string::String;
use alloc::vec::Vec;

use crate::fault::Fault;
use crate::types::{Duration, Time};

use crate::flow::history::Bytes;
use crate::flow::{FlowError, Kind, Retry};

/// The number of a body, or of a request that waits for its answer. Each number is used once in a
/// turn; 0 is the body of the flow.
pub type Id = u32;

/// A program that runs as a flow: an interpreter with the code of one flow.
///
/// It runs until it pauses, is answered, and continues. The engine runs it from its start in each turn
/// that polls the flow. It is not dropped: its memory ends with the turn.
///
/// The program consists of *bodies*: that of the flow, one for each branch of a join or race, one
/// for each scope and each iteration of a loop. Each operation belongs to the body that runs, so a
/// request does not name its body (`spec/flow.md`, FL-201).
pub trait Program {
    /// Run the function of the flow, the body 0, until it pauses.
    fn start(&mut self, start: &Start) -> Pause;

    /// Answer the request for which the program has just paused, and run until it pauses again.
    fn answer(&mut self, answer: Answer) -> Pause;

    /// Answer an earlier request that was answered with `Wait`, or run a body of `Branches`. All
    /// other parts of the program keep waiting.
    fn resume(&mut self, wait: Id, answer: Answer) -> Pause;

    /// Whether the program can read the stored value of a finished branch. The engine asks in a turn
    /// that reads ahead (FL-66). An error describes the type that was expected.
    fn check(&mut self, _branch: &str, _value: Bytes) -> Result<(), String> {
        Ok(())
    }
}

/// The facts that do not change during the life of a flow.
#[derive(Clone, Copy, Debug)]
pub struct Start {
    /// The event that started the flow, as canonical CBOR.
    pub input: Bytes,
    /// The key of the cell, as canonical CBOR.
    pub key: Bytes,
    /// The time of the start (FL-32).
    pub started_at: Time,
}

/// The reason why a program does not run now.
#[derive(Debug)]
pub enum Pause {
    /// The body that runs requests something. It is answered with [`Program::answer`] before
    /// anything else happens.
    Request(Request),
    /// Every part of the program waits for an answer: the engine calls [`Program::resume`].
    Waiting,
    /// The program has failed in a way that no code of it can handle, such as an exception that is
    /// no [`FlowError`]. The turn ends with this fault; the state stays.
    Fault(Fault),
    /// The value in the last answer, or the input, is not of the type that the code reads. The turn
    /// ends with the fault `diverged` (FL-4). The text says what the code expected.
    Misfit(String),
}

/// A request of the body that runs. The first group is operations, with the names that the typed
/// methods of [`Cx`](crate::flow::Cx) have. All values are canonical CBOR.
#[derive(Debug)]
pub enum Request {
    Step(Step),
    /// The value is that of `Request::Computed`.
    Local {
        name: String,
    },
    Emit {
        name: String,
        schema: &'static str,
        value: Vec<u8>,
    },
    Sleep {
        name: String,
        end: Deadline,
    },
    Listen(Listen),
    /// The value is the list of the branches' values, in their order.
    Join {
        name: String,
        branches: Vec<String>,
        /// Branches that run at the same time.
        at_most: Option<usize>,
    },
    /// The value is the record `{value, branch}` of the winner.
    Race {
        name: String,
        branches: Vec<String>,
        rollback_losers: bool,
    },
    Scope {
        name: String,
    },
    Loop(Loop),
    Checkpoint {
        name: String,
    },
    RollbackTo {
        name: String,
        checkpoint: String,
    },
    Commit {
        name: String,
    },
    /// The value is a nat.
    Version {
        name: String,
        latest: u64,
    },
    Removed {
        name: String,
        kind: Kind,
    },
    Call(Call),
    Spawn(Spawn),

    /// Set the view, as [`Cx::publish`](crate::flow::Cx::publish). Answered at once with null, as
    /// the next two.
    Publish(Vec<u8>),
    Annotate(Vec<u8>),
    Log(String),

    /// A random number, uniform below the bound if there is one, as a nat; only between
    /// `Answer::Compute` and `Computed`, as the next one. A bound of 0 is a fault.
    Random {
        below: Option<u64>,
    },
    /// A random uuid of version 4.
    Uuid,
    /// The result of a local, after `Answer::Compute`.
    Computed(Result<Vec<u8>, FlowError>),
    /// The effect that undoes a step or call, after `Answer::Compensate`.
    Compensation(Undo),
    /// The body has ended.
    End {
        body: Id,
        ended: Ended,
    },
}

impl Request {
    /// The name of the operation, for a fault.
    pub(super) fn name(&self) -> &str {
        match self {
            Request::Step(step) => &step.name,
            Request::Listen(listen) => &listen.name,
            Request::Loop(of) => &of.name,
            Request::Call(call) => &call.name,
            Request::Spawn(spawn) => &spawn.name,
            Request::Local { name }
            | Request::Emit { name, .. }
            | Request::Sleep { name, .. }
            | Request::Join { name, .. }
            | Request::Race { name, .. }
            | Request::Scope { name }
            | Request::Checkpoint { name }
            | Request::RollbackTo { name, .. }
            | Request::Commit { name }
            | Request::Version { name, .. }
            | Request::Removed { name, .. } => name,
            Request::End { .. } => "the end",
            Request::Publish(_) | Request::Annotate(_) | Request::Log(_) => "an output",
            Request::Random { .. } | Request::Uuid | Request::Computed(_) => "a local",
            Request::Compensation(_) => "a compensation",
        }
    }
}

/// The end of a body.
#[derive(Debug)]
pub enum Ended {
    /// Its value. In an iteration it ends the loop, as [`Loop::Break`](crate::flow::Loop) does.
    Value(Vec<u8>),
    /// The state of the next iteration. In a body that is no iteration it is a fault.
    Continue(Vec<u8>),
    Failed(FlowError),
}

/// The engine's answer to a request.
#[derive(Debug)]
pub enum Answer {
    /// The operation has ended with this value (null if it has none) or failure. The body continues.
    Done(Result<Bytes, FlowError>),
    /// It has not ended. The body waits until [`Program::resume`] names this number, or for ever: a
    /// body that has lost, or whose turn ends, gets no answer.
    Wait(Id),
    /// A join or race has begun. Each body runs once `resume` names it with `Run`; one that has ended
    /// in an earlier turn, that has lost, or that waits for a free place is not named. The end of the
    /// join or race comes under `wait`, while bodies may still wait.
    Branches { wait: Id, bodies: Vec<Id> },
    /// Run this body: a branch, a scope, or an iteration of a loop with this state (null for the
    /// others). The answer to the `End` of a scope or iteration is the end of the scope or loop, or
    /// `Run` with the next iteration, or `Wait` for one of these. The `End` of a branch is answered
    /// with `Done` of null.
    Run { body: Id, state: Bytes },
    /// A step or call with a rollback has just succeeded with this value: make the effect that undoes
    /// it, without an operation, and request `Compensation`, which is answered with `Done` of the same
    /// value.
    Compensate(Bytes),
    /// Compute the value of a local at this time, without an operation, and request `Computed`, which
    /// is answered with `Done` of the value.
    Compute { now: Time },
}

/// An effect with its params.
#[derive(Debug)]
pub struct Undo {
    pub effect: &'static str,
    pub params: Vec<u8>,
}

/// [`Cx::step`](crate::flow::Cx::step).
#[derive(Debug)]
pub struct Step {
    pub name: String,
    pub effect: &'static str,
    pub params: Vec<u8>,
    pub retry: Retry,
    pub retry_timeouts: bool,
    pub timeout: Option<Duration>,
    /// It has a rollback: `Answer::Compensate` follows its success.
    pub has_rollback: bool,
    pub rollback_unknown: Option<Undo>,
}

/// The listens of [`Cx`](crate::flow::Cx).
#[derive(Debug)]
pub struct Listen {
    pub name: String,
    /// The schemas that it takes, each with the arm in which its messages are wrapped. One without an
    /// arm stands alone, as the listen of a type that is no enum.
    pub schemas: Vec<(&'static str, Option<&'static str>)>,
    /// Take up to so many messages, as a list. None takes one: its value is the message, or null
    /// after the deadline.
    pub most: Option<u64>,
    pub deadline: Option<Deadline>,
}

/// [`Cx::loop_`](crate::flow::Cx::loop_).
#[derive(Debug)]
pub struct Loop {
    pub name: String,
    /// The state of the first iteration.
    pub state: Vec<u8>,
    pub commit_interval: u64,
    pub history_every: u64,
    pub history_keep: u64,
}

/// [`Cx::call`](crate::flow::Cx::call).
#[derive(Debug)]
pub struct Call {
    pub name: String,
    pub workflow: &'static str,
    /// The schemas of its call and its commands.
    pub call: &'static str,
    pub control: &'static str,
    /// The field of the input that is its key, such as `order_id` or `order.id`.
    pub key_field: &'static str,
    pub input: Vec<u8>,
    /// It has a rollback: `Answer::Compensate` follows its success.
    pub has_rollback: bool,
}

/// [`Cx::spawn`](crate::flow::Cx::spawn).
#[derive(Debug)]
pub struct Spawn {
    pub name: String,
    pub workflow: &'static str,
    /// The schema of the event that starts it.
    pub schema: &'static str,
    pub input: Vec<u8>,
}

/// The time until which an operation waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deadline {
    After(Duration),
    At(Time),
}

//! Flows whose code is data: an interpreter as the body of a flow (`spec/flow.md`, FL-200 to
//! FL-209).
//!
//! A [`Program`] runs until it requests an operation. Its schemas, effects and values are names and
//! canonical bytes that are known at run time only. Everything else is as in a flow of `#[flow]`: the
//! same paths, history, references and faults, byte for byte.
//!
//! ```
//! use aos_sdk::Fault;
//! use aos_sdk::flow::untyped::{self, Answer, Ended, Facts, Pause, Program, Request, Start};
//! use aos_sdk::step::{Input, Output, Reducer};
//!
//! /// Sends its input as an event, and ends with null.
//! struct Relay;
//!
//! impl Program for Relay {
//!     fn start(&mut self, start: &Start) -> Pause {
//!         let value = start.input.to_vec();
//!         Pause::Request(Request::Emit { name: "relay".into(), schema: "shop/Relayed@1", value })
//!     }
//!
//!     fn answer(&mut self, answer: Answer) -> Pause {
//!         let ended = match answer {
//!             Answer::Done(Ok(_)) => Ended::Value(vec![0xf6]),
//!             Answer::Done(Err(error)) => Ended::Failed(error),
//!             _ => return Pause::Waiting,
//!         };
//!         Pause::Request(Request::End { body: 0, ended })
//!     }
//!
//!     fn resume(&mut self, _wait: untyped::Id, answer: Answer) -> Pause {
//!         self.answer(answer)
//!     }
//! }
//!
//! const FACTS: Facts = Facts {
//!     control: "shop/RelayControl@1",
//!     ..Facts::new("shop/Order@1")
//! };
//!
//! struct Entry;
//!
//! impl Reducer for Entry {
//!     fn reduce(input: &Input<'_>, output: &mut Output) -> Result<(), Fault> {
//!         untyped::turn(&FACTS, input, output, || Ok(Relay))
//!     }
//! }
//!
//! aos_sdk::export!(relay: Entry);
//! ```

mod machine;
mod operations;
mod program;

pub use operations::drive;
pub use program::{
    Answer, Call, Deadline, Ended, Id, Listen, Loop, Pause, Program, Request, Spawn, Start, Step,
    Undo,
};

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::any::TypeId;

use crate::air::Type;
use crate::fault::Fault;
use crate::step::{Input, Output};

use super::engine;
use super::history::Bytes;
use super::state::Stored;
use super::turn::Began;
use super::{Cx, refs};

/// The facts about a flow that `#[flow]` has at compile time. The names have to live as long as the
/// turn: leak those that are made at run time, because the memory of a turn is never freed.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// The schema of the flow's commands.
    pub control: &'static str,
    /// The schema by which a called flow returns its result. Without it the flow can call none.
    pub returned: Option<&'static str>,
    /// The schemas of the messages, in the order of the arms `M0`, `M1`, … of the flow's event.
    pub listens: &'static [&'static str],
    /// The schema of the event that starts the flow.
    pub input: &'static str,
    pub output: Option<&'static str>,
    pub view: Option<&'static str>,
    /// A turn ends when it has requested so many effects, or emitted so many events.
    pub effects_limit: u64,
    pub events_limit: u64,
    /// The types of input, output and view, to find the blobs that they name (`values.md` V-70).
    pub types: [Option<&'static Type>; 3],
}

impl Facts {
    /// A flow with this input, which nothing commands, and with the limits of `#[flow]`.
    pub const fn new(input: &'static str) -> Facts {
        Facts {
            control: "",
            returned: None,
            listens: &[],
            input,
            output: None,
            view: None,
            effects_limit: 1024,
            events_limit: 1024,
            types: [None; 3],
        }
    }

    /// As the engine keeps them.
    fn known(&self) -> &'static engine::Facts {
        Box::leak(Box::new(engine::Facts {
            control: self.control,
            returned: self.returned,
            listens: self.listens,
            effects_max: self.effects_limit as usize,
            events_max: self.events_limit as usize,
            input: self.input,
            output: self.output,
            view: self.view,
        }))
    }
}

/// One turn of a flow whose code is a program: the work of a [`Reducer`](crate::step::Reducer).
/// `program` is called only in a turn that polls the flow.
pub fn turn<P: Program + 'static>(
    facts: &Facts,
    input: &Input<'_>,
    output: &mut Output,
    program: impl FnOnce() -> Result<P, Fault>,
) -> Result<(), Fault> {
    let mut turn = Began::begin(facts.known(), input, TypeId::of::<()>())?;
    if let Some(start) = turn.program() {
        turn.poll_untyped(drive(Cx(turn.engine), program()?, start));
    }
    let changes_nothing = turn.changes_nothing();
    turn.finish(output, None)?;
    match facts.types.iter().flatten().any(|of| refs::has_hash(of)) && !changes_nothing {
        true => find_refs(facts, output),
        false => Ok(()),
    }
}

/// Write the blobs that the values name into the state.
fn find_refs(facts: &Facts, output: &mut Output) -> Result<(), Fault> {
    let Some(state) = output.state.take() else { return Ok(()) };
    let mut stored = Stored::read(state.leak()).map_err(|misfit| Fault::input("state", misfit))?;
    let values = [stored.input, stored.output, stored.view];
    let pairs: Vec<(&Type, Option<Bytes>)> =
        facts.types.iter().zip(values).filter_map(|(of, value)| of.map(|of| (of, value))).collect();
    stored.refs = refs::find(&pairs).leak();
    output.state = Some(stored.bytes());
    Ok(())
}

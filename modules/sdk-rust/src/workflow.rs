//! Typed steps: `#[workflow]` makes them from a function.

use core::mem::ManuallyDrop;

use crate::context::Context;
use crate::fault::Fault;
use crate::schema::{Named, decode};
use crate::step::{Input, Output, Reducer};

/// A workflow: how an event changes the state of its cell.
///
/// [`#[workflow]`](macro@crate::workflow) writes this for a function, exports it and generates its
/// AIR. By hand it is:
///
/// ```
/// use aos_sdk::prelude::*;
///
/// #[derive(Schema)]
/// #[schema("demo/Add@1")]
/// struct Add { by: u64 }
///
/// #[derive(Schema, Default)]
/// #[schema("demo/Sum@1")]
/// struct Sum { total: u64 }
///
/// struct Counter;
///
/// impl Workflow for Counter {
///     type State = Sum;
///     type Event = Add;
///
///     fn step(state: &mut Sum, event: Add, _cx: &mut Context) -> Result<(), Fault> {
///         state.total += event.by;
///         Ok(())
///     }
/// }
///
/// aos_sdk::export!(count: aos_sdk::Typed<Counter>);
/// ```
///
/// Its `defworkflow` is then the author's to write, with `context: "sys/WorkflowContext@1"`.
pub trait Workflow {
    /// The state of a cell. A new cell begins with its default.
    type State: Named + Default;
    /// A record, or a variant of everything that can reach the cell.
    type Event: Named;

    /// Take one step. A fault leaves the state as it was before.
    fn step(state: &mut Self::State, event: Self::Event, cx: &mut Context<'_>)
    -> Result<(), Fault>;
}

/// A [`Workflow`] as a [`Reducer`].
pub struct Typed<W>(core::marker::PhantomData<W>);

impl<W: Workflow> Reducer for Typed<W> {
    fn reduce(input: &Input<'_>, output: &mut Output) -> Result<(), Fault> {
        // Nothing is freed in a step, so code that drops the state would only make the module larger.
        let mut state = ManuallyDrop::new(match input.state {
            Some(state) => decode(state).map_err(|misfit| Fault::input("state", misfit))?,
            None => W::State::default(),
        });
        let event = decode(input.event).map_err(|misfit| Fault::input("event", misfit))?;
        let mut cx = Context::new(input, output);
        W::step(&mut state, event, &mut cx)?;
        cx.finish::<W::State>(&state);
        Ok(())
    }
}

/// The types that a workflow's function may return: nothing, or `Result<(), Fault>`.
#[diagnostic::on_unimplemented(
    message = "a workflow returns `()` or `Result<(), Fault>`, not `{Self}`",
    label = "returns neither"
)]
pub trait Answer {
    fn answer(self) -> Result<(), Fault>;
}

impl Answer for () {
    fn answer(self) -> Result<(), Fault> {
        Ok(())
    }
}

impl Answer for Result<(), Fault> {
    fn answer(self) -> Result<(), Fault> {
        self
    }
}

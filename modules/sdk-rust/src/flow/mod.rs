//! Durable functions: an async function as a workflow.
//!
//! A *flow* is an async function over a [`Cx`]. It acts and waits only through *operations*:
//! `cx.step(…)`, `cx.sleep(…)`, `cx.listen(…)`, joins, races, loops. The engine records each in the
//! flow's history. At each event it runs the function again from its start, and recorded operations
//! return the same results immediately. So a flow continues after a crash, a month, or a new version
//! of its code. The rules are in `spec/flow.md`.

mod child;
mod ending;
mod engine;
mod failure;
mod history;
mod inbox;
mod mail;
mod parallel;
mod path;
mod refs;
mod repeat;
mod returned;
mod scope;
mod state;
mod step;
mod turn;
mod unwind;
mod value;
mod wait;

use alloc::string::String;
use core::future::Future;

use crate::Effect;
use crate::schema::{Named, Schema, decode, encode};
use crate::types::Time;

pub use child::Call;
pub use failure::{Failure, FlowError};
pub use history::Kind;
pub use parallel::{Branch, Branches, Join, Race, Won, branch};
pub use repeat::{Loop, Repeat};
pub use returned::Returned;
#[doc(hidden)]
pub use state::CALLER;
pub use state::{NODE, STATE};
pub use step::{Retry, Step};
pub use turn::Turn;
pub use value::Local;

/// A durable function. `#[flow]` implements it.
pub trait Flow {
    /// The schema of the event that starts it.
    type Input: Named;
    type Output: Schema;
    /// The type that [`Cx::publish`] shows; `()` if the flow declares none.
    type View: Schema;
    /// The workflow's name, and the names of the schemas that the macro makes.
    const WORKFLOW: &'static str;
    const CONTROL: &'static str;
    const RETURN: Option<&'static str>;
    const OUTPUT: Option<&'static str>;
    const VIEW: Option<&'static str>;
    /// The schemas of `listens(…)`, in order.
    const LISTENS: &'static [&'static str];
    /// A turn ends when it has requested so many effects, or emitted so many events.
    const EFFECTS_LIMIT: u64;
    const EVENTS_LIMIT: u64 = 256;

    fn run(cx: Cx, input: Self::Input) -> impl Future<Output = Result<Self::Output, FlowError>>;
}

/// A flow with `callable`: other flows can [`call`](Cx::call) it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a flow that others may call",
    label = "not callable",
    note = "add `callable` to its `#[flow]`"
)]
pub trait Callable: Flow {
    /// The schema of the event that calls it.
    const CALL: &'static str;
    /// The field of the input that is its key, such as `order_id` or `order.id`.
    const KEY_FIELD: &'static str;
}

/// The way from a flow to its operations. It can be copied, and every copy is the same.
///
/// An operation belongs to the body that is running when it is first awaited, whichever `cx` names
/// it, so helper functions work anywhere: `async fn f(cx: Cx, …)`.
#[derive(Clone, Copy)]
pub struct Cx(&'static engine::Engine);

// A guest has one thread; the sandbox offers no others. A `Cx` cannot be sent to another one.
unsafe impl Sync for Cx {}

impl Cx {
    fn engine(self) -> &'static engine::Engine {
        self.0
    }

    /// Run an effect and wait for its receipt. See [`Step`] for retries, deadlines and
    /// compensations.
    ///
    /// ```
    /// # use aos_sdk::{prelude::*, flow::{Cx, FlowError, Retry}};
    /// # #[derive(Schema)] #[schema("shop/Charged@1")] pub struct Charged { pub charge: String }
    /// # #[derive(Effect)] #[effect("shop/card.charge@1", receipt = Charged, executor = "shop")]
    /// # pub struct Charge { pub cents: u64 }
    /// # #[derive(Effect)] #[effect("shop/card.refund@1", receipt = Charged, executor = "shop")]
    /// # pub struct Refund { pub charge: String }
    /// async fn charge(cx: Cx, cents: u64) -> Result<String, FlowError> {
    ///     let charged = cx
    ///         .step("charge", Charge { cents })
    ///         .retry(Retry::attempts(5))
    ///         .timeout(Duration::hours(1))
    ///         .rollback(|charged| Refund { charge: charged.charge.clone() })
    ///         .await?;
    ///     Ok(charged.charge)
    /// }
    /// ```
    pub fn step<'a, E: Effect>(self, name: &str, effect: E) -> Step<'a, E> {
        Step::new(self, name, effect)
    }

    /// Run branches at the same time and wait for all of them. If any fails, so does the join
    /// ([`FlowError::Join`]), once all have ended.
    ///
    /// ```
    /// # use aos_sdk::{Duration, flow::{Cx, FlowError, branch}};
    /// async fn both(cx: Cx) -> Result<u64, FlowError> {
    ///     let (one, _) = cx
    ///         .join("both", (
    ///             branch("one", async || cx.local("one", |_| 1u64).await),
    ///             branch("nap", async || cx.sleep("nap", Duration::minutes(1)).await),
    ///         ))
    ///         .await?;
    ///     Ok(one)
    /// }
    /// ```
    pub fn join<'a, B: Branches<'a>>(self, name: &str, branches: B) -> Join<'a, B::Values> {
        Join::tuple(self, name, branches)
    }

    /// As [`join`](Cx::join), for any number of branches of one type.
    pub fn join_all<'a, T: Schema>(
        self,
        name: &str,
        branches: impl IntoIterator<Item = Branch<'a, T>>,
    ) -> Join<'a, alloc::vec::Vec<T>> {
        Join::all(self, name, branches)
    }

    /// Run branches at the same time, take the first success, and cancel the others. If several
    /// succeed in one turn, the first of them in the order of the branches wins.
    ///
    /// A branch that fails does not end the race: another one may still succeed. So a race of a
    /// step with a listen waits for the message after the step has failed, for ever if none comes.
    /// To end the race with the failure, make it [a rollback](FlowError::into_rollback); or give the
    /// listen a deadline.
    ///
    /// ```
    /// # use aos_sdk::{Duration, flow::{Cx, FlowError, branch}};
    /// async fn first(cx: Cx) -> Result<String, FlowError> {
    ///     let won = cx
    ///         .race("first", [
    ///             branch("slow", async || cx.sleep("nap", Duration::minutes(5)).await),
    ///             branch("fast", async || cx.sleep("nap", Duration::minutes(1)).await),
    ///         ])
    ///         .await?;
    ///     Ok(won.branch)
    /// }
    /// ```
    pub fn race<'a, T: Schema>(
        self,
        name: &str,
        branches: impl IntoIterator<Item = Branch<'a, T>>,
    ) -> Race<'a, T> {
        Race::new(self, name, branches)
    }

    /// Run a body whose operations are dropped from the history once it has ended: only its result
    /// stays.
    pub async fn scope<T: Schema>(
        self,
        name: &str,
        body: impl AsyncFn() -> Result<T, FlowError> + Sync,
    ) -> Result<T, FlowError> {
        scope::run_scope(self, name, body).await
    }

    /// Repeat a body. Each iteration passes its state to the next one, and the state is stored; the
    /// operations of a finished iteration are dropped from the history.
    ///
    /// ```
    /// # use aos_sdk::{Duration, flow::{Cx, FlowError, Loop}};
    /// async fn days(cx: Cx) -> Result<u64, FlowError> {
    ///     cx.loop_("days", 0u64, async |day| {
    ///         cx.sleep("day", Duration::days(1)).await?;
    ///         Ok(if day == 6 { Loop::Break(day) } else { Loop::Continue(day + 1) })
    ///     })
    ///     .await
    /// }
    /// ```
    pub fn loop_<'a, S, T, F>(self, name: &str, first: S, body: F) -> Repeat<'a, S, T, F>
    where
        S: Schema + 'a,
        T: Schema + 'a,
        F: AsyncFn(S) -> Result<Loop<S, T>, FlowError> + Sync + 'a,
    {
        Repeat::new(self, name, first, body)
    }

    /// When the flow started.
    pub fn started_at(self) -> Time {
        Time::from_ns(self.0.with(|core| core.started) as i64)
    }

    /// The flow's key, of the type that the workflow declares; any other is Critical, code `key`.
    pub fn key<K: Schema>(self) -> Result<K, FlowError> {
        let key = self.0.with(|core| core.key);
        decode(key).map_err(|misfit| FlowError::critical("key", misfit.words()))
    }

    /// Annotate the turn, if the operation before this point ended in it. The last one counts.
    pub fn annotate<T: Named>(self, annotation: T) {
        self.0.with(|core| {
            if core.is_live() {
                core.annotation = Some(encode(&annotation));
            }
        });
    }

    /// Called by [`log!`](crate::log!): a line counts if the operation before it ended in this turn.
    #[doc(hidden)]
    pub fn line(self, line: String) {
        self.0.with(|core| {
            if core.is_live() {
                core.lines.push(line);
            }
        });
    }
}

// At the end: async functions above have their lines in the bytes of every module.
#[cfg(feature = "untyped")]
pub mod untyped;

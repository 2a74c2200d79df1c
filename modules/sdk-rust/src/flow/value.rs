//! Operations that end at once: `local`, `emit`, `version`, `removed`; and the view.

use alloc::vec::Vec;
use core::any::TypeId;
use core::future::poll_fn;
use core::task::Poll;

use crate::cbor;
use crate::random::Random;
use crate::schema::{Named, Schema, encode};
use crate::types::{Time, Uuid};

use super::Cx;
use super::engine::{Core, Print};
use super::failure::FlowError;
use super::history::{Bytes, Kind, Outcome, State};
use super::scope::{leaf, typed};

/// Time and random values for [`Cx::local`]. They are those of the turn, and recorded with the
/// result.
pub struct Local {
    now: Time,
    random: Random,
}

impl Local {
    /// The time: the clock of the host when the input arrived that caused the turn.
    pub fn now(&self) -> Time {
        self.now
    }

    /// A random number. It is not a secret.
    pub fn random(&mut self) -> u64 {
        self.random.number()
    }

    /// A random number from 0 to `bound` - 1. A bound of 0 traps.
    pub fn random_below(&mut self, bound: u64) -> u64 {
        self.random.below(bound)
    }

    /// A random uuid, of version 4.
    pub fn uuid(&mut self) -> Uuid {
        self.random.uuid()
    }
}

impl Cx {
    /// Compute a value once and record it: for values that depend on time or randomness, or that
    /// are expensive.
    ///
    /// ```
    /// # use aos_sdk::{Time, flow::{Cx, FlowError}};
    /// async fn begun(cx: Cx) -> Result<Time, FlowError> {
    ///     cx.local("begun", |local| local.now()).await
    /// }
    /// ```
    pub async fn local<T: Schema>(
        self,
        name: &str,
        compute: impl Fn(&mut Local) -> T + Sync,
    ) -> Result<T, FlowError> {
        let engine = self.engine();
        let index = poll_fn({
            let mut slot = 0;
            move |_| match engine.with(|core| core.enter(&mut slot, Kind::Local, name, Print::None))
            {
                Some(index) => Poll::Ready(index),
                None => Poll::Pending,
            }
        })
        .await;
        if engine.with(|core| core.op(index).state.is_open()) {
            let mut local = engine.with(|core| core.lend_local());
            // Outside of the engine, which the author's code may use.
            let value = encode(&compute(&mut local));
            engine.with(|core| {
                core.random = local.random;
                core.complete(index, value);
            });
        }
        let value = engine.with(|core| core.result(index))?;
        Ok(typed(self, index, value).await)
    }

    /// Emit a domain event, once.
    pub async fn emit<M: Named>(self, name: &str, event: M) -> Result<(), FlowError> {
        leaf(self, Kind::Emit, name, Print::Text(M::NAME), |core, index| {
            core.emit_once(index, M::NAME, &encode(&event));
        })
        .await?;
        Ok(())
    }

    /// The version of the code from here on, for a change while flows are in flight: `latest` in a
    /// flow that comes here for the first time, and 1 in one that has passed this point without it.
    /// The answer is recorded, and stays the same.
    ///
    /// ```
    /// # use aos_sdk::{prelude::*, flow::{Cx, FlowError}};
    /// # #[derive(Schema)] #[schema("shop/Done@1")] struct Done { id: String }
    /// # #[derive(Effect)] #[effect("shop/mail.send@1", receipt = Done, executor = "shop")]
    /// # struct Mail { text: String }
    /// async fn tell(cx: Cx) -> Result<(), FlowError> {
    ///     let text = match cx.version("politer", 2).await? {
    ///         1 => "Shipped.",
    ///         _ => "Dear customer, your parcel is on its way.",
    ///     };
    ///     cx.step("mail", Mail { text: text.into() }).await?;
    ///     Ok(())
    /// }
    /// ```
    pub async fn version(self, name: &str, latest: u64) -> Result<u64, FlowError> {
        let engine = self.engine();
        let is_old = poll_fn(|_| match engine.with(|core| core.is_before_recorded(name)) {
            Some(is_old) => Poll::Ready(is_old),
            None => Poll::Pending,
        })
        .await;
        if is_old {
            return Ok(1);
        }
        let (index, value) = leaf(self, Kind::Version, name, Print::None, |core, index| {
            core.complete(index, encode(&latest));
        })
        .await?;
        Ok(typed(self, index, value).await)
    }

    /// Pass over an operation that the code no longer has. In a flow that recorded it, it is
    /// taken, and what it has open is canceled; in any other flow nothing happens.
    ///
    /// ```
    /// # use aos_sdk::flow::{Cx, FlowError, Kind};
    /// async fn once_there_was_a_survey(cx: Cx) -> Result<(), FlowError> {
    ///     cx.removed("survey", Kind::Step).await
    /// }
    /// ```
    pub async fn removed(self, name: &str, kind: Kind) -> Result<(), FlowError> {
        let engine = self.engine();
        let mut slot = 0;
        poll_fn(move |_| engine.with(|core| core.pass_removed(&mut slot, name, kind))).await;
        Ok(())
    }

    /// Show a value to queries from outside: the last one counts. Its type is that of `view = …`.
    ///
    /// It is no operation. It takes effect in the turn in which the operation before it ended.
    pub fn publish<V: Schema + 'static>(self, view: V) {
        let view_type = self.engine().view();
        self.engine().with(|core| {
            if view_type != TypeId::of::<V>() {
                let words = "publish was called with another type than that of `view = …`";
                core.fault.get_or_insert(crate::Fault::new("flow_name", words));
            } else if core.is_live() {
                core.view = Some(encode(&view));
            }
        });
    }
}

impl Core {
    fn lend_local(&mut self) -> Local {
        let random = core::mem::replace(&mut self.random, Random::new(&[]));
        Local { now: Time::from_ns(self.now as i64), random }
    }

    pub fn emit_once(&mut self, index: usize, schema: &str, value: &[u8]) {
        let mut extra = Vec::new();
        cbor::write_text(schema, &mut extra);
        self.op_mut(index).set_extra(1, extra);
        self.emit(schema, value);
        self.complete(index, Vec::from(b"\xf6"));
    }

    /// Whether the flow passed this point before the code had a version of this name. None with a
    /// fault.
    fn is_before_recorded(&mut self, name: &str) -> Option<bool> {
        if self.fault.is_some() {
            return None;
        }
        let next = self.next_child(self.scope);
        let op = self.op(next);
        Some(next != 0 && (op.kind != Kind::Version || op.name != name))
    }

    fn pass_removed(&mut self, slot: &mut usize, name: &str, kind: Kind) -> Poll<()> {
        if self.fault.is_some() {
            return Poll::Pending;
        }
        if *slot == 0 {
            let next = self.next_child(self.scope);
            let op = self.op(next);
            let is_it = next != 0
                && op.name == name
                && (op.kind == kind
                    || (op.kind == Kind::Removed && removed_kind(op.extra) == kind));
            if !is_it || self.op(self.scope).waiting != 0 {
                return Poll::Ready(());
            }
            *slot = next;
            let scope = self.scope;
            self.op_mut(scope).cursor = next;
        }
        if self.op(*slot).kind == Kind::Removed {
            return Poll::Ready(());
        }
        // The code that would undo it is gone: no answer has to come first.
        self.forget_rollbacks_within(*slot);
        if !self.close(*slot) {
            return Poll::Pending;
        }
        self.drop_children(*slot);
        let mut extra = Vec::new();
        cbor::write_nat(kind as u64, &mut extra);
        self.op_mut(*slot).kind = Kind::Removed;
        self.op_mut(*slot).set_extra(1, extra);
        self.end(*slot, State::Completed, Outcome::Value(b"\xf6"));
        Poll::Ready(())
    }
}

fn removed_kind(extra: Bytes) -> Kind {
    let number = cbor::Reader::new(extra).nat();
    number.ok().and_then(Kind::of).unwrap_or(Kind::Removed)
}

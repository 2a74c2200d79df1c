//! The inputs of a step besides state and event, and its outputs besides the new state.

use alloc::string::String;
use alloc::vec::Vec;
use core::cell::OnceCell;

use crate::cbor::{Reader, Stop};
use crate::fault::Fault;
use crate::random::Random;
use crate::request::{Effect, Request};
use crate::schema::{Named, Schema, decode, encode, whole};
use crate::step::{Input, Output, Status};
use crate::types::{Hash, Time, Uuid};

/// The current step: time, random values and the cell's key, and the way to emit events, start
/// effects and declare a status.
///
/// All of it is the same when the step is replayed. There is no other clock and no other source of
/// random values.
pub struct Context<'a> {
    output: &'a mut Output,
    /// `sys/WorkflowContext@1`, decoded when the step first needs a part of it.
    context: Option<&'a [u8]>,
    known: OnceCell<Known<'a>>,
    unknown: OnceCell<Fault>,
    key: Option<&'a [u8]>,
    random: Option<Random>,
    lines: Vec<String>,
    is_new: bool,
    is_deleted: bool,
}

/// `sys/WorkflowContext@1`, undecoded where it is long.
#[derive(Default)]
struct Known<'a> {
    now_ns: u64,
    entropy: &'a [u8],
    workflow: &'a str,
    is_cell: bool,
    event_hash: &'a str,
    manifest_hash: &'a str,
    workflow_hash: Option<&'a str>,
    journal_height: u64,
    logical_now_ns: u64,
}

/// The time and the entropy of a step, for the engine of flows.
pub(crate) fn time_and_entropy<'a>(input: &Input<'a>) -> Result<(u64, &'a [u8]), Fault> {
    Known::of(input.context).map(|known| (known.now_ns, known.entropy))
}

impl<'a> Known<'a> {
    #[inline(always)] // one caller in a module without flows
    fn of(context: Option<&'a [u8]>) -> Result<Known<'a>, Fault> {
        match context {
            Some(context) => {
                whole(context, Known::read).map_err(|misfit| Fault::input("ctx", misfit))
            }
            None => Err(Fault::new(
                "sdk_no_context",
                "the workflow does not declare sys/WorkflowContext@1",
            )),
        }
    }

    fn read(from: &mut Reader<'a>) -> Result<Known<'a>, Stop> {
        from.record(10)?;
        from.field(b"\x63key")?;
        // The envelope has it, too.
        from.item()?;
        from.field(b"\x66now_ns")?;
        let now_ns = from.nat()?;
        from.field(b"\x67entropy")?;
        let entropy = from.bytes()?;
        from.field(b"\x68workflow")?;
        let workflow = from.text()?;
        from.field(b"\x69cell_mode")?;
        let is_cell = from.bool()?;
        from.field(b"\x6aevent_hash")?;
        let event_hash = from.text()?;
        from.field(b"\x6dmanifest_hash")?;
        let manifest_hash = from.text()?;
        from.field(b"\x6dworkflow_hash")?;
        let workflow_hash = match from.is_null() {
            true => None,
            false => Some(from.text()?),
        };
        from.field(b"\x6ejournal_height")?;
        let journal_height = from.nat()?;
        from.field(b"\x6elogical_now_ns")?;
        let logical_now_ns = from.nat()?;
        Ok(Known {
            now_ns,
            entropy,
            workflow,
            is_cell,
            event_hash,
            manifest_hash,
            workflow_hash,
            journal_height,
            logical_now_ns,
        })
    }
}

impl<'a> Context<'a> {
    /// For macros and custom dispatchers: a step that writes into `output`.
    pub fn new(input: &Input<'a>, output: &'a mut Output) -> Context<'a> {
        Context {
            output,
            context: input.context,
            known: OnceCell::new(),
            unknown: OnceCell::new(),
            key: input.key,
            random: None,
            lines: Vec::new(),
            is_new: input.state.is_none(),
            is_deleted: false,
        }
    }

    /// End the step with this state: what `Typed` does after a workflow's function.
    pub fn finish<S: Schema>(self, state: &S) {
        if crate::log::IS_ON && self.output.annotation.is_none() && !self.lines.is_empty() {
            self.output.annotation = Some(crate::log::annotation(self.lines));
        }
        if let Some(fault) = self.unknown.into_inner() {
            self.output.fault(fault);
        }
        self.output.state = (!self.is_deleted).then(|| encode(state));
    }

    /// Where there is no context, zeros; the step ends with the fault that says so.
    fn known(&self) -> &Known<'a> {
        self.known.get_or_init(|| {
            Known::of(self.context).unwrap_or_else(|fault| {
                self.unknown.get_or_init(|| fault);
                Known::default()
            })
        })
    }

    // Inputs.

    /// The time: the clock of the host when the input arrived that caused the step. Compute deadlines
    /// from it.
    ///
    /// It may be earlier than in the step before, if the clock of the host was corrected in between.
    pub fn now(&self) -> Time {
        Time::from_ns(self.known().now_ns as i64)
    }

    /// The journal's clock: the latest time of all inputs so far, which never goes back. A clock of the
    /// host that was ahead once leaves it ahead, so a deadline computed from it may come too late.
    pub fn journal_now(&self) -> Time {
        Time::from_ns(self.known().logical_now_ns as i64)
    }

    /// The same as [`now`](Context::now).
    pub fn stamped_at(&self) -> Time {
        self.now()
    }

    /// The sequence of this step in the journal.
    pub fn journal_height(&self) -> u64 {
        self.known().journal_height
    }

    /// The workflow's name, and the hash of its definition.
    pub fn workflow(&self) -> &'a str {
        self.known().workflow
    }

    pub fn workflow_hash(&self) -> Option<Hash> {
        self.known().workflow_hash.and_then(Hash::parse)
    }

    /// The hash of the event that this step handles.
    pub fn event_hash(&self) -> Hash {
        Hash::parse(self.known().event_hash).unwrap_or_default()
    }

    /// The hash of the manifest that is in force.
    pub fn manifest_hash(&self) -> Hash {
        Hash::parse(self.known().manifest_hash).unwrap_or_default()
    }

    /// Whether the workflow is keyed.
    pub fn is_cell(&self) -> bool {
        self.known().is_cell
    }

    /// Whether the cell has no state yet: the state that the step got is the default.
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    /// The cell's key, of the type that the workflow declares.
    ///
    /// ```
    /// # use aos_sdk::prelude::*;
    /// fn greeting(cx: &Context) -> Result<String, Fault> {
    ///     Ok(format!("order {}", cx.key::<String>()?))
    /// }
    /// ```
    ///
    /// Faults as `sdk_no_key` where the workflow has none.
    pub fn key<K: Schema>(&self) -> Result<K, Fault> {
        match self.key {
            Some(bytes) => decode(bytes).map_err(|misfit| Fault::input("key", misfit)),
            None => Err(Fault::new("sdk_no_key", "the workflow has no key")),
        }
    }

    // Random values.

    /// 64 bytes, different for each step and the same at replay. They are derived from the journal,
    /// so they are not secret.
    pub fn entropy(&self) -> &'a [u8] {
        self.known().entropy
    }

    fn random_stream(&mut self) -> &mut Random {
        let entropy = self.entropy();
        self.random.get_or_insert_with(|| Random::new(entropy))
    }

    /// The next of the step's random numbers.
    pub fn random(&mut self) -> u64 {
        self.random_stream().number()
    }

    /// A random number from 0 to `bound` - 1. A bound of 0 traps.
    pub fn random_below(&mut self, bound: u64) -> u64 {
        self.random_stream().below(bound)
    }

    pub fn random_bytes(&mut self, length: usize) -> Vec<u8> {
        let mut bytes = alloc::vec![0; length];
        self.random_stream().fill(&mut bytes);
        bytes
    }

    /// A random uuid, of version 4.
    pub fn uuid(&mut self) -> Uuid {
        self.random_stream().uuid()
    }

    // Outputs.

    /// The output so far: for effects and events by name, with params and values as bytes.
    pub fn output(&mut self) -> &mut Output {
        self.output
    }

    /// Emit a domain event: every workflow that subscribed to its schema gets it.
    pub fn emit<T: Named>(&mut self, event: T) {
        self.output.event(T::NAME, &encode(&event), None);
    }

    /// Emit a domain event for the cell with this key. If its route leads to another cell, the step
    /// fails.
    pub fn emit_to<K: Schema, T: Named>(&mut self, key: &K, event: T) {
        self.output.event(T::NAME, &encode(&event), Some(&encode(key)));
    }

    /// Prepare an effect. [`Request::start`] or [`Request::forget`] requests it.
    ///
    /// ```
    /// # use aos_sdk::prelude::*;
    /// # #[derive(Schema)] #[schema("shop/Charged@1")] struct Charged { charge: String }
    /// # #[derive(Effect)] #[effect("shop/card.charge@1", receipt = Charged, executor = "shop")]
    /// # struct Charge { order_id: String, cents: u64 }
    /// # #[derive(Schema, Default)] #[schema("shop/OrderState@1")]
    /// # struct State { charge: Pending<Charge> }
    /// fn pay(state: &mut State, cx: &mut Context) {
    ///     let charge = Charge { order_id: "o-1".into(), cents: 100 };
    ///     state.charge = cx.effect(charge).idempotency_key("o-1/charge").start();
    /// }
    /// ```
    pub fn effect<E: Effect>(&mut self, effect: E) -> Request<'_, 'a, E> {
        Request::new(self, effect)
    }

    /// Declare the status of the instance. It holds until the workflow declares another one.
    pub fn status(&mut self, status: Status) {
        self.output.status = Some(status);
    }

    /// Delete the cell when the step ends. Its open effects are abandoned; the next event finds a
    /// new cell. Starting effects in the same step is a fault.
    pub fn delete(&mut self) {
        self.is_deleted = true;
    }

    /// Annotate the step with a value of the workflow's `annotations`: it is shown where the step
    /// is, and changes nothing. The last one counts.
    pub fn annotate<T: Named>(&mut self, annotation: T) {
        self.output.annotation = Some(encode(&annotation));
    }

    /// Called by [`log!`](crate::log!).
    #[doc(hidden)]
    pub fn line(&mut self, line: String) {
        self.lines.push(line);
    }
}

//! Effects: requests of a workflow to the outside.

use alloc::string::String;
use core::marker::PhantomData;

use crate::context::Context;
use crate::fault::Fault;
use crate::handle::Pending;
use crate::number::decimal;
use crate::schema::{Named, encode};
use crate::step::IdempotencyKey;

/// A kind of effect. The value is its params.
///
/// Derive it for effects of your own; those of the kernel are in [`timer`](crate::timer),
/// [`effect`](crate::effect), [`http`](crate::http), [`blob`](crate::blob) and
/// [`introspect`](crate::introspect).
///
/// ```
/// use aos_sdk::prelude::*;
///
/// #[derive(Schema)]
/// #[schema("shop/Charged@1")]
/// pub struct Charged { pub charge: String }
///
/// /// Take the money.
/// #[derive(Effect)]
/// #[effect("shop/card.charge@1", receipt = Charged, executor = "shop", timeout_ms = 1000)]
/// pub struct Charge { pub order_id: String, pub cents: u64 }
///
/// assert_eq!(Charge::NAME, "shop/CardChargeParams@1");
/// assert_eq!(Charge::EFFECT, "shop/card.charge@1");
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not an effect",
    label = "not an effect",
    note = "an effect of your own needs `#[derive(Effect)]` and `#[effect(\"namespace/name@1\", receipt = …, executor = \"…\")]`"
)]
pub trait Effect: Named {
    /// The effect's name in the manifest.
    const EFFECT: &'static str;
    /// The answer of its executor.
    type Receipt: Named;
}

/// An effect that is about to be requested.
#[must_use = "nothing is asked before `.start()` or `.forget()`"]
pub struct Request<'r, 'a, E> {
    cx: &'r mut Context<'a>,
    params: alloc::vec::Vec<u8>,
    idempotency_key: Option<IdempotencyKey>,
    issuer_ref: Option<String>,
    effect: PhantomData<E>,
}

impl<'r, 'a, E: Effect> Request<'r, 'a, E> {
    pub(crate) fn new(cx: &'r mut Context<'a>, effect: E) -> Request<'r, 'a, E> {
        Request {
            cx,
            params: encode(&effect),
            idempotency_key: None,
            issuer_ref: None,
            effect: PhantomData,
        }
    }

    /// All requests of this effect with one key count as a single request outside, however many
    /// there are. Text or bytes, at most 256. The same key with other params is a fault.
    pub fn idempotency_key(mut self, key: impl Into<IdempotencyKey>) -> Self {
        self.idempotency_key = Some(key.into());
        self
    }

    /// A reference of your own instead of a generated one: at most 256 bytes, and best unique among
    /// the requests of this cell. One that begins with `aos:` is a fault.
    pub fn issuer_ref(mut self, reference: impl Into<String>) -> Self {
        let reference = reference.into();
        if reference.starts_with(OURS) {
            let words = "issuer refs that begin with \"aos:\" belong to handles";
            self.cx.output().fault(Fault::new("sdk_issuer_ref", words));
        }
        self.issuer_ref = Some(reference);
        self
    }

    /// Request the effect. Keep the handle in the state: it recognizes the answer.
    #[must_use = "without its handle the answer is not found again; `.forget()` says that it is not wanted"]
    pub fn start(mut self) -> Pending<E> {
        let reference = match self.issuer_ref.take() {
            Some(reference) => reference,
            None => own_reference(self.cx),
        };
        self.ask(Some(&reference));
        Pending::new(reference)
    }

    /// Request the effect without a handle. The answer comes all the same; no handle recognizes it.
    pub fn forget(mut self) {
        let reference = self.issuer_ref.take();
        self.ask(reference.as_deref());
    }

    fn ask(self, reference: Option<&str>) {
        self.cx.output().effect(E::EFFECT, &self.params, self.idempotency_key.as_ref(), reference);
    }
}

/// How the references of handles begin (SD-21).
const OURS: &str = "aos:";

/// Unique in the world: the step's own sequence, and the place among its effects.
fn own_reference(cx: &mut Context<'_>) -> String {
    let mut reference = String::from(OURS);
    decimal(cx.journal_height(), &mut reference);
    reference.push(':');
    decimal(cx.output().effect_count() as u64, &mut reference);
    reference
}

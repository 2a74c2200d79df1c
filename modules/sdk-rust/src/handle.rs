//! Handles: which continuation answers which request.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::marker::PhantomData;

use crate::air::Type;
use crate::cbor::{Reader, Stop};
use crate::context::Context;
use crate::fault::Fault;
use crate::request::Effect;
use crate::schema::{Key, Named, Schema, decode};
use crate::sys::{self, EffectError, Receipt, Rejected, StreamFrame};
use crate::types::Map;

/// How a request ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome<R> {
    /// The effect was done; its receipt.
    Ok(R),
    /// The effect failed; the executor's error.
    Error(EffectError),
    /// The time ran out. The effect may have been done.
    Timeout,
    /// The request was canceled. The effect may have been done all the same.
    Canceled,
    /// The executor's answer fits no schema.
    Rejected(Rejection),
}

/// Why an answer was rejected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    pub code: String,
    pub message: String,
}

/// The final answer to a request: a [`Receipt`] or a [`Rejected`].
pub trait Continuation: About {
    fn outcome<R: Named>(&self) -> Result<Outcome<R>, Fault>;
}

/// A message about a request: a [`Receipt`], a [`Rejected`] or a [`StreamFrame`].
pub trait About {
    fn effect(&self) -> &str;
    fn issuer_ref(&self) -> Option<&str>;
}

macro_rules! about {
    ($($name:ident)*) => {
        $(impl About for $name {
            fn effect(&self) -> &str {
                &self.effect
            }

            fn issuer_ref(&self) -> Option<&str> {
                self.issuer_ref.as_deref()
            }
        })*
    };
}

about!(Receipt Rejected StreamFrame);

impl Continuation for Receipt {
    fn outcome<R: Named>(&self) -> Result<Outcome<R>, Fault> {
        Ok(match self.status.as_str() {
            "ok" => Outcome::Ok(self.payload()?),
            "timeout" => Outcome::Timeout,
            "canceled" => Outcome::Canceled,
            _ => Outcome::Error(self.error()?),
        })
    }
}

impl Receipt {
    /// Its payload, as a value of the schema that `payload_schema` names.
    pub fn payload<T: Schema>(&self) -> Result<T, Fault> {
        decode(&self.receipt_payload).map_err(|_| {
            let words = ["the receipt of ", &self.effect, " is not of its schema"];
            Fault::new("sdk_payload", words.concat())
        })
    }

    /// The error that it carries. An executor may also send a receipt with the status `error`: then
    /// the code is `receipt`, and what it says is in `receipt_payload`.
    fn error(&self) -> Result<EffectError, Fault> {
        if self.payload_schema.as_deref() == Some(sys::ERROR) {
            return self.payload();
        }
        Ok(EffectError { code: "receipt".into(), message: String::new(), retryable: false })
    }
}

impl Continuation for Rejected {
    fn outcome<R: Named>(&self) -> Result<Outcome<R>, Fault> {
        let (code, message) = (self.error_code.clone(), self.error_message.clone());
        Ok(Outcome::Rejected(Rejection { code, message }))
    }
}

/// A request in flight, or none. As a field of the state it recognizes the answer when it comes.
///
/// ```
/// # use aos_sdk::prelude::*;
/// # #[derive(Schema)] #[schema("shop/Charged@1")] struct Charged { charge: String }
/// # #[derive(Effect)] #[effect("shop/card.charge@1", receipt = Charged, executor = "shop")]
/// # struct Charge { order_id: String, cents: u64 }
/// #[derive(Schema, Default)]
/// #[schema("shop/OrderState@1")]
/// struct State { charge: Pending<Charge>, paid: Option<String> }
///
/// fn receipt(state: &mut State, receipt: Receipt) -> Result<(), Fault> {
///     match state.charge.settle(&receipt)? {
///         Some(Outcome::Ok(charged)) => state.paid = Some(charged.charge),
///         Some(_) => return Err(Fault::new("unpaid", "the card was not charged")),
///         None => {} // the answer to another request
///     }
///     Ok(())
/// }
/// ```
///
/// In AIR it is `option<text>`: the request's issuer reference, or null when nothing is in flight.
pub struct Pending<E> {
    issuer_ref: Option<String>,
    effect: PhantomData<fn() -> E>,
}

impl<E> Default for Pending<E> {
    fn default() -> Pending<E> {
        Pending { issuer_ref: None, effect: PhantomData }
    }
}

impl<E: Effect> Pending<E> {
    pub(crate) fn new(issuer_ref: String) -> Pending<E> {
        Pending { issuer_ref: Some(issuer_ref), effect: PhantomData }
    }

    /// Whether its answer is still to come.
    pub fn is_open(&self) -> bool {
        self.issuer_ref.is_some()
    }

    /// The reference of the request in flight.
    pub fn issuer_ref(&self) -> Option<&str> {
        self.issuer_ref.as_deref()
    }

    /// Whether a receipt, rejection or stream frame is about this request.
    pub fn is_of(&self, about: &impl About) -> bool {
        self.is_open() && about.issuer_ref() == self.issuer_ref()
    }

    /// How the request ended, if this continuation is its answer. The handle is free again then;
    /// otherwise nothing changes.
    pub fn settle(
        &mut self,
        answer: &impl Continuation,
    ) -> Result<Option<Outcome<E::Receipt>>, Fault> {
        if !self.is_of(answer) {
            return Ok(None);
        }
        let outcome = answer.outcome()?;
        self.issuer_ref = None;
        Ok(Some(outcome))
    }

    /// Ask the kernel to cancel the request, if one is in flight, and say whether there was one.
    /// The handle stays: the answer is `Canceled`, or whatever came before. The workflow's
    /// `effects` must have [`effect::Cancel`](crate::effect::Cancel).
    pub fn cancel(&self, cx: &mut Context<'_>) -> bool {
        if let Some(reference) = &self.issuer_ref {
            cx.effect(sys::effect::Cancel::by_reference(reference.as_str())).forget();
        }
        self.is_open()
    }
}

impl<E> Clone for Pending<E> {
    fn clone(&self) -> Pending<E> {
        Pending { issuer_ref: self.issuer_ref.clone(), effect: PhantomData }
    }
}

impl<E> PartialEq for Pending<E> {
    fn eq(&self, other: &Pending<E>) -> bool {
        self.issuer_ref == other.issuer_ref
    }
}

impl<E> fmt::Debug for Pending<E> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(self.issuer_ref.as_deref().unwrap_or("none"))
    }
}

impl<E: Effect> Schema for Pending<E> {
    const TYPE: Type =
        Type::Noted { words: &["pending", E::EFFECT], of: &Type::Option(&Type::Text) };

    fn write(&self, out: &mut Vec<u8>) {
        self.issuer_ref.write(out);
    }

    fn read(from: &mut Reader<'_>) -> Result<Pending<E>, Stop> {
        Ok(Pending { issuer_ref: Schema::read(from)?, effect: PhantomData })
    }
}

/// Requests in flight under keys of your own: for fan-out, and to know when all have answered.
///
/// ```
/// # use aos_sdk::prelude::*;
/// # #[derive(Schema, Debug)] #[schema("shop/Shipped@1")] struct Shipped { parcel: String }
/// # #[derive(Effect)] #[effect("shop/parcel.ship@1", receipt = Shipped, executor = "shop")]
/// # struct Ship { sku: String }
/// #[derive(Schema, Default)]
/// #[schema("shop/OrderState@1")]
/// struct State { parcels: PendingSet<String, Ship> }
///
/// fn ship(state: &mut State, skus: Vec<String>, cx: &mut Context) {
///     for sku in skus {
///         let parcel = cx.effect(Ship { sku: sku.clone() }).start();
///         state.parcels.insert(sku, parcel);
///     }
/// }
///
/// fn receipt(state: &mut State, receipt: Receipt, cx: &mut Context) -> Result<(), Fault> {
///     if let Some((sku, outcome)) = state.parcels.settle(&receipt)? {
///         log!(cx, "{sku}: {outcome:?}");
///         if state.parcels.is_empty() {
///             cx.status(Status::Completed);
///         }
///     }
///     Ok(())
/// }
/// ```
///
/// In AIR it is `map<K, text>`: each key's issuer reference.
pub struct PendingSet<K, E> {
    references: Map<K, String>,
    effect: PhantomData<fn() -> E>,
}

impl<K, E> Default for PendingSet<K, E> {
    fn default() -> PendingSet<K, E> {
        PendingSet { references: Map::default(), effect: PhantomData }
    }
}

impl<K: Key, E: Effect> PendingSet<K, E> {
    /// How many are in flight.
    pub fn len(&self) -> usize {
        self.references.len()
    }

    pub fn is_empty(&self) -> bool {
        self.references.is_empty()
    }

    /// Whether a request is in flight under this key.
    pub fn contains(&self, key: &K) -> bool {
        self.references.contains(key)
    }

    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.references.keys()
    }

    /// The reference of the request under this key.
    pub fn issuer_ref(&self, key: &K) -> Option<&str> {
        self.references.get(key).map(String::as_str)
    }

    /// Keep a handle under a key. It replaces an earlier one, whose answer is then ignored.
    pub fn insert(&mut self, key: K, pending: Pending<E>) {
        match pending.issuer_ref {
            Some(reference) => self.references.insert(key, reference),
            None => self.references.remove(&key),
        };
    }

    /// The key that a receipt, rejection or stream frame is about.
    pub fn key_of(&self, about: &impl About) -> Option<&K> {
        let reference = about.issuer_ref()?;
        self.references.iter().find(|(_, other)| other == reference).map(|(key, _)| key)
    }

    /// Key and outcome, if this continuation is the answer to one of them, which is taken out then.
    pub fn settle(
        &mut self,
        answer: &impl Continuation,
    ) -> Result<Option<(K, Outcome<E::Receipt>)>, Fault> {
        let Some(reference) = answer.issuer_ref() else { return Ok(None) };
        let Some((key, _)) = self.references.remove_first(|(_, other)| other == reference) else {
            return Ok(None);
        };
        Ok(Some((key, answer.outcome()?)))
    }

    /// As [`Pending::cancel`], of the request under this key.
    pub fn cancel(&self, key: &K, cx: &mut Context<'_>) -> bool {
        if let Some(reference) = self.references.get(key) {
            cx.effect(sys::effect::Cancel::by_reference(reference.as_str())).forget();
        }
        self.contains(key)
    }

    /// Ask the kernel to cancel all of them; how many.
    pub fn cancel_all(&self, cx: &mut Context<'_>) -> usize {
        self.references.values().for_each(|reference| {
            cx.effect(sys::effect::Cancel::by_reference(reference.as_str())).forget();
        });
        self.len()
    }
}

impl<K: Clone, E> Clone for PendingSet<K, E> {
    fn clone(&self) -> PendingSet<K, E> {
        PendingSet { references: self.references.clone(), effect: PhantomData }
    }
}

impl<K: PartialEq, E> PartialEq for PendingSet<K, E> {
    fn eq(&self, other: &PendingSet<K, E>) -> bool {
        self.references == other.references
    }
}

impl<K: fmt::Debug, E> fmt::Debug for PendingSet<K, E> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.references.fmt(to)
    }
}

impl<K: Key, E: Effect> Schema for PendingSet<K, E> {
    const TYPE: Type =
        Type::Noted { words: &["pending set", E::EFFECT], of: &<Map<K, String> as Schema>::TYPE };

    fn write(&self, out: &mut Vec<u8>) {
        self.references.write(out);
    }

    fn read(from: &mut Reader<'_>) -> Result<PendingSet<K, E>, Stop> {
        Ok(PendingSet { references: Schema::read(from)?, effect: PhantomData })
    }
}

//! `shop/order@1`: an order is charged, then every item is shipped on its own, and it is done when
//! the last parcel is on its way, or a day has passed.

#![no_std]

use aos_sdk::prelude::*;
use aos_sdk::Continuation;

const PATIENCE: Duration = Duration::days(1);

/// A customer orders.
#[derive(Schema)]
#[schema("shop/Placed@1")]
pub struct Placed {
    pub order_id: String,
    pub skus: Set<String>,
    pub cents: u64,
}

#[derive(Schema)]
#[schema("shop/Closed@1")]
pub struct Closed {
    pub order_id: String,
    pub parcels: Map<String, String>,
    pub missing: Vec<String>,
}

/// Take the money.
#[derive(Effect)]
#[effect("shop/card.charge@1", receipt = Charged, executor = "shop", timeout_ms = 1000)]
pub struct Charge {
    pub order_id: String,
    pub cents: u64,
}

#[derive(Schema)]
#[schema("shop/Charged@1")]
pub struct Charged {
    pub charge: String,
}

#[derive(Effect)]
#[effect(
    "shop/parcel.ship@1",
    receipt = Shipped,
    executor = "shop",
    timeout_ms = 60000,
    retry(attempts = 3, base_ms = 100, cap_ms = 1000),
    lane = "order_id"
)]
pub struct Ship {
    pub order_id: String,
    pub sku: String,
}

#[derive(Schema)]
#[schema("shop/Shipped@1")]
pub struct Shipped {
    pub parcel: String,
}

#[derive(Event)]
#[schema("shop/OrderEvent@1")]
pub enum Event {
    Placed(Placed),
    Receipt(Receipt),
    Rejected(Rejected),
}

#[derive(Schema, Default, Clone, Copy, PartialEq)]
#[schema("shop/Phase@1")]
pub enum Phase {
    #[default]
    New,
    Charging,
    Shipping,
    Closed,
}

#[derive(Schema, Default)]
#[schema("shop/OrderState@1")]
pub struct State {
    pub phase: Phase,
    pub skus: Set<String>,
    pub charge: Pending<Charge>,
    pub deadline: Pending<timer::Set>,
    pub parcels: PendingSet<String, Ship>,
    /// The parcel of each item that is on its way.
    pub shipped: Map<String, String>,
    pub missing: Vec<String>,
}

#[workflow(
    "shop/order@1",
    key = "shop/OrderId@1",
    effects(Charge, Ship, timer::Set, effect::Cancel),
    routes(Placed by "order_id")
)]
fn order(state: &mut State, event: Event, cx: &mut Context) -> Result<(), Fault> {
    match event {
        Event::Placed(placed) if state.phase == Phase::New => {
            state.phase = Phase::Charging;
            state.skus = placed.skus;
            let charge = Charge { order_id: placed.order_id, cents: placed.cents };
            state.charge = cx.effect(charge).idempotency_key("charge").start();
        }
        Event::Placed(_) => log!(cx, "placed twice"),
        Event::Receipt(receipt) => state.answered(&receipt, cx)?,
        Event::Rejected(rejected) => state.answered(&rejected, cx)?,
    }
    Ok(())
}

impl State {
    fn answered(&mut self, answer: &impl Continuation, cx: &mut Context) -> Result<(), Fault> {
        if let Some(outcome) = self.charge.settle(answer)? {
            match outcome {
                Outcome::Ok(charged) => {
                    log!(cx, "charged as {}", charged.charge);
                    self.ship(cx)?;
                }
                Outcome::Error(error) if !error.retryable => cx.status(Status::Failed),
                _ => {
                    return Err(Fault::new("unclear", "nobody knows whether the card was charged"))
                }
            }
        } else if let Some((sku, outcome)) = self.parcels.settle(answer)? {
            match outcome {
                Outcome::Ok(shipped) => drop(self.shipped.insert(sku, shipped.parcel)),
                _ => self.missing.push(sku),
            }
            self.close_when_done(cx)?;
        } else if self.deadline.settle(answer)?.is_some() {
            self.parcels.cancel_all(cx);
        }
        Ok(())
    }

    fn ship(&mut self, cx: &mut Context) -> Result<(), Fault> {
        self.phase = Phase::Shipping;
        let order_id: String = cx.key()?;
        for sku in &self.skus {
            let parcel = Ship { order_id: order_id.clone(), sku: sku.clone() };
            self.parcels.insert(sku.clone(), cx.effect(parcel).start());
        }
        self.deadline = cx.effect(timer::after(cx, PATIENCE).key("deadline")).start();
        self.close_when_done(cx)
    }

    fn close_when_done(&mut self, cx: &mut Context) -> Result<(), Fault> {
        if self.parcels.is_empty() {
            self.phase = Phase::Closed;
            self.deadline.cancel(cx);
            let (parcels, missing) = (self.shipped.clone(), self.missing.clone());
            cx.emit(Closed { order_id: cx.key()?, parcels, missing });
            cx.status(Status::Completed);
        }
        Ok(())
    }
}

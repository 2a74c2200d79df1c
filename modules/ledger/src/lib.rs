//! `shop/ledger@1` adds up what one customer was charged, refunded and sent, from the events that
//! orders emit.
//!
//! Each order counts once for each kind of event: its line in the ledger recognizes a second copy.
//! The ledger is `completed` while every order in it is settled (charged = refunded + shipped),
//! otherwise `running`.

#![no_std]

use aos_sdk::prelude::*;

#[derive(Schema)]
#[schema("shop/OrderId@1")]
pub struct OrderId(pub String);

#[derive(Schema, Default)]
#[schema("shop/CustomerId@1")]
pub struct CustomerId(pub String);

#[derive(Schema)]
#[schema("shop/OrderCharged@1")]
pub struct OrderCharged {
    pub order_id: OrderId,
    pub customer_id: CustomerId,
    pub amount_cents: u64,
}

#[derive(Schema)]
#[schema("shop/OrderRefunded@1")]
pub struct OrderRefunded {
    pub order_id: OrderId,
    pub customer_id: CustomerId,
    pub amount_cents: u64,
}

#[derive(Schema)]
#[schema("shop/OrderShipped@1")]
pub struct OrderShipped {
    pub order_id: OrderId,
    pub customer_id: CustomerId,
    pub value_cents: u64,
}

#[derive(Event)]
#[schema("shop/LedgerEvent@1")]
pub enum LedgerEvent {
    Charged(OrderCharged),
    Refunded(OrderRefunded),
    Shipped(OrderShipped),
}

/// The sums of one order.
#[derive(Schema, Default)]
#[schema("shop/LedgerLine@1")]
pub struct LedgerLine {
    pub charged_cents: u64,
    pub refunded_cents: u64,
    pub shipped_cents: u64,
}

#[derive(Schema, Default)]
#[schema("shop/LedgerState@1")]
pub struct LedgerState {
    pub customer_id: CustomerId,
    pub charged_cents: u64,
    pub refunded_cents: u64,
    pub shipped_cents: u64,
    pub duplicates: u64,
    pub orders: Map<String, LedgerLine>,
}

/// One line in the record of each step: the step's decision.
#[derive(Schema)]
#[schema("shop/Note@1")]
pub struct Note(pub String);

#[workflow(
    "shop/ledger@1",
    key = CustomerId,
    annotations = Note,
    routes(
        OrderCharged by "customer_id",
        OrderRefunded by "customer_id",
        OrderShipped by "customer_id"
    )
)]
fn ledger(state: &mut LedgerState, event: LedgerEvent, cx: &mut Context) -> Result<(), Fault> {
    if cx.is_new() {
        state.customer_id = cx.key()?;
    }
    let note = state.post(event)?;
    cx.annotate(Note(note.into()));
    cx.status(if state.is_settled() { Status::Completed } else { Status::Running });
    Ok(())
}

impl LedgerState {
    fn post(&mut self, event: LedgerEvent) -> Result<&'static str, Fault> {
        let (OrderId(order_id), cents) = match &event {
            LedgerEvent::Charged(event) => (&event.order_id, event.amount_cents),
            LedgerEvent::Refunded(event) => (&event.order_id, event.amount_cents),
            LedgerEvent::Shipped(event) => (&event.order_id, event.value_cents),
        };
        let line = self.orders.or_default(order_id);
        let (counted, total) = match event {
            LedgerEvent::Charged(_) => (&mut line.charged_cents, &mut self.charged_cents),
            LedgerEvent::Refunded(_) => (&mut line.refunded_cents, &mut self.refunded_cents),
            LedgerEvent::Shipped(_) => (&mut line.shipped_cents, &mut self.shipped_cents),
        };
        if *counted != 0 {
            self.duplicates += 1;
            return Ok("a second copy: not counted");
        }
        *counted = cents;
        *total = total
            .checked_add(cents)
            .ok_or_else(|| Fault::new("overflow", "the customer's total does not fit in a nat"))?;
        Ok("posted")
    }

    fn is_settled(&self) -> bool {
        self.orders.values().all(|line| {
            line.refunded_cents.checked_add(line.shipped_cents) == Some(line.charged_cents)
        })
    }
}

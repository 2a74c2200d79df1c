//! The output of one step of an order: effects, timers, events, and the note with its decision.

use aos_sdk::prelude::*;

use crate::action::{pause_after, Action};
use crate::effects::{CardCharge, CardRefund, ParcelShip, StockRelease, StockReserve};
use crate::shop::{
    CustomerId, Note, OrderAccepted, OrderCharged, OrderClosed, OrderId, OrderRefunded,
    OrderShipped, Outcome,
};
use crate::state::{OrderState, Progress};

/// One step: the order that it changes, and what the step has to say.
pub struct Step<'s, 'c> {
    pub order: &'s mut OrderState,
    pub cx: &'s mut Context<'c>,
    note: String,
}

impl<'s, 'c> Step<'s, 'c> {
    pub fn new(order: &'s mut OrderState, cx: &'s mut Context<'c>) -> Step<'s, 'c> {
        Step { order, cx, note: String::new() }
    }

    /// Add to the step's annotation.
    pub fn note(&mut self, text: &str) {
        if !self.note.is_empty() {
            self.note.push_str("; ");
        }
        self.note.push_str(text);
    }

    pub fn finish(self) {
        self.cx.annotate(Note(self.note));
        self.cx.status(self.order.status());
    }

    /// Leave no cell behind.
    pub fn finish_without_an_order(self) {
        self.cx.annotate(Note(self.note));
        self.cx.delete();
    }

    /// Request the action. Every attempt has the same parameters: under one idempotency key there
    /// is one request.
    pub fn ask(&mut self, action: Action, attempt: u64) {
        self.order.set(action, Progress::Asked(attempt));
        let key = action.idempotency_key(&self.order.order_id);
        let reference = action.reference(attempt);
        let (order_id, customer_id) = self.ids();
        let amount_cents = self.order.amount_cents;
        match action {
            Action::Reserve => {
                let items = self.order.items.clone();
                self.request(StockReserve { order_id, items }, key, reference);
            }
            Action::Charge => {
                let charge = CardCharge { order_id, customer_id, amount_cents };
                self.request(charge, key, reference);
            }
            Action::Ship => {
                let items = self.order.items.clone();
                let ship = ParcelShip { order_id, items, value_cents: amount_cents };
                self.request(ship, key, reference);
            }
            Action::Refund => self.request(CardRefund { order_id }, key, reference),
            Action::Release => self.request(StockRelease { order_id }, key, reference),
        }
        self.note(&format!("{} (attempt {attempt})", action.name()));
    }

    // The progress in the state recognizes the answer by its reference, so no handle is kept.
    fn request<E: Effect>(&mut self, effect: E, key: String, reference: String) {
        self.cx.effect(effect).idempotency_key(key).issuer_ref(reference).forget();
    }

    /// Set the timer for the next attempt.
    pub fn wait(&mut self, action: Action, attempt: u64) {
        let pause = pause_after(attempt);
        let reference = action.reference(attempt) + "/retry";
        let timer = timer::after(self.cx, pause).key(reference.as_str());
        self.cx.effect(timer).issuer_ref(reference).forget();
        self.note(&format!("{} again in {} ms", action.name(), pause.ns() / 1_000_000));
    }

    pub fn accepted(&mut self) {
        let (order_id, customer_id) = self.ids();
        self.cx.emit(OrderAccepted { order_id, customer_id, deadline: self.order.deadline });
    }

    pub fn charged(&mut self) {
        let (order_id, customer_id) = self.ids();
        let amount_cents = self.order.amount_cents;
        self.cx.emit(OrderCharged { order_id, customer_id, amount_cents });
    }

    pub fn refunded(&mut self) {
        let (order_id, customer_id) = self.ids();
        let amount_cents = self.order.amount_cents;
        self.cx.emit(OrderRefunded { order_id, customer_id, amount_cents });
    }

    pub fn shipped(&mut self) {
        let (order_id, customer_id) = self.ids();
        self.cx.emit(OrderShipped { order_id, customer_id, value_cents: self.order.amount_cents });
    }

    pub fn closed(&mut self, outcome: Outcome) {
        let (order_id, customer_id) = self.ids();
        self.cx.emit(OrderClosed { order_id, customer_id, outcome });
    }

    fn ids(&self) -> (OrderId, CustomerId) {
        (self.order.order_id.clone(), self.order.customer_id.clone())
    }
}

//! What a step sends out: asked actions, timers, domain events, and one line that says what it
//! decided.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

use aos_abi::{Effect, Output, Status, Value};

use crate::action::{backoff_ns, Action};
use crate::state::{Order, Outcome, Phase};

pub struct Outbox {
    now_ns: u64,
    effects: Vec<Effect>,
    events: Vec<(&'static str, Value)>,
    note: String,
}

impl Outbox {
    pub fn new(now_ns: u64) -> Outbox {
        Outbox { now_ns, effects: Vec::new(), events: Vec::new(), note: String::new() }
    }

    /// Add to the step's annotation.
    pub fn note(&mut self, text: &str) {
        if !self.note.is_empty() {
            self.note.push_str("; ");
        }
        self.note.push_str(text);
    }

    pub fn ask(&mut self, order: &Order, action: Action, attempt: u64) {
        let id = Value::from(order.order_id.as_str());
        let customer = Value::from(order.customer_id.as_str());
        let cents = Value::from(order.amount_cents);
        // The same for every attempt: one idempotency key stands for one request.
        let params = match action {
            Action::Reserve => Value::record([("order_id", id), ("items", order.items.clone())]),
            Action::Charge => Value::record([
                ("order_id", id),
                ("customer_id", customer),
                ("amount_cents", cents),
            ]),
            Action::Ship => Value::record([
                ("order_id", id),
                ("items", order.items.clone()),
                ("value_cents", cents),
            ]),
            Action::Refund | Action::Release => Value::record([("order_id", id)]),
        };
        self.effects.push(Effect {
            effect: action.effect(),
            params,
            idempotency_key: Some(action.idempotency_key(&order.order_id)),
            issuer_ref: Some(action.reference(attempt)),
        });
        self.note(&format!("{} (attempt {attempt})", action.name()));
    }

    pub fn wait(&mut self, action: Action, attempt: u64) {
        let wait_ns = backoff_ns(attempt);
        let reference = format!("{}/retry", action.reference(attempt));
        let params = Value::record([
            ("deliver_at_ns", Value::from(self.now_ns.saturating_add(wait_ns))),
            ("key", Value::from(reference.as_str())),
        ]);
        self.effects.push(Effect {
            effect: "sys/timer.set@1",
            params,
            idempotency_key: None,
            issuer_ref: Some(reference),
        });
        self.note(&format!("{} again in {} ms", action.name(), wait_ns / 1_000_000));
    }

    pub fn accepted(&mut self, order: &Order) {
        self.emit("shop/OrderAccepted@1", order, ("deadline", Value::from(order.deadline_ns)));
    }

    pub fn charged(&mut self, order: &Order) {
        self.emit("shop/OrderCharged@1", order, ("amount_cents", Value::from(order.amount_cents)));
    }

    pub fn refunded(&mut self, order: &Order) {
        self.emit("shop/OrderRefunded@1", order, ("amount_cents", Value::from(order.amount_cents)));
    }

    pub fn shipped(&mut self, order: &Order) {
        self.emit("shop/OrderShipped@1", order, ("value_cents", Value::from(order.amount_cents)));
    }

    pub fn closed(&mut self, order: &Order, outcome: Outcome) {
        self.emit("shop/OrderClosed@1", order, ("outcome", outcome.value()));
    }

    fn emit(&mut self, schema: &'static str, order: &Order, third: (&str, Value)) {
        let id = Value::from(order.order_id.as_str());
        let customer = Value::from(order.customer_id.as_str());
        self.events
            .push((schema, Value::record([("order_id", id), ("customer_id", customer), third])));
    }

    pub fn finish(self, order: Option<&Order>) -> Output {
        Output {
            state: order.map(Order::value),
            events: self.events,
            effects: self.effects,
            annotation: Some(Value::Text(self.note)),
            status: order.map(status),
        }
    }
}

/// An order that was undone is complete: the process ended as designed. Only one that needs a
/// person failed.
fn status(order: &Order) -> Status {
    match (order.phase, order.outcome) {
        (Phase::Closed, Some(Outcome::Stuck)) => Status::Failed,
        (Phase::Closed, _) => Status::Completed,
        _ => Status::Running,
    }
}

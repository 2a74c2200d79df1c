//! `shop/deadline@1`: a cell that exists from `OrderAccepted` until the order is closed or its
//! deadline has passed.
//!
//! The kernel deletes the timer together with the cell, so a closed order leaves nothing open.

use aos_sdk::prelude::*;

use crate::shop::{OrderAccepted, OrderClosed, OrderId, OrderOverdue};

#[derive(Schema, Default)]
#[schema("shop/DeadlineState@1")]
pub struct DeadlineState {
    pub order_id: OrderId,
    pub deadline: Time,
}

#[derive(Event)]
#[schema("shop/DeadlineEvent@1")]
pub enum DeadlineEvent {
    Accepted(OrderAccepted),
    Closed(OrderClosed),
    Receipt(Receipt),
    Rejected(Rejected),
}

#[workflow(
    "shop/deadline@1",
    key = OrderId,
    effects(timer::Set),
    routes(OrderAccepted by "order_id", OrderClosed by "order_id")
)]
fn deadline(state: &mut DeadlineState, event: DeadlineEvent, cx: &mut Context) {
    match event {
        DeadlineEvent::Accepted(accepted) if cx.is_new() => {
            *state = DeadlineState { order_id: accepted.order_id, deadline: accepted.deadline };
            set_timer(state, cx);
        }
        DeadlineEvent::Accepted(_) => {}
        // The timer itself may have failed, so the clock decides.
        DeadlineEvent::Receipt(_) | DeadlineEvent::Rejected(_)
            if !cx.is_new() && cx.now() < state.deadline =>
        {
            set_timer(state, cx);
        }
        DeadlineEvent::Receipt(_) | DeadlineEvent::Rejected(_) if !cx.is_new() => {
            cx.emit(OrderOverdue { order_id: state.order_id.clone() });
            cx.delete();
        }
        _ => cx.delete(),
    }
}

fn set_timer(state: &DeadlineState, cx: &mut Context) {
    cx.effect(timer::at(state.deadline).key("deadline")).issuer_ref("deadline").forget();
    cx.status(Status::Running);
}

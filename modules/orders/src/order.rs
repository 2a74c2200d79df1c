//! `shop/order@1`: reserve the stock, charge the card, ship the parcel; or refund and release.
//!
//! Rule 1: the parcel is requested only after the charge is known to be done.
//!
//! Rule 2: an action that may have been done is either retried under its own key, or undone by
//! order: refund and release take back what there is and block what is still on its way.
//!
//! Rule 3: refund and release end only with an answer of the shop. If the shop refuses for good, a
//! person has to look.
//!
//! Rule 4: the workflow reports money that moved once, as `OrderCharged`, `OrderRefunded` and
//! `OrderShipped`.

use aos_sdk::prelude::*;

use crate::action::Action;
use crate::answer::{Answer, Reply};
use crate::effects::{CardCharge, CardRefund, ParcelShip, StockRelease, StockReserve};
use crate::requests::Step;
use crate::shop::{Item, Note, OrderCancelRequested, OrderId, OrderOverdue, OrderPlaced, Outcome};
use crate::state::{OrderState, Phase, Progress};

#[derive(Event)]
#[schema("shop/OrderEvent@1")]
pub enum OrderEvent {
    Placed(OrderPlaced),
    CancelRequested(OrderCancelRequested),
    Overdue(OrderOverdue),
    Receipt(Receipt),
    Rejected(Rejected),
}

#[workflow(
    "shop/order@1",
    key = OrderId,
    annotations = Note,
    effects(StockReserve, StockRelease, CardCharge, CardRefund, ParcelShip, timer::Set),
    routes(
        OrderPlaced by "order_id",
        OrderCancelRequested by "order_id" creates = false,
        OrderOverdue by "order_id"
    )
)]
fn order(state: &mut OrderState, event: OrderEvent, cx: &mut Context) -> Result<(), Fault> {
    let is_new = cx.is_new();
    let mut step = Step::new(state, cx);
    match event {
        OrderEvent::Placed(placed) if is_new => step.place(placed),
        _ if is_new => {
            step.note("there is no such order");
            step.finish_without_an_order();
            return Ok(());
        }
        OrderEvent::Placed(_) => step.note("placed again: ignored"),
        OrderEvent::CancelRequested(_) => step.stop(Outcome::Cancelled),
        OrderEvent::Overdue(_) => step.stop(Outcome::Overdue),
        OrderEvent::Receipt(receipt) => step.take(Reply::of_receipt(&receipt)?)?,
        OrderEvent::Rejected(rejected) => step.take(Reply::of_rejection(&rejected)?)?,
    }
    step.finish();
    Ok(())
}

impl Step<'_, '_> {
    fn place(&mut self, placed: OrderPlaced) {
        let amount_cents = amount_cents(&placed.items);
        let patience = placed.patience.max(Duration::ZERO);
        *self.order = OrderState {
            order_id: placed.order_id,
            customer_id: placed.customer_id,
            items: placed.items,
            amount_cents: amount_cents.unwrap_or(0),
            deadline: self.cx.now().checked_add(patience).unwrap_or(Time::from_ns(i64::MAX)),
            ..OrderState::default()
        };
        self.accepted();
        match amount_cents {
            Some(_) => self.ask(Action::Reserve, 1),
            None => self.close(Outcome::Invalid),
        }
    }

    fn stop(&mut self, outcome: Outcome) {
        match self.order.phase {
            Phase::Reserving | Phase::Charging => self.undo(outcome),
            Phase::Shipping => self.note("too late to stop: the parcel is asked for"),
            Phase::Undoing | Phase::Closed => self.note("already over"),
        }
    }

    fn take(&mut self, reply: Reply) -> Result<(), Fault> {
        match reply {
            Reply::Waited { action, attempt } => {
                let is_due = *self.order.progress(action) == Progress::Unclear(attempt);
                if is_due && self.order.wants(action) {
                    self.ask(action, attempt + 1);
                } else {
                    self.note("no retry is due any more");
                }
            }
            Reply::Answered { action, attempt, answer } => {
                if *self.order.progress(action) == Progress::Asked(attempt) {
                    self.answered(action, attempt, answer)?;
                } else {
                    self.late(action, &answer)?;
                    self.note("answered after it was settled otherwise: ignored");
                }
            }
        }
        Ok(())
    }

    fn answered(&mut self, action: Action, attempt: u64, answer: Answer) -> Result<(), Fault> {
        match answer {
            Answer::Done { cents } => self.done(action, cents)?,
            Answer::Refused { code, outcome } => {
                self.note(&format!("{} refused: {code}", action.name()));
                self.order.set(action, Progress::Refused(code));
                match self.order.phase {
                    Phase::Undoing => self.close_when_undone(),
                    Phase::Closed => {}
                    _ => self.undo(outcome),
                }
            }
            Answer::Unclear { code, is_final } => {
                self.note(&format!("{} without a clear answer: {code}", action.name()));
                self.order.set(action, Progress::Unclear(attempt));
                if self.order.wants(action) {
                    self.unclear(action, attempt, code, is_final);
                }
            }
        }
        Ok(())
    }

    fn done(&mut self, action: Action, cents: u64) -> Result<(), Fault> {
        self.note(&format!("{} done", action.name()));
        self.order.set(action, Progress::Done);
        match (self.order.phase, action) {
            (Phase::Reserving, Action::Reserve) => {
                self.order.phase = Phase::Charging;
                self.ask(Action::Charge, 1);
            }
            (Phase::Charging, Action::Charge) => {
                self.same_amount(cents)?;
                self.charged();
                self.order.phase = Phase::Shipping;
                self.ask(Action::Ship, 1);
            }
            (Phase::Shipping, Action::Ship) => {
                self.shipped();
                self.close(Outcome::Shipped);
            }
            // The charge was on its way when the order was stopped. The refund is already
            // requested.
            (Phase::Undoing | Phase::Closed, Action::Charge) => {
                self.same_amount(cents)?;
                self.charged();
            }
            (Phase::Undoing, Action::Refund) => {
                self.refund_done(cents)?;
                self.close_when_undone();
            }
            (Phase::Undoing, Action::Release) => self.close_when_undone(),
            _ => {}
        }
        Ok(())
    }

    /// The refund's receipt shows whether a charge without a clear answer was done.
    fn refund_done(&mut self, refunded_cents: u64) -> Result<(), Fault> {
        let is_known = self.order.charge == Progress::Done;
        if refunded_cents == 0 && !is_known {
            self.note("nothing had been charged");
            self.order.charge = Progress::Refused("voided".into());
            return Ok(());
        }
        self.same_amount(refunded_cents)?;
        if !is_known {
            self.order.charge = Progress::Done;
            self.charged();
        }
        self.refunded();
        Ok(())
    }

    /// A charge that was refused for good must not be done later.
    fn late(&self, action: Action, answer: &Answer) -> Result<(), Fault> {
        match (action, &self.order.charge, answer) {
            (Action::Charge, Progress::Refused(_), Answer::Done { .. }) => {
                Err(contract_broken("the card was charged after the charge had been voided"))
            }
            _ => Ok(()),
        }
    }

    fn same_amount(&self, cents: u64) -> Result<(), Fault> {
        let expected = self.order.amount_cents;
        if cents == expected {
            return Ok(());
        }
        Err(contract_broken(&format!("expected {expected} cents to move, found {cents}")))
    }

    fn unclear(&mut self, action: Action, attempt: u64, code: String, is_final: bool) {
        match action.attempts_max() {
            Some(max) if is_final || attempt >= max => self.undo(Outcome::Unavailable),
            None if is_final => {
                self.order.set(action, Progress::Refused(code));
                match self.order.phase {
                    Phase::Undoing => self.close_when_undone(),
                    _ => self.close(Outcome::Stuck),
                }
            }
            _ => self.wait(action, attempt),
        }
    }

    /// Take back every action that was done or may have been done.
    fn undo(&mut self, outcome: Outcome) {
        self.note(&format!("undoing: {outcome:?}"));
        self.order.phase = Phase::Undoing;
        self.order.outcome = Some(outcome);
        for (action, back) in [(Action::Charge, Action::Refund), (Action::Reserve, Action::Release)]
        {
            if !matches!(self.order.progress(action), Progress::Idle | Progress::Refused(_)) {
                self.ask(back, 1);
            }
        }
        self.close_when_undone();
    }

    fn close_when_undone(&mut self) {
        let mut outcome = self.order.outcome.unwrap_or(Outcome::Stuck);
        for back in [&self.order.refund, &self.order.release] {
            match back {
                Progress::Asked(_) | Progress::Unclear(_) => return,
                Progress::Refused(_) => outcome = Outcome::Stuck,
                Progress::Idle | Progress::Done => {}
            }
        }
        self.close(outcome);
    }

    fn close(&mut self, outcome: Outcome) {
        self.order.phase = Phase::Closed;
        self.order.outcome = Some(outcome);
        self.closed(outcome);
        self.note(&format!("closed: {outcome:?}"));
    }
}

/// The price of all items. None if there is nothing to pay or the sum does not fit.
fn amount_cents(items: &[Item]) -> Option<u64> {
    let mut sum: u64 = 0;
    for item in items {
        sum = sum.checked_add(item.quantity.checked_mul(item.price_cents)?)?;
    }
    (1..=i64::MAX as u64).contains(&sum).then_some(sum)
}

fn contract_broken(found: &str) -> Fault {
    let message = format!("{found}: compare the payment service's books before going on");
    Fault::new("payment_contract_broken", message)
}

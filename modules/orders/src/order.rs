//! `shop/order@1`: reserve the stock, charge the card, ship the parcel; or refund and release.
//!
//! Rule 1: nothing is shipped before the charge is known to be done.
//!
//! Rule 2: an action that may have been done is either asked again under its own key, or undone by
//! order: refund and release take back whatever there is and bar what is still on its way.
//!
//! Rule 3: refund and release end only when the shop has answered. A person is asked where it will
//! not.
//!
//! Rule 4: money that moved is told once, as `OrderCharged`, `OrderRefunded` and `OrderShipped`.

use alloc::format;
use alloc::string::String;

use aos_abi::read::Record;
use aos_abi::{Fault, Input, Output, Value};

use crate::action::Action;
use crate::event::{Answer, Event, Placed};
use crate::outbox::Outbox;
use crate::state::{Order, Outcome, Phase, Progress};

pub fn step(input: Input) -> Result<Output, Fault> {
    let mut outbox = Outbox::new(input.now_ns()?);
    let event = Event::read(&input.event.value)?;
    let before = input.state.as_ref().map(Order::read).transpose()?;
    let after = match (before, event) {
        (None, Event::Placed(placed)) => Some(place(placed, input.now_ns()?, &mut outbox)?),
        (None, _) => {
            outbox.note("there is no such order");
            None
        }
        (Some(mut order), event) => {
            advance(&mut order, event, &mut outbox)?;
            Some(order)
        }
    };
    Ok(outbox.finish(after.as_ref()))
}

fn place(placed: Placed, now_ns: u64, outbox: &mut Outbox) -> Result<Order, Fault> {
    let amount = amount_cents(placed.items)?;
    let deadline_ns = now_ns.saturating_add(placed.patience_ns).min(i64::MAX as u64);
    let items = placed.items.clone();
    let mut order =
        Order::new(placed.order_id, placed.customer_id, items, amount.unwrap_or(0), deadline_ns);
    outbox.accepted(&order);
    if amount.is_some() {
        ask(&mut order, Action::Reserve, 1, outbox);
    } else {
        close(&mut order, Outcome::Invalid, outbox);
    }
    Ok(order)
}

/// The price of all items; `None` when there is nothing to pay or the sum does not fit.
fn amount_cents(items: &Value) -> Result<Option<u64>, Fault> {
    let Value::List(items) = items else { return Ok(None) };
    let mut sum: Option<u64> = Some(0);
    for item in items {
        let item = Record::new(item)?;
        let price = item.nat("quantity")?.checked_mul(item.nat("price_cents")?);
        sum = sum.zip(price).and_then(|(sum, price)| sum.checked_add(price));
    }
    Ok(sum.filter(|sum| (1..=i64::MAX as u64).contains(sum)))
}

fn advance(order: &mut Order, event: Event, outbox: &mut Outbox) -> Result<(), Fault> {
    match event {
        Event::Placed(_) => outbox.note("placed again: ignored"),
        Event::Stop(outcome) => match order.phase {
            Phase::Reserving | Phase::Charging => undo(order, outcome, outbox),
            Phase::Shipping => outbox.note("too late to stop: the parcel is asked for"),
            Phase::Undoing | Phase::Closed => outbox.note("already over"),
        },
        Event::Waited { action, attempt } => {
            if *order.progress(action) == Progress::Unclear(attempt) && wanted(order, action) {
                ask(order, action, attempt + 1, outbox);
            } else {
                outbox.note("no retry is due any more");
            }
        }
        Event::Answered { action, attempt, answer } => {
            if *order.progress(action) == Progress::Asked(attempt) {
                answered(order, action, attempt, answer, outbox)?;
            } else {
                late(order, action, &answer)?;
                outbox.note("answered after it was settled otherwise: ignored");
            }
        }
    }
    Ok(())
}

/// Does the order, where it is now, still want this action done?
fn wanted(order: &Order, action: Action) -> bool {
    matches!(
        (order.phase, action),
        (Phase::Reserving, Action::Reserve)
            | (Phase::Charging, Action::Charge)
            | (Phase::Shipping, Action::Ship)
            | (Phase::Undoing, Action::Refund | Action::Release)
    )
}

fn answered(
    order: &mut Order,
    action: Action,
    attempt: u64,
    answer: Answer,
    outbox: &mut Outbox,
) -> Result<(), Fault> {
    match answer {
        Answer::Done(receipt) => done(order, action, &receipt, outbox),
        Answer::Refused { code, outcome } => {
            outbox.note(&format!("{} refused: {code}", action.name()));
            order.set(action, Progress::Refused(code));
            match order.phase {
                Phase::Undoing => close_when_undone(order, outbox),
                Phase::Closed => {}
                _ => undo(order, outcome, outbox),
            }
            Ok(())
        }
        Answer::Unclear { code, lasting } => {
            outbox.note(&format!("{} without a clear answer: {code}", action.name()));
            order.set(action, Progress::Unclear(attempt));
            if wanted(order, action) {
                unclear(order, action, attempt, code, lasting, outbox);
            }
            Ok(())
        }
    }
}

fn done(
    order: &mut Order,
    action: Action,
    receipt: &Value,
    outbox: &mut Outbox,
) -> Result<(), Fault> {
    let receipt = Record::new(receipt)?;
    outbox.note(&format!("{} done", action.name()));
    order.set(action, Progress::Done);
    match (order.phase, action) {
        (Phase::Reserving, Action::Reserve) => {
            order.phase = Phase::Charging;
            ask(order, Action::Charge, 1, outbox);
        }
        (Phase::Charging, Action::Charge) => {
            same_amount(order, receipt.nat("amount_cents")?)?;
            outbox.charged(order);
            order.phase = Phase::Shipping;
            ask(order, Action::Ship, 1, outbox);
        }
        (Phase::Shipping, Action::Ship) => {
            outbox.shipped(order);
            close(order, Outcome::Shipped, outbox);
        }
        // The charge was on its way when the order was stopped; its refund is asked for already.
        (Phase::Undoing | Phase::Closed, Action::Charge) => {
            same_amount(order, receipt.nat("amount_cents")?)?;
            outbox.charged(order);
        }
        (Phase::Undoing, Action::Refund) => {
            refunded(order, receipt.nat("refunded_cents")?, outbox)?;
            close_when_undone(order, outbox);
        }
        (Phase::Undoing, Action::Release) => close_when_undone(order, outbox),
        _ => {}
    }
    Ok(())
}

/// The refund's receipt settles what became of a charge that had no clear answer.
fn refunded(order: &mut Order, refunded_cents: u64, outbox: &mut Outbox) -> Result<(), Fault> {
    let known = *order.progress(Action::Charge) == Progress::Done;
    if refunded_cents == 0 && !known {
        outbox.note("nothing had been charged");
        order.set(Action::Charge, Progress::Refused(String::from("voided")));
        return Ok(());
    }
    same_amount(order, refunded_cents)?;
    if !known {
        order.set(Action::Charge, Progress::Done);
        outbox.charged(order);
    }
    outbox.refunded(order);
    Ok(())
}

/// A charge that is refused for ever must not come back as done.
fn late(order: &Order, action: Action, answer: &Answer) -> Result<(), Fault> {
    match (action, order.progress(action), answer) {
        (Action::Charge, Progress::Refused(_), Answer::Done(_)) => {
            Err(broken("the card was charged after the charge had been voided"))
        }
        _ => Ok(()),
    }
}

fn same_amount(order: &Order, cents: u64) -> Result<(), Fault> {
    if cents == order.amount_cents {
        return Ok(());
    }
    Err(broken(&format!("expected {} cents to move, found {cents}", order.amount_cents)))
}

fn broken(what: &str) -> Fault {
    Fault::new(
        "payment_contract_broken",
        format!("{what}: compare the payment service's books before going on"),
    )
}

fn unclear(
    order: &mut Order,
    action: Action,
    attempt: u64,
    code: String,
    lasting: bool,
    outbox: &mut Outbox,
) {
    match action.attempts_max() {
        Some(max) if lasting || attempt >= max => undo(order, Outcome::Unavailable, outbox),
        None if lasting => {
            order.set(action, Progress::Refused(code));
            match order.phase {
                Phase::Undoing => close_when_undone(order, outbox),
                _ => close(order, Outcome::Stuck, outbox),
            }
        }
        _ => outbox.wait(action, attempt),
    }
}

fn ask(order: &mut Order, action: Action, attempt: u64, outbox: &mut Outbox) {
    order.set(action, Progress::Asked(attempt));
    outbox.ask(order, action, attempt);
}

/// Take back what was done, or may have been.
fn undo(order: &mut Order, outcome: Outcome, outbox: &mut Outbox) {
    outbox.note(&format!("undoing: {}", outcome.name()));
    order.phase = Phase::Undoing;
    order.outcome = Some(outcome);
    for (action, back) in [(Action::Charge, Action::Refund), (Action::Reserve, Action::Release)] {
        if !matches!(order.progress(action), Progress::Idle | Progress::Refused(_)) {
            ask(order, back, 1, outbox);
        }
    }
    close_when_undone(order, outbox);
}

fn close_when_undone(order: &mut Order, outbox: &mut Outbox) {
    let mut outcome = order.outcome.unwrap_or(Outcome::Stuck);
    for back in [Action::Refund, Action::Release] {
        match order.progress(back) {
            Progress::Asked(_) | Progress::Unclear(_) => return,
            Progress::Refused(_) => outcome = Outcome::Stuck,
            Progress::Idle | Progress::Done => {}
        }
    }
    close(order, outcome, outbox);
}

fn close(order: &mut Order, outcome: Outcome, outbox: &mut Outbox) {
    order.phase = Phase::Closed;
    order.outcome = Some(outcome);
    outbox.closed(order, outcome);
    outbox.note(&format!("closed: {}", outcome.name()));
}

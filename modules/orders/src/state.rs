//! The cell's state: `shop/OrderState@1` as a value and back.

use alloc::string::String;
use alloc::vec::Vec;

use aos_abi::read::{arm, nat, text, Record};
use aos_abi::{Fault, Value};

use crate::action::{Action, ACTIONS};

pub struct Order {
    pub order_id: String,
    pub customer_id: String,
    /// `list<shop/Item@1>`, passed on as it came.
    pub items: Value,
    pub amount_cents: u64,
    pub deadline_ns: u64,
    pub phase: Phase,
    /// Why the order is being undone, or how it ended.
    pub outcome: Option<Outcome>,
    /// One for each of `ACTIONS`.
    progress: Vec<Progress>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    Reserving,
    Charging,
    /// The parcel is asked for: from here the order only goes forward, unless the carrier refuses
    /// it.
    Shipping,
    Undoing,
    Closed,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Shipped,
    OutOfStock,
    Declined,
    Undeliverable,
    Overdue,
    Cancelled,
    /// Stock or payment gave no clear answer, however often they were asked.
    Unavailable,
    /// There is nothing to pay, or too much for a number.
    Invalid,
    /// A step that must not be given up was refused: a person has to look.
    Stuck,
}

#[derive(Clone, PartialEq, Eq)]
pub enum Progress {
    Idle,
    /// This attempt is on its way.
    Asked(u64),
    /// This attempt ended without a clear answer.
    Unclear(u64),
    Done,
    /// It was not done and will not be; the code says why.
    Refused(String),
}

const PHASES: [(Phase, &str); 5] = [
    (Phase::Reserving, "Reserving"),
    (Phase::Charging, "Charging"),
    (Phase::Shipping, "Shipping"),
    (Phase::Undoing, "Undoing"),
    (Phase::Closed, "Closed"),
];

const OUTCOMES: [(Outcome, &str); 9] = [
    (Outcome::Shipped, "Shipped"),
    (Outcome::OutOfStock, "OutOfStock"),
    (Outcome::Declined, "Declined"),
    (Outcome::Undeliverable, "Undeliverable"),
    (Outcome::Overdue, "Overdue"),
    (Outcome::Cancelled, "Cancelled"),
    (Outcome::Unavailable, "Unavailable"),
    (Outcome::Invalid, "Invalid"),
    (Outcome::Stuck, "Stuck"),
];

impl Order {
    pub fn new(
        order_id: &str,
        customer_id: &str,
        items: Value,
        amount_cents: u64,
        deadline_ns: u64,
    ) -> Order {
        Order {
            order_id: String::from(order_id),
            customer_id: String::from(customer_id),
            items,
            amount_cents,
            deadline_ns,
            phase: Phase::Reserving,
            outcome: None,
            progress: ACTIONS.iter().map(|_| Progress::Idle).collect(),
        }
    }

    pub fn progress(&self, action: Action) -> &Progress {
        &self.progress[action as usize]
    }

    pub fn set(&mut self, action: Action, progress: Progress) {
        self.progress[action as usize] = progress;
    }

    pub fn read(value: &Value) -> Result<Order, Fault> {
        let record = Record::new(value)?;
        let mut order = Order::new(
            record.text("order_id")?,
            record.text("customer_id")?,
            record.get("items").clone(),
            record.nat("amount_cents")?,
            record.nat("deadline")?,
        );
        order.phase = named(&PHASES, record.arm("phase")?.0)?;
        order.outcome = record.optional("outcome", |value| named(&OUTCOMES, arm(value)?.0))?;
        for action in ACTIONS {
            order.set(action, Progress::read(record.get(action.name()))?);
        }
        Ok(order)
    }

    pub fn value(&self) -> Value {
        let mut fields = Vec::with_capacity(12);
        let mut add = |name: &str, value: Value| fields.push((Value::from(name), value));
        add("order_id", Value::from(self.order_id.as_str()));
        add("customer_id", Value::from(self.customer_id.as_str()));
        add("items", self.items.clone());
        add("amount_cents", Value::from(self.amount_cents));
        add("deadline", Value::from(self.deadline_ns));
        add("phase", Value::unit_arm(spelling(&PHASES, self.phase)));
        add("outcome", Value::from(self.outcome.map(Outcome::value)));
        for action in ACTIONS {
            add(action.name(), self.progress(action).value());
        }
        Value::Map(fields)
    }
}

impl Outcome {
    pub fn name(self) -> &'static str {
        spelling(&OUTCOMES, self)
    }

    pub fn value(self) -> Value {
        Value::unit_arm(self.name())
    }
}

impl Progress {
    fn read(value: &Value) -> Result<Progress, Fault> {
        let (tag, inside) = arm(value)?;
        let attempt = nat(inside).unwrap_or(0);
        Ok(match tag {
            "Idle" => Progress::Idle,
            "Asked" => Progress::Asked(attempt),
            "Unclear" => Progress::Unclear(attempt),
            "Done" => Progress::Done,
            "Refused" => Progress::Refused(String::from(text(inside).unwrap_or(""))),
            _ => return Err(unknown(tag)),
        })
    }

    fn value(&self) -> Value {
        match self {
            Progress::Idle => Value::unit_arm("Idle"),
            Progress::Asked(attempt) => Value::arm("Asked", Value::from(*attempt)),
            Progress::Unclear(attempt) => Value::arm("Unclear", Value::from(*attempt)),
            Progress::Done => Value::unit_arm("Done"),
            Progress::Refused(code) => Value::arm("Refused", Value::from(code.as_str())),
        }
    }
}

fn named<T: Copy>(table: &[(T, &str)], name: &str) -> Result<T, Fault> {
    table
        .iter()
        .find(|(_, spelled)| *spelled == name)
        .map(|(arm, _)| *arm)
        .ok_or_else(|| unknown(name))
}

fn spelling<T: Copy + PartialEq>(table: &[(T, &'static str)], arm: T) -> &'static str {
    table.iter().find(|(other, _)| *other == arm).map_or("", |(_, name)| name)
}

fn unknown(name: &str) -> Fault {
    Fault::new(
        "state_mismatch",
        alloc::format!("the state holds {name}, which this module does not know"),
    )
}

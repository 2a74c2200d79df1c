//! `shop/ledger@1`: what one customer was charged, refunded and sent, from the events that orders
//! emit.
//!
//! Each order counts once for each kind of event: the lines of the ledger are the fence against a
//! second copy. The ledger is `completed` while every order in it is settled (charged = refunded +
//! shipped), else `running`.

#![no_std]

extern crate alloc;

use alloc::string::String;
use alloc::vec::Vec;

use aos_abi::read::{arm, text, Record};
use aos_abi::{Fault, Input, Output, Status, Value};

aos_abi::workflow!(ledger, step);

/// Cents by kind: charged, refunded, shipped.
type Cents = [u64; 3];

const FIELDS: [&str; 3] = ["charged_cents", "refunded_cents", "shipped_cents"];

struct Ledger {
    customer_id: String,
    total: Cents,
    lines: Vec<(String, Cents)>,
    duplicates: u64,
}

struct Posting<'a> {
    customer_id: &'a str,
    order_id: &'a str,
    kind: usize,
    cents: u64,
}

fn step(input: Input) -> Result<Output, Fault> {
    let posting = Posting::read(&input.event.value)?;
    let mut ledger = match &input.state {
        Some(state) => Ledger::read(state)?,
        None => Ledger::new(posting.customer_id),
    };
    let note = ledger.post(&posting)?;
    Ok(Output {
        state: Some(ledger.value()),
        annotation: Some(Value::from(note)),
        status: Some(if ledger.is_settled() { Status::Completed } else { Status::Running }),
        ..Output::default()
    })
}

impl<'a> Posting<'a> {
    fn read(event: &'a Value) -> Result<Posting<'a>, Fault> {
        let (tag, inside) = arm(event)?;
        let record = Record::new(inside)?;
        let (kind, cents) = match tag {
            "Charged" => (0, record.nat("amount_cents")?),
            "Refunded" => (1, record.nat("amount_cents")?),
            "Shipped" => (2, record.nat("value_cents")?),
            _ => {
                return Err(Fault::new(
                    "unknown_arm",
                    "a ledger takes Charged, Refunded and Shipped",
                ))
            }
        };
        Ok(Posting {
            customer_id: record.text("customer_id")?,
            order_id: record.text("order_id")?,
            kind,
            cents,
        })
    }
}

impl Ledger {
    fn new(customer_id: &str) -> Ledger {
        Ledger {
            customer_id: String::from(customer_id),
            total: [0; 3],
            lines: Vec::new(),
            duplicates: 0,
        }
    }

    fn post(&mut self, posting: &Posting) -> Result<&'static str, Fault> {
        let at = self.lines.iter().position(|(order_id, _)| order_id == posting.order_id);
        let at = at.unwrap_or_else(|| {
            self.lines.push((String::from(posting.order_id), [0; 3]));
            self.lines.len() - 1
        });
        let line = &mut self.lines[at].1[posting.kind];
        if *line != 0 {
            self.duplicates += 1;
            return Ok("a second copy: not counted");
        }
        *line = posting.cents;
        let total = &mut self.total[posting.kind];
        *total = total
            .checked_add(posting.cents)
            .ok_or_else(|| Fault::new("overflow", "the customer's total does not fit in a nat"))?;
        Ok("posted")
    }

    fn is_settled(&self) -> bool {
        self.lines.iter().all(|(_, [charged, refunded, shipped])| {
            refunded.checked_add(*shipped) == Some(*charged)
        })
    }

    fn read(value: &Value) -> Result<Ledger, Fault> {
        let record = Record::new(value)?;
        let mut lines = Vec::new();
        for (order_id, line) in record.pairs("orders")? {
            lines.push((String::from(text(order_id).unwrap_or("")), cents(&Record::new(line)?)?));
        }
        Ok(Ledger {
            customer_id: String::from(record.text("customer_id")?),
            total: cents(&record)?,
            lines,
            duplicates: record.nat("duplicates")?,
        })
    }

    fn value(&self) -> Value {
        let lines = self.lines.iter().map(|(order_id, line)| {
            let fields = FIELDS
                .iter()
                .zip(line)
                .map(|(name, cents)| (Value::from(*name), Value::from(*cents)));
            (Value::from(order_id.as_str()), Value::Map(fields.collect()))
        });
        let [charged, refunded, shipped] = self.total;
        Value::record([
            ("customer_id", Value::from(self.customer_id.as_str())),
            ("charged_cents", Value::from(charged)),
            ("refunded_cents", Value::from(refunded)),
            ("shipped_cents", Value::from(shipped)),
            ("duplicates", Value::from(self.duplicates)),
            ("orders", Value::Map(lines.collect())),
        ])
    }
}

fn cents(record: &Record) -> Result<Cents, Fault> {
    Ok([record.nat(FIELDS[0])?, record.nat(FIELDS[1])?, record.nat(FIELDS[2])?])
}

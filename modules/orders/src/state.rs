//! The state of an order's cell.

use aos_sdk::prelude::*;

use crate::action::Action;
use crate::shop::{CustomerId, Item, OrderId, Outcome};

#[derive(Schema, Default)]
#[schema("shop/OrderState@1")]
pub struct OrderState {
    pub order_id: OrderId,
    pub customer_id: CustomerId,
    pub items: Vec<Item>,
    pub amount_cents: u64,
    pub deadline: Time,
    pub phase: Phase,
    pub outcome: Option<Outcome>,
    pub reserve: Progress,
    pub charge: Progress,
    pub ship: Progress,
    pub refund: Progress,
    pub release: Progress,
}

#[derive(Schema, Clone, Copy, Default, PartialEq)]
#[schema("shop/Phase@1")]
pub enum Phase {
    #[default]
    Reserving,
    Charging,
    /// The parcel is requested: from here the order only goes forward, unless the carrier refuses
    /// it.
    Shipping,
    Undoing,
    Closed,
}

/// How far one action is. The number is the number of the attempt.
#[derive(Schema, Default, PartialEq)]
#[schema("shop/Progress@1")]
pub enum Progress {
    #[default]
    Idle,
    /// This attempt has no answer yet.
    Asked(u64),
    /// This attempt ended without a clear answer.
    Unclear(u64),
    Done,
    /// The action was not done and never will be; the text is the error code.
    Refused(String),
}

impl OrderState {
    pub fn progress(&self, action: Action) -> &Progress {
        match action {
            Action::Reserve => &self.reserve,
            Action::Charge => &self.charge,
            Action::Ship => &self.ship,
            Action::Refund => &self.refund,
            Action::Release => &self.release,
        }
    }

    pub fn set(&mut self, action: Action, progress: Progress) {
        *match action {
            Action::Reserve => &mut self.reserve,
            Action::Charge => &mut self.charge,
            Action::Ship => &mut self.ship,
            Action::Refund => &mut self.refund,
            Action::Release => &mut self.release,
        } = progress;
    }

    /// Whether the order, in its phase, still wants this action done.
    pub fn wants(&self, action: Action) -> bool {
        matches!(
            (self.phase, action),
            (Phase::Reserving, Action::Reserve)
                | (Phase::Charging, Action::Charge)
                | (Phase::Shipping, Action::Ship)
                | (Phase::Undoing, Action::Refund | Action::Release)
        )
    }

    /// An undone order is complete: the process ended as designed. Only an order that needs a
    /// person has failed.
    pub fn status(&self) -> Status {
        match (self.phase, self.outcome) {
            (Phase::Closed, Some(Outcome::Stuck)) => Status::Failed,
            (Phase::Closed, _) => Status::Completed,
            _ => Status::Running,
        }
    }
}

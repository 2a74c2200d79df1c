//! The second release of `club/membership@1`: a new price.
//!
//! `upgrade = "in_place"` lets memberships continue with this release. `version` keeps the old price
//! for a month whose charge the first release has already requested.
//!
//! Rule 1: month n begins n calendar months after the start, whenever its charge succeeded.
//!
//! Rule 2: a card without money, and a bank that does not answer, are tried again after one, two and
//! four days. Then the membership ends unpaid.
//!
//! Rule 3: a cancellation counts at any time. It cancels a charge that is in flight, and pays it
//! back if it happened.

#![no_std]
#![deny(unused_must_use)]

use aos_sdk::prelude::*;

const MONTHS: u64 = 12;
const OLD_PRICE_CENTS: u64 = 900;
const PRICE_CENTS: u64 = 1200;
const CARD: Retry = Retry::attempts(4).pauses(Duration::days(1), Duration::days(4));

#[derive(Schema)]
#[schema("club/Joined@1")]
pub struct Joined {
    pub member_id: String,
    pub card: String,
}

#[derive(Schema)]
#[schema("club/Left@1")]
pub struct Left {
    pub member_id: String,
    pub reason: String,
}

#[derive(Effect)]
#[effect("club/card.charge@1", receipt = Charged, executor = "bank", timeout_ms = 30000)]
pub struct Charge {
    pub card: String,
    pub month: u64,
    pub cents: u64,
}

#[derive(Schema)]
#[schema("club/Charged@1")]
pub struct Charged {
    pub charge: String,
}

/// Pays back the charge of this month, if there is one, and blocks one that is still on its way.
#[derive(Effect)]
#[effect("club/card.refund@1", receipt = Refunded, executor = "bank", timeout_ms = 30000)]
pub struct Refund {
    pub card: String,
    pub month: u64,
}

#[derive(Schema)]
#[schema("club/Refunded@1")]
pub struct Refunded {
    pub cents: u64,
}

/// The view: the months that are paid, and their sum.
#[derive(Schema, Clone, Default)]
#[schema("club/Account@1")]
pub struct Account {
    pub months: u64,
    pub cents: u64,
}

/// How a membership ends: the output.
#[derive(Schema)]
#[schema("club/Ended@1")]
pub enum Ended {
    /// The year is over.
    Expired { cents: u64 },
    Unpaid { month: u64, why: String },
    Left { reason: String },
}

#[flow(
    "club/membership@1",
    key = "club/MemberId@1",
    start(Joined by "member_id"),
    listens(Left by "member_id"),
    effects(Charge, Refund),
    view = Account,
    module = "club/flow-subscription.module@1",
    upgrade = "in_place"
)]
async fn membership(cx: Cx, joined: Joined) -> Result<Ended, FlowError> {
    let won = cx
        .race("year", [
            branch("months", async || months(cx, &joined).await),
            branch("left", async || {
                let left = cx.listen::<Left>("left").await?;
                Ok(Ended::Left { reason: left.reason })
            }),
        ])
        .rollback_losers()
        .await?;
    Ok(won.value)
}

/// The state of the loop is stored after each month, and the history of the month is dropped.
async fn months(cx: Cx, joined: &Joined) -> Result<Ended, FlowError> {
    cx.publish(Account::default());
    cx.loop_("month", Account::default(), async |account| {
        let month = account.months;
        cx.checkpoint("unpaid").await?;
        let account = match pay(cx, joined, account).await {
            Ok(account) => account,
            Err(error) => {
                // Pay back a charge whose outcome is unknown.
                cx.rollback_to("undo", "unpaid").await?;
                return Ok(Loop::Break(Ended::Unpaid { month, why: error.code().into() }));
            }
        };
        cx.publish(account.clone());
        let next = cx.started_at().add_months(account.months as i64);
        let next = next.ok_or(FlowError::rollback("calendar", "the next month has no date"))?;
        cx.sleep_until("next", next).await?;
        Ok(match account.months {
            MONTHS => Loop::Break(Ended::Expired { cents: account.cents }),
            _ => Loop::Continue(account),
        })
    })
    .await
}

/// Charge the next month.
async fn pay(cx: Cx, joined: &Joined, paid: Account) -> Result<Account, FlowError> {
    let month = paid.months;
    let cents = match cx.version("price", 2).await? {
        1 => OLD_PRICE_CENTS,
        _ => PRICE_CENTS,
    };
    let charge = Charge { card: joined.card.clone(), month, cents };
    let refund = || Refund { card: joined.card.clone(), month };
    // The bank knows the key of the charge, so a timeout is retried, too.
    cx.step("charge", charge).retry(CARD).retry_timeouts().rollback_unknown(refund).await?;
    Ok(Account { months: month + 1, cents: paid.cents + cents })
}

//! `aos/schedule@1`: events at the times of a calendar (`spec/schedule.md`).
//!
//! A schedule is a cell. It asks the host for the next times of its cron text (`sys/cron.next@1`),
//! has one timer open for the first of them, and emits its event when the timer fires. So the journal
//! has each due time once: as an event, or counted as skipped.
//!
//! Every step is annotated with `aos/ScheduleAnswer@1`.

#![no_std]

extern crate alloc;

mod events;
mod schedule;
mod times;

use aos_sdk::prelude::*;

use events::{Answer, Delete, Done, Pause, Resume, Set, Trigger};
use schedule::{Schedule, ScheduleEvent};

#[derive(Schema)]
#[schema("aos/ScheduleId@1")]
pub struct ScheduleId(pub String);

/// One schedule. The cell exists until the schedule is deleted.
#[workflow(
    "aos/schedule@1",
    key = "aos/ScheduleId@1",
    module = "aos/schedule.module@1",
    annotations = Answer,
    lifecycle = "explicit",
    upgrade = "in_place",
    limits(output_bytes = 4194304, state_bytes = 1048576, events = 64, effects = 64),
    effects(timer::Set, cron::Next, effect::Cancel),
    routes(
        Set by "id",
        Pause by "id" creates = false,
        Resume by "id" creates = false,
        Trigger by "id" creates = false,
        Delete by "id" creates = false,
        Done by "schedule" creates = false
    )
)]
fn schedule(state: &mut Schedule, event: ScheduleEvent, cx: &mut Context) -> Result<(), Fault> {
    let answer = state.take(event, cx)?;
    cx.annotate(answer);
    Ok(())
}

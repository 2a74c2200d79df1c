//! The events of a schedule, and the answers to them.

use aos_sdk::Map;
use aos_sdk::prelude::*;

/// Set a schedule: a new one, or another definition for a known one, whose counts stay.
#[derive(Schema, Clone, PartialEq)]
#[schema("aos/ScheduleSet@1")]
pub struct Set {
    pub id: String,
    pub when: When,
    /// No time before this one, and none after `end`.
    pub start: Option<Time>,
    pub end: Option<Time>,
    /// After an outage, times at most this long ago are made up; others are counted.
    pub catchup: Duration,
    pub overlap: Overlap,
    /// Each time is delayed by up to this long, at random.
    pub jitter: Duration,
    /// Whether it begins in a pause.
    pub paused: bool,
    /// Whether the manifest in force has it.
    pub by_manifest: bool,
    /// The schema of the event.
    pub event: String,
    /// Its fields, each as canonical CBOR.
    pub value: Map<String, Vec<u8>>,
    /// A text field that becomes `<id>@<due time>`.
    pub at_field: Option<String>,
}

#[derive(Schema, Clone, PartialEq)]
#[schema("aos/ScheduleWhen@1")]
pub enum When {
    /// The times of a cron text in a time zone.
    Cron { cron: String, tz: String },
    /// Multiples of an interval, since 1970 or since `start`.
    Every { interval: Duration },
}

#[derive(Schema, Clone, Copy, Default, PartialEq)]
#[schema("aos/ScheduleOverlap@1")]
pub enum Overlap {
    /// Emit the event at each time.
    #[default]
    #[schema(rename = "allow")]
    Allow,
    /// Skip the times before `aos/ScheduleDone@1` has answered the last event.
    #[schema(rename = "skip")]
    Skip,
}

#[derive(Schema)]
#[schema("aos/SchedulePause@1")]
pub struct Pause {
    pub id: String,
}

#[derive(Schema)]
#[schema("aos/ScheduleResume@1")]
pub struct Resume {
    pub id: String,
}

/// Emit the event now, in addition to the times of the schedule.
#[derive(Schema)]
#[schema("aos/ScheduleTrigger@1")]
pub struct Trigger {
    pub id: String,
}

#[derive(Schema)]
#[schema("aos/ScheduleDelete@1")]
pub struct Delete {
    pub id: String,
}

/// The end of the work that a schedule started. Any workflow may emit it; `aos/linear@1` does.
#[derive(Schema)]
#[schema("aos/ScheduleDone@1")]
pub struct Done {
    pub schedule: String,
}

/// The annotation of every step: the answer to the sender of its event.
#[derive(Schema)]
#[schema("aos/ScheduleAnswer@1")]
pub enum Answer {
    Done,
    Refused { detail: String },
}

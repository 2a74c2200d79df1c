//! A schedule: its definition, its next times, and what became of the last ones.

use alloc::format;

use aos_sdk::cbor;
use aos_sdk::prelude::*;

use crate::events::{Answer, Delete, Done, Overlap, Pause, Resume, Set, Trigger, When};
use crate::times;

/// Times that are known ahead.
const AHEAD: usize = 5;
/// Times that one question asks for while an outage is made up.
const BEHIND: usize = 256;
/// Events that one step emits, and their bytes.
const EVENTS_MAX: usize = 32;
const EVENT_BYTES_MAX: usize = 2 << 20;
/// A time that is handled later than this, and the jitter, was missed.
const TOLERANCE: Duration = Duration::minutes(1);
const RECENT_MAX: usize = 10;
const NAME_BYTES_MAX: usize = 256;
const VALUE_BYTES_MAX: usize = 256 << 10;
const INTERVAL_MIN: Duration = Duration::seconds(1);

#[derive(Event)]
#[schema("aos/ScheduleEvent@1")]
pub enum ScheduleEvent {
    Set(Set),
    Pause(Pause),
    Resume(Resume),
    Trigger(Trigger),
    Delete(Delete),
    Done(Done),
    Receipt(Receipt),
}

#[derive(Schema, Default)]
#[schema("aos/ScheduleState@1")]
pub struct Schedule {
    pub set: Option<Set>,
    pub paused: bool,
    /// The times that come next, ascending.
    pub next: Vec<Time>,
    /// The times up to this one are dealt with.
    pub after: Time,
    pub asked: Pending<cron::Next>,
    pub timer: Pending<timer::Set>,
    /// Whether the last event is not done yet; only with `overlap: skip`.
    pub running: bool,
    pub runs: u64,
    pub made_up: u64,
    /// Times older than the catch-up.
    pub skipped: u64,
    /// Times at which the last event was not done.
    pub overlapped: u64,
    /// The last ten events, oldest first.
    pub recent: Vec<Run>,
    /// Why there are no next times.
    pub problem: Option<String>,
    /// The release of the time zones' rules by which `next` was found.
    pub tzdata: Option<String>,
}

#[derive(Schema)]
#[schema("aos/ScheduleRun@1")]
pub struct Run {
    pub due: Time,
    pub at: Time,
    pub kind: RunKind,
}

#[derive(Schema, Clone, Copy, PartialEq)]
#[schema("aos/ScheduleRunKind@1")]
pub enum RunKind {
    #[schema(rename = "on_time")]
    OnTime,
    #[schema(rename = "made_up")]
    MadeUp,
    #[schema(rename = "triggered")]
    Triggered,
}

fn refused(detail: &str) -> Answer {
    Answer::Refused { detail: detail.into() }
}

impl Schedule {
    pub fn take(&mut self, event: ScheduleEvent, cx: &mut Context) -> Result<Answer, Fault> {
        Ok(match event {
            ScheduleEvent::Set(set) => self.define(set, cx),
            ScheduleEvent::Pause(_) => self.pause(cx),
            ScheduleEvent::Resume(_) => self.resume(cx),
            ScheduleEvent::Trigger(_) => self.trigger(cx),
            ScheduleEvent::Delete(_) => {
                cx.delete();
                Answer::Done
            }
            ScheduleEvent::Done(_) => {
                self.running = false;
                Answer::Done
            }
            ScheduleEvent::Receipt(receipt) => self.receipt(receipt, cx)?,
        })
    }

    /// SC-1.
    fn define(&mut self, set: Set, cx: &mut Context) -> Answer {
        if let Some(why) = wrong(&set) {
            if self.set.is_none() {
                cx.delete();
            }
            return refused(why);
        }
        if self.set.as_ref() == Some(&set) {
            return Answer::Done;
        }
        if self.set.as_ref().is_none_or(|before| before.paused != set.paused) {
            self.paused = set.paused;
        }
        if set.overlap == Overlap::Allow {
            self.running = false;
        }
        self.after = cx.now();
        if let Some(start) = set.start {
            self.after = self.after.max(Time::from_ns(start.ns().saturating_sub(1)));
        }
        self.set = Some(set);
        self.plan_again(cx);
        Answer::Done
    }

    fn pause(&mut self, cx: &mut Context) -> Answer {
        if !self.paused {
            self.paused = true;
            self.stop(cx);
        }
        Answer::Done
    }

    fn resume(&mut self, cx: &mut Context) -> Answer {
        if self.paused {
            self.paused = false;
            // Times in the pause are not made up: the pause was wanted.
            self.after = self.after.max(cx.now());
            self.plan_again(cx);
        }
        Answer::Done
    }

    fn trigger(&mut self, cx: &mut Context) -> Answer {
        if self.running {
            return refused("the last event is not done yet (overlap: skip)");
        }
        self.fire(cx.now(), RunKind::Triggered, cx);
        Answer::Done
    }

    // The next times

    /// Give up the timer, the question, and the times that are known.
    fn stop(&mut self, cx: &mut Context) {
        self.timer.cancel(cx);
        self.timer = Pending::default();
        self.asked = Pending::default();
        self.next.clear();
    }

    fn plan_again(&mut self, cx: &mut Context) {
        self.stop(cx);
        self.problem = None;
        self.plan(cx);
    }

    /// Have a timer open for the next time, or a question for more times.
    fn plan(&mut self, cx: &mut Context) {
        if self.paused || self.timer.is_open() || self.asked.is_open() {
            return;
        }
        if let Some(first) = self.next.first() {
            let jitter = self.set.as_ref().map_or(0, |set| set.jitter.ns());
            let delay = if jitter > 0 { cx.random_below(jitter as u64) as i64 } else { 0 };
            let at = first.checked_add(Duration::from_ns(delay)).unwrap_or(*first);
            self.timer = cx.effect(timer::at(at)).start();
        } else {
            self.ask(cx);
        }
    }

    /// Find more times: those of an interval here, those of a cron text outside.
    fn ask(&mut self, cx: &mut Context) {
        let Some(set) = &self.set else { return };
        let now = cx.now();
        match &set.when {
            When::Every { interval } => {
                let (origin, interval) = (set.start.unwrap_or_default(), *interval);
                // Where nothing is made up, counting is enough.
                let (tolerance, catchup) = (TOLERANCE + set.jitter, set.catchup);
                let longest = if catchup > tolerance { catchup } else { tolerance };
                let before = times::minus(now, longest);
                let before = set.end.map_or(before, |end| before.min(end));
                if let Some((last, count)) = times::last(origin, interval, self.after, before) {
                    self.after = last;
                    self.skipped += count;
                }
                let count = if self.after < now { BEHIND } else { AHEAD };
                let found = times::multiples(origin, interval, self.after, count);
                self.known(found, cx);
            }
            When::Cron { cron, tz } => {
                let count = if self.after < now { BEHIND } else { AHEAD };
                let question = cron::next(cx, cron.clone(), tz.clone());
                self.asked = cx.effect(question.after(self.after).count(count as u64)).start();
            }
        }
    }

    fn known(&mut self, found: Vec<Time>, cx: &mut Context) {
        let end = self.set.as_ref().and_then(|set| set.end);
        self.next = found;
        self.next.retain(|time| end.is_none_or(|end| *time <= end));
        if self.next.is_empty() {
            self.problem = Some("there are no more times".into());
        } else {
            self.problem = None;
            self.plan(cx);
        }
    }

    fn receipt(&mut self, receipt: Receipt, cx: &mut Context) -> Result<Answer, Fault> {
        if let Some(outcome) = self.timer.settle(&receipt)? {
            if matches!(outcome, Outcome::Ok(_)) {
                self.handle_due(cx);
            } else {
                // Someone canceled the timer: the schedule still has a next time.
                self.plan(cx);
            }
        } else if let Some(outcome) = self.asked.settle(&receipt)? {
            match outcome {
                Outcome::Ok(found) => {
                    let times = found.times().collect();
                    self.tzdata = Some(found.tzdata);
                    self.known(times, cx);
                }
                Outcome::Error(error) => self.problem = Some(error.message),
                _ => self.problem = Some("the question for the next times has no answer".into()),
            }
        }
        Ok(Answer::Done)
    }

    fn handle_due(&mut self, cx: &mut Context) {
        let now = cx.now();
        let (mut emitted, mut dealt_with) = (0, 0);
        let size = self.set.as_ref().map_or(0, |set| NAME_BYTES_MAX * 2 + bytes(set));
        let most = EVENTS_MAX.min(EVENT_BYTES_MAX / size.max(1));
        while let Some(&due) = self.next.get(dealt_with) {
            if due > now || emitted == most {
                break;
            }
            emitted += usize::from(self.one(due, now, cx));
            self.after = due;
            dealt_with += 1;
        }
        self.next.drain(..dealt_with);
        self.plan(cx);
    }

    /// Deal with one due time; whether an event was emitted (SC-10, SC-11).
    fn one(&mut self, due: Time, now: Time, cx: &mut Context) -> bool {
        let Some(set) = &self.set else { return false };
        let late = now - due;
        let was_missed = late > TOLERANCE + set.jitter;
        if was_missed && late > set.catchup {
            self.skipped += 1;
            return false;
        }
        if self.running {
            self.overlapped += 1;
            return false;
        }
        self.fire(due, if was_missed { RunKind::MadeUp } else { RunKind::OnTime }, cx);
        true
    }

    fn fire(&mut self, due: Time, kind: RunKind, cx: &mut Context) {
        let Some(set) = &self.set else { return };
        cx.output().event(&set.event, &value(set, due), None);
        self.running = set.overlap == Overlap::Skip;
        self.runs += 1;
        self.made_up += u64::from(kind == RunKind::MadeUp);
        if self.recent.len() == RECENT_MAX {
            self.recent.remove(0);
        }
        self.recent.push(Run { due, at: cx.now(), kind });
    }
}

/// The event for a due time: a record is a map with its fields in the order of the map's keys.
fn value(set: &Set, due: Time) -> Vec<u8> {
    let mut fields = set.value.clone();
    if let Some(field) = &set.at_field {
        let mut text = Vec::new();
        cbor::write_text(&format!("{}@{}", set.id, times::text(due)), &mut text);
        fields.insert(field.clone(), text);
    }
    let mut out = Vec::new();
    cbor::write_map(fields.len(), &mut out);
    for (name, value) in &fields {
        cbor::write_text(name, &mut out);
        out.extend_from_slice(value);
    }
    out
}

/// Why a definition is refused. The manifest and the calendar are checked before (SC-22).
fn wrong(set: &Set) -> Option<&'static str> {
    let is_name = |text: &str| (1..=NAME_BYTES_MAX).contains(&text.len());
    let is_system = |text: &str| text.starts_with("sys/") || text.starts_with("aos/Schedule");
    if !is_name(&set.id) || !is_name(&set.event) {
        return Some("id and event: expected 1 to 256 bytes");
    }
    if is_system(&set.event) {
        return Some("event: a schedule cannot emit events of sys/ and aos/Schedule");
    }
    if bytes(set) > VALUE_BYTES_MAX {
        return Some("value: expected at most 262144 bytes");
    }
    if set.value.iter().any(|(_, value)| !is_item(value)) {
        return Some("value: expected canonical CBOR");
    }
    if matches!(&set.when, When::Every { interval } if *interval < INTERVAL_MIN) {
        return Some("interval: expected at least 1 s");
    }
    if set.catchup < Duration::ZERO || set.jitter < Duration::ZERO {
        return Some("catchup and jitter: expected 0 or more");
    }
    None
}

fn bytes(set: &Set) -> usize {
    set.value.iter().map(|(name, value)| name.len() + value.len()).sum()
}

fn is_item(bytes: &[u8]) -> bool {
    let mut reader = cbor::Reader::new(bytes);
    reader.item().and_then(|_| reader.end()).is_ok()
}

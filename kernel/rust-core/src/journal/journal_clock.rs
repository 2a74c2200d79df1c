//! The journal clock after a record (spec/kernel.md, K-4, K-109b;
//! `kernel/aos/core/journal/journal_clock.py`).

use crate::journal::records::Record;
use crate::journal::vocabulary::ControlAction;

/// The journal clock is ahead of a machine when it is ahead by more than this.
pub const CLOCK_AHEAD_NS: u64 = 60 * 1_000_000_000;

/// The journal clock after `record`, before which it was `clock_ns`: the highest stamp so far, until
/// an operator's command `clock` sets it back to the stamp of that command.
pub fn clock_after(clock_ns: u64, record: &Record) -> u64 {
    let Some(stamp) = record.stamp() else { return clock_ns };
    match record {
        Record::Control(control) if control.action == ControlAction::Clock => stamp.ns,
        _ => clock_ns.max(stamp.ns),
    }
}

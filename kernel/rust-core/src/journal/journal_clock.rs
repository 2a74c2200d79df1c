//! When the journal clock is ahead of a machine's (spec/kernel.md, K-109b;
//! `kernel/aos/core/journal/journal_clock.py`).

/// The journal clock is ahead of a machine when it is ahead by more than this.
pub const CLOCK_AHEAD_NS: u64 = 60 * 1_000_000_000;

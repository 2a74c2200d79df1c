//! The pauses of a policy, and the bounds of its numbers.

use aos_sdk::prelude::*;

use crate::events::Policy;

/// A look waits inside of an effect, which has 60 s.
const WAIT_MS_MAX: u64 = 50_000;
const PAUSE_MS_MAX: u64 = 86_400_000;
/// One coin for a unit of gas.
const MAX_FEE_MAX: u64 = 1_000_000_000_000_000_000;
const COUNT_MAX: u64 = 1_000;

impl Policy {
    /// The first number that is out of bounds, as a sentence.
    pub fn problem(&self) -> Option<String> {
        let bounds = [
            ("conf", self.conf, 0, 10_000),
            ("wait_ms", self.wait_ms, 1, WAIT_MS_MAX),
            ("bump_after", self.bump_after, 1, COUNT_MAX),
            ("max_fee", self.max_fee, 1, MAX_FEE_MAX),
            ("retries", self.retries, 0, COUNT_MAX),
            ("retry_base_ms", self.retry_base_ms, 1, PAUSE_MS_MAX),
            ("retry_cap_ms", self.retry_cap_ms, 1, PAUSE_MS_MAX),
            ("stall_base_ms", self.stall_base_ms, 1, PAUSE_MS_MAX),
            ("stall_cap_ms", self.stall_cap_ms, 1, PAUSE_MS_MAX),
            ("stall_cycles", self.stall_cycles, 0, COUNT_MAX),
            ("arweave_conf", self.arweave_conf, 1, 10_000),
            ("arweave_wait_ms", self.arweave_wait_ms, 1, WAIT_MS_MAX),
        ];
        bounds.into_iter().find(|(_, found, low, high)| !(low..=high).contains(&found)).map(
            |(name, found, low, high)| {
                format!("policy.{name}: expected a number from {low} to {high}, found {found}")
            },
        )
    }

    /// The pause before this retry: 1 is the first.
    pub fn retry_pause(&self, retry: u64, cx: &mut Context) -> Duration {
        pause(self.retry_base_ms, self.retry_cap_ms, retry, cx)
    }

    /// The length of this automatic stall: 1 is the first.
    pub fn stall_pause(&self, cycle: u64, cx: &mut Context) -> Duration {
        pause(self.stall_base_ms, self.stall_cap_ms, cycle, cx)
    }
}

fn pause(base_ms: u64, cap_ms: u64, number: u64, cx: &mut Context) -> Duration {
    let most = Duration::millis(cap_ms);
    jittered(Duration::millis(base_ms).doubled(number.saturating_sub(1), most), cx)
}

/// This duration, a quarter less to a quarter more: so that many do not return together.
pub fn jittered(full: Duration, cx: &mut Context) -> Duration {
    let percent = 75 + cx.random_below(51) as i64;
    Duration::from_ns(full.ns() / 100 * percent)
}

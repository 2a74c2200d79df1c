//! `time` and `duration`: nanoseconds, in 64 bits with a sign.

use alloc::vec::Vec;
use core::cmp::Ordering;
use core::ops::{Add, Sub};

use crate::air::Type;
use crate::cbor::{self, Reader, Stop};
use crate::schema::Schema;

/// A moment: nanoseconds since 1970-01-01T00:00:00Z, years 1677 to 2262.
///
/// ```
/// use aos_sdk::{Duration, Time};
///
/// let due = Time::from_ns(0) + Duration::hours(2);
/// assert_eq!(due - Time::from_ns(0), Duration::minutes(120));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(i64);

/// A length of time in nanoseconds. Sums and products that do not fit trap, or, in a constant, do
/// not compile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Duration(i64);

impl Time {
    pub const fn from_ns(ns: i64) -> Time {
        Time(ns)
    }

    pub const fn ns(self) -> i64 {
        self.0
    }

    /// As the fields of `sys/…` schemas have it, which are nats: 0 before 1970.
    pub const fn nat_ns(self) -> u64 {
        if self.0 < 0 { 0 } else { self.0 as u64 }
    }

    /// None when it does not fit.
    pub const fn checked_add(self, duration: Duration) -> Option<Time> {
        match self.0.checked_add(duration.0) {
            Some(ns) => Some(Time(ns)),
            None => None,
        }
    }
}

impl Duration {
    pub const ZERO: Duration = Duration(0);

    pub const fn from_ns(ns: i64) -> Duration {
        Duration(ns)
    }

    pub const fn ns(self) -> i64 {
        self.0
    }

    pub const fn millis(count: u64) -> Duration {
        Duration::of(count, 1_000_000)
    }

    pub const fn seconds(count: u64) -> Duration {
        Duration::of(count, 1_000_000_000)
    }

    pub const fn minutes(count: u64) -> Duration {
        Duration::of(count, 60_000_000_000)
    }

    pub const fn hours(count: u64) -> Duration {
        Duration::of(count, 3_600_000_000_000)
    }

    /// Of 24 hours each.
    pub const fn days(count: u64) -> Duration {
        Duration::of(count, 86_400_000_000_000)
    }

    const fn of(count: u64, unit_ns: u64) -> Duration {
        match count.checked_mul(unit_ns) {
            Some(ns) if ns <= i64::MAX as u64 => Duration(ns as i64),
            _ => panic!("a duration is at most 292 years"),
        }
    }

    /// `self` doubled `times` times, and never more than `most`: the wait before another attempt.
    ///
    /// ```
    /// use aos_sdk::Duration;
    ///
    /// let wait = |attempt| Duration::millis(100).doubled(attempt, Duration::seconds(30));
    /// assert_eq!(wait(0), Duration::millis(100));
    /// assert_eq!(wait(3), Duration::millis(800));
    /// assert_eq!(wait(60), Duration::seconds(30));
    /// ```
    pub const fn doubled(self, times: u64, most: Duration) -> Duration {
        let (mut wait, mut left) = (self, times);
        while left > 0 && wait.0 < most.0 && wait.0 > 0 {
            wait = Duration(wait.0.saturating_mul(2));
            left -= 1;
        }
        if wait.0 < most.0 { wait } else { most }
    }
}

impl Add<Duration> for Time {
    type Output = Time;

    fn add(self, duration: Duration) -> Time {
        Time(self.0 + duration.0)
    }
}

impl Sub<Duration> for Time {
    type Output = Time;

    fn sub(self, duration: Duration) -> Time {
        Time(self.0 - duration.0)
    }
}

impl Sub for Time {
    type Output = Duration;

    fn sub(self, earlier: Time) -> Duration {
        Duration(self.0 - earlier.0)
    }
}

impl Add for Duration {
    type Output = Duration;

    fn add(self, other: Duration) -> Duration {
        Duration(self.0 + other.0)
    }
}

impl Sub for Duration {
    type Output = Duration;

    fn sub(self, other: Duration) -> Duration {
        Duration(self.0 - other.0)
    }
}

macro_rules! nanoseconds {
    ($name:ident, $ty:expr) => {
        impl Schema for $name {
            const TYPE: Type = $ty;

            fn write(&self, out: &mut Vec<u8>) {
                cbor::write_int(self.0, out);
            }

            fn read(from: &mut Reader<'_>) -> Result<$name, Stop> {
                from.int().map($name)
            }

            fn order(&self, other: &$name) -> Ordering {
                self.0.order(&other.0)
            }
        }
    };
}

nanoseconds!(Time, Type::Time);
nanoseconds!(Duration, Type::Duration);

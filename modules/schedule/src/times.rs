//! Times as texts, and the times of an interval.

use alloc::format;

use aos_sdk::prelude::*;

const DAY_S: i64 = 86_400;
const SECOND_NS: i64 = 1_000_000_000;

/// `2026-11-23T02:30:00Z`, with nine digits of the second if it is not a whole one.
pub fn text(time: Time) -> String {
    let (seconds, ns) = (time.ns().div_euclid(SECOND_NS), time.ns().rem_euclid(SECOND_NS));
    let (days, second) = (seconds.div_euclid(DAY_S), seconds.rem_euclid(DAY_S));
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    let fraction = if ns == 0 { String::new() } else { format!(".{ns:09}") };
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}Z")
}

/// The date of a day since 1970 in the Gregorian calendar, by Howard Hinnant's `civil_from_days`.
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + i64::from(month <= 2), month, day)
}

pub fn minus(time: Time, duration: Duration) -> Time {
    Time::from_ns(time.ns().saturating_sub(duration.ns()))
}

/// The first multiples of an interval after a time, counted from `origin`.
pub fn multiples(origin: Time, interval: Duration, after: Time, count: usize) -> Vec<Time> {
    let step = i128::from(interval.ns());
    let first = i128::from(origin.ns()) + (passed(origin, step, after) + 1) * step;
    (0..count as i128)
        .map_while(|index| i64::try_from(first + index * step).ok().map(Time::from_ns))
        .collect()
}

/// The last multiple after `after` and before `before`, and how many there are; none if there is none.
pub fn last(origin: Time, interval: Duration, after: Time, before: Time) -> Option<(Time, u64)> {
    let step = i128::from(interval.ns());
    let end = passed(origin, step, Time::from_ns(before.ns().saturating_sub(1)));
    let count = u64::try_from(end - passed(origin, step, after)).ok().filter(|count| *count > 0)?;
    let last = i64::try_from(i128::from(origin.ns()) + end * step).ok()?;
    Some((Time::from_ns(last), count))
}

/// How many steps from `origin` to `time`, rounded down.
fn passed(origin: Time, step: i128, time: Time) -> i128 {
    (i128::from(time.ns()) - i128::from(origin.ns())).div_euclid(step)
}

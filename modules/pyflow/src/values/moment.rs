//! Times and durations: nanoseconds of AIR, microseconds of Python (PY-34).

use chrono::{DateTime, Datelike, NaiveDate, Timelike};
use monty_types::{MontyDateTime, MontyTimeDelta};

const DAY_US: i64 = 86_400_000_000;
const US: i64 = 1_000;

/// The datetime in UTC; none if the time is not a whole number of microseconds.
pub fn datetime(ns: i64) -> Option<MontyDateTime> {
    let moment = DateTime::from_timestamp_micros(whole(ns)?)?.naive_utc();
    Some(MontyDateTime {
        year: moment.year(),
        month: moment.month() as u8,
        day: moment.day() as u8,
        hour: moment.hour() as u8,
        minute: moment.minute() as u8,
        second: moment.second() as u8,
        microsecond: moment.nanosecond() / 1_000,
        offset_seconds: Some(0),
        timezone_name: None,
    })
}

/// The ns since 1970 of a datetime with a time zone; none without one, or out of range.
pub fn time_ns(moment: &MontyDateTime) -> Option<i64> {
    let offset = i64::from(moment.offset_seconds?);
    let date = NaiveDate::from_ymd_opt(moment.year, moment.month.into(), moment.day.into())?;
    let local = date.and_hms_micro_opt(
        moment.hour.into(),
        moment.minute.into(),
        moment.second.into(),
        moment.microsecond,
    )?;
    let us = local.and_utc().timestamp_micros().checked_sub(offset * 1_000_000)?;
    us.checked_mul(US)
}

/// The timedelta in its normal form; none if the duration is not a whole number of microseconds.
pub fn timedelta(ns: i64) -> Option<MontyTimeDelta> {
    let us = whole(ns)?;
    let rest = us.rem_euclid(DAY_US);
    Some(MontyTimeDelta {
        days: us.div_euclid(DAY_US) as i32,
        seconds: (rest / 1_000_000) as i32,
        microseconds: (rest % 1_000_000) as i32,
    })
}

/// The ns of a timedelta; none if they do not fit.
pub fn duration_ns(delta: &MontyTimeDelta) -> Option<i64> {
    let seconds = i64::from(delta.days) * 86_400 + i64::from(delta.seconds);
    let us = seconds.checked_mul(1_000_000)?.checked_add(i64::from(delta.microseconds))?;
    us.checked_mul(US)
}

fn whole(ns: i64) -> Option<i64> {
    (ns % US == 0).then_some(ns / US)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_microseconds_go_there_and_back() {
        let cases =
            [0, 1_000, -1_000, -999_000, 1_600_000_000_123_456_000, i64::MIN / 1_000 * 1_000];
        for ns in [cases.as_slice(), &[i64::MAX / 1_000 * 1_000, -DAY_US * US]].concat() {
            assert_eq!(datetime(ns).and_then(|moment| time_ns(&moment)), Some(ns));
            assert_eq!(timedelta(ns).and_then(|delta| duration_ns(&delta)), Some(ns));
        }
    }

    #[test]
    fn nanoseconds_and_what_does_not_fit_have_no_counterpart() {
        assert!(datetime(1).is_none() && timedelta(-1).is_none());
        let far = MontyTimeDelta { days: 999_999_999, seconds: 0, microseconds: 0 };
        assert_eq!(duration_ns(&far), None);
        let naive = MontyDateTime { offset_seconds: None, ..datetime(0).unwrap() };
        assert_eq!(time_ns(&naive), None);
        let late = MontyDateTime { year: 2300, ..datetime(0).unwrap() };
        assert_eq!(time_ns(&late), None);
        let east = MontyDateTime { offset_seconds: Some(3_600), ..datetime(0).unwrap() };
        assert_eq!(time_ns(&east), Some(-3_600_000_000_000));
    }
}

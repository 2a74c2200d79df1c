//! The calendar: dates in UTC, and times that move by months.

use alloc::string::String;
use core::fmt;

use crate::number::decimal;
use crate::types::{Duration, Time};

const DAY_NS: i64 = 86_400_000_000_000;

/// A day of the Gregorian calendar in UTC, years 1 to 9999.
///
/// ```
/// use aos_sdk::{Date, Duration, Time};
///
/// let signed = Date::new(2024, 1, 31).unwrap();
/// assert_eq!(signed.add_months(1), Date::new(2024, 2, 29));
/// assert_eq!(signed.add_months(2), Date::new(2024, 3, 31));
/// assert_eq!(signed.add_days(-31).unwrap().text(), "2023-12-31");
///
/// // The time of day stays.
/// let time = signed.start().unwrap() + Duration::hours(9);
/// assert_eq!(time.add_months(1).unwrap().date().text(), "2024-02-29");
/// ```
///
/// A month is added to year and month; the day stays, or becomes the last day of the new month if
/// that month is shorter (`spec/sdk.md` SD-45). To bill on the 31st of each month, keep the first
/// date and add 1, 2, 3 … months to it: 31 January plus one month is 28 February, and one month
/// later is 28 March.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Date {
    year: u16,
    month: u8,
    day: u8,
}

impl Date {
    /// None if there is no such day, or the year is not 1 to 9999.
    pub fn new(year: i64, month: u64, day: u64) -> Option<Date> {
        if !(1..=9999).contains(&year) || !(1..=12).contains(&month) {
            return None;
        }
        if day == 0 || day > month_length(year, month) {
            return None;
        }
        Some(Date { year: year as u16, month: month as u8, day: day as u8 })
    }

    pub fn year(self) -> i64 {
        self.year as i64
    }

    /// 1 is January.
    pub fn month(self) -> u64 {
        self.month as u64
    }

    /// Of the month, from 1.
    pub fn day(self) -> u64 {
        self.day as u64
    }

    /// Of the week, 1 for Monday to 7 for Sunday.
    pub fn weekday(self) -> u64 {
        (self.days() + 3).rem_euclid(7) as u64 + 1
    }

    /// Days since 1970-01-01; negative before it.
    pub fn days(self) -> i64 {
        // Years that begin in March have the leap day at their end.
        let year = self.year() - (self.month < 3) as i64;
        let month = (self.month as i64 + 9) % 12;
        let day_of_year = (153 * month + 2) / 5 + self.day as i64 - 1;
        365 * year + year / 4 - year / 100 + year / 400 + day_of_year - DAYS_TO_1970
    }

    /// The day this many days after 1970-01-01. None outside of the years 1 to 9999.
    pub fn from_days(days: i64) -> Option<Date> {
        let day = days.checked_add(DAYS_TO_1970)?;
        // 400 years have 146,097 days, whichever they are.
        let cycle = day.div_euclid(146_097);
        let day = day.rem_euclid(146_097);
        let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
        let day_of_year = day - (365 * year + year / 4 - year / 100);
        let month = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month + 2) / 5 + 1;
        let year = cycle * 400 + year + (month > 9) as i64;
        Date::new(year, (month as u64 + 2) % 12 + 1, day as u64)
    }

    /// None outside of the years 1 to 9999.
    pub fn add_days(self, days: i64) -> Option<Date> {
        Date::from_days(self.days().checked_add(days)?)
    }

    /// The same day of another month, or that month's last day if it is shorter. None outside of
    /// the years 1 to 9999.
    pub fn add_months(self, months: i64) -> Option<Date> {
        let months = (self.year() * 12 + self.month as i64 - 1).checked_add(months)?;
        let (year, month) = (months.div_euclid(12), months.rem_euclid(12) as u64 + 1);
        Date::new(year, month, self.day().min(month_length(year, month)))
    }

    /// Midnight. None outside of what a [`Time`] holds, years 1677 to 2262.
    pub fn start(self) -> Option<Time> {
        self.days().checked_mul(DAY_NS).map(Time::from_ns)
    }

    /// `2024-02-29`.
    pub fn text(self) -> String {
        let mut text = String::with_capacity(10);
        for least in [1000, 100, 10] {
            if self.year < least {
                text.push('0');
            }
        }
        decimal(self.year as u64, &mut text);
        for number in [self.month(), self.day()] {
            text.push_str(if number < 10 { "-0" } else { "-" });
            decimal(number, &mut text);
        }
        text
    }
}

/// From 0000-03-01 to 1970-01-01.
const DAYS_TO_1970: i64 = 719_468;

fn month_length(year: i64, month: u64) -> u64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

impl Time {
    /// The day in UTC.
    pub fn date(self) -> Date {
        match Date::from_days(self.ns().div_euclid(DAY_NS)) {
            Some(date) => date,
            None => unreachable!("a time is within the years 1677 to 2262"),
        }
    }

    /// The same time of day, the months added as [`Date::add_months`] does. None when it does not
    /// fit.
    pub fn add_months(self, months: i64) -> Option<Time> {
        let days = self.date().add_months(months)?.days();
        // The first day that a time can be in begins before the first time.
        let ns = days as i128 * DAY_NS as i128 + self.ns().rem_euclid(DAY_NS) as i128;
        i64::try_from(ns).ok().map(Time::from_ns)
    }
}

impl Duration {
    /// Of 7 days of 24 hours each.
    pub const fn weeks(count: u64) -> Duration {
        match count.checked_mul(7) {
            Some(days) => Duration::days(days),
            None => panic!("a duration is at most 292 years"),
        }
    }
}

impl fmt::Debug for Date {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.text())
    }
}

impl fmt::Display for Date {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(&self.text())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_month_of_9999_years_follows_the_month_before() {
        let (mut days, mut weekday) = (Date::new(1, 1, 1).unwrap().days(), 1);
        for year in 1..=9999 {
            let leap = year % 4 == 0 && year % 100 != 0 || year % 400 == 0;
            let lengths = [31, 28 + leap as u64, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
            for (month, length) in (1..).zip(lengths) {
                let first = Date::new(year, month, 1).unwrap();
                let last = Date::new(year, month, length).unwrap();
                assert_eq!((first.days(), first.weekday()), (days, weekday), "{first}");
                assert_eq!(Date::from_days(days), Some(first));
                assert_eq!(Date::from_days(days + length as i64 - 1), Some(last));
                assert_eq!(Date::new(year, month, length + 1), None);
                (days, weekday) = (days + length as i64, (weekday + length - 1) % 7 + 1);
            }
        }
        assert_eq!(Date::from_days(days), None);
        assert_eq!(Date::new(1970, 1, 1).unwrap().days(), 0);
        assert_eq!(Date::new(1, 1, 1).unwrap().add_days(-1), None);
    }

    #[test]
    fn what_is_no_date_is_none() {
        for (year, month, day) in
            [(0, 1, 1), (10_000, 1, 1), (1970, 0, 1), (1970, 13, 1), (1970, 1, 0)]
        {
            assert_eq!(Date::new(year, month, day), None);
        }
        for far in [i64::MIN, i64::MAX] {
            assert_eq!(Date::from_days(far), None);
            assert_eq!(Date::new(1970, 1, 1).unwrap().add_days(far), None);
            assert_eq!(Date::new(1970, 1, 1).unwrap().add_months(far), None);
        }
    }

    #[test]
    fn a_time_moves_by_months_as_far_as_times_go() {
        let (first, last) = (Time::from_ns(i64::MIN), Time::from_ns(i64::MAX));

        assert_eq!(first.add_months(0), Some(first));
        assert_eq!(last.add_months(0), Some(last));
        assert_eq!(first.add_months(-1), None);
        assert_eq!(last.add_months(1), None);
        assert_eq!(first.date().text(), "1677-09-21");
        assert_eq!(last.date().text(), "2262-04-11");
        assert_eq!(last.date().start().unwrap().date(), last.date());
        assert_eq!(first.date().start(), None);
        assert_eq!(Date::new(9, 12, 31).unwrap().text(), "0009-12-31");
    }
}

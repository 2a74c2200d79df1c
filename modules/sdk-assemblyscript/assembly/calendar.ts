// The calendar: dates in UTC, and times that move by months (spec/sdk.md SD-45).

import { Some } from "./value";

export const SECOND_NS: i64 = 1_000_000_000;
export const MINUTE_NS: i64 = 60 * SECOND_NS;
export const HOUR_NS: i64 = 60 * MINUTE_NS;
/** 24 hours. */
export const DAY_NS: i64 = 24 * HOUR_NS;
export const WEEK_NS: i64 = 7 * DAY_NS;

/** From 0000-03-01 to 1970-01-01. */
// @ts-ignore: decorator
@inline const DAYS_TO_1970: i64 = 719_468;
/** The days of 400 years, whichever they are. */
// @ts-ignore: decorator
@inline const CYCLE_DAYS: i64 = 146_097;

/** A day of the Gregorian calendar in UTC, years 1 to 9999. */
export class CalendarDate {
  private constructor(
    readonly year: i64,
    /** 1 is January. */
    readonly month: i64,
    /** Of the month, from 1. */
    readonly day: i64,
  ) {}

  /** Null if there is no such day, or the year is not 1 to 9999. */
  static of(year: i64, month: i64, day: i64): CalendarDate | null {
    if (year < 1 || year > 9999 || month < 1 || month > 12) return null;
    if (day < 1 || day > monthLength(year, month)) return null;
    return new CalendarDate(year, month, day);
  }

  /** The day this many days after 1970-01-01. Null outside of the years 1 to 9999. */
  static fromDays(days: i64): CalendarDate | null {
    if (days > i64.MAX_VALUE - DAYS_TO_1970) return null;
    const shifted = days + DAYS_TO_1970;
    const cycle = floorDiv(shifted, CYCLE_DAYS);
    const inCycle = shifted - cycle * CYCLE_DAYS;
    const inCycleYear = (inCycle - inCycle / 1_460 + inCycle / 36_524 - inCycle / 146_096) / 365;
    const dayOfYear = inCycle - (365 * inCycleYear + inCycleYear / 4 - inCycleYear / 100);
    const month = (5 * dayOfYear + 2) / 153;
    const day = dayOfYear - (153 * month + 2) / 5 + 1;
    const year = cycle * 400 + inCycleYear + (month > 9 ? 1 : 0);
    return CalendarDate.of(year, (month + 2) % 12 + 1, day);
  }

  /** The day of a time in ns, in UTC. */
  static at(time_ns: i64): CalendarDate {
    return CalendarDate.fromDays(floorDiv(time_ns, DAY_NS))!;
  }

  /** Days since 1970-01-01; negative before it. */
  get days(): i64 {
    // Years that begin in March have the leap day at their end.
    const year = this.year - (this.month < 3 ? 1 : 0);
    const month = (this.month + 9) % 12;
    const dayOfYear = (153 * month + 2) / 5 + this.day - 1;
    return 365 * year + year / 4 - year / 100 + year / 400 + dayOfYear - DAYS_TO_1970;
  }

  /** Of the week, 1 for Monday to 7 for Sunday. */
  get weekday(): i64 {
    const days = this.days + 3;
    return days - floorDiv(days, 7) * 7 + 1;
  }

  /** Null outside of the years 1 to 9999. */
  addDays(days: i64): CalendarDate | null {
    // More days than the calendar has, in either direction, lead out of it.
    if (days < -4_000_000 || days > 4_000_000) return null;
    return CalendarDate.fromDays(this.days + days);
  }

  /**
   * The same day of another month, or that month's last day if it is shorter. Null outside of the years 1 to 9999.
   * To bill on the 31st of each month, keep the first date and add 1, 2, 3 … months to it.
   */
  addMonths(months: i64): CalendarDate | null {
    if (months < -120_000 || months > 120_000) return null;
    const moved = this.year * 12 + this.month - 1 + months;
    const year = floorDiv(moved, 12);
    const month = moved - year * 12 + 1;
    return CalendarDate.of(year, month, min(this.day, monthLength(year, month)));
  }

  /** Midnight in ns. Null outside of what a time holds, years 1677 to 2262. */
  get start(): Some<i64> | null {
    return timeAt(this.days, 0);
  }

  /** `2024-02-29`. */
  get text(): string {
    const year = this.year.toString().padStart(4, "0");
    return year + "-" + this.month.toString().padStart(2, "0") + "-" + this.day.toString().padStart(2, "0");
  }
}

/**
 * A time in ns, so many months later: the same time of day, the date as `CalendarDate.addMonths` has it. Null outside
 * of what a time holds.
 */
export function addMonths(time_ns: i64, months: i64): Some<i64> | null {
  const date = CalendarDate.at(time_ns);
  const moved = date.addMonths(months);
  return moved === null ? null : timeAt(moved.days, time_ns - floorDiv(time_ns, DAY_NS) * DAY_NS);
}

/** `ns` into the day of this number. */
function timeAt(days: i64, ns: i64): Some<i64> | null {
  const last = i64.MAX_VALUE / DAY_NS;
  if (days < -last - 1 || days > last) return null;
  if (days < 0) {
    // From the end of the day: the first day that a time can be in begins before the first time.
    const end = (days + 1) * DAY_NS;
    const before = DAY_NS - ns;
    return end >= i64.MIN_VALUE + before ? new Some<i64>(end - before) : null;
  }
  const start = days * DAY_NS;
  return ns <= i64.MAX_VALUE - start ? new Some<i64>(start + ns) : null;
}

function monthLength(year: i64, month: i64): i64 {
  if (month == 2) return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) ? 29 : 28;
  return month == 4 || month == 6 || month == 9 || month == 11 ? 30 : 31;
}

function floorDiv(number: i64, by: i64): i64 {
  return number / by - (number % by < 0 ? 1 : 0);
}

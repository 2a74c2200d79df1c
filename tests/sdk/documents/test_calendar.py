"""The calendar in both SDKs, against spec/vectors/calendar.json and Python (SD-45)."""

from __future__ import annotations

import datetime as dt

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.run_seed import examples
from tests.sdk.documents.expected import DATES, ENDS, EPOCH, days_of, load, months_later
from tests.sdk.documents.guests import DocumentGuest

DAY_NS = 86_400 * 10**9
TIME_MIN, TIME_MAX = -(2**63), 2**63 - 1


def test_a_day_of_the_vectors_has_its_number_and_weekday(guest: DocumentGuest) -> None:
    for vector in [each for each in load("calendar.json") if "days" in each]:
        found = guest.day(vector["days"], 0)

        if vector["date"] is None:
            assert found == [], vector["name"]
        else:
            texts = [vector["date"], str(vector["weekday"]), str(vector["days"]), vector["date"]]
            assert found == texts, vector["name"]


def test_a_date_of_the_vectors_moves_by_months(guest: DocumentGuest) -> None:
    for vector in [each for each in load("calendar.json") if "months" in each]:
        found = guest.day(days_of(vector["from"]), vector["months"])

        assert found[3] == (vector["to"] or ""), vector["name"]


@settings(max_examples=examples(30))
@given(date=DATES | ENDS, months=st.integers(-30, 30) | st.integers(-3000, 3000))
def test_a_date_is_what_python_says(guest: DocumentGuest, date: dt.date, months: int) -> None:
    days = (date - EPOCH).days

    found = guest.day(days, months)

    assert found == [
        date.isoformat(),
        str(date.isoweekday()),
        str(days),
        months_later(date, months),
    ]


@settings(max_examples=examples(20))
@given(time_ns=st.integers(TIME_MIN, TIME_MAX), months=st.integers(-7000, 7000))
def test_a_time_keeps_its_time_of_day(guest: DocumentGuest, time_ns: int, months: int) -> None:
    days, within_ns = divmod(time_ns, DAY_NS)
    later = months_later(EPOCH + dt.timedelta(days=days), months)
    expected = days_of(later) * DAY_NS + within_ns if later else None
    if expected is not None and not TIME_MIN <= expected <= TIME_MAX:
        expected = None

    assert guest.move(time_ns, months) == expected


def test_the_first_and_the_last_time_stay_where_they_are(guest: DocumentGuest) -> None:
    for time_ns, months in ((TIME_MIN, -1), (TIME_MAX, 1)):
        assert guest.move(time_ns, 0) == time_ns
        assert guest.move(time_ns, months) is None

"""Amounts, dates and fields as they stand in lines of text."""

from __future__ import annotations

import pytest

from viper.api.written import MAX_FIELDS, amounts_in, dates_in, field_types, typed
from viper.errors import UnknownNameError, UsageError


@pytest.mark.parametrize(
    ("text", "amounts"),
    [
        ("RM 33.90", ["33.90"]),
        ("RM33. 90", ["33.90"]),
        ("-RM 0.02", ["-0.02"]),
        ("RM -0.02", ["-0.02"]),
        ("(5.00)", ["-5.00"]),
        ("($ 5.00)", ["-5.00"]),
        ("(tax 5.00)", ["5.00"]),
        ("5.00-", ["-5.00"]),
        ("5.00- SR", ["-5.00"]),
        ("−5.00", ["-5.00"]),
        ("3.00-5.00", ["3.00", "5.00"]),
        ("3.00- 5.00", ["3.00", "5.00"]),
        ("1,007.50", ["1007.50"]),
        ("1.007,50", ["1007.50"]),
        ("12,50", ["12.50"]),
        ("86.00 SR", ["86.00"]),
        ("3 x 1.20  3.60", ["1.20", "3.60"]),
        ("007.50", ["7.50"]),
        ("GST 6.00%", []),
        ("2.450 kg", []),
        ("20.10.2018", []),
        ("12:30.15", []),
        ("30", []),
        ("9" * 200 + ".00", []),
    ],
)
def test_amounts_have_two_decimals_and_are_no_part_of_something_else(
    text: str, amounts: list[str]
) -> None:
    assert [value for value, *_ in amounts_in(text)] == amounts


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("Date: 25/12/2018", ["2018-12-25"]),
        ("2018-03-23", ["2018-03-23"]),
        ("05-AUG-2017", ["2017-08-05"]),
        ("3 MAR 18", ["2018-03-03"]),
        ("03MAR2018 18:22", ["2018-03-03"]),
        ("19/10/201820:49:59", ["2018-10-19"]),
        ("18/03/1815:17", ["2018-03-18"]),
        ("25. 03. 2019", ["2019-03-25"]),
        ("Dec 5, 2018", ["2018-12-05"]),
        ("12/31/2018", ["2018-12-31"]),
        ("02/03/2018 to 04/03/2018", ["2018-03-02", "2018-03-04"]),
        ("31/02/2018", []),
        ("HC03-7 - 15", []),
        ("Tel 03-7859 9863", []),
        ("1-300-80-2366", []),
        ("12 May St", []),
    ],
)
def test_dates_are_days_of_the_calendar_in_the_forms_of_documents(
    text: str, days: list[str]
) -> None:
    found = list(dates_in(text))
    assert [value for value, *_ in found] == days
    assert all(text[start:end].strip() for _, start, end in found)


def test_a_text_is_read_by_the_type_of_its_field() -> None:
    assert typed("text", "  two   words ") == "two words" and typed("text", " ") is None
    assert typed("money", "Total RM 9.00") == "9.00" and typed("money", "12") == "12"
    assert typed("money", "12 pieces") is None and typed("money", "none") is None
    assert typed("number", "12 pieces") == "12" and typed("number", "x") is None
    assert typed("date", "on 01/02/2019") == "2019-02-01" and typed("date", "9.00") is None


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("number", "Quantity: 12,500", "12500"),
        ("number", "Mileage: 1,234.50 km", "1234.50"),
        ("number", "1,2,3", "1"),
        ("number", "at -5 degrees", "-5"),
        ("number", "A-5", "5"),
        ("money", "12,500", "12500"),
        ("money", "(5)", "-5"),
        ("money", "5-", "-5"),
        ("money", "-$5", "-5"),
        ("money", "5,-", "5"),
        ("money", "12.50%", None),
        ("money", "12 %", None),
    ],
)
def test_numbers_keep_their_thousands_and_signs(kind: str, text: str, value: str | None) -> None:
    assert typed(kind, text) == value


def test_fields_have_a_name_and_a_known_type() -> None:
    assert field_types(("total:money", "no")) == {"total": "money", "no": "text"}
    with pytest.raises(UnknownNameError, match="did you mean money"):
        field_types(("total:mony",))
    for wrong in (("1st:text",), ("a:text", "a:date"), (":money",), ("a b:text",)):
        with pytest.raises(UsageError, match="expected a name"):
            field_types(wrong)
    for count in (0, MAX_FIELDS + 1):
        with pytest.raises(UsageError, match=f"{count} fields; expected 1 to {MAX_FIELDS}"):
            field_types(tuple(f"f{number}" for number in range(count)))

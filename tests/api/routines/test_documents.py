"""Routines on written text: what they find, where, and what they make of misread letters."""

from __future__ import annotations

from typing import Any

import pytest

from tests.receipt import RECEIPT, Reader, lines_of, picture_of
from viper.api.registry import REGISTRY
from viper.api.sets import api_set
from viper.errors import ToolError
from viper.models.media import media_from
from viper.sandbox import Ref
from viper.tools.models import ModelSet
from viper.tools.settings import ToolSettings
from viper.tools.toolbox import Toolbox


class Document:
    """Asks routines about a picture in which these rows are written, as a program does."""

    def __init__(self, *rows: str) -> None:
        self.reader, pixels = Reader(lines_of(*rows)), picture_of(rows)
        toolbox = Toolbox(ModelSet({"ocr": lambda: self.reader}), ToolSettings())
        self.session = toolbox.session(media_from(pixels))
        self.page = Ref("image", ("image0", pixels.shape[1], pixels.shape[0]))
        self.height = pixels.shape[0]

    def ask(self, name: str, *args: Any) -> Any:
        return self.session.call(name, (self.page, *args), {}, None)

    def texts(self, name: str, *args: Any) -> list[str]:
        return [str(ref.fields[6]) for ref in self.ask(name, *args)]

    def box(self, ref: Ref) -> list[float]:
        left, lower, right, upper = map(float, ref.fields[1:5])
        return [left, self.height - upper, right, self.height - lower]


def test_lines_come_by_rows_from_left_to_right_and_are_read_once() -> None:
    document = Document("b | second", "a | fourth")
    document.reader.lines.reverse()
    assert document.texts("lines") == ["b", "second", "a", "fourth"]
    assert document.box(document.ask("lines")[1]) == [250, 10, 298, 26]
    assert document.reader.seen == 1
    part = Ref("patch", ("image0", 0.0, 0.0, 100.0, 25.0))
    assert [ref.fields[6] for ref in document.session.call("lines", (part,), {}, None)] == ["a"]
    assert document.reader.seen == 1


@pytest.mark.parametrize(
    "row", ["TOTAL ROUNDED", "T0TAL R0UNDED :", "TotalRounded", "Totai Rounted"]
)
def test_words_are_found_although_a_letter_is_misread(row: str) -> None:
    assert Document("Total", row).texts("find_text", "total rounded") == [row]


@pytest.mark.parametrize("row", ["SUBTOTAL", "cost", "", "to pay: all"])
def test_words_begin_a_word_and_short_ones_have_no_wrong_letter(row: str) -> None:
    document = Document(row)
    assert document.texts("find_text", "total") == [] == document.texts("find_text", "cash")


def test_no_words_to_find_are_refused() -> None:
    with pytest.raises(ToolError, match="the words to find are empty"):
        Document("a").ask("find_text", " . ")


def test_a_value_stands_after_its_label_or_right_of_it() -> None:
    document = Document("Invoice no: A-17 | late", "Total | RM | ", "Due")
    found = document.ask("value_right_of", "invoice no")
    assert [ref.fields[6] for ref in found] == ["A-17 late"]
    assert document.box(found[0])[0] == pytest.approx(10 + 12 * 8)  # behind the label
    assert document.texts("value_right_of", "total") == ["RM"]
    assert document.texts("value_right_of", "due") == []
    line = document.ask("find_text", "total")[0]
    assert document.texts("value_right_of", line) == ["RM"]


@pytest.mark.parametrize(
    ("row", "value"),
    [
        ("Refund: -5.00", "-5.00"),
        ("Refund -$5.00", "-$5.00"),
        ("Refund - 5.00", "5.00"),
        ("Refund-5.00", "5.00"),
        ("Refund ----5.00", "5.00"),
        ("Refund .... -RM 5.00", "-RM 5.00"),
    ],
)
def test_a_minus_belongs_to_its_number_and_a_dash_to_neither(row: str, value: str) -> None:
    assert Document(row).texts("value_right_of", "refund") == [value]


def test_a_value_stands_below_its_label_not_in_another_column_nor_far_away() -> None:
    document = Document("Name | Amount", "Tea | 4.00", "", "", "", "Far", "")
    assert document.texts("value_below", "amount") == ["4.00"]
    assert document.texts("value_below", "name") == ["Tea"]
    assert document.texts("value_below", "far") == []


def test_amounts_and_dates_have_the_place_of_their_letters() -> None:
    document = Document("on 25/12/2018 paid 4.50 and 1,000.25")
    assert document.texts("amounts") == ["4.50", "1000.25"]
    assert document.texts("dates") == ["2018-12-25"]
    assert document.box(document.ask("dates")[0]) == [10 + 3 * 8, 10, 10 + 13 * 8, 26]
    value = document.session.call("amounts", ([document.ask("lines")[0]],), {}, None)
    assert [ref.fields[6] for ref in value] == ["4.50", "1000.25"]


def checks(*rows: str, total: str = "") -> dict[str, tuple[bool, str]]:
    document = Document(*rows)
    return {each["check"]: (each["holds"], each["amount"]) for each in document.ask("sums", total)}


def test_sums_that_must_hold_hold_for_the_total_alone() -> None:
    right = dict.fromkeys(("cash - change", "subtotal + tax"), (True, "9.55"))
    assert checks(*RECEIPT, total="9.55") == {**right, "items": (False, "9.00")}
    wrong = checks(*RECEIPT, total="8.55")
    assert wrong["cash - change"] == (False, "9.55")
    assert not any(holds for holds, _ in wrong.values())
    assert not any(holds for holds, _ in checks(*RECEIPT).values())


def test_a_tax_may_be_part_of_the_subtotal() -> None:
    rows = ("Tea | 9.00", "Subtotal | 9.00", "GST 0.51", "Total | 9.00")
    assert checks(*rows, total="9.00")["subtotal + tax"] == (True, "9.00")


def test_a_total_does_not_check_itself() -> None:
    assert checks("Total | 9.00", "GST | 0.51", total="9.00") == {}
    assert checks("nothing", total="9.00") == {}


def test_of_many_amounts_of_a_part_the_first_are_compared() -> None:
    few, many = ["Cash | 5.00"] * 19, ["Cash | 5.00"] * 20
    end = ("Cash | 9.00", "Change | 0.00")
    assert checks(*few, *end, total="9.00")["cash - change"][0]
    assert not checks(*many, *end, total="9.00")["cash - change"][0]


def test_the_api_photo_lists_them_and_the_other_apis_do_not() -> None:
    own = {"lines", "find_text", "value_right_of", "value_below", "dates", "amounts", "sums"}
    assert own <= {each.name for each in api_set("abstract+photo").entries("question")}
    for task in ("question", "ground", "statement", "edit", "tag"):
        assert not own & {each.name for each in api_set("abstract+more").entries(task)}
    assert all(REGISTRY.get(name).visibility.needs == "ocr" for name in own)

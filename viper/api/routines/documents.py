"""Routines on written text with its places: lines, labelled values, dates, amounts and their sums.

They run in the parent on what the role ``ocr`` reads, see :meth:`viper.tools.parent_routines.Tools
.lines`. What they return was written by strangers. To a program it is text and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from itertools import combinations
from typing import Any

from viper.api.image_patch import ImagePatch
from viper.api.registry import routine
from viper.api.runtime import text as text_of
from viper.api.written import Written, amounts_in, dates_in, typed

_TASKS = ("ground", "question", "statement", "extract")
API = "photo"

# Letters that text recognition takes for each other.
_ALIKE = str.maketrans("01|!i58", "ollllsb")

# Longer words to find are no label, and matching takes time for each letter.
_LONGEST_LABEL = 60

# From this length on one letter of a label may be wrong or missing.
_TOLERANT = 5

# A value stands at most this many heights of its label below it.
_BELOW = 3.0

# Parts of the sums on a receipt, by the text of their rows without spaces.
_PAID = re.compile(r"cash(?!ier)|tender|paid|received|visa|master|card|debit")
_RETURNED = re.compile(r"(?<!ex)change")
_BASE = re.compile(r"sub-?total|exclu?d|excl|before")
_ADDED = re.compile(r"tax|gst|sst|vat|serv|sv[rc]|round|disc|adj|tip")
_WHOLE = re.compile(r"total|amountdue|payable")
_INCLUSIVE = re.compile(r"ncl|rounded")
_COUNTED = re.compile(r"qty|quantity|item|point")

# More parts would let some subset of them meet any total by chance.
_MOST_ADDED = 5


@routine(_TASKS, api=API, tool=True, needs="ocr")
def lines(tools: Any, patch: ImagePatch) -> list[ImagePatch]:
    """Read the lines of text in a patch, from top to bottom, as patches whose label is the text.

    Example:
        # What is the first line of the sign?
        def execute_command(image):
            written = lines(ImagePatch(image))
            return written[0].label if written else "nothing is written there"
    """
    return list(tools.lines(patch))


@routine(_TASKS, api=API, tool=True, needs="ocr")
def find_text(tools: Any, patch: ImagePatch, text: str) -> list[ImagePatch]:
    """Find the lines that contain the words, from top to bottom, even if a letter is misread.

    Example:
        # Where does it say "fragile"?
        def execute_command(image):
            found = find_text(ImagePatch(image), "fragile")
            return found[0] if found else ImagePatch(image)
    """
    return [line for line, _ in _labels(tools.lines(patch), text)]


@routine(_TASKS, api=API, tool=True, needs="ocr")
def value_right_of(tools: Any, patch: ImagePatch, label: str | ImagePatch) -> list[ImagePatch]:
    """Return what is written right of a label at its height, for each line that contains it.

    ``label`` is words, or a line that was found before. The label of each result is its text.

    Example:
        # What is the invoice number?
        def execute_command(image):
            found = value_right_of(ImagePatch(image), "invoice no")
            return found[0].label if found else "unknown"
    """
    written, values = tools.lines(patch), []
    for line, rest in _labels(written, label):
        right = [rest] if rest is not None else []
        right += [
            other
            for other in written
            if same_row(other._box, line._box) and other.left >= line.right - line.height / 2
        ]
        if right:
            values.append(_joined(right))
    return values


@routine(_TASKS, api=API, tool=True, needs="ocr")
def value_below(tools: Any, patch: ImagePatch, label: str | ImagePatch) -> list[ImagePatch]:
    """Return the line below a label, for each line that contains it. Arguments as above.

    Example:
        # What is in the column "Amount"?
        def execute_command(image):
            found = value_below(ImagePatch(image), "amount")
            return found[0].label if found else "unknown"
    """
    written, values = tools.lines(patch), []
    for line, _ in _labels(written, label):
        under = [o for o in written
                 if 0 < line.vertical_center - o.vertical_center < _BELOW * line.height
                 and not same_row(o._box, line._box)
                 and min(o.right, line.right) > max(o.left, line.left)]  # fmt: skip
        values += under[:1]
    return values


@routine(_TASKS, api=API, tool=True, needs="ocr")
def dates(tools: Any, patch: ImagePatch | list[ImagePatch]) -> list[ImagePatch]:
    """Read the dates in a patch, in lines or in values; the label of each is as "2018-12-25".

    Example:
        # When was this written?
        def execute_command(image):
            found = dates(ImagePatch(image))
            return found[0].label if found else "unknown"
    """
    return _values(tools, patch, dates_in)


@routine(_TASKS, api=API, tool=True, needs="ocr")
def amounts(tools: Any, patch: ImagePatch | list[ImagePatch]) -> list[ImagePatch]:
    """Read the amounts of money in a patch, in lines or in values; each label is as "1007.50".

    Example:
        # How much is the largest amount?
        def execute_command(image):
            found = amounts(ImagePatch(image))
            return max(float(amount.label) for amount in found) if found else 0
    """
    return _values(tools, patch, amounts_in)


@routine(_TASKS, api=API, tool=True, needs="ocr")
def sums(tools: Any, patch: ImagePatch, total: str = "") -> list[dict[str, Any]]:
    """Check a total against the other amounts of a receipt: cash - change, subtotal + tax, items.

    Return a mapping for each sum that the receipt prints the parts of: its name as "check",
    whether it "holds", and the total that it gives as "amount". [] if it prints none.

    Example:
        # Is the total right?
        def execute_command(image):
            image_patch = ImagePatch(image)
            found = amounts(value_right_of(image_patch, "total"))
            checks = sums(image_patch, found[-1].label) if found else []
            return bool_to_yesno(any(check["holds"] for check in checks))
    """
    whole = typed("money", text_of(total, "total"))
    wanted = None if whole is None else Decimal(whole)
    paid, returned, bases, added, items = [], [], [], [], []
    is_above = True
    for text, values in _rows(tools.lines(patch)):
        is_base, is_whole = bool(_BASE.search(text)), bool(_WHOLE.search(text))
        is_above = is_above and not (values and (is_base or is_whole))
        if not values or _COUNTED.search(text):
            continue
        if _RETURNED.search(text):
            returned.append(abs(values[-1]))
        elif _PAID.search(text):
            paid.append(abs(values[-1]))
        elif is_base or (is_whole and (_INCLUSIVE.search(text) or not _ADDED.search(text))):
            bases.append((values[-1], is_base))
        elif _ADDED.search(text) and not is_above:
            added += [value for value in values[-1:] if value]
        elif is_above:
            items.append(values[-1])
    totals: dict[str, list[Decimal]] = {
        "cash - change": [cash - change for cash in paid for change in returned],
        # a total alone is no check of itself
        "subtotal + tax": [
            base + sum(part, Decimal())
            for base, may_be_whole in bases
            for count in range(len(added[:_MOST_ADDED]), -may_be_whole, -1)
            for part in combinations(added[:_MOST_ADDED], count)
        ],
        "items": [sum(items, Decimal())] if items else [],
    }
    return [
        {
            "check": name,
            "holds": wanted in found,
            "amount": str(wanted if wanted in found else found[0]),
        }
        for name, found in totals.items()
        if found
        and (wanted in found or name != "subtotal + tax" or any(whole for _, whole in bases))
    ]


def same_row(first: Sequence[float], second: Sequence[float]) -> bool:
    """Return whether two boxes stand at one height: centres half a height apart at most."""
    apart = abs(first[1] + first[3] - second[1] - second[3]) / 2
    return apart <= min(first[3] - first[1], second[3] - second[1]) / 2


def _labels(
    written: Sequence[ImagePatch], label: str | ImagePatch
) -> Iterator[tuple[ImagePatch, ImagePatch | None]]:
    """Yield the lines that contain a label, each with its part after the label, or None."""
    if isinstance(label, ImagePatch):
        yield label, None
        return
    letters = [
        re.escape(letter)
        for letter in text_of(label, "label").lower().translate(_ALIKE)
        if letter.isalnum()
    ]
    letters = letters[:_LONGEST_LABEL]
    if not letters:
        raise ValueError("the words to find are empty; give at least one")
    wrong = range(1, len(letters)) if len(letters) >= _TOLERANT else ()
    forms = [letters, *([*letters[:at], ".?", *letters[at + 1 :]] for at in wrong)]
    pattern = re.compile(r"(?<![^\W_])(?:" + "|".join(map(r"\W*".join, forms)) + ")")
    for line in written:
        match = pattern.search(line.label.lower().translate(_ALIKE))
        if match is not None:
            rest = line.label[match.end() :].lstrip(" :.=-_*")
            start = len(line.label) - len(rest)
            yield line, _part(line, rest, start, len(line.label)) if rest else None


def _part(line: ImagePatch, value: str, start: int, end: int) -> ImagePatch:
    """Return the characters ``[start, end)`` of a line as a patch; all are taken to be as wide."""
    letter = line.width / max(1, len(line.label))
    left, lower, _, upper = line._box
    box = (round(left + start * letter, 2), lower, round(left + end * letter, 2), upper)
    return ImagePatch._at(line._handle, *box, label=value)


def _joined(parts: Sequence[ImagePatch]) -> ImagePatch:
    lefts, lowers, rights, uppers = zip(*(part._box for part in parts), strict=True)
    box = min(lefts), min(lowers), max(rights), max(uppers)
    label = " ".join(part.label for part in sorted(parts, key=lambda part: part.left))
    return ImagePatch._at(parts[0]._handle, *box, label=label)


def _height(line: ImagePatch) -> float:
    return line.upper - line.lower


def _values(
    tools: Any, patch: ImagePatch | list[ImagePatch], read: Callable[[str], Iterable[Written]]
) -> list[ImagePatch]:
    patches = patch if isinstance(patch, list) else [patch]
    written = [line for each in patches for line in ([each] if each.label else tools.lines(each))]
    return [_part(line, *value) for line in written for value in read(line.label)]


def _rows(written: Sequence[ImagePatch]) -> Iterator[tuple[str, list[Decimal]]]:
    """Yield the text of each row without spaces, and its amounts; tax summaries end a receipt."""
    rows: list[list[ImagePatch]] = []
    for line in written:
        if rows and same_row(rows[-1][-1]._box, line._box):
            rows[-1].append(line)
        else:
            rows.append([line])
    for row in rows:
        text = "".join(line.label for line in row).lower().replace(" ", "")
        if "summary" in text:
            return
        yield text, [Decimal(found.value) for line in row for found in amounts_in(line.label)]

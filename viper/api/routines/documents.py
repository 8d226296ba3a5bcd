"""Routines on written text with its places: lines, labelled values, dates, amounts and their sums.

They run in the parent on the lines that the role ``ocr`` reads (``Tools.lines``), each a patch
whose label is its text. What they return was written by strangers. To a program it is text and
nothing else.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from typing import Any

from viper.api.image_patch import ImagePatch
from viper.api.registry import routine
from viper.api.runtime import text as text_of
from viper.api.written import CURRENCY, Written, amounts_in, dates_in, typed

_TASKS, API = ("ground", "question", "statement", "extract"), "photo"

# Letters that text recognition takes for each other.
_ALIKE = str.maketrans("01|!i58", "ollllsb")

# Longer words are no label. From the second length on one letter may be wrong or missing.
_LONGEST_LABEL, _TOLERANT = 60, 5

# What may stand between a label and its value, but not the minus of a number.
_BETWEEN = re.compile(rf"^-*(?:[ :.=_*]|(?<=-)-|-(?!(?:{CURRENCY}\s?)?[0-9]))*", re.IGNORECASE)

# A value stands at most this many heights of its label below it.
_BELOW = 3.0

# Parts of the sums on a receipt by the text of their rows without spaces; the first that fits.
_PARTS = {
    "count": "qty|quantity|item|point",
    "change": "(?<!ex)change",
    "cash": "cash(?!ier)|tender|paid|received|visa|master|card|debit",
    "base": "sub-?total|exclu?d|excl|before",
    "total": "total.*ncl|ncl.*total|rounded|(total|amountdue|payable)(?!.*(tax|gst|sst|vat))",
    "tax": "tax|gst|sst|vat",
    "added": "serv|sv[rc]|round|disc|adj|tip",
}

# A receipt has few amounts of a part and many items; all pairs of longer lists would take time.
_MOST, _MOST_ITEMS = 20, 500


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
            image_patch = ImagePatch(image)
            found = find_text(image_patch, "fragile")
            return found[0] if found else image_patch
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
        edge = line.right - line.height / 2
        right = [o for o in written if same_row(o._box, line._box) and o.left >= edge]
        if parts := rest + right:
            lefts, lowers, rights, uppers = zip(*(part._box for part in parts), strict=True)
            box = min(lefts), min(lowers), max(rights), max(uppers)
            text = " ".join(part.label for part in parts)
            values.append(ImagePatch._at(line._handle, *box, label=text))
    return values


@routine(_TASKS, api=API, tool=True, needs="ocr")
def value_below(tools: Any, patch: ImagePatch, label: str | ImagePatch) -> list[ImagePatch]:
    """Return the line below a label, for each line that contains it.

    ``label`` is words, or a line that was found before.

    Example:
        # What is in the column "Amount"?
        def execute_command(image):
            found = value_below(ImagePatch(image), "amount")
            return found[0].label if found else "unknown"
    """
    written, values = tools.lines(patch), []
    for line, _ in _labels(written, label):
        for other in written:
            down = line.vertical_center - other.vertical_center
            is_under = min(other.right, line.right) > max(other.left, line.left)
            if is_under and line.height / 2 < down < _BELOW * line.height:
                values.append(other)
                break
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
    parts: dict[str, list[Decimal]] = defaultdict(list)
    for row in in_rows(tools.lines(patch)):
        text = "".join(line.label for line in row).lower().replace(" ", "")
        if "summary" in text:
            break  # repeats the tax by its rates
        values = [Decimal(value) for line in row for value, *_ in amounts_in(line.label)]
        kind = next((kind for kind, form in _PARTS.items() if re.search(form, text)), "items")
        most = _MOST
        if kind == "items":  # all of them stand above their sum
            most = 0 if parts["base"] or parts["total"] else _MOST_ITEMS
        if values and len(parts[kind]) < most:
            parts[kind].append(values[-1])
    added, tax = sum(parts["added"]), parts["tax"]
    totals: dict[str, list[Any]] = {
        "cash - change": [abs(a) - abs(b) for a in parts["cash"] for b in parts["change"]],
        # a tax may be part of the total, or be printed twice
        "subtotal + tax": [
            base + added + more
            for kind in ("base", "total")
            for base in parts[kind]
            for more in (Decimal(), sum(tax), *tax)
            if kind == "base" or added + more  # a total does not check itself
        ],
        "items": [sum(parts["items"])] if parts["items"] else [],
    }
    # Without a subtotal that sum can hold but not fail.
    if wanted not in totals["subtotal + tax"] and not parts["base"]:
        del totals["subtotal + tax"]
    checks = ((name, found, wanted in found) for name, found in totals.items() if found)
    return [{"check": name, "holds": holds, "amount": f"{wanted if holds else found[0]}"}
            for name, found, holds in checks]  # fmt: skip


def same_row(first: Sequence[float], second: Sequence[float]) -> bool:
    """Return whether two boxes stand at one height: centres half a height apart at most."""
    apart = abs(first[1] + first[3] - second[1] - second[3]) / 2
    return apart <= min(first[3] - first[1], second[3] - second[1]) / 2


def in_rows(written: Sequence[ImagePatch]) -> list[list[ImagePatch]]:
    """Return lines as rows from top to bottom, each from left to right."""
    rows: list[list[ImagePatch]] = []
    for line in sorted(written, key=lambda line: -line.vertical_center):
        if rows and same_row(rows[-1][-1]._box, line._box):
            rows[-1].append(line)
        else:
            rows.append([line])
    return [sorted(row, key=lambda line: line.left) for row in rows]


def _labels(
    written: Sequence[ImagePatch], label: str | ImagePatch
) -> Iterator[tuple[ImagePatch, list[ImagePatch]]]:
    """Yield the lines that contain a label, each with its part after the label, if any."""
    if isinstance(label, ImagePatch):
        yield label, []
        return
    words = text_of(label, "label").lower().translate(_ALIKE)
    letters = [re.escape(letter) for letter in words if letter.isalnum()][:_LONGEST_LABEL]
    if not letters:
        raise ValueError("the words to find are empty; give at least one")
    wrong = range(1, len(letters)) if len(letters) >= _TOLERANT else ()
    forms = [letters, *([*letters[:at], ".?", *letters[at + 1 :]] for at in wrong)]
    pattern = re.compile(r"(?<![^\W_])(?:" + "|".join(map(r"\W*".join, forms)) + ")")
    for line in written:
        if match := pattern.search(line.label.lower().translate(_ALIKE)):
            rest = _BETWEEN.sub("", line.label[match.end() :])
            end = len(line.label)
            yield line, [_part(line, rest, end - len(rest), end)] if rest else []


def _part(line: ImagePatch, value: str, start: int, end: int) -> ImagePatch:
    """Return the characters ``[start, end)`` of a line as a patch; all are taken to be as wide."""
    letter = line.width / max(1, len(line.label))
    left, right = (round(line.left + at * letter, 2) for at in (start, end))
    return ImagePatch._at(line._handle, left, line.lower, right, line.upper, label=value)


def _values(
    tools: Any, patch: ImagePatch | list[ImagePatch], read: Callable[[str], Iterable[Written]]
) -> list[ImagePatch]:
    patches = patch if isinstance(patch, list) else [patch]
    written: list[ImagePatch] = []
    for each in patches:
        written += [each] if getattr(each, "label", "") else tools.lines(each)
    return [_part(line, *value) for line in written for value in read(line.label)]

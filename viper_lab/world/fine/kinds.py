"""The kinds of queries of ``world-fine``, each with its picture, its answer and a plan.

A plan is what a model that sees may reply, turn by turn: code that measures or shows a part, then
the answer. ``one_shot`` is a single program for the same query, which cannot look at what it found.
"""

from __future__ import annotations

import math
import re
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from viper_lab.world.fine.canvas import (
    COLORS,
    HEIGHT,
    LETTERS,
    WIDTH,
    Pixels,
    background,
    free_place,
    noisy,
    tile,
    turned,
    write,
)

DONE = "<done></done>"

# Wordings by split and kind. Whoever wrote those of val and test had not seen train's.
WORDINGS: Mapping[str, Mapping[str, Sequence[str]]] = tomllib.loads(
    Path(__file__).with_name("wordings.toml").read_text("utf-8")
)

# A choice in a wording of training, such as ``(a|b)``.
_ONE_OF = re.compile(r"\(([^()|]*(?:\|[^()|]*)+)\)")


@dataclass(frozen=True, eq=False)
class FineSample:
    """A query with its pictures.

    Attributes:
        pictures: one or two, ``uint8 [768, 1024, 3]`` RGB.
        answer: a text, or a whole number.
        plan: replies turn by turn.
        one_shot: a program that stores an answer in one turn.
        facts: class numbers of what each picture shows that the plan shows, by :data:`FACTS`.
    """

    kind: str
    pictures: tuple[Pixels, ...]
    question: str
    answer: str | int
    plan: tuple[str, ...]
    one_shot: str
    facts: tuple[Mapping[str, int], ...] = ()


# Facts about shown pictures with their numbers of classes: a letter, the digits of a level sign,
# the turn of a sign in steps of 30 degrees, and the end of a gauge's scale.
FACTS: Mapping[str, int] = {
    "letter": len(LETTERS), "first": 10, "second": 10, "third": 10, "turn": 12, "end": 6
}  # fmt: skip


def code(text: str) -> str:
    """Return code as a reply."""
    return f"<code>\n{text.strip()}\n</code>"


def said(answer: str | int) -> str:
    """Return an answer as a reply."""
    return f"The answer is {answer}."


def wording(kind: str, split: str, rng: np.random.Generator, color: str = "") -> str:
    """Return a question of a kind in a wording of the split."""
    text = _ONE_OF.sub(lambda found: _pick(rng, found[1].split("|")), _wording(kind, split, rng))
    return " ".join(text.format(color=color).split())


def _wording(kind: str, split: str, rng: np.random.Generator) -> str:
    """Return a wording; patterns of training stand for many wordings each, so half are of these."""
    texts = WORDINGS[split][kind]
    patterns = [text for text in texts if "|" in text]
    chosen: str = _pick(rng, patterns if patterns and rng.random() < 0.5 else texts)
    return chosen


def _pick(rng: np.random.Generator, items: Any) -> Any:
    return items[int(rng.integers(len(items)))]


def _tag(rng: np.random.Generator, split: str) -> FineSample:
    """Ask for the letter on a tag of 12 to 16 pixels among others."""
    picture, taken = background(rng), list[tuple[float, float, float]]()
    names = list(rng.permutation(list(COLORS)))
    letters = rng.permutation(list(LETTERS))
    color, letter = str(names[0]), str(letters[0])
    for name, other in zip(names, letters, strict=False):
        side = int(rng.integers(12, 17))
        tile(picture, str(other), free_place(rng, taken, 16), side, COLORS[str(name)])
    find = f"tag = components(threshold_color(image_patch, '{color}'), image_patch)[0]['patch']"
    return FineSample(
        "tag",
        (noisy(picture, rng),),
        wording("tag", split, rng, color),
        letter,
        (code(f"{find}\nshow(enlarge(tag, 8))"), said(letter)),
        code(f"{find}\nfinal_answer = tag.simple_query('Which letter is this?')"),
        ({"letter": LETTERS.index(letter)},),
    )


def _sign(rng: np.random.Generator, split: str) -> FineSample:
    """Ask for the number on a sign that is turned by any angle."""
    picture = background(rng)
    number = str(int(rng.integers(100, 1_000)))
    board = np.full((64, 132, 3), COLORS["yellow"], np.uint8)
    board[54:] = COLORS["red"]
    write(board, number, (66, 27), 46, (0, 0, 0))
    step = int(rng.integers(-5, 7)) * 30
    angle = step + float(rng.uniform(-8, 8))
    turned(picture, board, free_place(rng, [], 80), angle)
    find = "sign = components(threshold_color(image_patch, 'yellow'), image_patch)[0]['patch']"
    plan = [code(f"{find}\nshow(sign)")]
    if step:
        plan.append(
            code(
                f"level = rotate(sign, {-step})\n"
                "show(components(threshold_color(level, 'yellow'), level)[0]['patch'])"
            )
        )
    digits = dict(zip(("first", "second", "third"), map(int, number), strict=True))
    turn = {"turn": step // 30 % 12}
    return FineSample(
        "sign",
        (noisy(picture, rng),),
        wording("sign", split, rng),
        int(number),
        (*plan, said(number)),
        code(f"{find}\nfinal_answer = sign.simple_query('Which number is this?')"),
        (turn, digits) if step else (turn | digits,),
    )


def _faint(rng: np.random.Generator, split: str) -> FineSample:
    """Ask for a letter that differs from its ground by a few gray levels."""
    picture = background(rng)
    letter = _pick(rng, LETTERS)
    width, height = int(rng.integers(200, 280)), int(rng.integers(180, 240))
    x = int(rng.integers(10, WIDTH - width - 10))
    y = int(rng.integers(10, HEIGHT - height - 10))
    gray = int(rng.integers(90, 170))
    cv2.rectangle(picture, (x - 6, y - 6), (x + width + 5, y + height + 5), COLORS["blue"], -1)
    panel = np.full((height, width, 3), gray, np.uint8)
    shade = gray + int(_pick(rng, (-6, -5, -4, 4, 5, 6)))
    place = (width / 2 + rng.uniform(-25, 25), height / 2 + rng.uniform(-15, 15))
    write(panel, letter, place, int(rng.integers(120, 160)), (shade, shade, shade))
    picture[y : y + height, x : x + width] = panel
    find = (
        "frame = components(threshold_color(image_patch, 'blue'), image_patch)[0]['patch']\n"
        "panel = frame.crop(10, 10, frame.width - 10, frame.height - 10)"
    )
    return FineSample(
        "faint",
        (noisy(picture, rng, 1.2),),
        wording("faint", split, rng),
        letter,
        (code(f"{find}\nshow(contrast(blur(panel, 3)))"), said(letter)),
        code(
            f"{find}\nfinal_answer = contrast(blur(panel, 3)).simple_query('Which letter is this?')"
        ),
        ({"letter": LETTERS.index(letter)},),
    )


def _dots(rng: np.random.Generator, split: str) -> FineSample:
    """Ask how many small dots of a color there are, among dots of other colors."""
    picture, taken = background(rng, (10, 30)), list[tuple[float, float, float]]()
    names = [str(name) for name in rng.permutation(list(COLORS))[:4]]
    counts = [int(rng.integers(6, 41)) for _ in names]
    for name, count in zip(names, counts, strict=True):
        for _ in range(count):
            place = free_place(rng, taken, 9)
            cv2.circle(picture, place, int(rng.integers(3, 7)), COLORS[name], -1, cv2.LINE_AA)
    program = code(
        f"dots = components(threshold_color(image_patch, '{names[0]}'), image_patch, 6)\n"
        "final_answer = len(dots)"
    )
    answer = counts[0]
    return FineSample(
        "dots",
        (noisy(picture, rng),),
        wording("dots", split, rng, names[0]),
        answer,
        (program, DONE),
        program,
    )


def _pair(rng: np.random.Generator, split: str) -> FineSample:
    """Ask for the letter at the one place where two pictures differ."""
    first = background(rng, (40, 80))
    taken = list[tuple[float, float, float]]()
    for _ in range(12):
        shade = int(rng.integers(40, 220))
        place = free_place(rng, taken, 26)
        tile(first, _pick(rng, LETTERS), place, 26, (shade, shade, shade))
    second, letter = first.copy(), _pick(rng, LETTERS)
    shade = int(_pick(rng, (20, 235)))
    tile(second, letter, free_place(rng, taken, 26), 26, (shade, shade, shade))
    find = (
        "change = threshold(blur(difference(image_patches[0], image_patches[1]), 3), 12)\n"
        "place = components(change, image_patches[1])[0]['patch']"
    )
    return FineSample(
        "pair",
        (noisy(first, rng), noisy(second, rng)),
        wording("pair", split, rng),
        letter,
        (code(f"{find}\nshow(enlarge(place, 3))"), said(letter)),
        code(f"{find}\nfinal_answer = place.simple_query('Which letter is this?')"),
        ({"letter": LETTERS.index(letter)},),
    )


def _line(rng: np.random.Generator, split: str) -> FineSample:
    """Ask for the letter at the right end of one of five crossing lines."""
    picture = background(rng, (10, 30))
    names = [str(name) for name in rng.permutation(list(COLORS))[:5]]
    letters = [str(letter) for letter in rng.permutation(list(LETTERS))[:5]]
    ends = rng.permutation(5)
    xs = np.linspace(60, WIDTH - 90, 160)
    for row, name in enumerate(names):
        knots = [100 + 140 * row, *rng.uniform(60, HEIGHT - 60, 3), 100 + 140 * int(ends[row])]
        ys = _smooth(np.array(knots, np.float64), xs)
        points = np.stack([xs, ys], axis=1).round().astype(np.int32)
        cv2.polylines(picture, [points], False, COLORS[name], 4, cv2.LINE_AA)
    for row, letter in enumerate(letters):
        place = (WIDTH - 62, 100 + 140 * int(ends[row]))
        tile(picture, letter, place, 26, (245, 245, 245))
    color, letter = names[0], letters[0]
    find = (
        f"line = contours(threshold_color(image_patch, '{color}'), image_patch)\n"
        "x, y = max(point for part in line for point in part)\n"
        "end = image_patch.crop(x - 10, y - 30, x + 50, y + 30)"
    )
    return FineSample(
        "line",
        (noisy(picture, rng),),
        wording("line", split, rng, color),
        letter,
        (code(f"{find}\nshow(end)"), said(letter)),
        code(f"{find}\nfinal_answer = end.simple_query('Which letter is this?')"),
        ({"letter": LETTERS.index(letter)},),
    )


GAUGE_ENDS = (10, 20, 50, 100, 200, 400)
# The needle goes from this many degrees left of the top to as many right of it.
SPAN = 120


def _gauge(rng: np.random.Generator, split: str) -> FineSample:
    """Ask what a dial shows; the end of its scale is written on it."""
    picture = background(rng)
    radius = int(rng.integers(70, 86))
    x, y = free_place(rng, [], radius + 8)
    end, tick = int(_pick(rng, GAUGE_ENDS)), int(rng.integers(0, 11))
    cv2.circle(picture, (x, y), radius + 5, (40, 40, 40), -1, cv2.LINE_AA)
    cv2.circle(picture, (x, y), radius, (245, 245, 245), -1, cv2.LINE_AA)
    for number in range(11):
        inner, outer = (_on_dial(x, y, number, r) for r in (radius - 10, radius - 2))
        cv2.line(picture, inner, outer, (20, 20, 20), 2, cv2.LINE_AA)
    write(picture, str(end), (x, y + radius * 0.58), 24, (0, 0, 0))
    cv2.line(picture, (x, y), _on_dial(x, y, tick, radius - 14), COLORS["red"], 4, cv2.LINE_AA)
    cv2.circle(picture, (x, y), 8, COLORS["blue"], -1, cv2.LINE_AA)
    find = (
        "hub = components(threshold_color(image_patch, 'blue'), image_patch)[0]\n"
        "x, y = hub['x'], hub['y']"
    )
    read = (
        "import math\n"
        "needle = contours(threshold_color(image_patch, 'red'), image_patch)\n"
        "tip = max((p for part in needle for p in part), key=lambda p: math.dist(p, (x, y)))\n"
        "angle = math.degrees(math.atan2(tip[0] - x, tip[1] - y))\n"
        f"final_answer = round((angle + {SPAN}) / {2 * SPAN} * 10) * {end // 10}"
    )
    return FineSample(
        "gauge",
        (noisy(picture, rng),),
        wording("gauge", split, rng),
        tick * end // 10,
        (code(f"{find}\nshow(image_patch.crop(x - 40, y - 75, x + 40, y - 15))"), code(read), DONE),
        code(f"{find}\n{read}"),
        ({"end": GAUGE_ENDS.index(end)},),
    )


def _on_dial(x: int, y: int, tick: int, radius: float) -> tuple[int, int]:
    angle = math.radians(tick / 10 * 2 * SPAN - SPAN)
    return round(x + radius * math.sin(angle)), round(y - radius * math.cos(angle))


def _smooth(knots: Any, xs: Any) -> Any:
    from scipy.interpolate import PchipInterpolator

    places = np.linspace(xs[0], xs[-1], len(knots))
    return PchipInterpolator(places, knots)(xs)


# Draws of a sample by kind.
KINDS: Mapping[str, Callable[[np.random.Generator, str], FineSample]] = {
    "tag": _tag,
    "sign": _sign,
    "faint": _faint,
    "dots": _dots,
    "pair": _pair,
    "line": _line,
    "gauge": _gauge,
}

# Kinds whose right plan depends on what a shown part looks like.
PLAN_DEPENDS_ON_PICTURE = ("sign", "gauge")

_SPLITS = {"train": 0, "val": 1, "test": 2}


def fine_sample(split: str, seed: int, index: int) -> FineSample:
    """Return a sample; kinds take turns. The same arguments give the same sample."""
    rng = np.random.default_rng((_SPLITS[split], seed, index))
    return list(KINDS.values())[index % len(KINDS)](rng, split)

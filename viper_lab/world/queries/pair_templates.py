"""The wordings of statements about two pictures."""

from __future__ import annotations

from collections.abc import Mapping

from viper_lab.world.queries.wording import Templates

NUMBERS = ("no", "one", "two", "three", "four")

TEMPLATES: Mapping[str, Templates] = {
    "one_and_other": Templates(
        (
            "one picture shows {n} and the other shows {m}",
            "one picture has {n} and the other one has {m}",
            "you see {n} in one picture and {m} in the other",
        ),
        (
            "one of the pictures shows {n} and the other one shows {m}",
            "in one picture you see {n} and in the other {m}",
        ),
        (
            "one picture holds {n} while the other holds {m}",
            "of the two pictures one has {n} and the other has {m}",
        ),
    ),
    "more": Templates(
        (
            "there are more {ks} in the {side} picture than in the {far} one",
            "the {side} picture shows more {ks} than the {far} one",
            "the {far} picture has fewer {ks} than the {side} one",
        ),
        (
            "the {side} picture has more {ks} than the {far} one",
            "there are fewer {ks} in the {far} picture than in the {side} one",
        ),
        (
            "more {ks} are in the {side} picture than in the {far} one",
            "the {far} picture shows fewer {ks} than the {side} one",
        ),
    ),
    "same_number": Templates(
        (
            "both pictures show the same number of {ks}",
            "there are as many {ks} in the left picture as in the right one",
            "the two pictures have the same number of {ks}",
        ),
        (
            "the left picture shows as many {ks} as the right one",
            "the number of {ks} is the same in both pictures",
        ),
        ("the pictures show the same number of {ks}", "both pictures have as many {ks}"),
    ),
    "both": Templates(
        (
            "both pictures show {ak}",
            "there is {ak} in both pictures",
            "each picture has at least one {k}",
        ),
        ("each of the two pictures shows {ak}", "at least one {k} is in each picture"),
        ("both of the pictures have {ak}", "there is at least one {k} in each picture"),
    ),
    "neither": Templates(
        (
            "neither picture shows {ak}",
            "there is no {k} in either picture",
            "no picture has {ak}",
        ),
        ("neither of the two pictures has {ak}", "no {k} is in either of the pictures"),
        ("there are no {ks} in the two pictures", "neither picture has {ak}"),
    ),
    "exactly_one": Templates(
        (
            "exactly one of the pictures shows {ak}",
            "only one of the two pictures has {ak}",
            "there is {ak} in exactly one picture",
        ),
        ("just one of the pictures has {ak}", "there is {ak} in only one of the pictures"),
        ("exactly one picture has {ak}", "only one picture shows {ak}"),
    ),
    "total": Templates(
        (
            "you see {n} in the two pictures together",
            "the pictures show {n} in total",
            "together the two pictures have {n}",
        ),
        ("in total you see {n} in the pictures", "the two pictures together show {n}"),
        ("you see {n} in both pictures together", "in the two pictures you see {n} in total"),
    ),
}
"""``{n}`` and ``{m}`` are numbered kinds, "exactly two cubes"; ``{far}`` is the other side."""

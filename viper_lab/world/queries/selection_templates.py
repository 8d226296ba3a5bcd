"""The wordings of selections, whole and inside another phrase."""

from __future__ import annotations

from collections.abc import Mapping

from viper_lab.world.queries.wording import Templates

TEMPLATES: Mapping[str, Templates] = {
    "unique": Templates(
        ("the {k}", "the only {k}", "the one {k}", "the {k} in the picture"),
        ("the one {k} in the picture", "the only {k} in the picture"),
        (
            "the {k} you see",
            "the {k} here",
            "that {k}",
            "the {k} that you see in the picture",
            "the one {k} here",
        ),
    ),
    "extreme": Templates(
        (
            "the {most} {k}",
            "the {k} {place}",
            "the {k} that is {alt}",
            "the {most} of the {ks}",
            "the {most} one of the {ks}",
        ),
        ("the {k} that is {most}", "the {k} that is {place}"),
        (
            "the {k} which is {most}",
            "the {k} that looks {most}",
            "the {k} that is the {most} one",
            "the {most} {k} you see",
            "the one {k} that is {alt}",
            "the {k} which is {place}",
            "the {k} you see {place}",
            "the one of the {ks} {place}",
            "of the {ks} the {most} one",
            "of all the {ks} the one that is {alt}",
            "the {k} which is {alt}",
            "the {most} {k} of all",
            "the {k} {alt}",
            "the {most} {k} in the picture",
        ),
    ),
    "nth": Templates(
        (
            "the {nth} {k} from the {edge}",
            "the {k} that is {nth} from the {edge}",
            "the {nth} {k} counting from the {edge}",
            "the {nth} of the {ks} from the {edge}",
        ),
        (
            "the {nth} of the {ks} counting from the {edge}",
            "the {nth} one of the {ks} from the {edge}",
        ),
        (
            "the {k} which is {nth} from the {edge}",
            "the {nth} {k} if you count from the {edge}",
            "the {nth} {k} you see from the {edge}",
            "counting from the {edge} the {nth} {k}",
            "from the {edge} the {nth} {k}",
            "the {nth} {k} starting from the {edge}",
            "of the {ks} the {nth} one from the {edge}",
            "the {nth} of all the {ks} from the {edge}",
            "the {k} that is the {nth} one from the {edge}",
        ),
    ),
    "middle": Templates(
        (
            "the middle {k}",
            "the {k} in the middle",
            "the middle one of the {ks}",
            "the {k} that is the middle one",
        ),
        ("the {k} that is in the middle", "the one of the {ks} in the middle"),
        (
            "the {k} which is in the middle",
            "the middle one of all the {ks}",
            "of the {ks} the middle one",
            "the {k} you see in the middle",
            "the middle {k} you see",
            "the {k} which is the middle one",
        ),
    ),
    "closest": Templates(
        (
            "the {k} closest to {a}",
            "the {k} nearest to {a}",
            "the {k} that is closest to {a}",
            "the closest {k} to {a}",
        ),
        ("the {k} that is nearest to {a}", "the nearest {k} to {a}"),
        (
            "the {k} which is closest to {a}",
            "the {k} which is nearest to {a}",
            "the {k} you see nearest to {a}",
            "the {k} you see closest to {a}",
            "of the {ks} the one closest to {a}",
            "the one of the {ks} that is nearest to {a}",
            "the {k} that comes closest to {a}",
            "the one {k} nearest to {a}",
            "closest to {a} the {k}",
        ),
    ),
    "farthest_from": Templates(
        (
            "the {k} farthest from {a}",
            "the {k} that is farthest from {a}",
            "the {k} most distant from {a}",
            "the farthest {k} from {a}",
        ),
        ("the {k} that is most distant from {a}", "the most distant {k} from {a}"),
        (
            "the {k} which is farthest from {a}",
            "the {k} which is most distant from {a}",
            "of the {ks} the one farthest from {a}",
            "the {k} you see farthest from {a}",
            "the one of the {ks} most distant from {a}",
            "the one {k} farthest from {a}",
        ),
    ),
    "region": Templates(
        (
            "the {k} {rel} {a}",
            "the {k} that is {rel} {a}",
            "the {k} you see {rel} {a}",
            "the one {k} {rel} {a}",
        ),
        ("the {k} that you see {rel} {a}", "the one {k} that is {rel} {a}"),
        (
            "the {k} which is {rel} {a}",
            "the {k} that you can see {rel} {a}",
            "{rel} {a} the {k}",
            "the {k} seen {rel} {a}",
            "the {k} which you see {rel} {a}",
            "the one {k} you see {rel} {a}",
            "the {k} there is {rel} {a}",
            "the only {k} {rel} {a}",
            "the only {k} that is {rel} {a}",
        ),
    ),
    "region_extreme": Templates(
        (
            "the {most} {k} {rel} {a}",
            "the {most} of the {ks} {rel} {a}",
            "the {most} {k} that is {rel} {a}",
            "the {most} one of the {ks} {rel} {a}",
        ),
        ("the {most} {k} you see {rel} {a}", "the {most} of the {ks} that are {rel} {a}"),
        (
            "the {most} {k} which is {rel} {a}",
            "of the {ks} {rel} {a} the {most} one",
            "the {most} of all the {ks} {rel} {a}",
            "the {most} one of the {ks} that are {rel} {a}",
            "the {most} {k} that you see {rel} {a}",
            "of the {ks} that are {rel} {a} the {most}",
            "{rel} {a} the {most} {k}",
        ),
    ),
    "filtered_extreme": Templates(
        (
            "the {most} {k} that is {prop}",
            "the {most} of the {ks} that are {prop}",
            "the {most} {k} you see that is {prop}",
            "the {most} one of the {ks} that are {prop}",
        ),
        (
            "the {most} of the {ks} you see that are {prop}",
            "the {most} one that is {prop} of the {ks}",
        ),
        (
            "the {most} {k} which is {prop}",
            "of the {ks} that are {prop} the {most} one",
            "the {most} of all the {ks} that are {prop}",
            "the {most} {k} that you see that is {prop}",
            "of the {prop} {ks} the {most}",
            "the {most} one of the {ks} which are {prop}",
            "of the {ks} the {most} one that is {prop}",
        ),
    ),
    "same_color": Templates(
        (
            "the {k} with the same color as {a}",
            "the {k} that has the same color as {a}",
            "the {k} of the same color as {a}",
            "the {k} that shares the color of {a}",
        ),
        ("the one {k} with the same color as {a}", "the one {k} that shares the color of {a}"),
        (
            "the {k} which has the same color as {a}",
            "the {k} whose color is the same as that of {a}",
            "the {k} sharing the color of {a}",
            "the {k} which shares the color of {a}",
            "the one {k} of the same color as {a}",
            "the {k} you see with the same color as {a}",
            "the {k} that is of the same color as {a}",
        ),
    ),
    "between": Templates(
        (
            "the {k} between {a} and {b}",
            "the {k} that is between {a} and {b}",
            "the {k} in between {a} and {b}",
            "the one {k} between {a} and {b}",
        ),
        ("the {k} that is in between {a} and {b}", "the one {k} that is between {a} and {b}"),
        (
            "the {k} which is between {a} and {b}",
            "between {a} and {b} the {k}",
            "the {k} you see between {a} and {b}",
            "the {k} which is in between {a} and {b}",
            "the one {k} in between {a} and {b}",
        ),
    ),
    "biggest": Templates(
        (
            "the {most} {k}",
            "the {most} of the {ks}",
            "the {k} that looks {most}",
            "the {most} one of the {ks}",
        ),
        ("the {k} that is {most}", "the one of the {ks} that looks {most}"),
        (
            "the {k} which is {most}",
            "the {k} which looks {most}",
            "of the {ks} the {most} one",
            "the {most} {k} you see",
            "the {most} of all the {ks}",
            "the {k} that is the {most} one",
            "the one of the {ks} which is {most}",
        ),
    ),
    "near_pair": Templates(
        (
            "the {k} closest to any {o}",
            "the {k} nearest to any {o}",
            "the {k} that is closest to any {o}",
            "the closest {k} to any {o}",
        ),
        ("the {k} that is nearest to any {o}", "the nearest {k} to any {o}"),
        (
            "the {k} which is closest to any {o}",
            "the {k} which is nearest to any {o}",
            "of the {ks} the one closest to any {o}",
            "the one {k} nearest to any {o}",
            "the {k} you see closest to any {o}",
        ),
    ),
}

NESTED_EXTREMES = Templates(
    ("the {most} {k}", "the {most} of the {ks}", "the {k} that is {alt}"),
    ("the {k} that is {most}",),
    (
        "the {k} which is {most}",
        "the {k} which is {alt}",
        "the {k} that looks {most}",
        "the {most} one of the {ks}",
        "the {k} that is the {most} one",
        "the {most} {k} in the picture",
        "the {most} {k} of all",
    ),
)
"""Extremes inside another phrase: those that cannot be read as part of the outer one."""

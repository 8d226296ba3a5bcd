"""The wordings of instructions to edit a picture."""

from __future__ import annotations

from collections.abc import Mapping

from viper_lab.world.queries.wording import Templates

TEMPLATES: Mapping[str, Templates] = {
    "replace": Templates(
        (
            "replace {the} with {new}",
            "replace {the} by {new}",
            "put {new} in place of {the}",
        ),
        ("in place of {the} put {new}", "please replace {the} with {new}"),
        ("paint {new} in place of {the}", "let {new} stand where {the} is"),
    ),
    "color_pop": Templates(
        (
            "keep only {the} in color",
            "make everything gray but {the}",
            "create a color pop of {the}",
        ),
        ("make a color pop of {the}", "keep the color of {the} and make everything else gray"),
        ("make everything but {the} gray", "only {the} should keep the color"),
    ),
    "blur_background": Templates(
        (
            "blur everything but {the}",
            "blur the background of {the}",
            "keep only {the} sharp and blur the background",
        ),
        ("make a blur of everything but {the}", "blur the background and keep {the} sharp"),
        ("blur the whole picture but {the}", "keep {the} sharp and blur everything else"),
    ),
    "put_emoji": Templates(
        (
            "hide {the} behind the emoji of {emoji}",
            "cover {the} with the emoji of {emoji}",
            "put the emoji of {emoji} over {the}",
        ),
        ("hide {the} with the emoji of {emoji}", "over {the} put the emoji of {emoji}"),
        ("cover {the} by the emoji of {emoji}", "place the emoji of {emoji} over {the}"),
    ),
}
"""``{the}`` is "the red cube" or "all red cubes"."""

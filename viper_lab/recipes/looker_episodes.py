"""Episodes of ``world-fine`` for the training of the model that sees and writes code.

Each plan runs on the real tools, in this process, since the programs are the laboratory's own. The
messages are those that strategy ``look`` builds.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Literal

import numpy as np

from viper.api import prelude
from viper.api.image_patch import ImagePatch
from viper.models.llm.messages import Conversation, Picture, assistant, pictures_of, user
from viper.models.media import Media, media_from
from viper.prompting.exploring import Step, compact_look_opening, conversation_after, read_action
from viper.strategies.explore.environment import NOTHING, format_value
from viper.tools.models import ModelSet
from viper.tools.parent_routines import api_client
from viper.tools.session import SHOW, ToolSession, media_arguments
from viper.tools.settings import ToolSettings
from viper.tools.toolbox import Toolbox
from viper_lab.world.fine.canvas import COLORS, Pixels
from viper_lab.world.fine.kinds import FineSample, fine_sample, said

Mode = Literal["look", "blind", "one_shot", "whole", "tiles"]

# Shares of the modes in training: with pictures, without, one program, and answers at once from the
# whole picture or from tiles of it.
SHARES: dict[Mode, float] = {
    "look": 0.72,
    "blind": 0.07,
    "one_shot": 0.07,
    "whole": 0.08,
    "tiles": 0.06,
}

# Shares of words that a question lacks in training, and of questions in lower case.
MISSING, LOWER = 0.12, 0.3

# Number of shown pictures that stay, as in the settings of ``look``.
KEEP = 6

# What the opening says instead of a number of turns to ask for an answer without code.
AT_ONCE = "answer at once"

# Columns and rows of tiles of 256 x 256 pixels.
TILES = (4, 3)


def episode(split: str, seed: int, index: int) -> tuple[Conversation, list[Mapping[str, int]]]:
    """Return the conversation of a sample, in a mode drawn by the shares, and facts per picture."""
    rng = np.random.default_rng((7, seed, index))
    mode = rng.choice(list(SHARES), p=list(SHARES.values()))
    sample = fine_sample(split, seed, index)
    sample = replace(sample, question=roughened(sample.question, rng))
    messages = conversation(sample, mode, int(rng.integers(4, 13)))
    facts: list[Mapping[str, int]] = [{} for _ in pictures_of(messages)]
    if mode == "look":
        facts[len(sample.pictures) :] = sample.facts
    return messages, facts


def roughened(question: str, rng: np.random.Generator) -> str:
    """Return a question of which some words other than colors are missing, at times in lower case.

    So no single word decides, and the model bears words that it does not know.
    """
    words = question.split()
    kept = [word for word in words if _is_color(word) or rng.random() > MISSING]
    text = " ".join(kept or words)
    return text.lower() if rng.random() < LOWER else text


def _is_color(word: str) -> bool:
    return any(color in word.lower() for color in COLORS)


def conversation(sample: FineSample, mode: Mode, turns: int) -> Conversation:
    """Return the messages of a sample in a mode; the replies are those of its plan."""
    if mode in ("whole", "tiles"):
        shown = sample.pictures
        if mode == "tiles":
            shown = tuple(tile for picture in shown for tile in tiles_of(picture))
        asked = user(*_pictures(shown), at_once(sample.question))
        return (asked, assistant(said(sample.answer)))
    if mode == "one_shot":
        opening = compact_look_opening(sample.question, (), _pictures(sample.pictures), 1)
        return (*opening, assistant(sample.one_shot))
    seen = _pictures(sample.pictures) if mode == "look" else []
    opening = compact_look_opening(sample.question, (), seen, turns)
    steps = list(_steps(sample, sees=mode == "look"))
    messages = conversation_after(opening, steps, keep=KEEP)
    return (*messages, assistant(sample.plan[-1]))


def at_once(question: str) -> str:
    """Return the text that asks for an answer without code."""
    return f"# question: {question}\n# {AT_ONCE}\n"


def _steps(sample: FineSample, *, sees: bool) -> Iterator[Step]:
    """Run all replies of a plan but the last."""
    media = media_from(list(sample.pictures))
    session = toolbox().session(media)
    names = namespace_of(session, media)
    for reply in sample.plan[:-1]:
        action = read_action(reply)
        assert action is not None and action.kind == "code", reply
        before = len(session.calls)
        value = _value_of(action.text, names)
        shown = tuple(
            (Picture(media.pixels(call.result["fields"][0])), "")
            for call in session.calls[before:]
            if call.tool == SHOW
        )
        result = NOTHING if value is None else format_value(value)
        yield Step(action, result, reply, pictures=shown if sees else ())


def _value_of(code: str, names: dict[str, Any]) -> Any:
    """Run the code of our own plan; return the value of its last line, as an agent sees it."""
    tree = ast.parse(code)
    last = tree.body[-1]
    if isinstance(last, ast.Expr):
        exec(compile(ast.Module(tree.body[:-1], []), "plan", "exec"), names)  # noqa: S102
        return eval(compile(ast.Expression(last.value), "plan", "eval"), names)  # noqa: S307
    exec(compile(tree, "plan", "exec"), names)  # noqa: S102
    assert isinstance(last, ast.Assign) and isinstance(last.targets[0], ast.Name)
    return names[last.targets[0].id]


def namespace_of(session: ToolSession, media: Media) -> dict[str, Any]:
    """Return the names that a plan uses, bound to a session."""
    call = api_client(session)
    handles = [prelude.decode(ref, call) for ref in media_arguments(media)["image_list"]]
    patches = [ImagePatch(handle) for handle in handles]
    names = dict(prelude.names(call, {}))
    if len(patches) == 1:
        return {**names, "image_patch": patches[0]}
    return {**names, "image_patches": patches}


@cache
def toolbox() -> Toolbox:
    """Return tools without models."""
    return Toolbox(ModelSet({}), ToolSettings()).with_caches(64, 64)


def _pictures(pictures: Sequence[Pixels]) -> list[Picture]:
    return [Picture(pixels) for pixels in pictures]


def tiles_of(picture: Pixels) -> list[Pixels]:
    """Return the tiles of a picture, row by row."""
    columns, rows = TILES
    height, width = picture.shape[0] // rows, picture.shape[1] // columns
    return [
        picture[r * height : (r + 1) * height, c * width : (c + 1) * width]
        for r in range(rows)
        for c in range(columns)
    ]

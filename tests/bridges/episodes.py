"""Scripted episodes of `world-everyday`, and what `Episode` makes of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import viper
from viper.env.episode import Episode, Rules
from viper.env.tasks import Tasks
from viper.profiles import load_profile
from viper.reasoner import Reasoner
from viper_lab.world.everyday.programs import program_of

SPLIT = "train:2"
RULES = Rules(exact=True)
RIGHT = "(the right program)"

SCRIPTS: dict[str, tuple[str, ...]] = {
    "right": (RIGHT,),
    "wrong": ("final_answer = 'a wrong answer'",),
    "failing": ("1 / 0", "open('/etc/passwd')", RIGHT),
    "no answer": ("x = 1", "print(x)", "x + 1", "[x] * 3"),
    "turns": ("count = len(image_patch.find('object'))", "print(count)", "final_answer = count"),
    "pictures": ("show(image_patch)\nprint('ünïcode ✓')", RIGHT),
}
"""Actions of an episode each."""

SEEDS = (0, 3, 11)

ASKS_A_COLOR = 19
"""Number of a task whose answer, red, no text of the API holds."""


@dataclass
class Played:
    """What an agent sees of an episode, and its reward.

    Attributes:
        texts: texts of the opening and of the results.
        pictures: notes and URIs of the pictures, by result.
        ends: number of the action that ended the episode; 0 if none did.
    """

    texts: list[str] = field(default_factory=list)
    pictures: list[list[tuple[str, str]]] = field(default_factory=list)
    ends: int = 0
    reward: float | None = None
    parts: dict[str, float] = field(default_factory=dict)

    def see(self, text: str, pictures: list[tuple[str, str]]) -> None:
        self.texts.append(text)
        self.pictures.append(pictures)


def tasks() -> Tasks:
    return Tasks("world-everyday", split=SPLIT)


def actions(script: str, seed: int) -> list[str]:
    """Return the code of a script about the task of a seed."""
    load: Any = tasks()[seed].sample.load
    return [program_of(load.ask) if code is RIGHT else code for code in SCRIPTS[script]]


@contextmanager
def reasoner() -> Iterator[Reasoner]:
    with Reasoner(load_profile("embedded"), preload=False) as made:
        yield made


def expected(script: str, seed: int, made: Reasoner) -> Played:
    """Return what `Episode` itself makes of a script."""
    episode, played = Episode(tasks()[seed], made, RULES), Played()
    observation = episode.reset()
    for number, code in enumerate(["", *actions(script, seed)]):
        observation = episode.act(code) if number else observation
        shown = [(note, picture.data_uri()) for picture, note in observation.pictures]
        played.see(observation.text, shown)
        played.ends = number if observation.done else 0
    reward = episode.reward()
    played.reward, played.parts = reward.total, dict(reward.parts)
    episode.close()
    return played


HOSTILE = (
    "print(globals())",
    "image_patch.__dict__",
    "image.target",
    "import gc",
    "import inspect",
    "import viper_lab",
    "final_answer.__class__.__mro__",
    "print(open('/proc/self/environ').read())",
    "().__class__.__base__.__subclasses__()",
)
"""Code that looks for the right answer."""


def example(heading: str) -> str:
    """Return the last Python example below a heading of the page about environments."""
    page = (Path(viper.__file__).parents[1] / "docs" / "environments.md").read_text("utf-8")
    section = page.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    return section.split("```py\n")[-1].split("```")[0]

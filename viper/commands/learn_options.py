"""The options of ``viper learn``, and the learner that they ask for."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import click

from viper.commands.options import (
    OutPath,
    ProfileChoice,
    api_option,
    given_by,
    option,
    root_option,
    seed_option,
)
from viper.errors import CancelledError
from viper.profiles.document import state_dir
from viper.profiles.learning import Data, default_data, every_tool, learner_for, origin_of
from viper.profiles.wiring import Profile
from viper.reasoner import Reasoner
from viper.tuning.learner import Learner, LearnSettings
from viper.tuning.teach import Memory
from viper.tuning.tool_updates import ToolSettings


@dataclass(frozen=True, kw_only=True)
class LearnOptions(ProfileChoice):
    """The options of ``viper learn``."""

    # fmt: off
    root: Path | None = given_by(root_option)
    split: str | None = option("--split", metavar="NAME", help="By default train.")
    limit: int = option("--limit", type=click.IntRange(1), default=100,
        help="Samples to learn from.")
    ids: str | None = option("--ids", metavar="FILE|ID,ID", help="These samples instead.")
    seed: int = given_by(
        seed_option("Chooses samples and data, and is the seed of sampling and training."))
    out: Path | None = option("--out", type=OutPath(), metavar="RUN",
        help="Folder for answers and lessons; by default runs/learn-SET-SPLIT-TIME.")
    said_of: Path | None = option("--from", metavar="RUN",
        help="Instead of SET: learn from what people said of this run's answers.")
    follow: bool = option("--follow", help="With --from: wait for more remarks, until Ctrl-C.")
    online: bool = option("--online",
        help="A stream: what counts is each first answer, given before learning from it.")
    background: bool = option("--background",
        help="Learn in a thread of its own while the next samples are answered.")
    strategy: str = option("--strategy", default="program",
        help="program, or plan where somebody plans.")
    reflection: Literal["intervention", "llm", "both", "none"] = option("--reflector",
        default="intervention",
        help="Who finds what was wrong: changed results, the language model, both.")
    as_json: bool = option("--json", help="Print the outcome as JSON.")
    tools: str | None = option("--tools", metavar="NAME,NAME",
        help="Teach these only, of loc, match, seg, vqa, replace; none: no tool.")
    demonstrations: Literal["all", "correct", "incorrect", "none"] = option("--demonstrations",
        default="all", help="Plans and programs that are kept.")
    updates: int = option("--updates", type=click.IntRange(1, 20), default=3,
        help="Tools taught in one task at most.")
    tries: int = option("--tries", type=click.IntRange(1, 20), default=2,
        help="Lessons of a tool on one concept at most, each with other data.")
    probe: bool = option("--probe/--no-probe", default=True,
        help="Where no tool is blamed, try the concepts that the program's calls name.")
    validate: bool = option("--validate/--no-validate", default=True,
        help="Keep only prompts and demonstrations that hold where they were not made.")
    annotated: str = option("--annotated", metavar="world|lvis|none", default=default_data,
        show_default="world", help="Boxes and masks of concepts, for loc and seg.")
    annotated_root: Path | None = option("--annotated-root", metavar="DIR",
        help="Folder of LVIS's official files.")
    pictures: str = option("--pictures", metavar="world|none|DIR|FILE.toml", default=default_data,
        show_default="world",
        help="Pictures of concepts, for match and replace: the world's own, a folder, or a search "
             "on the web that the file describes.")
    positives: int = option("--positives", type=click.IntRange(2), metavar="N", default=7,
        help="Pictures of a concept at most; loc takes up to 200, seg 50, the others 7.")
    api: str | None = given_by(api_option)
    # fmt: on


def learner_of(
    profile: Profile,
    reasoner: Reasoner,
    of: tuple[str, str],
    wanted: LearnOptions,
    cancel: threading.Event,
    memory: Memory | None = None,
) -> Learner:
    """A learner as the options say.

    Args:
        of: set and split that demonstrations say they are from.
        cancel: ends a training that is under way.
        memory: of what was trained for a lesson that was cut off.
    """

    def on_progress(done: int, total: int) -> None:
        if cancel.is_set():
            raise CancelledError("learning was cancelled")

    kept, tools = wanted.demonstrations, None
    if wanted.tools != "none":
        only = [one.strip() for one in (wanted.tools or "").split(",") if one.strip()]
        tools = ToolSettings(
            every_tool(only),
            wanted.updates,
            wanted.tries,
            wanted.probe,
            wanted.validate,
            wanted.seed if wanted.seed >= 0 else 0,
        )
    return learner_for(
        reasoner.components,
        state_dir(profile.state),
        Data(
            wanted.annotated,
            wanted.annotated_root,
            wanted.pictures,
            wanted.positives,
            max(0, wanted.seed),
        ),
        reflection=wanted.reflection,
        settings=LearnSettings(
            kept in ("all", "correct"), kept in ("all", "incorrect"), wanted.validate
        ),
        tools=tools,
        origin=origin_of(reasoner.components, *of),
        on_progress=on_progress,
        memory=memory,
    )

"""Options of ``viper learn samples``, and the learner that they configure."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import click

from viper.commands import options as cli
from viper.errors import CancelledError
from viper.profiles.files import state_dir
from viper.profiles.wiring import Profile
from viper.reasoner import Reasoner
from viper.tuning.learner import Learner, LearnSettings
from viper.tuning.tool_training import Memory
from viper.tuning.tool_updates import ToolSettings
from viper.tuning.wiring import Data, default_data, every_tool, learner_for, origin_of


@dataclass(frozen=True, kw_only=True)
class LearnOptions(cli.ProfileChoice):
    """Options of ``viper learn``."""

    # fmt: off
    root: Path | None = cli.given_by(cli.root_option)
    split: str | None = cli.option("--split", metavar="NAME",
        help="Split to learn from. By default train.")
    limit: int = cli.option("--limit", type=click.IntRange(1), default=100,
        help="Number of samples to learn from.")
    out: Path | None = cli.option("--out", type=cli.OutPath(), metavar="RUN",
        help="Folder for answers and learning records. By default runs/learn-SET-SPLIT-TIME.")
    said_of: Path | None = cli.option("--from", metavar="RUN",
        help="Learn from the feedback on the answers of this run, instead of SET.")
    follow: bool = cli.option("--follow", help="With --from: wait for more feedback, until Ctrl-C.")
    strategy: str = cli.option("--strategy", default="program",
        help="Strategy that answers: program, or plan if the profile has a planner.")
    as_json: bool = cli.option("--json", help="Print the outcome as JSON.")
    ids: str | None = cli.option("--ids", metavar="FILE|ID,ID", section="Samples",
        help="Learn from these samples instead of drawing --limit samples.")
    seed: int = cli.given_by(cli.seed_option(
        "Random seed for the choice of samples and data, for sampling and training.", "Samples"))
    online: bool = cli.option("--online", section="Samples",
        help="Treat the samples as a stream: the score counts the first answers, before learning.")
    background: bool = cli.option("--background", section="Samples",
        help="Learn in a second thread while the next samples are answered.")
    reflection: Literal["intervention", "llm", "both", "none"] = cli.option("--reflector",
        default="intervention", section="Reflection",
        help="Method that finds the fault: intervention changes tool results, llm asks the "
             "language model.")
    probe: bool = cli.option("--probe/--no-probe", default=True, section="Reflection",
        help="If no tool is at fault, test the concepts that the calls of the program name.")
    demonstrations: Literal["all", "correct", "incorrect", "none"] = cli.option("--demonstrations",
        default="all", section="Updates", help="Plans and programs to store as demonstrations.")
    tools: str | None = cli.option("--tools", metavar="NAME,NAME", section="Updates",
        help="Tools to teach: loc, match, seg, vqa, replace; or none. By default all of them.")
    updates: int = cli.option("--updates", type=click.IntRange(1, 20), default=3, section="Updates",
        help="Maximum number of tools to teach for one sample.")
    tries: int = cli.option("--tries", type=click.IntRange(1, 20), default=2, section="Updates",
        help="Maximum number of trainings of a tool on one concept, each with other data.")
    validate: bool = cli.option("--validate/--no-validate", default=True, section="Updates",
        help="Keep only soft prompts and demonstrations that pass on data they were not made from.")
    annotated: str = cli.option("--annotated", metavar="world|lvis|none", default=default_data,
        show_default="world", section="Training images",
        help="Source of boxes and masks of concepts, for loc and seg.")
    annotated_root: Path | None = cli.option("--annotated-root", metavar="DIR",
        section="Training images", help="Folder that holds the official files of LVIS.")
    pictures: str = cli.option("--pictures", metavar="world|none|DIR|FILE.toml",
        default=default_data, show_default="world", section="Training images",
        help="Source of images of concepts, for match and replace: the embedded world, a folder, "
             "or a web search that FILE.toml describes.")
    positives: int = cli.option("--positives", type=click.IntRange(2), metavar="N", default=7,
        section="Training images",
        help="Maximum number of images of a concept; loc takes up to 200, seg 50, the others 7.")
    api: str | None = cli.given_by(cli.api_option)
    # fmt: on


def learner_of(
    profile: Profile,
    reasoner: Reasoner,
    of: tuple[str, str],
    options: LearnOptions,
    cancel: threading.Event,
    memory: Memory | None = None,
) -> Learner:
    """Build the learner that the options configure.

    Args:
        of: data set and split that new demonstrations name as their source.
        cancel: stops a running training.
        memory: soft prompts that an interrupted run had trained.
    """

    def on_progress(done: int, total: int) -> None:
        if cancel.is_set():
            raise CancelledError("learning was cancelled")

    polarity, tools = options.demonstrations, None
    if options.tools != "none":
        only = [name.strip() for name in (options.tools or "").split(",") if name.strip()]
        tools = ToolSettings(
            every_tool(only),
            options.updates,
            options.tries,
            options.probe,
            options.validate,
            options.seed % 2**32,  # numpy takes no negative seed
        )
    return learner_for(
        reasoner.components,
        state_dir(profile.state),
        Data(
            options.annotated,
            options.annotated_root,
            options.pictures,
            options.positives,
            options.seed % 2**32,
        ),
        reflection=options.reflection,
        settings=LearnSettings(
            polarity in ("all", "correct"), polarity in ("all", "incorrect"), options.validate
        ),
        tools=tools,
        origin=origin_of(reasoner.components, *of),
        on_progress=on_progress,
        memory=memory,
    )

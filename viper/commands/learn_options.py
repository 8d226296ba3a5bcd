"""The options of ``viper learn``."""

from __future__ import annotations

from pathlib import Path

import click

from viper.commands.option_groups import options, root_option, seed_option
from viper.commands.out_path import OutPath

of_the_set = options(
    root_option,
    click.option("--split", metavar="NAME", help="By default train."),
    click.option("--limit", type=click.IntRange(1), default=100, show_default=True,
                 help="Samples to learn from."),
    click.option("--ids", metavar="FILE|ID,ID", help="These samples instead."),
    seed_option("Chooses samples and data, and is the seed of sampling and training."),
)  # fmt: skip

of_the_loop = options(
    click.option("--out", type=OutPath(), metavar="RUN",
                 help="Folder for answers and lessons; by default runs/learn-SET-SPLIT-TIME."),
    click.option("--from", "said_of", type=click.Path(path_type=Path), metavar="RUN",
                 help="Instead of SET: learn from what people said of this run's answers."),
    click.option("--follow", is_flag=True,
                 help="With --from: wait for more remarks, until Ctrl-C."),
    click.option("--online", is_flag=True,
                 help="A stream: what counts is each first answer, given before learning from it."),
    click.option("--background", is_flag=True,
                 help="Learn in a thread of its own while the next samples are answered."),
    click.option("--strategy", default="program", show_default=True,
                 help="program, or plan where somebody plans."),
    click.option("--reflector", "reflection", default="intervention", show_default=True,
                 type=click.Choice(["intervention", "llm", "both", "none"]),
                 help="Who finds what was wrong: changed results, the language model, both."),
    click.option("--json", "as_json", is_flag=True, help="Print the outcome as JSON."),
)  # fmt: skip

of_what_is_learned = options(
    click.option("--tools", metavar="NAME,NAME", default=None,
                 help="Teach these only, of loc, match, seg, vqa, replace; none: no tool."),
    click.option("--demonstrations", type=click.Choice(["all", "correct", "incorrect", "none"]),
                 default="all", show_default=True, help="Plans and programs that are kept."),
    click.option("--updates", type=click.IntRange(1, 20), default=3, show_default=True,
                 help="Tools taught in one task at most."),
    click.option("--tries", type=click.IntRange(1, 20), default=2, show_default=True,
                 help="Lessons of a tool on one concept at most, each with other data."),
    click.option("--probe/--no-probe", default=True, show_default=True,
                 help="Where no tool is blamed, try the concepts that the program's calls name."),
    click.option("--validate/--no-validate", default=True, show_default=True,
                 help="Keep only prompts and demonstrations that hold where they were not made."),
)  # fmt: skip


def _drawn() -> str:
    """Return the name of the data that an installed package draws, or ``none``."""
    from viper.profiles.learning import default_data

    return default_data()


of_the_data = options(
    click.option("--annotated", metavar="world|lvis|none", default=_drawn, show_default="world",
                 help="Boxes and masks of concepts, for loc and seg."),
    click.option("--annotated-root", type=click.Path(path_type=Path), metavar="DIR",
                 help="Folder of LVIS's official files."),
    click.option("--pictures", metavar="world|none|DIR|FILE.toml", default=_drawn,
                 show_default="world",
                 help="Pictures of concepts, for match and replace: the world's own, a folder, or "
                      "a search on the web that the file describes."),
    click.option("--positives", type=click.IntRange(2), metavar="N", default=7, show_default=True,
                 help="Pictures of a concept at most; loc takes up to 200, seg 50, the others 7."),
)  # fmt: skip

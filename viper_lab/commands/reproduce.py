"""``viper lab reproduce``: the figures of the papers, measured again here."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import click

from viper.commands.lazy_group import LazyGroup
from viper.commands.options import (
    Decorator,
    OutPath,
    ProfileChoice,
    options,
    options_as,
    root_option,
)
from viper_lab.papers.options import Options

_SHARED = ("quick", "seeds", "samples", "out", "set_name", "root", "split", "as_json")


def sized(
    flag: str, full: int, quick: int, least: int, help_text: str, most: int | None = None
) -> Decorator:
    """Return an option for how much is measured, less where the command is ``--quick``."""

    def chosen(ctx: click.Context, _: click.Parameter, value: int | None) -> int:
        return (quick if ctx.params["quick"] else full) if value is None else value

    text = f"{help_text} {full}." if full == quick else f"{help_text} {full}, quick {quick}."
    kind = click.IntRange(least, most)
    return click.option(flag, type=kind, metavar="N", callback=chosen, help=text)


def _out(ctx: click.Context, _: click.Parameter, value: Path | None) -> Path:
    return value or Path("reproduce", f"{ctx.info_name}{'-quick' * ctx.params['quick']}")


def reproduction(
    *own: Decorator,
    seeds: tuple[int, int, str],
    samples: tuple[int, int, int, str],
    out: str,
    data: str,
    split: str = "What is answered; by default val, or the first.",
) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Give a command what all reproductions take, as its first argument, and options of its own.

    Args:
        seeds: their number, the quick one, and what each of them has.
        samples: their number, the quick one, the least one, and whose they are.
        out: what the folder takes.
        data: what sets there are.
    """
    full_seeds, quick_seeds, of_seeds = seeds
    full, quick, least, of_samples = samples

    def decorated(command: Callable[..., int]) -> Callable[..., int]:
        @wraps(command)
        def run(profile: ProfileChoice, **values: Any) -> int:
            shared = {name: values.pop(name) for name in _SHARED}
            return command(Options(**shared, profile=profile), **values)

        return options(
            click.option("--quick", is_flag=True, is_eager=True,
                         help="Only what judges the main claims, on fewer samples."),
            sized("--seeds", full_seeds, quick_seeds, 1, of_seeds, 20),
            sized("--samples", full, quick, least, of_samples),
            click.option("--out", type=OutPath(), metavar="DIR", callback=_out,
                         help=f"{out}; by default reproduce/{command.__name__.replace('_', '-')}."),
            click.option("--data", "set_name", default="world", show_default=True, metavar="SET",
                         help=data),
            root_option,
            click.option("--split", metavar="NAME", help=split),
            *own,
            click.option("--json", "as_json", is_flag=True,
                         help="Print rows, gains and claims as JSON."),
            options_as(ProfileChoice),
        )(run)  # fmt: skip

    return decorated


PROCESSES = click.option(
    "--processes", type=click.IntRange(1, 64), metavar="N",
    help="At work side by side, each with models of its own; 2 where all models come with the "
         "package and there are two cores, else 1.",
)  # fmt: skip
SECOND = click.option(
    "--second", metavar="NAME|FILE.toml",
    help="Profile whose LLM repeats the steps; by default NAME-small.",
)  # fmt: skip


@click.group(cls=LazyGroup, below=("reproduce", "lab.reproduce"))
def reproduce() -> None:
    """Measure the papers' figures again.

    Each prints its tables and the claims, which hold or do not, writes a page that opens from disk,
    and goes on where it was cut off.
    """


@reproduce.command("zero-shot", short_help="Zero-shot programmers (Stanić et al.).")
@reproduction(
    click.option("--pool", type=click.IntRange(2), default=100, show_default=True, metavar="N",
                 help="Labelled samples of each part and seed that banks may be mined from."),
    click.option("--shots-split", default="train", show_default=True, metavar="NAME",
                 help="What examples are mined from."),
    SECOND,
    PROCESSES,
    seeds=(3, 3, "Each with its own samples, shots and sampling;"),
    samples=(120, 50, 2, "Of each part under each seed;"),
    out="Runs, banks and reports",
    data="See viper data list; world stands for its three sets with conventions.",
)  # fmt: skip
def zero_shot(
    options: Options, pool: int, shots_split: str, second: str | None, processes: int | None
) -> int:
    """Tables 1 to 6 and figures 2 to 4 of Stanić et al. 2024, and what must hold of them.

    With the embedded world, every seed asks a data set with conventions of its own: half of its
    queries are vague, and only examples show how they are meant. The same weights answer in
    all rows; their hashes are printed. Every answer is stored at once, so that after Ctrl-C the
    same line goes on. Exit code 1 where a claim does not hold.

    \b
    viper lab reproduce zero-shot --quick
    viper lab reproduce zero-shot --out figures --json > figures.json
    viper lab reproduce zero-shot --data refcoco --root refer --profile local --samples 500
    """
    from viper_lab.papers.zero_shot_run import ZeroShotJob

    return ZeroShotJob(options, pool, shots_split, second).run(processes)


@reproduce.command("clova", short_help="CLOVA: tools that learn.")
@reproduction(
    sized("--stream", 90, 36, 1, "Samples learned from, for each seed;"),
    sized("--questions", 30, 10, 0,
          "To each tool about each reserved concept; 0 leaves the tools alone out;"),
    click.option("--stream-split", default="train", show_default=True, metavar="NAME",
                 help="What is learned from, of other sets than the world."),
    SECOND,
    seeds=(3, 1, "Each with its own samples and pools;"),
    samples=(120, 48, 1, "Answered afterwards, of each part;"),
    out="Runs, pools and reports",
    data="See viper data list; world stands for its reserved concepts.",
)  # fmt: skip
def clova(
    options: Options, stream: int, questions: int, stream_split: str, second: str | None
) -> int:
    """Tables 3 to 7 and figure 22 of CLOVA, and what must hold of them.

    Every course begins with empty pools, learns from a stream about reserved concepts, which no
    shipped model has seen, and then answers samples that it has not met. Weights never change;
    their hashes are printed. Everything is stored as it comes, so that after Ctrl-C the same line
    goes on. Exit code 1 where a claim does not hold.

    \b
    viper lab reproduce clova --quick
    viper lab reproduce clova --out figures --json > figures.json
    """
    from viper_lab.papers.clova import run_clova

    return run_clova(options, stream, questions, stream_split, second)


@reproduce.command("avis", short_help="AVIS: searches step by step.")
@reproduction(
    PROCESSES,
    seeds=(3, 1, "Each with a catalogue of its own;"),
    samples=(120, 40, 2, "Questions under each seed;"),
    out="Catalogues, indexes, runs and reports",
    data="world stands for its catalogues; okvqa, infoseek and others are looked up in what the "
         "profile searches.",
)  # fmt: skip
def avis(options: Options, processes: int | None) -> int:
    """Tables 1, 2, 3 and 5 of AVIS, and what must hold of them.

    Seeking beside the language model alone, beside what the matcher retrieves, beside fixed
    sequences of the same tools, beside itself without the graph and without each group of tools.
    With the embedded world, every seed asks about a catalogue that no model has seen, over a
    gallery and texts that are written and indexed below --out. Every answer is stored at once, so
    that after Ctrl-C the same line goes on. Exit code 1 where a claim does not hold.

    \b
    viper lab reproduce avis --quick
    viper lab reproduce avis --out figures --json > figures.json
    viper lab reproduce avis --data infoseek --root infoseek --profile openai --samples 200
    """
    from viper_lab.papers.avis import AvisJob

    return AvisJob(options).run(processes)


@reproduce.command("dwim", short_help="DWIM: agents tuned on their workflows.")
@reproduction(
    sized("--workflows", 150, 60, 4, "Training samples of each seed and manner;"),
    sized("--steps", 100, 80, 1, "Of each tuning;"),
    click.option("--learning-rate", type=click.FloatRange(0, min_open=True), default=5e-4,
                 show_default=True, help="Of each tuning."),
    click.option("--batch", type=click.IntRange(1), default=16, show_default=True,
                 help="Rows of a pass."),
    click.option("--accumulate", type=click.IntRange(1), default=1, show_default=True,
                 help="Passes of a step."),
    click.option("--longest", type=click.IntRange(16), default=2048, show_default=True,
                 metavar="TOKENS", help="Longer texts are not learned; a prompt that lists a whole "
                                        "API takes some 4,000."),
    click.option("--train-split", metavar="NAME", help="By default train:question of the world, "
                 "train or what begins so of others."),
    seeds=(3, 1, "Each with its own samples and tunings;"),
    samples=(100, 40, 2, "Answered by each agent under each seed;"),
    out="Workflows, agents, answers and reports",
    data="A set of questions; see viper data list.",
    split="What is answered; by default val:question of the world, val or what begins so of "
          "others. test:question holds wordings and combinations that no training has: look at it "
          "last.",
)  # fmt: skip
def dwim(
    options: Options,
    workflows: int,
    steps: int,
    learning_rate: float,
    batch: int,
    accumulate: int,
    longest: int,
    train_split: str | None,
) -> int:
    """Table 10 of DWIM with sections 9, 11 and 14, and what must hold of them.

    Under each seed the profile's agent explores training samples in three manners, is tuned on what
    was of use in them in as many ways as the table has rows, and every agent answers samples that
    it has not met. Everything is stored as it comes; after Ctrl-C the same line goes on. Exit code
    1 where a claim does not hold.

    \b
    viper lab reproduce dwim --quick
    viper lab reproduce dwim --split test:question --out figures --json > figures.json
    viper lab reproduce dwim --data gqa --root gqa --profile local --longest 6144 --batch 2 \\
        --accumulate 8
    """
    from viper.tuning.agent.training import TuneSettings
    from viper_lab.papers.dwim import run_dwim

    settings = TuneSettings(
        steps=steps,
        batch=batch,
        accumulate=accumulate,
        learning_rate=learning_rate,
        longest=longest,
    )
    return run_dwim(options, workflows, settings, train_split)

"""``viper lab reproduce``: measure the results of the papers again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from functools import wraps
from pathlib import Path
from typing import Any

import click

from viper.commands.lazy_group import LazyGroup
from viper.commands.options import (
    API,
    STRATEGY,
    Decorator,
    OutPath,
    ProfileChoice,
    TrainingData,
    options,
    options_as,
    root_option,
)
from viper_lab.papers.options import Options

_SHARED = ("quick", "seeds", "samples", "out", "set_name", "root", "split", "as_json")

_JUDGED_ON_TEST = "Split to answer. By default test of world, or the first of the data set."


def sized(
    flag: str, full: int, quick: int, least: int, help_text: str, most: int | None = None
) -> Decorator:
    """Return an option for an amount, whose default is smaller with ``--quick``."""

    def chosen(ctx: click.Context, _: click.Parameter, value: int | None) -> int:
        return (quick if ctx.params["quick"] else full) if value is None else value

    quick_text = "" if full == quick else f", with --quick {quick}"
    text = f"{help_text} by default {full}{quick_text}."
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
    default_set: str = "world",
    split: str = "Split to answer. By default val, or the first of the data set.",
    api: str = "Functions that programs may call. By default those of the profile.",
) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """Give a command the options of all reproductions, as its first argument, and its own options.

    Args:
        seeds: default, quick default, and help text.
        samples: default, quick default, minimum, and help text.
        out: help text of ``--out``: contents of the folder.
        data: help text of ``--data``.
        default_set: its default.
        api: help text of ``--api``.
    """
    full_seeds, quick_seeds, of_seeds = seeds
    full, quick, least, of_samples = samples

    def decorated(command: Callable[..., int]) -> Callable[..., int]:
        @wraps(command)
        def run(profile: ProfileChoice, api: str | None, **values: Any) -> int:
            shared = {name: values.pop(name) for name in _SHARED}
            return command(Options(**shared, profile=replace(profile, api=api)), **values)

        return options(
            click.option("--quick", is_flag=True, is_eager=True,
                         help="Measure only what the main claims need, on fewer samples."),
            sized("--seeds", full_seeds, quick_seeds, 1, of_seeds, 20),
            sized("--samples", full, quick, least, of_samples),
            click.option("--out", type=OutPath(), metavar="DIR", callback=_out,
                         help=f"Folder for {out}. By default "
                              f"reproduce/{command.__name__.replace('_', '-')}."),
            click.option("--data", "set_name", default=default_set, show_default=True,
                         metavar="SET", help=data),
            root_option,
            click.option("--split", metavar="NAME", help=split),
            click.option("--api", type=API, metavar="NAME[+FILE.py]", help=api),
            *own,
            click.option("--json", "as_json", is_flag=True,
                         help="Print rows, gains and claims as JSON."),
            options_as(ProfileChoice),
        )(run)  # fmt: skip

    return decorated


PROCESSES = click.option(
    "--processes", type=click.IntRange(1, 64), metavar="N",
    help="Number of processes, each with its own models. By default 2 if all models come with the "
         "package and the machine has two cores, else 1.",
)  # fmt: skip
SECOND = click.option(
    "--second", metavar="NAME|FILE.toml",
    help="Profile of a second language model for the same steps. By default NAME-small.",
)  # fmt: skip


@click.group(cls=LazyGroup, below=("reproduce", "lab.reproduce"))
def reproduce() -> None:
    """Measure the results of the papers again.

    Each command prints its tables and checks the claims of the paper. It writes a page that opens
    from disk. After an interruption, the same command continues.
    """


@reproduce.command("zero-shot", short_help="Reproduce the zero-shot programmers of Stanić et al.")
@reproduction(
    click.option("--pool", type=click.IntRange(2), default=100, show_default=True, metavar="N",
                 help="Number of labelled samples to mine banks from, for each part and seed."),
    click.option("--shots-split", metavar="NAME", help="Split to mine examples from. By default "
                 "train, or the first split of the data set whose name begins with train."),
    click.option("--strategy", "baselines", type=STRATEGY, multiple=True, metavar="NAME",
                 help="Strategy without a program that table 1 compares with; may be repeated. By "
                      "default detector, vqa, captions and llm, each for its task."),
    click.option("--start-off", type=click.FloatRange(0, min_open=True), default=2.0,
                 show_default=True, metavar="FACTOR",
                 help="Factor by which the detector's calibrated threshold is off where "
                      "self-tuning is measured a second time."),
    SECOND,
    PROCESSES,
    seeds=(3, 3, "Number of seeds, each with its own samples, shots and sampling;"),
    samples=(120, 50, 2, "Number of samples of each part under each seed;"),
    out="runs, banks and reports",
    data="Data set (see viper data list); world means its three sets with conventions.",
    split="Split to answer. By default val, val:hard of nextqa, or the first of the data set.",
    api="API that the tables compare with ViperGPT's. By default abstract, the paper's.",
)  # fmt: skip
def zero_shot(
    options: Options,
    pool: int,
    shots_split: str | None,
    baselines: tuple[str, ...],
    start_off: float,
    second: str | None,
    processes: int | None,
) -> int:
    """Measure tables 1 to 6 and figures 2 to 4 of Stanić et al. 2024, and check the claims.

    Programs are written at the profile's temperature; the paper's is 0.4. Several seeds that would
    all give the same answers are refused.

    With the embedded world, every seed uses a data set with its own conventions: half of its
    queries are vague, and only examples show their meaning. The same weights answer in all rows,
    and their hashes are printed. Every answer is stored at once; after Ctrl-C the same command
    continues. The exit code is 1 if a claim fails.

    \b
    viper lab reproduce zero-shot --quick
    viper lab reproduce zero-shot --out figures --json > figures.json
    viper lab reproduce zero-shot --data refcoco --root refer --profile paper-programmers \\
        --samples 500
    """
    from viper_lab.papers.zero_shot_run import ZeroShotJob

    job = ZeroShotJob(options, pool, shots_split, second, start_off, baselines)
    return job.run(processes)


@reproduce.command("clova", short_help="Reproduce CLOVA: tools that learn.")
@reproduction(
    sized("--stream", 36, 18, 1, "Number of samples to learn from, for each seed; the paper's 500 "
          "take hours;"),
    click.option("--start", type=click.IntRange(0, 200), default=20, show_default=True, metavar="N",
                 help="Number of demonstrations that pools begin with, mined from labelled samples "
                      "outside stream and test; the paper begins with 15 to 20."),
    sized("--questions", 10, 5, 0,
          "Number of questions to each tool about each reserved concept; 0 skips them;"),
    click.option("--stream-split", metavar="NAME", help="Split to learn from, for other data sets "
                 "than world. By default train, or the first whose name begins with train."),
    click.option("--concepts", metavar="NAME,NAME",
                 help="Concepts to learn of --data FILE.json, as its categories are called."),
    SECOND,
    seeds=(3, 1, "Number of seeds, each with its own samples and pools;"),
    samples=(48, 36, 1, "Number of samples of each part to answer after learning; the paper "
                        "answers 500;"),
    out="runs, pools and reports",
    data="Data set (see viper data list), or FILE.json with boxes in COCO's form. world means its "
         "reserved concepts; others need --annotated and --pictures.",
    split=_JUDGED_ON_TEST,
)  # fmt: skip
@options_as(TrainingData)
def clova(options: Options, training: TrainingData, **own: Any) -> int:
    """Measure tables 3 to 7 and figure 22 of CLOVA, and check the claims.

    Every condition begins with the same demonstrations and learns from a stream. Then it answers
    new samples by plans and programs; prompts show 4 correct and 4 incorrect demonstrations. With
    the embedded world, the stream is about reserved concepts, which no shipped model was trained
    on. Other data sets learn from the training pictures that you name. Of FILE.json, a third of
    the pictures judges; nothing is learned from it. Weights never change, and their hashes are
    printed. Every result is stored at once; after Ctrl-C the same command continues. The exit code
    is 1 if a claim fails.

    \b
    viper lab reproduce clova --quick
    viper lab reproduce clova --out figures --json > figures.json
    viper lab reproduce clova --data nlvr2 --root nlvr2 --profile paper-clova --annotated lvis \\
        --annotated-root lvis --pictures search.toml --stream 500 --samples 500
    viper lab reproduce clova --data coco/instances.json --concepts person,car \\
        --annotated coco/instances.json --pictures none
    """
    from viper_lab.papers.clova import ClovaOptions, run_clova

    return run_clova(options, ClovaOptions(training=training, **own))


@reproduce.command("avis", short_help="Reproduce AVIS: knowledge search step by step.")
@reproduction(
    click.option("--decisions", default="written", show_default=True, metavar="written|FILE.jsonl",
                 help='Decisions that planners in words see, from viper lab seek induce; "" for '
                      "none."),
    PROCESSES,
    seeds=(3, 1, "Number of seeds, each with its own catalogue;"),
    samples=(120, 40, 2, "Number of questions under each seed;"),
    out="catalogues, indexes, runs and reports",
    data="Data set; world means its catalogues, other sets use the searches of the profile.",
    split=_JUDGED_ON_TEST,
)  # fmt: skip
def avis(options: Options, decisions: str, processes: int | None) -> int:
    """Measure tables 1, 2, 3 and 5 of AVIS, and check the claims.

    Knowledge search is compared with the language model alone, with retrieval by the matcher, with
    fixed sequences of the same tools, and with itself without the graph or a group of tools. With
    the embedded world, every seed asks about a new catalogue; its images and texts are written and
    indexed below --out. On other sets an exhausted search answers from memory. Every answer is
    stored at once; after Ctrl-C the same command continues. The exit code is 1 if a claim fails.

    \b
    viper lab reproduce avis --quick
    viper lab reproduce avis --out figures --json > figures.json
    viper lab reproduce avis --data infoseek --root infoseek --profile openai --samples 200 \\
        --seeds 1
    """
    from viper_lab.papers.avis import AvisJob

    return AvisJob(options, decisions).run(processes)


@reproduce.command("dwim", short_help="Reproduce DWIM: agents tuned on their workflows.")
@reproduction(
    sized("--workflows", 150, 60, 4, "Number of training samples for each seed and mode;"),
    click.option("--steps", type=click.IntRange(1), default=60, show_default=True,
                 help="Number of optimiser steps of each tuning."),
    click.option("--learning-rate", type=click.FloatRange(0, min_open=True), default=5e-4,
                 show_default=True, help="Learning rate of each tuning."),
    click.option("--batch", type=click.IntRange(1), default=8, show_default=True,
                 help="Number of texts in a forward pass."),
    click.option("--accumulate", type=click.IntRange(1), default=1, show_default=True,
                 help="Number of forward passes for one optimiser step."),
    click.option("--longest", type=click.IntRange(16), default=2048, show_default=True,
                 metavar="TOKENS", help="Leave out longer texts; a prompt with a whole API has "
                                        "about 4,000 tokens."),
    click.option("--checks-by", type=click.Choice(["rules", "llm"]),
                 help="Who recognises discrepancies between results and labels. By default llm, "
                      "the language model, or rules if the agent is a small model that is asked "
                      "in its own form."),
    click.option("--temperature", type=click.FloatRange(0, 2),
                 help="Temperature of all agents. By default that of the profile, or 1 if that "
                      "is 0."),
    click.option("--train-split", metavar="NAME", help="Split to learn from. By default "
                 "train:question of world, and of other data sets train or the first split whose "
                 "name begins with train."),
    seeds=(3, 1, "Number of seeds, each with its own samples and tunings;"),
    samples=(100, 40, 2, "Number of samples for each agent under each seed;"),
    out="workflows, agents, answers and reports",
    data="Data set of questions (see viper data list).",
    split="Split to answer. By default test:question of world, and of other data sets val or "
          "the first split whose name begins with val. "
          "test:question holds wordings and combinations that no training split has.",
)  # fmt: skip
def dwim(options: Options, **values: Any) -> int:
    """Measure table 10 and sections 9, 11 and 14 of DWIM, and check the claims.

    Under each seed, the agent of the profile explores training samples in three modes. It is tuned
    on the effective actions in one variant for each row of the table, and every agent answers new
    samples. One more row is the agent that is not tuned, with ten solved queries in its prompts.
    Every result is stored at once; after Ctrl-C the same command continues. The exit code is 1 if a
    claim fails.

    \b
    viper lab reproduce dwim --quick
    viper lab reproduce dwim --out figures --json > figures.json
    viper lab reproduce dwim --data gqa --root gqa --profile paper-dwim --longest 6144 --batch 1 \\
        --accumulate 8
    """
    from viper.tuning.agent.training import TuneSettings
    from viper_lab.papers.dwim import DwimOptions, run_dwim

    own = {field.name: values.pop(field.name) for field in fields(DwimOptions)}
    return run_dwim(options, DwimOptions(**own), TuneSettings(**values))


@reproduce.command("nlvr", short_help="Reproduce NLVR from pixels: programs from three sources.")
@reproduction(
    click.option("--halves", nargs=2, type=click.Path(dir_okay=False), metavar="ONE.toml TWO.toml",
                 help="Profiles whose writers know the rules of half 1, and of half 2, "
                                  "of the sentences; each answers the other half."),
    PROCESSES,
    seeds=(1, 1, "Number of seeds; the samples are always the same;"),
    samples=(1_000, 1_000, 1, "Number of examples of each half, from the first;"),
    out="runs, banks and reports",
    data="Data set.",
    default_set="nlvr",
    split="Split to answer. By default dev.",
)  # fmt: skip
def nlvr(options: Options, halves: tuple[str, str] | None, processes: int | None) -> int:
    """Measure accuracy and consistency on NLVR, from pixels, for three sources of programs.

    a: the embedded writer of everyday English, zero-shot and with mined examples. b: a writer that
    was trained on sentences of a grammar. c: the same after self-training. What one half of the
    sentences gave is measured on the other half. --profile is the domain, by default that of
    examples/nlvr; --quick asks one of the six pictures of each example. Every answer is stored at
    once; after Ctrl-C the same command continues. The exit code is 1 if a claim fails.

    \b
    viper lab reproduce nlvr --root nlvr --quick
    viper lab reproduce nlvr --root nlvr --halves half-1/profile.toml half-2/profile.toml
    """
    from viper_lab.papers.nlvr import NlvrJob

    return NlvrJob(options, halves or ()).run(processes)


@reproduce.command("trust", short_help="Measure warnings, confidence, abstention, verification.")
@reproduction(
    PROCESSES,
    seeds=(1, 1, "Number of seeds, each with its own samples;"),
    samples=(200, 40, 2, "Number of samples of each family under each seed;"),
    out="runs and reports",
    data="Data set; only world has an exact truth.",
    split=_JUDGED_ON_TEST,
)  # fmt: skip
def trust(options: Options, processes: int | None) -> int:
    """Measure what answers say about themselves, and what verification finds.

    Pictures that are not of the world get warnings; correction on evidence is compared with
    correction on failures; confidence is compared with the share of right answers; abstention with
    its risk; and programs with canonical ones on exact inputs. Every answer is stored at once;
    after Ctrl-C the same command continues. The exit code is 1 if a claim fails.

    \b
    viper lab reproduce trust --quick
    viper lab reproduce trust --split val --out figures --json > figures.json
    """
    from viper_lab.papers.trust import TrustJob

    return TrustJob(options).run(processes)


@reproduce.command("look", short_help="Measure a model that looks at what its code shows.")
@reproduction(
    PROCESSES,
    seeds=(1, 1, "Number of seeds, each with its own samples;"),
    samples=(300, 70, 7, "Number of samples under each seed;"),
    out="runs and reports",
    data="Data set; this reproduction draws world-fine.",
    default_set="world-fine",
    split="Split to answer. By default test.",
)  # fmt: skip
def look(options: Options, processes: int | None) -> int:
    """Measure a model that looks at what its code shows, against one that cannot.

    The same weights answer the queries of world-fine turn by turn with pictures and without, by one
    program, and at once from the whole picture or from tiles of it. Every answer is stored at once;
    after Ctrl-C the same command continues. The exit code is 1 if a claim fails.

    \b
    viper lab reproduce look --quick
    viper lab reproduce look --split val --out figures --json > figures.json
    """
    from viper_lab.papers.look import LookJob

    return LookJob(options).run(processes)


@reproduce.command("photographs", short_help="Measure real photographs, receipts, blood smears.")
@click.option(
    "--data",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    envvar="VIPER_DATA",
    required=True,
    show_envvar=True,
    metavar="DIR",
    help="Folder with photos/, bccd/, receipts/ and models/.",
)
@click.option("--quick", is_flag=True, is_eager=True, help="Measure on fewer samples.")
@click.option(
    "--part",
    "parts",
    multiple=True,
    metavar="NAME",
    help="Measure this part alone; may be repeated.",
)
@click.option(
    "--calibration",
    metavar="FILE.toml",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    help="What an earlier run learned (DIR/calibration.toml of its --out); nothing is "
    "fitted, and every picture of --data is judged.",
)
@click.option(
    "--out",
    type=OutPath(),
    metavar="DIR",
    callback=_out,
    help="Folder for answers, calibration and reports. By default reproduce/photographs.",
)
@click.option("--json", "as_json", is_flag=True, help="Print rows, gains and claims as JSON.")
def photographs(
    data: Path,
    quick: bool,
    parts: tuple[str, ...],
    calibration: Path | None,
    out: Path,
    as_json: bool,
) -> int:
    """Measure detection, confidence, withholding, receipts and cells, and check the claims.

    The profile is photo-lite, with the detector of DIR/models. Rules and calibrations come from
    two thirds of the pictures of photos/coco128; the third that is held back, and the other
    folders, judge them. Every answer is stored at once; after Ctrl-C the same command continues.
    The exit code is 1 if a claim fails.

    \b
    viper lab reproduce photographs --data DIR --quick
    viper lab reproduce photographs --data OTHER --calibration \\
        reproduce/photographs/calibration.toml
    """
    from viper_lab.photographs.job import PhotographJob
    from viper_lab.photographs.study import measure

    return measure(PhotographJob(data, out, quick, calibration), parts, as_json=as_json)


@reproduce.command("jobs", short_help="Measure programs that are fitted to a few labels.")
@click.option(
    "--data",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    metavar="DIR",
    help="Folder with photos/, bccd/, receipts/, nlvr/ and models/ for jobs on real pictures; "
    "without it, jobs of the embedded world alone.",
)
@click.option("--quick", is_flag=True, help="Eight jobs, 20 labels, 100 test cases, one seed.")
@click.option(
    "--seeds",
    type=click.IntRange(1, 10),
    default=3,
    show_default=True,
    help="Number of seeds, each with labels of its own.",
)
@click.option("--sizes", default="20,60,120", show_default=True, help="Numbers of labels.")
@click.option(
    "--split",
    type=click.Choice(["val", "test"]),
    default="test",
    show_default=True,
    help="Split of the world; rules were chosen on val.",
)
@click.option(
    "--out",
    type=OutPath(),
    metavar="DIR",
    callback=_out,
    help="Folder for pictures, fitted jobs, rows and reports. By default reproduce/jobs.",
)
@click.option("--json", "as_json", is_flag=True, help="Print rows, gains and claims as JSON.")
def jobs(
    data: Path | None, quick: bool, seeds: int, sizes: str, split: str, out: Path, as_json: bool
) -> int:
    """Fit 24 jobs of the embedded world, and 12 on real pictures, and judge them on unseen cases.

    A job is a question that many pictures share; in six of the world's the words do not say what is
    meant. Each is fitted with the default profile's writer to 20, 60 and 120 labels, and compared
    with the zero-shot program, nearest neighbours and the commonest answer on 200 other cases. On
    60 labels and more, a reviewer is simulated, and wrong labels are planted and looked for. Every
    measurement is stored at once; after Ctrl-C the same command continues.

    \b
    viper lab reproduce jobs --quick
    viper lab reproduce jobs --data DIR
    """
    from viper_lab.jobs.run import measure

    numbers = tuple(int(size) for size in sizes.split(","))
    return measure(out, split, data, quick, seeds, numbers, as_json=as_json)

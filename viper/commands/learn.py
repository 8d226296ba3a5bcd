"""``viper learn``: answer samples, learn from each, keep what holds."""

from __future__ import annotations

import json
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from viper.commands.option_groups import options, root_option, seed_option
from viper.commands.options import api_option, open_profile, profile_options, quiet_libraries
from viper.errors import EXIT_FAILED, EXIT_OK, CancelledError, UsageError

if TYPE_CHECKING:
    from viper.data.sample import Sample
    from viper.evaluate.evaluation import Evaluation
    from viper.evaluate.learning import Standing
    from viper.profiles.wiring import Profile
    from viper.tuning.learner import Learner

_of_the_set = options(
    root_option,
    click.option("--split", metavar="NAME", help="By default train."),
    click.option("--limit", type=click.IntRange(1), default=100, show_default=True,
                 help="Samples to learn from."),
    click.option("--ids", metavar="FILE|ID,ID", help="These samples instead."),
    seed_option("Chooses samples and data, and is the seed of sampling and training."),
)  # fmt: skip

_of_the_loop = options(
    click.option("--out", type=click.Path(path_type=Path), metavar="RUN",
                 help="Folder for answers and lessons; by default runs/learn-SET-SPLIT-TIME."),
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

_of_what_is_learned = options(
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

_of_the_data = options(
    click.option("--annotated", type=click.Choice(["world", "lvis", "none"]), default="world",
                 show_default=True, help="Boxes and masks of concepts, for loc and seg."),
    click.option("--annotated-root", type=click.Path(path_type=Path), metavar="DIR",
                 help="Folder of LVIS's official files."),
    click.option("--pictures", metavar="world|DIR|FILE.toml", default="world", show_default=True,
                 help="Pictures of concepts, for match and replace: the world's own, a folder, or "
                      "a search on the web that the file describes."),
    click.option("--positives", type=click.IntRange(2), metavar="N",
                 help="Pictures of a concept at most; by default as many as each tool takes."),
)  # fmt: skip


@click.command()
@click.argument("name", metavar="SET")
@_of_the_set
@_of_the_loop
@_of_what_is_learned
@_of_the_data
@api_option
@profile_options
def learn(name: str, **given: Any) -> int:
    """Answer labelled samples of SET and learn from each: which tool was wrong, what it lacks.

    A wrong answer is reflected on; the tool at fault is taught the concept that it does not know,
    from collected pictures, without changing its weights; what does not hold on data it was not
    taught with is discarded. Right answers become demonstrations. All of it goes into the pools of
    the state (viper pool, viper prompts), which viper run uses from then on and viper eval with
    --learned. Answers and lessons stand in RUN (viper view RUN).

    After Ctrl-C or a crash the same line with --out RUN goes on where it stopped. Exit code 0 when
    all samples are over.

    \b
    viper learn world-reserved --limit 60 --out runs/learn
    viper learn world-reserved --online --background --state /tmp/fresh
    viper learn gqa --root gqa --annotated lvis --annotated-root lvis --pictures photos
    """
    evaluation = _evaluation(name, given)
    from viper.commands.progress import status

    with status("reading samples"):
        samples = evaluation.samples()
    return _learn(evaluation, samples, given)


def _evaluation(name: str, given: dict[str, Any]) -> Evaluation:
    quiet_libraries(given["offline"])
    from viper.data.registry import data_set
    from viper.data.sample import Where
    from viper.evaluate.evaluation import Evaluation, read_ids
    from viper.reasoner import RunOptions
    from viper.strategies import strategy

    strategy(given["strategy"])
    splits = data_set(name).splits
    split = given["split"] or ("train" if "train" in splits else None)
    if split is None and len(splits) > 1:
        raise UsageError(
            f"{name} has no split train; choose one of {', '.join(splits)} with --split, and do "
            "not judge by it afterwards"
        )
    return Evaluation(
        set_name=name,
        where=Where(given["root"], split, given["seed"]),
        limit=given["limit"],
        ids=read_ids(given["ids"]) if given["ids"] else (),
        seeds=(given["seed"],),
        options=RunOptions(strategy=given["strategy"], api=given["api"]),
    )


def _learn(evaluation: Evaluation, samples: list[Sample], given: dict[str, Any]) -> int:
    from dataclasses import replace

    from viper.commands.progress import status
    from viper.evaluate.engines.answering import Answering
    from viper.evaluate.engines.runner import items
    from viper.evaluate.evaluation import manifest_of
    from viper.evaluate.learning import Learning
    from viper.evaluate.metrics import metric
    from viper.evaluate.runs.store import RunStore
    from viper.reasoner import Reasoner
    from viper.schema import to_json
    from viper.tuning.journal import Journal

    profile = replace(open_profile(given), learned=True)
    folder = given["out"] or _folder(evaluation)
    cancel = threading.Event()
    with Reasoner(profile, preload=False) as reasoner:
        with status("loading models"):
            settings = {name: given[name] for name in _SETTINGS}
            manifest = manifest_of(
                evaluation, samples, _as_came(reasoner), to_json(profile.document), settings
            )
        learner = _learner(profile, reasoner, evaluation, given, cancel)
        judge = metric(evaluation.metric)
        answering = Answering.with_cache(reasoner, judge, evaluation.options, 8)
        todo = items(samples, evaluation.seeds)
        with RunStore.resume(folder, manifest) as store:
            click.echo(f"run: {folder}", err=True)
            journal = Journal(folder)
            tell = _Teller(len(todo))
            learner.on_step = tell.step
            if learner.updates is not None:
                learner.updates.on_step = tell.step
            learning = Learning(answering, learner, store, journal, tell.standing)
            try:
                standing = learning.run(todo, cancel, background=given["background"])
            except (KeyboardInterrupt, CancelledError):
                cancel.set()
                click.echo(f"\nstopped; to go on: the same line with --out {folder}", err=True)
                raise
            return _finish(standing, journal, folder, given)


_SETTINGS = (
    "reflection", "tools", "demonstrations", "updates", "tries", "probe", "validate", "annotated",
    "pictures", "positives", "online", "background",
)  # fmt: skip


def _as_came(reasoner: Any) -> Any:
    """The same reasoner as if nothing had been learned: what a run is told apart by."""
    from dataclasses import replace

    from viper.ace.pool_examples import PoolExamples
    from viper.reasoner import Reasoner
    from viper.strategies.demonstrations import NoDemonstrations
    from viper.tools.soft_prompts import NoSoftPrompts

    parts = reasoner.components
    examples = parts.examples
    bank = examples.bank if isinstance(examples, PoolExamples) else examples
    hub = parts.hub.with_soft_prompts(NoSoftPrompts())
    plain = replace(parts, hub=hub, examples=bank, demonstrations=NoDemonstrations())
    return Reasoner(plain, preload=False)


def _learner(
    profile: Profile,
    reasoner: Any,
    evaluation: Evaluation,
    given: dict[str, Any],
    cancel: threading.Event,
) -> Learner:
    from viper.profiles.document import state_dir
    from viper.profiles.learning import Data, every_tool, learner_for, origin_of
    from viper.tuning.learner import LearnSettings
    from viper.tuning.tool_updates import ToolSettings

    def on_progress(done: int, total: int) -> None:
        if cancel.is_set():
            raise CancelledError("learning was cancelled")

    kept, tools = given["demonstrations"], None
    if given["tools"] != "none":
        only = [one.strip() for one in (given["tools"] or "").split(",") if one.strip()]
        tools = ToolSettings(
            every_tool(only),
            given["updates"],
            given["tries"],
            given["probe"],
            given["validate"],
            given["seed"] if given["seed"] >= 0 else 0,
        )
    return learner_for(
        reasoner.components,
        state_dir(profile.state),
        Data(
            given["annotated"],
            given["annotated_root"],
            given["pictures"],
            given["positives"],
            max(0, given["seed"]),
        ),
        reflection=given["reflection"],
        settings=LearnSettings(
            kept in ("all", "correct"), kept in ("all", "incorrect"), given["validate"]
        ),
        tools=tools,
        origin=origin_of(
            reasoner.components, evaluation.set_name, evaluation.located().split or ""
        ),
        on_progress=on_progress,
    )


class _Teller:
    """Says on stderr what is being done and how far it is."""

    def __init__(self, total: int) -> None:
        self._total, self._told = total, ""

    def step(self, text: str) -> None:
        """What is being done now."""
        if text != self._told and text.startswith(("teaching", "collecting")):
            click.echo(text, err=True)
        self._told = text

    def standing(self, standing: Standing) -> None:
        """How far it is."""
        line = (
            f"{standing.answered}/{self._total} answered, score "
            f"{standing.score / max(1, standing.answered):.3f}, {standing.learned} lessons, "
            f"{standing.updates} updates of tools, {standing.demonstrations} demonstrations"
        )
        if line != self._told:
            click.echo(line, err=True)
        self._told = line


def _folder(evaluation: Evaluation) -> Path:
    from viper.evaluate.evaluation import default_folder

    found = default_folder(evaluation, datetime.now(UTC).strftime("%Y%m%d-%H%M%S"))
    return found.with_name(f"learn-{found.name}")


def _finish(standing: Standing, journal: Any, folder: Path, given: dict[str, Any]) -> int:
    from viper.commands.tables import echo_table

    count = max(1, standing.answered)
    lessons = journal.lessons()
    problems = [one.problem for one in lessons if one.problem] + [
        f"{update.tool} {update.concept}: {update.problem}"
        for one in lessons
        for update in one.updates
        if update.problem
    ]
    made = {
        "run": str(folder),
        "samples": standing.answered,
        "score": standing.score / count,
        "score_after": standing.score_after / count,
        "updates": standing.updates,
        "demonstrations": standing.demonstrations,
        "learned": standing.concepts,
        "problems": problems,
    }
    if given["as_json"]:
        click.echo(json.dumps(made, ensure_ascii=False))
        return EXIT_OK
    name = "first answers" if given["online"] else "before its lesson"
    echo_table(
        ("samples", name, "after its lesson", "updates", "demonstrations"),
        [(str(standing.answered), f"{made['score']:.3f}", f"{made['score_after']:.3f}",
          str(standing.updates), str(standing.demonstrations))],
    )  # fmt: skip
    if standing.concepts:
        click.echo("\nlearned: " + ", ".join(
            f"{what} ({prompts})" for what, prompts in sorted(standing.concepts.items())
        ))  # fmt: skip
    for problem in dict.fromkeys(problems):
        click.echo(f"viper: {problem}", err=True)
    return EXIT_OK if standing.learned == standing.total else EXIT_FAILED

"""``viper learn``: answer samples, or read what people said of answers; learn, keep what holds."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from viper.commands.learn_options import (
    of_the_data,
    of_the_loop,
    of_the_set,
    of_what_is_learned,
)
from viper.commands.learn_parts import Teller, finish, learner_of
from viper.commands.options import api_option, open_profile, profile_options, quiet_libraries
from viper.errors import CancelledError, UsageError

if TYPE_CHECKING:
    from viper.data.sample import Sample
    from viper.evaluate.evaluation import Evaluation
    from viper.reasoner import Reasoner


@click.command()
@click.argument("name", metavar="[SET]", required=False)
@of_the_set
@of_the_loop
@of_what_is_learned
@of_the_data
@api_option
@profile_options
def learn(name: str | None, **given: Any) -> int:
    """Answer labelled samples of SET and learn from each: which tool was wrong, what it lacks.

    A wrong answer is reflected on; the tool at fault is taught the concept that it does not know,
    from collected pictures, without changing its weights; what does not hold on data it was not
    taught with is discarded. Right answers become demonstrations. All of it goes into the pools of
    the state (viper pool, viper prompts), which viper run uses from then on and viper eval with
    --learned. Answers and lessons stand in RUN (viper view RUN).

    After Ctrl-C or a crash the same line with --out RUN goes on where it stopped. Exit code 0 when
    all samples are over.

    With --from RUN it learns from what people said of a run's answers instead (viper feedback,
    viper view, viper demo); with --follow as they say it, until Ctrl-C, while the demo goes on and
    uses what is learned.

    \b
    viper learn world-reserved --limit 60 --out runs/learn
    viper learn world-reserved --online --background --state /tmp/fresh
    viper learn gqa --root gqa --annotated lvis --annotated-root lvis --pictures photos
    viper learn --from runs/demo --follow
    """
    if (name is None) == (given["said_of"] is None):
        raise UsageError("expected one of SET and --from RUN: what is there to learn from?")
    if name is None:
        return _learn_from_feedback(given["said_of"], given)
    if given["follow"]:
        raise UsageError("--follow goes with --from RUN")
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
    from viper.evaluate.metrics import metric
    from viper.evaluate.runs.store import RunStore
    from viper.learning.loop import Learning
    from viper.reasoner import Reasoner
    from viper.schema import to_json
    from viper.tuning.lesson import Journal
    from viper.tuning.trained_files import TrainedFiles

    profile = replace(open_profile(given), learned=True)
    folder = given["out"] or _folder(evaluation)
    trained = TrainedFiles(folder / "trained")
    cancel = threading.Event()
    with Reasoner(profile, preload=False) as reasoner:
        with status("loading models"):
            settings = {name: given[name] for name in _SETTINGS}
            manifest = manifest_of(
                evaluation, samples, _as_came(reasoner), to_json(profile.document), settings
            )
        of = (evaluation.set_name, evaluation.located().split or "")
        learner = learner_of(profile, reasoner, of, given, cancel, trained)
        judge = metric(evaluation.metric)
        answering = Answering.with_cache(reasoner, judge, evaluation.options, 8)
        todo = items(samples, evaluation.seeds)
        with RunStore.resume(folder, manifest) as store:
            click.echo(f"run: {folder}", err=True)
            journal = Journal(folder)
            tell = Teller(len(todo))
            tell.follow(learner)
            learning = Learning(answering, learner, store, journal, tell.standing, trained.forget)
            try:
                standing = learning.run(todo, cancel, background=given["background"])
            except (KeyboardInterrupt, CancelledError):
                cancel.set()
                click.echo(f"\nstopped; to go on: the same line with --out {folder}", err=True)
                raise
            return finish(standing, journal, folder, given)


def _learn_from_feedback(run: Path, given: dict[str, Any]) -> int:
    from dataclasses import replace

    from viper.commands.progress import status
    from viper.evaluate.runs.store import RunStore
    from viper.learning.feedback_learning import (
        LEARNED,
        FeedbackLearning,
        LearnedRemarks,
        Unreadable,
    )
    from viper.profiles.document import state_dir
    from viper.reasoner import Reasoner, RunOptions
    from viper.strategies import strategy
    from viper.tuning.lesson import Journal

    for option in ("out", "ids", "split", "online", "background"):
        if given[option]:
            raise UsageError(f"--{option} goes with SET, not with --from RUN")
    quiet_libraries(given["offline"])
    strategy(given["strategy"])
    with RunStore.read(run) as store:
        manifest = store.manifest
    profile = replace(open_profile(given), learned=True)
    cancel, tell = threading.Event(), Teller()

    def unreadable(one: Unreadable) -> None:
        click.echo(f"{one.sample_id}: nothing to learn from: {one.why}", err=True)

    with Reasoner(profile, preload=False) as reasoner:
        with status("loading models"):
            of = (manifest.set.name, manifest.set.split or "")
            learner = learner_of(profile, reasoner, of, given, cancel)
        tell.follow(learner)
        learning = FeedbackLearning(
            run,
            reasoner,
            RunOptions(strategy=given["strategy"], api=given["api"]),
            learner,
            LearnedRemarks(state_dir(profile.state) / LEARNED),
            given["root"],
            tell.standing,
            unreadable,
        )
        if given["follow"]:
            click.echo("waiting for remarks; Ctrl-C ends it", err=True)
        try:
            learning.run(cancel, follow=given["follow"])
        except (KeyboardInterrupt, CancelledError):
            cancel.set()
            click.echo("\nstopped; the same line goes on", err=True)
            if not given["follow"]:
                raise
        return finish(learning.standing, Journal(run), run, given)


_SETTINGS = (
    "reflection", "tools", "demonstrations", "updates", "tries", "probe", "validate", "annotated",
    "pictures", "positives", "online", "background",
)  # fmt: skip


def _as_came(reasoner: Reasoner) -> Reasoner:
    """The same reasoner as if nothing had been learned: what a run is told apart by."""
    from dataclasses import replace

    from viper.ace.pool import LearnedExamples
    from viper.models.vision.soft_prompts import NoSoftPrompts
    from viper.reasoner import Reasoner
    from viper.strategies.examples import NoExamples

    parts = reasoner.components
    examples = parts.examples
    bank = examples.bank if isinstance(examples, LearnedExamples) else examples
    hub = parts.hub.with_soft_prompts(NoSoftPrompts())
    plain = replace(parts, hub=hub, examples=bank, demonstrations=NoExamples())
    return Reasoner(plain, preload=False)


def _folder(evaluation: Evaluation) -> Path:
    from viper.evaluate.evaluation import default_folder

    found = default_folder(evaluation, datetime.now(UTC).strftime("%Y%m%d-%H%M%S"))
    return found.with_name(f"learn-{found.name}")

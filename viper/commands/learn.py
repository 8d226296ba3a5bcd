"""``viper learn samples``: learn from labelled samples, or from feedback on a run.

`learn` reads the options into an evaluation and a learner (`learner_of`) and runs the loop of
`viper.tuning.loop` over a run's folder, or `FeedbackLearning` with --from. `_Progress` tells what
happens, and `_finish` prints the outcome.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import click

from viper.commands import options as cli
from viper.commands.terminal import clock, echo_json, echo_table, note, status
from viper.data.registry import training_split
from viper.errors import EXIT_FAILED, EXIT_OK, CancelledError, UnknownNameError, UsageError
from viper.evaluate.campaign import Campaign
from viper.evaluate.evaluation import default_folder
from viper.evaluate.runs.learning_record import Journal
from viper.evaluate.runs.store import RunStore
from viper.models.vision.soft_prompts import NoSoftPrompts
from viper.profiles.files import state_dir
from viper.profiles.wiring import Profile
from viper.reasoner import Reasoner, RunOptions
from viper.schema import to_json
from viper.strategies import strategy
from viper.strategies.demonstration_pool import without_pool
from viper.strategies.examples import NoExamples
from viper.strategies.settings import all_settings
from viper.tuning.feedback_learning import LEARNED, FeedbackLearning, LearnedRemarks, Unreadable
from viper.tuning.learner import Learner, LearnSettings
from viper.tuning.loop import LearningLoop, LearningProgress
from viper.tuning.soft_prompts.base import TOOLS
from viper.tuning.tool_training import Memory, TrainedFiles
from viper.tuning.tool_updates import UpdateSettings
from viper.tuning.wiring import learner_for, origin_of


@dataclass(frozen=True, kw_only=True)
class LearnOptions(cli.TrainingData, cli.ProfileChoice):
    """Options of ``viper learn``."""

    # fmt: off
    root: Path | None = cli.given_by(cli.root_option)
    split: str | None = cli.split_field("Split to learn from. By default train.")
    limit: int = cli.option("--limit", type=click.IntRange(1), default=100,
        help="Number of samples to learn from.")
    out: Path | None = cli.option("--out", type=cli.OutPath(), metavar="RUN",
        help="Folder for answers and learning records. By default runs/learn-SET-SPLIT-TIME.")
    said_of: Path | None = cli.option("--from", metavar="RUN",
        help="Learn from the feedback on the answers of this run, instead of SET.")
    follow: bool = cli.option("--follow", help="With --from: wait for more feedback, until Ctrl-C.")
    strategy: str | None = cli.option("--strategy", type=cli.STRATEGY,
        help="Strategy that answers: program, or plan if the profile has a planner. By default "
             "the profile's.")
    as_json: bool = cli.option("--json", help="Print the outcome as JSON.")
    ids: str | None = cli.option("--ids", metavar="FILE|ID,ID", section="Samples",
        help="Learn from these samples instead of drawing --limit samples.")
    seed: int = cli.seed_field(
        "Random seed for the choice of samples and data, for sampling and training.", "Samples")
    online: bool = cli.option("--online", section="Samples",
        help="Treat the samples as a stream: the score counts the first answers, before learning.")
    background: bool = cli.option("--background", section="Samples",
        help="Learn in a second thread while the next samples are answered.")
    reflection: str | None = cli.option("--reflector", section="Reflection",
        type=click.Choice(all_settings()["reflector"].declaration.choices),
        help="Method that finds the fault: intervention changes tool results, llm asks the "
             "language model, which also reads comments. By default the profile's.")
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
    decoder: bool = cli.option("--decoder", section="Updates",
        help="Teach loc and seg by vectors beside the inputs of the model's decoder, as CLOVA "
             "does, instead of by linear probes.")
    api: str | None = cli.given_by(cli.api_option)
    # fmt: on


def learner_of(
    profile: Profile,
    reasoner: Reasoner,
    of: tuple[str, str],
    options: LearnOptions,
    progress: _Progress,
    memory: Memory | None = None,
) -> Learner:
    """Build the learner that the options configure.

    Args:
        of: data set and split that new demonstrations name as their source.
        progress: shows the steps of the learner and stops a running training.
        memory: soft prompts that an interrupted run had trained.

    Raises:
        UsageError: the strategy writes no program, in which a fault could be found.
    """
    answering = options.strategy or profile.document.run.strategy
    if not getattr(strategy(answering), "writes_programs", False):
        raise UsageError(
            f"strategy {answering} writes no programs to learn from; --strategy program or plan"
        )
    seed = options.seed % 2**32  # numpy takes no negative seed
    polarity, validate, tools = options.demonstrations, options.validate, None
    if options.tools != "none":
        only = [name.strip() for name in (options.tools or "").split(",") if name.strip()]
        for name in only:
            if name not in TOOLS:
                raise UnknownNameError("tool that can be taught", name, TOOLS)
        limits = (options.updates, options.tries, options.probe, validate, seed, options.decoder)
        tools = UpdateSettings(frozenset(only) or None, *limits)
    correct, incorrect = (polarity in ("all", each) for each in ("correct", "incorrect"))
    return learner_for(
        reasoner.components,
        state_dir(profile.state),
        options.data(seed),
        reflection=options.reflection or profile.document.run.reflector,
        settings=LearnSettings(correct, incorrect, validate),
        tools=tools,
        origin=origin_of(reasoner.components, *of),
        on_step=progress.step,
        on_progress=progress.training,
        memory=memory,
    )


@click.command(
    cls=cli.SectionedCommand,
    first="root split limit out said_of follow strategy profile state as_json",
)
@click.argument("name", metavar="[SET]", required=False, type=cli.DATA_SET)
@cli.options_as(LearnOptions)
def learn(options: LearnOptions, name: str | None) -> int:
    """Answer labelled samples of SET and learn from each one.

    Reflection finds the tool that made an answer wrong. The tool learns the missing concept as a
    soft prompt, from collected images and without changing its weights. An update is kept only if
    it also works on data it was not trained on. Correct answers become demonstrations. The state
    folder stores both (viper ace pool, viper learn prompts). viper run uses them from then on, and
    viper eval uses them with --learned. RUN holds answers and learning records (viper view RUN).

    An answer takes seconds, and a lesson that teaches a tool a minute on two free cores and several
    on busy ones. After Ctrl-C or a crash, the same command with --out RUN continues. The exit code
    is 0 when all samples are done.

    With --from RUN it learns from the feedback on a run instead (viper learn feedback, viper view,
    viper demo). With --follow it also waits for new feedback until Ctrl-C, while the demo runs and
    uses what is learned.

    \b
    viper learn world-reserved --limit 60 --out runs/learn
    viper learn world-reserved --online --background --state /tmp/fresh
    viper learn gqa --root gqa --annotated lvis --annotated-root lvis --pictures photos
    viper learn --from runs/demo --follow
    """
    if (name is None) == (options.said_of is None):
        raise UsageError("expected one of SET and --from RUN; name what to learn from")
    if options.follow and options.said_of is None:
        raise UsageError("--follow goes with --from RUN")
    cli.quiet_libraries(options.offline)
    if options.said_of is not None:
        return _learn_from_feedback(options.said_of, options)
    assert name is not None
    run_options = RunOptions(strategy=options.strategy, api=options.api)
    split = options.split or training_split(name)
    evaluation = cli.evaluation_of(name, options, split, options=run_options)
    with status("reading samples"):
        samples = evaluation.samples()
    profile = replace(cli.open_profile(options), learned=True)
    options = replace(options, reflection=options.reflection or profile.document.run.reflector)
    folder = default_folder(evaluation, datetime.now(UTC).strftime("%Y%m%d-%H%M%S"))
    folder = options.out or folder.with_name(f"learn-{folder.name}")
    trained = TrainedFiles(folder / "trained")
    cancel = threading.Event()
    with Reasoner(profile, preload=False) as reasoner:
        with status("loading models"):
            # soft prompts and demonstrations change, so they do not identify the run
            parts = reasoner.components
            parts = replace(
                parts,
                toolbox=parts.toolbox.with_soft_prompts(NoSoftPrompts()),
                examples=without_pool(parts.examples),
                demonstrations=NoExamples(),
            )
            plain, document = Reasoner(parts, preload=False), to_json(profile.document)
            settings = {name: getattr(options, name) for name in _SETTINGS}
            campaign = Campaign.of(evaluation, samples, plain, document, settings)
        of = (evaluation.set_name, evaluation.located().split or "")
        progress = _Progress(cancel, len(campaign.todo))
        learner = learner_of(profile, reasoner, of, options, progress, trained)
        runner = replace(campaign, reasoner=reasoner).runner(1)
        with RunStore.resume(folder, campaign.manifest) as store:
            note(f"run: {folder}")
            journal = Journal(folder)
            loop = LearningLoop(runner, learner, store, journal, progress.standing, trained.forget)
            try:
                standing = loop.run(campaign.todo, cancel, background=options.background)
            except (KeyboardInterrupt, CancelledError):
                cancel.set()
                note(f"\nstopped; to go on: the same line with --out {folder}")
                raise
            return _finish(standing, journal, folder, options)


def _learn_from_feedback(run: Path, options: LearnOptions) -> int:
    for name in ("out", "ids", "split", "online", "background"):
        if getattr(options, name):
            raise UsageError(f"--{name} goes with SET, not with --from RUN")
    with RunStore.read(run) as store:
        manifest = store.manifest
    profile = replace(cli.open_profile(options), learned=True)
    cancel = threading.Event()

    def unreadable(remark: Unreadable) -> None:
        note(f"{remark.sample_id}: nothing to learn from: {remark.why}")

    with Reasoner(profile, preload=False) as reasoner:
        with status("loading models"):
            of = (manifest.set.name, manifest.set.split or "")
            progress = _Progress(cancel)
            learner = learner_of(profile, reasoner, of, options, progress)
        learning = FeedbackLearning(
            run,
            reasoner,
            RunOptions(strategy=options.strategy, api=options.api),
            learner,
            LearnedRemarks(state_dir(profile.state) / LEARNED),
            options.root,
            progress.standing,
            unreadable,
        )
        if options.follow:
            note("waiting for remarks; Ctrl-C ends it")
        try:
            learning.run(cancel, follow=options.follow)
        except (KeyboardInterrupt, CancelledError):
            cancel.set()
            note("\nstopped; the same line goes on")
            if not options.follow:
                raise
        return _finish(learning.standing, Journal(run), run, options)


_SETTINGS = (
    "reflection", "tools", "demonstrations", "updates", "tries", "probe", "validate", "decoder",
    "annotated", "pictures", "positives", "online", "background",
)  # fmt: skip


class _Progress:
    """Progress on stderr: the current step of a learner, the counts and the time that is left."""

    def __init__(self, cancel: threading.Event, total: int | None = None) -> None:
        self._cancel, self._total, self._last_line = cancel, total, ""
        self._began = time.monotonic()

    def step(self, text: str) -> None:
        """Print the current step."""
        if text != self._last_line and text.startswith(("teaching", "collecting")):
            note(text)
        self._last_line = text

    def training(self, done: int, total: int) -> None:
        """End the training of a tool if it is cancelled."""
        if self._cancel.is_set():
            raise CancelledError("learning was cancelled")

    def standing(self, standing: LearningProgress) -> None:
        """Print the counts if they changed."""
        of = "" if self._total is None else f"/{self._total}"
        score = standing.score / max(1, standing.answered)
        line = (
            f"{standing.answered}{of} answered, score {score:.3f}, {standing.learned} lessons, "
            f"{standing.updates} updates of tools, {standing.demonstrations} demonstrations"
        )
        if line != self._last_line:
            lacking = (self._total or 0) - standing.learned
            seconds = (time.monotonic() - self._began) * lacking / max(1, standing.learned)
            left = f", about {clock(seconds)} left" if standing.learned and lacking > 0 else ""
            note(f"{line}{left}")
        self._last_line = line


def _finish(
    standing: LearningProgress, journal: Journal, folder: Path, options: LearnOptions
) -> int:
    """Print the outcome, and return the exit code."""
    count = max(1, standing.answered)
    records = journal.records()
    problems = [record.problem for record in records if record.problem] + [
        f"{update.tool} {update.concept}: {update.problem}"
        for record in records
        for update in record.updates
        if update.problem
    ]
    score, score_after = standing.score / count, standing.score_after / count
    if options.as_json:
        outcome = {
            "run": str(folder),
            "samples": standing.answered,
            "score": score,
            "score_after": score_after,
            "updates": standing.updates,
            "demonstrations": standing.demonstrations,
            "learned": standing.concepts,
            "problems": problems,
        }
        echo_json(outcome)
        return EXIT_OK
    name = "first answers" if options.online else "before its lesson"
    figures = (standing.answered, f"{score:.3f}", f"{score_after:.3f}", standing.updates)
    header = ("samples", name, "after its lesson", "updates", "demonstrations")
    echo_table(header, [(*figures, standing.demonstrations)])
    if standing.concepts:
        learned = (f"{concept} ({count})" for concept, count in sorted(standing.concepts.items()))
        click.echo(f"\nlearned: {', '.join(learned)}")
    for problem in dict.fromkeys(problems):
        note(f"viper: {problem}")
    return EXIT_OK if standing.learned == standing.total else EXIT_FAILED

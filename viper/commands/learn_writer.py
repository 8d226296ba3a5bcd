"""``viper learn writer``: the program writer learns its own programs that turned out right.

`writer` splits the samples, then `_Training.run` goes round by round: answer (`_answer`), choose
lessons (`_lessons`), tune an adapter, and answer the held-out queries with it. `_write`
puts the result into a folder.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import click

from viper.ace.mining import zero_shot
from viper.commands import options as cli
from viper.commands.terminal import counter, evaluation_progress, hint_to_go_on, note, status
from viper.commands.tune import TuningOptions, tune_and_tell
from viper.data.registry import training_split
from viper.data.sample import Sample
from viper.errors import EXIT_FAILED, EXIT_OK, UsageError
from viper.evaluate.campaign import SampledEvaluation, answer_all, bound_arenas
from viper.evaluate.evaluation import Evaluation
from viper.evaluate.intervals import paired
from viper.evaluate.sample_result import SampleResult
from viper.profiles.document import WRITER
from viper.profiles.wiring import Profile
from viper.reasoner import Reasoner, RunOptions
from viper.schema import to_json
from viper.storage.files import write_file
from viper.tuning import self_training
from viper.tuning.agent.tuned_model import tuned_of, tuned_profile, with_adapter
from viper.tuning.self_training import Lesson, query_key


@dataclass(frozen=True, kw_only=True)
class WriterOptions(TuningOptions):
    """Options of ``viper learn writer``."""

    # fmt: off
    root: Path | None = cli.given_by(cli.root_option)
    split: str | None = cli.option("--split", metavar="NAME",
        help="Split to learn from. By default train, or the first whose name begins with train.")
    limit: int | None = cli.option("--limit", type=click.IntRange(1), metavar="N",
        help="Number of samples, drawn at random. By default all.")
    ids: str | None = cli.option("--ids", metavar="FILE|ID,ID",
        help="Learn from these samples instead; a file holds one id on each line.")
    programs: int = cli.option("--programs", type=click.IntRange(2, 100), default=8,
        help="Number of programs for each sample in a round.")
    temperature: float = cli.option("--temperature", default=0.7,
        type=click.FloatRange(0, 2, min_open=True), help="Temperature of these programs.")
    rounds: int = cli.option("--rounds", type=click.IntRange(1, 20), default=2,
        help="Number of rounds; each asks the writer of the round before.")
    scenes: int = cli.option("--scenes", type=click.IntRange(1, 1_000), default=8,
        help="Number of pictures of other queries on which a correct program must run.")
    least_share: float = cli.option("--least-share", type=click.FloatRange(0, 1), default=0.25,
        help="Share of the programs of a query that must behave like a lesson, unless similar "
             "queries support it.")
    held_out: float = cli.option("--held-out", type=click.FloatRange(0, 0.9), default=0.2,
        metavar="SHARE", help="Share of queries to hold out, and to answer before and after.")
    steps: int = cli.option("--steps", type=click.IntRange(1), default=200,
        help="Number of optimiser steps of a round.")
    out: Path = cli.out_field("DIR", "Folder for the adapter, its card and profile.toml.")
    work: Path | None = cli.option("--work", type=cli.OutPath(), metavar="DIR",
        help="Folder for answers and checkpoints. By default DIR.work; it is continued from there.")
    # fmt: on


@click.command()
@click.argument("name", metavar="SET", type=cli.DATA_SET)
@cli.options_as(WriterOptions)
def writer(options: WriterOptions, name: str) -> int:
    """Let the program writer learn its own programs that were correct on labelled samples of SET.

    In each round it writes several programs for every query. A lesson is a program that is correct
    on all samples of its query, runs on the pictures of other queries, and is frequent or similar
    to the lessons of similar queries. A low-rank adapter learns the lessons. The writer's backend
    must be transformers. After Ctrl-C or a crash, the same command continues. The exit code is 1
    if there is no lesson.

    \b
    viper learn writer world --split train:question --limit 300 --out runs/writer
    viper learn writer nlvr --root nlvr --profile examples/nlvr/profile.toml --out runs/nlvr
    viper eval nlvr --root nlvr --profile runs/nlvr/profile.toml
    """
    out = options.out
    if out.exists():
        raise UsageError(f"{out}: exists already; name another folder, or delete it")
    cli.quiet_libraries(options.offline)
    bound_arenas()
    split = options.split or training_split(name, alike=True)
    evaluation = cli.evaluation_of(name, options, split)
    with status("reading samples"):
        samples = evaluation.samples()
    queries = self_training.held_out_queries(samples, options.held_out, options.seed)
    held_out = [sample for sample in samples if query_key(sample) in queries]
    learned = [sample for sample in samples if query_key(sample) not in queries]
    work = options.work or out.with_name(f"{out.name}.work")
    training = _Training(options, cli.open_profile(options), evaluation, learned, held_out, work)
    with hint_to_go_on():
        return training.run()


@dataclass(frozen=True)
class _Training:
    """The rounds of one training, each in a folder of its own."""

    options: WriterOptions
    profile: Profile
    evaluation: Evaluation
    samples: Sequence[Sample]
    held_out: Sequence[Sample]
    work: Path

    def run(self) -> int:
        """Train round by round, write the result, and return the exit code."""
        options, profile, figures = self.options, self.profile, []
        tuned, style = tuned_of(profile, WRITER)
        settings = options.tune_settings()
        facts = json.dumps({
            **asdict(settings), "scenes": options.scenes,
            "least_share": options.least_share, "held_out": options.held_out,
        })  # fmt: skip
        file = self.work / "options.json"
        if not file.is_file():
            file.parent.mkdir(parents=True, exist_ok=True)
            write_file(file, f"{facts}\n")
        elif file.read_text(encoding="utf-8").strip() != facts:
            raise UsageError(
                f"{self.work} holds rounds that were trained with other options; give another "
                "--work, or delete it"
            )
        before = self._answer(profile, self.held_out, "before", 0.0, 1)
        adapter, lessons = None, []
        for number in range(1, options.rounds + 1):
            lessons = self._lessons(profile, number)
            if not lessons:
                note("viper: no program to learn from; try more --programs")
                return EXIT_FAILED
            adapter = self.work / f"adapter-{number}"
            if not adapter.is_dir():
                texts = []
                with Reasoner(profile, preload=False) as reasoner:
                    for lesson in lessons:
                        sample = lesson.sample
                        asked = RunOptions(task=sample.task, options=sample.options)
                        prompt = reasoner.writer_prompt(sample.load(), sample.text, asked)
                        texts.append(self_training.training_text(prompt, lesson, style))
                label, work = f"round {number}: tuning", self.work / f"tuning-{number}"
                tune_and_tell(label, tuned, texts, settings, adapter, work)
            profile = with_adapter(self.profile, WRITER, adapter)
            after = self._answer(profile, self.held_out, f"after-{number}", 0.0, 1)
            figures.append(f"{len(lessons)} lessons, no query held out")
            if before:
                old, new = ([row.score for row in rows] for rows in (before, after))
                means = [sum(scores) / len(scores) for scores in (old, new)]
                gain = paired(old, new, [sample.text for sample in self.held_out]).difference
                figures[-1] = (
                    f"{len(lessons)} lessons; held-out score {means[0]:.3f} before, "
                    f"{means[1]:.3f} after ({gain.value:+.3f} [{gain.low:+.3f}, {gain.high:+.3f}], "
                    f"n = {len(before)})"
                )
            note(f"round {number}: {figures[-1]}")
        assert adapter is not None
        self._write(adapter, tuned.model, len(lessons), figures)
        click.echo(f"{options.out / 'profile.toml'}")
        return EXIT_OK

    def _answer(
        self, profile: Profile, samples: Sequence[Sample], name: str, warmth: float, programs: int
    ) -> list[SampleResult]:
        """Answer samples, several programs each; answers that the folder holds are kept."""
        first = self.options.seed
        evaluation = replace(
            self.evaluation,
            seeds=tuple(range(first, first + programs)),
            options=zero_shot(warmth).changed(examples=None),
            ids=tuple(sample.sample_id for sample in samples),
            limit=len(samples),
        )
        if not samples:
            return []
        sampled, document = SampledEvaluation(evaluation, samples), to_json(profile.document)
        with (
            Reasoner(profile, preload=False) as reasoner,
            evaluation_progress(len(samples) * programs, 0) as progress,
        ):
            folder = self.work / name
            return answer_all(reasoner.components, sampled, folder, document, progress)

    def _lessons(self, profile: Profile, number: int) -> list[Lesson]:
        options = self.options
        name = f"programs-{number}"
        results = self._answer(profile, self.samples, name, options.temperature, options.programs)
        drafts = self_training.drafts_of(results, self.samples)
        with (
            Reasoner(self.profile, preload=False) as reasoner,
            counter("trying programs on other pictures", len(drafts)) as advance,
        ):
            return self_training.lessons_of(
                drafts,
                self.samples,
                reasoner,
                scenes=options.scenes,
                least_share=options.least_share,
                seed=options.seed,
                on_query=lambda: advance(""),
            )

    def _write(self, adapter: Path, base: str, lessons: int, figures: Sequence[str]) -> None:
        """Write the folder of the result in one step."""
        out = self.options.out
        part = out.with_name(f"{out.name}.new")
        shutil.rmtree(part, ignore_errors=True)
        shutil.copytree(adapter, part / "model")
        facts = {
            "base": Path(base).name,
            "data": f"{self.evaluation.set_name}, {self.evaluation.spec.split}",
            "samples": f"{len(self.samples)}, and {len(self.held_out)} held out",
            "lessons of the last round": lessons,
            **{f"round {number}": text for number, text in enumerate(figures, start=1)},
        }
        command = cli.command_line(click.get_current_context())
        write_file(part / "README.md", self_training.card(out.name, facts, command))
        text = tuned_profile(self.profile, out.name, out / "model", True, role=WRITER)
        write_file(part / "profile.toml", text)
        part.replace(out)

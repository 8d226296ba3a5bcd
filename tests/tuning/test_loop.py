"""The closed loop on fake models: what is answered, learned, kept, and found again."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.evaluate.engine_doubles import a_sample
from tests.evaluate.run_samples import a_manifest
from tests.models.vision.adapter_fakes import (
    AdaptedAnswerer,
    AdaptedDetector,
    AdaptedInpainter,
    AdaptedMatcher,
    prompt,
)
from tests.strategies.bench import Bench
from tests.tuning.fake_tuner import FakeTuner
from tests.tuning.stores import TableStore
from viper.errors import CancelledError
from viper.evaluate.engines.sample_runner import Item, SampleRunner
from viper.evaluate.metrics import Metric, metric
from viper.evaluate.runs.learning_record import Journal
from viper.evaluate.runs.store import RunStore
from viper.models.llm.protocol import Completion, Sampling
from viper.models.vision.prompt_pool import Evidence, PromptPool
from viper.reasoner import RunOptions
from viper.strategies.critique import Critique
from viper.strategies.demonstration_pool import DemonstrationPool
from viper.tools.models import ModelSet
from viper.tuning.case import Case
from viper.tuning.learner import ExampleOrigin, Learner, LearnSettings
from viper.tuning.loop import LearningLoop, LearningProgress
from viper.tuning.reflector import InterventionReflector, Reflector
from viper.tuning.tool_training import Sources, ToolTrainer, TrainedFiles
from viper.tuning.tool_updates import ToolUpdates, UpdateSettings
from viper.tuning.training_data import PictureSearch

PROGRAM = """def execute_command(image):
    return 'yes' if ImagePatch(image).exists('pyramid') else 'no'
"""
COLOUR = """def execute_command(image):
    return ImagePatch(image).simple_query('what color is it?')
"""


class OneProgram:
    """A writer that knows one program."""

    model_id = "one"
    context_tokens = 100_000

    def __init__(self, program: str) -> None:
        self.program, self.asked = program, 0

    def generate(self, prompts: Sequence[str], sampling: Sampling) -> list[list[Completion]]:
        self.asked += len(prompts)
        return [[Completion(self.program, 1, 1, 0.0)] for _ in prompts]

    def score(self, prompt: str, continuations: Sequence[str]) -> list[float]:
        return [0.0 for _ in continuations]

    def count_tokens(self, text: str) -> int:
        return len(text.split())


class Blames:
    """A reflector that says one thing."""

    def __init__(self, critique: Critique) -> None:
        self.critique, self.cases = critique, list[Case]()

    def reflect(self, case: Case) -> Critique:
        self.cases.append(case)
        return self.critique


@dataclass
class Stand:
    """Everything that learns, on fake models, with its pools in a folder."""

    folder: Path
    program: str = PROGRAM
    reflector: Reflector | None = None
    validate: bool = True
    tries: int = 2
    judge: Metric = field(default_factory=lambda: metric("gqa"))
    api: str | None = None
    search: PictureSearch | None = None

    def __enter__(self) -> Stand:
        models = ModelSet(
            {
                "detector": lambda: AdaptedDetector({"cube": [((10, 40, 20, 50), 0.9)]}),
                "vqa": lambda: AdaptedAnswerer({"what color is it?": "red"}),
                "matcher": AdaptedMatcher,
                "inpainter": AdaptedInpainter,
            }
        )
        self.bench = Bench([])
        self.bench.__enter__()
        parts = self.bench.reasoner.components
        self.prompts = PromptPool(self.folder / "prompts")
        self.pool = DemonstrationPool(self.folder / "demonstrations")
        self.writer = OneProgram(self.program)
        toolbox = type(parts.toolbox)(models, parts.toolbox.settings, soft_prompts=self.prompts)
        self.components = replace(
            parts.with_models(llm=self.writer), toolbox=toolbox, demonstrations=self.pool
        )
        self.reasoner = type(self.bench.reasoner)(self.components, preload=False)
        store = TableStore({1: ("pyramid",), 2: ("cube",)})
        reflector = self.reflector or InterventionReflector(self.components)
        self.steps: list[str] = []
        self.updates = ToolUpdates(
            toolbox,
            ToolTrainer(models, self.prompts, Sources(store, self.search)),
            UpdateSettings(tries=self.tries),
            self.steps.append,
        )
        self.learner = Learner(
            self.updates,
            [reflector],
            self.pool,
            LearnSettings(validate=self.validate),
            ExampleOrigin("one", "hash"),
        )
        self.store = RunStore.resume(self.folder / "run", a_manifest())
        self.journal = Journal(self.folder / "run")
        self.seen: list[tuple[int, int]] = []
        self.noted: list[int] = []
        return self

    def __exit__(self, *_: object) -> None:
        self.store.close()
        self.prompts.close()
        self.pool.close()
        self.bench.__exit__()

    def learn(self, items: Sequence[Item], **how: Any) -> LearningProgress:
        options = RunOptions(trials=1, self_tune=False, examples=0, api=self.api)
        answering = SampleRunner.with_cache(self.reasoner, self.judge, options, 4)
        learning = LearningLoop(
            answering,
            self.learner,
            self.store,
            self.journal,
            lambda now: self.seen.append((now.answered, now.learned)),
            lambda: self.noted.append(len(self.journal.records())),
        )
        return learning.run(items, how.pop("cancel", threading.Event()), **how)


def questions(count: int, text: str = "is there a pyramid?", target: str = "yes") -> list[Item]:
    picture = np.full((60, 100, 3), 128, np.uint8)
    return [
        Item(number, a_sample(number, text=text, target=target, load=lambda: picture), 0)
        for number in range(count)
    ]


@pytest.fixture
def tuners(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, FakeTuner]]:
    made = {"loc": FakeTuner("detector", "loc"), "vqa": FakeTuner("vqa", "vqa")}
    monkeypatch.setattr("viper.tuning.tool_training.tuner_for", made.__getitem__)
    yield made


def test_a_concept_is_learned_once_and_known_from_then_on(
    tmp_path: Path, tuners: dict[str, FakeTuner]
) -> None:
    with Stand(tmp_path) as stand:
        standing = stand.learn(questions(3))
        lessons = stand.journal.records()
    assert (standing.score, standing.score_after) == (2.0, 3.0)
    assert tuners["loc"].lessons == 1 and standing.concepts == {"loc: pyramid": 1}
    first = lessons[0]
    assert (first.score, first.score_after) == (0.0, 1.0)
    (update,) = first.updates
    assert update.key == ("loc", "pyramid") and update.knew == 0.0
    assert [one.why for one in update.prompts] == [
        "", "held-out pictures were not found with it",
    ]  # fmt: skip
    assert update.collected["positives"][0]["picture"] == "table:1"
    assert not lessons[1].updates and lessons[1].score == 1.0


def test_the_form_of_the_prompts_is_a_setting(tmp_path: Path, tuners: dict[str, FakeTuner]) -> None:
    tuners["loc-decoder"] = FakeTuner("detector", "loc")
    with Stand(tmp_path) as stand:
        stand.updates.settings = replace(stand.updates.settings, decoder=True)
        stand.learn(questions(1))
    assert (tuners["loc-decoder"].lessons, tuners["loc"].lessons) == (1, 0)


def test_the_log_of_later_answers_says_what_was_taught(
    tmp_path: Path, tuners: dict[str, FakeTuner]
) -> None:
    with Stand(tmp_path) as stand:
        stand.learn(questions(2))
        trace = stand.store.trace("s1", 0)
    assert trace is not None
    assert trace["trials"][0]["tool_calls"][0]["taught"] == ["loc: pyramid"]


def test_right_answers_become_demonstrations_that_were_tried(
    tmp_path: Path, tuners: dict[str, FakeTuner]
) -> None:
    with Stand(tmp_path) as stand:
        stand.learn(questions(2))
        kept = stand.pool.items()
    assert [one.example.program.strip() for one in kept] == [PROGRAM.strip()]
    assert kept[0].validated_on == "s0"


def test_what_was_answered_and_learned_is_not_done_again(
    tmp_path: Path, tuners: dict[str, FakeTuner]
) -> None:
    with Stand(tmp_path) as stand:
        whole = stand.learn(questions(3))
    with Stand(tmp_path) as stand:
        again = stand.learn(questions(3))
        assert stand.writer.asked == 0 and tuners["loc"].lessons == 1
    assert again == whole


def test_a_lesson_is_told_of_once_when_it_stands_in_the_journal(
    tmp_path: Path, tuners: dict[str, FakeTuner]
) -> None:
    with Stand(tmp_path) as stand:
        stand.learn(questions(2))
        assert stand.noted == [1, 2]
    with Stand(tmp_path) as stand:
        stand.learn(questions(3))
        assert stand.noted == [3]


def test_what_a_lesson_that_was_cut_off_had_trained_is_not_trained_again(
    tmp_path: Path, tuners: dict[str, FakeTuner], monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = TrainedFiles(tmp_path / "trained")
    for broken in (True, False):
        with Stand(tmp_path) as stand, monkeypatch.context() as patch:
            trainer = replace(stand.updates.trainer, memory=memory)
            stand.updates = stand.learner.updates = replace(stand.updates, trainer=trainer)
            if broken:
                patch.setattr(PromptPool, "add", _killed)
                with pytest.raises(KeyboardInterrupt):
                    stand.learn(questions(1))
                assert len(list(memory.folder.iterdir())) == 1
            else:
                standing = stand.learn(questions(1))
    assert tuners["loc"].lessons == 1 and standing.concepts == {"loc: pyramid": 1}


def _killed(*_: object) -> None:
    raise KeyboardInterrupt


def test_learning_that_was_cut_off_goes_on_where_it_was(
    tmp_path: Path, tuners: dict[str, FakeTuner]
) -> None:
    cancel = threading.Event()
    with Stand(tmp_path) as stand, pytest.raises(CancelledError):
        stand.updates.on_progress = lambda done, total: (_ for _ in ()).throw(CancelledError("x"))
        stand.learn(questions(2), cancel=cancel)
    assert PromptPool(tmp_path / "prompts").kept() == []
    with Stand(tmp_path) as stand:
        standing = stand.learn(questions(2))
        assert len(stand.prompts.kept("loc")) == 1
    assert (standing.answered, standing.learned, standing.score) == (2, 2, 1.0)


def test_what_was_in_the_pool_before_its_lesson_was_noted_is_not_learned_twice(
    tmp_path: Path, tuners: dict[str, FakeTuner]
) -> None:
    with Stand(tmp_path) as stand:
        stand.learn(questions(1))
        stand.journal.path.unlink()  # as if killed between the pool and the journal
    with Stand(tmp_path) as stand:
        standing = stand.learn(questions(1))
        (lesson,) = stand.journal.records()
    assert tuners["loc"].lessons == 1 and not lesson.updates and not lesson.critiques
    assert (standing.score, standing.score_after) == (0.0, 1.0)


def test_a_concept_that_cannot_be_learned_is_not_tried_for_ever(
    tmp_path: Path, tuners: dict[str, FakeTuner]
) -> None:
    tuners["loc"].fails = True
    with Stand(tmp_path, tries=2) as stand:
        standing = stand.learn(questions(4))
        problems = [u.problem for one in stand.journal.records() for u in one.updates]
    assert tuners["loc"].lessons == 2 and standing.score_after == 0
    assert problems == ["the model takes no soft prompts"] * 2
    with Stand(tmp_path, tries=2) as stand:  # another process remembers it
        stand.learn(questions(6))
    assert tuners["loc"].lessons == 2


def test_a_tool_that_knows_the_concept_is_left_alone(
    tmp_path: Path, tuners: dict[str, FakeTuner]
) -> None:
    blames = Blames(Critique.of_tool("exists", 0, "it should be there", True))
    with Stand(tmp_path, reflector=blames) as stand:
        stand.prompts.add("loc", "pyramid", [(prompt(0.9), Evidence("fake-detector"))])
        # The table's picture has its pyramid elsewhere, so the box is moved there.
        stand.updates.trainer.sources.store.samples = lambda *a, **k: [  # type: ignore[method-assign]
            replace(one, things=(replace(one.things[0], box=(30.0, 30.0, 40.0, 40.0)),))
            for one in TableStore.samples(TableStore({1: ("pyramid",)}), "pyramid", 7)
        ]
        standing = stand.learn(questions(2, target="no"))
    assert standing.updates == 0 and tuners["loc"].lessons == 0


def test_a_wrong_program_is_kept_with_its_critique(
    tmp_path: Path, tuners: dict[str, FakeTuner]
) -> None:
    blames = Blames(Critique("program", None, "it asks for existence, not for a number"))
    with Stand(tmp_path, reflector=blames, validate=False) as stand:
        stand.learn(questions(1, target="two"))
        kept = stand.pool.items()
    assert [(one.example.polarity, one.example.critique) for one in kept] == [
        ("incorrect", "it asks for existence, not for a number")
    ]


def test_demonstrations_that_do_not_help_their_own_task_are_refused(
    tmp_path: Path, tuners: dict[str, FakeTuner]
) -> None:
    blames = Blames(Critique("program", None, "wrong"))
    with Stand(tmp_path, reflector=blames) as stand:
        stand.learn(questions(1, target="two"))
        assert stand.pool.items() == () and stand.journal.records()[0].refused == 1


def test_where_blaming_the_program_does_not_help_unknown_concepts_are_tried(
    tmp_path: Path, tuners: dict[str, FakeTuner]
) -> None:
    blames = Blames(Critique("program", None, "it should ask otherwise"))
    with Stand(tmp_path, reflector=blames) as stand:
        standing = stand.learn(questions(1))
        lesson = stand.journal.records()[0]
    assert (standing.score, standing.score_after) == (0.0, 1.0)
    assert [(one.concept, one.found_by) for one in lesson.updates] == [("pyramid", "probe")]
    assert lesson.refused == 1 and len(lesson.demonstrations) == 1


def test_the_visual_answerer_learns_the_inferred_answer(
    tmp_path: Path, tuners: dict[str, FakeTuner]
) -> None:
    blames = Blames(Critique.of_tool("simple_query", 0, "it is pink", "Pink."))
    asked = questions(2, "what is it like?", "taught")
    with Stand(tmp_path, COLOUR, blames) as stand:
        standing = stand.learn(asked)
        lesson = stand.journal.records()[0]
        kept = stand.prompts.kept("vqa")
    assert standing.score_after == 2.0
    assert lesson.updates[0].collected["answer"] == "pink"
    assert len(kept) == 2  # the second was right, and is kept to hold back


def test_learning_beside_answering(tmp_path: Path, tuners: dict[str, FakeTuner]) -> None:
    with Stand(tmp_path) as stand:
        standing = stand.learn(questions(5), background=True)
        assert len(stand.journal.records()) == 5
    assert (standing.answered, standing.learned, standing.score_after) == (5, 5, 5.0)


def test_what_ends_the_learning_thread_is_told(
    tmp_path: Path, tuners: dict[str, FakeTuner], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: Journal, lesson: Any) -> None:
        raise RuntimeError("the disk is on fire")

    monkeypatch.setattr(Journal, "add", broken)
    with Stand(tmp_path) as stand, pytest.raises(RuntimeError, match="on fire"):
        stand.learn(questions(3), background=True)

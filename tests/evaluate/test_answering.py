"""One sample to a judged row, whatever raises on the way."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from engine_doubles import GIVE_UP_S, a_sample

from tests.strategies.bench import Bench, Clock, Slow
from viper.data.sample import Sample
from viper.errors import CancelledError, MediaError, ModelError
from viper.evaluate.engines.sample_runner import Item, ItemOutcome, SampleRunner
from viper.evaluate.metrics import Figures, metric
from viper.evaluate.sample_result import Prediction, Score
from viper.models.llm.protocol import Completion
from viper.models.media import Media, media_from
from viper.reasoner import RunOptions
from viper.run_result import RunResult
from viper.schema import Answer, Failure, Trace, Trial, Usage
from viper.strategies.base import UsageMeter
from viper.strategies.settings import RunSettings

PICTURE = np.full((8, 8, 3), 7, np.uint8)


class Equal:
    """1 where the answer's value is the target."""

    name = "equal"

    def score(self, sample: Sample, prediction: Prediction | None) -> Score:
        right = prediction is not None and prediction.value == sample.target
        return Score(float(right), {"seen": 1.0})

    def figures(self, results: Iterable[Any]) -> Figures:
        raise AssertionError("nobody asks for figures here")


class Reasons:
    """A reasoner whose runs are ``act``; keeps what it was asked."""

    def __init__(self, act: Callable[[Media, UsageMeter], Iterator[Any]] | None = None) -> None:
        self._act = act
        self.asked: list[tuple[Media, str, RunOptions]] = []
        self.components = SimpleNamespace(profile_name="fake", settings=RunSettings())

    def stream(
        self,
        media: Any,
        query: str,
        options: RunOptions,
        *,
        cancel: threading.Event,
        usage: UsageMeter,
    ) -> Iterator[Trial | RunResult]:
        self.asked.append((media, query, options))
        if self._act is not None:
            yield from self._act(media, usage)
            return
        yield a_trial()
        yield RunResult(a_trace(Answer("red", "text")), media)


class Counted:
    """Reads a picture, and counts how often."""

    def __init__(self) -> None:
        self.reads = 0

    def __call__(self) -> np.ndarray:
        self.reads += 1
        return PICTURE


def a_trial() -> Trial:
    return Trial(0, "return 'red'", "first", True, None, {}, (), "", 0.1)


def a_trace(answer: Answer | None, failure: Failure | None = None, **changes: Any) -> Trace:
    given = {
        "query": a_sample(0).query,
        "task": "question",
        "task_reason": "asked",
        "answer": answer,
        "failure": failure,
        "trials": (a_trial(),),
        "usage": Usage(1, 10, 5, 2),
        "seconds": 0.1,
        "strategy": "program",
        "profile": "fake",
        "api": "abstract",
        "seed": 0,
        **changes,
    }
    return Trace(**given)  # type: ignore[arg-type]


def an_answering(reasoner: Reasons, metric: Any = None) -> SampleRunner:
    options = RunOptions(trials=2, temperature=0.5)
    return SampleRunner.with_cache(reasoner, metric or Equal(), options, 8)  # type: ignore[arg-type]


def answered(
    reasoner: Reasons | None = None, sample: Sample | None = None, metric: Any = None
) -> ItemOutcome:
    sample = sample or a_sample(0, load=lambda: PICTURE)
    item = Item(5, sample, 3)
    done = an_answering(reasoner or Reasons(), metric).answer(item, threading.Event())
    assert done is not None and done.position == 5 and done.row.seed == 3
    return done


def raising(error: BaseException) -> Reasons:
    def act(media: Media, usage: UsageMeter) -> Iterator[Any]:
        usage.add(Completion("x", 30, 4, cost_usd=0.5))
        yield a_trial()
        raise error

    return Reasons(act)


def test_an_answer_is_judged_with_its_program_and_cost() -> None:
    row = answered().row
    assert (row.score, row.failure, row.prediction) == (1.0, None, Prediction("red"))
    assert dict(row.details) == {"seen": 1.0} and row.usage == Usage(1, 10, 5, 2)
    assert row.program == "return 'red'" and row.marks == ()


def test_what_comes_from_the_sample_and_what_from_the_run() -> None:
    reasoner = Reasons()
    sample = a_sample(
        1, task="choice", options=("red", "blue"), load=lambda: PICTURE, groups={"a": "b"}
    )
    row = answered(reasoner, sample).row
    ((_, query, options),) = reasoner.asked
    assert query == "question 1?"
    assert options == RunOptions(
        "choice", ("red", "blue"), trials=2, temperature=0.5, seed=3, sample_id="s1"
    )
    assert (row.options, row.task, row.groups) == (("red", "blue"), "choice", {"a": "b"})


def test_several_samples_of_one_picture_read_it_once() -> None:
    load = Counted()
    answering = an_answering(Reasons())
    samples = [a_sample(n, load=load, files=("a.png",)) for n in range(6)]
    threads = [
        threading.Thread(target=answering.answer, args=(Item(n, one, 0), threading.Event()))
        for n, one in enumerate(samples)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(GIVE_UP_S)
    assert load.reads == 1
    assert len({id(media) for media, _, _ in answering.reasoner.asked}) == 1  # type: ignore[attr-defined]


def test_samples_that_name_no_files_share_nothing() -> None:
    load = Counted()
    answering = an_answering(Reasons())
    for number in range(3):
        answering.answer(Item(number, a_sample(number, load=load), 0), threading.Event())
    assert load.reads == 3


def test_an_edit_with_its_reference_is_not_taken_for_two_pictures() -> None:
    """``files`` of an edit name its reference picture, too, which the program never sees."""
    two = a_sample(1, media="images", files=("a", "b"), load=lambda: [PICTURE, PICTURE])
    edit = a_sample(2, task="edit", files=("a", "b"), load=lambda: PICTURE)
    reasoner = Reasons()
    answering = an_answering(reasoner)
    for number, sample in enumerate([two, edit]):
        answering.answer(Item(number, sample, 0), threading.Event())
    assert [len(media.images) for media, _, _ in reasoner.asked] == [2, 1]


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (ModelError("detector: out of memory"), "model", "detector: out of memory"),
        (MediaError("a.png: damaged"), "media", "a.png: damaged"),
        (CancelledError("somebody else's"), "cancelled", "somebody else's"),
        (KeyError("odd"), "internal", "KeyError: 'odd'"),
        (RecursionError("deep"), "internal", "RecursionError: deep"),
        (MemoryError(), "internal", "MemoryError: "),
    ],
)
def test_an_error_fails_the_sample_and_keeps_what_it_cost(
    error: BaseException, kind: str, message: str
) -> None:
    done = answered(raising(error))
    row, trace = done.row, done.trace
    assert (row.failure, row.message, row.score, row.prediction) == (kind, message, 0.0, None)
    assert (row.usage.prompt_tokens, row.usage.cost_usd) == (30, 0.5)
    assert row.program == "return 'red'"
    assert trace is not None and len(trace.trials) == 1
    assert trace.failure is not None and trace.failure.kind == kind


def test_a_cancelled_item_has_no_outcome() -> None:
    cancel = threading.Event()
    cancel.set()
    answering = an_answering(raising(CancelledError("stopped")))
    assert answering.answer(Item(0, a_sample(0, load=lambda: PICTURE), 0), cancel) is None


def unreadable(tmp_path: Path) -> dict[str, Callable[[], Any]]:
    from PIL import Image

    whole = tmp_path / "whole.png"
    Image.fromarray(np.zeros((200, 200, 3), np.uint8)).save(whole)
    (tmp_path / "cut.png").write_bytes(whole.read_bytes()[:90])
    (tmp_path / "text.png").write_text("hello " * 50)
    (tmp_path / "empty.png").touch()
    header = whole.read_bytes()
    huge = header[:16] + (60_000).to_bytes(4, "big") * 2 + header[24:]
    (tmp_path / "huge.png").write_bytes(huge)
    names = ("cut.png", "text.png", "empty.png", "huge.png", "absent.png")
    return {name: (lambda name=name: tmp_path / name) for name in names}


@pytest.mark.parametrize("name", ["cut.png", "text.png", "empty.png", "huge.png", "absent.png"])
def test_a_picture_that_cannot_be_read_fails_under_media(tmp_path: Path, name: str) -> None:
    reasoner = Reasons()
    row = answered(reasoner, a_sample(0, load=unreadable(tmp_path)[name])).row
    assert row.failure == "media" and name in str(row.message) and not reasoner.asked


def test_a_set_whose_reader_breaks_fails_the_sample_alone() -> None:
    def load() -> None:
        raise ZeroDivisionError("bad offset")

    row = answered(sample=a_sample(0, load=load)).row
    assert (row.failure, row.message) == ("internal", "ZeroDivisionError: bad offset")


def test_a_failed_run_keeps_its_kind_of_failure() -> None:
    failed = a_trace(None, Failure("below_threshold", "nothing found"))
    row = answered(Reasons(lambda media, usage: iter([RunResult(failed, media)]))).row
    assert (row.failure, row.message, row.score) == ("below_threshold", "nothing found", 0.0)


@pytest.mark.parametrize(
    ("kind", "score"),
    [(kind, 1.0) for kind in ("tool", "below_threshold", "outside_domain", "abstained")]
    + [(kind, 0.0) for kind in ("runtime", "unavailable", "budget", "sandbox", "no_program")],
)
def test_only_a_refusal_is_right_where_nothing_can_be_answered(kind: str, score: float) -> None:
    failed = a_trace(None, Failure(kind, "no answer"))
    judge, unanswerable = metric("mixed"), a_sample(0, load=lambda: PICTURE, target=())
    reasoner = Reasons(lambda media, usage: iter([RunResult(failed, media)]))
    row = answered(reasoner, unanswerable, judge).row
    assert row.score == score
    assert judge.figures([row]).overall["mean_score"].value == score


def test_a_strategy_that_says_neither_answer_nor_failure_has_failed() -> None:
    row = answered(Reasons(lambda media, usage: iter([RunResult(a_trace(None), media)]))).row
    assert row.failure == "internal" and "no answer" in str(row.message)
    row = answered(Reasons(lambda media, usage: iter([a_trial()]))).row
    assert row.failure == "internal" and "no answer" in str(row.message)


def test_a_row_tells_that_the_time_of_its_run_was_over(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr("viper.strategies.base.time", clock)
    broken = "def execute_command(image):\n    return nonsense\n"
    with Bench([], max_seconds=100.0) as bench:
        slow = Slow([broken, broken], clock)
        bench.reasoner.components = bench.reasoner.components.with_models(llm=slow)
        row = answered(bench.reasoner).row  # type: ignore[arg-type]
    assert row.failure == "runtime" and row.marks == ("warning:ended_early",)


def test_a_fallbacks_answer_is_marked() -> None:
    trace = a_trace(Answer("red", "text"), fallback="average_box")
    row = answered(Reasons(lambda media, usage: iter([RunResult(trace, media)]))).row
    assert row.marks == ("fallback:average_box",) and row.score == 1.0


class Odd(Equal):
    """A metric that gives what it was told."""

    def __init__(self, score: Any) -> None:
        self._score = score

    def score(self, sample: Sample, prediction: Prediction | None) -> Score:
        if isinstance(self._score, Exception):
            raise self._score
        return self._score  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("score", "message"),
    [
        (ValueError("no box"), "metric: ValueError: no box"),
        (Score(float("nan")), "metric: ValueError: the score nan is no number"),
        (Score(1.0, {"iou": float("inf")}), "metric: ValueError: iou inf is no number"),
        (None, "metric: AttributeError"),
    ],
)
def test_a_metric_that_breaks_fails_the_sample_and_is_named(score: Any, message: str) -> None:
    done = answered(metric=Odd(score))
    assert (done.row.failure, done.row.score) == ("internal", 0.0)
    assert str(done.row.message).startswith(message)
    assert done.trace is not None and done.trace.answer is not None


def test_media_given_as_it_is() -> None:
    media = media_from(PICTURE)
    reasoner = Reasons()
    answered(reasoner, a_sample(0, load=lambda: media))
    assert reasoner.asked[0][0] is media

"""Queries of a description on the embedded world's media: what is asked, and what is agreed on."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from tests.evaluate.engine_doubles import a_sample
from tests.evaluate.fake_backends import Answerer, Finder, a_set
from viper.ace.description import (
    METRIC,
    MediaQuery,
    SamplingPlan,
    media_queries,
    programs_by_query,
    work_items,
)
from viper.ace.mining import ExampleSource
from viper.ace.select import AgreementResult, agreed
from viper.api.library import Library
from viper.data.registry import data_set
from viper.data.sample import DatasetSpec, Sample
from viper.errors import DataError, UsageError
from viper.evaluate.engines.sample_runner import SampleRunner
from viper.evaluate.metrics import metric
from viper.evaluate.sample_result import SampleResult
from viper.models.llm.scripted import ScriptedLLM
from viper.reasoner import Reasoner
from viper.sandbox import Sandbox
from viper.schema import Query
from viper.strategies.base import Components
from viper.strategies.settings import RunSettings
from viper.tools.models import ModelSet
from viper.tools.settings import ToolSettings
from viper.tools.toolbox import Toolbox

GROUND = [Query("the first thing", "ground"), Query("the second thing", "ground")]
HEAD = "def execute_command(image):\n    "
FOUND = f"{HEAD}# all: find\n    return ImagePatch(image).find('thing')[0]"
WHOLE = f"{HEAD}return ImagePatch(image)"
BROKEN = f"{HEAD}return ImagePatch(image).find('thing')[7]"


def drawing(**changes: object) -> SamplingPlan:
    given = {"set_name": "world", "task": "ground", "spec": DatasetSpec(None, "val:referring"),
             "media": 2, "programs": 3}  # fmt: skip
    return SamplingPlan(**{**given, **changes})  # type: ignore[arg-type]


def pool(count: int = 4) -> list[Sample]:
    return list(data_set("world").samples(DatasetSpec(None, "val:referring", 0, count)))


def outcome(
    programs: list[str], tried: list[MediaQuery], plan: SamplingPlan
) -> tuple[list[SampleResult], ScriptedLLM]:
    """The rows of a writer that writes these programs, in the order of the items."""
    llm = ScriptedLLM(programs)
    models = ModelSet({"detector": lambda: Finder("f"), "vqa": lambda: Answerer("a")})
    toolbox = Toolbox(models, ToolSettings())
    with Sandbox(prelude=Library().prelude()) as sandbox:
        reasoner = Reasoner(
            Components({"llm": llm}, toolbox, sandbox, RunSettings(prompt_style="compact"))
        )
        options = plan.evaluation().options
        answering = SampleRunner.with_cache(reasoner, metric(METRIC), options, 8)
        done = [answering.answer(item, threading.Event()) for item in work_items(tried, plan)]
    return [one.row for one in done if one is not None], llm


def verdicts(
    rows: list[SampleResult], tried: list[MediaQuery], plan: SamplingPlan, at_least: int
) -> list[AgreementResult]:
    source = ExampleSource(plan.evaluation(), "abstract", Library(), "writer@1")
    return [agreed(media, at_least) for media in programs_by_query(rows, tried, source)]


def test_programs_that_agree_about_rendered_scenes_are_kept_and_odd_ones_dropped() -> None:
    plan = drawing()
    tried = media_queries(GROUND, pool(), plan)
    one = [FOUND, WHOLE, FOUND] + [FOUND, FOUND, FOUND]
    other = [FOUND, WHOLE, BROKEN] + [BROKEN, BROKEN, WHOLE]
    rows, llm = outcome(one + other, tried, plan)
    assert len(llm.calls) == 12 and llm.remaining == 0
    assert [row.failure is None for row in rows[6:]] == [True, True, False, False, False, True]
    kept, left_out = verdicts(rows, tried, plan, 2)
    assert left_out == AgreementResult(None, "disagreed") and kept.example is not None
    example = kept.example
    assert example.program == FOUND
    assert example.score == pytest.approx((2 / 3 + 1) / 2, abs=1e-4)
    assert (example.query, example.kind, example.seed) == ("the first thing", "sheet", 0)
    assert example.sample_id == tried[0].medium_id and example.split == "val:referring"
    assert [v.why for v in verdicts(rows, tried, plan, 3)] == ["agreed", "disagreed"]
    assert [v.why for v in verdicts(rows[:2], tried, plan, 2)] == ["disagreed", "unasked"]


def test_no_label_and_no_query_of_the_set_is_in_what_is_asked() -> None:
    tried = media_queries(GROUND, pool(), drawing())
    texts = {sample.text for sample in pool()}
    assert all(one.sample.target is None and one.sample.text not in texts for one in tried)
    assert [(one.query, one.medium) for one in tried] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert all(one.medium_id in one.sample.sample_id for one in tried)
    assert len({one.sample.sample_id for one in tried}) == 4


def test_media_are_chosen_by_words_and_seed() -> None:
    many = pool(40)

    def media(queries: list[Query], plan: SamplingPlan) -> list[str]:
        return [one.medium_id for one in media_queries(queries, many, plan)]

    both = media(GROUND, drawing())
    assert both == media(GROUND, drawing()) and both[2:] == media(GROUND[1:], drawing())
    assert len(set(both[:2])) == 2
    assert both != media(GROUND, drawing(spec=DatasetSpec(None, "val:referring", 1)))
    assert len(media(GROUND[:1], drawing(media=99))) == 40


def test_other_options_are_another_sample() -> None:
    asked = [
        Query("what stops?", "choice", options=options) for options in (("a", "b"), ("a", "c"))
    ]
    ids = {media_queries([one], pool(1), drawing())[0].sample.sample_id for one in asked}
    assert len(ids) == 2


def test_each_program_of_a_query_has_a_seed_of_its_own_and_a_query_ends_before_the_next() -> None:
    plan = drawing(spec=DatasetSpec(None, "val:referring", 7))
    todo = work_items(media_queries(GROUND, pool(), plan), plan)
    assert [item.seed for item in todo] == [7, 8, 9, 10, 11, 12] * 2
    assert [item.position for item in todo] == list(range(12))
    assert plan.evaluation().seeds == (7, 8, 9, 10, 11, 12)
    assert plan.evaluation().options.temperature == 0.4


class Mixed:
    """A set that holds two questions about one picture, an expression, and a clip."""

    def samples(self, spec: DatasetSpec) -> list[Sample]:
        return [
            a_sample(0, files=("a.png",)),
            a_sample(1, files=("a.png",)),
            a_sample(2, task="ground", files=("b.png",)),
            a_sample(3, task="choice", media="video", files=("c.mp4",)),
        ]


@pytest.mark.parametrize(
    ("task", "expected"), [("question", ["s0"]), ("ground", ["s2"]), ("choice", ["s3"])]
)
def test_media_are_those_of_the_task_each_once(
    task: str, expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("viper.ace.description.data_set", lambda name: Mixed())
    found = drawing(task=task, spec=DatasetSpec(None, "val")).pool()
    assert [sample.sample_id for sample in found] == expected


def test_where_no_sample_has_the_task_all_that_fit_are_taken(tmp_path: Path) -> None:
    file, _ = a_set(tmp_path, 24)
    found = drawing(set_name=str(file), spec=DatasetSpec()).pool()
    assert len(found) == 6 and {s.task for s in found} == {"question"}


def test_sets_without_fitting_media_or_a_training_split_say_so() -> None:
    with pytest.raises(DataError, match="world val:video: no media for the task ground"):
        drawing(spec=DatasetSpec(None, "val:video")).pool()
    with pytest.raises(UsageError, match="okvqa has no split train"):
        drawing(set_name="okvqa", spec=DatasetSpec()).pool()


def test_a_row_without_a_program_is_no_draw() -> None:
    plan = drawing(media=1)
    tried = media_queries(GROUND[:1], pool(), plan)
    rows, _ = outcome([FOUND, FOUND, WHOLE], tried, plan)
    rows = [*rows[:2], replace(rows[2], program=None, failure="model", prediction=None)]
    (verdict,) = verdicts(rows, tried, plan, 2)
    assert verdict.example is not None and verdict.example.score == 1.0

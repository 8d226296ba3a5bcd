"""Exact inputs near a query: looks that it names, and tools that know the truth."""

from __future__ import annotations

import pytest

from viper.api.library import Library
from viper.sandbox import Sandbox
from viper.schema import Query
from viper.strategies.program import ENTRY, program_arguments
from viper_lab.world.exact_inputs import exact_inputs, named_looks

COUNT = "def execute_command(image):\n    return len(ImagePatch(image).find('red cube'))\n"
HITS = (
    "def execute_command(video):\n    return VideoSegment(video).caption_video('what happens?')\n"
)


def test_looks_are_the_runs_of_attribute_words() -> None:
    assert named_looks("how many small shiny blocks are left of the red thing?") == [
        {"size": "small", "material": "metal", "shape": "cube"},
        {"colour": "red"},
    ]
    assert named_looks("what is there?") == []


def test_the_same_query_gets_the_same_inputs_and_each_answers_by_its_truth() -> None:
    query = Query("how many red cubes are there?", "question")
    inputs, again = exact_inputs(query, 12), exact_inputs(query, 12)
    counts = []
    with Sandbox(prelude=Library().prelude()) as sandbox:
        for (media, tools), (_, same) in zip(inputs, again, strict=True):
            arguments = program_arguments(query, media)
            values = [
                sandbox.run(COUNT, tools=each, entry=ENTRY, args=arguments).value
                for each in (tools, same)
            ]
            truth = len(tools.truth.matching("red cube"))  # type: ignore[attr-defined]
            assert values == [truth, truth]
            counts.append(truth)
    assert len(set(counts)) > 2 and sum(map(bool, counts)) > 6


def test_clips_have_events_of_the_objects_that_the_query_names() -> None:
    query = Query("what hits the red cube?", "choice", "video", ("the blue ball", "the gray cone"))
    captions = []
    with Sandbox(prelude=Library().prelude()) as sandbox:
        for media, tools in exact_inputs(query, 8):
            arguments = program_arguments(query, media)
            captions.append(sandbox.run(HITS, tools=tools, entry=ENTRY, args=arguments).value)
    assert all(captions) and sum("red cube" in caption for caption in captions) > 2


@pytest.mark.parametrize(
    ("task", "media"), [("edit", "image"), ("tag", "image"), ("statement", "images")]
)
def test_tasks_that_the_oracle_cannot_answer_have_no_exact_inputs(task: str, media: str) -> None:
    assert exact_inputs(Query("blur the red cube", task, media), 3) == []

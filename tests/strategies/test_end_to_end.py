"""Strategies without a program: what they ask of which model, and what they refuse."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.strategies.bench import HEIGHT, WIDTH, Bench, picture
from viper import Reasoner, load_profile
from viper.embedded import MEDIA
from viper.errors import UsageError
from viper.models.media import Media, write_mp4
from viper.record import result_record
from viper.strategies import STRATEGIES, strategy
from viper.strategies.end_to_end import MOST_CAPTIONS
from viper.testing.fakes import FakeAnswerer

OPTIONS = ["the cube stops", "the ball falls"]


class BrightnessAnswerer(FakeAnswerer):
    """Sees one thing: how bright a picture is, ``dark`` or ``bright``."""

    def encode(self, images: Sequence[Any]) -> list[Any]:
        return ["bright" if image.mean() > 100 else "dark" for image in images]

    def answer(self, encodings: Sequence[Any], questions: Sequence[str]) -> list[tuple[str, float]]:
        return [(seen, 1.0) for seen in encodings]

    def caption(self, encodings: Sequence[Any]) -> list[str]:
        return [f"a {seen} picture" for seen in encodings]


@pytest.fixture
def bench() -> Iterator[Bench]:
    with Bench([]) as ready:
        ready.reasoner.components.toolbox.models.add("vqa", BrightnessAnswerer)
        yield ready


def clip(*levels: int) -> np.ndarray:
    """A video of grey frames."""
    return np.stack([np.full((HEIGHT, WIDTH, 3), level, np.uint8) for level in levels])


def tools(result: Any) -> list[str]:
    return [call.tool for call in result.trace.trials[0].tool_calls]


def test_the_detectors_best_box_counts_whatever_its_score(bench: Bench) -> None:
    result = bench.reasoner.run(picture(), "faint ball", strategy="detector")
    assert result.answer is not None and result.answer.box == (1.0, 1.0, 9.0, 9.0)
    assert bench.detector.detected == ["faint ball"]
    trial = result.trace.trials[0]
    assert (trial.program, trial.thresholds["detector.threshold"]) == ("", 0.0)
    assert (result.program, result.trace.strategy, tools(result)) == (None, "detector", ["find"])
    assert (result.trace.usage.llm_calls, result.trace.usage.model_calls) == (0, 2)


def test_a_detector_that_sees_nothing_makes_a_failure(bench: Bench) -> None:
    result = bench.reasoner.run(picture(), "zebra", strategy="detector")
    assert result.failure is not None and result.failure.kind == "return_type"
    assert result.failure.message == "the model returned nothing; expected one ImagePatch"


def test_vqa_about_a_picture(bench: Bench) -> None:
    result = bench.reasoner.run(picture(), "is it bright or dark?", strategy="vqa")
    assert result.answer is not None and result.answer.value == "bright"
    assert tools(result) == ["simple_query"]


def test_vqa_that_names_an_option_needs_no_language_model(bench: Bench) -> None:
    given = {"strategy": "vqa", "options": ["dark", "bright"]}
    result = bench.reasoner.run(picture(), "how is it?", **given)
    assert result.answer is not None and result.answer.choice_index == 1
    assert tools(result) == ["simple_query"]


def test_other_words_are_matched_to_the_options(bench: Bench) -> None:
    given = {"strategy": "vqa", "options": ["night", "a bright day"]}
    result = bench.reasoner.run(picture(), "when is it?", **given)
    assert result.answer is not None and result.answer.choice_index == 0
    assert tools(result) == ["simple_query", "select_answer"]


def test_the_commonest_answer_about_frames_counts(bench: Bench) -> None:
    levels = (0, 0, 0, 0, 0, 200, 200, 200, 200, 200, 200, 0, 0, 0, 0)
    result = bench.reasoner.run(clip(*levels), "how is it?", strategy="vqa")
    assert result.answer is not None and result.answer.value == "dark"
    calls = result.trace.trials[0].tool_calls
    frames = [call.args[0]["fields"][0] for call in calls]
    assert frames == [f"video0#{number}" for number in (0, 2, 4, 6, 8, 10, 12, 14)]


def test_a_short_video_is_asked_about_each_frame_once(bench: Bench) -> None:
    result = bench.reasoner.run(clip(0, 200), "how is it?", strategy="vqa")
    assert result.answer is not None and result.answer.value == "dark"  # the earlier of equals
    assert tools(result) == ["simple_query"] * 2


def test_a_statement_is_asked_as_a_question(bench: Bench) -> None:
    bench.reasoner.components.toolbox.models.add(
        "vqa", lambda: FakeAnswerer({"is it true that there is a cube?": "yes"})
    )
    given = {"strategy": "vqa", "task": "statement"}
    right = bench.reasoner.run(picture(), "There is a cube.", **given)
    assert right.answer is not None and right.answer.value is True
    unsure = bench.reasoner.run(picture(), "There is a ball.", **given)
    assert unsure.failure is not None
    assert "the model returned str 'unknown'; expected a truth value" in unsure.failure.message


def test_captions_of_a_picture_are_the_language_models_context(bench: Bench) -> None:
    result = bench.reasoner.run(picture(), "what is there?", strategy="captions")
    assert result.answer is not None and result.answer.value == "about what is there?"
    captioned, asked = result.trace.trials[0].tool_calls
    assert (captioned.tool, captioned.result) == ("caption_image", "a bright picture")
    assert asked.kwargs == {"context": "a bright picture", "long_answer": False}


def test_captions_of_frames_select_an_option(bench: Bench) -> None:
    given = {"strategy": "captions", "options": ["a storm", "a dark picture"]}
    result = bench.reasoner.run(clip(200, 0), "what is it?", **given)
    assert result.answer is not None and result.answer.choice_index == 1
    last = result.trace.trials[0].tool_calls[-1]
    assert last.args[0] == "a bright picture. a dark picture"


def captioned_frames(bench: Bench, video: Any) -> list[int]:
    """The numbers of the frames that were captioned, in order."""
    given = {"strategy": "captions", "options": ["a storm", "a dark picture"]}
    calls = bench.reasoner.run(video, "what is it?", **given).trace.trials[0].tool_calls
    names = [call.args[0]["fields"][0] for call in calls if call.tool == "caption_image"]
    return [int(name.removeprefix("video0#")) for name in names]


def test_captions_are_of_one_frame_a_second_of_a_file(bench: Bench, tmp_path: Path) -> None:
    path = tmp_path / "clip.mp4"
    write_mp4(path, np.repeat(clip(*range(0, 250, 5)), 4, axis=1))  # 50 frames at 8 a second
    assert captioned_frames(bench, str(path)) == [0, 8, 16, 24, 32, 40, 48]


def test_captions_are_bounded_and_follow_the_frames_that_were_kept(bench: Bench) -> None:
    every = Media(video=clip(*range(10)), names=("x",), times=tuple(range(10)))
    assert captioned_frames(bench, every) == list(range(10))
    halves = tuple(number / 2 for number in range(10))
    assert captioned_frames(bench, replace(every, times=halves)) == [0, 2, 4, 6, 8]
    long = clip(*[0] * 400)
    hours = Media(video=long, names=("x",), times=tuple(range(0, 4_000, 10)))
    numbers = captioned_frames(bench, hours)
    assert len(numbers) == MOST_CAPTIONS and (numbers[0], numbers[-1]) == (0, 399)


def test_captions_of_several_pictures_are_numbered(bench: Bench) -> None:
    pair = [clip(0)[0], clip(200)[0]]
    result = bench.reasoner.run(pair, "the second is brighter", strategy="captions")
    assert result.trace.task == "statement" and result.answer is not None
    info, question, options = result.trace.trials[0].tool_calls[-1].args
    assert info == "picture 1: a dark picture. picture 2: a bright picture"
    assert (question, options) == ("is it true that the second is brighter?", ["yes", "no"])


def test_a_clips_description_selects_an_option(bench: Bench) -> None:
    given = {"strategy": "description", "options": OPTIONS[::-1]}
    result = bench.reasoner.run(clip(*[0] * 8), "what happens first?", **given)
    assert result.answer is not None
    assert tools(result) == ["caption_video", "select_answer"]
    info = result.trace.trials[0].tool_calls[1].args[0]
    assert info == "the cube stops. the ball falls."


def test_the_language_model_alone_looks_at_nothing(bench: Bench) -> None:
    chosen = bench.reasoner.run(picture(), "what happens?", strategy="llm", options=OPTIONS)
    assert chosen.answer is not None and chosen.answer.choice_index == 0
    assert chosen.trace.trials[0].tool_calls[0].args[0] == ""
    said = bench.reasoner.run(picture(), "what happens?", strategy="llm")
    assert said.answer is not None and said.answer.value == "about what happens?"
    assert said.trace.trials[0].tool_calls[0].kwargs["context"] is None


@pytest.mark.parametrize(
    ("name", "media", "given", "message"),
    [
        ("detector", picture(), {"task": "question"}, "answers ground queries only, got question"),
        ("detector", clip(0), {"task": "ground"}, "about one picture only, got a video"),
        ("vqa", picture(), {"task": "ground"}, "question, choice and statement queries only"),
        ("vqa", [picture()] * 2, {"task": "statement"}, "only, got several pictures"),
        ("captions", picture(), {"task": "edit"}, "got edit"),
        ("description", picture(), {"task": "question"}, "about a video only, got one picture"),
        ("llm", picture(), {"task": "ground"}, "got ground"),
    ],
)
def test_what_does_not_fit_is_refused_before_a_model_loads(
    bench: Bench, name: str, media: Any, given: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=f"strategy {name} .*{message}"):
        bench.reasoner.run(media, "the cube", strategy=name, **given)
    assert bench.reasoner.components.toolbox.models.loaded() == {}


def test_a_model_that_fails_makes_a_tool_failure(bench: Bench) -> None:
    class Broken(FakeAnswerer):
        def answer(self, encodings: Any, questions: Any) -> Any:
            raise ValueError("no such weights")

    bench.reasoner.components.toolbox.models.add("vqa", Broken)
    result = bench.reasoner.run(picture(), "how is it?", strategy="vqa")
    failure = result.failure
    assert failure is not None and (failure.kind, failure.tool) == ("tool", "simple_query")
    assert "no such weights" in failure.message and failure.call_index == 0
    assert result_record(result.trace)["program"] is None


def test_every_shipped_strategy_is_there_under_its_name() -> None:
    assert [strategy(name).name for name in STRATEGIES] == list(STRATEGIES)


@pytest.fixture(scope="module")
def embedded() -> Iterator[Reasoner]:
    with Reasoner(load_profile("embedded"), preload=False) as ready:
        yield ready


@pytest.mark.models
@pytest.mark.parametrize(
    ("name", "task"),
    [
        ("detector", "ground"),
        ("vqa", "question"),
        ("captions", "choice"),
        ("description", "choice"),
        ("llm", "choice"),
    ],
)
def test_the_embedded_models_answer(embedded: Reasoner, name: str, task: str) -> None:
    items = json.loads((MEDIA / "demo.json").read_text())
    item = next(item for item in items if item["task"] == task)
    given = {"strategy": name, "options": item.get("options", ())}
    result = embedded.run(str(MEDIA / item["media"]), item["query"], **given)
    assert result.answer is not None, result.failure
    assert result.trace.strategy == name
    # Only the text role asks the language model: it selects an option.
    assert result.trace.usage.llm_calls == (task == "choice")

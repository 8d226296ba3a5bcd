"""The world's score: nothing is dropped, and programs written ahead change nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.strategies.bench import Bench, picture
from viper_lab.scores import world as world_score
from viper_lab.scores.world import (
    ScoredSample,
    ScoreRequest,
    answer_chance,
    answer_prior,
    baselines,
    report,
    score_samples,
)
from viper_lab.world.queries.meaning import Meaning
from viper_lab.world.queries.sample import WorldSample

LEFTMOST = """def execute_command(image):
    patches = ImagePatch(image).find("cube")
    return sort_patches_left_to_right(patches)[0]
"""
SAMPLE = WorldSample(
    sample_id="test-0-referring-0",
    family="referring",
    split="test",
    text="the leftmost cube",
    answer=0,
    media_index=0,
    query_type="extreme",
    template="h0",
    steps=2,
    meaning=Meaning("extreme", {"kind": "cube", "side": "left"}),
    box=(10.0, 40.0, 20.0, 50.0),
)
QUESTION = replace(
    SAMPLE, sample_id="q", family="question", query_type="count", answer="2", box=None, steps=1
)


@pytest.fixture(autouse=True)
def plain_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(world_score, "world_media", lambda sample: picture)


def test_a_right_a_wrong_and_a_failed_sample_are_all_counted() -> None:
    request = ScoreRequest(workers=1, families=("referring",))
    wrong = LEFTMOST.replace("[0]", "[1]")
    broken = "def execute_command(image):\n    return nonsense\n"
    with Bench([LEFTMOST, wrong, broken], trials=1) as bench:
        scored = score_samples(bench.reasoner, [SAMPLE] * 3, request)
    figures = report(scored, request)
    assert [item.outcome for item in scored] == ["right", "wrong", "runtime"]
    assert figures["overall"].n == 3 and figures["overall"].value == pytest.approx(1 / 3)
    assert {kind: share.value for kind, share in figures["failures"].items()} == {
        "wrong": pytest.approx(1 / 3),
        "runtime": pytest.approx(1 / 3),
    }
    assert figures["query_types"]["referring/extreme"].n == 3
    assert figures["steps"]["two_or_more"].n == 3 and figures["steps"]["one"].n == 0


def test_a_run_that_breaks_is_wrong_and_keeps_its_error() -> None:
    request = ScoreRequest(workers=1, families=("referring",))
    with Bench([]) as bench:
        scored = score_samples(bench.reasoner, [SAMPLE], request)
    assert scored[0].outcome == "error" and "ScriptExhausted" in str(scored[0].error)


def test_a_run_that_breaks_counts_in_every_share() -> None:
    right = ScoredSample(SAMPLE, True, None, {})
    broken = ScoredSample(SAMPLE, False, None, {}, "ModelError: out of memory")
    figures = report([right, broken], ScoreRequest(families=("referring",)))
    shares = (
        figures["overall"],
        figures["families"]["referring"],
        figures["query_types"]["referring/extreme"],
        figures["steps"]["two_or_more"],
    )
    assert [(share.n, share.value) for share in shares] == [(2, 0.5)] * 4
    assert figures["failures"]["error"].value == 0.5


def test_prior_and_chance_of_a_question_alone() -> None:
    samples = [replace(QUESTION, answer=answer) for answer in ("2", "2", "1", "3")]
    assert answer_prior(samples) == {"count": "2"}
    assert answer_chance(samples) == {"count": pytest.approx(1 / 3)}


def test_baselines_of_every_family() -> None:
    phrase = replace(SAMPLE, text="cube")
    video = replace(
        SAMPLE,
        family="video",
        answer=1,
        box=None,
        text="what happens then?",
        options=("a zebra", "a picture. a picture", "the ball falls"),
    )
    colour = replace(QUESTION, text="what color is this?", answer="red")
    with Bench([]) as bench:
        parts = bench.reasoner.components
        grounded = baselines(parts, phrase, picture(), {})
        missed = baselines(parts, SAMPLE, picture(), {})
        asked = baselines(parts, colour, picture(), {"count": "2"})
        watched = baselines(parts, video, np.stack([picture()] * 8), {})
    assert grounded == {"detector_on_query": True} and missed == {"detector_on_query": False}
    assert asked == {"vqa_on_question": True, "question_alone": False}
    assert watched == {
        "options_alone": False,
        "frame_captions": True,
        "one_frame": False,
        "clip_description": False,
        "clip_events": False,
    }


def test_a_vqa_model_for_whole_questions_is_reported_beside_the_shipped_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Trained:
        model_id = "trained"

        def encode(self, images: list[object]) -> list[object]:
            return images

        def answer(self, encodings: list[object], questions: list[str]) -> list[tuple[str, float]]:
            return [("2", 0.9) for _ in questions]

    folders: list[Path] = []

    def from_pretrained(folder: Path) -> Trained:
        folders.append(folder)
        return Trained()

    monkeypatch.setattr(world_score.BlipAnswerer, "from_pretrained", from_pretrained)
    monkeypatch.setattr(world_score, "generate", lambda *_: [])
    request = ScoreRequest(
        workers=1, with_baselines=True, vqa_baseline=Path("trained"), families=("question",)
    )
    program = "def execute_command(image):\n    return '1'\n"
    with Bench([program]) as bench:
        scored = score_samples(bench.reasoner, [QUESTION], request)
    assert folders == [Path("trained")] and not scored[0].right
    shares = report(scored, request)["baselines"]["question"]
    assert shares["vqa_trained_on_questions"].value == 1 and shares["vqa_on_question"].value == 0


def test_every_family_of_the_request_is_reported_even_if_empty() -> None:
    figures = report([ScoredSample(SAMPLE, True, None, {})], ScoreRequest())
    assert figures["families"]["video"].n == 0
    assert figures["families"]["referring"].value == 1.0

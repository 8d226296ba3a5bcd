"""The shipped weights of all models but detector, writer and video, on fresh data."""

import pytest

from viper.embedded import WEIGHTS
from viper_lab.recipes.object_views import ObjectViews
from viper_lab.world.stills import FreshStills

SCENES = range(5000, 5005)

pytestmark = pytest.mark.models


@pytest.fixture(scope="module")
def views():
    return ObjectViews(FreshStills.of_scenes("val", SCENES))


def test_the_matcher_knows_every_family(views):
    from viper.models.vision.matcher_open_clip import OpenClipMatcher
    from viper_lab.recipes.matcher import evaluate

    figures = evaluate(OpenClipMatcher.from_pretrained(WEIGHTS / "matcher"), views)
    assert min(figures[family] for family in ("size", "colour", "material", "shape")) > 0.85


def test_the_vqa_model_knows_every_family(views):
    from viper.models.vision.vqa_blip import BlipAnswerer
    from viper_lab.recipes.vqa import evaluate

    answerer = BlipAnswerer.from_pretrained(WEIGHTS / "vqa")
    figures = evaluate(answerer, views, pictures=2)
    assert min(figures[family] for family in ("size", "colour", "material", "shape")) > 0.8


def test_the_depth_model_orders_objects(views):
    from viper.models.vision.depth import DepthMaps
    from viper_lab.recipes.depth import evaluate

    figures = evaluate(DepthMaps.from_pretrained(WEIGHTS / "depth"), views)
    assert figures["order"] > 0.9


def test_the_segmenter_finds_objects_by_their_shape(tmp_path):
    from viper.models.vision.segmenter_maskformer import MaskFormerSegmenter
    from viper_lab.recipes.segmenter import evaluate, segmented_stills

    pictures = segmented_stills("val", len(SCENES), tmp_path)
    figures = evaluate(MaskFormerSegmenter.from_pretrained(WEIGHTS / "segmenter"), pictures)
    assert figures["found"] > 0.85 and figures["precision"] > 0.85


def test_the_inpainter_paints_what_it_is_asked_for():
    from viper.profiles import load_profile
    from viper_lab.recipes.inpainter_score import evaluate

    with load_profile("embedded").components().toolbox.models.using("inpainter") as inpainter:
        figures = evaluate(inpainter, 5)
    assert figures["colour"] > 0.85 and figures["pair"] > 0.5 and figures["unchanged"] == 1


def test_the_planner_writes_plans_and_right_programs_from_them():
    from viper.models.llm.scripted import ScriptedLLM
    from viper_lab.recipes.planner_score import evaluate

    silent = ScriptedLLM(lambda prompt: "")
    figures = evaluate(WEIGHTS / "writer", writer=silent, queries=8, seed=1)
    assert figures["plans"] == 1 and figures["planned"] > 0.7


def test_the_seeker_finds_what_nobody_told_it():
    from viper_lab.recipes.seeker import evaluate

    figures = evaluate(WEIGHTS / "seeker", count=8)
    assert figures["all"] > 0.6 and figures["expert"] > 0.85


def test_the_explorer_acts_as_workflows_do():
    from viper_lab.recipes.explorer_score import evaluate

    figures = evaluate(WEIGHTS / "writer", count=20)
    assert figures["first"] > 0.6 and figures["done"] > 0.9


def test_the_looker_looks_closer_and_reads_what_it_shows():
    from viper.profiles import load_profile
    from viper.reasoner import Reasoner
    from viper_lab.world.fine.kinds import fine_sample

    with Reasoner(load_profile("embedded")) as reasoner:
        right = 0
        for sample in (fine_sample("val", 9, index) for index in range(14)):
            media = list(sample.pictures)
            result = reasoner.run(media, sample.question, strategy="look", task="question")
            shows = any(call.tool == "show" for call in result.trace.tool_calls)
            assert shows == (sample.kind != "dots")  # dots are counted, not looked at
            right += result.answer is not None and str(result.answer.value) == str(sample.answer)
    assert right >= 11

"""Programs that segment, edit, tag, and look at several pictures: the whole loop on fake models."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.strategies.bench import HEIGHT, WIDTH, Bench, picture
from viper.commands.present import answer_line, details
from viper.errors import UsageError
from viper.record import result_record
from viper.run_result import RunResult
from viper.schema import Query
from viper.serve.replies import result_json
from viper.strategies.replay import Replayer
from viper.strategies.tasks import resolve_task
from viper.testing.fakes import FakeInpainter, FakeSegmenter
from viper.web.trace_page import Extras, replay_all, trace_page

POP = """OBJ0=LOC(image=IMAGE,object='cube')
IMAGE0=COLORPOP(image=IMAGE,object=OBJ0)
FINAL_RESULT=RESULT(var=IMAGE0)"""
REPLACE = """OBJ0=SEG(image=IMAGE)
OBJ1=SELECT(image=IMAGE,object=OBJ0,query='mug',category=None)
IMAGE0=REPLACE(image=IMAGE,object=OBJ1,prompt='a red bowl')
BOX0=LOC(image=IMAGE0,object='cube')
FINAL_RESULT=RESULT(var=IMAGE0)"""
TAG = """OBJ0=LOC(image=IMAGE,object='cube')
IMAGE0=TAG(image=IMAGE,object=OBJ0)
FINAL_RESULT=RESULT(var=IMAGE0)"""
FAINT = POP.replace("cube", "faint ball")
BOTH = """BOX0=LOC(image=LEFT,object='cube')
BOX1=LOC(image=RIGHT,object='ring')
ANSWER0=COUNT(box=BOX0)
ANSWER1=COUNT(box=BOX1)
ANSWER2=EVAL(expr='{ANSWER0} + {ANSWER1} == 3')
FINAL_ANSWER=RESULT(var=ANSWER2)"""
BOTH_LISTED = """def execute_command(image_list):
    left, right = image_list
    return len(ImagePatch(left).find("cube")) + len(ImagePatch(right).find("ring")) == 3
"""
CUBES = [
    {"box": [10.0, 40.0, 20.0, 50.0], "label": "cube"},
    {"box": [70.0, 5.0, 90.0, 25.0], "label": "cube"},
]


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    with Bench([], api="visprog") as made:
        models = made.reasoner.components.toolbox.models
        models.add("segmenter", lambda: FakeSegmenter([("mug", (40, 20, 60, 40), 0.9)]))
        models.add("inpainter", FakeInpainter)
        yield made


def run(bench: Bench, program: str, task: str, media: object = None) -> RunResult:
    given = colourful() if media is None else media
    return bench.reasoner.execute(program, given, "a query", task=task)


def colourful() -> np.ndarray:
    pixels = picture()
    pixels[..., 0] = 200
    return pixels


def test_a_picture_is_an_answer(bench: Bench, tmp_path: Path) -> None:
    result = run(bench, POP, "edit")
    assert result.answer is not None and result.answer.kind == "image"
    assert (result.answer.value["width"], result.answer.value["height"]) == (WIDTH, HEIGHT)
    found = result.picture
    assert found is not None and (found[45, 15] == colourful()[45, 15]).all()
    assert len(set(found[0, 0].tolist())) == 1
    result.save(tmp_path / "out.png")
    assert (np.asarray(Image.open(tmp_path / "out.png")) == found).all()
    assert answer_line(result) == "a picture of 100 x 60 pixels (write it with --save FILE)"
    assert result_record(result.trace)["answer_kind"] == "image"
    answered = json.loads(result_json(result))
    assert answered["picture"].startswith("data:image/png;base64,")


def test_the_same_edit_has_the_same_name_in_every_run(bench: Bench) -> None:
    names = {json.dumps(run(bench, POP, "edit").answer.value) for _ in range(2)}  # type: ignore[union-attr]
    assert len(names) == 1


def test_an_edited_picture_is_looked_at_again(bench: Bench) -> None:
    result = run(bench, REPLACE, "edit")
    assert result.picture is not None and (result.picture[30, 50] == (255, 0, 0)).all()
    assert (result.picture[:, :35] == colourful()[:, :35]).all()
    tools = [call.tool for call in result.trace.tool_calls]
    assert tools == ["segment", "replace", "find"]
    lines = "\n".join(details(result))
    assert "outline-" not in lines and "patch 'mug' at (" in lines


def test_other_things_count_as_pictures_too(bench: Bench) -> None:
    array = "def execute_command(image):\n    return ImagePatch(image).cropped_image[:, :9, :7]"
    found = run(bench, array, "edit").picture
    assert found is not None and (found == colourful()[:9, :7]).all()
    crop = "def execute_command(image):\n    return ImagePatch(image).crop(0, 0, 7, 9)"
    found = run(bench, crop, "edit").picture
    assert found is not None and (found == colourful()[-9:, :7]).all()
    words = run(bench, "answer = 'red'", "edit")
    assert words.failure is not None and "expected a picture" in words.failure.message


@pytest.mark.parametrize(
    "program",
    [
        TAG,
        TAG.replace("RESULT(var=IMAGE0)", "RESULT(var=OBJ0)"),
        "answer = [(p, 'cube') for p in ImagePatch(IMAGE).find('cube')]",
        "answer = [('cube', p) for p in ImagePatch(IMAGE).find('cube')]",
    ],
)
@pytest.mark.parametrize("task", ["tag", "auto"])
def test_tags(bench: Bench, program: str, task: str, tmp_path: Path) -> None:
    result = run(bench, program, task)
    assert result.answer is not None and result.answer.value == CUBES, result.failure
    assert answer_line(result) == "cube [10, 40, 20, 50]; cube [70, 5, 90, 25]"
    result.save(tmp_path / "tags.png")
    shown = np.asarray(Image.open(tmp_path / "tags.png").convert("RGB"))
    assert (shown == (255, 64, 160)).all(axis=2).sum() > 100


def test_tags_are_pairs_or_patches_which_the_query_names(bench: Bench) -> None:
    failure = run(bench, "answer = [('a', 'b')]", "tag").failure
    assert failure is not None and failure.kind == "return_type"
    answer = run(bench, "answer = ImagePatch(IMAGE).find('cube')", "tag").answer
    assert answer is not None and [tag["box"] for tag in answer.value] == [
        tag["box"] for tag in CUBES
    ]


def test_tags_of_a_part_are_places_in_the_given_picture(bench: Bench) -> None:
    program = """BOX0=LOC(image=IMAGE,object='RIGHT')
IMAGE0=COLORPOP(image=BOX0[0],object=LOC(image=IMAGE,object='cube'))
BOX1=LOC(image=IMAGE0,object='cube')
FINAL_RESULT=RESULT(var=BOX1)"""
    result = run(bench, program, "ground")
    assert result.answer is not None and result.answer.image_index == 0
    assert result.answer.box == (60.0, 40.0, 70.0, 50.0)  # found at 10..20 of the right half


def test_the_surest_box_of_a_list_is_grounded(bench: Bench) -> None:
    program = "FINAL_RESULT=RESULT(var=LOC(image=IMAGE,object='cube'))"
    answer = run(bench, program, "ground").answer
    assert answer is not None and answer.box == (10.0, 40.0, 20.0, 50.0)
    unlabelled = run(bench, "answer = ImagePatch(IMAGE).find('cube')", "ground")
    assert unlabelled.failure is not None and unlabelled.failure.kind == "return_type"


def test_a_missing_object_is_looked_for_with_a_lower_threshold(bench: Bench) -> None:
    result = run(bench, FAINT, "edit")
    assert result.answer is not None
    assert [trial.correction for trial in result.trace.trials] == ["first", "self_tune"]
    first = result.trace.trials[0].failure
    assert first is not None and (first.kind, first.tool) == ("below_threshold", "find")


@pytest.mark.parametrize("program", [BOTH, BOTH_LISTED])
def test_statements_about_two_pictures(bench: Bench, program: str) -> None:
    pair = [picture(), np.concatenate([picture(), picture()])]
    answer = run(bench, program, "statement", pair).answer
    assert answer is not None and answer.value is True
    mixed = "ANSWER0=EVAL(expr='1')\nFINAL_RESULT=LOC(image=IMAGE2,object='cube')"
    found = run(bench, mixed, "ground", [picture()] * 3).answer
    assert found is not None and found.image_index == 1


def test_results_are_replaced_by_index_also_by_edited_pictures(bench: Bench) -> None:
    toolbox = bench.reasoner.components.toolbox
    result = run(bench, REPLACE, "edit")
    from viper.strategies.program import program_arguments

    other = toolbox.session(result.media).call
    cup = result.trace.tool_calls[0]
    assert cup.tool == "segment"
    made = other("blur_background", tuple(_first(result)), {}, None)
    session = toolbox.session(result.media, overrides={1: made})
    outcome = bench.sandbox.run(
        REPLACE,
        tools=session,
        entry="execute_command",
        args=program_arguments(result.trace.query, result.media),
    )
    assert outcome.ok and outcome.value.fields[0] == made.fields[0]
    assert session.calls[2].args[0]["fields"][0] == made.fields[0]


def _first(result: RunResult) -> list[object]:
    from viper.tools.call_log import from_plain

    return list(from_plain(result.trace.tool_calls[1].args[:2]))


def test_a_page_shows_edited_pictures_and_escapes_labels(bench: Bench) -> None:
    bad = "<script>alert(1)</script>"
    program = f"""OBJ0=LOC(image=IMAGE,object='cube')
OBJ1=CLASSIFY(image=IMAGE,object=OBJ0,categories=['{bad}'])
IMAGE0=TAG(image=IMAGE,object=OBJ1)
FINAL_RESULT=RESULT(var=IMAGE0)"""
    result = run(bench, program, "tag")
    assert result.answer is not None and result.answer.value[0]["label"] == bad
    with Replayer(bench.reasoner.components.library, "weak") as replayer:
        replays = replay_all(result.trace, result.media, replayer)
    assert all(replay.whole for replay in replays)
    page = trace_page(result.trace, result.media, replays, Extras())
    assert bad not in page and "&lt;script&gt;alert(1)" in page
    assert "edited picture" in page and page.count('<symbol id="picture-edit-') == 1
    edited = run(bench, POP, "edit")
    assert "a picture of 100 x 60 pixels" in trace_page(
        edited.trace, edited.media, [replays[0]], Extras()
    )


def test_the_writer_is_asked_for_lines() -> None:
    with Bench([f"```\n{BOTH}\n```"], api="visprog", prompt_style="chat") as own:
        result = own.reasoner.run([picture()] * 2, "There are three.")
        assert result.trace.task == "statement" and result.answer is not None
        assert "`LEFT`" in own.llm.calls[0].prompt and "def LOC" in own.llm.calls[0].prompt
        with pytest.raises(UsageError, match="no modules for videos"):
            own.reasoner.run(np.stack([picture()] * 4), "what happens?")


@pytest.mark.parametrize(
    ("text", "task"),
    [
        ("Tag all the cups", "tag"),
        ("label the dogs and the cats", "tag"),
        ("Replace the bird with an owl", "edit"),
        ("hide every face", "edit"),
        ("Create a color pop of the bus", "edit"),
        ("the tag on the shirt", "ground"),
        ("cover of the book", "ground"),
        ("What replaces the bird?", "question"),
        ("isn't there a cup", "question"),
        ("hey, count the cups", "question"),
        ("whats the color of the cup", "question"),
        ("name the animal on the left", "question"),
        ("can opener on the table", "ground"),
        ("name tag on the shirt", "ground"),
        ("can you see a cup", "question"),
        ("I'd like to know how many cups there are.", "question"),
    ],
)
def test_tasks_by_their_wording(text: str, task: str) -> None:
    assert resolve_task(Query(text))[0] == task


@pytest.mark.parametrize("change", ["BGBLUR(image, cubes)", "grayscale(ImagePatch(image))"])
def test_functions_that_prompts_list_for_edits_give_the_answer(bench: Bench, change: str) -> None:
    cubes = 'cubes = ImagePatch(image).find("cube")'
    found = run(bench, f"def execute_command(image):\n    {cubes}\n    return {change}", "edit")
    assert found.answer is not None and found.answer.kind == "image"
    assert found.picture is not None and found.picture.shape == (HEIGHT, WIDTH, 3)

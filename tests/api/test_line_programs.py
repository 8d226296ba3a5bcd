"""Line programs of VisProg and CLOVA, in the real sandbox child with a scripted parent."""

from __future__ import annotations

from typing import Any

import pytest

from viper.sandbox import Outcome, Ref, Sandbox

IMAGE = Ref("image", ("image0", 200, 100))
OTHER = Ref("image", ("image1", 80, 60))
WHOLE = ("image0", 0, 0, 200, 100)


def patch(*fields: Any, outline: str = "", label: str = "") -> Ref:
    return Ref("patch", ("image0", *fields, *((outline, label) if outline or label else ())))


CUP, BOWL = patch(40.0, 20.0, 60.0, 40.0), patch(100.0, 50.0, 140.0, 90.0)


class Parent:
    """Answers by tool name, by the first text among the arguments if there is a choice."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.calls: list[tuple[str, tuple[Any, ...]]] = []

    def call(
        self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], line: int | None
    ) -> Any:
        self.calls.append((name, args))
        found = self.answers[name]
        return found[next(a for a in args if isinstance(a, str))] if type(found) is dict else found


def run(sandbox: Sandbox, program: str, parent: Parent | None = None) -> Outcome:
    given = {"IMAGE": IMAGE, "LEFT": IMAGE, "RIGHT": OTHER, "question": "?"}
    return sandbox.run(program, tools=parent or Parent(), entry="execute_command", args=given)


def value(sandbox: Sandbox, program: str, parent: Parent | None = None) -> Any:
    outcome = run(sandbox, program, parent)
    assert outcome.failure is None, outcome.failure
    return outcome.value


def test_a_question_of_the_paper(sandbox: Sandbox) -> None:
    parent = Parent(find={"lamp": [CUP], "shirt": []})
    program = """BOX0=LOC(image=IMAGE,object='lamp')
IMAGE0=CROP(image=IMAGE,box=BOX0)
BOX1=LOC(image=IMAGE0,object='shirt')
ANSWER0=COUNT(box=BOX1)
ANSWER1=EVAL(expr="'yes' if {ANSWER0} > 0 else 'no'")
FINAL_RESULT=RESULT(var=ANSWER1)"""
    assert value(sandbox, program, parent) == "no"
    assert parent.calls == [
        ("find", (Ref("patch", WHOLE), "lamp")),
        ("find", (patch(35.0, 15.0, 65.0, 45.0), "shirt")),
    ]


def test_a_statement_about_two_pictures(sandbox: Sandbox) -> None:
    parent = Parent(simple_query={"How many?": "2", "Is it wet?": "yes"})
    program = """ANSWER0=VQA(image=LEFT,question='How many?')
ANSWER1=VQA(image=RIGHT,question='Is it wet?')
ANSWER2=EVAL(expr='{ANSWER0} == 2 xor {ANSWER1}')
FINAL_ANSWER=RESULT(var='ANSWER2')"""
    assert value(sandbox, program, parent) is False
    assert parent.calls[1][1][0] == Ref("patch", ("image1", 0, 0, 80, 60))


@pytest.mark.parametrize(
    ("name", "box"),
    [
        ("TOP", (0, 50, 200, 100)),
        ("BOTTOM", (0, 0, 200, 50)),
        ("LEFT", (0, 0, 100, 100)),
        ("RIGHT", (100, 0, 200, 100)),
        ("TOP LEFT", (0, 50, 100, 100)),
        ("BOTTOM-RIGHT", (100, 0, 200, 50)),
        ("CENTER", (50, 25, 150, 75)),
    ],
)
def test_regions(sandbox: Sandbox, name: str, box: tuple[float, ...]) -> None:
    found = value(sandbox, f"FINAL_RESULT=RESULT(var=LOC(image=IMAGE,object='{name}'))")
    assert [ref.fields for ref in found] == [("image0", *box)]


@pytest.mark.parametrize(
    ("module", "found", "box"),
    [
        ("CROP", [CUP, BOWL], (35, 15, 65, 45)),
        ("CROP", [BOWL], (90, 40, 150, 100)),
        ("CROP_LEFTOF", [CUP], (0, 0, 50, 100)),
        ("CROP_RIGHTOF", [CUP], (50, 0, 200, 100)),
        ("CROP_ABOVE", [CUP], (0, 30, 200, 100)),
        ("CROP_BELOW", [CUP], (0, 0, 200, 30)),
        ("CROP_BEHIND", [CUP], (35, 15, 65, 45)),
        ("CROP_INFRONTOF", [CUP], (35, 15, 65, 45)),
        ("CROP", [], (0, 0, 200, 100)),
        ("CROP_LEFTOF", [], (0, 0, 100, 100)),
        ("CROP_ABOVE", [], (0, 50, 200, 100)),
    ],
)
def test_crops(sandbox: Sandbox, module: str, found: list[Ref], box: tuple[float, ...]) -> None:
    program = f"""BOX0=LOC(image=IMAGE,object='cup')
IMAGE0={module}(image=IMAGE,box=BOX0)
FINAL_RESULT=RESULT(var=IMAGE0)"""
    assert value(sandbox, program, Parent(find=found)).fields == ("image0", *box)


def test_objects_keep_outline_and_label(sandbox: Sandbox) -> None:
    cat = patch(1.0, 2.0, 3.0, 4.0, outline="outline-1", label="cat")
    dog = patch(5.0, 2.0, 9.0, 4.0, outline="outline-2", label="dog")
    parent = Parent(segment=[cat, dog], best_image_match=1, best_text_match="puppy")
    program = """OBJ0=SEG(image=IMAGE)
OBJ1=SELECT(image=IMAGE,object=OBJ0,query='Cat',category=None)
OBJ2=SELECT(image=IMAGE,object=OBJ0,query='the wet one',category=None)
OBJ3=SELECT(image=IMAGE,object=OBJ0,query=None,category='dog, horse')
OBJ4=CLASSIFY(image=IMAGE,object=OBJ0,categories=['puppy','kitten'])
OBJ5=CLASSIFY(image=IMAGE,object=OBJ0,categories='puppy')
FINAL_RESULT=RESULT(var=[OBJ1,OBJ2,OBJ3,OBJ4,OBJ5])"""
    by_label, by_look, by_category, each, best = value(sandbox, program, parent)
    assert (by_label, by_look, by_category) == ([cat], [dog], [dog])
    assert [ref.fields[5:] for ref in each] == [("outline-1", "puppy"), ("outline-2", "puppy")]
    assert [ref.fields[5:] for ref in best] == [("outline-2", "puppy")]


def test_an_edited_picture_is_a_picture(sandbox: Sandbox) -> None:
    edited = Ref("image", ("edit-1", 200, 100))
    parent = Parent(find=[CUP], color_pop=edited, put_emoji=edited, replace=edited)
    program = """OBJ0=LOC(image=IMAGE,object='cup')
IMAGE0=COLORPOP(image=IMAGE,object=OBJ0)
IMAGE1=EMOJI(image=IMAGE0,object=OBJ0,emoji='face_with_tongue')
IMAGE2=REPLACE(image=IMAGE1,object=OBJ0,prompt='a bowl')
BOX0=LOC(image=IMAGE2,object='cup')
FINAL_RESULT=RESULT(var=IMAGE2)"""
    assert value(sandbox, program, parent) == Ref("patch", ("edit-1", 0, 0, 200, 100))
    emoji, replace, again = parent.calls[2:]
    moved = Ref("patch", ("edit-1", *CUP.fields[1:], "", "cup"))
    assert emoji == (
        "put_emoji",
        (Ref("patch", ("edit-1", *WHOLE[1:])), [moved], "face_with_tongue"),
    )
    assert replace[1][2:] == ("a bowl", 0)
    assert again == ("find", (Ref("patch", ("edit-1", *WHOLE[1:])), "cup"))


def test_a_list_of_what_the_language_model_knows(sandbox: Sandbox) -> None:
    written = "1. Lion\n2. Tiger, zebra;\n- Lion\n* Elephant."
    parent = Parent(llm_query=written)
    program = "FINAL_RESULT=RESULT(var=LIST(query='wild animals',max=3))"
    assert value(sandbox, program, parent) == ["Lion", "Tiger", "zebra"]
    assert "at most 3 wild animals" in parent.calls[0][1][0]


@pytest.mark.parametrize(
    ("program", "kind", "message"),
    [
        ("FINAL_RESULT=COLORPOP(image=IMAGE,object=[])", "runtime", "there is no object"),
        ("FINAL_RESULT=VQA(image='IMAGE',question='?')", "runtime", "not a str"),
        ("FINAL_RESULT=COUNT(box=3)", "runtime", "must be what LOC, SEG or FACEDET gave"),
        ("FINAL_RESULT=EVAL(expr='{ANSWER7} > 0')", "runtime", "no line before sets 'ANSWER7'"),
        ("FINAL_RESULT=EVAL(expr='{LOC} == 1')", "runtime", "cannot take part"),
        ("FINAL_RESULT=EVAL(expr='__import__(1)')", "runtime", "is a call"),
        ("FINAL_RESULT=EVAL(expr='{__builtins__}')", "runtime", "no line before sets"),
        ("FINAL_RESULT=EVAL(expr='{_getattr_}')", "runtime", "no line before sets"),
        ("FINAL_RESULT=EVAL(expr='{under0_x}')", "runtime", "no line before sets"),
        ("FINAL_RESULT=LIST(query='x',max=1000)", "runtime", "1 to 100"),
        ("FINAL_RESULT=EVAL.__globals__", "forbidden", "__globals__"),
        ("BOX0=LOC(image=IMAGE,object='cup')", "return_type", "FINAL_RESULT, FINAL_ANSWER"),
        ("FINAL_RESULT=CROP(image=RIGHT,box=LOC(image=LEFT,object='cup'))", "runtime", "80 x 60"),
    ],
)
def test_mistakes_are_said(sandbox: Sandbox, program: str, kind: str, message: str) -> None:
    outcome = run(sandbox, program, Parent(find=[CUP]))
    assert outcome.failure is not None and outcome.failure.kind == kind
    assert message in outcome.failure.message and "\n" not in outcome.failure.message


def test_an_empty_result_is_followed_to_the_edit_that_needs_it(sandbox: Sandbox) -> None:
    program = """OBJ0=LOC(image=IMAGE,object='cup')
OBJ1=SELECT(image=IMAGE,object=OBJ0,query='red cup',category=None)
IMAGE0=BGBLUR(image=IMAGE,object=OBJ1)"""
    outcome = run(sandbox, program, Parent(find=[]))
    assert outcome.failure is not None and outcome.failure.exception == "IndexError"
    assert [(call.index, call.reached) for call in outcome.empty_calls] == [(0, True)]

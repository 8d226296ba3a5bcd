"""The domain of examples/nlvr: what it sees, reads and answers; skipped where it was removed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tests.commands.test_bad_input import viper
from tests.examples.nlvr_pictures import (
    FOLDER,
    PROFILE,
    SCATTERED,
    SINGLE,
    TOWER,
    picture,
    write_set,
)
from viper.api.routine_files import read_source, run_file
from viper.commands.demo import shows_scenes
from viper.errors import ModelError
from viper.profiles import load_profile
from viper.reasoner import Reasoner
from viper_lab.papers import nlvr

pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="examples/nlvr was removed")

BOXES = [TOWER, SCATTERED, SINGLE]


def module(name: str) -> ModuleType:
    path = FOLDER / f"{name}.py"
    return run_file(path, read_source(path))


@pytest.fixture(scope="module")
def reasoner() -> Iterator[Reasoner]:
    with Reasoner(load_profile(str(PROFILE)), preload=False) as reasoner:
        yield reasoner


@pytest.fixture
def drawn(tmp_path: Path) -> Path:
    path = tmp_path / "drawn.png"
    Image.fromarray(picture(BOXES)).save(path)
    return path


def test_every_item_is_seen_exactly() -> None:
    perception = module("perception")
    found = {thing.box: thing.words for thing in perception.items(picture(BOXES))}
    sizes = {10: "small", 20: "medium", 30: "big"}
    assert found == {
        (150 * n + x, y, 150 * n + x + side, y + side): {color, shape, sizes[side], "item"}
        for n, box in enumerate(BOXES)
        for color, shape, x, y, side in box
    }
    places = [thing.box for thing in perception.boxes(picture(BOXES))]
    assert places == [(0, 0, 100, 100), (150, 0, 250, 100), (300, 0, 400, 100)]


def test_another_picture_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ModelError, match="without the three light grey boxes"):
        module("perception").boxes(np.full((100, 400, 3), 90, np.uint8))
    path = tmp_path / "grey.png"
    Image.new("RGB", (50, 40), "gray").save(path)
    code, out, err = viper(capsys, "run", str(path), "there is a box", "--profile", str(PROFILE))
    assert code == 1 and out == ""
    assert "a picture of 50 x 40 pixels without the three light grey boxes of NLVR" in err


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("sum(len(box.find('item')) == 2 for box in boxes) == 1", True),
        ("any(touches_wall(item, boxes[1], 'left') for item in boxes[1].find('item'))", True),
        ("any(touches_wall(item, boxes[1], 'top') for item in boxes[1].find('item'))", False),
        ("on(tower(boxes[0].find('item'))[1], tower(boxes[0].find('item'))[0])", True),
        ("touching(*boxes[0].find('item'))", True),
        ("touching(*boxes[1].find('item')[:2])", False),
        ("in_corner(boxes[2].find('item')[0], boxes[2])", False),
        ("colors(boxes[1].find('item')) == ['yellow', 'black', 'blue']", True),
        ("shapes(boxes[1].find('item')) == ['square', 'circle', 'triangle']", True),
        ("sizes(boxes[1].find('item')) == ['small', 'medium', 'big']", True),
        ("boxes[2].find('large black item') == []", True),
        ("boxes[2].find('item')[0].best_text_match(['blue', 'black']) == 'black'", True),
        ("boxes[2].find('item')[0].verify_property('item', 'blue')", False),
    ],
)
def test_programs_use_routines_detector_and_matcher(
    reasoner: Reasoner, statement: str, expected: bool
) -> None:
    program = module("grammar").PROGRAM.format(statement)
    result = reasoner.execute(program, picture(BOXES), task="statement")
    assert result.answer is not None, result.failure
    assert result.answer.value is expected


def test_sentences_of_the_grammar_parse_to_programs_that_run(reasoner: Reasoner) -> None:
    grammar = module("grammar")
    rules, random = grammar.read_grammar(), Random(3)
    parsed = 0
    for _ in range(60):
        sentence, meaning = grammar.sample(rules, random)
        if len(sentence.split()) > 34:
            continue
        program = grammar.PROGRAM.format(meaning)
        result = reasoner.execute(program, picture(BOXES), sentence, task="statement")
        assert result.answer is not None, (sentence, meaning, result.failure)
        parsed += meaning in grammar.meanings(rules, sentence)
    assert parsed >= 50


def test_a_half_has_its_own_rules_and_no_open_symbol() -> None:
    grammar = module("grammar")
    one, two, whole = (grammar.read_grammar(half) for half in (1, 2, None))
    count = [sum(map(len, rules.values())) for rules in (one, two, whole)]
    assert 100 < min(count[:2]) < count[2]
    for rules in (one, two, whole):
        used = {p[0] for own in rules.values() for r in own for p in r.parts if type(p) is tuple}
        assert used <= rules.keys()


def test_the_demo_offers_no_scenes_of_another_world() -> None:
    assert not shows_scenes(load_profile(str(PROFILE)).document)
    assert shows_scenes(load_profile("embedded").document)


def test_the_reproduction_divides_sentences_as_the_rules_do() -> None:
    sentences = [f"there are {n} boxes" for n in range(40)]
    halves = [module("grammar").half_of(sentence) for sentence in sentences]
    assert halves == [nlvr.half_of(sentence) for sentence in sentences] and set(halves) == {1, 2}


def test_noise_keeps_a_sentence() -> None:
    recipe, random = module("recipe"), Random(1)
    noisy = {recipe.with_noise("there is a black box", random) for _ in range(50)}
    assert len(noisy) > 20 and all(text.strip(" .") for text in noisy)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ([], "give their folder with --root DIR"),
        (["--root", "ROOT", "--split", "hidden"], "hidden"),
        (["--root", "ROOT", "--data", "gqa"], "reads nlvr alone"),
        (["--root", "ROOT", "--profile", "gone.toml"], "gone.toml: no such profile file"),
    ],
)
def test_wrong_input_of_the_reproduction_is_one_line(
    more: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = write_set(tmp_path / "nlvr", [("There is a blue circle", False, BOXES)])
    given = [str(root) if each == "ROOT" else each for each in more]
    code, out, err = viper(capsys, "lab", "reproduce", "nlvr", "--out", str(tmp_path / "o"), *given)
    assert code != 0 and out == "" and "Traceback" not in err
    assert said in err.splitlines()[-1]


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("There is a box with exactly two items.", True),
        ("there is a tower with a yellow block at the top", True),
        ("there is a blue circle", False),
        ("There are exactly 2 black items", True),
        ("there is a box with only yellow items", False),
    ],
)
def test_the_shipped_writer_reads_sentences(
    drawn: Path, sentence: str, expected: bool, reasoner: Reasoner
) -> None:
    result = reasoner.run(drawn, sentence)
    assert result.trace.task == "statement"
    assert result.answer is not None, result.failure
    assert result.answer.value is expected


@pytest.mark.timeout(600)
def test_the_reproduction_measures_a_small_set(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labelled: list[tuple[str, bool, Any]] = [
        ("There is a box with exactly two items.", True, BOXES),
        ("There is a blue circle", False, BOXES),
        ("There is a tower with a yellow block at the top", True, BOXES),
        ("There are exactly 2 black items", True, BOXES),
        ("There is a yellow item", True, BOXES),
    ]
    root = write_set(tmp_path / "nlvr", labelled)
    line = ["lab", "reproduce", "nlvr", "--root", str(root), "--quick", "--out",
            str(tmp_path / "out"), "--profile", str(PROFILE), "--processes", "1"]  # fmt: skip
    code, out, err = viper(capsys, *line)
    assert code == 1, err  # five sentences bear no gain out
    assert "yes   perception: all boxes exact" in out and "100.00 % of 5 pictures" in out
    assert "a: everyday writer, zero-shot" in out and "b: all rules (seen)" in out
    assert "give --halves" in out and "always true" in out and "CMM" in out


def test_the_bank_uses_what_its_profile_offers(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = write_set(tmp_path / "nlvr", [("There is a blue circle", False, BOXES)])
    line = ["ace", "check", str(FOLDER / "bank.jsonl"), "--root", str(root)]
    code, out, _ = viper(capsys, *line, "--profile", str(PROFILE))
    assert "0 broken" in out, out

"""Questions that were written one by one: what they hold, and the exchange of their nouns."""

from __future__ import annotations

import ast
import builtins
import re
from random import Random

import pytest

from viper_lab.recipes.writer_documents import DocumentOptions, document, listed_entries
from viper_lab.recipes.writer_words import made_up_lexicon
from viper_lab.world.everyday.texts import words_of
from viper_lab.world.everyday.words import HELD_OUT, in_world_words, is_held_out
from viper_lab.world.everyday.written import (
    exchange,
    written_samples,
    written_selection,
    written_text,
)

LEFT_OUT = {
    "count between": r"is_between[\s\S]*return str\(len\(",
    "all on": r"is_on\(p, [\s\S]*\(len\(answers\) > 0 and all\(answers\)",
    "none next": r"is_next_to[\s\S]*not any\(answers\)",
    "sum not": r"(?=[\s\S]*not p\.)[\s\S]*len\(patches\) \+ len\(others\)",
}


def test_every_program_calls_known_names_and_holds_nothing_that_scoring_left_out() -> None:
    methods = {"append", "count", "split", "join", "index", "lower", "items", "values", "get"}
    for task, samples in written_samples().items():
        names = {entry.name for entry in listed_entries("abstract", task)}
        names |= {entry.name for entry in listed_entries("abstract", "question")}
        known = {*names, *methods, *dir(builtins), "ImagePatch", "VideoSegment"}
        known |= {"frame_from_index", "frame_iterator"}
        for sample in samples:
            calls = [n for n in ast.walk(ast.parse(sample.program)) if isinstance(n, ast.Call)]
            for call in calls:
                name = call.func.attr if isinstance(call.func, ast.Attribute) else call.func.id
                assert name in known, (name, sample.text)
            words = re.findall(r"[a-z]+", f"{sample.text} {sample.options}".lower())
            assert not HELD_OUT & {*words, *(word.removesuffix("s") for word in words)}
            for pair, pattern in LEFT_OUT.items():
                found = task != "choice" and re.search(pattern, sample.program)
                assert not found, (pair, sample.text)


def test_texts_are_all_different() -> None:
    texts = [
        re.sub(r"\W+", " ", sample.text.lower()).strip()
        for samples in written_samples().values()
        for sample in samples
    ]
    assert len(texts) > 5000 and len(set(texts)) == len(texts)


def test_words_are_exchanged_alike_in_text_and_program() -> None:
    texts = ["Is a red cube, or two red cubes, left of the block?", "find('red cube') 'block'"]
    seen = set()
    for seed in range(30):
        text, program = exchange(Random(seed), texts)
        color, shape, other = re.fullmatch(r"find\('(\w+) (\w+)'\) '(\w+)'", program).groups()
        assert f"{color} {shape}" in text and f"left of the {other}?" in text
        assert in_world_words(shape) == in_world_words(other)
        assert re.match(rf"Is an? {color} {shape}, or two {color} {shape}(e?s)?", text), text
        assert not re.search(r"\ba [aeiou]|\ban [^aeiou]", text)
        seen.add((color, shape))
    assert len(seen) > 20


def test_a_word_that_only_the_program_spells_right_stays() -> None:
    texts = ["wheres the gren ball", "find('green ball')"]
    assert exchange(Random(0), texts) == texts


def test_looks_and_materials_keep_their_place_in_a_sentence() -> None:
    for seed in range(20):
        text, _ = exchange(Random(seed), ["is it made of rubber or shiny?", "'rubber'"])
        material, look = re.fullmatch(r"is it made of (\w+) or (\w+)\?", text).groups()
        assert material in ("metal", "steel", "iron", "rubber") and look not in ("metal", "rubber")


@pytest.mark.parametrize("task", ["question", "ground", "statement", "choice"])
def test_draws_never_hold_a_held_out_pair(task: str) -> None:
    random = Random(task)
    for _ in range(80):
        program = written_text(random, task).program
        phrases = re.findall(r"(?=\b(\w+ \w+)\b)", program)
        assert not any(map(is_held_out, phrases))


def test_documents_hold_them_in_their_share_with_made_up_nouns() -> None:
    lexicon = made_up_lexicon(Random(3))
    text = written_text(Random(3), "question", words_of(lexicon))
    assert text.query_type == "written"
    options = DocumentOptions(
        everyday=1.0, written=1.0, selections=0.0, everyday_mixed=0.0, made_up_names=0.0,
        swapped_names=0.0,
    )  # fmt: skip
    programs = {
        re.sub(r"'.*?'", "", s.program) for each in written_samples().values() for s in each
    }
    random, found, learned = Random(0), 0, 0
    for _ in range(20):
        document_ = document(random, DocumentOptions(**{**vars(options), "commented": False}))
        for piece in document_:
            if piece.learned:
                learned += 1
                found += re.sub(r"'.*?'", "", piece.text.strip()) in programs
    assert found == learned > 10


def test_written_selections_keep_their_answer_among_the_options() -> None:
    drawn = [written_selection(Random(seed)) for seed in range(300)]
    assert all(each.answer in each.options for each in drawn)
    assert len({each.options.index(each.answer) for each in drawn}) == 5
    words = " ".join(f"{each.question} {' '.join(each.options)}" for each in drawn).lower().split()
    assert not HELD_OUT & {word.strip("?,.!") for word in words}
    assert all(in_world_words(each.info) == each.info for each in drawn)

import ast
from random import Random

import pytest

from viper.world.training.writer_documents import (
    DocumentOptions,
    document,
    program_document,
    selection_document,
)
from viper.world.training.writer_words import (
    is_test_word,
    made_up_lexicon,
    made_up_name,
    made_up_names,
    made_up_word,
)

RENAMED = DocumentOptions(made_up_names=1.0, swapped_names=0.0, full_header=0.0)


def test_training_and_test_words_never_meet() -> None:
    random = Random(0)
    train = {made_up_word(random) for _ in range(500)}
    test = {made_up_word(random, test=True) for _ in range(500)}
    assert not train & test
    assert all(map(is_test_word, test))
    assert not any(map(is_test_word, train))
    assert not any(word.endswith("s") for word in train)


def test_invented_names_are_distinct_identifiers_and_hide_no_variable() -> None:
    random = Random(1)
    mapping = made_up_names(random, [f"name{i}" for i in range(40)], avoid=["dax"])
    assert len(set(mapping.values())) == 40
    assert all(name.isidentifier() for name in mapping.values())
    assert not {"patch", "patches", "info", "dax"} & set(mapping.values())
    assert made_up_name(Random(5)) == made_up_name(Random(5))


def test_an_invented_lexicon_keeps_the_number_of_adjectives() -> None:
    lexicon = made_up_lexicon(Random(2), test=True, adjectives=1.0)
    assert len(lexicon.colors) == 8
    assert all(is_test_word(word) for shape in lexicon.shapes for word in shape.split())
    assert not lexicon.held_out


@pytest.mark.parametrize("seed", range(12))
def test_every_program_follows_a_header_that_lists_its_names(seed: int) -> None:
    header, *rest = program_document(Random(seed), RENAMED)
    listed = {
        line.rpartition(": ")[2].partition("(")[0]: line.rpartition(": ")[0]
        for line in header.text.splitlines()
        if line.endswith(")")
    }
    for query, program in zip(rest[::2], rest[1::2], strict=True):
        assert query.text.startswith("# query: ")
        assert not query.learned
        assert program.learned
        ast.parse(program.text)
        comments = [line.strip() for line in program.text.splitlines() if "# " in line]
        for comment in comments:
            summary, _, name = comment.rpartition(": ")
            assert listed[name] == summary
        for name in (comment.rpartition(": ")[2] for comment in comments):
            assert f"{name}(" in program.text


def test_only_answers_are_learned_in_a_selection() -> None:
    prompt, answer = selection_document(Random(3))
    assert prompt.text.endswith("# answer:")
    assert not prompt.learned
    assert answer.learned
    options = prompt.text.split("# options: ")[1].split("\n")[0].split("; ")
    assert answer.text.strip() in options


def test_the_same_random_state_gives_the_same_document() -> None:
    assert document(Random(7), DocumentOptions()) == document(Random(7), DocumentOptions())


def test_without_invention_only_the_api_s_own_names_occur() -> None:
    plain = DocumentOptions(made_up_nouns=0, made_up_names=0, swapped_names=0, selections=0)
    text = "".join(p.text for p in document(Random(11), plain))
    assert "execute_command" in text
    assert any(name in text for name in ("find(", "simple_query(", "caption_video("))

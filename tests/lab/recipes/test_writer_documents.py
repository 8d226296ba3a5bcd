import ast
import re
from collections import Counter
from random import Random

import pytest

from viper_lab.recipes.writer import FURTHER_PART
from viper_lab.recipes.writer_documents import (
    DocumentOptions,
    document,
    program_document,
    selection_document,
)
from viper_lab.recipes.writer_words import (
    is_test_word,
    made_up_lexicon,
    made_up_name,
    made_up_names,
    made_up_word,
    plain_names,
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


def test_names_of_common_words_are_distinct_and_share_words() -> None:
    routines = [f"name{i}" for i in range(40)]
    words = [name.split("_") for name in plain_names(Random(1), routines).values()]
    assert len({tuple(parts) for parts in words}) == 40
    assert all(len(parts) in (2, 3) and len(set(parts)) == len(parts) for parts in words)
    assert Counter(parts[-1] for parts in words).most_common(1)[0][1] > 3


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
        assert re.match(r"# task: (ground|question|choice)\n# query: ", query.text)
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


AMBIGUOUS = DocumentOptions(
    programs=6, made_up_names=0, made_up_nouns=0, ambiguous=1.0, ambiguous_shares=(1.0,),
    focused=1.0, most_sorts=1, vipergpt=0, lone=0.01,
)  # fmt: skip


def test_ambiguous_queries_of_one_document_share_conventions() -> None:
    seen = set()
    for seed in range(150):
        pieces = program_document(Random(seed), AMBIGUOUS)
        least = {
            piece.text.split(">= ")[1][0] for piece in pieces if "len(patches) >= " in piece.text
        }
        assert len(least) <= 1
        seen |= least
    assert seen == {"2", "3"}


def test_bare_programs_come_first_and_are_not_learned() -> None:
    options = DocumentOptions(programs=6, bare=1.0, lone=0.01)
    found = 0
    for seed in range(20):
        _, *rest = program_document(Random(seed), options)
        learned = [program.learned for program in rest[1::2]]
        assert learned == sorted(learned) and learned[-1]
        for program in rest[1::2]:
            if not program.learned:
                found += 1
                assert "#" not in program.text
    assert found


def test_a_failure_is_told_before_the_last_query_only() -> None:
    options = DocumentOptions(programs=4, failed=1.0, lone=0.01)
    _, *rest = program_document(Random(3), options)
    assert rest[-2].text.splitlines()[1].startswith("# failed: ")
    assert sum("# failed: " in query.text for query in rest[::2]) == 1


def test_a_third_of_the_last_documents_hold_a_single_query() -> None:
    last = FURTHER_PART.stages[-1].documents
    lone = sum(len(program_document(Random(seed), last)) == 3 for seed in range(300))
    assert lone >= 90

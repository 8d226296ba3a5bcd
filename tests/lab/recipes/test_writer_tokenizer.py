from pathlib import Path
from random import Random

import pytest

from viper_lab.recipes.writer_documents import DocumentOptions, document
from viper_lab.recipes.writer_tokenizer import build_tokenizer, load_tokenizer, save_tokenizer
from viper_lab.recipes.writer_words import spelling_samples


def _texts(count: int, seed: int) -> list[str]:
    random = Random(seed)
    return ["".join(p.text for p in document(random, DocumentOptions())) for _ in range(count)]


@pytest.fixture(scope="module")
def tokenizer():  # type: ignore[no-untyped-def]  # tokenizers.Tokenizer
    return build_tokenizer(_texts(60, 1), spelling_samples(Random(2), 400))


@pytest.mark.parametrize(
    "text",
    [
        *_texts(12, 3),
        "",
        " ",
        "x2 = 13 if a_b else 'c d' # é 漢",
        "\n\n    \n# # \t'quoted \" twice'",
        "the  double space and trailing ",
        "__init__ CamelCase snake_case_s",
    ],
)
def test_every_text_comes_back(tokenizer, text: str) -> None:  # type: ignore[no-untyped-def]
    assert tokenizer.decode(tokenizer.encode(text).ids) == text


def test_a_noun_has_the_same_pieces_where_it_is_asked_and_where_it_is_used(tokenizer) -> None:  # type: ignore[no-untyped-def]
    asked = tokenizer.encode("show the red blicket?").tokens
    used = tokenizer.encode("x = image_patch.find('red blicket')").tokens
    several = tokenizer.encode("how many blickets are there").tokens
    word = asked[asked.index("▁red") + 1 : -1]
    assert _contains(used, word)
    assert _contains(several, [*word, "s"])


def test_a_routine_name_has_the_same_pieces_in_header_comment_and_call(tokenizer) -> None:  # type: ignore[no-untyped-def]
    header = tokenizer.encode("# find all objects of a name: zorp_dax(object_name)\n").tokens
    name = header[header.index(": ") + 1 : header.index("(")]
    for text in ("    # find all: zorp_dax\n", "y = zorp_dax(p)", "p.zorp_dax('a')"):
        assert _contains(tokenizer.encode(text).tokens, name)


def test_indentation_and_spaces_between_words_are_cheap(tokenizer) -> None:  # type: ignore[no-untyped-def]
    assert len(tokenizer.encode("find the red cube").tokens) == 4
    assert tokenizer.encode("a\n    # b").tokens[1] == "\n    # "


def test_a_saved_tokenizer_loads_alone_and_through_transformers(  # type: ignore[no-untyped-def]
    tokenizer, tmp_path: Path
) -> None:
    from transformers import AutoTokenizer

    save_tokenizer(tokenizer, tmp_path, max_length=99)
    text = "# query: the red blicket\n"
    ids = tokenizer.encode(text).ids
    assert load_tokenizer(tmp_path).encode(text).ids == ids
    auto = AutoTokenizer.from_pretrained(tmp_path)
    assert auto(text)["input_ids"] == ids
    assert auto.decode(ids) == text
    assert (auto.pad_token_id, auto.eos_token_id, auto.model_max_length) == (0, 2, 99)


def _contains(tokens: list[str], part: list[str]) -> bool:
    return any(tokens[i : i + len(part)] == part for i in range(len(tokens)))

"""Visual question answering by chat models, on tiny checkpoints of two families."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import tiny_chat

from tests.models.vision.swapping import answer_with
from viper.models.llm.replies import first_line
from viper.models.vision.chat_vlm import ChatVLM
from viper.models.vision.vlm import ChatRequest
from viper.models.vision.vqa_chat import INSTRUCTION, ChatAnswerer, tidy
from viper.testing.conformance import check_vqa


@pytest.fixture(autouse=True)
def _endless_replies(monkeypatch: pytest.MonkeyPatch) -> None:
    tiny_chat.take_cut_replies(monkeypatch)


@pytest.fixture(scope="module", params=["llava", "qwen2_vl"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_chat.FAMILIES[request.param](tmp_path_factory.mktemp(request.param))


class Told(ChatVLM):
    """Replies as told and records what it was asked."""

    model_id, batches = "told", True

    def __init__(self, replies: Sequence[tuple[str, float]]) -> None:
        self.replies = list(replies)
        self.asked: list[ChatRequest] = []

    def ask(self, requests: Sequence[ChatRequest], max_new_tokens: int) -> list[tuple[str, float]]:
        self.asked += requests
        return [self.replies.pop(0) for _ in requests]


def test_it_keeps_the_rules_of_its_role(folder: Path) -> None:
    check_vqa(ChatAnswerer(ChatVLM.from_pretrained(folder), batch_size=3))


def test_answers_are_those_of_the_model_to_the_question_and_the_instruction(folder: Path) -> None:
    answerer = ChatAnswerer(ChatVLM.from_pretrained(folder), instruction="yes or no ?")
    bare = ChatAnswerer(ChatVLM.from_pretrained(folder), instruction="")
    shown = tiny_chat.pictures(2)
    questions = ["what is this ?", " is this red ? "]
    vlm = ChatVLM.from_pretrained(folder)
    for asking, texts in (
        (answerer, ["what is this ?\nyes or no ?", "is this red ?\nyes or no ?"]),
        (bare, ["what is this ?", "is this red ?"]),
    ):
        requests = [ChatRequest([p], text) for p, text in zip(shown, texts, strict=True)]
        replies = vlm.ask(requests, 256)
        answers = asking.answer(asking.encode(shown), questions)
        assert [text for text, _ in answers] == [tidy(text) for text, _ in replies]
        assert [p for _, p in answers] == pytest.approx([p for _, p in replies], rel=1e-3)


def test_the_encoding_of_a_photograph_is_as_large_as_the_model_gets_it(folder: Path) -> None:
    vlm = ChatVLM.from_pretrained(folder, max_pixels=40 * 30)
    answerer, (photograph,) = ChatAnswerer(vlm), tiny_chat.pictures(1, 300, 400)
    (encoding,) = answerer.encode([photograph])
    assert encoding.shape == (30, 40, 3)
    whole = vlm.ask([ChatRequest([photograph], f"what ?\n{INSTRUCTION}")], 256)
    (answer,) = answerer.answer([encoding], ["what ?"])
    assert (answer[0], answer[1]) == (tidy(whole[0][0]), whole[0][1])


def test_the_encoding_is_a_copy_of_the_pixels(folder: Path) -> None:
    answerer = ChatAnswerer(ChatVLM.from_pretrained(folder))
    picture = np.full((20, 24, 3), 200, np.uint8)
    (encoding,) = answerer.encode([picture])
    before = answerer.answer([encoding], ["what ?"])
    picture[:] = 0
    assert answerer.answer([encoding], ["what ?"]) == before


def test_a_caption_is_asked_for_in_words_of_its_own() -> None:
    told = Told([("\n A red cube.\nOn a table.", 0.5), ("", 0.1)])
    answerer = ChatAnswerer(told, caption_instruction="what is this?")
    shown = tiny_chat.pictures(2)
    assert answerer.caption(answerer.encode(shown)) == ["A red cube.", ""]
    assert [request.instruction for request in told.asked] == ["what is this?"] * 2
    assert np.array_equal(told.asked[1].images[0], shown[1])


def test_an_answer_in_a_sentence_is_not_made_short() -> None:
    told = Told([("The man is wet, since it rains.", 0.5)])
    answerer = ChatAnswerer(told)
    (encoding,) = answerer.encode(tiny_chat.pictures(1))
    assert answerer.explain([encoding], ["Why is he wet?"]) == ["The man is wet, since it rains."]
    assert told.asked[0].instruction == "Why is he wet?\nAnswer in one sentence."


def test_answers_keep_the_probability_of_the_reply() -> None:
    told = Told([('"A red cube."', 0.25), ("Yes.", 0.75)])
    answerer = ChatAnswerer(told)
    encodings = answerer.encode(tiny_chat.pictures(2))
    answers = answerer.answer(encodings, ["what?", "is it red?"])
    assert answers == [("A red cube", 0.25), ("yes", 0.75)]
    assert told.asked[0].instruction.startswith("what?\nAnswer in a few words")


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        ("red", "red"),
        (" red. ", "red"),
        ("\n\nred\nbecause", "red"),
        ('"red."', "red"),
        ("'red'.", "red"),
        ("**Red**", "Red"),
        ("**Red.**", "Red"),
        ("**Red** ball", "Red ball"),
        ("*red*", "red"),
        ("**Yes.**", "yes"),
        ("Yes, there is a dog.", "yes"),
        ("No, it is red.", "no"),
        ("Yes. It is red.", "yes"),
        ("No parking", "No parking"),
        ("No. 5", "No. 5"),
        ("Nobody", "Nobody"),
        ("“a red cube”", "a red cube"),
        ("3.5", "3.5"),
        ("well...", "well..."),
        ("the dog's", "the dog's"),
        ('a "red" cube', 'a "red" cube'),
        ("'", "'"),
        ("Yes.", "yes"),
        ("NO", "no"),
        ("Norway", "Norway"),
        ("", ""),
        (" \n ", ""),
    ],
)
def test_replies_are_tidied(reply: str, text: str) -> None:
    assert tidy(reply) == text


def test_the_first_line_is_the_first_that_is_not_blank() -> None:
    assert first_line("\n \n a b. \nc") == "a b."


def test_it_states_model_and_size(folder: Path) -> None:
    answerer = ChatAnswerer(ChatVLM.from_pretrained(folder))
    vlm = ChatVLM.from_pretrained(folder)
    assert (answerer.model_id, answerer.memory_bytes) == (vlm.model_id, vlm.memory_bytes)


def test_as_many_questions_as_encodings() -> None:
    with pytest.raises(ValueError, match="longer"):
        ChatAnswerer(Told([])).answer(tiny_chat.pictures(1), ["what?", "where?"])


def test_one_line_of_a_profile_gives_it_its_role(folder: Path, tmp_path: Path) -> None:
    line = f'{{ backend = "chat", model = "{folder}" }}'
    assert answer_with("vqa", line, tmp_path).startswith("answer: ")

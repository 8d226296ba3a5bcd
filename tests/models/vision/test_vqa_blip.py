"""The VQA backend on a tiny BLIP checkpoint."""

import numpy as np
import pytest

from tests.models.vision.swapping import answer_with
from tests.models.vision.tiny_blip import WORDS, tiny_blip
from viper.errors import ModelError
from viper.models.vision.roles import VisualAnswerer
from viper.models.vision.vqa_blip import BlipAnswerer
from viper.testing.conformance import check_vqa


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny_blip(tmp_path_factory.mktemp("vqa"))


@pytest.fixture(scope="module")
def answerer(folder):
    return BlipAnswerer.from_pretrained(folder)


@pytest.fixture(scope="module")
def encodings(answerer):
    rng = np.random.default_rng(0)
    return answerer.encode([rng.integers(0, 255, (20, 24, 3)).astype(np.uint8) for _ in range(3)])


def test_one_encoding_an_image(encodings):
    assert [tuple(each.shape) for each in encodings] == [(5, 16)] * 3


def test_an_encoding_does_not_keep_its_batch(encodings):
    for encoding in encodings:
        assert encoding.untyped_storage().nbytes() == encoding.nbytes


def test_pictures_are_prepared_batch_by_batch(folder):
    steps = []

    class Watched(BlipAnswerer):
        @property
        def prepare(self):
            steps.append("prepare")
            return super().prepare

        def _look(self, pixels):
            steps.append("look")
            return super()._look(pixels)

    answerer = Watched.from_pretrained(folder, batch_size=2)
    assert len(answerer.encode([np.zeros((20, 24, 3), np.uint8)] * 3)) == 3
    assert steps == ["prepare", "prepare", "look", "prepare", "look"]


def test_answers_are_words_with_probabilities(answerer, encodings):
    answers = answerer.answer(encodings, ["what is this?", "what is red?", "is this red?"])
    assert len(answers) == 3
    for text, probability in answers:
        assert "[" not in text and text == text.strip()
        assert 0 < probability <= 1


def test_questions_of_unequal_length_are_answered_as_alone(answerer, encodings):
    questions = ["what is this?", "cube?", "is this red cube what?"]
    together = answerer.answer(encodings, questions)
    alone = [answerer.answer([e], [q])[0] for e, q in zip(encodings, questions, strict=True)]
    assert [text for text, _ in together] == [text for text, _ in alone]
    assert [p for _, p in together] == pytest.approx([p for _, p in alone], rel=1e-3)


def test_case_does_not_matter(answerer, encodings):
    assert answerer.answer(encodings[:1], ["What is THIS?"]) == answerer.answer(
        encodings[:1], ["what is this?"]
    )


def test_the_caption_answers_the_caption_question(folder, encodings):
    answerer = BlipAnswerer.from_pretrained(folder, caption_question="what is this?")
    caption = answerer.caption(encodings[:1])[0]
    answer = answerer.answer(encodings[:1], ["what is this?"])[0][0]
    assert caption.startswith(answer)


def test_it_plays_its_role(answerer, folder):
    assert isinstance(answerer, VisualAnswerer)
    assert answerer.model_id.startswith(folder.name + "@")
    assert answerer.encode([]) == [] and answerer.answer([], []) == []


def test_as_many_questions_as_encodings(answerer, encodings):
    with pytest.raises(ValueError, match="shorter"):
        answerer.answer(encodings, ["what?"])


def test_a_folder_without_a_model_is_a_model_error(tmp_path):
    with pytest.raises(ModelError, match="cannot be loaded as"):
        BlipAnswerer.from_pretrained(tmp_path)


def test_it_keeps_to_its_role(answerer):
    check_vqa(answerer)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_answers(folder, dtype):
    half = BlipAnswerer.from_pretrained(folder, dtype=dtype, device="cpu")
    image = np.random.default_rng(0).integers(0, 255, (20, 24, 3)).astype(np.uint8)
    ((text, probability),) = half.answer(half.encode([image]), ["what is this?"])
    assert isinstance(text, str) and 0 < probability <= 1


def test_one_line_of_a_profile_gives_it_its_role(folder, tmp_path):
    line = f'{{ backend = "blip", model = "{folder}" }}'
    assert answer_with("vqa", line, tmp_path).startswith("answer: ")


def test_an_answers_likelihood_is_that_of_its_tokens_one_by_one(answerer, encodings):
    import torch

    model, encoding = answerer._model, encodings[0]
    asked = answerer._tokenizer("what is this?")["input_ids"]
    told = [WORDS.index("red"), WORDS.index("cube"), WORDS.index("[SEP]")]
    with torch.inference_mode():
        states = model.text_encoder(
            input_ids=torch.tensor([asked]), encoder_hidden_states=encoding[None]
        ).last_hidden_state
        ids, expected = [WORDS.index("[DEC]")], 0.0
        for token in told:
            logits = model.text_decoder(
                input_ids=torch.tensor([ids]), encoder_hidden_states=states
            ).logits[0, -1]
            expected += float(logits.log_softmax(-1)[token])
            ids.append(token)
    (scored,) = answerer.score_answers(encoding, "What is this?", ["red cube"])
    assert scored == pytest.approx(expected, abs=1e-4)


def test_answers_of_different_lengths_are_scored_as_if_alone(answerer, encodings):
    answers = ["red", "red cube", "this is red cube"]
    together = answerer.score_answers(encodings[0], "what is this?", answers)
    alone = [answerer.score_answers(encodings[0], "what is this?", [one])[0] for one in answers]
    assert together == pytest.approx(alone, rel=1e-4)
    assert answerer.score_answers(encodings[0], "what is this?", []) == []

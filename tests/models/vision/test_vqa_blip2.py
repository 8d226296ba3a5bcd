"""The BLIP-2 backend on tiny checkpoints: over a causal and an encoder-decoder language model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.models.vision.swapping import answer_with
from viper.errors import ModelError, ProfileError
from viper.models.vision.chat_vlm import reply_probabilities
from viper.models.vision.roles import VisualAnswerer
from viper.models.vision.vqa_blip import ANSWER_TOKENS, Blip2Answerer
from viper.testing.conformance import check_vqa

SPECIAL = ["<pad>", "<s>", "</s>", "<unk>", "<image>", "\n"]
WORDS = ["Question", ":", "Answer", "what", "is", "this", "a", "red", "cube", "dog", "?"]
VOCABULARY = [*SPECIAL, *WORDS, "photo", "of", *"bcdefgh"]
SIZES = {"hidden_size": 16, "intermediate_size": 32, "num_attention_heads": 2}


def build_tokenizer(text_end: str) -> Any:
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    ids = {word: i for i, word in enumerate(VOCABULARY)}
    backend = Tokenizer(models.WordLevel(ids, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Split(Regex(r"\n|[A-Za-z]+|[?:]"), "removed", True)
    backend.decoder = decoders.Fuse()
    backend.post_processor = processors.TemplateProcessing(
        single=text_end, special_tokens=[("<s>", 1), ("</s>", 2)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token="<pad>",
        bos_token="<s>",
        eos_token="</s>",
        unk_token="<unk>",
    )


def build(path: Path, kind: str) -> Path:
    import torch
    from transformers import (
        Blip2Config,
        Blip2ForConditionalGeneration,
        Blip2Processor,
        Blip2QFormerConfig,
        Blip2VisionConfig,
        BlipImageProcessor,
        OPTConfig,
        T5Config,
    )

    special = {"vocab_size": len(VOCABULARY), "pad_token_id": 0, "eos_token_id": 2}
    if kind == "opt":
        text = OPTConfig(
            **special,
            bos_token_id=1,
            hidden_size=16,
            word_embed_proj_dim=16,
            ffn_dim=32,
            num_hidden_layers=1,
            num_attention_heads=2,
            max_position_embeddings=64,
        )
    else:
        text = T5Config(
            **special,
            bos_token_id=1,
            decoder_start_token_id=0,
            d_model=16,
            d_kv=8,
            d_ff=32,
            num_layers=1,
            num_heads=2,
            feed_forward_proj="gated-gelu",
            tie_word_embeddings=False,
        )
    config = Blip2Config(
        vision_config=Blip2VisionConfig(
            **SIZES, num_hidden_layers=1, image_size=16, patch_size=8, initializer_range=0.5
        ),
        qformer_config=Blip2QFormerConfig(
            **SIZES, num_hidden_layers=2, vocab_size=len(VOCABULARY), initializer_range=0.5
        ),
        text_config=text,
        num_query_tokens=3,
        image_token_index=VOCABULARY.index("<image>"),
        initializer_range=0.5,
    )
    torch.manual_seed(1)
    model = Blip2ForConditionalGeneration(config)
    torch.nn.init.normal_(model.query_tokens)
    for weight in model.language_model.parameters():
        torch.nn.init.normal_(weight, std=0.5)
    model.save_pretrained(path)
    images = BlipImageProcessor(size={"height": 16, "width": 16})
    tokenizer = build_tokenizer("<s> $A" if kind == "opt" else "$A </s>")
    Blip2Processor(images, tokenizer, num_query_tokens=3).save_pretrained(path)
    return path


@pytest.fixture(scope="module", params=["opt", "t5"])
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp(request.param), request.param)


@pytest.fixture(scope="module")
def answerer(folder: Path) -> Blip2Answerer:
    return Blip2Answerer.from_pretrained(folder)


def pictures(count: int = 3) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.integers(0, 256, (20 + 9 * i, 24, 3), dtype=np.uint8) for i in range(count)]


QUESTIONS = ["what is this?", "is this a red cube?", "dog?"]


def test_it_keeps_to_its_role(answerer: Blip2Answerer) -> None:
    check_vqa(answerer)


def test_it_plays_its_role(answerer: Blip2Answerer, folder: Path) -> None:
    assert isinstance(answerer, VisualAnswerer)
    assert answerer.model_id.startswith(f"{folder.name}@")


def test_an_encoding_holds_a_picture_s_queries(answerer: Blip2Answerer) -> None:
    one, other, _ = answerer.encode(pictures())
    assert tuple(one.shape) == (3, 16)
    assert (one - other).abs().max() > 1e-2


def library_says(answerer: Blip2Answerer, folder: Path, image: np.ndarray, prompt: str) -> str:
    """What the library's own processor and ``generate`` make of a picture and a prompt."""
    from transformers import AutoProcessor

    processor = AutoProcessor.from_pretrained(folder)
    inputs = processor(images=image, text=prompt, return_tensors="pt")
    ids = answerer._model.generate(
        **inputs, max_new_tokens=ANSWER_TOKENS, eos_token_id=answerer._end_ids, do_sample=False
    )
    decodes = answerer._model.config.use_decoder_only_language_model
    new = ids[:, inputs["input_ids"].shape[1] if decodes else 1 :]
    return processor.batch_decode(new, skip_special_tokens=True)[0].strip()


def prompt_of(answerer: Blip2Answerer) -> str:
    """The prompt of the paper's evaluations with this kind of language model."""
    decodes = answerer._model.config.use_decoder_only_language_model
    return "Question: {} Answer:" if decodes else "Question: {} Short answer:"


@pytest.mark.parametrize("question", QUESTIONS)
def test_it_says_what_the_library_says(
    answerer: Blip2Answerer, folder: Path, question: str
) -> None:
    for image in pictures():
        ((ours, _),) = answerer.answer(answerer.encode([image]), [f" {question} "])
        assert ours == library_says(answerer, folder, image, prompt_of(answerer).format(question))


@pytest.mark.parametrize("prompt", ["a photo of", "this red dog is"])
def test_a_caption_goes_on_from_its_prompt(folder: Path, prompt: str) -> None:
    answerer = Blip2Answerer.from_pretrained(folder, caption_prompt=prompt)
    captions = answerer.caption(answerer.encode(pictures()))
    for image, caption in zip(pictures(), captions, strict=True):
        assert caption.startswith(library_says(answerer, folder, image, prompt))
    assert Blip2Answerer.from_pretrained(folder)._caption_prompt == "a photo of"


def test_each_kind_of_language_model_gets_its_own_prompt(
    answerer: Blip2Answerer, folder: Path
) -> None:
    assert answerer._question_prompt == prompt_of(answerer)
    own = Blip2Answerer.from_pretrained(folder, question_prompt="{} is")
    image = pictures()[0]
    ((text, _),) = own.answer(own.encode([image]), ["this dog"])
    assert text == library_says(own, folder, image, "this dog is")


def test_a_prompt_without_a_place_for_the_question_is_refused(folder: Path) -> None:
    with pytest.raises(ProfileError, match=r"question_prompt is 'what\?'; expected a text with"):
        Blip2Answerer.from_pretrained(folder, question_prompt="what?")


def test_an_encoding_does_not_keep_its_batch(answerer: Blip2Answerer) -> None:
    for encoding in answerer.encode(pictures()):
        assert encoding.untyped_storage().nbytes() == encoding.nbytes


def test_the_picture_counts(answerer: Blip2Answerer) -> None:
    answers = answerer.answer(answerer.encode(pictures()), ["what is this?"] * 3)
    assert len(set(answers)) == 3


def test_the_probability_is_that_of_the_answer_and_its_end() -> None:
    import torch

    chances = torch.tensor(
        [[[0.5, 0.25, 0.25], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]], [[0.25, 0.25, 0.5]] * 3]
    )
    ids = torch.tensor([[0, 1, 1], [2, 2, 0]])
    likely = chances.log()
    assert reply_probabilities(ids, likely, [1]) == pytest.approx([0.5 * 0.8, 0.5 * 0.5 * 0.25])
    assert reply_probabilities(ids, likely, [2]) == pytest.approx([0.5 * 0.8 * 0.2, 0.5])


def test_a_newline_ends_an_answer(answerer: Blip2Answerer) -> None:
    assert answerer._end_ids == [2, VOCABULARY.index("\n")]


def test_a_picture_three_pixels_high_is_not_taken_for_three_channels(
    answerer: Blip2Answerer,
) -> None:
    import torch
    from PIL import Image

    (image,) = np.random.default_rng(0).integers(0, 256, (1, 3, 40, 3), dtype=np.uint8)
    batch = answerer._processor(Image.fromarray(image), return_tensors="pt")
    with torch.inference_mode():
        expected = answerer._model.get_image_features(batch["pixel_values"]).pooler_output[0]
    np.testing.assert_allclose(answerer.encode([image])[0], expected, atol=1e-4)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_answers(folder: Path, dtype: str) -> None:
    half = Blip2Answerer.from_pretrained(folder, dtype=dtype, device="cpu")
    ((text, chance),) = half.answer(half.encode(pictures(1)), ["what is this?"])
    assert isinstance(text, str) and 0 < chance <= 1
    assert isinstance(half.caption(half.encode(pictures(1)))[0], str)
    full = Blip2Answerer.from_pretrained(folder, device="cpu")
    assert half.memory_bytes < full.memory_bytes


def test_as_many_questions_as_encodings(answerer: Blip2Answerer) -> None:
    with pytest.raises(ValueError, match="shorter"):
        answerer.answer(answerer.encode(pictures()), ["what?"])


def test_a_folder_without_a_model_is_a_model_error(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="cannot be loaded as"):
        Blip2Answerer.from_pretrained(tmp_path)


def test_one_line_of_a_profile_gives_it_its_role(folder: Path, tmp_path: Path) -> None:
    line = f'{{ backend = "blip2", model = "{folder}" }}'
    assert answer_with("vqa", line, tmp_path).startswith("answer: ")

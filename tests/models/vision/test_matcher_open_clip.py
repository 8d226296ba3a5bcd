"""The matcher backend on a tiny open_clip checkpoint."""

import json

import numpy as np
import pytest

from tests.models.vision.swapping import answer_with
from viper.errors import ModelError
from viper.models.vision.matcher_open_clip import OpenClipMatcher
from viper.models.vision.roles import Matcher
from viper.testing.conformance import check_matcher


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    import torch
    from open_clip.model import CLIP
    from safetensors.torch import save_file
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    torch.manual_seed(0)
    words = ["[PAD]", "[UNK]", "[BOS]", "red", "blue", "cube", "ball", "[EOS]"]
    backend = Tokenizer(
        models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="[UNK]")
    )
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    backend.post_processor = processors.TemplateProcessing(
        single="[BOS] $A [EOS]", special_tokens=[("[BOS]", 2), ("[EOS]", 7)]
    )
    path = tmp_path_factory.mktemp("matcher")
    PreTrainedTokenizerFast(
        tokenizer_object=backend, pad_token="[PAD]", unk_token="[UNK]"
    ).save_pretrained(path)
    vision = {"layers": 1, "width": 16, "head_width": 8, "patch_size": 8, "image_size": 16}
    text = {"context_length": 6, "vocab_size": len(words), "width": 16, "heads": 2, "layers": 1}
    save_file(CLIP(8, vision, text).half().state_dict(), path / "open_clip_model.safetensors")
    model = {
        "embed_dim": 8,
        "vision_cfg": vision,
        "text_cfg": text | {"hf_tokenizer_name": "local"},
    }
    config = {"model_cfg": model, "preprocess_cfg": {"mean": [0.5] * 3, "std": [0.5] * 3}}
    (path / "open_clip_config.json").write_text(json.dumps(config))
    return path


@pytest.fixture(scope="module")
def matcher(folder):
    return OpenClipMatcher.from_pretrained(folder, batch_size=2)


def pictures(count: int) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.integers(0, 255, (10 + i, 12, 3)).astype(np.uint8) for i in range(count)]


def test_embeddings_have_length_one(matcher):
    for rows in (matcher.encode_images(pictures(3)), matcher.encode_texts(["red cube", "ball"])):
        assert rows.dtype == np.float32 and rows.shape[1] == 8
        np.testing.assert_allclose(np.linalg.norm(rows, axis=1), 1, rtol=1e-4)


def test_a_batch_changes_nothing(matcher):
    together = matcher.encode_images(pictures(3))
    alone = np.concatenate([matcher.encode_images([picture]) for picture in pictures(3)])
    np.testing.assert_allclose(together, alone, atol=1e-5)


def test_texts_differ(matcher):
    red, blue = matcher.encode_texts(["red cube", "blue cube"])
    assert not np.allclose(red, blue, atol=1e-3)


def test_it_plays_its_role(matcher, folder):
    assert isinstance(matcher, Matcher)
    assert matcher.model_id.startswith(folder.name + "@")
    assert matcher.logit_scale == pytest.approx(1 / 0.07, rel=1e-2)
    assert len(matcher.encode_images([])) == 0


@pytest.mark.parametrize("source", ["empty", "no-such-architecture"])
def test_nothing_to_load_is_a_model_error(tmp_path, source):
    (tmp_path / "empty").mkdir()
    name = tmp_path / "empty" if source == "empty" else source
    with pytest.raises(ModelError, match="cannot be loaded as"):
        OpenClipMatcher.from_pretrained(name)


def test_it_keeps_to_its_role(matcher):
    check_matcher(matcher)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_half_precision_answers(folder, dtype):
    half = OpenClipMatcher.from_pretrained(folder, dtype=dtype, device="cpu")
    check_matcher(half, tolerance=5e-2)


def test_one_line_of_a_profile_gives_it_its_role(folder, tmp_path):
    line = f'{{ backend = "open_clip", model = "{folder}" }}'
    assert answer_with("matcher", line, tmp_path) in ("red cube", "how far")

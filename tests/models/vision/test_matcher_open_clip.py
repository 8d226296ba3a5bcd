"""The matcher backend on a tiny open_clip checkpoint."""

import json
import shutil

import numpy as np
import pytest

from tests.hub.server import serve
from tests.models.vision.swapping import answer_with
from viper.errors import ModelError, ProfileError
from viper.models.vision.matcher_open_clip import OpenClipMatcher, published_weights
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


@pytest.fixture
def hub(monkeypatch, tmp_path, folder):
    """A hub with the checkpoint, as the weights of an architecture of open_clip as well."""
    import open_clip

    tags = {
        "openai": {"hf_hub": "org/clip/", "quick_gelu": True},
        "other": {"hf_hub": "org/other/pytorch_model.bin"},
    }
    monkeypatch.setitem(open_clip.pretrained._PRETRAINED, "tiny", tags)
    with serve() as running:
        running.use(monkeypatch, tmp_path / "cache")
        running.add("org/clip", folder)
        files = {path.name: path.read_bytes() for path in folder.iterdir()}
        files["model.safetensors"] = files.pop("open_clip_model.safetensors")
        running.add("org/other", files | {"config.json": b"{}"})
        yield running


def activations(matcher) -> set[str]:
    towers = matcher._model.visual.transformer, matcher._model.transformer
    return {type(block.mlp.gelu).__name__ for tower in towers for block in tower.resblocks}


@pytest.mark.parametrize(
    ("source", "more", "activation"),
    [
        ("tiny", {"pretrained": "openai"}, "QuickGELU"),
        ("hf-hub:org/clip", {}, "QuickGELU"),
        ("tiny", {"pretrained": "other"}, "GELU"),
    ],
)
def test_both_towers_have_the_activation_that_the_weights_want(hub, source, more, activation):
    matcher = OpenClipMatcher.from_pretrained(source, device="cpu", **more)
    assert activations(matcher) == {activation}
    name = "org/other" if activation == "GELU" else "org/clip"
    assert matcher.model_id == f"{name}@{hub.repositories[name].commit[:12]}"


def test_activations_of_published_weights_are_known():
    name = "hf-hub:timm/vit_large_patch14_clip_224.openai"
    assert published_weights("ViT-L-14", "openai") == (name, True)
    assert published_weights("ViT-B-32", "laion2b_s34b_b79k")[1] is False
    with pytest.raises(ModelError, match="no weights 'nobody' of ViT-L-14; known: openai, "):
        published_weights("ViT-L-14", "nobody")


@pytest.mark.parametrize(
    ("source", "more"), [("hf-hub:org/clip", {}), ("tiny", {"pretrained": "openai"})]
)
def test_local_only_asks_no_hub(hub, source, more):
    with pytest.raises(ModelError, match="org/clip is not on this disk .* local_only forbids"):
        OpenClipMatcher.from_pretrained(source, local_only=True, device="cpu", **more)
    assert hub.requests == []
    OpenClipMatcher.from_pretrained(source, device="cpu", **more)
    hub.requests.clear()
    OpenClipMatcher.from_pretrained(source, device="cpu", **more)
    OpenClipMatcher.from_pretrained(source, local_only=True, device="cpu", **more)
    assert hub.requests == []


def test_code_of_a_tokenizer_is_not_asked_about(folder, tmp_path, monkeypatch):
    def asked(prompt=""):
        raise AssertionError(f"asked on standard input: {prompt}")

    monkeypatch.setattr("builtins.input", asked)
    own = tmp_path / "own"
    shutil.copytree(folder, own)
    config = {"tokenizer_class": "Own", "auto_map": {"AutoTokenizer": [None, "own.Own"]}}
    (own / "tokenizer_config.json").write_text(json.dumps(config))
    (own / "tokenizer.json").unlink()
    (own / "own.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nclass Own: pass\n")
    with pytest.raises(ModelError, match="cannot be loaded as an open_clip model"):
        OpenClipMatcher.from_pretrained(own, device="cpu")
    assert not (tmp_path / "ran").exists()


def test_options_that_open_clip_does_not_honour_are_named(folder):
    with pytest.raises(ProfileError, match="takes no option device_map, quantize"):
        OpenClipMatcher.from_pretrained(folder, quantize="4bit", device_map="auto")


def test_tokenizer_that_pads_left_is_refused(folder, monkeypatch):
    import open_clip

    class Tokenizer:
        tokenizer = type("SigLip2", (), {"padding_side": "left"})()

    monkeypatch.setattr(open_clip, "get_tokenizer", lambda *_: Tokenizer())
    with pytest.raises(ModelError, match='pads texts on the left.*"padding_side": "right"'):
        OpenClipMatcher.from_pretrained(folder, device="cpu")

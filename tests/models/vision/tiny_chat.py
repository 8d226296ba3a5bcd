"""Tiny chat vision-language checkpoints of several families, random weights from a fixed seed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

SPECIAL = ["<pad>", "<unk>", "<s>", "</s>"]
IMAGE_MARKS = [
    "<image>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|image_pad|>",
    "<|video_pad|>",
    "<fake_token_around_image>",
    "<global-img>",
    "<end_of_utterance>",
]
TEXT = """yes Yes no No what is this the a red blue cube ball . , : ? ! ; user assistant picture
frames happens one two not in answer rolls falls still"""
VOCABULARY = {word: index for index, word in enumerate([*SPECIAL, *IMAGE_MARKS, *TEXT.split()])}

LLAVA_TEMPLATE = (
    "{% for message in messages %}user : "
    "{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<image>{% else %}{{ part['text'] }}{% endif %}"
    "{% endfor %}{% endfor %}{% if add_generation_prompt %} assistant :{% endif %}"
)
QWEN_TEMPLATE = LLAVA_TEMPLATE.replace("<image>", "<|vision_start|><|image_pad|><|vision_end|>")


def take_cut_replies(monkeypatch: Any) -> None:
    """Let the limit of tokens end a reply, because random weights end none."""
    from viper.models.llm.replies import without_reasoning
    from viper.models.vision.chat_vlm import ChatVLM

    monkeypatch.setattr(
        ChatVLM, "whole_text", lambda _, reply: without_reasoning(reply.text).strip()
    )


def pictures(count: int, height: int = 20, width: int = 24, seed: int = 0) -> list[Any]:
    """Random pictures ``uint8 [height, width, 3]``, read-only as a caller may hand them over."""
    rng = np.random.default_rng(seed)
    made = [rng.integers(0, 256, (height, width, 3)).astype(np.uint8) for _ in range(count)]
    for picture in made:
        picture.setflags(write=False)
    return made


def clip(frames: int, height: int = 20, width: int = 24, seed: int = 1) -> Any:
    """A random clip ``uint8 [frames, height, width, 3]``, read-only."""
    rng = np.random.default_rng(seed)
    made = rng.integers(0, 256, (frames, height, width, 3)).astype(np.uint8)
    made.setflags(write=False)
    return made


def word_tokenizer() -> Any:
    """A word-level tokenizer whose special tokens are those of every family here."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    backend = Tokenizer(models.WordLevel(VOCABULARY, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.decoder = decoders.WordPiece(prefix="##")
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token="<pad>",
        unk_token="<unk>",
        bos_token="<s>",
        eos_token="</s>",
        additional_special_tokens=IMAGE_MARKS,
    )


_TEXT_SIZES = {
    "vocab_size": len(VOCABULARY),
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 1024,
    "initializer_range": 0.6,
    "bos_token_id": VOCABULARY["<s>"],
    "eos_token_id": VOCABULARY["</s>"],
    "pad_token_id": VOCABULARY["<pad>"],
}


UNWRITTEN = [VOCABULARY[mark] for mark in IMAGE_MARKS]
"""Tokens that no reply holds: what a trained model never writes."""


def _save(model: Any, folder: Path) -> None:
    model.generation_config.suppress_tokens = UNWRITTEN
    model.save_pretrained(folder)


def llava(folder: Path, *, chat_template: str | None = LLAVA_TEMPLATE) -> Path:
    """CLIP's image tower before Llama; every picture takes 4 tokens."""
    import torch
    from transformers import (
        CLIPImageProcessor,
        CLIPVisionConfig,
        LlamaConfig,
        LlavaConfig,
        LlavaForConditionalGeneration,
        LlavaProcessor,
    )

    torch.manual_seed(0)
    vision = CLIPVisionConfig(
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        image_size=16,
        patch_size=8,
        initializer_range=0.5,
    )
    config = LlavaConfig(
        vision_config=vision,
        text_config=LlamaConfig(**_TEXT_SIZES),
        image_token_index=VOCABULARY["<image>"],
    )
    _save(LlavaForConditionalGeneration(config), folder)
    side = {"height": 16, "width": 16}
    LlavaProcessor(
        CLIPImageProcessor(size={"shortest_edge": 16}, crop_size=side),
        word_tokenizer(),
        patch_size=8,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=chat_template,
    ).save_pretrained(folder)
    return folder


def qwen2_vl(folder: Path) -> Path:
    """Qwen2-VL: pictures of any size, as many tokens as they have patches."""
    import torch
    from transformers import (
        Qwen2VLConfig,
        Qwen2VLForConditionalGeneration,
        Qwen2VLImageProcessor,
        Qwen2VLProcessor,
        Qwen2VLVideoProcessor,
    )

    torch.manual_seed(0)
    text = {**_TEXT_SIZES, "rope_parameters": {"rope_type": "default", "mrope_section": [1, 1, 2]}}
    vision = {
        "depth": 2,
        "embed_dim": 16,
        "hidden_size": 32,
        "num_heads": 2,
        "patch_size": 4,
        "mlp_ratio": 2,
        "initializer_range": 0.3,
    }
    config = Qwen2VLConfig(
        text_config=text,
        vision_config=vision,
        image_token_id=VOCABULARY["<|image_pad|>"],
        video_token_id=VOCABULARY["<|video_pad|>"],
        vision_start_token_id=VOCABULARY["<|vision_start|>"],
        vision_end_token_id=VOCABULARY["<|vision_end|>"],
    )
    _save(Qwen2VLForConditionalGeneration(config), folder)
    sizes = {
        "patch_size": 4,
        "merge_size": 2,
        "size": {"shortest_edge": 8 * 8, "longest_edge": 24 * 24},
    }
    Qwen2VLProcessor(
        Qwen2VLImageProcessor(**sizes),
        word_tokenizer(),
        Qwen2VLVideoProcessor(**sizes),
        chat_template=QWEN_TEMPLATE,
    ).save_pretrained(folder)
    return folder


def qwen3_vl(folder: Path, *, head_dim: int = 8) -> Path:
    """Qwen3-VL: as Qwen2-VL, with features of early layers added to the text's."""
    import torch
    from transformers import (
        Qwen2VLImageProcessor,
        Qwen3VLConfig,
        Qwen3VLForConditionalGeneration,
        Qwen3VLProcessor,
        Qwen3VLVideoProcessor,
    )

    torch.manual_seed(0)
    sections = [head_dim // 4, head_dim // 8, head_dim // 8]
    rope = {"rope_type": "default", "mrope_section": sections, "mrope_interleaved": True}
    text = {**_TEXT_SIZES, "head_dim": head_dim, "rope_parameters": rope}
    vision = {
        "depth": 2,
        "hidden_size": 16,
        "intermediate_size": 32,
        "out_hidden_size": 32,
        "num_heads": 2,
        "patch_size": 4,
        "num_position_embeddings": 64,
        "deepstack_visual_indexes": [0],
        "initializer_range": 0.3,
    }
    config = Qwen3VLConfig(
        text_config=text,
        vision_config=vision,
        image_token_id=VOCABULARY["<|image_pad|>"],
        video_token_id=VOCABULARY["<|video_pad|>"],
        vision_start_token_id=VOCABULARY["<|vision_start|>"],
        vision_end_token_id=VOCABULARY["<|vision_end|>"],
    )
    _save(Qwen3VLForConditionalGeneration(config), folder)
    sizes = {
        "patch_size": 4,
        "merge_size": 2,
        "size": {"shortest_edge": 8 * 8, "longest_edge": 24 * 24},
    }
    Qwen3VLProcessor(
        Qwen2VLImageProcessor(**sizes),
        word_tokenizer(),
        Qwen3VLVideoProcessor(**sizes),
        chat_template=QWEN_TEMPLATE,
    ).save_pretrained(folder)
    return folder


def idefics3(folder: Path) -> Path:
    """Idefics3 (and SmolVLM, its like): pictures in pieces, padded to equal counts in a batch."""
    import torch
    from transformers import (
        Idefics3Config,
        Idefics3ForConditionalGeneration,
        Idefics3ImageProcessor,
        Idefics3Processor,
    )

    torch.manual_seed(0)
    vision = {
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "image_size": 16,
        "patch_size": 4,
        "initializer_range": 0.5,
    }
    config = Idefics3Config(
        text_config={"model_type": "llama", **_TEXT_SIZES},
        vision_config=vision,
        image_token_id=VOCABULARY["<image>"],
        scale_factor=2,
    )
    _save(Idefics3ForConditionalGeneration(config), folder)
    pieces = Idefics3ImageProcessor(
        size={"longest_edge": 32}, max_image_size={"longest_edge": 16}, do_image_splitting=True
    )
    Idefics3Processor(
        pieces, word_tokenizer(), image_seq_len=4, chat_template=LLAVA_TEMPLATE
    ).save_pretrained(folder)
    return folder


FAMILIES: dict[str, Callable[[Path], Path]] = {
    "llava": llava,
    "qwen2_vl": qwen2_vl,
    "qwen3_vl": qwen3_vl,
    "idefics3": idefics3,
}

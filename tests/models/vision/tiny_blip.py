"""An untrained BLIP answerer of the published architecture, as a checkpoint on disk."""

from __future__ import annotations

from pathlib import Path

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[DEC]", "[SEP]", "what", "is", "this", "red", "cube", "?"]


def tiny_blip(path: Path) -> Path:
    """The folder with a model, its image processor and a tokenizer of :data:`WORDS`."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import (
        BlipConfig,
        BlipForQuestionAnswering,
        BlipImageProcessor,
        PreTrainedTokenizerFast,
    )

    torch.manual_seed(0)
    backend = Tokenizer(
        models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]")
    )
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 4)]
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        bos_token="[DEC]",
    )
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1}
    text = sizes | {
        "vocab_size": len(WORDS),
        "num_attention_heads": 2,
        "bos_token_id": 3,
        "eos_token_id": 4,
        "sep_token_id": 4,
        "pad_token_id": 0,
        "initializer_range": 0.5,
    }
    vision = sizes | {
        "num_attention_heads": 2,
        "image_size": 16,
        "patch_size": 8,
        "initializer_range": 0.5,
    }
    BlipForQuestionAnswering(BlipConfig(text_config=text, vision_config=vision)).save_pretrained(
        path
    )
    BlipImageProcessor(size={"height": 16, "width": 16}).save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path

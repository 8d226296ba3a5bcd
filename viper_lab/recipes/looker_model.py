"""The parts of the embedded model that sees: processor, tokenizer and untrained weights."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from viper_lab.recipes.looker_episodes import AT_ONCE
from viper_lab.recipes.vqa import grid_positions
from viper_lab.world.fine.kinds import WORDINGS, fine_sample

CONFIG = tomllib.loads(Path(__file__).with_name("looker.toml").read_text("utf-8"))
SIDE, PATCH = CONFIG["vision"]["image_size"], CONFIG["vision"]["patch_size"]
PICTURE_TOKENS = (SIDE // PATCH) ** 2

PAD, END, IMAGE, USER, ASSISTANT = "<pad>", "<end>", "<image>", "<user>", "<assistant>"

TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<user>' if message['role'] == 'user' else '<assistant>' }}"
    "{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<image>{% else %}{{ part['text'] }}{% endif %}"
    "{% endfor %}<end>{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


def build_processor(seed: int = 0) -> Any:
    """Return the processor: tokenizer, image processor and chat template."""
    from transformers import LlavaProcessor, SiglipImageProcessor

    return LlavaProcessor(
        image_processor=SiglipImageProcessor(
            size={"height": SIDE, "width": SIDE}, image_mean=[0.5] * 3, image_std=[0.5] * 3
        ),
        tokenizer=_tokenizer(seed),
        patch_size=PATCH,
        vision_feature_select_strategy="full",
        chat_template=TEMPLATE,
        image_token=IMAGE,
        num_additional_image_tokens=0,
    )


def build_model(tokenizer: Any) -> Any:
    """Return an untrained model; positions of the tower begin as a grid."""
    from transformers import (
        LlamaConfig,
        LlavaConfig,
        LlavaForConditionalGeneration,
        SiglipVisionConfig,
    )

    text = LlamaConfig(
        vocab_size=len(tokenizer),
        pad_token_id=tokenizer.pad_token_id,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        **CONFIG["text"],
    )
    config = LlavaConfig(
        vision_config=SiglipVisionConfig(**CONFIG["vision"]),
        text_config=text,
        image_token_index=tokenizer.convert_tokens_to_ids(IMAGE),
        vision_feature_select_strategy="full",
        vision_feature_layer=-1,
        image_seq_length=PICTURE_TOKENS,
        tie_word_embeddings=True,
    )
    model = LlavaForConditionalGeneration(config)
    embeddings = model.model.vision_tower.embeddings
    side = SIDE // PATCH
    with torch.no_grad():
        embeddings.position_embedding.weight.copy_(
            0.3 * grid_positions(side, side, CONFIG["vision"]["hidden_size"])
        )
        embeddings.patch_embedding.weight.normal_(0, (3 * PATCH * PATCH) ** -0.5)
    return model


def _tokenizer(seed: int) -> Any:
    """Return a byte-level tokenizer trained on the texts of episodes; digits stay apart."""
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=CONFIG["training"]["vocabulary"],
        special_tokens=[PAD, END, IMAGE, USER, ASSISTANT],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    samples = [fine_sample("train", seed + 1_000, index) for index in range(350)]
    texts = [text for one in samples for text in (one.question, *one.plan, one.one_shot)]
    texts += (text for wordings in WORDINGS["train"].values() for text in wordings)
    words = (f"# question: # turns: # options:\n# {AT_ONCE}\n", "<result>\n(nothing)\n</result>")
    tokenizer.train_from_iterator([*texts, *words * 50], trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=END,
        additional_special_tokens=[IMAGE, USER, ASSISTANT],
        model_max_length=CONFIG["text"]["max_position_embeddings"],
        padding_side="left",
        clean_up_tokenization_spaces=False,
    )

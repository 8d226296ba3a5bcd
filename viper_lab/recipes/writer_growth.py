"""A larger program writer that starts out equal to a smaller one.

New layers add nothing at first, because their output projections are zero; new whole-word tokens
start as the mean of the pieces that they replace. So nothing that was learned is lost.
"""

from __future__ import annotations

import copy
import json
from collections import Counter
from collections.abc import Iterable
from typing import Any

import torch
from tokenizers import Tokenizer

# Layers of the smaller model that are followed by a new one.
NEW_AFTER = (2, 3, 4)


def grown_tokenizer(tokenizer: Tokenizer, texts: Iterable[str], words: int) -> Tokenizer:
    """Return a tokenizer with the texts' most common words as further tokens; old ids are kept."""
    plan = json.loads(tokenizer.to_str())
    vocab: dict[str, int] = plan["model"]["vocab"]
    counts: Counter[str] = Counter()
    for text in texts:
        normal = tokenizer.normalizer.normalize_str(text)
        counts.update(piece for piece, _ in tokenizer.pre_tokenizer.pre_tokenize_str(normal))
    new = [piece for piece, _ in counts.most_common() if piece not in vocab and len(piece) > 2]
    for piece in new[:words]:
        vocab[piece] = len(vocab)
    return Tokenizer.from_str(json.dumps(plan))


def grown_writer(
    model: Any, old: Tokenizer, new: Tokenizer, after: Iterable[int] = NEW_AFTER
) -> Any:
    """Return a model with the new tokenizer's vocabulary and a new layer after each of ``after``.

    Its output equals the old model's on every text whose tokens are the same in both.
    """
    after = tuple(layer for layer in after if layer < model.config.num_hidden_layers)
    config = copy.deepcopy(model.config)
    config.num_hidden_layers = model.config.num_hidden_layers + len(after)
    config.vocab_size = new.get_vocab_size()
    larger = type(model)(config).to(torch.float32)
    sources: list[tuple[int, bool]] = []  # the layer to copy, and whether it adds nothing
    for source in range(model.config.num_hidden_layers):
        sources += [(source, False), (source, True)] if source in after else [(source, False)]
    state = model.float().state_dict()
    with torch.no_grad():
        for place, (source, is_new) in enumerate(sources):
            layer = larger.model.layers[place]
            prefix = f"model.layers.{source}."
            layer.load_state_dict(
                {
                    name.removeprefix(prefix): value
                    for name, value in state.items()
                    if name.startswith(prefix)
                }
            )
            if is_new:
                for projection in (layer.self_attn.o_proj, layer.mlp.down_proj):
                    for parameter in projection.parameters():
                        parameter.zero_()
        larger.model.norm.load_state_dict(model.model.norm.state_dict())
        _grow_rows(larger.model.embed_tokens.weight, model.model.embed_tokens.weight, old, new)
        _grow_rows(larger.lm_head.weight, model.lm_head.weight, old, new)
    larger.generation_config = copy.deepcopy(model.generation_config)
    return larger


def _grow_rows(larger: torch.Tensor, smaller: torch.Tensor, old: Tokenizer, new: Tokenizer) -> None:
    """Copy the rows of known tokens; a new token starts as the mean of its old pieces."""
    larger[: len(smaller)] = smaller.float()
    for index in range(len(smaller), len(larger)):
        piece = new.id_to_token(index)
        pieces = old.model.tokenize(piece)
        larger[index] = torch.stack([smaller[part.id].float() for part in pieces]).mean(0)

"""A small CLIP tokenizer trained offline on the phrases of the embedded world.

The stock vocabulary of 49,408 entries would outweigh the models. This one is the same kind of
tokenizer with some 600 entries. Every byte can still be encoded, so a word outside the world gets
pieces and never an unknown token.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from tokenizers import Tokenizer
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel
from tokenizers.trainers import BpeTrainer
from transformers import CLIPTokenizer

PAD, BOS, EOS = "<|pad|>", "<|startoftext|>", "<|endoftext|>"

WORD_END = "</w>"


def train_tokenizer(texts: Sequence[str], merges: int, max_length: int = 16) -> CLIPTokenizer:
    """Train a CLIP tokenizer whose merges come from ``texts``.

    Ids follow the assumptions of CLIP-like text towers: padding is 0, the start token is not 0, and
    the end token has the largest id (the towers pool at the largest id).

    Args:
        texts: the corpus; a word that is frequent enough becomes one token.
        merges: maximum number of merges.
        max_length: tokens that the text tower takes, start and end included.
    """
    letters = sorted(ByteLevel.alphabet())
    trained = _learn_merges(texts, merges)
    pieces = [PAD, BOS, *letters, *(letter + WORD_END for letter in letters)]
    unique = set(pieces)
    for left, right in trained:
        if left + right not in unique:
            pieces.append(left + right)
            unique.add(left + right)
    pieces.append(EOS)
    pairs: list[Any] = list(trained)
    return CLIPTokenizer(
        vocab={piece: index for index, piece in enumerate(pieces)},
        merges=pairs,
        unk_token=EOS,
        bos_token=BOS,
        eos_token=EOS,
        pad_token=PAD,
        model_max_length=max_length,
    )


def _learn_merges(texts: Iterable[str], merges: int) -> list[tuple[str, str]]:
    """Return the first byte-pair merges of the corpus, most frequent pair first."""
    stock = CLIPTokenizer().backend_tokenizer
    tokenizer = Tokenizer(BPE(end_of_word_suffix=WORD_END))
    tokenizer.normalizer = stock.normalizer
    tokenizer.pre_tokenizer = stock.pre_tokenizer
    # The vocabulary starts with the letters, alone and at a word's end; merges come after them.
    trainer = BpeTrainer(
        vocab_size=merges + 60, end_of_word_suffix=WORD_END, min_frequency=1, show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    pairs = json.loads(tokenizer.to_str())["model"]["merges"]
    return [(left, right) for left, right in pairs[:merges]]

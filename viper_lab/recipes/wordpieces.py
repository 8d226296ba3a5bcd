"""A tokenizer whose pieces are the world's words, with letters for everything else.

Published vocabularies of 30,000 or 49,000 pieces would outweigh these models many times over.
"""

from __future__ import annotations

import string
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

PAD, UNKNOWN = "[PAD]", "[UNK]"
_SPECIAL = ("pad", "bos", "eos")


@dataclass(frozen=True)
class SpecialPieces:
    """Special pieces of a model family.

    Attributes:
        begin: starts every text.
        end: ends every text.
        decode: first input of an answer decoder, or None.
        end_is_last: give ``end`` the largest id, where CLIP's pooling looks for it.
    """

    begin: str
    end: str
    decode: str | None = None
    end_is_last: bool = False


CLIP_MARKS = SpecialPieces(begin="[BOS]", end="[EOS]", end_is_last=True)
BLIP_MARKS = SpecialPieces(begin="[CLS]", end="[SEP]", decode="[DEC]")


def word_tokenizer(words: Iterable[str], marks: SpecialPieces) -> Any:
    """Build a ``transformers`` fast tokenizer: lower-cased words, split punctuation; PAD is 0."""
    from transformers import PreTrainedTokenizerFast

    vocabulary = {piece: index for index, piece in enumerate(_pieces(words, marks))}
    backend = Tokenizer(models.WordPiece(vocabulary, unk_token=UNKNOWN))
    backend.normalizer = normalizers.BertNormalizer(lowercase=True)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    backend.post_processor = processors.TemplateProcessing(
        single=f"{marks.begin} $A {marks.end}",
        special_tokens=[(mark, vocabulary[mark]) for mark in (marks.begin, marks.end)],
    )

    backend.decoder = decoders.WordPiece()
    names = {"bos_token": marks.decode or marks.begin, "eos_token": marks.end}
    if marks.decode is not None:
        names |= {"cls_token": marks.begin, "sep_token": marks.end}
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, pad_token=PAD, unk_token=UNKNOWN, padding_side="right", **names
    )


def token_ids(tokenizer: Any) -> dict[str, int]:
    """Return a tokenizer's vocabulary size and special ids as configurations take them."""
    ids = {f"{name}_token_id": getattr(tokenizer, f"{name}_token_id") for name in _SPECIAL}
    return {"vocab_size": len(tokenizer), **ids}


def _pieces(words: Iterable[str], marks: SpecialPieces) -> Sequence[str]:
    """Return pieces in order of id."""
    special = [PAD, UNKNOWN, marks.begin, *([marks.decode] if marks.decode else [])]
    signs = [*string.ascii_lowercase, *string.digits, *".,;:?!'\"-_()"]
    inner = [f"##{sign}" for sign in string.ascii_lowercase + string.digits]
    whole = sorted({word for word in words if len(word) > 1})
    end = [marks.end]
    if marks.end_is_last:
        return [*special, *signs, *inner, *whole, *end]
    return [*special, *end, *signs, *inner, *whole]

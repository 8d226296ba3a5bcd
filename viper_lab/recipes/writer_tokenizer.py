"""The program writer's tokenizer: few tokens, and the same pieces for a word in every position.

A small model copies an unseen word only if the word has the same pieces in the prompt and in the
output. So every word carries its own start mark instead of the space before it: ``cube`` is the
same piece after a space, a quote, a dot or a bracket. A space between two words costs no token;
decoding restores it. Identifiers split at ``_``, which marks the start of the next part; a final
plural ``s`` is a separate piece; a newline with its indentation and comment sign is one piece.

Frequent words are whole tokens. All merges are learned from made-up words, so that an unseen name
falls into well trained pieces. Bytes represent anything else.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

PAD, BOS, EOS = "<pad>", "<s>", "</s>"
WORD_MARK = "▁"
PRINTABLE = tuple(chr(code) for code in range(32, 127))

# A plural "s" is split off only after three letters, and never from these words.
_WHOLE_WITH_S = "this|has|does|was|always|across|axis|yes|less|class|is"
_PLURAL = (
    rf"(?![▁_](?:{_WHOLE_WITH_S})(?![A-Za-z]))[▁_][A-Za-z]{{2,}}?[A-RT-Za-rt-z](?=s(?![A-Za-z]))"
)
_PIECES = rf"{_PLURAL}|[▁_]?[A-Za-z]+|\d|\n\n|\n *(?:# )?|[^A-Za-z0-9\n▁_]+|."


def build_tokenizer(
    texts: Iterable[str], made_up: Iterable[str], *, whole_words: int = 340, merges: int = 200
) -> Tokenizer:
    """Build a tokenizer for texts like these.

    Args:
        texts: documents without made-up words; their most common pieces become whole tokens.
        made_up: invented words, the only source of the merges.
        whole_words: maximum number of pieces that become whole tokens.
        merges: number of merges to learn.
    """
    parts = _empty_pipeline()
    learned_vocab, learned_merges = _learn_merges(parts, made_up, merges)
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(_pieces(parts, text))
    frequent = [piece for piece, count in counts.most_common() if count >= 5 and len(piece) > 1]
    tokens = [PAD, BOS, EOS, *(f"<0x{byte:02X}>" for byte in range(256))]
    tokens += [*PRINTABLE, "\n", WORD_MARK, *learned_vocab, *frequent[:whole_words]]
    vocab = {token: index for index, token in enumerate(dict.fromkeys(tokens))}

    model = models.BPE(vocab=vocab, merges=learned_merges, byte_fallback=True, ignore_merges=True)
    tokenizer = Tokenizer(model)
    tokenizer.normalizer = parts.normalizer
    tokenizer.pre_tokenizer = parts.pre_tokenizer
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Replace(Regex(r"(?<=[A-Za-z])▁"), " "),
            decoders.Replace(WORD_MARK, ""),
        ]
    )
    tokenizer.add_special_tokens([PAD, BOS, EOS])
    return tokenizer


def save_tokenizer(tokenizer: Tokenizer, folder: Path, *, max_length: int) -> None:
    """Write the files for ``AutoTokenizer``."""
    from transformers import PreTrainedTokenizerFast

    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        bos_token=BOS,
        eos_token=EOS,
        model_max_length=max_length,
        padding_side="left",
        clean_up_tokenization_spaces=False,
    ).save_pretrained(folder)


def load_tokenizer(folder: Path) -> Tokenizer:
    """Load the bare tokenizer of a saved folder, with padding and truncation off."""
    return Tokenizer.from_file(str(folder / "tokenizer.json"))


def _empty_pipeline() -> Tokenizer:

    pipeline = Tokenizer(models.BPE())
    pipeline.normalizer = normalizers.Sequence(
        [
            normalizers.Replace(Regex(r"(?<=[A-Za-z]) (?=[A-Za-z])"), WORD_MARK),
            normalizers.Replace(Regex(r"(?<![A-Za-z_▁])(?=[A-Za-z])"), WORD_MARK),
        ]
    )
    pipeline.pre_tokenizer = pre_tokenizers.Split(Regex(_PIECES), "isolated")
    return pipeline


def _pieces(pipeline: Tokenizer, text: str) -> list[str]:
    normal = pipeline.normalizer.normalize_str(text)
    return [piece for piece, _ in pipeline.pre_tokenizer.pre_tokenize_str(normal)]


def _learn_merges(
    pipeline: Tokenizer, made_up: Iterable[str], merges: int
) -> tuple[list[str], list[tuple[str, str]]]:
    """Return the vocabulary and merges of a BPE over invented words alone."""
    learner = Tokenizer.from_str(pipeline.to_str())
    letters = [chr(code) for code in (*range(65, 91), *range(97, 123))]
    alphabet = [*letters, WORD_MARK, "_"]
    trainer = trainers.BpeTrainer(
        vocab_size=len(alphabet) + merges, initial_alphabet=alphabet, show_progress=False
    )
    learner.train_from_iterator(made_up, trainer)
    trained = json.loads(learner.to_str())["model"]
    ordered = sorted(trained["vocab"], key=trained["vocab"].__getitem__)
    pairs = [tuple(m) if isinstance(m, list) else tuple(m.split(" ")) for m in trained["merges"]]
    return ordered, [(left, right) for left, right in pairs]

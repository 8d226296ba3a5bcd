"""Train the writer of this domain: sentences of the grammar with noise, and their programs.

    python examples/nlvr/recipe.py --out writer              from all rules
    python examples/nlvr/recipe.py --half 1 --out writer-1   from the rules of one half

After Ctrl-C the same line continues from its last checkpoint.
"""

from __future__ import annotations

import argparse
import string
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import torch
import transformers
from grammar import PROGRAM, read_grammar, sample
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from torch.nn.utils.rnn import pad_sequence

from viper.prompting.compact import END_OF_PROGRAM, compact_request
from viper_lab.recipes.optim import FitOptions, fit, save_half

VOCABULARY, BATCH = 900, 32
LONGEST_SENTENCE = 34  # in words; longer ones are drawn again
SMALL_WORDS = {"a", "an", "the", "is", "are", "of", "in", "with", "that", "and"}

Row = tuple[list[int], list[int]]  # tokens of a prompt and of its program


def drawn(half: int | None, seed: int) -> Iterator[tuple[str, str]]:
    """Yield prompts with noisy sentences, and their programs, without end."""
    grammar, random = read_grammar(half), Random(seed)
    while True:
        sentence, meaning = sample(grammar, random)
        if len(sentence.split()) <= LONGEST_SENTENCE:
            prompt = compact_request("statement", with_noise(sentence, random))
            yield prompt, PROGRAM.format(meaning) + END_OF_PROGRAM


def with_noise(sentence: str, random: Random) -> str:
    """Return a sentence with the slips of people: typos, lost or doubled words, joined words."""
    words = sentence.split()
    for _ in range(random.choice((0, 0, 0, 1, 1, 2))):
        at = random.randrange(len(words))
        word, letter = words[at], random.randrange(len(words[at]))
        slips = [
            word[:letter] + word[letter + 1 :],
            word[:letter] + word[letter] + word[letter:],
            word[:letter] + random.choice(string.ascii_lowercase) + word[letter + 1 :],
            word[:letter] + word[letter : letter + 2][::-1] + word[letter + 2 :],
            word.removesuffix("s") if word.endswith("s") else word + "s",
            f"{word} {word}",
            word + (words.pop(at + 1) if at + 1 < len(words) else ""),
            "" if word in SMALL_WORDS else word,
            random.choice(sorted(SMALL_WORDS)) + " " + word,
        ]
        words = " ".join([*words[:at], random.choice(slips), *words[at + 1 :]]).split()
    text = " ".join(words)
    return text + random.choice(("", ".", " ."))


def tokenizer_for(texts: list[str]) -> Any:
    """Return a tokenizer for such texts: words with the signs around them, else bytes."""
    tokenizer = Tokenizer(models.BPE())
    words = pre_tokenizers.Split(Regex(r"\n *| ?[^ \n]+"), "isolated")
    as_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([words, as_bytes])
    tokenizer.decoder = decoders.ByteLevel()
    special, letters = ["<pad>", "<s>", "</s>"], pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY, special_tokens=special, initial_alphabet=letters
    )
    tokenizer.train_from_iterator(texts, trainer)
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", bos_token="<s>", eos_token="</s>"
    )


def new_model(vocabulary: int, seed: int) -> Any:
    """Return an untrained model of 1.4 million parameters."""
    torch.manual_seed(seed)
    config = transformers.LlamaConfig(
        vocab_size=vocabulary, hidden_size=160, intermediate_size=432, num_hidden_layers=4,
        num_attention_heads=5, max_position_embeddings=512, tie_word_embeddings=True,
        pad_token_id=0, bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config)


def main() -> None:
    """Draw the texts, train, and write the weights in half precision."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True, help="folder of the weights")
    parser.add_argument("--half", type=int, choices=(1, 2), help="rules of this half alone")
    parser.add_argument("--samples", type=int, default=150_000, help="number of sentences")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    work = f"{options.out.name}.work/{options.half}-{options.samples}-{options.seed}.pt"
    source = drawn(options.half, options.seed)
    pairs = [next(source) for _ in range(options.samples)]
    tokenizer = tokenizer_for([query + program for query, program in pairs[:20_000]])
    rows = [(tokenizer.encode(query), tokenizer.encode(program)) for query, program in pairs]
    batches = alike(rows, Random(options.seed))
    model = new_model(len(tokenizer), options.seed)
    plan = FitOptions(len(batches), 3e-3, decay="tail", muon="model.layers")

    def loss_at(step: int) -> tuple[torch.Tensor, dict[str, float]]:
        loss = model(**tensors(batches[step])).loss
        return loss, {"loss": float(loss.detach())}

    save_half(fit(model, loss_at, plan, options.out.parent / work), options.out, tokenizer)


def alike(rows: list[Row], random: Random) -> list[list[Row]]:
    """Return batches of rows of similar length, in random order."""
    random.shuffle(rows)
    starts = range(0, len(rows), 64 * BATCH)
    chunks = [
        sorted(rows[at : at + 64 * BATCH], key=lambda row: len(sum(row, []))) for at in starts
    ]
    batches = [chunk[at : at + BATCH] for chunk in chunks for at in range(0, len(chunk), BATCH)]
    random.shuffle(batches)
    return batches


def tensors(rows: list[Row]) -> dict[str, torch.Tensor]:
    """Return a batch as the model takes it; only the program counts in the loss."""
    ids = [torch.tensor(query + program) for query, program in rows]
    labels = [torch.tensor([-100] * len(query) + program) for query, program in rows]
    tokens = pad_sequence(ids, batch_first=True)
    targets = pad_sequence(labels, batch_first=True, padding_value=-100)
    return {"input_ids": tokens, "attention_mask": (tokens != 0).long(), "labels": targets}


if __name__ == "__main__":
    main()

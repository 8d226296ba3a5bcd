"""Any causal language model that ``transformers`` can load, from a folder or a hub id.

Each prompt is read on its own and its keys and values are kept, so the long prefix that
prompts share (the API text, the examples) is read once. Samples are then decoded
together. Every sample draws from a generator of its own, seeded by (seed, prompt, sample
number): the same prompt gives the same samples in whatever batch it stands.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack

from viper.errors import UsageError
from viper.llm.lookup import LookupDraft
from viper.llm.protocol import Completion, Sampling
from viper.llm.scripted import cut_at_stop
from viper.tools.loading import Loading, LoadOptions, LocalModel, load_pretrained, load_processor

if TYPE_CHECKING:
    import torch
    from torch import Tensor

Template = Literal["plain", "chat", "auto"]

_STOP_WINDOW = 24
"""Tokens at the end of a text that are searched for a stop string."""

_GUESSES = 12
"""At most how many tokens are guessed ahead."""

_RECENT = 8
"""How many earlier texts guesses are taken from."""


class TransformersLLM(LocalModel):
    """A causal language model behind the :class:`viper.llm.LLM` protocol; thread-safe.

    Args:
        path: folder written by ``save_pretrained``, or a hub id.
        template: ``chat`` wraps a prompt as a user message, ``plain`` does not, ``auto``
            does so when the tokenizer has a chat template.
        kept_prompts: of how many prompts keys and values are kept for reuse.
        loading: device, precision and so on, see :class:`viper.tools.loading.LoadOptions`.

    Raises:
        ModelError: nothing loadable there.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        template: Template = "auto",
        kept_prompts: int = 4,
        **loading: Unpack[Loading],
    ) -> None:
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer

        options = LoadOptions(**loading)
        self._tokenizer: Any = load_processor(AutoTokenizer, path, options)
        self._torch = torch
        self._model: Any = load_pretrained(AutoModelForCausalLM, path, options)
        self._device = self._model.device
        if template == "auto":
            template = "chat" if self._tokenizer.chat_template else "plain"
        self._chat = template == "chat"
        self._stop_ids = _stop_ids(self._model, self._tokenizer)
        self._prefixes = _PrefixStore(kept_prompts)
        self._recent: deque[list[int]] = deque(maxlen=_RECENT)
        self._lock = threading.Lock()
        self.model_id = language_model_id(path, self._model)
        self.max_context = int(
            getattr(self._model.config, "max_position_embeddings", None) or 1 << 20
        )

    def generate(self, prompts: Sequence[str], sampling: Sampling) -> list[list[Completion]]:
        """``sampling.n`` completions for each prompt.

        Raises:
            UsageError: a prompt fills the whole context.
        """
        with self._lock, self._torch.inference_mode():
            rows: list[_Row] = []
            for prompt in prompts:
                ids = self._prompt_ids(prompt)
                prefill = self._read(ids)
                rows += [
                    _Row(ids, prefill, self._generator(sampling, prompt, i))
                    for i in range(sampling.n)
                ]
            self._decode(rows, sampling)
        done = [self._completion(row, sampling) for row in rows]
        return [done[i : i + sampling.n] for i in range(0, len(done), sampling.n)]

    def score(self, prompt: str, continuations: Sequence[str]) -> list[float]:
        """Mean log-likelihood per token of each continuation.

        Tokens are those of prompt and continuation together, since a tokenizer may join
        the two at the seam; what both share with the prompt alone is not scored.
        """
        if not continuations:
            return []
        head = self._wrapped(prompt)
        with self._lock, self._torch.inference_mode():
            wholes = [self._encode(head + text) for text in continuations]
            shared = min(_common(wholes[0], whole) for whole in wholes)
            shared = min(shared, len(self._encode(head)), min(map(len, wholes)) - 1)
            shared = max(1, shared)
            prefill = self._read(wholes[0][:shared])
            return self._score_tails(prefill, [whole[shared:] for whole in wholes])

    def count_tokens(self, text: str) -> int:
        """How many tokens the text takes, special tokens left out."""
        return len(self._tokenizer(text, add_special_tokens=False)["input_ids"])

    # --- text and tokens

    def _wrapped(self, prompt: str) -> str:
        if not self._chat:
            return prompt
        message = [{"role": "user", "content": prompt}]
        return str(
            self._tokenizer.apply_chat_template(message, tokenize=False, add_generation_prompt=True)
        )

    def _encode(self, text: str) -> list[int]:
        # A chat template writes its special tokens itself.
        return list(self._tokenizer(text, add_special_tokens=not self._chat)["input_ids"])

    def _prompt_ids(self, prompt: str) -> list[int]:
        ids = self._encode(self._wrapped(prompt))
        if not ids:
            raise UsageError("the prompt is empty; give the model at least one token")
        if len(ids) >= self.max_context:
            raise UsageError(
                f"the prompt takes {len(ids)} tokens and {self.model_id} holds "
                f"{self.max_context}; show fewer examples or a shorter query"
            )
        return ids

    def _text(self, ids: Sequence[int]) -> str:
        return str(self._tokenizer.decode(ids, skip_special_tokens=True))

    def _completion(self, row: _Row, sampling: Sampling) -> Completion:
        text = cut_at_stop(self._text(row.written), sampling.stop)
        reason = "stop" if row.stopped else "length"
        return Completion(text, len(row.prompt), len(row.written), reason)

    # --- reading

    def _read(self, ids: list[int]) -> _Prefill:
        """Keys, values and last logits of a prompt, reusing what an earlier one shares."""
        known, cache = self._prefixes.longest(ids)
        logits, cache = self._forward([ids[known:]], cache, known)
        prefill = _Prefill(ids, _snapshot(cache), logits[0, -1])
        if prefill.layers is None:
            prefill.cache = cache
        else:
            self._prefixes.keep(prefill)
        return prefill

    def _forward(
        self,
        ids: list[list[int]],
        cache: Any,
        start: int,
        *,
        mask: Tensor | None = None,
        positions: Tensor | None = None,
        last: int = 1,
    ) -> tuple[Tensor, Any]:
        """Logits ``[rows, last, vocabulary]`` and the grown cache; ``start`` tokens are in it."""
        torch = self._torch
        tokens = torch.tensor(ids, device=self._device)
        if positions is None:
            positions = torch.arange(start, start + tokens.shape[1], device=self._device)[None]
        output = self._model(
            input_ids=tokens,
            past_key_values=cache,
            attention_mask=mask,
            position_ids=positions,
            use_cache=True,
            logits_to_keep=last,
        )
        return output.logits.float(), output.past_key_values

    # --- decoding

    def _generator(self, sampling: Sampling, prompt: str, sample: int) -> torch.Generator | None:
        if sampling.temperature <= 0:
            return None
        name = f"{sampling.seed}\0{sample}\0{prompt}".encode()
        seed = int.from_bytes(hashlib.sha256(name).digest()[:7], "big")
        return self._torch.Generator().manual_seed(seed)

    def _decode(self, rows: list[_Row], sampling: Sampling) -> None:
        """Samples every row to its end; rows whose caches cannot be joined go prompt by prompt."""
        if not rows:
            return
        plain = all(row.prefill.layers is not None for row in rows)
        if plain and len(rows) == 1:
            self._decode_alone(rows[0], sampling)
            return
        size = len(rows) if plain else sampling.n
        for start in range(0, len(rows), size):
            self._decode_together(rows[start : start + size], sampling)

    def _decode_alone(self, row: _Row, sampling: Sampling) -> None:
        """One sample; several tokens a pass where the text repeats itself or an earlier one."""
        room = min(sampling.max_tokens, self.max_context - len(row.prompt))
        if room <= 0:
            return
        draft = LookupDraft(self._recent)
        draft.extend(row.prompt)
        cache = _joined([row.prefill], len(row.prompt))
        logits, guess = row.prefill.logits[None], list[int]()
        while True:
            for guessed, scores in zip([*guess, None], logits, strict=True):
                token = self._pick(scores[None], [row], sampling)[0]
                self._write(row, token, sampling)
                if row.stopped or len(row.written) == room:
                    self._recent.append(row.written)
                    return
                draft.extend([token])
                if token != guessed:
                    break
            # The last token written is not read yet; wrong guesses leave the cache.
            seen = len(row.prompt) + len(row.written) - 1
            wrong = cache.get_seq_length() - seen
            if wrong > 0:
                cache.crop(-wrong)
            guess = draft.propose(min(_GUESSES, room - len(row.written)))
            grown, cache = self._forward([[token, *guess]], cache, seen, last=0)
            logits = grown[0]

    def _decode_together(self, rows: list[_Row], sampling: Sampling) -> None:
        torch = self._torch
        longest = max(len(row.prompt) for row in rows)
        budget = min(sampling.max_tokens, self.max_context - longest)
        if budget <= 0:
            return
        cache = _joined([row.prefill for row in rows], longest)
        pads = torch.tensor([longest - len(row.prompt) for row in rows], device=self._device)
        padded = bool(pads.any())
        logits = torch.stack([row.prefill.logits for row in rows])
        live = list(rows)
        for step in range(budget):
            chosen = self._pick(logits, live, sampling)
            for row, token in zip(live, chosen, strict=True):
                self._write(row, token, sampling)
            going = [i for i, row in enumerate(live) if not row.stopped]
            if not going or step + 1 == budget:
                return
            if len(going) < len(live):
                index = torch.tensor(going, device=self._device)
                cache.batch_select_indices(index)
                pads, live = pads[index], [live[i] for i in going]
            seen = longest + step
            mask = None
            if padded:
                mask = (torch.arange(seen + 1, device=self._device)[None] >= pads[:, None]).long()
            positions = (seen - pads)[:, None]
            tokens = [[row.written[-1]] for row in live]
            grown, cache = self._forward(tokens, cache, seen, mask=mask, positions=positions)
            logits = grown[:, -1]

    def _pick(self, logits: Tensor, rows: list[_Row], sampling: Sampling) -> list[int]:
        torch = self._torch
        if sampling.temperature <= 0:
            return [int(token) for token in logits.argmax(-1)]
        weights = torch.softmax(logits / sampling.temperature, -1).cpu()
        return [
            int(torch.multinomial(weight, 1, generator=row.generator))
            for weight, row in zip(weights, rows, strict=True)
        ]

    def _write(self, row: _Row, token: int, sampling: Sampling) -> None:
        if token in self._stop_ids:
            row.stopped = True
            return
        row.written.append(token)
        if sampling.stop:
            tail = self._text(row.written[-_STOP_WINDOW:])
            row.stopped = any(mark in tail for mark in sampling.stop)

    # --- scoring

    def _score_tails(self, prefill: _Prefill, tails: list[list[int]]) -> list[float]:
        if prefill.layers is None:
            return [self._score_batch(self._read(prefill.ids), [tail])[0] for tail in tails]
        return self._score_batch(prefill, tails)

    def _score_batch(self, prefill: _Prefill, tails: list[list[int]]) -> list[float]:
        torch = self._torch
        width = max(map(len, tails))
        first = prefill.logits.log_softmax(-1)
        cache = _joined([prefill] * len(tails), len(prefill.ids))
        # Right padding: what stands after a row's end cannot reach its tokens.
        rows = [tail + [tail[-1]] * (width - len(tail)) for tail in tails]
        logits, _ = self._forward(rows, cache, len(prefill.ids), last=0)
        after = logits.log_softmax(-1)
        scores = []
        for index, tail in enumerate(tails):
            later = after[index, : len(tail) - 1]
            picked = later.gather(-1, torch.tensor(tail[1:], device=self._device)[:, None])
            scores.append(float((first[tail[0]] + picked.sum()) / len(tail)))
        return scores


@dataclass
class _Prefill:
    """A prompt that was read. ``layers``: keys and values a layer, ``[1, heads, length, dim]``.

    ``layers`` is None for models whose memory is not plain keys and values; then
    ``cache`` is that memory, good for one use.
    """

    ids: list[int]
    layers: list[tuple[Tensor, Tensor]] | None
    logits: Tensor
    cache: Any = None


@dataclass
class _Row:
    """One sample being written."""

    prompt: list[int]
    prefill: _Prefill
    generator: torch.Generator | None
    written: list[int] = field(default_factory=list)
    stopped: bool = False


class _PrefixStore:
    """The last prompts that were read; finds the one that shares the longest beginning."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._kept: OrderedDict[tuple[int, ...], _Prefill] = OrderedDict()

    def longest(self, ids: list[int]) -> tuple[int, Any]:
        """How many tokens are known (at least one is left to read), and a cache of them."""
        from transformers import DynamicCache

        best, source = 0, None
        for prefill in self._kept.values():
            shared = min(_common(ids, prefill.ids), len(ids) - 1)
            if shared > best:
                best, source = shared, prefill
        if source is None or source.layers is None:
            return 0, None
        self._kept.move_to_end(tuple(source.ids))
        return best, DynamicCache([(k[:, :, :best], v[:, :, :best]) for k, v in source.layers])

    def keep(self, prefill: _Prefill) -> None:
        key = tuple(prefill.ids)
        self._kept[key] = prefill
        self._kept.move_to_end(key)
        while len(self._kept) > self._size:
            self._kept.popitem(last=False)


def _snapshot(cache: Any) -> list[tuple[Tensor, Tensor]] | None:
    """The keys and values of a plain cache, or None for any other kind of memory."""
    from transformers.cache_utils import DynamicLayer

    layers = getattr(cache, "layers", None)
    if not layers or any(type(layer) is not DynamicLayer for layer in layers):
        return None
    return [(layer.keys, layer.values) for layer in layers]


def _joined(prefills: list[_Prefill], longest: int) -> Any:
    """One cache for all rows, padded on the left to ``longest`` tokens."""
    import torch
    from transformers import DynamicCache

    if prefills[0].layers is None:
        cache = prefills[0].cache
        cache.batch_repeat_interleave(len(prefills))
        return cache

    def pad(tensor: Tensor) -> Tensor:
        missing = longest - tensor.shape[2]
        return torch.nn.functional.pad(tensor, (0, 0, missing, 0)) if missing else tensor

    columns = zip(*(prefill.layers or [] for prefill in prefills), strict=True)
    return DynamicCache(
        [
            (torch.cat([pad(k) for k, _ in layer]), torch.cat([pad(v) for _, v in layer]))
            for layer in columns
        ]
    )


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    """The length of the common beginning."""
    for index, (a, b) in enumerate(zip(one, other, strict=False)):
        if a != b:
            return index
    return min(len(one), len(other))


def _stop_ids(model: Any, tokenizer: Any) -> frozenset[int]:
    """Every token that ends a text: the model's own and the tokenizer's."""
    listed = getattr(model.generation_config, "eos_token_id", None)
    ids = listed if isinstance(listed, list) else [listed]
    return frozenset(i for i in [*ids, tokenizer.eos_token_id] if i is not None)


def language_model_id(path: str | Path, model: Any) -> str:
    """``folder@hash of its safetensors`` for a folder, ``hub id@revision`` otherwise."""
    folder = Path(path)
    if not folder.is_dir():
        revision = getattr(model.config, "_commit_hash", None) or "unknown"
        return f"{path}@{revision[:12]}"
    digest = hashlib.sha256()
    for file in sorted(folder.glob("*.safetensors")):
        with file.open("rb") as stream:
            while block := stream.read(1 << 20):
                digest.update(block)
    return f"{folder.name}@{digest.hexdigest()[:12]}"

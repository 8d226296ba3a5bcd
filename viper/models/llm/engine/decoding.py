"""Writes samples token by token, all rows of a batch together.

Where the model allows it, the common beginning of the rows is kept once and several tokens
are guessed ahead (``engine.shared_prefix``); elsewhere the rows are padded on the
left, or go prompt by prompt.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any

from viper.models.llm.engine.reading import Prefill, PromptReader, joined, repeatable
from viper.models.llm.engine.shared_attention import agrees, forward
from viper.models.llm.engine.shared_prefix import Rows
from viper.models.llm.protocol import Sampling

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch
    from torch import Tensor

_STOP_WINDOW = 24
"""Tokens at the end of a text that are searched for a stop string."""

_GUESSES = 12
"""At most how many tokens are guessed ahead."""

_PASS_TOKENS = 48
"""About how many tokens one pass reads for all rows together, guesses among them."""

_RECENT = 8
"""How many earlier texts guesses are taken from."""


_BREAK = -1
"""Stands between texts that guesses are taken from."""


class LookupDraft:
    """Guesses the next tokens by looking up where the last ones stood before.

    Programs repeat their prompt: API lines come back as comments, names come back as calls.
    A guess costs nothing and is checked by the model in one pass over all guessed tokens, so
    the text is what it would have been without guessing, only in fewer passes.

    Source: Saxena 2023, prompt lookup decoding.

    Args:
        earlier: other texts to guess from, oldest first; the latest text wins.
        sizes: how many last tokens have to agree, the preferred number first.
    """

    def __init__(
        self, earlier: Iterable[Sequence[int]] = (), *, sizes: Sequence[int] = (4, 2)
    ) -> None:
        self._ids: list[int] = []
        self._sizes = tuple(sizes)
        self._next: dict[tuple[int, ...], int] = {}
        for ids in earlier:
            self.extend([*ids, _BREAK])

    def extend(self, ids: Iterable[int]) -> None:
        """Appends tokens to the current text."""
        for token in ids:
            end = len(self._ids)
            for size in self._sizes:
                if end >= size:
                    self._next[tuple(self._ids[end - size :])] = end
            self._ids.append(token)

    def propose(self, limit: int) -> list[int]:
        """At most ``limit`` tokens that may come next; empty when nothing like it was seen."""
        for size in self._sizes:
            start = self._next.get(tuple(self._ids[-size:]))
            if start is not None:
                guess = self._ids[start : start + limit]
                return guess[: guess.index(_BREAK)] if _BREAK in guess else guess
        return []


@dataclass(eq=False)
class Row:
    """One sample being written.

    Attributes:
        room: tokens that it may have.
        generator: draws its tokens; None takes the likeliest.
        stopped: the text has come to its own end.
    """

    prefill: Prefill
    room: int
    generator: torch.Generator | None
    written: list[int] = field(default_factory=list)
    stopped: bool = False

    @property
    def over(self) -> bool:
        return self.stopped or len(self.written) >= self.room

    @property
    def length(self) -> int:
        """Tokens of prompt and sample."""
        return len(self.prefill.ids) + len(self.written)


class Decoder:
    """Writes rows to their ends; not thread-safe.

    Args:
        reader: of the model.
        tokenizer: of the model.
        stop_ids: tokens that end a text.
    """

    def __init__(self, reader: PromptReader, tokenizer: Any, stop_ids: frozenset[int]) -> None:
        self._reader, self._tokenizer, self._stop_ids = reader, tokenizer, stop_ids
        self._recent: deque[list[int]] = deque(maxlen=_RECENT)
        self._shares: bool | None = None

    def decode(self, rows: Sequence[Row], sampling: Sampling) -> None:
        """Writes every row to its end; rows of one prompt stand side by side."""
        rows = [row for row in rows if not row.over]
        if not rows:
            return
        if self._shares is None:
            self._shares = agrees(self._reader.model, self._reader.max_context)
        if self._shares:
            self._decode_sharing(rows, sampling)
        elif rows[0].prefill.layers is None:
            for group in _of_one_memory(rows):
                self._decode_padded(group, sampling)
        else:
            longest = max(len(row.prefill.ids) for row in rows)
            fits = longest + max(row.room for row in rows) <= self._reader.max_context
            for group in [rows] if fits else _of_one_prompt(rows):
                self._decode_padded(group, sampling)

    def _decode_sharing(self, live: list[Row], sampling: Sampling) -> None:
        """Each pass reads several tokens of a row where its text repeats itself or an earlier one.

        The more rows there are, the fewer tokens are guessed: wrong guesses cost their share.
        """
        import torch

        memory = Rows([row.prefill for row in live], self._reader.max_context)
        drafts = [LookupDraft(self._recent) for _ in live]
        for row, draft in zip(live, drafts, strict=True):
            draft.extend(row.prefill.ids)
        guesses = [list[int]() for _ in live]
        logits = torch.stack([row.prefill.logits for row in live])[:, None]
        while True:
            choices = _Choices(logits, sampling.temperature)
            for index, row in enumerate(live):
                self._accept(row, (drafts[index], guesses[index]), choices, index, sampling.stop)
            # The last token written is not read yet; wrong guesses are forgotten.
            memory.settle([row.length - 1 for row in live])
            going = [index for index, row in enumerate(live) if not row.over]
            if not going:
                return
            if len(going) < len(live):
                live, drafts = [live[i] for i in going], [drafts[i] for i in going]
                memory.keep(going)
            most = min(_GUESSES, max(0, _PASS_TOKENS // len(live) - 1))
            guesses = [
                draft.propose(min(most, row.room - len(row.written) - 1))
                for row, draft in zip(live, drafts, strict=True)
            ]
            tokens = [[row.written[-1], *guess] for row, guess in zip(live, guesses, strict=True)]
            width = max(map(len, tokens))
            padded = [ids + ids[-1:] * (width - len(ids)) for ids in tokens]
            logits = forward(self._reader.model, memory, padded)

    def _decode_padded(self, live: list[Row], sampling: Sampling) -> None:
        """One token of each row a pass."""
        import torch

        device = self._reader.device
        longest = max(len(row.prefill.ids) for row in live)
        cache = joined([row.prefill for row in live], longest)
        pads = torch.tensor([longest - len(row.prefill.ids) for row in live], device=device)
        padded = bool(pads.any())
        logits = torch.stack([row.prefill.logits for row in live])
        seen = longest
        while True:
            choices = _Choices(logits[:, None], sampling.temperature)
            for index, row in enumerate(live):
                self._write(row, choices.token(index, 0, row.generator), sampling.stop)
            going = [index for index, row in enumerate(live) if not row.over]
            if not going:
                return
            if len(going) < len(live):
                kept = torch.tensor(going, device=device)
                cache.batch_select_indices(kept)
                pads, live = pads[kept], [live[i] for i in going]
            mask = None
            if padded:
                mask = (torch.arange(seen + 1, device=device)[None] >= pads[:, None]).long()
            positions = (seen - pads)[:, None]
            tokens = [[row.written[-1]] for row in live]
            logits, cache = self._reader.forward(
                tokens, cache, seen, mask=mask, positions=positions
            )
            logits, seen = logits[:, -1], seen + 1

    def _accept(
        self,
        row: Row,
        ahead: tuple[LookupDraft, list[int]],
        choices: _Choices,
        index: int,
        stop: Sequence[str],
    ) -> None:
        """Writes what was chosen, up to the first token that was guessed wrong."""
        draft, guess = ahead
        for column, guessed in enumerate([*guess, None]):
            token = choices.token(index, column, row.generator)
            self._write(row, token, stop)
            if row.over:
                self._recent.append(row.written)
                return
            draft.extend([token])
            if token != guessed:
                return

    def _write(self, row: Row, token: int, stop: Sequence[str]) -> None:
        if token in self._stop_ids:
            row.stopped = True
            return
        row.written.append(token)
        if stop:
            tail = self._tokenizer.decode(row.written[-_STOP_WINDOW:], skip_special_tokens=True)
            row.stopped = any(mark in tail for mark in stop)


class _Choices:
    """The next tokens that logits ``[rows, columns, vocabulary]`` speak for."""

    def __init__(self, logits: Tensor, temperature: float) -> None:
        import torch

        self._draw = torch.multinomial
        self._best: list[list[int]] | None = None
        if temperature <= 0:
            self._best = logits.argmax(-1).tolist()
        else:
            self._weights = torch.softmax(logits / temperature, -1).cpu()

    def token(self, row: int, column: int, generator: torch.Generator | None) -> int:
        """The likeliest, or one that is drawn."""
        if self._best is not None:
            return self._best[row][column]
        return int(self._draw(self._weights[row, column], 1, generator=generator))


def _of_one_prompt(rows: Sequence[Row]) -> Iterator[list[Row]]:
    for _, group in groupby(rows, key=lambda row: id(row.prefill)):
        yield list(group)


def _of_one_memory(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """Rows whose prompt has a memory of its own kind: samples of one prompt, or one by one."""
    for samples in _of_one_prompt(rows):
        if repeatable(samples[0].prefill.cache):
            yield samples
            continue
        for row in samples:
            row.prefill = replace(row.prefill, cache=deepcopy(row.prefill.cache))
            yield [row]

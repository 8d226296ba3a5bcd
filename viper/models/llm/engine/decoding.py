"""Decoding of samples token by token, all rows of a batch together.

If the model allows it, the common beginning of the rows is kept once and several tokens are guessed
ahead (``engine.shared_prefix``). Otherwise the rows are padded on the left, or go prompt by prompt.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

from viper.models.libraries import Tensor, torch
from viper.models.llm.engine.reading import Prefill, PromptReader, join_prefills, repeatable
from viper.models.llm.engine.shared_prefix import Rows, agrees, forward
from viper.models.llm.protocol import Sampling, check_running

# Last tokens that are searched for a stop string: longer than any stop string in use, and decoding
# the whole text at every token would take time that grows with its square.
_STOP_WINDOW = 24

# Maximum number of tokens to guess ahead: about a line of a program, after which guesses fail.
_GUESSES = 12

# Approximate number of tokens that one pass reads for all rows, guesses included: up to some dozens
# a pass costs little more than for one token, because reading the weights takes the time.
_PASS_TOKENS = 48

# Number of earlier texts to take guesses from: the latest programs, whose queries are alike. Each
# begins with the last tokens of its prompt, so that a prompt that is asked again is recognised.
_RECENT = 8
_PROMPT_TAIL = 16

# Numbers of last tokens that must agree for a guess, the preferred one first. A pass with guesses
# takes a GPU as long as one without; a processor it takes 2.2 times as long, from one guess to
# twelve, and only a text that repeats another one repays that. On 150 everyday questions guessing
# by 4 or 2 tokens cost 68 of them over 10 % more than no guesses, guessing by 10 none.
_AGREEING = {"cpu": (10,)}
_AGREEING_ELSEWHERE = (4, 2)


# Separator between the texts to take guesses from: no token has this number, so no guess crosses
# it.
_BREAK = -1


class LookupDraft:
    """Guesses the next tokens by looking up where the last ones occurred before.

    Programs repeat their prompt: API lines come back as comments, names come back as calls. A guess
    costs nothing, and the model checks all guessed tokens in one pass. The text is therefore the
    same as without guessing, with fewer passes.

    Source: Saxena 2023, prompt lookup decoding.

    Args:
        earlier: other texts to guess from, oldest first; the latest text wins.
        sizes: numbers of last tokens that must agree, the preferred one first.
    """

    def __init__(
        self, earlier: Iterable[Sequence[int]] = (), *, sizes: Sequence[int] = _AGREEING_ELSEWHERE
    ) -> None:
        self._ids: list[int] = []
        self._sizes = tuple(sizes)
        self._next: dict[tuple[int, ...], int] = {}
        for ids in earlier:
            self.extend([*ids, _BREAK])

    def extend(self, ids: Iterable[int]) -> None:
        """Append tokens to the current text."""
        for token in ids:
            end = len(self._ids)
            for size in self._sizes:
                if end >= size:
                    self._next[tuple(self._ids[end - size :])] = end
            self._ids.append(token)

    def propose(self, limit: int) -> list[int]:
        """Return up to ``limit`` tokens that may come next; empty without a match."""
        for size in self._sizes:
            start = self._next.get(tuple(self._ids[-size:]))
            if start is not None:
                guess = self._ids[start : start + limit]
                return guess[: guess.index(_BREAK)] if _BREAK in guess else guess
        return []


@dataclass(eq=False)
class Row:
    """One sample being decoded.

    Attributes:
        room: maximum number of its tokens.
        generator: draws its tokens, on the device of the logits; None takes the likeliest.
        stopped: True if the text has ended by itself.
        logprob: log-probability of the output and of the token that ended it.
    """

    prefill: Prefill
    room: int
    generator: torch.Generator | None
    output: list[int] = field(default_factory=list)
    stopped: bool = False
    logprob: float = 0.0

    @property
    def over(self) -> bool:
        return self.stopped or len(self.output) >= self.room

    @property
    def length(self) -> int:
        """Return the number of tokens of prompt and sample."""
        return len(self.prefill.ids) + len(self.output)


class Decoder:
    """Decodes rows to their ends; not thread-safe.

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
        """Decode every row to its end; rows of one prompt are neighbours."""
        rows = [row for row in rows if not row.over]
        if not rows:
            return
        if self._shares is None:
            self._shares = agrees(self._reader.model, self._reader.max_context)
        if self._shares:
            self._decode_sharing(rows, sampling)
            return
        groups = [list(group) for _, group in groupby(rows, key=lambda row: id(row.prefill))]
        if rows[0].prefill.layers is not None:
            longest = max(len(row.prefill.ids) for row in rows)
            if longest + max(row.room for row in rows) <= self._reader.max_context:
                groups = [rows]
        for group in groups:
            if group[0].prefill.layers is not None or repeatable(group[0].prefill.cache):
                self._decode_padded(group, sampling)
                continue
            for row in group:  # their memory cannot be shared, and each uses it up
                row.prefill = replace(row.prefill, cache=deepcopy(row.prefill.cache))
                self._decode_padded([row], sampling)

    def _decode_sharing(self, live: list[Row], sampling: Sampling) -> None:
        """Decode rows over a shared beginning, with guessed tokens where a text repeats.

        The more rows there are, the fewer tokens are guessed, because wrong guesses cost time.
        """
        memory = Rows([row.prefill for row in live], self._reader.max_context)
        sizes = _AGREEING.get(self._reader.device.type, _AGREEING_ELSEWHERE)
        drafts = [LookupDraft(self._recent, sizes=sizes) for _ in live]
        for row, draft in zip(live, drafts, strict=True):
            draft.extend(row.prefill.ids)
        guesses = [list[int]() for _ in live]
        logits = torch.stack([row.prefill.logits for row in live])[:, None]
        while True:
            check_running()
            chosen = _chooser(logits, sampling.temperature)
            for index, row in enumerate(live):
                # Append the chosen tokens, up to the first wrong guess.
                for column, guessed in enumerate([*guesses[index], None]):
                    token, logprob = chosen(index, column, row.generator)
                    self._write(row, token, logprob, sampling.stop)
                    if row.over:
                        self._recent.append([*row.prefill.ids[-_PROMPT_TAIL:], *row.output])
                        break
                    drafts[index].extend([token])
                    if token != guessed:
                        break
            # The model has not read the last token yet, and wrong guesses are dropped.
            memory.settle([row.length - 1 for row in live])
            going = [index for index, row in enumerate(live) if not row.over]
            if not going:
                return
            if len(going) < len(live):
                live, drafts = [live[i] for i in going], [drafts[i] for i in going]
                memory.keep(going)
            most = min(_GUESSES, max(0, _PASS_TOKENS // len(live) - 1))
            guesses = [
                draft.propose(min(most, row.room - len(row.output) - 1))
                for row, draft in zip(live, drafts, strict=True)
            ]
            tokens = [[row.output[-1], *guess] for row, guess in zip(live, guesses, strict=True)]
            width = max(map(len, tokens))
            padded = [ids + ids[-1:] * (width - len(ids)) for ids in tokens]
            logits = forward(self._reader.model, memory, padded)

    def _decode_padded(self, live: list[Row], sampling: Sampling) -> None:
        """Decode one token of each row per pass."""
        device = self._reader.device
        longest = max(len(row.prefill.ids) for row in live)
        cache = join_prefills([row.prefill for row in live], longest)
        pads = torch.tensor([longest - len(row.prefill.ids) for row in live], device=device)
        padded = bool(pads.any())
        logits = torch.stack([row.prefill.logits for row in live])
        length = longest
        while True:
            check_running()
            chosen = _chooser(logits[:, None], sampling.temperature)
            for index, row in enumerate(live):
                self._write(row, *chosen(index, 0, row.generator), sampling.stop)
            going = [index for index, row in enumerate(live) if not row.over]
            if not going:
                return
            if len(going) < len(live):
                remaining = torch.tensor(going, device=device)
                cache.batch_select_indices(remaining)
                pads, live = pads[remaining], [live[i] for i in going]
            mask = None
            if padded:
                mask = (torch.arange(length + 1, device=device)[None] >= pads[:, None]).long()
            tokens = [[row.output[-1]] for row in live]
            places = (length - pads)[:, None]
            logits, cache = self._reader.forward(tokens, cache, length, mask=mask, positions=places)
            logits, length = logits[:, -1], length + 1

    def _write(self, row: Row, token: int, logprob: float, stop: Sequence[str]) -> None:
        row.logprob += logprob
        if token in self._stop_ids:
            row.stopped = True
            return
        row.output.append(token)
        if stop:
            tail = self._tokenizer.decode(row.output[-_STOP_WINDOW:], skip_special_tokens=True)
            row.stopped = any(mark in tail for mark in stop)


def _chooser(
    logits: Tensor, temperature: float
) -> Callable[[int, int, torch.Generator | None], tuple[int, float]]:
    """Return a function from row, column and generator to the likeliest token, or a random one.

    With the token comes its log-probability. The logits are ``[rows, columns, vocabulary]``.
    """
    scale = logits.float().logsumexp(-1)  # bfloat16 would be off by a tenth at every token
    if temperature <= 0:
        top, best = logits.max(-1)
        ids, logprobs = best.tolist(), (top - scale).tolist()
        return lambda row, column, _: (ids[row][column], logprobs[row][column])
    # They stay on the model's device: copying all of them would take longer than the pass.
    weights = torch.softmax(logits / temperature, -1)

    def drawn(row: int, column: int, generator: torch.Generator | None) -> tuple[int, float]:
        token = int(torch.multinomial(weights[row, column], 1, generator=generator))
        return token, float(logits[row, column, token] - scale[row, column])

    return drawn

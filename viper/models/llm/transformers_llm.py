"""Causal language models that ``transformers`` can load, from a folder or a hub id.

Each prompt is read alone and its keys and values are kept. The long prefix that prompts share (the
API text, the examples) is therefore read once (``engine.reading``). Samples are then decoded
together (``engine.decoding``). Every sample has its own generator, seeded by (seed, prompt, sample
number), so a prompt gives the same samples in every batch.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from viper.models.hub import local_copy
from viper.models.libraries import torch, transformers
from viper.models.llm.adapters import language_model_id, with_adapter
from viper.models.llm.engine.decoding import Decoder, Row
from viper.models.llm.engine.reading import PromptReader
from viper.models.llm.messages import Prompt
from viper.models.llm.prompt_tokens import PromptTokens, Template, shared_beginning
from viper.models.llm.protocol import Completion, Sampling, check_running
from viper.models.llm.scripted import cut_at_stop
from viper.models.loading import LoadOptions, LocalModel, load_pretrained, load_processor


class TransformersLLM(LocalModel):
    """Causal language model behind the :class:`viper.models.llm.LLM` protocol; thread-safe.

    Args:
        path: folder written by ``save_pretrained``, or a hub id.
        template: ``chat`` wraps a prompt as messages, ``plain`` does not, ``auto`` does so when
            the tokenizer has a chat template.
        chat_template_kwargs: further arguments of the template, such as
            ``{enable_thinking = false}``.
        thinking_tokens: added to every request's limit, for models that think before they answer.
        kept_prompts: number of prompts whose keys and values are kept for reuse.
        adapter: folder of a low-rank adapter to add into the weights; see
            :mod:`viper.models.llm.adapters`.
        loading: device, precision and so on, see :class:`viper.models.loading.LoadOptions`.

    Raises:
        ModelError: nothing loadable there, or an adapter that does not fit.
    """

    sees_pictures = False

    def __init__(
        self,
        path: str | Path,
        *,
        template: Template = "auto",
        chat_template_kwargs: Mapping[str, Any] | None = None,
        thinking_tokens: int = 0,
        kept_prompts: int = 4,
        adapter: str | Path | None = None,
        **loading: Any,
    ) -> None:
        options = LoadOptions(**loading)
        folder = local_copy(path, options)
        self._tokenizer: Any = load_processor(transformers.AutoTokenizer, path, options)
        self._model: Any = load_pretrained(transformers.AutoModelForCausalLM, path, options)
        if adapter is not None:
            self._model = with_adapter(self._model, adapter, folder)
        self._prompts = PromptTokens(self._tokenizer, template, chat_template_kwargs)
        self._thinking_tokens = thinking_tokens
        self._reader = PromptReader(self._model, kept_prompts)
        # Every token that ends a text: the model's and the tokenizer's.
        listed = getattr(self._model.generation_config, "eos_token_id", None)
        ids = [*(listed if isinstance(listed, list) else [listed]), self._tokenizer.eos_token_id]
        stop_ids = frozenset(i for i in ids if i is not None)
        self._decoder = Decoder(self._reader, self._tokenizer, stop_ids)
        self._lock = threading.Lock()
        self.model_id = language_model_id(folder, adapter)
        self.max_context = self._reader.max_context

    def generate(self, prompts: Sequence[Prompt], sampling: Sampling) -> list[list[Completion]]:
        """Return ``sampling.n`` completions for each prompt.

        Raises:
            UsageError: a prompt fills the whole context, or holds pictures.
            ViperError: all queries behind the requests have ended; noticed between two passes.
        """
        with self._lock, torch.inference_mode():
            read = [self._prompts.read(each, self.model_id, self.max_context) for each in prompts]
            rows: list[Row] = []
            for prompt, ids in zip(prompts, read, strict=True):
                check_running()
                prefill = self._reader.read(ids)
                most = sampling.max_tokens + self._thinking_tokens
                room = min(most, self.max_context - len(ids))
                for sample in range(sampling.n):
                    generator = None
                    if sampling.temperature > 0:
                        seed = sampling.sample_seed(prompt, sample)
                        generator = torch.Generator(prefill.logits.device).manual_seed(seed)
                    rows.append(Row(prefill, room, generator))
            self._decoder.decode(rows, sampling)
        done = []
        for row in rows:
            text = str(self._tokenizer.decode(row.output, skip_special_tokens=True))
            cut = self._prompts.opened + cut_at_stop(text, sampling.stop)
            reason = "stop" if row.stopped else "length"
            counts = len(row.prefill.ids), len(row.output)
            done.append(Completion(cut, *counts, reason, logprob=row.logprob))
        return [done[i : i + sampling.n] for i in range(0, len(done), sampling.n)]

    def score(self, prompt: str, continuations: Sequence[str]) -> list[float]:
        """Return the mean log-likelihood per token of each continuation.

        Prompt and continuation are tokenised together, because a tokenizer may join the two at the
        seam. Tokens shared with the prompt alone are not scored.
        """
        if not continuations:
            return []
        head = self._prompts.wrapped(prompt)
        with self._lock, torch.inference_mode():
            wholes = [self._prompts.encode(head + text) for text in continuations]
            shared = shared_beginning(wholes, len(self._prompts.encode(head)))
            tails = [whole[shared:] for whole in wholes]
            return self._reader.mean_scores(wholes[0][:shared], tails)

    def count_tokens(self, text: str) -> int:
        """Return the number of tokens of the text, without special tokens."""
        return self._prompts.count(text)

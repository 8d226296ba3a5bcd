"""vLLM inside this process: many prompts at once on one or several GPUs.

Prompts keep the caller's order, so prompts with the same long beginning are neighbours and prefix
caching reads it once. vLLM pins its own torch. If that clashes, run its server in a separate
environment and use :class:`viper.models.llm.openai_llm.OpenAILLM`.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from viper.errors import MissingExtraError, ModelError
from viper.models.llm.prompt_tokens import Echo, PromptTokens, Template, tail_scores
from viper.models.llm.protocol import Completion, Sampling
from viper.models.llm.transformers_llm import language_model_id
from viper.prompting.messages import Prompt


class VllmLLM:
    """Causal language model run by vLLM; thread-safe, one call at a time.

    Args:
        path: folder written by ``save_pretrained``, or a hub id.
        template: ``chat`` wraps a prompt as messages, ``plain`` does not, ``auto`` does so when
            the tokenizer has a chat template.
        chat_template_kwargs: further arguments of the template, such as
            ``{enable_thinking = false}``.
        thinking_tokens: added to every request's limit, for models that think before they answer.
        tensor_parallel_size: number of GPUs to split the model over.
        gpu_memory_utilization: share of each GPU's memory to take.
        max_model_len: tokens a prompt and its completion may hold; None is the model's own.
        dtype: ``auto`` is the checkpoint's own.
        quantization: vLLM's name of the quantisation of the weights, such as ``awq``.
        enforce_eager: no compiled graphs; starts sooner, runs slower.

    Raises:
        MissingExtraError: vLLM is not installed.
        ModelError: vLLM cannot load the model.

    Attributes:
        batch: number of prompts worth gathering for one call.
    """

    batch = 64

    def __init__(
        self,
        path: str | Path,
        *,
        template: Template = "auto",
        chat_template_kwargs: Mapping[str, Any] | None = None,
        thinking_tokens: int = 0,
        tensor_parallel_size: int = 1,
        gpu_memory_utilization: float = 0.9,
        max_model_len: int | None = None,
        dtype: str = "auto",
        quantization: str | None = None,
        enforce_eager: bool = False,
    ) -> None:
        # Its log goes to stderr, because stdout is for results. Its usage reports are off.
        os.environ.setdefault("VLLM_LOGGING_STREAM", "ext://sys.stderr")
        os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
        try:
            import vllm
        except ModuleNotFoundError:
            raise MissingExtraError("vllm", "vllm", "the llm backend 'vllm'") from None
        try:
            self._engine: Any = vllm.LLM(
                model=str(path),
                tensor_parallel_size=tensor_parallel_size,
                gpu_memory_utilization=gpu_memory_utilization,
                max_model_len=max_model_len,
                dtype=dtype,
                quantization=quantization,
                enforce_eager=enforce_eager,
                enable_prefix_caching=True,
            )
        except (OSError, ValueError, RuntimeError) as error:
            reason = str(error).strip().splitlines() or [type(error).__name__]
            raise ModelError(f"{path} cannot be loaded by vLLM: {reason[0]}") from error
        self._parameters = vllm.SamplingParams
        self._prompts = PromptTokens(self._engine.get_tokenizer(), template, chat_template_kwargs)
        self._thinking_tokens = thinking_tokens
        self._lock = threading.Lock()
        config = self._engine.llm_engine.model_config
        self.model_id = f"{language_model_id(path, SimpleNamespace(config=config.hf_config))}#vllm"
        self.max_context = int(config.max_model_len)

    def generate(self, prompts: Sequence[Prompt], sampling: Sampling) -> list[list[Completion]]:
        """Return ``sampling.n`` completions for each prompt; at temperature 0 one is repeated.

        Raises:
            UsageError: a prompt fills the whole context.
        """
        if not prompts:
            return []
        greedy = sampling.temperature <= 0
        parameters = self._parameters(
            n=1 if greedy else sampling.n,
            temperature=max(0.0, sampling.temperature),
            seed=None if greedy else sampling.seed,
            max_tokens=sampling.max_tokens + self._thinking_tokens,
            stop=list(sampling.stop),
        )
        read = [self._prompts.read(each, self.model_id, self.max_context) for each in prompts]
        with self._lock:
            results = self._engine.generate(
                [{"prompt_token_ids": ids} for ids in read], parameters, use_tqdm=False
            )
        repeats = sampling.n if greedy else 1
        return [_completions(result) * repeats for result in results]

    def score(self, prompt: str, continuations: Sequence[str]) -> list[float]:
        """Return the mean log-likelihood per token of each continuation, as the transformers
        backend.
        """
        if not continuations:
            return []
        head = self._prompts.wrapped(prompt)
        wholes = [self._prompts.encode(head + text) for text in continuations]
        parameters = self._parameters(max_tokens=1, temperature=0.0, prompt_logprobs=0)
        with self._lock:
            results = self._engine.generate(
                [{"prompt_token_ids": whole} for whole in wholes], parameters, use_tqdm=False
            )
        return tail_scores([_echo(result) for result in results], len(self._prompts.encode(head)))

    def count_tokens(self, text: str) -> int:
        """Return the number of tokens of the text, without special tokens."""
        return self._prompts.count(text)


def _completions(result: Any) -> list[Completion]:
    prompt_tokens = len(result.prompt_token_ids)
    return [
        Completion(
            output.text,
            prompt_tokens,
            len(output.token_ids),
            "length" if output.finish_reason == "length" else "stop",
        )
        for output in sorted(result.outputs, key=lambda output: output.index)
    ]


def _echo(result: Any) -> Echo:
    """Return the likelihood of each token of a prompt; the first has none."""
    ids = result.prompt_token_ids
    steps = zip(ids[1:], result.prompt_logprobs[1:], strict=True)
    values = [float(candidates[token].logprob) for token, candidates in steps]
    return Echo(tuple(map(str, ids)), (0.0, *values))

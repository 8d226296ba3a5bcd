"""vLLM inside this process: many prompts at once on one or several GPUs.

Every prompt is a request of its own to vLLM's asynchronous engine. It joins the running batch, and
the thread that asked waits for its own prompts alone. Prompts keep the caller's order, so prompts
with the same long beginning are neighbours and prefix caching reads it once. vLLM pins its own
torch. If that clashes, run its server in a separate environment and use
:class:`viper.models.llm.openai_llm.OpenAILLM`.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
from collections.abc import Mapping, Sequence
from functools import partial
from multiprocessing import resource_tracker
from pathlib import Path
from typing import Any

from viper.errors import MissingExtraError, ModelError
from viper.models.hub import local_copy
from viper.models.libraries import transformers
from viper.models.llm.adapters import language_model_id
from viper.models.llm.event_loop import ConcurrentLLM, EventLoop
from viper.models.llm.messages import MAX_PIXELS, Picture, Prompt, pictures_of
from viper.models.llm.prompt_tokens import Echo, PromptTokens, Template, tail_scores
from viper.models.llm.protocol import Completion, Sampling
from viper.models.loading import LoadOptions, load_processor, reason_of
from viper.models.options import check_at_least

# Number of likeliest first tokens reported for a prompt with pictures; vLLM allows no more.
#
# They tell how sure a yes or a no is. A model that thinks first does not begin with its answer.
FIRST_LOGPROBS = 20


class VllmLLM(ConcurrentLLM):
    """Causal language model run by vLLM, with eyes if the checkpoint has them; thread-safe.

    The engine ends with :meth:`close`, or when this object is garbage collected.

    Args:
        path: folder written by ``save_pretrained``, or a hub id.
        template: ``chat`` wraps a prompt as messages, ``plain`` does not, ``auto`` does so when
            the tokenizer has a chat template.
        chat_template_kwargs: further arguments of the template, such as
            ``{enable_thinking = false}``.
        thinking_tokens: added to every request's limit, for models that think before they answer.
        max_pixels: larger pictures are scaled down to this many pixels.
        tensor_parallel_size: number of GPUs to split the model over.
        gpu_memory_utilization: share of each GPU's memory to take.
        max_model_len: tokens a prompt and its completion may hold; None is the model's own.
        dtype: ``auto`` is the checkpoint's own.
        quantization: vLLM's name of the quantisation of the weights, such as ``awq``.
        enforce_eager: no compiled graphs; starts sooner, runs slower.
        local_only, revision, trust: see :class:`viper.models.loading.LoadOptions`.

    Raises:
        MissingExtraError: vLLM is not installed.
        ModelError: vLLM cannot load the model.
        ProfileError: ``max_pixels`` is below 1.

    Attributes:
        sees_pictures: True if the model is multi-modal and its processor has a chat template.
    """

    loads_with = frozenset({"local_only", "revision", "trust"})

    def __init__(
        self,
        path: str | Path,
        *,
        template: Template = "auto",
        chat_template_kwargs: Mapping[str, Any] | None = None,
        thinking_tokens: int = 0,
        max_pixels: int = MAX_PIXELS,
        tensor_parallel_size: int = 1,
        gpu_memory_utilization: float = 0.9,
        max_model_len: int | None = None,
        dtype: str = "auto",
        quantization: str | None = None,
        enforce_eager: bool = False,
        local_only: bool = False,
        revision: str | None = None,
        trust: Sequence[str] = (),
    ) -> None:
        check_at_least(1, max_pixels=max_pixels)
        # Its log goes to stderr, because stdout is for results. Its usage reports are off.
        os.environ.setdefault("VLLM_LOGGING_STREAM", "ext://sys.stderr")
        os.environ.setdefault("VLLM_NO_USAGE_STATS", "1")
        try:
            import vllm
        except ModuleNotFoundError:
            raise MissingExtraError("vllm", "the llm backend 'vllm'") from None
        options = LoadOptions(local_only=local_only, revision=revision, trust=trust)
        folder = local_copy(path, options)
        self._vllm = vllm
        closed = "the vLLM engine is closed; load the model again"
        super().__init__(EventLoop("viper-vllm", closed))
        start = partial(
            _start,
            vllm,
            model=str(folder),
            trust_remote_code=options.trusts(path),
            tensor_parallel_size=tensor_parallel_size,
            gpu_memory_utilization=gpu_memory_utilization,
            max_model_len=max_model_len,
            dtype=dtype,
            quantization=quantization,
            enforce_eager=enforce_eager,
            enable_prefix_caching=True,
            disable_log_stats=True,
        )
        try:
            self._engine: Any = self._loop.run(start)
        except (OSError, ValueError, RuntimeError) as error:
            raise ModelError(f"{path} cannot be loaded by vLLM: {reason_of(error)}") from error
        config = self._engine.model_config
        processor = None
        if config.is_multimodal_model:
            processor = load_processor(transformers.AutoProcessor, path, options)
        self._prompts = PromptTokens(
            self._engine.get_tokenizer(), template, chat_template_kwargs, processor=processor
        )
        self._thinking_tokens, self.max_pixels = thinking_tokens, max_pixels
        self._numbers = itertools.count()
        self.sees_pictures = self._prompts.take_pictures
        self.model_id = f"{language_model_id(folder)}#vllm"
        self.max_context = int(config.max_model_len)

    def score(self, prompt: str, continuations: Sequence[str]) -> list[float]:
        """Return the mean log-likelihood per token of each continuation, as the transformers
        backend.
        """
        if not continuations:
            return []
        head = self._prompts.wrapped(prompt)
        wholes = [self._prompts.encode(head + text) for text in continuations]
        answer = partial(self._answer, max_tokens=1, temperature=0.0, prompt_logprobs=0)
        results = self._run_all(answer, wholes)
        echoes = []
        for result in results:  # the likelihood of each token; the first has none
            ids = result.prompt_token_ids
            steps = zip(ids[1:], result.prompt_logprobs[1:], strict=True)
            values = [float(candidates[token].logprob) for token, candidates in steps]
            echoes.append(Echo(tuple(map(str, ids)), (0.0, *values)))
        return tail_scores(echoes, len(self._prompts.encode(head)))

    def count_tokens(self, text: str) -> int:
        """Return the number of tokens of the text, without special tokens."""
        return self._prompts.count(text)

    def close(self) -> None:
        """Abort current requests and end the engine; the model cannot be used afterwards."""
        self._loop.close()
        self._engine.shutdown()

    async def _complete(self, sampling: Sampling, prompt: Prompt) -> list[Completion]:
        """Answer a prompt; at temperature 0 one completion is repeated. Every prompt has its own
        seed, made of (seed, prompt).
        """
        # In another thread, because the loop must not wait for long prompts.
        ids = await asyncio.to_thread(self._prompts.read, prompt, self.model_id, self.max_context)
        greedy, pictures = sampling.temperature <= 0, pictures_of(prompt)
        result = await self._answer(
            ids,
            pictures,
            n=1 if greedy else sampling.n,
            temperature=max(0.0, sampling.temperature),
            seed=None if greedy else sampling.sample_seed(prompt, 0),
            max_tokens=sampling.max_tokens + self._thinking_tokens,
            stop=list(sampling.stop),
            logprobs=FIRST_LOGPROBS if pictures and not self._thinking_tokens else None,
        )
        completions = []
        for output in sorted(result.outputs, key=lambda output: output.index):
            logprobs = None
            if output.logprobs:
                first = output.logprobs[0].values()
                logprobs = {each.decoded_token: float(each.logprob) for each in first}
            reason = "length" if output.finish_reason == "length" else "stop"
            counts = len(result.prompt_token_ids), len(output.token_ids)
            text = self._prompts.opened + output.text
            completions.append(Completion(text, *counts, reason, first_logprobs=logprobs))
        return completions * (sampling.n if greedy else 1)

    async def _answer(
        self, ids: list[int], pictures: Sequence[Picture] = (), **sampling: Any
    ) -> Any:
        """Return the engine's result for a prompt; cancelling this aborts the request.

        Raises:
            ModelError: the engine rejects the prompt or the sampling, or has ended.
        """
        request: dict[str, Any] = {"prompt_token_ids": ids}
        if pictures:
            images = [picture.fitted(self.max_pixels) for picture in pictures]
            request["multi_modal_data"] = {"image": images}
        kinds = self._vllm.sampling_params.RequestOutputKind
        name = f"viper-{next(self._numbers)}"
        try:
            parameters = self._vllm.SamplingParams(output_kind=kinds.FINAL_ONLY, **sampling)
            (result,) = [each async for each in self._engine.generate(request, parameters, name)]
        except Exception as error:  # one request: the engine passes on any error of its parts
            raise ModelError(f"{self.model_id}: vLLM gave no answer: {reason_of(error)}") from error
        return result


async def _start(vllm: Any, **arguments: Any) -> Any:
    """Return an engine that runs in the current event loop."""
    # Ctrl-C aborts requests and must not end the engine, so its processes start with the signal
    # blocked, as in this thread. The tracker would unblock it, if it started with them.
    resource_tracker.ensure_running()
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    return vllm.AsyncLLMEngine.from_engine_args(vllm.AsyncEngineArgs(**arguments))

"""Speed of the transformers backend's decoding against the library's own ``generate``.

``python benchmarks/llm_engines.py`` asks the embedded writer the prompts that an evaluation asks
it (strategy ``program``, greedy, families taking turns) in these ways:

- one at a time: ``generate`` plain, ``generate`` with prompt lookup, the backend;
- 16 at a time: ``generate`` over left-padded batches, the backend.

``generate`` refuses prompt lookup for batches, so that batches go without it. The row "prefix
kept" hands ``generate`` the keys and values of the API lines and examples that the prompts share,
which an application would have to keep by itself; together with prompt lookup that writes wrong
texts (transformers 5.23 reads the whole prompt again behind what is kept). With ``--url`` of a
vLLM server (see ``tests/vllm/serve.py``) it is asked the same prompts.

Each round takes other prompts and the ways take turns in it, starting with another one each
round. The table shows medians over rounds of wall-clock and processor seconds a prompt; the
latter vary less on a machine that is shared.
"""

from __future__ import annotations

import argparse
import os
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from viper.embedded import WEIGHTS
from viper.models.llm.openai_llm import OpenAILLM
from viper.models.llm.protocol import LLM, Sampling
from viper.models.llm.transformers_llm import TransformersLLM
from viper.models.loading import LoadOptions, load_pretrained
from viper.profiles import load_profile
from viper.prompting.compact import END_OF_PROGRAM
from viper.reasoner import Reasoner, RunOptions
from viper.strategies.program import attempt_sampling
from viper_lab.world.queries.generate import generate

WRITER = WEIGHTS / "writer"
FAMILIES = ("referring", "question", "video")
BATCH = 16
LOOKUP = {"prompt_lookup_num_tokens": 12, "max_matching_ngram_size": 4}

Write = Callable[[Sequence[str]], list[str]]


def evaluation_prompts(rounds: int, count: int) -> tuple[list[list[str]], Sampling]:
    """Return ``count`` prompts of one family for each round, and how their programs are decoded."""
    picture = np.zeros((2, 2, 3), np.uint8)
    with Reasoner(load_profile("embedded")) as reasoner:
        prompts = []
        for number in range(rounds):
            family = FAMILIES[number % len(FAMILIES)]
            media = [picture] * 8 if family == "video" else picture
            prompts.append(
                [
                    reasoner.prompt(
                        media, item.text, RunOptions(task=item.task, options=item.options)
                    )
                    for item in generate(family, "val", number, count)
                ]
            )
        return prompts, attempt_sampling(reasoner.components.settings)


class Generate:
    """The library's ``generate``, greedy, with a stop string.

    Args:
        batch: prompts in one call.
        lookup: whether tokens are guessed from the prompt; for one prompt a call only.
        keep_prefix: whether keys and values of what the prompts share are kept between calls.
    """

    def __init__(
        self,
        model: Path,
        sampling: Sampling,
        *,
        batch: int = 1,
        lookup: bool = False,
        keep_prefix: bool = False,
    ) -> None:
        from transformers import AutoModelForCausalLM, AutoTokenizer

        self._tokenizer: Any = AutoTokenizer.from_pretrained(model, local_files_only=True)
        loading = LoadOptions(device="cpu", dtype="float32", local_only=True)
        network: Any = load_pretrained(AutoModelForCausalLM, model, loading)
        # The limit of new tokens counts; the checkpoint's own would be warned about at every call.
        network.generation_config.max_length = None
        self._network = network
        self._sampling, self._batch, self._keep_prefix = sampling, batch, keep_prefix
        self._options: dict[str, int] = LOOKUP if lookup else {}
        self._prefix: tuple[list[int], Any] = ([], None)

    def __call__(self, prompts: Sequence[str]) -> list[str]:
        import torch

        ids = [self._tokenizer(prompt)["input_ids"] for prompt in prompts]
        texts = []
        with torch.inference_mode():
            if self._keep_prefix:
                self._read_prefix(ids)
            for start in range(0, len(ids), self._batch):
                texts += self._written(ids[start : start + self._batch])
        return texts

    def _read_prefix(self, ids: list[list[int]]) -> None:
        import torch

        shared = os.path.commonprefix([*ids, *(row[:-1] for row in ids)])
        if shared[: len(self._prefix[0])] != self._prefix[0] or not self._prefix[0]:
            cache = self._network(torch.tensor([shared]), use_cache=True).past_key_values
            self._prefix = (shared, cache)

    def _written(self, ids: list[list[int]]) -> list[str]:
        import torch

        prefix, cache = self._prefix
        known, width = len(prefix), max(map(len, ids))
        pad = int(self._tokenizer.pad_token_id)
        # Padding stands left of what is not kept yet.
        rows = [prefix + [pad] * (width - len(row)) + row[known:] for row in ids]
        mask = [[1] * known + [0] * (width - len(row)) + [1] * (len(row) - known) for row in ids]
        if cache is not None:
            cache = deepcopy(cache)
            if len(ids) > 1:
                cache.batch_repeat_interleave(len(ids))
        window = 8 + self._options.get("prompt_lookup_num_tokens", 0)

        def ended(found: Any, scores: Any, **_: Any) -> Any:
            tails = self._tokenizer.batch_decode(found[:, width:][:, -window:])
            return torch.tensor([END_OF_PROGRAM in tail for tail in tails])

        found = self._network.generate(
            torch.tensor(rows),
            attention_mask=torch.tensor(mask),
            past_key_values=cache,
            max_new_tokens=self._sampling.max_tokens,
            do_sample=False,
            stopping_criteria=[ended],
            **self._options,
        )
        texts = self._tokenizer.batch_decode(found[:, width:], skip_special_tokens=True)
        return [text.split(END_OF_PROGRAM)[0] for text in texts]


def asking(llm: LLM, sampling: Sampling, batch: int) -> Write:
    """Return a function that asks a backend of ours for ``batch`` prompts at a time."""

    def write(prompts: Sequence[str]) -> list[str]:
        batches = [prompts[start : start + batch] for start in range(0, len(prompts), batch)]
        return [found[0].text for each in batches for found in llm.generate(each, sampling)]

    return write


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, default=WRITER, help="folder of the model")
    parser.add_argument("--requests", type=int, default=32, help="prompts a round")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--threads", type=int, help="of torch; default: its own choice")
    parser.add_argument("--url", default=os.environ.get("VIPER_TEST_VLLM_URL"))
    parser.add_argument("--served", default="writer", help="the model's name on the server")
    options = parser.parse_args()
    if options.threads:
        import torch

        torch.set_num_threads(options.threads)
    rounds, sampling = evaluation_prompts(options.rounds, options.requests)

    def backend() -> TransformersLLM:
        return TransformersLLM(options.model, template="plain", local_only=True, device="cpu")

    def library(**how: Any) -> Write:
        return Generate(options.model, sampling, **how)

    engines: dict[str, Write] = {
        "generate, 1": library(),
        "generate + lookup, 1": library(lookup=True),
        "backend, 1": asking(backend(), sampling, 1),
        f"generate, left-padded, {BATCH}": library(batch=BATCH),
        f"generate, left-padded, prefix kept, {BATCH}": library(batch=BATCH, keep_prefix=True),
        f"backend, {BATCH}": asking(backend(), sampling, BATCH),
    }
    if options.url:
        server = OpenAILLM(
            options.served,
            base_url=options.url,
            api="completions",
            key_env="VIPER_NO_KEY",
            concurrency=BATCH,
        )
        engines[f"vLLM server, {BATCH}"] = asking(server, sampling, BATCH)
    compare(engines, rounds)


def compare(engines: Mapping[str, Write], rounds: Sequence[Sequence[str]]) -> None:
    """Print a line for each way; ``same`` counts the texts equal to those of the first way."""
    print(f"load average {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores", flush=True)
    names = list(engines)
    walls, cpus = defaultdict[str, list[float]](list), defaultdict[str, list[float]](list)
    texts = defaultdict[str, list[str]](list)
    for write in engines.values():
        write(rounds[0][:2])
    for number, prompts in enumerate(rounds):
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            wall, cpu = time.perf_counter(), time.process_time()
            texts[name] += engines[name](prompts)
            walls[name].append((time.perf_counter() - wall) / len(prompts))
            cpus[name].append((time.process_time() - cpu) / len(prompts))
        shown = "  ".join(f"{walls[name][-1]:.3f}/{cpus[name][-1]:.3f}" for name in names)
        print(f"round {number + 1} ({FAMILIES[number % 3]}): {shown}", flush=True)
    total = sum(map(len, rounds))
    print(f"{'seconds a prompt, medians of rounds':<46} {'wall':>7} {'cpu':>7} {'same':>9}")
    for name in names:
        same = sum(a == b for a, b in zip(texts[name], texts[names[0]], strict=True))
        print(f"{name:<46} {median(walls[name]):7.3f} {median(cpus[name]):7.3f} {same:5}/{total}")
    print(f"load average {os.getloadavg()[0]:.1f} at the end")


if __name__ == "__main__":
    main()

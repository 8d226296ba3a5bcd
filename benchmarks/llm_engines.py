"""Requests a second of three ways to run the writer; a request is one greedy program.

``python benchmarks/llm_engines.py --url http://HOST:PORT/v1`` compares a plain loop over
``generate`` of transformers and our transformers backend (which keeps read prefixes and
guesses ahead), both one request at a time, with a vLLM server asked several at once. Each
gets prompts that share their API lines and examples, and prompts that share nothing.
``tests/vllm/serve.py -- COMMAND`` runs a server meanwhile.
"""

from __future__ import annotations

import argparse
import os
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from viper.api.sets import api_set
from viper.llm.openai_llm import OpenAILLM
from viper.llm.protocol import Sampling
from viper.llm.transformers_llm import TransformersLLM
from viper.profiles.wiring import EMBEDDED
from viper.prompting.compact import END_OF_PROGRAM, compact_document
from viper_lab.recipes.writer_documents import annotated
from viper_lab.world.queries.sample import TextSample
from viper_lab.world.queries.texts import generate_text_only

WRITER = EMBEDDED / "weights" / "writer"
EXAMPLES = 4


class Solved(NamedTuple):
    """A query as an example shows it."""

    query: str
    program: str
    options: tuple[str, ...]


Write = Callable[[Sequence[str]], list[str]]


def shared_prompts(count: int, seed: int) -> list[str]:
    """Prompts that differ in their query alone."""
    samples = list(generate_text_only("test", seed, count + EXAMPLES, family="question"))
    entries = api_set("abstract").entries("question")
    examples, asked = samples[:EXAMPLES], samples[EXAMPLES:]
    return [compact_document(entries, "question", _shown(examples), s.text) for s in asked]


def unlike_prompts(count: int, seed: int) -> list[str]:
    """Prompts whose API lines stand in another order each, with examples of their own."""
    random = Random(seed)
    samples = list(generate_text_only("test", seed, count * (1 + EXAMPLES), family="question"))
    entries = list(api_set("abstract").entries("question"))
    prompts = []
    for index in range(count):
        random.shuffle(entries)
        own = samples[index * (1 + EXAMPLES) :][: 1 + EXAMPLES]
        prompts.append(compact_document(entries, "question", _shown(own[1:]), own[0].text))
    return prompts


def _shown(samples: Sequence[TextSample]) -> list[Solved]:
    return [Solved(sample.text, annotated(sample), sample.options) for sample in samples]


KINDS: Mapping[str, Callable[[int, int], list[str]]] = {
    "shared": shared_prompts,
    "unlike": unlike_prompts,
}


def plain_transformers(model: Path, sampling: Sampling) -> Write:
    """One request at a time by the library's own ``generate``, nothing kept."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer: Any = AutoTokenizer.from_pretrained(model, local_files_only=True)
    network: Any = AutoModelForCausalLM.from_pretrained(
        model, dtype="float32", local_files_only=True
    ).eval()

    # The loop's own limit counts; the checkpoint's would be warned about at every request.
    network.generation_config.max_length = None

    def ended(ids: Any, scores: Any, **_: Any) -> Any:
        return torch.tensor([END_OF_PROGRAM in tokenizer.decode(ids[0, -4:])])

    def write(prompts: Sequence[str]) -> list[str]:
        found = []
        for prompt in prompts:
            encoded = tokenizer(prompt, return_tensors="pt")
            with torch.inference_mode():
                ids = network.generate(
                    **encoded,
                    max_new_tokens=sampling.max_tokens,
                    do_sample=False,
                    stopping_criteria=[ended],
                )
            start = encoded["input_ids"].shape[1]
            text = tokenizer.decode(ids[0, start:], skip_special_tokens=True)
            found.append(text.split(END_OF_PROGRAM)[0])
        return found

    return write


def backend(llm: TransformersLLM | OpenAILLM, sampling: Sampling) -> Write:
    """A backend of ours: the server gets all prompts at once, transformers one by one."""

    def write(prompts: Sequence[str]) -> list[str]:
        batches = [list(prompts)] if isinstance(llm, OpenAILLM) else [[each] for each in prompts]
        return [found[0].text for batch in batches for found in llm.generate(batch, sampling)]

    return write


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", default=os.environ.get("VIPER_TEST_VLLM_URL"))
    parser.add_argument("--served", default="writer", help="the model's name on the server")
    parser.add_argument("--model", type=Path, default=WRITER, help="the same model's folder")
    parser.add_argument("--requests", type=int, default=32, help="a round")
    parser.add_argument("--rounds", type=int, default=3, help="the fastest one counts")
    parser.add_argument("--at-once", type=int, default=16)
    parser.add_argument("--max-tokens", type=int, default=320, help="of a program")
    parser.add_argument("--without-server", action="store_true")
    options = parser.parse_args()
    sampling = Sampling(max_tokens=options.max_tokens, stop=(END_OF_PROGRAM,))
    local = TransformersLLM(
        options.model, template="plain", local_only=True, device="cpu", dtype="float32"
    )
    engines: dict[str, Write] = {
        "transformers generate, 1 at once": plain_transformers(options.model, sampling),
        "transformers backend, 1 at once": backend(local, sampling),
    }
    if not options.without_server:
        if not options.url:
            parser.error("--url of a vLLM server is missing, or pass --without-server")
        server = OpenAILLM(
            options.served,
            base_url=options.url,
            api="completions",
            key_env="VIPER_NO_KEY",
            concurrency=options.at_once,
        )
        engines[f"vLLM server, {options.at_once} at once"] = backend(server, sampling)
    compare(engines, options.requests, options.rounds)


def compare(engines: Mapping[str, Write], requests: int, rounds: int) -> None:
    """A line for each engine; ``same`` counts the texts equal to the first engine's.

    Engines take turns within each round and the fastest round counts, so that what else
    the machine does falls on all of them.
    """
    print(f"load average {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")
    print(f"{requests} requests a round, {rounds} rounds")
    rates, texts = defaultdict[tuple[str, str], float](float), dict[tuple[str, str], list[str]]()
    for write in engines.values():
        write(unlike_prompts(2, seed=99))
    for seed in range(rounds):
        for kind, draw in KINDS.items():
            prompts = draw(requests, seed)
            for name, write in engines.items():
                started = time.perf_counter()
                texts[name, kind] = write(prompts)
                rate = requests / (time.perf_counter() - started)
                rates[name, kind] = max(rates[name, kind], rate)
    first = next(iter(engines))
    print(f"{'requests/s':<36}" + "".join(f" {kind:>8} {'same':>8}" for kind in KINDS))
    for name in engines:
        line = f"{name:<36}"
        for kind in KINDS:
            pairs = zip(texts[name, kind], texts[first, kind], strict=True)
            line += f" {rates[name, kind]:8.2f} {sum(a == b for a, b in pairs):4}/{requests}"
        print(line)
    print(f"load average {os.getloadavg()[0]:.1f} at the end")


if __name__ == "__main__":
    main()

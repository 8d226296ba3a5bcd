"""Scores of the program writer on queries and words that training held out.

A figure is a share of: exact programs (same syntax tree, comments aside), right nouns, right
routine names (over all names of all programs), right options.
"""

from __future__ import annotations

import ast
import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

from viper.api.sets import ApiEntry
from viper.embedded import WEIGHTS
from viper.models.llm.adapters import ADAPTER_CONFIG
from viper.models.llm.protocol import LLM, Sampling
from viper.models.llm.transformers_llm import TransformersLLM
from viper.prompting.compact import END_OF_PROGRAM, compact_document, compact_selection
from viper.schema import Example
from viper_lab.recipes.writer_documents import (
    annotated,
    listed_entries,
    names_called,
    renamed_entry,
)
from viper_lab.recipes.writer_words import made_up_lexicon, made_up_names, plain_names
from viper_lab.world.queries.ambiguous import wording
from viper_lab.world.queries.annotate import rename
from viper_lab.world.queries.conventions import Conventions, draw_conventions
from viper_lab.world.queries.lexicon import WORLD
from viper_lab.world.queries.meaning import TASK_OF_FAMILY
from viper_lab.world.queries.sample import TextSample
from viper_lab.world.queries.texts import (
    FAMILY_WEIGHTS,
    ambiguous_text_sample,
    selection_sample,
    text_sample,
)

SEEDS = (0, 1, 2)
GREEDY = Sampling(max_tokens=400, stop=(END_OF_PROGRAM,))


@dataclass(frozen=True)
class WriterTrial:
    """One prompt and the contents of a right program.

    Attributes:
        program: the canonical program, under the prompt's names.
        nouns: its string literals with invented words.
        names: its routine names, one per occurrence of a routine in the program.
    """

    prompt: str
    program: str
    nouns: tuple[str, ...]
    names: tuple[str, ...]


@dataclass(frozen=True)
class Condition:
    """Rules by which a set of trials is drawn.

    Attributes:
        split: source of the templates and combinations of the queries.
        examples: number of solved queries in the prompt; with invented names they show every name
            of the right program.
        made_up_nouns: queries about invented things.
        made_up_names: the API text and the examples give every routine an invented name.
        plain_names: as ``made_up_names``, with names made of common words.
        ambiguous: ask ambiguous queries under conventions drawn for each prompt; examples follow
            the same conventions, and at least one shares the ambiguous wording of the query.
    """

    split: str = "test"
    examples: int = 0
    api: str = "abstract"
    made_up_nouns: bool = False
    made_up_names: bool = False
    plain_names: bool = False
    ambiguous: bool = False

    @property
    def renamed(self) -> bool:
        """Return whether routines have new names."""
        return self.made_up_names or self.plain_names


CONDITIONS: Mapping[str, Condition] = {
    "programs_val": Condition("val"),
    "programs": Condition(),
    "programs_4_examples": Condition(examples=4),
    "programs_vipergpt": Condition(api="vipergpt"),
    "unseen_nouns": Condition(made_up_nouns=True),
    "names_in_examples": Condition(examples=4, made_up_names=True),
    "names_in_api_text": Condition(made_up_names=True),
    "names_of_common_words": Condition("val", plain_names=True),
    "vague": Condition("val", ambiguous=True),
    "vague_8_examples": Condition("val", ambiguous=True, examples=8),
}


def evaluate(
    writer: Path | LLM,
    *,
    queries: int = 500,
    seeds: Sequence[int] = SEEDS,
    conditions: Mapping[str, Condition] = CONDITIONS,
    report: Callable[[str], None] = lambda line: None,
) -> dict[str, float]:
    """Return all figures, each the mean over the seeds.

    Keys: for each condition ``{name}`` (its main figure) and ``{name}/exact``; ``selection``;
    ``{name}/spread`` is the standard deviation over the seeds.

    Args:
        writer: a folder of weights, or any language model.
        queries: number of queries per condition and seed.
    """
    llm = load_llm(writer)
    figures: dict[str, float] = {}
    for name, condition in conditions.items():
        scores = [score_condition(llm, condition, queries, seed) for seed in seeds]
        figure = "nouns" if condition.made_up_nouns else "exact"
        figure = "names" if condition.renamed else figure
        _add(figures, name, [score[figure] for score in scores])
        figures[f"{name}/exact"] = statistics.mean(score["exact"] for score in scores)
        report(f"{name}: {figures[name]:.3f} (exact programs {figures[f'{name}/exact']:.3f})")
    _add(figures, "selection", [score_selection(llm, queries, seed) for seed in seeds])
    report(f"selection: {figures['selection']:.3f}")
    return figures


def score_condition(llm: LLM, condition: Condition, queries: int, seed: int) -> dict[str, float]:
    """Return shares of exact programs, of right nouns and of right names over all queries."""
    trials = list(draw_trials(condition, queries, seed))
    exact, nouns, names = 0, Counter[bool](), Counter[bool]()
    for trial, program in zip(trials, _programs(llm, trials), strict=True):
        exact += same_program(program, trial.program)
        literals = string_literals(program)
        nouns.update(noun in literals for noun in trial.nouns)
        names.update(_occurrences(trial.names, identifiers(program)))
    return {
        "exact": exact / len(trials),
        "nouns": nouns[True] / max(1, nouns.total()),
        "names": names[True] / max(1, names.total()),
    }


def score_selection(llm: LLM, queries: int, seed: int) -> float:
    """Return the share of questions for which the right option is the likeliest."""
    random = Random(f"writer selections {seed}")
    right = 0
    for _ in range(queries):
        sample = selection_sample(random, "test")
        prompt = compact_selection(sample.info, sample.question, sample.options)
        scores = llm.score(prompt, [f" {option}" for option in sample.options])
        right += sample.options[scores.index(max(scores))] == sample.answer
    return right / queries


def draw_trials(condition: Condition, count: int, seed: int) -> Iterator[WriterTrial]:
    """Yield prompts of a condition; the same seed draws the same ones."""
    # The seed holds the condition as text, so its field names are part of it.
    random = Random(f"writer score {condition} {seed}")
    for _ in range(count):
        yield _trial(condition, random)


def same_program(program: str, other: str) -> bool:
    """Return whether two programs have the same syntax tree; comments and layout are ignored."""
    try:
        return ast.dump(ast.parse(program)) == ast.dump(ast.parse(other))
    except (SyntaxError, ValueError):
        return False


def string_literals(program: str) -> set[str]:
    """Return every string of a program without outer spaces; none if it does not parse."""
    return {
        node.value.strip()
        for node in _nodes(program)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


def identifiers(program: str) -> Counter[str]:
    """Count each name and attribute in a program's code."""
    nodes = list(_nodes(program))
    names = [node.id for node in nodes if isinstance(node, ast.Name)]
    return Counter(names + [node.attr for node in nodes if isinstance(node, ast.Attribute)])


def _nodes(program: str) -> Iterator[ast.AST]:
    try:
        return ast.walk(ast.parse(program))
    except (SyntaxError, ValueError):
        return iter(())


def _occurrences(expected: Sequence[str], counts: Counter[str]) -> Iterator[bool]:
    """Yield for each expected name whether it occurs, counted with repetition."""
    left = Counter(counts)
    for name in expected:
        yield left[name] > 0
        left[name] -= 1


def _trial(condition: Condition, random: Random) -> WriterTrial:
    family = random.choices(tuple(FAMILY_WEIGHTS), tuple(FAMILY_WEIGHTS.values()))[0]
    entries = listed_entries(condition.api, TASK_OF_FAMILY[family])
    lexicon = made_up_lexicon(random, test=True) if condition.made_up_nouns else WORLD
    options: Mapping[str, Any] = {"family": family, "api": condition.api, "lexicon": lexicon}
    if condition.ambiguous:
        conventions = draw_conventions(random)
        sample = ambiguous_text_sample(random, conventions, condition.split, **options)
        examples = _ambiguous_examples(condition, random, conventions, sample, options)
    else:
        sample = text_sample(random, condition.split, **options)
        routines = names_called(sample.program, entries)
        examples = _examples(condition, random, routines, entries, options)
    mapping: Mapping[str, str] = {}
    if condition.renamed:
        names = [entry.name for entry in entries]
        if condition.plain_names:
            mapping = plain_names(random, names, avoid=names)
        else:
            mapping = made_up_names(random, dict.fromkeys(names), test=True, avoid=names)
    program = rename(sample.program, mapping)
    prompt = compact_document(
        [renamed_entry(entry, mapping) for entry in entries],
        sample.task,
        [_example(example, rename(annotated(example), mapping)) for example in examples],
        sample.text,
        sample.options,
    )
    vocabulary = set(WORLD.sizes + WORLD.colors + WORLD.materials + WORLD.shapes)
    slots = _slot_words(sample)
    nouns = [text for text in string_literals(program) if text in slots]
    nouns = [text for text in nouns if not set(text.split()) <= vocabulary]
    called = identifiers(program)
    routines = names_called(sample.program, entries)
    used = [name for name in called.elements() if name in {mapping.get(r, r) for r in routines}]
    return WriterTrial(prompt, program, tuple(nouns), tuple(used))


def _slot_words(sample: TextSample) -> set[str]:
    """Return the noun phrases and properties of the query."""
    words: set[str] = set()

    def visit(record: Mapping[str, object]) -> None:
        for name, value in record.items():
            if isinstance(value, Mapping):
                visit(value)
            elif isinstance(value, str) and name != "type":
                words.add(value)

    visit(sample.meaning.to_json())
    return words


def _ambiguous_examples(
    condition: Condition,
    random: Random,
    conventions: Conventions,
    sample: TextSample,
    options: Mapping[str, Any],
) -> list[TextSample]:
    """Draw solved training queries, half of them ambiguous, one with the wording of the sample."""
    if condition.examples == 0:
        return []
    alike = next(
        example
        for _ in count()
        if wording((example := ambiguous_text_sample(random, conventions, **options)).meaning)
        == wording(sample.meaning)
    )
    others = [
        ambiguous_text_sample(random, conventions, **options)
        if random.random() < 0.5
        else text_sample(random, **options)
        for _ in range(condition.examples - 1)
    ]
    return random.sample([alike, *others], condition.examples)


def _examples(
    condition: Condition,
    random: Random,
    routines: set[str],
    entries: Sequence[ApiEntry],
    options: Mapping[str, Any],
) -> list[TextSample]:
    """Draw solved training queries; with invented names they cover the routines."""
    if condition.examples == 0:
        return []
    for _ in range(2000):
        samples = [text_sample(random, **options) for _ in range(condition.examples)]
        names = set[str]().union(*(names_called(e.program, entries) for e in samples))
        if not condition.renamed or routines <= names:
            return samples
    return samples


def _example(sample: TextSample, program: str) -> Example:
    return Example(
        query=sample.text,
        program=program,
        task=sample.task,
        api=sample.api,
        score=1.0,
        sample_id="",
        seed=0,
        llm="",
        api_hash="",
        options=sample.options,
    )


def _programs(llm: LLM, trials: Sequence[WriterTrial]) -> Iterator[str]:
    # One by one: a single text decodes several tokens per pass, faster than a batch on a CPU.
    for trial in trials:
        yield llm.generate([trial.prompt], GREEDY)[0][0].text


def load_llm(model: Path | LLM) -> LLM:
    """Return a language model; a folder is loaded, an adapter over the small writer."""
    if not isinstance(model, Path):
        return model
    adapter = model if (model / ADAPTER_CONFIG).is_file() else None
    base = WEIGHTS / "writer_small" if adapter else model
    return TransformersLLM(base, template="plain", local_only=True, adapter=adapter)


def _add(figures: dict[str, float], name: str, values: Sequence[float]) -> None:
    figures[name] = statistics.mean(values)
    figures[f"{name}/spread"] = statistics.pstdev(values)

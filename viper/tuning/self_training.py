"""Self-training of a program writer: it learns those of its own programs that are right elsewhere.

`drafts_of` collects the programs that were right, `lessons_of` tries them on other pictures and
keeps one for each query, and `training_text` makes a text of it.

Labels alone are a weak filter: a program may fit the few labelled pictures of a query by luck. A
program is therefore a lesson only if

- it is right on every labelled sample of its query,
- it answers about the pictures of other queries, where programs that answer alike count as one, and
- the writer wrote such programs often, or they call what the lessons of queries call that share
  phrases with this one.

Source: Lee et al. 2023 run candidates on other worlds and vote by their results; Gupta et al. 2021
ask for consistency between sentences that share phrases.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from statistics import fmean
from typing import Any

from viper.agreement import is_correct
from viper.data.sample import Sample
from viper.errors import CancelledError, ViperError
from viper.evaluate.sample_result import SampleResult
from viper.models.llm.messages import Prompt
from viper.models.media import media_from
from viper.prompting.compact import END_OF_PROGRAM, compact_program
from viper.prompting.extract import ENTRY
from viper.reasoner import Reasoner, RunOptions
from viper.tuning.agent.masking import MaskedWorkflow

# Number of words in a row that two queries must share to be compared: two words such as "is the"
# are shared by most queries, four by few.
PHRASE = 3

# Task, text and options.
QueryKey = tuple[str, str, tuple[str, ...]]


@dataclass(frozen=True)
class Draft:
    """A program that was written for a query.

    Attributes:
        share: share of the query's draws that wrote it.
    """

    program: str
    share: float


@dataclass(frozen=True)
class Lesson:
    """A program to learn for a query.

    Attributes:
        sample: one of the samples with the query.
        share: share of the query's draws whose programs are right and answer alike elsewhere.
    """

    sample: Sample
    program: str
    share: float


def query_key(sample: Sample) -> QueryKey:
    """Return what makes the samples of one query alike, whatever their pictures."""
    return sample.task, sample.text, sample.options


def drafts_of(
    results: Iterable[SampleResult], samples: Sequence[Sample]
) -> dict[QueryKey, list[Draft]]:
    """Return the programs of each query that were right on each of its samples that they met."""
    keys = {sample.sample_id: query_key(sample) for sample in samples}
    scores: dict[QueryKey, dict[str, list[bool]]] = defaultdict(lambda: defaultdict(list))
    draws: dict[QueryKey, int] = defaultdict(int)
    for result in results:
        key = keys[result.sample_id]
        draws[key] += 1
        if result.program:
            is_right = result.failure is None and is_correct(result.score)
            scores[key][result.program].append(is_right)
    return {
        key: [Draft(program, len(hits) / draws[key]) for program, hits in each.items() if all(hits)]
        for key, each in scores.items()
    }


def lessons_of(
    drafts: Mapping[QueryKey, Sequence[Draft]],
    samples: Sequence[Sample],
    reasoner: Reasoner,
    *,
    scenes: int = 8,
    least_share: float = 0.25,
    seed: int = 0,
    on_query: Callable[[], None] = lambda: None,
) -> list[Lesson]:
    """Return at most one lesson for each query.

    Args:
        scenes: number of pictures of other queries that programs are tried on.
        least_share: share of a query's draws from which a lesson needs no support by phrases.
        on_query: called after each query.
    """
    first: dict[QueryKey, Sample] = {}
    for sample in samples:
        first.setdefault(query_key(sample), sample)
    groups: dict[QueryKey, list[Draft]] = {}
    for key, programs in drafts.items():
        task, text, _ = key
        others = [other for other in samples if other.task == task and other.text != text]
        chosen = Random(f"{seed} {key}").sample(others, min(scenes, len(others)))
        groups[key] = _alike(programs, chosen, reasoner) if programs else []
        on_query()
    names = {key: _names(group[0].program) for key, group in groups.items() if group}
    having: dict[tuple[str, ...], list[QueryKey]] = defaultdict(list)
    for key in names:
        for phrase in _phrases(key[1]):
            having[phrase].append(key)
    lessons = []
    for key, group in groups.items():
        phrases = _phrases(key[1])
        related = [names[other] for each in phrases for other in having[each] if other != key]
        ranked = [(draft.share + _likeness(draft.program, related), draft) for draft in group]
        rank, draft = max(ranked, key=lambda pair: pair[0], default=(0.0, None))
        # a rare draw counts if it shares most of its code with programs of related queries
        if draft is not None and (draft.share >= least_share or rank - draft.share > 0.5):
            lessons.append(Lesson(first[key], draft.program, draft.share))
    return lessons


def _alike(programs: Sequence[Draft], scenes: Sequence[Sample], reasoner: Reasoner) -> list[Draft]:
    """Return the most frequent program of each behaviour with its share, the most frequent first.

    A program that fails on all of the scenes is left out.
    """
    by_behaviour: dict[tuple[str, ...], list[Draft]] = defaultdict(list)
    for draft in programs:
        answers = []  # about the pictures of other samples; "" where it fails
        for scene in scenes:
            options = RunOptions(task=scene.task, options=scene.options, self_tune=False)
            try:
                media = media_from(scene.load())
                answer = reasoner.execute(draft.program, media, scene.text, options).answer
            except CancelledError:
                raise
            except ViperError:  # a picture that cannot be read says nothing about the program
                continue
            answers.append("" if answer is None else str(answer.value))
        if any(answers) or not scenes:
            by_behaviour[tuple(answers)].append(draft)
    groups = []
    for same in by_behaviour.values():
        best = min(same, key=lambda draft: (-draft.share, len(draft.program), draft.program))
        groups.append(replace(best, share=sum(draft.share for draft in same)))
    return sorted(groups, key=lambda draft: -draft.share)


def _likeness(program: str, related: Sequence[frozenset[str]]) -> float:
    """Return the mean share of names and words that a program has in common with related ones.

    A program is named once for each phrase that the queries share. 0 without related ones.
    """
    names = _names(program)
    return fmean(len(names & own) / len(names | own) for own in related) if related else 0


def _phrases(text: str) -> frozenset[tuple[str, ...]]:
    words = text.lower().split()
    return frozenset(zip(*(words[start:] for start in range(PHRASE)), strict=False))


def _names(program: str) -> frozenset[str]:
    """Return the names and the words of strings in a program."""
    found: set[str] = {ENTRY}
    for node in ast.walk(ast.parse(program)):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.Constant):
            found |= set(str(node.value).split())
    return frozenset(found)


def held_out_queries(samples: Sequence[Sample], share: float, seed: int) -> set[QueryKey]:
    """Return a share of the queries, rounded down; they are asked before and after training."""
    keys = list(dict.fromkeys(map(query_key, samples)))
    return set(Random(f"held out {seed}").sample(keys, int(share * len(keys))))


def training_text(prompt: Prompt, lesson: Lesson, style: str) -> MaskedWorkflow:
    """Return the prompt of a lesson's query and the reply that the writer should give."""
    return MaskedWorkflow(prompt, reply_of(lesson.program, style), lesson.sample.sample_id, 0, True)


def reply_of(program: str, style: str) -> str:
    """Return the text by which a writer of a prompt style gives a program."""
    if style == "compact":
        return compact_program(program) + END_OF_PROGRAM
    if style == "chat":
        return f"```python\n{program.strip()}\n```"
    return program.strip().removeprefix(f"def {ENTRY}(")


def card(name: str, facts: Mapping[str, Any], command: str) -> str:
    """Return the model card of a self-trained writer as Markdown."""
    lines = [f"- {key}: {value}" for key, value in facts.items()]
    heading = f"# {name}\n\nA program writer, tuned on those of its own programs that were right.\n"
    return "\n".join([heading, f"```\n{command}\n```\n", *lines, ""])

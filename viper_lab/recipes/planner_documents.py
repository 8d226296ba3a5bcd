"""Training texts of the planner: planned queries, and programs written from plans.

A document is a prompt as :mod:`viper.prompting.plans` builds it, with the replies filled in. Most
documents plan several queries of one family in a row, so that later plans have earlier ones before
them. Some of the earlier plans are wrong and state the reason. Other documents show the API and
write programs from plans. As in the program writer's documents
(:mod:`viper_lab.recipes.writer_documents`), the conventions of ambiguous queries hold inside one
document, and only demonstrations show them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

from viper.prompting.compact import END_OF_PROGRAM, compact_header, compact_program, compact_request
from viper.prompting.plans import compact_plan_request, compact_wrong_plan, numbered
from viper_lab.recipes.writer_documents import (
    FAMILY_SHARES,
    DocumentOptions,
    Piece,
    annotated,
    evened_sample,
    header_entries,
    listed_entries,
    name_mapping,
    renamed_entry,
    varied,
)
from viper_lab.recipes.writer_words import made_up_lexicon
from viper_lab.world.queries.annotate import rename
from viper_lab.world.queries.conventions import Conventions, draw_conventions
from viper_lab.world.queries.lexicon import WORLD, Lexicon
from viper_lab.world.queries.meaning import TASK_OF_FAMILY
from viper_lab.world.queries.plan_wordings import plan_steps, wrong_plan
from viper_lab.world.queries.sample import TextSample
from viper_lab.world.queries.texts import ambiguous_text_sample


@dataclass(frozen=True)
class PlanDocuments:
    """Composition of documents.

    Attributes:
        programs: share of documents that write programs from plans.
        plans: maximum number of planned queries in a document.
        lone: share of documents with a single query, so without demonstrations.
        wrong: share of the planning documents that also demonstrate wrong plans.
        ambiguous: share of documents that hold ambiguous queries, and of the queries in them.
        made_up_nouns: share of documents about invented things.
        api_text: composition of the API text in documents with programs.
    """

    programs: float = 0.25
    plans: int = 7
    lone: float = 0.3
    wrong: float = 0.5
    ambiguous: tuple[float, float] = (0.2, 0.6)
    made_up_nouns: float = 0.25
    api_text: DocumentOptions = DocumentOptions(
        programs=3, made_up_names=0.1, swapped_names=0.0, full_header=0.25, extra_lines=6
    )


def plan_document(random: Random, options: PlanDocuments) -> list[Piece]:
    """Draw one document of the training split."""
    family = random.choices(tuple(FAMILY_SHARES), tuple(FAMILY_SHARES.values()))[0]
    lexicon = made_up_lexicon(random) if random.random() < options.made_up_nouns else WORLD
    conventions = draw_conventions(random) if random.random() < options.ambiguous[0] else None
    if random.random() < options.programs:
        count = random.randint(1, options.api_text.programs)
        samples = list(_samples(random, options, family, (lexicon, conventions), count))
        return _with_programs(random, options, family, samples)
    lone = random.random() < options.lone
    count = 1 if lone else random.randint(2, options.plans)
    samples = list(_samples(random, options, family, (lexicon, conventions), count))
    return list(_with_plans(random, family, samples, not lone and random.random() < options.wrong))


def _samples(
    random: Random,
    options: PlanDocuments,
    family: str,
    about: tuple[Lexicon, Conventions | None],
    count: int,
) -> Iterator[TextSample]:
    lexicon, conventions = about
    for _ in range(count):
        if conventions is not None and random.random() < options.ambiguous[1]:
            yield ambiguous_text_sample(random, conventions, family=family, lexicon=lexicon)
        else:
            yield evened_sample(random, family, "abstract", lexicon)


def _with_plans(
    random: Random, family: str, samples: list[TextSample], with_wrong: bool
) -> Iterator[Piece]:
    """Yield plans: correct ones are learned, wrong ones are context only."""
    task = TASK_OF_FAMILY[family]
    right, wrong = list(samples), list[tuple[TextSample, tuple[Sequence[str], str]]]()
    if with_wrong:
        # As in prompts, wrong plans come last, before the query.
        for sample in samples[len(samples) // 2 : -1]:
            misread = wrong_plan(sample.meaning, random)
            if misread is not None:
                right.remove(sample)
                wrong.append((sample, misread))
    for sample in right[:-1]:
        yield from _planned(random, task, sample)
    for sample, (steps, critique) in wrong:
        text = varied(random, sample.text)
        context = compact_wrong_plan(task, text, numbered(*steps), critique, sample.options)
        yield Piece(context, learned=False)
    yield from _planned(random, task, right[-1])


def _planned(random: Random, task: str, sample: TextSample) -> Iterator[Piece]:
    text = varied(random, sample.text)
    yield Piece(compact_plan_request(task, text, sample.options), learned=False)
    plan = numbered(*plan_steps(sample.meaning, random))
    yield Piece(plan + END_OF_PROGRAM, learned=True)


def _with_programs(
    random: Random, options: PlanDocuments, family: str, samples: list[TextSample]
) -> list[Piece]:
    task = TASK_OF_FAMILY[family]
    entries = listed_entries("abstract", task)
    commented = options.api_text.commented
    programs = [annotated(sample) if commented else sample.program for sample in samples]
    header = header_entries(random, options.api_text, entries, programs)
    mapping = name_mapping(random, options.api_text, [entry.name for entry in entries])
    header = [renamed_entry(entry, mapping) for entry in header]
    pieces = [Piece(compact_header(header), learned=False)]
    for sample, program in zip(samples, programs, strict=True):
        plan = numbered(*plan_steps(sample.meaning, random))
        text = varied(random, sample.text)
        request = compact_request(task, text, sample.options, plan=plan)
        solved = compact_program(rename(program, mapping)) + END_OF_PROGRAM
        pieces += [Piece(request, learned=False), Piece(solved, learned=True)]
    return pieces

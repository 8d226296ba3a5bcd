"""Training texts of the program writer: an API header, solved queries, answers to select.

A document is one prompt as :mod:`viper.prompting.compact` builds it, with the programs filled in.
Documents vary in the task, the API, the lines and order of the header, invented nouns, invented
routine names, the number of solved queries, and the conventions of ambiguous queries. Within a
document these are fixed. Every program follows the header that lists its names, so it can be
learned; the first program has no example before it. In some documents the first programs have no
comments, as a bank may show them, and only later programs are learned.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from random import Random

from viper.api.registry import MORE
from viper.api.sets import ApiEntry, api_set
from viper.prompting.compact import (
    END_OF_PROGRAM,
    compact_failure,
    compact_header,
    compact_program,
    compact_request,
    compact_selection,
)
from viper_lab.recipes.writer_words import made_up_lexicon, made_up_names, real_lexicon
from viper_lab.world.everyday.draw import DEEPEST
from viper_lab.world.everyday.texts import everyday_selection, everyday_text, words_of
from viper_lab.world.everyday.written import written_selection, written_text
from viper_lab.world.queries.ambiguous import WEIGHTS as AMBIGUOUS_SORTS
from viper_lab.world.queries.annotate import annotate, rename, strip_comments
from viper_lab.world.queries.conventions import draw_conventions
from viper_lab.world.queries.lexicon import WORLD, Lexicon
from viper_lab.world.queries.meaning import SHARES, TASK_OF_FAMILY
from viper_lab.world.queries.sample import SelectionSample, TextSample
from viper_lab.world.queries.texts import ambiguous_text_sample, selection_sample, text_sample

FAMILY_SHARES: Mapping[str, float] = {"referring": 0.40, "question": 0.40, "video": 0.20}

_TEXTS = tomllib.loads(Path(__file__).with_name("writer_documents.toml").read_text("utf-8"))

# Share of expressions among everyday texts about pictures: they are all of one type, questions of
# thirty.
EXPRESSIONS = 0.23

# Share of statements among everyday questions about pictures.
STATEMENTS = 0.1

# Kinds and messages of failures that a later prompt may report.
FAILURES: Sequence[tuple[str, str]] = [(kind, message) for kind, message in _TEXTS["failures"]]

# Weight below which a type is drawn as is; more common types are drawn by the root of their weight.
_RARE = 0.03


@dataclass(frozen=True)
class Piece:
    """A part of a document; only ``learned`` parts count in the loss."""

    text: str
    learned: bool


@dataclass(frozen=True)
class DocumentOptions:
    """Composition of documents.

    Attributes:
        programs: maximum number of solved queries in a document.
        made_up_nouns: share of documents with invented nouns.
        real_nouns: share of documents about real things that the world lacks.
        made_up_names: share of documents with invented routine names.
        swapped_names: share with the API's own names assigned to the wrong routines, so that only
            the header tells what a name does.
        full_header: share of documents whose header lists the whole API.
        headless: share of documents without any header, of those with the API's own names; they
            hold more queries for the same tokens.
        extra_lines: maximum number of unneeded lines in another header.
        selections: share of documents that select answers.
        vipergpt: share of documents with the API of plain methods.
        lone: share of documents with a single query, so without any example.
        ambiguous: share of documents that hold ambiguous queries; each document draws its own
            conventions.
        ambiguous_shares: the share of ambiguous queries in such a document is one of these.
        focused: share of such documents with at most ``most_sorts`` sorts of ambiguous query, so
            that the same convention appears again.
        bare: share of the longer documents whose first programs have no comments and are not
            learned.
        banks: share of documents that begin like a prompt with a mined bank: some solved queries,
            every sort of ambiguous query at most once; then a few more queries.
        bank_examples: least and most programs of such a bank.
        failed: share of documents that report before their last query how an earlier program for it
            failed; the right program is the same.
        everyday: share of documents with everyday English (:mod:`viper_lab.world.everyday`).
        everyday_mixed: share of these whose queries are half everyday ones and half of the older
            sort, as behind a bank.
        everyday_deepest: most objects that lead to one object in an everyday query.
        clips: share of documents about clips, of the everyday ones.
        written: share of everyday queries and selections that were written one by one
            (:mod:`viper_lab.world.everyday.written`).
        commented: programs repeat the header's line of each routine before its use.
    """

    programs: int = 5
    made_up_nouns: float = 0.5
    real_nouns: float = 0.0
    made_up_names: float = 0.5
    swapped_names: float = 0.06
    full_header: float = 0.3
    headless: float = 0.0
    extra_lines: int = 12
    selections: float = 0.2
    vipergpt: float = 0.2
    lone: float = 0.0
    ambiguous: float = 0.0
    ambiguous_shares: tuple[float, ...] = (0.5, 0.75, 1.0)
    most_sorts: int = 3
    focused: float = 0.6
    bare: float = 0.0
    banks: float = 0.0
    bank_examples: tuple[int, int] = (4, 10)
    failed: float = 0.0
    everyday: float = 0.0
    everyday_mixed: float = 0.3
    everyday_deepest: int = DEEPEST
    clips: float = 0.22
    written: float = 0.0
    commented: bool = True


def document(random: Random, options: DocumentOptions) -> list[Piece]:
    """Draw one document of the training split."""
    if random.random() < options.selections:
        everyday = _happens(random, options.everyday)
        if everyday and _happens(random, options.written):
            return selection_pieces(written_selection(random))
        return selection_document(random, everyday=everyday)
    return program_document(random, options)


def program_document(random: Random, options: DocumentOptions) -> list[Piece]:
    """Draw a header and one or more solved queries."""
    everyday = _happens(random, options.everyday)
    shares = _everyday_shares(options.clips) if everyday else FAMILY_SHARES
    family = random.choices(tuple(shares), tuple(shares.values()))[0]
    api = "vipergpt" if random.random() < options.vipergpt and not everyday else "abstract"
    lexicon = _lexicon(random, options)
    task = TASK_OF_FAMILY[family]
    if everyday:
        task = "statement" if task == "question" and random.random() < STATEMENTS else task
        samples, bare = _everyday_samples(random, options, family, task, lexicon), 0
    else:
        samples, bare = _samples_and_bare(random, options, family, api, lexicon)
    listed = "vipergpt+abstract" if api == "abstract" and random.random() < 0.1 else api
    entries = listed_entries(listed, task)
    programs = [
        _annotate(sample.program, entries) if options.commented else sample.program
        for sample in samples
    ]
    header = header_entries(random, options, entries, programs)
    mapping = name_mapping(random, options, [entry.name for entry in entries])
    header = [renamed_entry(entry, mapping) for entry in header]
    failed = len(samples) - 1 if _happens(random, options.failed) else None
    if not mapping and _happens(random, options.headless):
        header = []
    pieces = [Piece(compact_header(header), learned=False)]
    for place, (sample, program) in enumerate(zip(samples, programs, strict=True)):
        text = sample.text if everyday else varied(random, sample.text)
        failure = compact_failure(*random.choice(FAILURES)) if place == failed else ""
        query = compact_request(task, text, sample.options, failure)
        code = strip_comments(program) if place < bare else program
        solved = compact_program(rename(code, mapping)) + END_OF_PROGRAM
        pieces += [Piece(query, learned=False), Piece(solved, learned=place >= bare)]
    return pieces


def _everyday_shares(clips: float) -> Mapping[str, float]:
    expressions = EXPRESSIONS * (1 - clips)
    return {"referring": expressions, "question": 1 - clips - expressions, "video": clips}


def _lexicon(random: Random, options: DocumentOptions) -> Lexicon:
    drawn = random.random()
    if drawn < options.made_up_nouns:
        return made_up_lexicon(random)
    is_real = drawn < options.made_up_nouns + options.real_nouns
    return real_lexicon(random) if is_real else WORLD


def _everyday_samples(
    random: Random, options: DocumentOptions, family: str, task: str, lexicon: Lexicon
) -> list[TextSample]:
    """Draw everyday queries of one task, in some documents among others."""
    lone = _happens(random, options.lone)
    count = 1 if lone else random.randint(min(2, options.programs), options.programs)
    mixed = task != "statement" and random.random() < options.everyday_mixed

    def draw() -> TextSample:
        if _happens(random, options.written):
            return written_text(random, task, words_of(lexicon))
        return everyday_text(random, task, lexicon=lexicon, deepest=options.everyday_deepest)

    samples = [
        evened_sample(random, family, "abstract", lexicon)
        if mixed and random.random() < 0.5
        else draw()
        for _ in range(count)
    ]
    if mixed:
        samples[-1] = draw()
    return samples


def _happens(random: Random, share: float) -> bool:
    """Draw true with that probability; a share of 0 draws no number at all."""
    return share > 0 and random.random() < share


def _samples_and_bare(
    random: Random, options: DocumentOptions, family: str, api: str, lexicon: Lexicon
) -> tuple[list[TextSample], int]:
    """Draw the queries of one document, and the number of leading queries without comments."""
    if _happens(random, options.banks):
        return _bank_samples(random, options, family, api, lexicon), 0
    samples = list(_samples(random, options, family, api, lexicon))
    if len(samples) > 2 and _happens(random, options.bare):
        return samples, random.randint(1, len(samples) - 1)
    return samples, 0


def _bank_samples(
    random: Random, options: DocumentOptions, family: str, api: str, lexicon: Lexicon
) -> list[TextSample]:
    """Draw solved queries as in a bank, then a few more, all under the same conventions."""
    conventions = draw_conventions(random)
    count = random.randint(*options.bank_examples)
    sorts = list(AMBIGUOUS_SORTS[family])
    random.shuffle(sorts)
    sorts = sorts[: random.randint(0, min(count, len(sorts)))]

    def draw(sorts: Sequence[str] | None) -> TextSample:
        return ambiguous_text_sample(
            random, conventions, family=family, sorts=sorts, api=api, lexicon=lexicon
        )

    examples = [draw([sort]) for sort in sorts]
    examples += [evened_sample(random, family, api, lexicon) for _ in range(count - len(examples))]
    random.shuffle(examples)
    queries = [
        draw(None) if random.random() < 0.5 else evened_sample(random, family, api, lexicon)
        for _ in range(random.randint(2, 4))
    ]
    return [*examples, *queries]


def _samples(
    random: Random, options: DocumentOptions, family: str, api: str, lexicon: Lexicon
) -> Iterator[TextSample]:
    """Draw the queries of one document; ambiguous ones share conventions and often sorts."""
    lone = _happens(random, options.lone)
    count = 1 if lone else random.randint(2 if options.lone else 1, options.programs)
    conventions, share, sorts = None, 0.0, None
    if _happens(random, options.ambiguous):
        conventions, share = draw_conventions(random), random.choice(options.ambiguous_shares)
        if random.random() < options.focused:
            most = random.randint(1, options.most_sorts)
            sorts = random.sample(tuple(AMBIGUOUS_SORTS[family]), most)
    for _ in range(count):
        if conventions is not None and random.random() < share:
            yield ambiguous_text_sample(
                random, conventions, family=family, sorts=sorts, api=api, lexicon=lexicon
            )
        else:
            yield evened_sample(random, family, api, lexicon)


def selection_document(random: Random, *, everyday: bool = False) -> list[Piece]:
    """Draw a question whose answer is selected from known facts."""
    if everyday:
        return selection_pieces(everyday_selection(random))
    lexicon = made_up_lexicon(random) if random.random() < 0.4 else WORLD
    sample = selection_sample(random, lexicon=lexicon)
    return selection_pieces(sample)


def selection_pieces(sample: SelectionSample) -> list[Piece]:
    """Return the prompt of a selection and the option to learn."""
    prompt = compact_selection(sample.info, sample.question, sample.options)
    return [Piece(prompt, learned=False), Piece(f" {sample.answer}{END_OF_PROGRAM}", learned=True)]


@cache
def listed_entries(api: str, task: str) -> tuple[ApiEntry, ...]:
    """Return the names that an API, with those that are ours, lists for a task."""
    return api_set(f"{api}+{MORE}").entries(task)


def renamed_entry(entry: ApiEntry, mapping: Mapping[str, str]) -> ApiEntry:
    """Return the entry under its new name, if it has one."""
    return replace(entry, name=mapping.get(entry.name, entry.name))


def annotated(sample: TextSample) -> str:
    """Return the canonical program with each routine's line restated before its use."""
    return _annotate(sample.program, listed_entries(sample.api, sample.task))


def names_called(program: str, entries: Sequence[ApiEntry]) -> set[str]:
    """Return the listed names that occur in the code or the comments of a program."""
    words = set(re.findall(r"[A-Za-z_]\w*", program))
    return {entry.name for entry in entries if entry.name in words}


def evened_sample(random: Random, family: str, api: str, lexicon: Lexicon) -> TextSample:
    """Draw a query with common types thinned out, so that rare types are learned as well."""
    while True:
        sample = text_sample(random, family=family, api=api, lexicon=lexicon)
        if random.random() < (_RARE / SHARES[family][sample.query_type]) ** 0.5:
            return sample


def _annotate(program: str, entries: Sequence[ApiEntry]) -> str:
    """Call ``annotate``, but restate a routine only once for a line that calls it twice."""
    lines: list[str] = []
    for line in annotate(program, entries).split("\n"):
        if not (line.lstrip().startswith("#") and lines and lines[-1] == line):
            lines.append(line)
    return "\n".join(lines)


def header_entries(
    random: Random, options: DocumentOptions, entries: Sequence[ApiEntry], programs: Sequence[str]
) -> list[ApiEntry]:
    """Return the whole API in its order, or the needed lines among others, shuffled."""
    if random.random() < options.full_header:
        return list(entries)
    needed = set[str]().union(*(names_called(program, entries) for program in programs))
    header = [entry for entry in entries if entry.name in needed]
    others = [entry for entry in entries if entry.name not in needed]
    extra = min(len(others), random.randint(0, options.extra_lines))
    header += random.sample(others, extra)
    random.shuffle(header)
    return header


def name_mapping(
    random: Random, options: DocumentOptions, names: Sequence[str]
) -> Mapping[str, str]:
    draw = random.random()
    if draw < options.made_up_names:
        return made_up_names(random, dict.fromkeys(names), avoid=names)
    if draw < options.made_up_names + options.swapped_names:
        targets = list(dict.fromkeys(names))
        random.shuffle(targets)
        return dict(zip(dict.fromkeys(names), targets, strict=True))
    return {}


def varied(random: Random, text: str) -> str:
    """Vary a query as people type it: fillers, a lost article, a capital, another final mark."""
    words = text.split()
    if random.random() < 0.1 and words[0] != "find":  # "find red cube" is held out
        words = [w for w in words if w != "the" or random.random() < 0.5]
    if random.random() < 0.2:
        places = [0, *(i for i, word in enumerate(words) if word in _TEXTS["openers"])]
        for place in sorted(random.sample(places, min(2, len(places))), reverse=True):
            words.insert(place, random.choice(_TEXTS["fillers"]))
    text = " ".join(words)
    if random.random() < 0.1:
        text = text[:1].upper() + text[1:]
    if random.random() < 0.1:
        text = text.rstrip("?.") + random.choice(("", "?", "."))
    return text

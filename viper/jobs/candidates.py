"""Programs that might answer a job's question: written, edited, at other thresholds, or measuring.

`write_programs` asks the profile's writer several times. `edits_of` changes a program in one
place, as a writer might have erred. `measuring` builds the program whose numbers
:mod:`viper.jobs.rules` makes rules of. No label is needed for any of these, so that the choice
among them can be judged by cross-validation. Only `improved` shows its writer wrong cases; its
program remembers which, and is not judged on those.
"""

from __future__ import annotations

import ast
import copy
import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, combinations, product
from math import log, log2
from typing import Any

from viper.api.library import called_names
from viper.errors import PARSE_ERRORS
from viper.jobs.cases import Label
from viper.jobs.rules import Measure, measuring_program
from viper.reasoner import Reasoner, RunOptions
from viper.schema import Failure
from viper.storage.json_lines import dumps
from viper.strategies.base import Components
from viper.strategies.program import Attempts, write_program
from viper.tools.side_by_side import names_to_find
from viper.tuning.program_edits import Vocabulary, edited_programs

# Edits of one program, the likeliest first: the likelier half of those of a long question.
MOST_EDITS = 24

# Different written programs whose edits are tried, those written most often first.
MOST_EDITED = 2

# Steps of all threshold schedules together. Two steps are as far as self-tuning usually goes.
LEVELS = (-2, -1, 1, 2)

# Bits of a program at other thresholds, of which there are four.
LEVEL_BITS = 3.0

# Bits of a rewritten program beyond those of the one it was made from: as one reply of eight.
REWRITTEN_BITS = 3.0

# Wrong cases that a rewriting is told of: more than show a pattern, few enough for a page.
_TOLD = 8

# Names whose largest area, least gap and spread are measured, too: these cost a number each, and
# only words of whole groups say something about an arrangement.
_ARRANGED = 8

# Functions of ``measures.txt`` that say how a group is arranged.
_ARRANGEMENTS = ("largest", "gap", "spread")

# Measures of written text, and routines that read it.
_OF_TEXT = (
    "lines_of_text(scene)",
    "largest_amount(scene)",
    "sums_of(scene, True)",
    "sums_of(scene, False)",
)
_READING = {"lines", "find_text", "value_right_of", "value_below", "dates", "amounts", "sums"}


# Origin of the candidate that measures instead of answering.
MEASURES = "measures"


@dataclass(frozen=True)
class Candidate:
    """A program that might answer, with its thresholds.

    Attributes:
        thresholds: values that differ from the profile's.
        bits: description length: how unlikely the program was before any label was seen.
        origin: where it comes from, in words.
        seen: cases whose labels its writer saw; it is not judged on them.
    """

    program: str
    thresholds: Mapping[str, float] = field(default_factory=dict)
    bits: float = 0.0
    origin: str = "written"
    seen: tuple[str, ...] = ()

    @property
    def asked(self) -> dict[str, Any]:
        """Return what of a label's sample differs: numbers are measured, whatever is asked."""
        return {"text": "", "task": "question", "options": ()} if self.origin == MEASURES else {}

    @property
    def id(self) -> str:
        """Return the same id for the same program and thresholds."""
        text = f"{self.program}\0{dumps(sorted(self.thresholds.items()))}"
        return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).hexdigest()


def write_programs(
    reasoner: Reasoner,
    labels: Sequence[Label],
    requests: int,
    seed: int,
    replies: Mapping[str, str],
    on_reply: Callable[[str, str], None],
) -> list[Candidate]:
    """Ask the writer about the labelled cases in turn; half of the prompts show no examples.

    Return its different programs, those written most often first. The first one in the list of
    requests is the zero-shot program.

    Args:
        replies: programs of earlier sessions by request, so that none is asked again; "" is a reply
            without a program.
        on_reply: keeps the program of a request.

    Raises:
        ViperError: the writer cannot be asked.
    """
    counts: Counter[str] = Counter()
    first, form = "", common_form([label.query for label in labels])
    for number in range(requests):
        label, plain = labels[number % len(labels)], number % 2 == 1
        key = f"{seed}-{number}-{label.query}"
        program = replies.get(key)
        if program is None:
            options = RunOptions(
                task=label.task,
                options=label.options,
                seed=seed,
                strategy="program",
                examples=0 if plain else None,
            )
            context, _ = reasoner.context(label.sample().load(), label.query, options)
            vote = number // 2  # the first of each kind is greedy
            written = write_program(reasoner.components, context, (vote, 0), [], Attempts())
            program = "" if written.failure else written.program
            on_reply(key, program)
        program = normal_form(program)
        if program and form:
            program = for_every_query(program, label.query, form)
        if program:
            first = first or program
            counts[program] += 1
    total = counts.total()
    found = [
        Candidate(program, bits=-log2(count / total), origin=f"written {count} of {total} times")
        for program, count in counts.most_common()
    ]
    return sorted(found, key=lambda each: each.program != first)


def improved(
    reasoner: Reasoner, best: Candidate, wrong: Sequence[tuple[Label, str]], number: int, seed: int
) -> str:
    """Let the writer rewrite a program that is wrong about some cases; "" if it writes none.

    It is told of the cases and of the calls in the first; one that sees gets its picture.

    Args:
        wrong: cases, each with the answer of the program in words.
        number: number of the round, from 0.
    """
    label = wrong[0][0]
    options = RunOptions(
        task=label.task, options=label.options, seed=seed, strategy="program", feedback=True
    )
    media = label.sample().load()
    run = reasoner.execute(best.program, media, label.query, options.changed(self_tune=False))
    cases = "; ".join(
        f"{each.name}: it answers {answer!r}, right is {each.words!r}"
        for each, answer in wrong[:_TOLD]
    )
    failure = Failure("wrong_answer", f"On labelled cases its answer is wrong. {cases}")
    told = [replace(trial, ok=False, failure=failure) for trial in run.trace.trials[-1:]]
    context, _ = reasoner.context(media, label.query, options)
    written = write_program(reasoner.components, context, (number, 1), told, Attempts())
    return "" if written.failure else normal_form(written.program)


def normal_form(program: str) -> str:
    """Return a program without comments and in one layout; "" if it cannot be parsed."""
    try:
        return ast.unparse(ast.parse(program))
    except PARSE_ERRORS:
        return ""


def edits_of(candidate: Candidate, components: Components) -> list[Candidate]:
    """Return the program with one edit, as a writer might have erred, the likeliest first."""
    families = components.toolbox.settings.attribute_families
    edited = [
        (each.cost / log(2), each.kind, each.program)
        for each in edited_programs(candidate.program, Vocabulary(families))
    ]
    # A number that is off by one is as likely as a wrong direction (1.5 nats).
    edited += [(2.2, "number", text) for text in _other_numbers(candidate.program)]
    edited = sorted(edited, key=lambda each: each[0])[:MOST_EDITS]
    among = log2(max(1, len(edited)))
    return [
        replace(
            candidate,
            program=normal_form(text),
            bits=candidate.bits + cost + among,
            origin=f"{candidate.origin}, then edited ({kind})",
        )
        for cost, kind, text in edited
    ]


def _other_numbers(program: str) -> Iterator[str]:
    """Yield programs with one number of a comparison or a product changed."""
    tree = ast.parse(program)
    for place, node in enumerate(ast.walk(tree)):
        value = node.value if isinstance(node, ast.Constant) else None
        others: tuple[float, ...] = ()
        if type(value) is int:
            others = value + 1, value - 1
        elif type(value) is float:
            others = value / 2, value * 2
        for other in others:
            changed = copy.deepcopy(tree)
            list(ast.walk(changed))[place].value = other  # type: ignore[attr-defined]
            yield ast.unparse(changed)


def at_levels(candidate: Candidate, components: Components) -> list[Candidate]:
    """Return the program with all thresholds some steps lower or higher."""
    settings, found = components.toolbox.settings, []
    usual = settings.start_thresholds(self_tune=False)
    for level in LEVELS:
        moved = {k: v + level * settings.sensitivities[k].step for k, v in usual.items()}
        values = {k: round(min(0.95, max(0.02, v)), 4) for k, v in moved.items()}
        origin = candidate.origin
        if origin != MEASURES:
            origin += f", thresholds {'higher' if level > 0 else 'lower'}"
        found.append(
            replace(candidate, thresholds=values, bits=candidate.bits + LEVEL_BITS, origin=origin)
        )
    return found


def nouns_of(components: Components, programs: Sequence[str]) -> list[str]:
    """Return the names of things to look for: those the detector knows, else those programs use."""
    settings = components.toolbox.settings
    models = components.toolbox.models
    if "detector" not in models.roles:
        return []
    vocabulary = models.trait("detector", "vocabulary", None)
    names = [] if vocabulary is None else list(vocabulary.nouns)
    if not names and settings.nouns:
        words = [word for family in settings.attribute_families for word in family]
        adjectives = [word for word in words if word not in settings.nouns]
        names = [*settings.nouns, *map(" ".join, product(adjectives, settings.nouns))]
    names = names or [*chain.from_iterable(map(names_to_find, programs))]
    return list(dict.fromkeys(filter(None, names)))


def measures_of(
    components: Components, labels: Sequence[Label], programs: Sequence[str]
) -> list[Measure]:
    """Return what is measured in every picture; nothing in clips, or for answers that are boxes.

    That is the number of each thing, which of two kinds there is more of (of words that exclude
    each other), and how whole groups are arranged. Text is read where nothing else sees, or where
    a program reads.
    """
    if any(label.kind != "image" or label.task == "ground" for label in labels):
        return []
    nouns = nouns_of(components, programs)
    roles = components.toolbox.models.roles
    reads = any(called_names(program) & _READING for program in programs)
    found = []
    if "ocr" in roles and (reads or "detector" not in roles):
        found = [Measure(code, bits=2) for code in _OF_TEXT]
    found += [Measure(f"count(scene, {noun!r})") for noun in nouns]
    for family in components.toolbox.settings.attribute_families:
        known = [name for word in family for name in (word, f"{word} thing") if name in nouns]
        for one, other in combinations(known, 2):
            found.append(Measure(f"count(scene, {one!r}) - count(scene, {other!r})", bits=1))
    groups = ["thing"] * ("thing" in nouns) + [n for n in nouns if " " not in n and n != "thing"]
    for noun in groups[:_ARRANGED]:
        found += [Measure(f"{name}(scene, {noun!r})", bits=2) for name in _ARRANGEMENTS]
    return found


def measuring(measures: Sequence[Measure], components: Components) -> list[Candidate]:
    """Return programs that measure: at the usual thresholds, and one step lower and higher."""
    if not measures:
        return []
    plain = Candidate(measuring_program(measures), origin=MEASURES)
    return [plain, *at_levels(plain, components)[1:3]]


def common_form(queries: Sequence[str]) -> tuple[str, str] | None:
    """Return the words before and after what differs between queries, or None if all are equal."""
    words = [query.split() for query in dict.fromkeys(queries)]
    if len(words) < 2:
        return None
    shortest, head, tail = min(map(len, words)), 0, 0
    while head < shortest and len({each[head] for each in words}) == 1:
        head += 1
    while tail < shortest - head - 1 and len({each[-tail - 1] for each in words}) == 1:
        tail += 1
    first = words[0]
    return " ".join(first[:head]), " ".join(first[len(first) - tail :])


def for_every_query(program: str, query: str, form: tuple[str, str]) -> str:
    """Return a program that reads what differs between queries from its question.

    Return "" if the program names nothing that differs, so that it fits one query alone.
    """
    head, tail = form
    asked = query.removeprefix(head).removesuffix(tail).strip()
    tree = ast.parse(program)
    entry = next((n for n in tree.body if isinstance(n, ast.FunctionDef)), None)
    if entry is None or not asked:
        return ""
    replaced = 0

    class Names(ast.NodeTransformer):
        def visit_Constant(self, node: ast.Constant) -> ast.expr:
            nonlocal replaced
            if isinstance(node.value, str) and node.value in (asked, asked.removesuffix("s")):
                replaced += 1
                return ast.Name("asked", ast.Load())
            return node

    Names().visit(entry)
    if [argument.arg for argument in entry.args.args][1:2] != ["question"]:
        entry.args.args.insert(1, ast.arg("question"))
    reading = f"asked = question.removeprefix({head!r}).removesuffix({tail!r}).strip()"
    entry.body[:0] = ast.parse(reading).body
    return ast.unparse(ast.fix_missing_locations(tree)) if replaced else ""

"""Rules over numbers measured in pictures, found from labels without a language model.

A `Rule` is a short list of tests: the first one that holds gives the answer, else there is a last
answer. `find_rules` searches lists by a beam and prices each by its description length: the bits
that state the rule and the labels that it gets wrong. `rule_program` writes a rule as a program.

Source: decision lists (Rivest 1987), description length (Rissanen 1978; Quinlan and Rivest 1989).
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from math import lgamma, log, log2
from typing import Any

import numpy as np

Floats = np.ndarray[Any, np.dtype[np.float64]]
Ints = np.ndarray[Any, np.dtype[np.int64]]

# More tests than these cannot be told from chance by a hundred labels, or read at a glance.
MOST_TESTS = 3

# Lists that are kept at each length. Wider beams found no better rule on development jobs.
_BEAM = 12

# Limits between values that are tried for one number: the quantiles of larger sets.
_LIMITS = 8


@dataclass(frozen=True)
class Measure:
    """A number that programs measure in a picture.

    Attributes:
        code: Python expression of ``scene``, the whole picture, by functions of ``measures.txt``.
        bits: how much less usual it is than a count.
    """

    code: str
    bits: float = 0.0


@dataclass(frozen=True)
class Test:
    """One test of a rule: is a number at least ``limit`` (or below it)?"""

    measure: int
    limit: float
    above: bool
    answer: int

    def holds(self, values: Floats) -> Any:
        """Return bool [N] for values, float64 [N, F]."""
        column = values[:, self.measure]
        return column >= self.limit if self.above else column < self.limit


@dataclass(frozen=True)
class Rule:
    """Tests in order, and the answer if none holds. Answers are numbers of classes.

    Attributes:
        bits: description length of the rule alone.
        total: the same with the labels that it gets wrong.
        sums: measures whose sum is the answer; there are then no tests.
    """

    tests: tuple[Test, ...] = ()
    otherwise: int = 0
    bits: float = field(default=0.0, compare=False)
    total: float = field(default=0.0, compare=False)
    sums: tuple[int, ...] = ()

    def answers(self, values: Floats) -> Ints:
        """Return the class of each row of values, float64 [N, F]."""
        answers = np.full(len(values), self.otherwise)
        for test in reversed(self.tests):
            answers[test.holds(values)] = test.answer
        return answers


def error_bits(wrong: int, n: int, kinds: int) -> float:
    """Return the bits that say which of ``n`` labels are wrong, and what is right there.

    Args:
        kinds: number of different answers.
    """
    few = min(wrong, n // 2)  # to be always wrong is no merit
    choose = (lgamma(n + 1) - lgamma(few + 1) - lgamma(n - few + 1)) / log(2)
    return log2(n + 1) + choose + (wrong - few) + wrong * log2(max(1, kinds - 1))


def _errors(n: int, kinds: int) -> Floats:
    """Return :func:`error_bits` by the number of wrong labels, float64 [n + 1]."""
    return np.array([error_bits(wrong, n, kinds) for wrong in range(n + 1)])


def find_rules(values: Floats, classes: Ints, kinds: int, unusual: Floats) -> list[Rule]:
    """Return the best rules of each length, those with the fewest bits first.

    Args:
        values: numbers of each labelled case, float64 [N, F].
        classes: right class of each case, int [N], below ``kinds``.
        unusual: bits of each number, float64 [F].
    """
    n = len(classes)
    tests, holds, costs = _tests(values, kinds)
    costs = costs + unusual[[measure for measure, _, _ in tests]]
    errors = _errors(n, kinds)
    one_hot = np.eye(kinds, dtype=np.int64)[classes]
    # The commonest answer, whatever is seen: a rule must say more than that.
    common, most = int(one_hot.sum(0).argmax()), int(one_hot.sum(0).max())
    constant = log2(kinds)
    found = [Rule((), common, constant, float(constant + errors[n - most]))]
    # A state is a rule, the cases that none of its tests holds for, its wrong cases so far, and the
    # entropy of the others: a test that separates classes is worth keeping before it pays.
    states: list[tuple[Rule, Any, int, float]] = [(Rule(), np.ones(n, bool), 0, 0.0)]
    for _ in range(MOST_TESTS if tests else 0):
        longer: list[tuple[float, tuple[Rule, Any, int, float]]] = []
        for rule, open_cases, before, mixed in states:
            inside = holds[:, open_cases].astype(np.int64) @ one_hot[open_cases]
            outside = one_hot[open_cases].sum(0) - inside
            wrong = before + inside.sum(1) - inside.max(1)
            total = rule.bits + costs + errors[wrong + outside.sum(1) - outside.max(1)]
            entropy = mixed + _entropy(inside)
            guide = rule.bits + costs + entropy + _entropy(outside)
            guide[(inside.sum(1) == 0) | (outside.sum(1) == 0)] = np.inf
            for index in np.argsort(guide, kind="stable")[:_BEAM]:
                if not np.isfinite(guide[index]):
                    break
                measure, limit, above = tests[index]
                test = Test(measure, limit, above, int(inside[index].argmax()))
                bits, otherwise = float(rule.bits + costs[index]), int(outside[index].argmax())
                longest = Rule((*rule.tests, test), otherwise, bits, float(total[index]))
                rest = open_cases & ~holds[index]
                state = longest, rest, int(wrong[index]), float(entropy[index])
                longer.append((float(guide[index]), state))
                found.append(longest)
        states = [state for _, state in sorted(longer, key=lambda pair: pair[0])[:_BEAM]]
    return sorted(found, key=lambda rule: rule.total)


def _entropy(counts: Ints) -> Floats:
    """Return the bits that name the class of each case of sets, float64 [T].

    Args:
        counts: cases of each class, int [T, K].
    """
    sizes = counts.sum(1, keepdims=True)
    shares = counts / np.maximum(sizes, 1)
    logs = np.log2(np.where(shares > 0, shares, 1.0))
    return -(counts * logs).sum(1)


def find_sums(values: Floats, numbers: Floats, kinds: int) -> list[Rule]:
    """Return the numbers, and sums of two, that equal the most labels.

    Args:
        numbers: the right number of each case, float64 [N].
    """
    n, count = values.shape
    one, other = np.triu_indices(count, 1)
    sums = [(i,) for i in range(count)] + [*zip(one.tolist(), other.tolist(), strict=True)]
    added = np.concatenate([values, values[:, one] + values[:, other]], 1)
    wrong = (added != numbers[:, None]).sum(0)
    bits = (1 + log2(max(1, count))) * np.array([len(terms) for terms in sums])
    totals = bits + _errors(n, kinds)[wrong]
    best = np.argsort(totals, kind="stable")[:_BEAM]
    return [Rule(bits=float(bits[i]), total=float(totals[i]), sums=sums[i]) for i in best]


def _tests(values: Floats, kinds: int) -> tuple[list[tuple[int, float, bool]], Any, Floats]:
    """Return every test, bool [T, N] where it holds, and its bits, float64 [T]."""
    tests: list[tuple[int, float, bool]] = []
    costs = []
    for measure in range(values.shape[1]):
        distinct = np.unique(values[:, measure])
        limits = (distinct[1:] + distinct[:-1]) / 2
        if (distinct == distinct.round()).all():
            limits = np.ceil(limits)  # "at least 2" reads better than "at least 1.5"
        if len(limits) > _LIMITS:
            limits = np.quantile(limits, np.linspace(0, 1, _LIMITS), method="nearest")
        for limit in np.unique(limits):
            tests += [(measure, float(limit), True), (measure, float(limit), False)]
            costs += [2 + log2(values.shape[1]) + log2(len(limits)) + log2(kinds)] * 2
    rows = [Test(measure, limit, above, 0).holds(values) for measure, limit, above in tests]
    holds = np.array(rows, dtype=bool).reshape(len(tests), len(values))
    return tests, holds, np.array(costs)


@cache
def _functions() -> dict[str, str]:
    """Return the text of each function of ``measures.txt`` by its name."""
    text = files("viper.jobs").joinpath("measures.txt").read_text("utf-8")
    return {
        node.name: ast.get_source_segment(text, node) or ""
        for node in ast.parse(text).body
        if isinstance(node, ast.FunctionDef)
    }


def measuring_program(measures: Sequence[Measure]) -> str:
    """Return a program that answers with all measures, as a text of numbers."""
    lines = ",\n        ".join(measure.code for measure in measures)
    body = f"    numbers = [\n        {lines},\n    ]\n    return ' '.join(map(str, numbers))"
    return _program(measures, body)


def rule_program(rule: Rule, measures: Sequence[Measure], answers: Sequence[Any]) -> str:
    """Return a rule as a program.

    Args:
        answers: what the program returns for each class.
    """
    used = [measures[i] for i in (*(test.measure for test in rule.tests), *rule.sums)]
    if rule.sums:
        # as a text: a choice would take a number for the place of an option
        return _program(used, f"    return str({' + '.join(measure.code for measure in used)})")
    lines = []
    for test, measure in zip(rule.tests, used, strict=True):
        lines.append(f"    if {measure.code} {'>=' if test.above else '<'} {test.limit:g}:")
        lines.append(f"        return {answers[test.answer]!r}")
    return _program(used, "\n".join([*lines, f"    return {answers[rule.otherwise]!r}"]))


def _program(used: Sequence[Measure], body: str) -> str:
    """Return a program with the functions that measures call."""
    trees = [ast.walk(ast.parse(measure.code)) for measure in used]
    called = {node.id for tree in trees for node in tree if isinstance(node, ast.Name)}
    functions = [text for name, text in _functions().items() if name in called]
    scene = "    scene = ImagePatch(image)\n" if used else ""
    return "\n\n\n".join([*functions, f"def execute_command(image):\n{scene}{body}\n"])

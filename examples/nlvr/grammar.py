"""A grammar of sentences and their programs: read, sampled with noise, and used as a parser.

Each line of ``rules.txt`` is a rule ``SYMBOL HALVES words => meaning``:

- the words may hold alternatives ``(is|are|)`` and slots ``{C}``, ``{C2}`` of other symbols;
- the meaning is a piece of Python in which the slots stand for the meanings of their symbols;
- HALVES tells whose sentences the rule was written from: 1 and 2 are the halves of the development
  sentences (`half_of`), 12 both by two authors apart, - none, + both by one author. A rule with !
  serves its half alone, because another one serves the whole.

The symbol S is a whole sentence. No rule may begin with its own symbol.
"""

from __future__ import annotations

import json
import re
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

RULES = Path(__file__).with_name("rules.txt")

PROGRAM = """def execute_command(image):
    boxes = ImagePatch(image).find("box")
    return {}"""

_PARTS = re.compile(r"\{([A-Z_]+)(\d*)\}|\(([^()]*)\)|([^\s{}()]+)")
_DEEP = 9  # below it a sentence takes the shortest rules, so that it ends


def half_of(sentence: str) -> int:
    """Return the half, 1 or 2, of the development sentences that a sentence belongs to."""
    return zlib.crc32(sentence.strip().lower().encode()) % 2 + 1


@dataclass(frozen=True)
class Rule:
    """One rule: ``parts`` are words, slots (symbol, name) and lists of alternatives."""

    parts: tuple[Any, ...]
    meaning: str

    @property
    def symbols(self) -> set[str]:
        return {part[0] for part in self.parts if isinstance(part, tuple)}

    def meant(self, slots: dict[str, str]) -> str:
        """Return the meaning with those of the slots in their places."""
        return re.sub(r"\{(\w+)\}", lambda slot: slots[slot[1]], self.meaning)


Grammar = dict[str, list[Rule]]  # the rules of each symbol


def read_grammar(half: int | None = None, path: Path = RULES) -> Grammar:
    """Return the rules by symbol; those written from one half, or all."""
    grammar: Grammar = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.startswith("#"):
            head, _, meaning = line.partition("=>")
            symbol, halves, *words = head.split()
            if halves == "-" or ("!" not in halves if half is None else str(half) in halves):
                rule = Rule(_parts(" ".join(words)), meaning.strip())
                grammar.setdefault(symbol, []).append(rule)
    while True:  # without the rules that need a symbol of the other half
        kept = {s: [rule for rule in grammar[s] if rule.symbols <= grammar.keys()] for s in grammar}
        kept = {symbol: rules for symbol, rules in kept.items() if rules}
        if kept == grammar:
            return grammar
        grammar = kept


def _parts(text: str) -> tuple[Any, ...]:
    found = []
    for symbol, number, group, word in _PARTS.findall(text):
        if symbol:
            found.append((symbol, symbol + number))
        else:
            found.append(word or [_parts(choice) for choice in group.split("|")])
    return tuple(found)


def sample(grammar: Grammar, random: Random, symbol: str = "S", depth: int = 0) -> tuple[str, str]:
    """Return a random sentence of a symbol and its meaning."""
    rules = grammar[symbol]
    if depth > _DEEP:
        rules = sorted(rules, key=lambda rule: len(rule.symbols))[:2]
    rule = random.choice(rules)
    slots: dict[str, str] = {}

    def said(parts: tuple[Any, ...]) -> Iterator[str]:
        for part in parts:
            if isinstance(part, str):
                yield part
            elif isinstance(part, list):
                yield from said(random.choice(part))
            else:
                words, slots[part[1]] = sample(grammar, random, part[0], depth + 1)
                yield words

    return " ".join(word for word in said(rule.parts) if word), rule.meant(slots)


def meanings(grammar: Grammar, sentence: str) -> list[str]:
    """Return the meanings of a sentence, that of the earliest rules first; [] without any."""
    words = sentence.lower().replace(".", " ").replace(",", " ").split()

    @cache
    def of_symbol(symbol: str, start: int) -> list[tuple[int, str]]:
        ends: dict[tuple[int, str], None] = {}
        for rule in grammar.get(symbol, ()):
            for end, slots in of_parts(rule.parts, start, ()):
                ends[end, rule.meant(dict(slots))] = None
        return list(ends)

    def of_parts(parts: Any, start: int, slots: Any) -> Iterator[tuple[int, Any]]:
        if not parts:
            yield start, slots
            return
        first, rest = parts[0], parts[1:]
        if isinstance(first, list):
            for choice in first:
                yield from of_parts((*choice, *rest), start, slots)
        elif isinstance(first, tuple):
            for end, meaning in of_symbol(first[0], start):
                yield from of_parts(rest, end, (*slots, (first[1], meaning)))
        elif start < len(words) and words[start] == first:
            yield from of_parts(rest, start + 1, slots)

    return [meaning for end, meaning in of_symbol("S", 0) if end == len(words)]


if __name__ == "__main__":  # python grammar.py nlvr/dev/dev.json HALF: one picture of each example
    for line in map(json.loads, Path(sys.argv[1]).read_text(encoding="utf-8").splitlines()):
        if str(half_of(line["sentence"])) in sys.argv[2:]:
            print(f"{Path(sys.argv[1]).stem}-{line['identifier']}-0")

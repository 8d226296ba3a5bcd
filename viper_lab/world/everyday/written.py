"""Questions that were written one by one, beside the drawn ones; their nouns are exchanged.

``written.jsonl`` holds lines of ``{task, text, program}``, with ``options`` for some about clips.
They were written without a picture, as people talk: what no frame of ``wordings.toml`` says.
``selections.jsonl`` holds what a program found in a clip, with a question and options in other
words: ``{info, question, options, answer}``. Every draw exchanges the words of the world for others
of their family, alike in all texts, so a line teaches its construction and not its nouns.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from viper_lab.world.everyday.phrases import plural
from viper_lab.world.everyday.words import Words, in_world_words, is_held_out, world_words
from viper_lab.world.queries.lexicon import FAMILIES
from viper_lab.world.queries.meaning import Meaning
from viper_lab.world.queries.sample import SelectionSample, TextSample

# Materials that are adjectives alone: "made of shiny" is no English.
_LOOKS = frozenset(
    {"shiny", "glossy", "polished", "reflective", "matte", "dull", "matt", "rubbery", "unpolished"}
)
_PHRASE = re.compile(r"\b(?=(\w+ \w+)\b)")
_ARTICLE = re.compile(r"\b([Aa])n? (?=(\w))")


def written_text(random: Random, task: str, words: Words | None = None) -> TextSample:
    """Draw a written question of a task with other nouns.

    Args:
        words: to take the nouns from; None: the world's, as training has them.
    """
    while True:
        sample = random.choice(written_samples()[task])
        texts = [sample.text, *sample.options, sample.program]
        text, *options, program = exchange(random, texts, words)
        if not any(map(is_held_out, _PHRASE.findall(program))):
            return replace(sample, text=text, program=program, options=tuple(options))


@cache
def written_samples() -> dict[str, Sequence[TextSample]]:
    """Return all written questions by task."""
    found: dict[str, list[TextSample]] = {}
    for line in Path(__file__).with_name("written.jsonl").read_text("utf-8").splitlines():
        row = json.loads(line)
        task, options = row["task"], tuple(row.get("options", ()))
        found.setdefault(task, []).append(
            TextSample(row["text"], row["program"], task, "abstract", "written", "",
                       Meaning("written", {}), options)
        )  # fmt: skip
    return dict(found)


def written_selection(random: Random) -> SelectionSample:
    """Draw a written selection with other nouns; what was found is in the world's words."""
    row = random.choice(_selections())
    texts = [row["info"], row["question"], *row["options"], row["answer"]]
    info, question, *options, answer = exchange(random, texts)
    random.shuffle(options)
    return SelectionSample(in_world_words(info), question, tuple(options), answer)


@cache
def _selections() -> Sequence[dict[str, Any]]:
    text = Path(__file__).with_name("selections.jsonl").read_text("utf-8")
    return [json.loads(line) for line in text.splitlines()]


def exchange(random: Random, texts: Sequence[str], words: Words | None = None) -> list[str]:
    """Return texts whose sizes, colors, materials and shapes are others, the same in all texts.

    Words for the same thing are exchanged for words for the same other thing. Where a word of the
    last text is in no other (the question misspells it), all texts stay as they are.
    """
    usual = world_words()
    new = words or usual
    asked = " ".join(texts[:-1])
    mapping: dict[str, str] = {}
    for family in FAMILIES:
        own = dict.fromkeys(getattr(usual, family))
        present = [word for word in own if _matcher(word).search(asked)]
        if any(_matcher(word).search(texts[-1]) for word in own if word not in present):
            return list(texts)
        for form in (True, False):
            of_form = [w for w in present if (w in _LOOKS) == form]
            drawn = [w for w in getattr(new, family) if words or (w in _LOOKS) == form]
            mapping |= _drawn(random, of_form, drawn)
    if not mapping:
        return list(texts)
    pattern = _matcher("|".join(sorted(mapping, key=len, reverse=True)))
    return [_articles(pattern.sub(_replacing(mapping), text)) for text in texts]


def _drawn(random: Random, present: Sequence[str], words: Sequence[str]) -> dict[str, str]:
    """Return a word for each word that is there; different things stay different."""
    groups: dict[str, list[str]] = {}
    for word in dict.fromkeys(words):
        groups.setdefault(in_world_words(word), []).append(word)
    things = list(dict.fromkeys(in_world_words(word) for word in present))
    if len(things) > len(groups):
        return {}
    weights = {name: sum(in_world_words(w) == name for w in words) for name in groups}
    chosen: dict[str, str] = {}
    for thing in things:
        left = [name for name in groups if name not in chosen.values()]
        chosen[thing] = random.choices(left, [weights[name] for name in left])[0]
    drawn: dict[str, str] = {}
    for word in present:
        # The world's own word is as frequent as all others together.
        name = chosen[in_world_words(word)]
        drawn[word] = random.choice([w for w in words if in_world_words(w) == name])
    return drawn


def _matcher(word: str) -> re.Pattern[str]:
    return re.compile(rf"\b({word})(e?s)?\b", re.IGNORECASE)


def _replacing(mapping: dict[str, str]) -> Callable[[re.Match[str]], str]:
    def replaced(match: re.Match[str]) -> str:
        new = mapping[match[1].lower()]
        new = plural(new) if match[2] else new
        return new.capitalize() if match[1][0].isupper() else new

    return replaced


def _articles(text: str) -> str:
    """Return a text whose articles suit the words that follow them."""
    return _ARTICLE.sub(lambda m: f"{m[1]}{'n' if m[2].lower() in 'aeiou' else ''} ", text)

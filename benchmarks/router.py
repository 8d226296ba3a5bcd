"""Is the routine that a query needs among those that the router shows?

    python benchmarks/router.py [--budget 2000] [--style full]

Two hundred routines are generated, twenty actions on ten qualities, each with a name, a docstring
and an example as a user would write them, and added to the shipped API. Queries ask for each
in three ways: in words near the docstring's, in a question that shares some of them, and in
one that says the action in other words. Printed: how often the needed name is listed
within the budget, by BM25, with a random choice of the same size for comparison.
"""

# ruff: noqa: E501 - a routine is easier to read on two lines
from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from pathlib import Path

from viper.api.library import library_for
from viper.api.sets import ApiEntry
from viper.api.spec import render
from viper.embedded import WEIGHTS
from viper.prompting.router import ESSENTIAL, Router

QUALITIES = {
    "brightness": "bright", "sharpness": "sharp", "symmetry": "symmetric", "roundness": "round",
    "tilt": "tilted", "texture": "textured", "saturation": "saturated", "contrast": "contrasted",
    "elongation": "elongated", "transparency": "transparent",
}  # fmt: skip

ACTIONS: dict[str, tuple[str, str, str, str]] = {
    # name pattern: (docstring, near wording, question, other words)
    "sort_by_{q}": ("Sort patches by {q}", "sort the {o} by {q}",
        "what is the order of the {o} by {q}?", "line up the {o}, least {a} to most {a}"),
    "most_{q}": ("Choose the patch of greatest {q}", "the {o} of greatest {q}",
        "which {o} has the most {q}?", "which {o} is the most {a}?"),
    "least_{q}": ("Choose the patch of smallest {q}", "the {o} of smallest {q}",
        "which {o} has the least {q}?", "which {o} is the least {a}?"),
    "{q}_difference": ("Difference of two patches in {q}", "the difference in {q} of the two {o}",
        "how different are the {o} in {q}?", "by how much do the {o} differ in being {a}?"),
    "same_{q}": ("Whether two patches have the same {q}", "have the two {o} the same {q}",
        "do both {o} have the same {q}?", "are the {o} equally {a}?"),
    "count_above_{q}": ("Count patches above a limit of {q}", "count the {o} above a {q} of 3",
        "how many {o} are above 3 in {q}?", "number of {o} that are more {a} than 3"),
    "mean_{q}": ("Mean {q} of patches", "the mean {q} of the {o}",
        "what is the average {q} of the {o}?", "how {a} are the {o} on average?"),
    "group_by_{q}": ("Group patches by {q}", "group the {o} by {q}",
        "which groups of {q} do the {o} form?", "put {a} {o} together"),
    "{q}_of_background": ("The {q} of the background", "the {q} of the background",
        "what {q} has the background?", "how {a} is what lies behind the {o}?"),
    "{q}_map": ("A map of {q} over the image", "a map of {q} over the image of {o}",
        "where in the image is {q} high?", "show for the whole image how {a} it is"),
    "{q}_change": ("How much {q} changes from frame to frame", "the change of {q} from frame to frame",
        "how does the {q} of the {o} change over frames?", "does it become more {a} in later frames?"),
    "{q}_between": ("The {q} of the region between two patches", "the {q} of the region between two {o}",
        "what is the {q} between the {o}?", "how {a} is the space between the {o}?"),
    "filter_by_{q}": ("Keep patches within a range of {q}", "keep the {o} within a range of {q}",
        "which {o} are in the range 1 to 2 of {q}?", "leave out {o} that are not {a} enough"),
    "{q}_percentile": ("The rank of a patch in {q} as a percentile", "the percentile of the {o} in {q}",
        "at which percentile is the {o} in {q}?", "what rank in being {a} has the {o}?"),
    "{q}_histogram": ("A histogram of {q} over patches", "a histogram of {q} of the {o}",
        "how is {q} distributed over the {o}?", "histogram of how {a} the {o} are"),
    "{q}_edge": ("The {q} along the edge of a patch", "the {q} along the edge of the {o}",
        "what is the {q} at the edge of the {o}?", "how {a} is the border of the {o}?"),
    "{q}_centre": ("The {q} at the centre of a patch", "the {q} at the centre of the {o}",
        "what is the {q} in the centre of the {o}?", "how {a} is the middle of the {o}?"),
    "{q}_outliers": ("Find patches whose {q} is unusual", "the {o} whose {q} is unusual",
        "which {o} has an unusual {q}?", "which {o} is oddly {a}?"),
    "{q}_ratio": ("Ratio of two patches in {q}", "the ratio of the {o} in {q}",
        "what is the ratio in {q} of the two {o}?", "how many times as {a} is one of the {o}?"),
    "{q}_above_neighbour": ("Whether a patch exceeds its neighbour in {q}",
        "does the {o} exceed its neighbour in {q}", "is the {q} of the {o} above its neighbour's?",
        "is the {o} more {a} than what is next to it?"),
}  # fmt: skip

OBJECTS = ("cup", "chair", "window", "dog", "leaf")

WORDINGS = ("near", "question", "other words")


def routine_text(pattern: str, quality: str) -> str:
    """One generated routine as a user would write it."""
    about, near, *_ = (text.format(q=quality, o="plate", a="") for text in ACTIONS[pattern])
    name = pattern.format(q=quality)
    return (
        f"@routine(['question'])\ndef {name}(list_patches: list[ImagePatch]) -> float:\n"
        f'    """{about}.\n\n    Answers a number; 0 for an empty list.\n\n    Example:\n'
        f"        # {near}\n        def execute_command(image):\n"
        f"            plate_patches = ImagePatch(image).find('plate')\n"
        f"            return str({name}(plate_patches))\n"
        '    """\n    return float(len(list_patches))\n'
    )


def entries() -> tuple[ApiEntry, ...]:
    """The shipped API of questions and the two hundred."""
    texts = [routine_text(pattern, quality) for pattern in ACTIONS for quality in QUALITIES]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "generated.py"
        path.write_text("from viper import ImagePatch, routine\n\n" + "\n\n".join(texts))
        api = f"abstract+{path}"
        return library_for(api).api_set(api).entries("question")


def queries() -> list[tuple[str, str, str]]:
    """(wording, query, name that it needs)."""
    rng = random.Random(0)
    found = []
    for pattern, (_, *texts) in ACTIONS.items():
        for quality, adjective in QUALITIES.items():
            for wording, text in zip(WORDINGS, texts, strict=True):
                asked = text.format(q=quality, a=adjective, o=rng.choice(OBJECTS))
                found.append((wording, asked, pattern.format(q=quality)))
    return found


def main() -> None:
    """Prints the shares."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--budget", type=int, default=2_000)
    parser.add_argument("--style", choices=["full", "compact"], default="full")
    given = parser.parse_args()
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(WEIGHTS / "writer", local_files_only=True)
    counters = {
        "4 characters a token": lambda text: -(-len(text) // 4),
        "the embedded writer's tokens": lambda text: len(tokenizer(text)["input_ids"]),
    }
    api = entries()
    print(f"{len(api)} names, budget {given.budget} tokens, style {given.style}")
    for label, count in counters.items():
        router = Router(api, count, given.style)
        hits: dict[str, list[bool]] = {wording: [] for wording in WORDINGS}
        sizes, in_full, tokens, seconds = [], [], [], []
        for wording, asked, needed in queries():
            begun = time.perf_counter()
            chosen = router.choose(asked, given.budget)
            seconds.append(time.perf_counter() - begun)
            hits[wording].append(any(entry.name == needed for entry in chosen))
            sizes.append(len(chosen))
            in_full.append(sum(not entry.brief for entry in chosen))
            tokens.append(count(render(chosen, given.style)))
        everything = [hit for found in hits.values() for hit in found]
        chance = (statistics.mean(sizes) - len(ESSENTIAL)) / len(api)
        print(f"\n{label}: the whole API takes {count(render(api, given.style))}")
        print(
            f"  listed {statistics.mean(sizes):.1f} names ({statistics.mean(in_full):.1f} in full), {max(tokens)} tokens at most"
        )
        for wording, found in hits.items():
            print(f"  {wording:12} {statistics.mean(found):.3f} of {len(found)}")
        print(f"  all          {statistics.mean(everything):.3f}, by chance {chance:.3f}")
        print(f"  {statistics.median(seconds) * 1e3:.0f} ms a query")


if __name__ == "__main__":
    main()

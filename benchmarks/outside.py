"""Score how well the profile embedded tells what it does not know.

    python -m benchmarks.outside [--queries] [--own 600]

Pictures that are not of its world: photographs, icons and screenshots that installed packages
contain, and drawings, text, plots and noise that are made here. Prints the share that the domain
flags, by kind; with ``--queries`` five questions about each are answered, and the share of answers
without any warning is printed. Then the share of pictures of the world that are flagged (new
stills, frames of clips, pictures of designs), and of people's questions about it with a word that
is called unknown. About a minute, with ``--queries`` ten.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict

from benchmarks.everyday import DATA, PEOPLE
from viper.evaluate.intervals import proportion
from viper.models.domain import Domain
from viper.models.media import media_from
from viper.profiles import load_profile
from viper.reasoner import Reasoner
from viper_lab.recipes.domain import pictures
from viper_lab.scores.outside import QUERIES, outside_pictures


def share(count: int, total: int) -> str:
    """Return a share with its interval and n."""
    part = proportion(count, total)
    return f"{part.value:.3f} [{part.low:.3f}, {part.high:.3f}]  n = {total}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--queries", action="store_true", help="answer questions about each")
    parser.add_argument("--own", type=int, default=600, help="number of pictures of the world")
    options = parser.parse_args()
    profile = load_profile("embedded")
    others = [*outside_pictures()]
    with Reasoner(profile, preload=False) as reasoner:
        domain = reasoner.components.domain
        assert domain is not None
        flagged = defaultdict[str, list[bool]](list)
        for kind, picture in others:
            flagged[kind].append(domain.distance(media_from(picture)) > 1)
        for kind, values in [*flagged.items(), ("all", sum(flagged.values(), []))]:
            print(f"flagged, {kind:<16} {share(sum(values), len(values))}")
        if options.queries:
            results = [
                reasoner.run(picture, query, trials=1) for _, picture in others for query in QUERIES
            ]
            unwarned = sum(each.answer is not None and not each.warnings for each in results)
            print(f"answered without a warning {share(unwarned, len(results))}")
        _own(domain, options.own)
    settings = profile.document.tools
    for name in PEOPLE.values():
        texts = [json.loads(line)["question"] for line in (DATA / name).read_text().splitlines()]
        wrong = sum(bool(domain.unknown_words(text, settings.knows)) for text in texts)
        print(f"unknown words, {name:<30} {share(wrong, len(texts))}")


def _own(domain: Domain, count: int) -> None:
    own = [domain.distance(media_from(p)) > 1 for p in pictures("val", count / 1980, 991)]
    print(f"flagged, its own world    {share(sum(own), len(own))}")


if __name__ == "__main__":
    main()

"""``viper world score``: how well the shipped models answer a freshly drawn test set."""

from __future__ import annotations

import json
from typing import Any

import click

from viper.commands.options import open_profile, profile_options
from viper.errors import EXIT_OK


@click.command()
@click.option(
    "--split", type=click.Choice(["train", "val", "test"]), default="test", show_default=True
)
@click.option("--seed", type=int, default=0, show_default=True, help="Draws the set; any number.")
@click.option(
    "--limit",
    type=click.IntRange(3, 100_000),
    default=600,
    show_default=True,
    help="Queries in all, the same number for each family.",
)
@click.option("--baselines", is_flag=True, help="Add what needs no program.")
@click.option(
    "--perception/--no-perception",
    default=True,
    show_default=True,
    help="Score each vision model by itself.",
)
@click.option("--examples/--zero-shot", default=True, show_default=True)
@click.option(
    "--workers",
    type=click.IntRange(1, 64),
    default=16,
    show_default=True,
    help="Queries on their way at once.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@profile_options
def score(
    split: str,
    seed: int,
    limit: int,
    baselines: bool,
    perception: bool,
    examples: bool,
    workers: int,
    as_json: bool,
    **given: Any,
) -> int:
    """Answer freshly drawn queries of the embedded world and print the figures.

    Every value comes with n and a 95% interval; weight hashes say which models they are of.
    """
    profile = open_profile(given)
    from viper.commands.terminal import counter
    from viper.evaluate.evaluation import model_ids
    from viper.reasoner import Reasoner
    from viper.schema import to_json
    from viper_lab.scores.perception import perception_report
    from viper_lab.scores.world import ScoreRequest, draw, report, score_samples

    request = ScoreRequest(split, seed, limit, with_baselines=baselines, workers=workers)
    if not examples:
        profile = profile.without_examples()
    samples = draw(request)
    right = 0
    with Reasoner(profile) as reasoner:
        with counter("answering", len(samples)) as advance:

            def on_done(item: Any) -> None:
                nonlocal right
                right += item.right
                advance(f"{right} right")

            scored = score_samples(reasoner, samples, request, on_done)
        figures = {
            "split": split,
            "seed": seed,
            "profile": profile.name,
            "models": model_ids(reasoner),
            **report(scored, request),
        }
        if perception:
            hub = reasoner.components.hub
            figures["perception"] = perception_report(hub, split, seed, limit // 2)
    plain = to_json(figures)
    click.echo(json.dumps(plain) if as_json else "\n".join(_lines(plain)))
    return EXIT_OK


def _lines(figures: Any, indent: int = 0) -> list[str]:
    """Nested figures as aligned text, an estimate a line."""
    lines = []
    pad = "  " * indent
    for name, value in figures.items():
        if isinstance(value, dict) and {"value", "n", "low", "high"} <= set(value):
            low, high = value["low"], value["high"]
            shown = f"{value['value']:.3f}  [{low:.3f}, {high:.3f}]  n={value['n']}"
            lines.append(f"{pad}{name:<{max(4, 34 - 2 * indent)}} {shown}")
        elif isinstance(value, dict):
            lines += [f"{pad}{name}", *_lines(value, indent + 1)]
        else:
            lines.append(f"{pad}{name:<{max(4, 34 - 2 * indent)}} {value}")
    return lines

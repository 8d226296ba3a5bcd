"""``viper tune label``: people say of each action of a workflow whether it was of use."""

from __future__ import annotations

from pathlib import Path
from random import Random

import click

from viper.commands.out_path import OutPath
from viper.errors import EXIT_OK

_KEYS = {"e": True, "i": False}


@click.command()
@click.argument("source", type=click.Path(path_type=Path))
@click.option(
    "--out",
    type=OutPath(),
    required=True,
    metavar="FILE.jsonl",
    help="Takes the labels; what it holds is not asked again.",
)
@click.option(
    "--pass",
    "number",
    type=click.IntRange(1, 99),
    default=1,
    show_default=True,
    help="Which pass this is: three people, or one three times; the majority counts.",
)
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Workflows at most.")
@click.option(
    "--seed",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="Which of them, the same in every pass; each pass has an order of its own.",
)
def label(source: Path, out: Path, number: int, limit: int | None, seed: int) -> int:
    """Read workflows of SOURCE and say of each action: e, effective, or i, ineffective.

    Effective is what ran, could be trusted and led to the answer. Ineffective is what failed, what
    was taken back, what nothing came of, what only repeats. Enter takes the answer in brackets,
    q ends; the same line goes on. Nothing of the rules' opinion is shown.

    \b
    viper tune label runs/made --limit 100 --out labels.jsonl --pass 1
    viper tune flags runs/made --labels labels.jsonl
    """
    from viper.commands.kept_versions import indented, shown
    from viper.learning.flags import KINDS, Label, action_key, add_label, read_labels
    from viper.learning.workflows import read_workflows
    from viper.prompting.exploring import step_text
    from viper.tuning.agent.workflow import step_of

    found = read_workflows(source)
    Random(seed).shuffle(found)
    found = found[:limit]
    Random(f"{seed} {number}").shuffle(found)
    done = {one.action for one in read_labels(out) if one.number == number}
    for place, workflow in enumerate(found, start=1):
        asked = [one for one in workflow.turns if one.kind in KINDS]
        if all(action_key(workflow, one.index) in done for one in asked):
            continue
        click.echo(f"\n{place} of {len(found)}: {shown(workflow.query.text)}")
        click.echo(f"it answered {shown(str(workflow.answer))}, which is {workflow.outcome}\n")
        for turn in workflow.turns:
            if turn.kind != "forced":
                click.echo(f"[{turn.index}]")
                for line in indented(step_text(step_of(turn))):
                    click.echo(line)
        for turn in asked:
            if action_key(workflow, turn.index) in done:
                continue
            said = click.prompt(
                f"  action {turn.index}, {turn.kind}",
                type=click.Choice([*_KEYS, "q"]),
                default="e",
                show_choices=True,
            )
            if said == "q":
                return EXIT_OK
            name, manner, of_seed, index = action_key(workflow, turn.index)
            add_label(out, Label(name, index, _KEYS[said], number, manner, of_seed))
    click.echo(f"pass {number} is over: {out}")
    return EXIT_OK

"""``viper tune workflows`` and ``viper tune flags``."""

from __future__ import annotations

import json
import threading
from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from viper.commands.option_groups import options, root_option, seed_option
from viper.commands.options import api_option, open_profile, profile_options, quiet_libraries
from viper.commands.out_path import OutPath
from viper.errors import EXIT_OK, UsageError

if TYPE_CHECKING:
    from viper.commands.progress import Advance
    from viper.tuning.agent.workflow import Workflow

_of_the_set = options(
    root_option,
    click.option("--split", metavar="NAME", help="By default train, or what begins so."),
    click.option("--limit", type=click.IntRange(1), default=100, show_default=True,
                 help="Samples."),
    click.option("--ids", metavar="FILE|ID,ID", help="These samples instead."),
    seed_option(),
)  # fmt: skip

_of_the_making = options(
    click.option("--manner", "manners", multiple=True,
                 type=click.Choice(["standard", "given", "discrepancy"]),
                 help="standard, given (the label stands in the prompt) or discrepancy (a checker "
                      "who knows it doubts results); repeatable, by default discrepancy."),
    click.option("--checks-by", type=click.Choice(["rules", "llm"]), default="rules",
                 show_default=True, help="Who compares results with the label."),
    click.option("--temperature", type=click.FloatRange(0, 2), help="Of the agent."),
    click.option("--max-turns", type=click.IntRange(1, 1_000), metavar="N",
                 help="For one sample."),
    click.option("--workers", type=click.IntRange(1, 256), default=4, show_default=True,
                 help="Samples on their way at once."),
    click.option("--budget", type=click.IntRange(1), metavar="LLM_CALLS",
                 help="Requests to the language model at most, over all sessions."),
    click.option("--out", type=OutPath(), required=True, metavar="DIR",
                 help="Takes workflows.jsonl; what it holds is not made again."),
    click.option("--json", "as_json", is_flag=True, help="Print the data utilisation as JSON."),
)  # fmt: skip


@click.command()
@click.argument("name", metavar="SET")
@_of_the_set
@_of_the_making
@api_option
@profile_options
def workflows(name: str, **given: Any) -> int:
    """Explore labelled samples of SET and keep what can be learned from.

    Of each manner it says the data utilisation: the share of samples whose workflow ends right by
    what it found. Workflows that copy a label that they were given, without a result that says so,
    are counted and not learned from. After Ctrl-C or a crash the same line goes on.

    \b
    viper tune workflows world --split train:question --limit 300 --out runs/made
    viper tune workflows gqa --root gqa --profile openai --checks-by llm --out runs/gqa \\
        --manner standard --manner given --manner discrepancy
    """
    quiet_libraries(given["offline"])
    from viper.commands.progress import counter, status
    from viper.data.registry import data_set, named_like
    from viper.data.sample import Where
    from viper.evaluate.engines.runner import Budget
    from viper.evaluate.evaluation import Evaluation, read_ids
    from viper.learning.workflows import Making, make_workflows, utilisation
    from viper.reasoner import Reasoner, RunOptions
    from viper.strategies.explore import ExploreSettings

    splits = data_set(name).splits
    split = given["split"] or named_like(splits, "train")
    if split is None and len(splits) > 1:
        raise UsageError(
            f"{name} has no split train; choose one of {', '.join(splits)} with --split, and do "
            "not judge by it afterwards"
        )
    run_options = RunOptions(
        strategy="explore",
        api=given["api"],
        temperature=given["temperature"],
        max_turns=given["max_turns"],
    )
    evaluation = Evaluation(
        name,
        Where(given["root"], split, given["seed"]),
        given["limit"],
        ids=read_ids(given["ids"]) if given["ids"] else (),
    )
    with status("reading samples"):
        samples = evaluation.samples()
    cancel = threading.Event()
    told: dict[str, Any] = {}
    with Reasoner(open_profile(given), preload=False) as reasoner:
        settings = reasoner.components.settings
        most = given["max_turns"] or settings.of(ExploreSettings).max_turns
        if given["checks_by"] == "llm":
            most *= 2
        budget = Budget(llm_calls=given["budget"], calls_an_item=most)
        for manner in given["manners"] or ("discrepancy",):
            making = Making(name, manner, run_options, given["seed"], given["checks_by"], budget)
            with counter(manner, len(samples)) as advance:
                tell = partial(_tell, advance, Counter())
                made = make_workflows(
                    reasoner,
                    samples,
                    making,
                    given["out"],
                    workers=given["workers"],
                    cancel=cancel,
                    on_made=tell,
                    on_kept=tell,
                )
            share, copied = utilisation(made)
            told[manner] = {
                "samples": len(made),
                "utilisation": round(share.value, 4),
                "low": round(share.low, 4),
                "high": round(share.high, 4),
                "copied": round(copied, 4),
                "outcomes": dict(Counter(one.outcome for one in made)),
            }
            if not given["as_json"]:
                click.echo(
                    f"{manner}: {100 * share.value:.1f} % of {len(made)} can be learned "
                    f"from [{100 * share.low:.1f}, {100 * share.high:.1f}], "
                    f"{100 * copied:.1f} % copied"
                )
            broken = [one for one in made if one.error]
            if broken:
                click.echo(
                    f"{len(broken)} of {len(made)} samples could not be explored, as "
                    f"{broken[0].id}: {broken[0].error}",
                    err=True,
                )
            if len(made) < len(samples):
                click.echo(
                    f"the budget of {given['budget']} requests is used up after {len(made)} of "
                    f"{len(samples)} samples; the same line with a higher --budget goes on",
                    err=True,
                )
    if given["as_json"]:
        click.echo(json.dumps(told))
    return EXIT_OK


def _tell(advance: Advance, outcomes: Counter[str], workflow: Workflow) -> None:
    outcomes[workflow.outcome] += 1
    advance(", ".join(f"{count} {name}" for name, count in outcomes.most_common()))


@click.command()
@click.argument("source", type=click.Path(path_type=Path))
@click.option(
    "--labels",
    type=click.Path(path_type=Path, exists=True),
    metavar="FILE.jsonl",
    help="What people said (viper tune label): precision and recall by kind of action.",
)
@click.option(
    "--by",
    type=click.Choice(["rules", "llm"]),
    default="rules",
    show_default=True,
    help="Who flags; llm asks the profile's language model.",
)
@click.option(
    "--out",
    type=OutPath(),
    metavar="FILE.jsonl",
    help="Keep the flags, in the form of labels, for viper tune agent --flags.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@profile_options
def flags(source: Path, **given: Any) -> int:
    """Say which actions of the workflows in SOURCE were of use, and why the others were not.

    \b
    viper tune flags runs/made
    viper tune flags runs/made --by llm --profile openai --out flags.jsonl
    viper tune agent runs/made --flags flags.jsonl --out runs/tuned
    """
    quiet_libraries(given["offline"])
    from viper.learning.flags import flag_report, write_labels
    from viper.learning.workflows import read_workflows

    out: Path | None = given["out"]
    if out is not None and out.exists():
        raise UsageError(f"{out}: is there already; give another file, or delete that one")
    found = read_workflows(source)
    llm = None
    if given["by"] == "llm":
        llm = open_profile(given).components().llm
    report = flag_report(found, llm, given["labels"])
    if out is not None:
        write_labels(out, report.labels)
    click.echo(json.dumps(report.to_json()) if given["as_json"] else report.text())
    return EXIT_OK

"""``viper demo-questions``: the three questions of ``make demo``, about shipped media."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Literal

import click

from viper.commands.options import open_reasoner
from viper.commands.out_path import OutPath
from viper.errors import EXIT_FAILED, EXIT_OK


@click.command("demo-questions", hidden=True)
@click.option("--out", type=OutPath(), default=Path("demo-output"), show_default=True)
def demo_questions(out: Path) -> int:
    """Ask about shipped media; print answer, program and calls; write the pictures."""
    from viper.commands.doctor import strict_holds
    from viper.commands.present import answer_line, details
    from viper.draw import save_answer
    from viper.profiles.wiring import EMBEDDED
    from viper.reasoner import RunOptions

    mode: Literal["strict", "weak"] = "strict" if strict_holds() else "weak"
    if mode == "weak":
        click.echo(
            f"notice: the full sandbox needs Linux with seccomp; on {sys.platform} this demo "
            "goes on with --sandbox=weak",
            err=True,
        )
    folder = EMBEDDED / "media"
    questions: list[dict[str, Any]] = json.loads((folder / "demo.json").read_text())
    out.mkdir(parents=True, exist_ok=True)
    answered = 0
    given = {"profile": "embedded", "sandbox": mode, "offline": True, "max_memory_gb": None}
    with open_reasoner(given, many_queries=True) as reasoner:
        for number, item in enumerate(questions, start=1):
            options = RunOptions(task=item["task"], options=tuple(item.get("options", ())))
            result = reasoner.run(str(folder / item["media"]), item["query"], options)
            answered += result.answer is not None
            picture = out / f"{number}-{item['task']}.png"
            save_answer(result, picture)
            click.echo(f"\n[{number}] {item['media']}: {item['query']}")
            for index, option in enumerate(options.options):
                click.echo(f"    ({index}) {option}")
            click.echo(f"answer: {answer_line(result)}")
            for line in details(result):
                click.echo(line)
            click.echo(f"picture: {picture}")
    return EXIT_OK if answered == len(questions) else EXIT_FAILED

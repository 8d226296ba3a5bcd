"""``viper learn prompts``: the soft prompts of tools.

Each command opens the pool of the state folder (`_pool`) and lists, shows, removes or restores its
prompts (`viper.models.vision.prompt_pool`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from viper.commands.options import state_option
from viper.commands.pool import echo_versions, rollback_command
from viper.commands.terminal import echo_json, echo_table, note
from viper.errors import UsageError
from viper.escape import for_terminal
from viper.models.vision.prompt_pool import FOLDER, PromptPool, StoredPrompt
from viper.profiles.files import state_dir
from viper.schema import to_json


@click.group()
def prompts() -> None:
    """List, show, remove or roll back the soft prompts that tools learned for concepts.

    A tool without prompts for a concept works as shipped. Source: CLOVA, sec. 3.4.1.

    \b
    viper learn prompts list                      list tools and concepts
    viper learn prompts show loc teapot           show training and validation data
    viper learn prompts remove loc teapot         remove; earlier versions keep the prompts
    viper learn prompts list --versions
    viper learn prompts rollback 12
    """


@prompts.command("list")
@click.option("--versions", is_flag=True, help="List the versions of the pool instead.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON lines.")
@state_option
def list_prompts(versions: bool, as_json: bool, state: Path | None) -> None:
    """List the tools and concepts with soft prompts."""
    prompt_pool = _pool(state)
    if versions:
        echo_versions(prompt_pool.store)
        return
    concepts: dict[tuple[str, str], list[StoredPrompt]] = {}
    for prompt in prompt_pool.kept():
        concepts.setdefault((prompt.tool, prompt.concept), []).append(prompt)
    rows = []
    for (tool, concept), learned in sorted(concepts.items()):
        evidence = [prompt.evidence for prompt in learned]
        row: dict[str, Any] = {
            "tool": tool,
            "concept": concept,
            "prompts": len(learned),
            "version": prompt_pool.version(tool, concept or None),
        }
        for name in ("before", "after"):
            figures = [figure for each in evidence if (figure := getattr(each, name)) is not None]
            row[name] = round(sum(figures) / len(figures), 4) if figures else None
        rows.append(row | {"models": sorted({each.model_id for each in evidence})})
    if as_json:
        for row in rows:
            echo_json(row)
    elif not rows:
        note(f"{prompt_pool.store.folder}: nothing was learned yet")
    else:
        header = ("tool", "concept", "prompts", "version", "before", "after", "model")
        for row in rows:
            row["concept"] = for_terminal(row["concept"]) or "-"
            row["before"], row["after"] = map(_figure, (row["before"], row["after"]))
            row["model"] = for_terminal(", ".join(row["models"]))
        echo_table(header, [[row[name] for name in header] for row in rows])


@prompts.command()
@click.argument("tool")
@click.argument("concept", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON lines.")
@state_option
def show(tool: str, concept: str | None, as_json: bool, state: Path | None) -> None:
    """Show how the prompts of TOOL, or of its CONCEPT, were trained and validated."""
    for prompt in _stored_prompts(_pool(state), tool, concept):
        if as_json:
            echo_json(to_json(prompt))
        else:
            click.echo(_in_full(prompt))


@prompts.command()
@click.argument("tool")
@click.argument("concept", required=False)
@click.option(
    "--id", "ids", multiple=True, metavar="ID", help="Remove only this prompt; repeatable."
)
@click.option("--all", "everything", is_flag=True, help="Remove all prompts of TOOL.")
@state_option
def remove(
    tool: str, concept: str | None, ids: tuple[str, ...], everything: bool, state: Path | None
) -> None:
    """Remove the prompts of TOOL for CONCEPT, single prompts, or all; old versions keep them."""
    if concept is None and not ids and not everything:
        raise UsageError(f"which of {tool}'s prompts? give a concept, --id ID, or --all")
    prompt_pool = _pool(state)
    stored_ids = {prompt.id for prompt in _stored_prompts(prompt_pool, tool, concept)}
    missing = [name for name in ids if name not in stored_ids]
    if missing:
        raise UsageError(f"no prompt {missing[0]!r} there; see: viper learn prompts show {tool}")
    count = prompt_pool.remove(tool, concept, ids or None)
    click.echo(f"{count} removed; version {prompt_pool.store.version}")


def _pool(state: Path | None) -> PromptPool:
    return PromptPool(state_dir(state) / FOLDER)


prompts.add_command(rollback_command(_pool))


def _stored_prompts(prompt_pool: PromptPool, tool: str, concept: str | None) -> list[StoredPrompt]:
    stored = prompt_pool.kept(tool, concept)
    if not stored:
        about = tool if concept is None else f"{tool} and {concept!r}"
        names = {f"{each.tool} {each.concept}".strip() for each in prompt_pool.kept()}
        known = for_terminal(", ".join(sorted(names))) or "nothing"
        raise UsageError(f"nothing was learned for {about}; known: {known}")
    return stored


def _figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _in_full(prompt: StoredPrompt) -> str:
    evidence = prompt.evidence
    before, after = map(_figure, (evidence.before, evidence.after))
    lines = [
        f"{prompt.id}: {prompt.tool} {for_terminal(prompt.concept)}".rstrip()
        + f", since version {prompt.born}",
        f"  prompt {prompt.shape[0]} x {prompt.shape[1]}, feature {prompt.feature_size}, "
        f"for {for_terminal(evidence.model_id)}",
        f"  trained on {for_terminal(', '.join(evidence.trained_on)) or 'nothing'} "
        f"({for_terminal(evidence.manner) or 'unknown manner'}, {evidence.steps} steps, "
        f"seed {evidence.seed})",
        f"  validated on {for_terminal(', '.join(evidence.validated_on)) or 'nothing'}: "
        f"{before} before, {after} after",
    ]
    if evidence.task:
        lines.append(f"  asked for by: {for_terminal(evidence.task)}")
    return "\n".join(lines)

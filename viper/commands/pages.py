"""Trace pages that commands write."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    import numpy as np

    from viper.reasoner import Reasoner, RunResult
    from viper.schema import Trace
    from viper.tools.media import Media


def write_run_page(result: RunResult, reasoner: Reasoner, path: Path, command: str) -> None:
    """Writes the page of one run; its programs run once more, no model is asked.

    Raises:
        StoreError: the file cannot be written.
    """
    from viper.commands.progress import status
    from viper.evaluate.runs.files import file_errors, write_whole
    from viper.web.trace_page import Extras, page_of

    extras = Extras(command=command, depth=depth_maps(result.trace, result.media, reasoner))
    components = reasoner.components
    with status("writing the page"):
        page = page_of(
            result.trace, result.media, components.library, extras, mode=components.sandbox.mode
        )
        with file_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, page)
    click.echo(f"{path}: open it in a browser", err=True)


def depth_maps(trace: Trace, media: Media, reasoner: Reasoner) -> dict[str, np.ndarray]:
    """The depth of every picture that the trace's programs asked it of; kept from the run."""
    from viper.tools.abilities import depth_map
    from viper.web.trace_view import DEPTH_TOOL

    session = reasoner.components.hub.session(media)
    asked: dict[str, Any] = {
        call.args[0]["fields"][0]: None
        for trial in trace.trials
        for call in trial.tool_calls
        if call.tool == DEPTH_TOOL and call.error is None and call.args
    }
    return {name: depth_map(session, name) for name in asked}

"""Downloads of published checkpoints with progress, for ``viper setup`` and before a run."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from viper.commands.terminal import hint_to_go_on, note, rich_bar
from viper.errors import ModelError
from viper.models.hub import Progress, check_hub, local_copy, size_text
from viper.models.loading import split_options
from viper.profiles.inventory import ModelState


def download_all(missing: Sequence[ModelState]) -> None:
    """Download checkpoints with progress.

    Raises:
        ModelError: one of them cannot be downloaded; without a hub, it lists them all.
    """
    if not missing:
        return
    options = {str(each.model): split_options(each.options or {})[0] for each in missing}
    offline = os.environ.get("HF_HUB_OFFLINE") == "1"
    if offline or any(each.local_only for each in options.values()):
        raise ModelError(
            f"not on this disk: {', '.join(options)}; offline, nothing is downloaded; run viper "
            "setup once with a connection"
        )
    check_hub(list(options))
    with hint_to_go_on():
        for number, (source, loading) in enumerate(options.items(), 1):
            with _bar(f"{number}/{len(options)} {source}") as report:
                local_copy(source, loading, report)


@contextmanager
def _bar(label: str) -> Iterator[Progress]:
    """Yield a function that shows the bytes of a download."""
    if sys.stderr.isatty():
        from rich import progress

        columns = (
            progress.TextColumn("[progress.description]{task.description}"),
            progress.BarColumn(),
            progress.DownloadColumn(),
            progress.TransferSpeedColumn(),
            progress.TimeRemainingColumn(),
        )
        with rich_bar(*columns, description=label.replace("[", r"\["), total=None) as show:
            yield lambda done, total: show(completed=done, total=total)
        return
    note(f"downloading {label} …")
    tenth = -1

    def line(done: int, total: int) -> None:
        nonlocal tenth
        if total and done * 10 // total > tenth:
            tenth = done * 10 // total
            note(f"{label}: {size_text(done)} of {size_text(total)}")

    yield line

"""``viper setup``: propose a profile for this machine, download its models and try it.

`set_up` describes the machine, proposes the best profile that fits (`_propose`), and lists the
problems (`report_fit`). It then downloads the missing models, asks one question, asks a detector
that writes boxes for one at a known place (`_boxes_of`), and writes the default. With ``check`` it
stops after the problems.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import click

from viper.commands.download import download_all
from viper.commands.options import quiet_libraries
from viper.commands.terminal import echo_table, status
from viper.embedded import MEDIA
from viper.errors import EXIT_FAILED, EXIT_OK, ModelError, UsageError, ViperError
from viper.models.checkpoints import facts_of
from viper.models.hub import check_hub
from viper.models.vision.roles import Detector
from viper.profiles import Profile, load_profile
from viper.profiles.backends import FETCH_MODEL
from viper.profiles.files import config_file, default_profile, proposed_profiles, state_dir
from viper.profiles.fit import Machine, fit, fitting, shortfall
from viper.profiles.inventory import downloads
from viper.storage.files import write_file
from viper.tools.models import ModelSet

# The profile that `viper setup model` completes: it needs no hub.
PHOTO_LITE = "photo-lite"

_QUESTION = "how many objects are on the table?"
# Speed of the connection for which times of downloads are stated: a common one at home.
_MBIT_PER_S = 100

# A drawing with one object at a known place shows how a model writes boxes. A model that counts in
# other units, or writes y first, gives boxes of other places, which no later step can notice.
# Its sides are multiples of 28, so that a detector in pixels shows it as it is. No wrong reading of
# the box overlaps it, and each lies within the picture.
PROBE_SIZE = (672, 448)
PROBE_BOX = (302, 45, 403, 134)
PROBE_NAME = "red circle"

# A drawn circle is easy to find; boxes of models are a few pixels off.
LEAST_IOU = 0.5


def set_up(name: str | None, *, check: bool, yes: bool, state: Path | None) -> int:
    """Propose a profile, download its models, try them, and make it the default.

    Args:
        name: profile to set up instead of the proposed one.
        check: only look.
        yes: download without asking.
    """
    quiet_libraries(offline=False)
    machine = Machine.here()
    gpu = f"{machine.gpu} with {machine.gpu_gib:.1f} GiB" if machine.gpu else "no GPU"
    click.echo(
        f"machine  {gpu}, {machine.ram_gib:.1f} GiB of memory, {machine.disk_gb:.0f} GB free for "
        "downloads"
    )
    keys = ("OPENAI_API_KEY", "HF_TOKEN")
    states = (f"{key} {'is set' if os.environ.get(key) else 'is not set'}" for key in keys)
    click.echo(f"keys     {', '.join(states)}")
    has_hub = True
    try:
        check_hub(["models"])
    except ModelError:
        has_hub = False
    click.echo(f"hub      {'answers' if has_hub else 'does not answer'}")
    name = name or (default_profile(state) if check else None)
    if name is None and not has_hub:
        if (state_dir(state) / "profiles" / f"{PHOTO_LITE}.toml").is_file():
            name = PHOTO_LITE
        else:
            click.echo(f"offline  {FETCH_MODEL}")
    name = name or _propose(machine, has_hub)
    if name is None:
        return EXIT_FAILED
    profile = load_profile(name, state=state)
    writes = name != PHOTO_LITE or any(map(os.environ.get, ("OPENAI_API_KEY", "OPENAI_BASE_URL")))
    missing = downloads(profile)
    problems = [*report_fit(profile, machine), *profile.problems(writes=writes)]
    if missing and not has_hub:
        problems.append(
            f"not on this disk: {', '.join(str(each.model) for each in missing)}; connect this "
            "machine, set HF_ENDPOINT to a mirror, or copy the hub's cache from another machine"
        )
    for problem in problems:
        click.echo(f"problem  {problem}")
    if check or problems:
        return EXIT_FAILED if problems or missing else EXIT_OK
    if missing and not yes:
        total = sum(each.missing_gb for each in missing)
        if not sys.stdin.isatty():
            raise UsageError(
                f"{total:.1f} GB are to be downloaded, and nobody can be asked here; go on with "
                "--yes, or look only with --check"
            )
        click.confirm(f"Download {total:.1f} GB?", default=True, abort=True)
    download_all(missing)
    if writes:
        _ask(profile)
    else:
        click.echo("writer   none: viper exec and viper apply run your programs (OPENAI_API_KEY)")
    make_default(name, state)
    return EXIT_OK


def make_default(name: str, state: Path | None) -> None:
    """Write a profile as that of commands that name none, and say so."""
    path, quoted = config_file(state), name.replace("\\", "\\\\").replace('"', '\\"')
    write_file(path, f'profile = "{quoted}"\n')
    click.echo(f"{name} is now the default profile ({path}); --profile names another one")


def _ask(profile: Profile) -> None:
    """Ask one question, and a detector that writes boxes for one at a known place."""
    from viper.reasoner import Reasoner

    asking, started = status(f"asking {profile.name}: {_QUESTION}"), time.perf_counter()
    with asking, Reasoner(profile, preload=False) as reasoner:
        result = reasoner.run(MEDIA / "table.png", _QUESTION)
        boxes = _boxes_of(reasoner.components.toolbox.models)
    seconds = time.perf_counter() - started
    failure = result.failure.explained if result.failure else "unknown"
    words = f"none: {failure}" if result.answer is None else str(result.answer.value)
    click.echo(f"answer   {_QUESTION} {words} ({seconds:.1f} s, loading included)")
    if boxes is not None:
        click.echo(f"boxes    of a drawing, in one request: {boxes or 'right'}")


def _boxes_of(models: ModelSet) -> str | None:
    """Return what to change in a detector that asks a language model; None for another one."""
    if "detector" not in models.roles or not models.trait("detector", "asks_language_model", False):
        return None
    try:
        return models.run("detector", probe_boxes)
    except ViperError as error:
        return str(error)


def probe_boxes(detector: Detector) -> str:
    """Ask a detector for the circle, in one request, and return what to change, "" for nothing.

    Raises:
        ToolError: the reply holds no boxes that can be read.
    """
    import numpy as np
    from PIL import Image, ImageDraw

    from viper.models.vision.boxes import overlaps

    drawing = Image.new("RGB", PROBE_SIZE, "ivory")
    ImageDraw.Draw(drawing).ellipse(PROBE_BOX, fill="red")
    (encoding,) = detector.encode([np.asarray(drawing)])
    (boxes,) = detector.detect(encoding, [PROBE_NAME])
    found = np.array([each.box for each in boxes], np.float32).reshape(-1, 4)
    sides = np.array(PROBE_SIZE * 2, np.float32)
    readings = {
        "": found,
        "x and y are exchanged: set its option y_first to true, or to false if it is true": (
            (found / sides)[:, [1, 0, 3, 2]] * sides
        ),
        "the model writes pixels: set its option in_pixels = true": found / sides * 1000,
        "the model counts to 1000: set its option in_pixels = false": found * sides / 1000,
    }
    truth = np.array([PROBE_BOX], np.float32)
    for advice, read in readings.items():
        if overlaps(truth, read).max(initial=0.0) >= LEAST_IOU:
            return advice
    return f"none of its {len(boxes)} boxes is near the circle; give the role to another model"


def report_fit(profile: Profile, machine: Machine) -> Iterator[str]:
    """Print what a profile needs here and has to download; yield one line per problem."""
    here = machine.memory_gib(profile.document)
    on_gpu = bool(here and here == machine.gpu_gib)
    click.echo(f"memory   {profile.name}: {fit(profile, here, on_gpu=on_gpu).text}")
    missing = downloads(profile)
    for each in missing:
        facts = facts_of(each.model)
        licence = f"licence {facts.licence}" if facts else "licence unknown"
        gate = ", accept it on the hub first" if facts and facts.gated else ""
        click.echo(f"download {each.model}: {each.size or 'size unknown'}, {licence}{gate}")
    lack = shortfall(profile, machine)
    if lack:
        yield f"{profile.name} {lack}"
    total = sum(each.missing_gb for each in missing)
    if total > machine.disk_gb:
        yield f"{total:.1f} GB are to be downloaded, and {machine.disk_gb:.1f} GB are free"


def _propose(machine: Machine, has_hub: bool) -> str | None:
    """Print the profiles that can be proposed, and return the best one that fits.

    An endpoint is preferred to models on a processor if its key is set. Without a hub only a
    profile whose models are on this disk fits, and None is returned if there is none.
    """
    fits = [document.name for document in fitting(machine)]
    rows, names = [], []
    for hardware, document in proposed_profiles():
        profile = load_profile(document.name)
        gigabytes = sum(each.missing_gb for each in downloads(profile))
        asks = document.llm.backend == "openai"
        why_not = [] if document.name in fits else ["memory"]
        why_not += ["disk"] if gigabytes > machine.disk_gb else []
        why_not += ["hub"] if gigabytes and not has_hub else []
        why_not += ["key"] if asks and profile.problems() else []
        if not why_not:
            names.append((hardware.gpu_gib > 0, asks, document.name))
        memory = f"GPU of {hardware.gpu_gib:g}" if hardware.gpu_gib else f"{hardware.ram_gib:g}"
        demand = f"{memory} GiB{' and a key' if asks else ''}"
        size = f"{gigabytes:.1f} GB, {gigabytes * 8000 / _MBIT_PER_S / 60:.0f} min"
        fit_text = f"no: {', '.join(why_not)}" if why_not else "yes"
        rows.append((document.name, demand, size, fit_text, document.description))
    if not names and not has_hub:
        return None
    download = f"download at {_MBIT_PER_S} Mbit/s"
    echo_table(("profile", "needs", download, "fits", "description"), rows)
    if not names:
        raise UsageError(
            "no profile fits this machine; set OPENAI_API_KEY or OPENAI_BASE_URL and run viper "
            "setup --profile endpoint"
        )
    best = max(enumerate(names), key=lambda pair: (*pair[1][:2], pair[0]))[1][-1]
    click.echo(f"proposed {best}")
    return best

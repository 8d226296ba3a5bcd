"""``viper setup doctor``: a check of this machine, with the command that fixes each problem.

`doctor` collects the findings of one function for each subject, which loads no weights, and prints
them as text or JSON. It fails if the embedded profile cannot run or a layer that the strict sandbox
requires is missing.
"""

from __future__ import annotations

import os
import platform
import sys
from pathlib import Path
from typing import Any

import click

from viper.commands.options import state_option
from viper.commands.terminal import echo_json
from viper.errors import EXIT_FAILED, EXIT_OK, EXTRA_OF, ViperError
from viper.plugins import is_installed
from viper.profiles import known_profiles, load_profile
from viper.profiles.inventory import readiness
from viper.sandbox import Sandbox
from viper.sandbox.sandbox import REQUIRED_LAYERS
from viper.threads import COUNT, PASSIVE, available_cores, thread_count

# Package and purpose, by the name in the report.
EXTRAS = {
    "local": ("torch", "models on this machine"),
    "vllm": ("vllm", "the vLLM engine for large language models"),
    "large": ("accelerate", "device_map: models spread over devices"),
    "quantize": ("bitsandbytes", "quantize: models in 8 and 4 bits"),
    "video": ("av", "videos"),
    "ocr": ("rapidocr", "text in pictures"),
    "search": ("tantivy", "indexes of pictures and texts"),
    "evaluate": ("scipy", "viper eval and reports"),
    "demo": ("gradio", "viper demo"),
    "emoji": ("augly", "pictures for EMOJI"),
}


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@state_option
def doctor(as_json: bool, state: Path | None) -> int:
    """Check what works on this machine: Python, torch, devices, threads, extras, sandbox, profiles.

    The exit code is 1 if the embedded profile or the strict sandbox cannot run.
    """
    profiles, threads_of_profiles = {}, {}
    for name in known_profiles(state):
        try:
            profile = load_profile(name, state=state)
            threads_of_profiles[name] = thread_count(profile.document.threads or None)
            ready, why = readiness(profile)
            description = profile.document.description
        except ViperError as error:
            ready, why, description = "cannot run", str(error), ""
        profiles[name] = {
            "runs": ready == "runs here",
            "state": ready,
            "why_not": why,
            "description": description,
        }
    extras = {}
    for name, (package, purpose) in EXTRAS.items():
        present = is_installed(package)
        install = None if present else f'pip install "viper-reasoner[{EXTRA_OF[package]}]"'
        extras[name] = {"installed": present, "purpose": purpose, "install": install}
    findings: dict[str, Any] = {
        "python": {"version": platform.python_version(), "executable": sys.executable},
        "torch": _torch(),
        "threads": {
            "cores": available_cores(),
            "environment": os.environ.get(COUNT),
            "profiles": threads_of_profiles,
            "waiting": {name: os.environ[name] for name in PASSIVE if name in os.environ},
        },
        "extras": extras,
        "sandbox": _sandbox(),
        "profiles": profiles,
    }
    if as_json:
        echo_json(findings)
    else:
        _print(findings)
    usable = findings["profiles"].get("embedded", {}).get("runs") and all(
        layer["holds"] for layer in findings["sandbox"] if layer["required"]
    )
    return EXIT_OK if usable else EXIT_FAILED


def _torch() -> dict[str, Any]:
    try:
        import torch
    except ImportError as error:
        problem = f'{error}; run: pip install "viper-reasoner[local]"'
        return {"version": None, "devices": [], "problem": problem}
    devices = [f"cpu ({torch.get_num_threads()} threads)"]
    if torch.cuda.is_available():
        devices += [
            f"cuda:{index} ({torch.cuda.get_device_name(index)})"
            for index in range(torch.cuda.device_count())
        ]
    if torch.backends.mps.is_available():
        devices.append("mps")
    return {"version": torch.__version__, "devices": devices, "problem": None}


def _sandbox() -> list[dict[str, Any]]:
    with Sandbox(mode="weak") as sandbox:
        layers = sandbox.layers()
    return [
        {
            "layer": layer.name,
            "holds": layer.holds,
            "required": layer.name in REQUIRED_LAYERS,
            "detail": layer.detail,
            "without": layer.without,
        }
        for layer in layers
    ]


def strict_holds() -> bool:
    """Return True if this machine has every layer that the strict sandbox requires."""
    return all(layer["holds"] for layer in _sandbox() if layer["required"])


def _print(findings: dict[str, Any]) -> None:
    torch = findings["torch"]
    click.echo(f"Python   {findings['python']['version']}")
    click.echo(f"torch    {torch['version'] or torch['problem']}")
    click.echo(f"devices  {', '.join(torch['devices']) or 'none'}")
    threads = findings["threads"]
    usual = thread_count()
    others = [f"{name} {count}" for name, count in threads["profiles"].items() if count != usual]
    source = f"{COUNT} in the environment" if threads["environment"] else "one for each core"
    waiting = " ".join(f"{name}={value}" for name, value in threads["waiting"].items())
    click.echo(f"threads  {', '.join([f'{usual} ({source})', *others])}; {waiting}")
    click.echo("extras")
    for name, extra in findings["extras"].items():
        state = "installed" if extra["installed"] else f"missing; {extra['install']}"
        click.echo(f"  {name:10} {state} ({extra['purpose']})")
    click.echo("sandbox layers")
    for layer in findings["sandbox"]:
        state = "holds" if layer["holds"] else "MISSING"
        click.echo(f"  {layer['layer']:14} {state:8} {layer['detail']}")
        click.echo(f"{'':26}without it: {layer['without']}")
    click.echo("profiles")
    for name, profile in findings["profiles"].items():
        why = f": {profile['why_not']}" if profile["state"] == "cannot run" else ""
        click.echo(f"  {name:18} {profile['state']}{why} ({profile['description']})")

"""Compares how strongly the embedded inpainter is guided, on validation edits.

    python benchmarks/inpainter_guidance.py [--model FOLDER] [--edits 200] [--steps 20]
                                            [--guidance 1.5 2.5 4] [--sheet edits.png]

Replaces one object of each of some validation scenes by another one and prints what the shipped
matcher and detector make of it (``viper_lab.recipes.inpainter_score``), for each guidance.
``--sheet`` saves the first edits to look at: before, masked, after, and as the renderer draws
what was asked for. An edit takes one run of the denoiser a step, two at once with guidance.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from viper.models.vision.inpainter_diffusers import DiffusersInpainter
from viper_lab.recipes.inpainter import SAMPLING_STEPS
from viper_lab.recipes.inpainter_score import WEIGHTS, edits, evaluate, replacements, sheet

GUIDANCES = (1.5, 2.5, 4.0)
SHOWN = 24


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", type=Path, default=WEIGHTS / "inpainter")
    parser.add_argument("--edits", type=int, default=200)
    parser.add_argument("--steps", type=int, default=SAMPLING_STEPS)
    parser.add_argument("--guidance", type=float, nargs="+", default=GUIDANCES)
    parser.add_argument("--sheet", type=Path)
    given = parser.parse_args()
    for guidance in given.guidance:
        inpainter = DiffusersInpainter.from_pretrained(
            given.model, steps=given.steps, guidance=guidance, safety_checker=False, device="cpu"
        )
        for name, value in evaluate(inpainter, given.edits).items():
            print(f"guidance {guidance:<5} {name:<20} {value:.3f}", flush=True)
        if given.sheet is not None:
            _save_sheet(inpainter, given.sheet.with_stem(f"{given.sheet.stem}-{guidance}"))


def _save_sheet(inpainter: DiffusersInpainter, path: Path) -> None:
    from PIL import Image

    wanted = list(replacements(SHOWN))
    Image.fromarray(sheet(wanted, edits(inpainter, wanted), columns=2)).save(path)
    print(path)


if __name__ == "__main__":
    main()

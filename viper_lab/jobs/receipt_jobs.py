"""Jobs on scanned receipts: is the total right, and is it large?

Every second receipt gets a wrong total. The last line with the total is painted over and written
again in all of them, so that the paint tells nothing; RapidOCR reads the pictures.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from viper.api.written import amounts_in, typed
from viper.jobs.cases import Label
from viper.models.vision.roles import TextLine
from viper.profiles import load_profile
from viper_lab.jobs.real_jobs import with_embedded_writer
from viper_lab.jobs.study import StudyJob, part_of, save_png
from viper_lab.photographs.job import PhotographJob
from viper_lab.photographs.receipts import PART, printed_lines, with_wrong

# A total is large from here on: about the median of the receipts.
_LARGE = 30.0


def receipt_jobs(data: PhotographJob) -> list[StudyJob]:
    """Return the jobs; the embedded writer knows no routine that reads."""
    profile = with_embedded_writer(load_profile("photo-lite").with_ocr_alone())
    drawn = partial(_draw, data)
    return [
        StudyJob("total", "real", profile, partial(drawn, "is the total right?", _is_right)),
        StudyJob("large", "real", profile, partial(drawn, "was it expensive?", _is_large)),
    ]


Truth = Callable[[float, bool], bool]


def _is_right(total: float, planted: bool) -> bool:
    return not planted


def _is_large(total: float, planted: bool) -> bool:
    return total >= _LARGE


def _draw(
    data: PhotographJob, query: str, truth: Truth, part: str, seed: int, count: int
) -> list[Label]:
    folder, out, labels = data.folder(PART), data.out / PART / "planted", []
    for number, file in enumerate(sorted(folder.glob("*.json"))):
        total = typed("money", json.loads(file.read_text("utf-8")).get("total", ""))
        lines = printed_lines(folder, file.stem)
        having = [e for e in lines if any(value == total for value, *_ in amounts_in(e.text))]
        if total is None or not having:
            continue
        planted, line = number % 2 == 1, having[-1]
        text = with_wrong(line.text, total, Random(file.stem)) if planted else line.text
        picture = out / f"{file.stem}.png"
        if not picture.is_file():
            _written_anew(folder / f"{file.stem}.jpg", replace(line, text=text), picture)
        answer = "yes" if truth(float(total), planted) else "no"
        labels.append(Label((str(picture.resolve()),), query, "question", answer))
    return part_of(labels, part, seed, count)


def _written_anew(source: Path, line: TextLine, target: Path) -> None:
    """Write a picture with another text in a line's box."""
    with Image.open(source) as file:
        picture = file.convert("RGB")
    left, top, right, bottom = line.box
    paper = np.median(np.array(picture.crop(line.box)), axis=(0, 1)).astype(int)
    draw = ImageDraw.Draw(picture)
    draw.rectangle(line.box, fill=tuple(paper.tolist()))
    font = ImageFont.load_default(max(8, 0.8 * (bottom - top)))
    draw.text((left, (top + bottom) / 2), line.text, fill=(20, 20, 20), font=font, anchor="lm")
    save_png(target, picture)

"""Average precision of boxes against a file in COCO's form, by ``pycocotools``."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from contextlib import redirect_stdout
from pathlib import Path

from viper.data.source import SourceFile
from viper.plugins import need_packages
from viper.schema import PixelBox


def average_precision(
    instances: Path,
    boxes: Iterable[tuple[int, int, PixelBox, float]],
    image_ids: Sequence[int] | None = None,
) -> float:
    """Return the AP in [0, 1]: mean over IoU .50 to .95 and over the categories that occur.

    Args:
        instances: annotations in COCO's form; boxes of groups (``iscrowd``) count as COCO says.
        boxes: ``(image id, category id, box, score)`` of every detection; boxes are
            ``(x0, y0, x1, y1)`` in pixels from the top-left corner. COCO looks at the best 100 of
            a picture and category.
        image_ids: pictures that count; None for all of the file.

    Raises:
        DataError: the file is missing or not JSON.

    Source: Lin et al., ECCV 2014; ``COCOeval`` of https://github.com/cocodataset/cocoapi.
    """
    need_packages(("pycocotools",), "average precision of boxes")
    from pycocotools.coco import COCO
    from pycocotools.cocoeval import COCOeval

    rows = [
        {"image_id": image, "category_id": category, "score": float(score)}
        | {"bbox": [float(v) for v in (x0, y0, x1 - x0, y1 - y0)]}
        for image, category, (x0, y0, x1, y1), score in boxes
    ]
    if not rows:
        return 0.0
    with redirect_stdout(io.StringIO()):  # it prints its progress
        truth = COCO()
        truth.dataset = SourceFile(instances.parent, instances.name).read_json()
        truth.createIndex()
        found = COCOeval(truth, truth.loadRes(rows), "bbox")
        if image_ids is not None:
            found.params.imgIds = sorted(image_ids)
        found.evaluate()
        found.accumulate()
        found.summarize()
    return max(0.0, float(found.stats[0]))  # -1 where no category occurs

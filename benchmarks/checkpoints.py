"""Full-size networks through the real backends: places, memory, and what a family's own file buys.

    python -m benchmarks.checkpoints [--only NAME] [--seconds] [--threads 2]

No published checkpoint is needed. Each network has its published size and random weights, and a
head that sees one bright rectangle (:mod:`tests.models.vision.heads`). The rectangle goes through
the backend's preprocessing, the whole network and the post-processing. Printed for each model: the
largest error of a box, a depth edge or a mask edge in pixels, over six shapes of pictures, each
whole and as a crop, the detectors' by the tool ``find`` with both settings of ``find_scope``; the
seconds of a picture; and the peak memory of the process. In float32 the error must be at most one
pixel, else the exit code is 1.

``--seconds`` compares backends on one picture: OWLv2 by its own file and by ``zero_shot``, and
MM-Grounding-DINO with its kept backbone and whole, for 1 and for 8 phrases.

``--bound`` uses four models in turn within a memory bound that holds two of them.

With a GPU everything runs there, in bfloat16 too, and the chat model in 4 bits. One model runs at a
time, each in a process of its own; 6 GB are enough.
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

SHAPES = ((480, 640), (640, 480), (333, 1000), (1000, 333), (750, 1000), (97, 41))
"""(height, width) of the pictures; none is square."""

NOUNS = ("dog", "red cube", "ball", "blue ball", "sofa", "two dogs", "cube", "the red ball")

FOUR_BITS = "4bit"

WITHIN = 1.0
"""Largest error in pixels, in float32."""

Box = tuple[float, float, float, float]


def picture(shape: tuple[int, int]) -> tuple[np.ndarray, Box, Box]:
    """Return a black picture, the box of its white rectangle, and a crop that holds it."""
    height, width = shape
    x0, x1 = round(width * 0.45), round(width * 0.83)
    y0, y1 = round(height * 0.21), round(height * 0.52)
    pixels = np.zeros((height, width, 3), np.uint8)
    pixels[y0:y1, x0:x1] = 255
    crop = (round(width * 0.3), round(height * 0.1), width, round(height * 0.8))
    return pixels, (x0, y0, x1, y1), crop


def error(box: Box, truth: Box) -> float:
    """Return the largest difference of two boxes' sides in pixels."""
    return max(abs(one - other) for one, other in zip(box, truth, strict=True))


def bounds(mask: np.ndarray) -> Box:
    """Return the box around the True pixels of a mask."""
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    if not len(rows):
        return (math.inf,) * 4
    return (int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1)


def checkpoint(family: str, folder: Path) -> Path:
    """Write a full-size checkpoint with random weights."""
    from tests.models.vision.built import save

    return save(family, folder / family, size="full")


# --- detectors, depth, masks ---


def owlv2(folder: Path, **options: Any) -> Any:
    """Return the backend of OWLv2's own file, whose parts see the rectangle."""
    import torch

    from tests.models.vision.heads import bright_box, coverage
    from viper.models.vision.detector_owlv2 import Owlv2Detector

    backend = Owlv2Detector.from_pretrained(checkpoint("owlv2", folder), **options)
    model, seen = backend._model, []
    look, propose, judge = model.image_embedder, model.box_predictor, model.class_predictor

    def look_again(pixel_values: Any, **kwargs: Any) -> Any:
        seen[:] = [bright_box(coverage(pixel_values))]
        return look(pixel_values=pixel_values, **kwargs)

    def propose_it(*args: Any, **kwargs: Any) -> Any:
        boxes = propose(*args, **kwargs)
        boxes[:] = seen[0][:, None].to(boxes.dtype)
        return boxes

    def judge_it(*args: Any, **kwargs: Any) -> Any:
        logits, embeds = judge(*args, **kwargs)
        logits[:] = -3.0
        logits[:, 0] = torch.logit(torch.tensor(0.95))
        return logits, embeds

    model.image_embedder, model.box_predictor = look_again, propose_it
    model.class_predictor = judge_it
    return backend


def zero_shot(family: str) -> Callable[..., Any]:
    """Return a loader of a family by the generic backend, with a head that sees the rectangle."""

    def load(folder: Path, **options: Any) -> Any:
        from tests.models.vision.heads import see_boxes
        from viper.models.vision.detector_zero_shot import ZeroShotDetector

        backend = ZeroShotDetector.from_pretrained(checkpoint(family, folder), **options)
        see_boxes(backend._model)
        return backend

    return load


def depth_anything(folder: Path, **options: Any) -> Any:
    from tests.models.vision.heads import see_depths
    from viper.models.vision.depth import DepthMaps

    backend = DepthMaps.from_pretrained(checkpoint("depth_anything", folder), **options)
    see_depths(backend._model)
    return backend


class WholePicture:
    """A detector whose only box of every name is the whole picture, for SAM 2 to outline."""

    model_id = "whole picture"

    def encode(self, images: list[np.ndarray]) -> list[tuple[int, int]]:
        return [image.shape[:2] for image in images]

    def detect(self, size: tuple[int, int], phrases: list[str]) -> list[list[Any]]:
        from viper.models.vision.roles import Detection

        return [[Detection((0.0, 0.0, float(size[1]), float(size[0])), 0.9)] for _ in phrases]


def sam2(folder: Path, **options: Any) -> Any:
    from tests.models.vision.heads import see_masks
    from viper.models.vision.segmenter_sam import Sam2Segmenter

    path = checkpoint("sam2", folder)
    backend = Sam2Segmenter.from_pretrained(path, detector=WholePicture(), **options)
    see_masks(backend._model)
    return backend


def found(detector: Any, scope: str, shape: tuple[int, int], within: Box | None) -> float:
    """Return the error of the tool ``find`` on a picture, or on a crop of it."""
    from viper.models.media import media_from
    from viper.sandbox import Ref
    from viper.tools.models import ModelSet
    from viper.tools.settings import ThresholdSchedule, ToolSettings
    from viper.tools.toolbox import Toolbox

    pixels, truth, _ = picture(shape)
    height, width = shape
    settings = ToolSettings(
        find_scope=scope, sensitivities={"detector.threshold": ThresholdSchedule(0.5, 0.1, 0.1)}
    )
    session = Toolbox(ModelSet({"detector": lambda: detector}), settings).session(
        media_from(pixels)
    )
    patch = Ref("image", ("image0", width, height))
    if within is not None:  # a patch counts y from the bottom
        x0, y0, x1, y1 = within
        patch = Ref("patch", ("image0", x0, height - y1, x1, height - y0))
    (first, *_) = session.call("find", (patch, "dog"), {}, 1)
    left, lower, right, upper = first.fields[1:5]
    return error((left, height - upper, right, height - lower), truth)


def detector_errors(detector: Any) -> Iterator[float]:
    for shape in SHAPES:
        crop = picture(shape)[2]
        yield found(detector, "whole", shape, None)
        yield found(detector, "crop", shape, crop)


def depth_errors(backend: Any) -> Iterator[float]:
    for shape in SHAPES:
        pixels, truth, (left, top, right, bottom) = picture(shape)
        for x, y, part in ((0, 0, pixels), (left, top, pixels[top:bottom, left:right])):
            (depth,) = backend.depth([part])
            middle = (float(depth.min()) * float(depth.max())) ** 0.5
            x0, y0, x1, y1 = bounds(depth < middle)
            yield error((x0 + x, y0 + y, x1 + x, y1 + y), truth)


def mask_errors(backend: Any) -> Iterator[float]:
    for shape in SHAPES:
        pixels, truth, (left, top, right, bottom) = picture(shape)
        for x, y, part in ((0, 0, pixels), (left, top, pixels[top:bottom, left:right])):
            (segment,) = backend.segments(backend.encode(part), ["dog"])
            x0, y0, x1, y1 = bounds(segment.mask)
            yield error((x0 + x, y0 + y, x1 + x, y1 + y), truth)


# --- matcher ---


def siglip2(folder: Path, **options: Any) -> Any:
    """Return the matcher's backend on SigLIP 2's towers, with a tokenizer that needs no files."""
    import open_clip
    import torch

    from viper.models.vision.matcher_open_clip import OpenClipMatcher

    torch.manual_seed(0)
    dtype = getattr(torch, options.get("dtype", "float32"))
    model, _, preprocess = open_clip.create_model_and_transforms("ViT-B-16-SigLIP2")

    def tokens(texts: list[str]) -> Any:
        rows = torch.zeros(len(texts), 64, dtype=torch.long)
        for row, text in zip(rows, texts, strict=True):
            codes = torch.tensor([ord(letter) for letter in text[:64]])
            row[: len(codes)] = codes
        return rows

    model = model.to(options.get("device", "cpu"), dtype).eval()
    return OpenClipMatcher(model, preprocess, tokens, "ViT-B-16-SigLIP2", batch_size=8)


def matcher_errors(backend: Any) -> Iterator[float]:
    """Yield one minus the cosine between a picture's embedding alone and in a batch of shapes."""
    pictures = [picture(shape)[0] for shape in SHAPES]
    together = backend.encode_images(pictures)
    for pixels, row in zip(pictures, together, strict=True):
        yield 1.0 - float(backend.encode_images([pixels])[0] @ row)
    texts = backend.encode_texts(list(NOUNS))
    for noun, row in zip(NOUNS, texts, strict=True):
        yield 1.0 - float(backend.encode_texts([noun])[0] @ row)


# --- vision-language model ---


def qwen3_vl(folder: Path, **options: Any) -> Any:
    """Return Qwen3-VL-2B with 4 of 24 layers of vision and 2 of 28 of text, as a detector that
    writes the rectangle's place as the real model writes boxes.
    """
    import torch
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import (
        PreTrainedTokenizerFast,
        Qwen2VLImageProcessor,
        Qwen3VLConfig,
        Qwen3VLForConditionalGeneration,
        Qwen3VLProcessor,
        Qwen3VLVideoProcessor,
    )

    from tests.models.vision.heads import bright_box
    from tests.models.vision.tiny_chat import QWEN_TEMPLATE
    from viper.models.vision.chat_vlm import ChatVLM
    from viper.models.vision.detector_vlm import VlmDetector

    marks = ["<|pad|>", "<|end|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>"]
    marks.append("<|video_pad|>")
    letters = [chr(code) for code in range(32, 127)]
    vocabulary = {token: place for place, token in enumerate([*marks, *letters])}
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token=" "))
    backend.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    backend.decoder = decoders.Fuse()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token=marks[0],
        eos_token=marks[1],
        additional_special_tokens=marks[2:],
    )
    torch.manual_seed(0)
    config = Qwen3VLConfig(
        text_config={
            "vocab_size": 151936,
            "hidden_size": 2048,
            "intermediate_size": 6144,
            "num_hidden_layers": 2,
            "num_attention_heads": 16,
            "num_key_value_heads": 8,
            "head_dim": 128,
            "eos_token_id": 1,
            "pad_token_id": 0,
            "tie_word_embeddings": True,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 5000000.0,
                "mrope_section": [24, 20, 20],
                "mrope_interleaved": True,
            },
        },
        vision_config={
            "depth": 4,
            "hidden_size": 1024,
            "intermediate_size": 4096,
            "num_heads": 16,
            "out_hidden_size": 2048,
            "deepstack_visual_indexes": [1, 2, 3],
        },
        tie_word_embeddings=True,
        image_token_id=4,
        video_token_id=5,
        vision_start_token_id=2,
        vision_end_token_id=3,
    )
    model = Qwen3VLForConditionalGeneration(config)
    sizes = {"patch_size": 16, "merge_size": 2}
    edges = {"shortest_edge": 65536, "longest_edge": 16777216}
    processor = Qwen3VLProcessor(
        Qwen2VLImageProcessor(**sizes, size=edges),
        tokenizer,
        Qwen3VLVideoProcessor(**sizes),
        chat_template=QWEN_TEMPLATE,
    )
    place = folder / "qwen3_vl"
    model.save_pretrained(place)
    processor.save_pretrained(place)
    del model
    vlm = ChatVLM.from_pretrained(place, **options)
    network = vlm._model

    def write(input_ids: Any, pixel_values: Any, image_grid_thw: Any, **how: Any) -> Any:
        """Run the network once, then write the box that the patches of the first picture show."""
        masks = {name: how[name] for name in ("attention_mask", "mm_token_type_ids") if name in how}
        network(
            input_ids=input_ids,
            pixel_values=pixel_values,
            image_grid_thw=image_grid_thw,
            logits_to_keep=1,
            **masks,
        )
        _, rows, columns = image_grid_thw[0].tolist()
        light = pixel_values[: rows * columns].float().mean(dim=1)
        light = (light - light.min()) / (light.max() - light.min())
        grid = light.reshape(rows // 2, columns // 2, 2, 2).transpose(1, 2).reshape(rows, columns)
        x, y, width, height = bright_box(grid[None])[0].tolist()
        corners = (x - width / 2, y - height / 2, x + width / 2, y + height / 2)
        box = [round(1000 * corner) for corner in corners]
        text = json.dumps([{"label": "dog", "bbox_2d": box}])
        ids = [*tokenizer(text, add_special_tokens=False)["input_ids"], 1]
        reply = torch.tensor([ids], device=input_ids.device)
        return SimpleNamespace(sequences=torch.cat([input_ids, reply], dim=1))

    network.generate = write
    return VlmDetector(vlm)


# --- one model ---

MODELS: dict[str, tuple[Callable[..., Any], Callable[[Any], Iterator[float]], str]] = {
    "OWLv2-base, own file": (owlv2, detector_errors, "pixels"),
    "OWLv2-base, zero_shot": (zero_shot("owlv2"), detector_errors, "pixels"),
    "MM-Grounding-DINO-tiny": (zero_shot("mm_grounding_dino"), detector_errors, "pixels"),
    "Depth Anything V2 small": (depth_anything, depth_errors, "pixels"),
    "SAM 2 tiny": (sam2, mask_errors, "pixels"),
    "SigLIP 2 base": (siglip2, matcher_errors, "1 - cosine"),
    "Qwen3-VL-2B, 4 + 2 layers": (qwen3_vl, detector_errors, "pixels"),
}
"""Model to its loader, the errors of its pictures, and their unit."""


def peak_gib() -> float:
    """Return the most memory that this process had: of the GPU if there is one."""
    import torch

    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated() / 2**30
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def run(name: str, dtype: str, threads: int) -> dict[str, Any]:
    """Check one model in this process."""
    import torch

    torch.set_num_threads(threads)
    load, errors, unit = MODELS[name]
    device = "cuda" if torch.cuda.is_available() else "cpu"
    with tempfile.TemporaryDirectory() as folder:
        precision = {"dtype": dtype}
        if dtype == FOUR_BITS:
            precision = {"dtype": "bfloat16", "quantize": FOUR_BITS}
        backend = load(Path(folder), device=device, **precision)
        started = time.perf_counter()
        values = list(errors(backend))
    seconds = (time.perf_counter() - started) / len(values)
    return {
        "model": name,
        "dtype": dtype,
        "unit": unit,
        "error": max(values),
        "checks": len(values),
        "seconds": seconds,
        "peak_gib": peak_gib(),
    }


def seconds(threads: int) -> None:
    """Print what it takes to look for 1 and for 8 phrases on a picture of 640 x 480."""
    import torch

    torch.set_num_threads(threads)
    pixels = picture((480, 640))[0]
    with tempfile.TemporaryDirectory() as folder:
        from viper.models.vision.detector_zero_shot import PictureEncoding, ZeroShotDetector

        backends: dict[str, tuple[Any, Callable[[Any], Any]]] = {}
        own = owlv2(Path(folder))
        backends["OWLv2, own file: tower kept"] = own, lambda each: each.encode([pixels])[0]
        whole = ZeroShotDetector.from_pretrained(Path(folder) / "owlv2", batch_size=1)
        backends["OWLv2, zero_shot: whole"] = whole, lambda each: each.encode([pixels])[0]
        for label, (backend, encode) in backends.items():
            _print_seconds(label, backend, encode)
        del own, whole, backends
        dino = ZeroShotDetector.from_pretrained(checkpoint("mm_grounding_dino", Path(folder)))
        dino = type(dino)(dino._model, dino._processor, dino.model_id, batch_size=1)
        _print_seconds(
            "MM-Grounding-DINO: backbone kept", dino, lambda each: each.encode([pixels])[0]
        )

        def each_whole(backend: Any) -> Any:
            return PictureEncoding(pixels, pixels.shape[:2])

        detect = dino.detect
        dino.detect = lambda encoding, phrases: [
            detect(dino.encode([encoding.framed])[0], [phrase])[0] for phrase in phrases
        ]
        _print_seconds("MM-Grounding-DINO: whole", dino, each_whole)


def _print_seconds(label: str, backend: Any, encode: Callable[[Any], Any]) -> None:
    started = time.perf_counter()
    encoding = encode(backend)
    encoded = time.perf_counter() - started
    took = []
    for phrases in (NOUNS[:1], NOUNS):
        started = time.perf_counter()
        backend.detect(encoding, list(phrases))
        took.append(time.perf_counter() - started + encoded)
    print(f"{label:34} 1 phrase {took[0]:7.1f} s   8 phrases {took[1]:7.1f} s", flush=True)


def bound(threads: int) -> None:
    """Use four models in turn within a bound of 1.3 GiB on their weights, and print the peaks."""
    import torch

    from viper.models.checkpoints import weights_gib
    from viper.models.memory import MemoryBudget
    from viper.tools.models import ModelSet

    torch.set_num_threads(threads)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    budget = MemoryBudget(round(1.3 * 2**30))
    models, loads, most = ModelSet({}, budget), [], 0
    with tempfile.TemporaryDirectory() as folder:
        kinds = ("owlv2", "mm_grounding_dino", "dpt", "depth_anything")
        places = {kind: checkpoint(kind, Path(folder)) for kind in kinds}

        def add(role: str, kind: str) -> None:
            from viper.models.vision.depth import DepthMaps
            from viper.models.vision.detector_zero_shot import ZeroShotDetector

            load = DepthMaps if role == "depth" or kind == "dpt" else ZeroShotDetector

            def loaded() -> Any:
                nonlocal most
                backend = load.from_pretrained(places[kind], device=device)
                most = max(most, budget.used_bytes() + backend.memory_bytes)
                loads.append(kind)
                return backend

            models.add(role, loaded, lambda: round(weights_gib(places[kind], "float32") * 2**30))

        for role, kind in zip(("detector", "matcher", "segmenter", "depth"), kinds, strict=True):
            add(role, kind)
        for role in ("detector", "matcher", "segmenter", "depth") * 2:
            with models.using(role):
                pass
    print(
        f"bound 1.3 GiB on weights: {len(loads)} loads in 8 uses, peak while loading "
        f"{most / 2**30:.2f} GiB of weights, {peak_gib():.1f} GiB of the process or GPU"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="models whose names contain this text")
    parser.add_argument(
        "--seconds", action="store_true", help="compare backends for 1 and 8 phrases"
    )
    parser.add_argument("--bound", action="store_true", help="use four models within a bound")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--child", nargs=2, metavar=("MODEL", "DTYPE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        print(json.dumps(run(*options.child, options.threads)))
        return 0
    if options.seconds or options.bound:
        (seconds if options.seconds else bound)(options.threads)
        return 0
    import torch

    on_gpu = torch.cuda.is_available()
    if not on_gpu:
        print("not run on a GPU: float32 on a processor, neither bfloat16 nor 4 bits")
    too_large = 0
    for name in MODELS:
        for dtype in ("float32", "bfloat16", FOUR_BITS) if on_gpu else ("float32",):
            if dtype == FOUR_BITS and "Qwen" not in name:
                continue
            if options.only.lower() in name.lower():
                too_large += _printed(name, dtype, options.threads)
    return int(too_large > 0)


def _printed(name: str, dtype: str, threads: int) -> bool:
    """Check a model in a process of its own; return whether its error is too large."""
    command = [sys.executable, "-m", "benchmarks.checkpoints", "--threads", str(threads)]
    child = subprocess.run(
        [*command, "--child", name, dtype], capture_output=True, text=True, check=False
    )
    if child.returncode:
        print(f"{name:26} {dtype:9} failed: {child.stderr.strip().splitlines()[-1]}", flush=True)
        return True
    row = json.loads(child.stdout.splitlines()[-1])
    print(
        f"{name:26} {dtype:9} largest error {row['error']:9.2g} {row['unit']:10} in "
        f"{row['checks']} checks, {row['seconds']:6.1f} s each, peak {row['peak_gib']:.1f} GiB",
        flush=True,
    )
    return bool(dtype == "float32" and row["error"] > WITHIN)


if __name__ == "__main__":
    sys.exit(main())

"""A tiny untrained OWLv2 of the real classes, with a processor, as a folder."""

from __future__ import annotations

from pathlib import Path

SIDE, WIDTH = 64, 32


def tiny_owl(target: Path) -> Path:
    """Writes one that sees 64 x 64 pixels in patches of 16, features of width 32."""
    import torch

    from viper_lab.recipes.detector import export
    from viper_lab.recipes.detector_model import DetectorShape, DetectorTrainer, new_model
    from viper_lab.recipes.text import train_tokenizer

    torch.manual_seed(0)
    shape = DetectorShape(
        image_size=SIDE, width=WIDTH, layers=1, heads=2, mlp=64, text_width=32, text_mlp=64
    )
    texts = ["small red metal cube", "big blue ball", "object thing"]
    tokenizer = train_tokenizer(texts, 60, shape.text_length)
    trainer = DetectorTrainer(new_model(shape, tokenizer))
    # Untrained, it takes every patch for an object and every phrase for likely.
    torch.nn.init.constant_(trainer.model.class_head.logit_shift.bias, 2.0)
    torch.nn.init.constant_(trainer.model.objectness_head.dense2.bias, 2.0)
    export(trainer, shape, tokenizer, target)
    return target

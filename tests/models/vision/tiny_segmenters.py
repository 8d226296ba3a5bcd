"""Untrained MaskFormer, Mask2Former and EoMT checkpoints of the published architectures."""

import numpy as np

LABELS = ("cube", "Wall ", "background")


def backbone():
    from transformers import ResNetConfig

    return ResNetConfig(
        embedding_size=8,
        hidden_sizes=[8, 8, 16, 16],
        depths=[1, 1, 1, 1],
        layer_type="basic",
        out_features=["stage1", "stage2", "stage3", "stage4"],
    )


def maskformer(**labels):
    from transformers import (
        MaskFormerConfig,
        MaskFormerDetrConfig,
        MaskFormerForInstanceSegmentation,
        MaskFormerImageProcessor,
    )

    decoder = MaskFormerDetrConfig(
        d_model=16,
        num_queries=6,
        encoder_layers=0,
        decoder_layers=2,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        decoder_ffn_dim=16,
        encoder_ffn_dim=16,
    )
    config = MaskFormerConfig(
        backbone_config=backbone(),
        decoder_config=decoder,
        fpn_feature_size=32,
        mask_feature_size=32,
        **labels,
    )
    processor = MaskFormerImageProcessor(size={"height": 32, "width": 64}, size_divisor=32)
    return MaskFormerForInstanceSegmentation(config), processor


def mask2former(**labels):
    from transformers import (
        Mask2FormerConfig,
        Mask2FormerForUniversalSegmentation,
        Mask2FormerImageProcessor,
    )

    config = Mask2FormerConfig(
        backbone_config=backbone(),
        feature_size=32,
        mask_feature_size=32,
        hidden_dim=16,
        encoder_feedforward_dim=16,
        encoder_layers=1,
        decoder_layers=3,
        num_attention_heads=2,
        dim_feedforward=16,
        num_queries=6,
        **labels,
    )
    processor = Mask2FormerImageProcessor(size={"height": 32, "width": 64}, size_divisor=32)
    return Mask2FormerForUniversalSegmentation(config), processor


def eomt(**labels):
    from transformers import EomtConfig, EomtForUniversalSegmentation, EomtImageProcessor

    config = EomtConfig(
        hidden_size=16,
        num_hidden_layers=3,
        num_attention_heads=2,
        intermediate_size=16,
        image_size=32,
        patch_size=8,
        num_blocks=1,
        num_queries=6,
        num_upscale_blocks=1,
        **labels,
    )
    size = {"shortest_edge": 32, "longest_edge": 32}
    return EomtForUniversalSegmentation(config), EomtImageProcessor(size=size, do_pad=True)


def save(make, folder):
    import torch

    torch.manual_seed(1)
    names = dict(enumerate(LABELS))
    model, processor = make(id2label=names, label2id={name: i for i, name in names.items()})
    # Untrained queries all say the same, and nothing: these differ, and are sure of it.
    with torch.no_grad():
        for name, weights in model.named_parameters():
            if "quer" in name and "embedder" in name or name == "query.weight":
                torch.nn.init.normal_(weights, std=2.0)
        torch.nn.init.normal_(model.class_predictor.weight, std=20.0)
        model.class_predictor.bias[-1] = -1e4
    model.eval().save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


def pictures():
    rng = np.random.default_rng(0)
    return [rng.integers(0, 255, (*shape, 3)).astype(np.uint8) for shape in ((30, 60), (44, 26))]

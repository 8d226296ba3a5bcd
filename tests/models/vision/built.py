"""Vision models with random weights, built from library configs.

``save(family, folder)`` writes a checkpoint as published ones are laid out: weights, config and the
family's own processor. ``size="tiny"`` has layers of a few channels and loads in a second;
``size="full"`` is the library's default config, which is the published size. Only the vocabulary
of texts is small in both. :mod:`tests.models.vision.heads` makes their outputs predictable.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

DETECTORS = ("grounding_dino", "mm_grounding_dino", "omdet_turbo", "owlvit", "owlv2")
DEPTHS = ("depth_anything", "dpt", "dpt_padded", "glpn", "zoedepth", "depth_pro")
WORDS = ["red", "blue", "cube", "ball", "dog", "dogs", "a", "the", "on", "sofa", "two", "detect"]


def save(family: str, folder: Path, size: str = "tiny", **config: Any) -> Path:
    """Write the checkpoint; ``config`` changes the network's configuration."""
    import torch

    torch.manual_seed(0)
    model, processor = BUILDERS[family](size == "tiny", **config)
    model.eval().save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


def bert_tokenizer() -> Any:
    """A BERT tokenizer; Grounding DINO knows the tokens that part phrases by BERT's own numbers."""
    from transformers import BertTokenizer

    tokens = [f"[unused{i}]" for i in range(1040)]
    tokens[0], tokens[100], tokens[101], tokens[102] = "[PAD]", "[UNK]", "[CLS]", "[SEP]"
    tokens[1012], tokens[1029] = ".", "?"
    tokens[200 : 200 + len(WORDS)] = WORDS
    return BertTokenizer(vocab={token: i for i, token in enumerate(tokens)})


def clip_tokenizer(length: int) -> Any:
    """A tokenizer of CLIP's class that knows single letters."""
    from transformers import CLIPTokenizer

    letters = "abcdefghijklmnopqrstuvwxyz.,"
    # OWL takes a text that begins with token 0 for none.
    tokens = [
        "!",
        "<|startoftext|>",
        "<|endoftext|>",
        *letters,
        *(f"{each}</w>" for each in letters),
    ]
    vocab = {token: i for i, token in enumerate(tokens)}
    return CLIPTokenizer(vocab=vocab, merges=[], model_max_length=length)


def _swin(tiny: bool) -> Any:
    from transformers import SwinConfig

    if not tiny:
        return SwinConfig(image_size=224, out_indices=[2, 3, 4])
    return SwinConfig(
        image_size=32,
        patch_size=4,
        embed_dim=8,
        depths=[1, 1, 1, 1],
        num_heads=[1, 1, 2, 2],
        window_size=2,
        out_indices=[2, 3, 4],
        initializer_range=0.3,
    )


def _dino(tiny: bool, config_class: Any, model_class: Any, **config: Any) -> tuple[Any, Any]:
    import torch
    from transformers import BertConfig, GroundingDinoImageProcessor, GroundingDinoProcessor

    tokenizer = bert_tokenizer()
    small: dict[str, Any] = {"backbone_config": _swin(tiny), "text_config": BertConfig()}
    sides = {"shortest_edge": 800, "longest_edge": 1333}
    if tiny:
        small["text_config"] = BertConfig(
            vocab_size=len(tokenizer),
            hidden_size=16,
            num_hidden_layers=1,
            num_attention_heads=2,
            intermediate_size=32,
            max_position_embeddings=32,
            initializer_range=0.5,
        )
        small |= {
            "num_queries": 20,
            "encoder_layers": 1,
            "encoder_ffn_dim": 64,
            "encoder_attention_heads": 4,
            "decoder_layers": 2,
            "decoder_ffn_dim": 64,
            "decoder_attention_heads": 4,
            "d_model": 64,
            "max_text_len": 32,
            "init_std": 0.3,
        }
        sides = {"shortest_edge": 64, "longest_edge": 128}
    model = model_class(config_class(**{**small, **config}))
    # Untrained heads give every proposal the same box and score: these differ.
    for head in (*model.bbox_embed, model.model.encoder_output_bbox_embed):
        torch.nn.init.normal_(head.layers[-1].weight, std=0.1)
    last = model.model.encoder.layers[-1].text_enhancer_layer.layer_norm_after
    torch.nn.init.constant_(last.weight, 0.7)
    images = GroundingDinoImageProcessor(size=sides)
    return model, GroundingDinoProcessor(images, tokenizer)


def grounding_dino(tiny: bool, **config: Any) -> tuple[Any, Any]:
    from transformers import GroundingDinoConfig, GroundingDinoForObjectDetection

    return _dino(tiny, GroundingDinoConfig, GroundingDinoForObjectDetection, **config)


def mm_grounding_dino(tiny: bool, **config: Any) -> tuple[Any, Any]:
    from transformers import MMGroundingDinoConfig, MMGroundingDinoForObjectDetection

    return _dino(tiny, MMGroundingDinoConfig, MMGroundingDinoForObjectDetection, **config)


def omdet_turbo(tiny: bool, **config: Any) -> tuple[Any, Any]:
    from transformers import (
        CLIPTextConfig,
        DetrImageProcessor,
        OmDetTurboConfig,
        OmDetTurboForObjectDetection,
        OmDetTurboProcessor,
    )

    tokenizer = clip_tokenizer(77)
    small: dict[str, Any] = {}
    side = 640
    if tiny:  # the full one has a backbone of timm, whose channels come last
        side = 64
        small = {
            "backbone_config": _swin(tiny),
            "apply_layernorm_after_vision_backbone": False,
            "text_config": CLIPTextConfig(
                vocab_size=len(tokenizer),
                hidden_size=32,
                num_hidden_layers=1,
                num_attention_heads=2,
                intermediate_size=32,
                projection_dim=16,
                bos_token_id=1,
                eos_token_id=2,
            ),
            "image_size": 64,
            "text_projection_in_dim": 32,
            "text_projection_out_dim": 32,
            "class_embed_dim": 32,
            "task_encoder_hidden_dim": 32,
            "num_queries": 20,
            "encoder_hidden_dim": 16,
            "vision_features_channels": (16, 16, 16),
            "encoder_in_channels": (16, 32, 64),
            "encoder_attention_heads": 2,
            "encoder_dim_feedforward": 32,
            "decoder_hidden_dim": 16,
            "decoder_num_heads": 2,
            "decoder_num_layers": 1,
            "decoder_dim_feedforward": 32,
        }
    model = OmDetTurboForObjectDetection(OmDetTurboConfig(**{**small, **config}))
    images = DetrImageProcessor(size={"height": side, "width": side}, do_pad=False)
    return model, OmDetTurboProcessor(images, tokenizer)


def _owl(tiny: bool, version: str, **config: Any) -> tuple[Any, Any]:
    import torch
    import transformers

    kind = {name: getattr(transformers, f"{version}{name}") for name in ("Config", "Processor")}
    images = getattr(transformers, f"{version}ImageProcessor")
    tokenizer = clip_tokenizer(16)
    vision: dict[str, Any] = {}
    text: dict[str, Any] = {"bos_token_id": 1, "eos_token_id": 2}
    if tiny:
        vision = {
            "hidden_size": 16,
            "intermediate_size": 32,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "image_size": 64,
            "patch_size": 16,
        }
        text |= {
            "vocab_size": len(tokenizer),
            "hidden_size": 16,
            "intermediate_size": 32,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
        }
        config = {"projection_dim": 16, **config}
    made = kind["Config"](text_config=text, vision_config=vision, **config)
    model = getattr(transformers, f"{version}ForObjectDetection")(made)
    # Untrained scores lie at 0 and 1: these depend on how like each other picture and text are.
    for part, value in ((model.class_head.logit_shift, -0.5), (model.class_head.logit_scale, 3.0)):
        torch.nn.init.zeros_(part.weight)
        torch.nn.init.constant_(part.bias, value)
    side = made.vision_config.image_size
    return model, kind["Processor"](images(size={"height": side, "width": side}), tokenizer)


def owlvit(tiny: bool, **config: Any) -> tuple[Any, Any]:
    return _owl(tiny, "OwlViT", **config)


def owlv2(tiny: bool, **config: Any) -> tuple[Any, Any]:
    return _owl(tiny, "Owlv2", **config)


def _dinov2(**more: Any) -> Any:
    from transformers import Dinov2Config

    return Dinov2Config(
        hidden_size=16, num_hidden_layers=4, num_attention_heads=2, image_size=32, **more
    )


def depth_anything(tiny: bool, **config: Any) -> tuple[Any, Any]:
    import torch
    from transformers import DepthAnythingConfig, DepthAnythingForDepthEstimation, DPTImageProcessor

    small: dict[str, Any] = {}
    side, step = 518, 14
    if tiny:
        side, step = 128, 8
        outputs = {"out_indices": [1, 2, 3, 4], "reshape_hidden_states": False}
        small = {
            "backbone_config": _dinov2(patch_size=step, **outputs),
            "patch_size": step,
            "reassemble_hidden_size": 16,
            "neck_hidden_sizes": [4, 4, 8, 8],
            "fusion_hidden_size": 8,
            "head_hidden_size": 4,
        }
    model = DepthAnythingForDepthEstimation(DepthAnythingConfig(**{**small, **config}))
    torch.nn.init.constant_(model.head.conv3.bias, 0.5)
    sizes = {"height": side, "width": side}
    return model, DPTImageProcessor(size=sizes, keep_aspect_ratio=True, ensure_multiple_of=step)


def dpt(tiny: bool, **config: Any) -> tuple[Any, Any]:
    import torch
    from transformers import DPTConfig, DPTForDepthEstimation, DPTImageProcessor

    small: dict[str, Any] = {}
    if tiny:
        small = {
            "hidden_size": 16,
            "num_hidden_layers": 4,
            "num_attention_heads": 2,
            "intermediate_size": 32,
            "image_size": 64,
            "patch_size": 8,
            "backbone_out_indices": [0, 1, 2, 3],
            "neck_hidden_sizes": [4, 4, 8, 8],
            "fusion_hidden_size": 8,
            "initializer_range": 0.3,
        }
    model = DPTForDepthEstimation(DPTConfig(**{**small, **config}))
    torch.nn.init.constant_(model.head.head[4].bias, 0.5)
    side = model.config.image_size
    return model, DPTImageProcessor(size={"height": side, "width": side})


def dpt_padded(tiny: bool, **config: Any) -> tuple[Any, Any]:
    """DPT on a DINOv2 tower, whose processor pads instead of resizing."""
    import torch
    from transformers import DPTConfig, DPTForDepthEstimation, DPTImageProcessor

    outputs = {
        "out_indices": [1, 2, 3, 4],
        "reshape_hidden_states": False,
        "apply_layernorm": False,
    }
    small = {"neck_hidden_sizes": [4, 4, 8, 8], "fusion_hidden_size": 8, "initializer_range": 0.3}
    tower = _dinov2(patch_size=8, **outputs)
    model = DPTForDepthEstimation(DPTConfig(backbone_config=tower, **{**small, **config}))
    torch.nn.init.constant_(model.head.head[4].bias, 0.5)
    return model, DPTImageProcessor(do_resize=False, do_pad=True, size_divisor=8)


def glpn(tiny: bool, **config: Any) -> tuple[Any, Any]:
    from transformers import GLPNConfig, GLPNForDepthEstimation, GLPNImageProcessor

    small: dict[str, Any] = {}
    if tiny:
        small = {
            "depths": [1, 1, 1, 1],
            "hidden_sizes": [4, 4, 8, 8],
            "num_attention_heads": [1, 1, 2, 2],
            "decoder_hidden_size": 8,
        }
    return GLPNForDepthEstimation(GLPNConfig(**{**small, **config})), GLPNImageProcessor()


def zoedepth(tiny: bool, **config: Any) -> tuple[Any, Any]:
    from transformers import (
        BeitConfig,
        ZoeDepthConfig,
        ZoeDepthForDepthEstimation,
        ZoeDepthImageProcessor,
    )

    small: dict[str, Any] = {}
    sizes = {"height": 384, "width": 512}
    if tiny:
        sizes = {"height": 64, "width": 64}
        tower = BeitConfig(
            hidden_size=16,
            num_hidden_layers=4,
            num_attention_heads=2,
            intermediate_size=32,
            image_size=64,
            patch_size=8,
            use_relative_position_bias=True,
            reshape_hidden_states=False,
            out_indices=[1, 2, 3, 4],
        )
        small = {
            "backbone_config": tower,
            "neck_hidden_sizes": [4, 4, 8, 8],
            "fusion_hidden_size": 8,
            "bottleneck_features": 8,
            "num_relative_features": 4,
            "bin_embedding_dim": 8,
        }
    model = ZoeDepthForDepthEstimation(ZoeDepthConfig(**{**small, **config}))
    return model, ZoeDepthImageProcessor(size=sizes, ensure_multiple_of=32)


def depth_pro(tiny: bool, **config: Any) -> tuple[Any, Any]:
    from transformers import DepthProConfig, DepthProForDepthEstimation, DepthProImageProcessor

    small: dict[str, Any] = {}
    side = 1536
    if tiny:
        side = 64
        tower = {"model_type": "dinov2", **_dinov2(patch_size=4).to_diff_dict(), "image_size": 16}
        small = {
            "fusion_hidden_size": 16,
            "patch_size": 16,
            "intermediate_hook_ids": [2, 1],
            "intermediate_feature_dims": [8, 8],
            "scaled_images_ratios": [0.25, 0.5, 1.0],
            "scaled_images_overlap_ratios": [0.0, 0.5, 0.25],
            "scaled_images_feature_dims": [16, 16, 8],
            "image_model_config": tower,
            "patch_model_config": tower,
            "fov_model_config": tower,
            "use_fov_model": True,
        }
    model = DepthProForDepthEstimation(DepthProConfig(**{**small, **config}))
    return model, DepthProImageProcessor(size={"height": side, "width": side})


def sam2(tiny: bool, **config: Any) -> tuple[Any, Any]:
    from transformers import Sam2Config, Sam2ImageProcessor, Sam2Model, Sam2Processor

    small: dict[str, Any] = {}
    side = 1024
    if tiny:
        side = 64
        small = {
            "vision_config": {
                "model_type": "sam2_vision_model",
                "backbone_config": {
                    "model_type": "sam2_hiera_det_model",
                    "hidden_size": 8,
                    "image_size": [64, 64],
                    "blocks_per_stage": [1, 1, 2, 1],
                    "embed_dim_per_stage": [8, 16, 32, 64],
                    "num_attention_heads_per_stage": [1, 1, 2, 2],
                    "window_size_per_stage": [4, 4, 4, 4],
                    "global_attention_blocks": [3],
                },
                "backbone_channel_list": [64, 32, 16, 8],
                "backbone_feature_sizes": [[16, 16], [8, 8], [4, 4]],
                "fpn_hidden_size": 32,
            },
            "prompt_encoder_config": {"hidden_size": 32, "image_size": 64},
            "mask_decoder_config": {
                "hidden_size": 32,
                "mlp_dim": 32,
                "num_attention_heads": 2,
                "iou_head_hidden_dim": 32,
            },
        }
    made = Sam2Config(**{**small, **config})
    images = Sam2ImageProcessor(size={"height": side, "width": side})
    return Sam2Model(made), Sam2Processor(images)


def sam3(tiny: bool, **config: Any) -> tuple[Any, Any]:
    from transformers import Sam3Config, Sam3ImageProcessor, Sam3Model, Sam3Processor

    tokenizer = clip_tokenizer(32)
    small: dict[str, Any] = {}
    side = 1008
    if tiny:
        side = 56
        layers = {"hidden_size": 32, "num_attention_heads": 2}
        small = {
            "vision_config": {
                "model_type": "sam3_vision_model",
                "backbone_config": {
                    "model_type": "sam3_vit_model",
                    "hidden_size": 32,
                    "intermediate_size": 32,
                    "num_hidden_layers": 2,
                    "num_attention_heads": 2,
                    "image_size": side,
                    "window_size": 2,
                    "global_attn_indexes": [1],
                    "pretrain_image_size": 28,
                },
                "fpn_hidden_size": 32,
                "backbone_feature_sizes": [[16, 16], [8, 8], [4, 4]],
            },
            "text_config": {
                "model_type": "clip_text_model",
                "vocab_size": len(tokenizer),
                "hidden_size": 32,
                "intermediate_size": 32,
                "projection_dim": 16,
                "num_hidden_layers": 1,
                "num_attention_heads": 2,
                "max_position_embeddings": 32,
                "bos_token_id": 1,
                "eos_token_id": 2,
            },
            "geometry_encoder_config": {**layers, "num_layers": 1, "intermediate_size": 32},
            "detr_encoder_config": {**layers, "num_layers": 1, "intermediate_size": 32},
            "detr_decoder_config": {
                **layers,
                "num_layers": 1,
                "intermediate_size": 32,
                "num_queries": 8,
            },
            "mask_decoder_config": layers,
        }
    images = Sam3ImageProcessor(size={"height": side, "width": side})
    return Sam3Model(Sam3Config(**{**small, **config})), Sam3Processor(images, tokenizer)


ACTIONS = ("opening a door", "closing a door", "jumping")
"""Labels of the video classifiers."""


def videomae(tiny: bool, **config: Any) -> tuple[Any, Any]:
    from transformers import VideoMAEConfig, VideoMAEForVideoClassification, VideoMAEImageProcessor

    small: dict[str, Any] = {"id2label": dict(enumerate(ACTIONS))}
    if tiny:
        small |= {
            "image_size": 32,
            "patch_size": 16,
            "num_frames": 4,
            "hidden_size": 16,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "intermediate_size": 32,
        }
    model = VideoMAEForVideoClassification(VideoMAEConfig(**{**small, **config}))
    side = model.config.image_size
    crop = {"height": side, "width": side}
    return model, VideoMAEImageProcessor(size={"shortest_edge": side}, crop_size=crop)


def vjepa2(tiny: bool, **config: Any) -> tuple[Any, Any]:
    from transformers import VJEPA2Config, VJEPA2ForVideoClassification, VJEPA2VideoProcessor

    small: dict[str, Any] = {"id2label": dict(enumerate(ACTIONS))}
    if tiny:
        small |= {
            "crop_size": 32,
            "patch_size": 16,
            "frames_per_clip": 4,
            "hidden_size": 24,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "num_pooler_layers": 1,
            "pred_hidden_size": 24,
            "pred_num_attention_heads": 2,
            "pred_num_hidden_layers": 1,
            "pred_num_mask_tokens": 1,
        }
    model = VJEPA2ForVideoClassification(VJEPA2Config(**{**small, **config}))
    return model, VJEPA2VideoProcessor(crop_size=model.config.crop_size)


BUILDERS: dict[str, Callable[..., tuple[Any, Any]]] = {
    make.__name__: make
    for make in (
        *(grounding_dino, mm_grounding_dino, omdet_turbo, owlvit, owlv2),
        *(depth_anything, dpt, dpt_padded, glpn, zoedepth, depth_pro),
        *(sam2, sam3, videomae, vjepa2),
    )
}
"""Family to a function ``(tiny, **config)`` that returns its network and processor."""

"""Recounts the sizes in `viper/models/checkpoints.toml` without downloading anything.

Each checkpoint's network is built on torch's `meta` device, which allocates no memory, from its
published hyper-parameters or from the configurations that come with transformers and open_clip.
Printed are the parameters, the KiB of keys and values per token, and what the catalogue says
instead. Run from the root of the repository:

    python -m benchmarks.checkpoint_sizes
    python -m benchmarks.checkpoint_sizes --only Qwen

The exit code is 1 if a figure differs by more than 0.5 %.
"""

from __future__ import annotations

import argparse
import json
import sys
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

import viper

CATALOGUE = Path(viper.__file__).parent / "models" / "checkpoints.toml"
TOLERANCE = 0.005


def qwen3_vl(text: Mapping[str, Any], vision: Mapping[str, Any], tied: bool) -> Any:
    from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration

    common = {"vocab_size": 151936, "num_key_value_heads": 8, "head_dim": 128}
    config = Qwen3VLConfig(
        text_config={**common, **text, "tie_word_embeddings": tied},
        vision_config={**vision, "out_hidden_size": text["hidden_size"]},
        tie_word_embeddings=tied,
    )
    return Qwen3VLForConditionalGeneration(config)


SMALL_TOWER = {
    "depth": 24,
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_heads": 16,
    "deepstack_visual_indexes": [5, 11, 17],
}
LARGE_TOWER = {
    "depth": 27,
    "hidden_size": 1152,
    "intermediate_size": 4304,
    "num_heads": 16,
    "deepstack_visual_indexes": [8, 16, 24],
}


def qwen3_vl_sized(hidden: int, middle: int, layers: int, heads: int, tied: bool) -> Any:
    text = {
        "hidden_size": hidden,
        "intermediate_size": middle,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
    }
    return qwen3_vl(text, SMALL_TOWER if tied else LARGE_TOWER, tied)


def qwen3_vl_moe() -> Any:
    from transformers import Qwen3VLMoeConfig, Qwen3VLMoeForConditionalGeneration

    config = Qwen3VLMoeConfig(
        text_config={
            "vocab_size": 151936,
            "hidden_size": 2048,
            "intermediate_size": 6144,
            "moe_intermediate_size": 768,
            "num_experts": 128,
            "num_experts_per_tok": 8,
            "num_hidden_layers": 48,
            "num_attention_heads": 32,
            "num_key_value_heads": 4,
            "head_dim": 128,
        },
        vision_config={**LARGE_TOWER, "out_hidden_size": 2048},
    )
    return Qwen3VLMoeForConditionalGeneration(config)


def qwen2(hidden: int, middle: int, layers: int, heads: int, kv_heads: int, vocab: int) -> Any:
    from transformers import Qwen2Config, Qwen2ForCausalLM

    return Qwen2ForCausalLM(
        Qwen2Config(
            vocab_size=vocab,
            hidden_size=hidden,
            intermediate_size=middle,
            num_hidden_layers=layers,
            num_attention_heads=heads,
            num_key_value_heads=kv_heads,
        )
    )


def qwen2_5_vl(hidden: int, middle: int, layers: int, heads: int, kv: int, tied: bool) -> Any:
    from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration

    config = Qwen2_5_VLConfig(
        text_config={
            "vocab_size": 151936 if tied else 152064,
            "hidden_size": hidden,
            "intermediate_size": middle,
            "num_hidden_layers": layers,
            "num_attention_heads": heads,
            "num_key_value_heads": kv,
            "tie_word_embeddings": tied,
        },
        vision_config={
            "depth": 32,
            "hidden_size": 1280,
            "intermediate_size": 3420,
            "num_heads": 16,
            "out_hidden_size": hidden,
        },
        tie_word_embeddings=tied,
    )
    return Qwen2_5_VLForConditionalGeneration(config)


def owlv2(large: bool) -> Any:
    from transformers import Owlv2Config, Owlv2ForObjectDetection

    if not large:
        return Owlv2ForObjectDetection(Owlv2Config(vision_config={"image_size": 960}))
    config = Owlv2Config(
        text_config={
            "hidden_size": 768,
            "intermediate_size": 3072,
            "num_attention_heads": 12,
            "num_hidden_layers": 12,
        },
        vision_config={
            "hidden_size": 1024,
            "intermediate_size": 4096,
            "num_attention_heads": 16,
            "num_hidden_layers": 24,
            "image_size": 1008,
            "patch_size": 14,
        },
        projection_dim=768,
    )
    return Owlv2ForObjectDetection(config)


SWIN = {
    "tiny": {},
    "base": {
        "embed_dim": 128,
        "depths": [2, 2, 18, 2],
        "num_heads": [4, 8, 16, 32],
        "window_size": 12,
        "image_size": 384,
    },
    "large": {
        "embed_dim": 192,
        "depths": [2, 2, 18, 2],
        "num_heads": [6, 12, 24, 48],
        "window_size": 12,
        "image_size": 384,
    },
}


def grounding_dino(size: str, original: bool = False) -> Any:
    from transformers import (
        GroundingDinoConfig,
        GroundingDinoForObjectDetection,
        MMGroundingDinoConfig,
        MMGroundingDinoForObjectDetection,
        SwinConfig,
    )

    # The large one has five levels of features, from all four stages of its backbone.
    levels = [1, 2, 3, 4] if size == "large" else [2, 3, 4]
    backbone = SwinConfig(**SWIN[size], out_indices=levels)
    more = {"num_feature_levels": 5} if size == "large" else {}
    if original:
        return GroundingDinoForObjectDetection(GroundingDinoConfig(backbone_config=backbone))
    return MMGroundingDinoForObjectDetection(
        MMGroundingDinoConfig(backbone_config=backbone, **more)
    )


def depth_anything_small() -> Any:
    from transformers import DepthAnythingConfig, DepthAnythingForDepthEstimation, Dinov2Config

    backbone = Dinov2Config(
        image_size=518,
        patch_size=14,
        hidden_size=384,
        num_attention_heads=6,
        num_hidden_layers=12,
        out_indices=[3, 6, 9, 12],
        reshape_hidden_states=False,
    )
    config = DepthAnythingConfig(
        backbone_config=backbone,
        reassemble_hidden_size=384,
        neck_hidden_sizes=[48, 96, 192, 384],
        fusion_hidden_size=64,
    )
    return DepthAnythingForDepthEstimation(config)


def dpt_hybrid() -> Any:
    from transformers import BitConfig, DPTConfig, DPTForDepthEstimation

    backbone = BitConfig(
        global_padding="same",
        layer_type="bottleneck",
        depths=[3, 4, 9],
        out_features=["stage1", "stage2", "stage3"],
        embedding_dynamic_padding=True,
    )
    return DPTForDepthEstimation(
        DPTConfig(
            is_hybrid=True,
            backbone_config=backbone,
            backbone_featmap_shape=[1, 1024, 24, 24],
            neck_ignore_stages=[0, 1],
            readout_type="project",
            reassemble_factors=[1, 1, 1, 0.5],
        )
    )


HIERA = {
    "tiny": {},
    "small": {"blocks_per_stage": [1, 2, 11, 2], "global_attention_blocks": [7, 10, 13]},
    "large": {
        "hidden_size": 144,
        "num_attention_heads": 2,
        "blocks_per_stage": [2, 6, 36, 4],
        "embed_dim_per_stage": [144, 288, 576, 1152],
        "num_attention_heads_per_stage": [2, 4, 8, 16],
        "window_size_per_stage": [8, 4, 16, 8],
        "global_attention_blocks": [23, 33, 43],
    },
}


def sam2(size: str) -> Any:
    from transformers import Sam2Config, Sam2HieraDetConfig, Sam2Model, Sam2VisionConfig

    backbone = Sam2HieraDetConfig(**HIERA[size])
    channels = [1152, 576, 288, 144] if size == "large" else [768, 384, 192, 96]
    vision = Sam2VisionConfig(backbone_config=backbone, backbone_channel_list=channels)
    return Sam2Model(Sam2Config(vision_config=vision))


def open_clip_model(name: str) -> Any:
    import open_clip

    return open_clip.create_model(name, device="meta", pretrained=None)


def blip_vqa() -> Any:
    from transformers import BlipConfig, BlipForQuestionAnswering

    return BlipForQuestionAnswering(BlipConfig(vision_config={"image_size": 384}))


def blip2() -> Any:
    from transformers import Blip2Config, Blip2ForConditionalGeneration, T5Config

    text = T5Config(
        vocab_size=32128,
        d_model=4096,
        d_kv=64,
        d_ff=10240,
        num_layers=24,
        num_heads=64,
        feed_forward_proj="gated-gelu",
        tie_word_embeddings=False,
        is_encoder_decoder=True,
    )
    return Blip2ForConditionalGeneration(Blip2Config(text_config=text.to_dict()))


def llava() -> Any:
    from transformers import (
        CLIPVisionConfig,
        LlamaConfig,
        LlavaConfig,
        LlavaForConditionalGeneration,
    )

    vision = CLIPVisionConfig(
        hidden_size=1024,
        intermediate_size=4096,
        num_hidden_layers=24,
        num_attention_heads=16,
        image_size=336,
        patch_size=14,
        projection_dim=768,
    )
    return LlavaForConditionalGeneration(
        LlavaConfig(vision_config=vision, text_config=LlamaConfig(vocab_size=32064))
    )


def maskformer() -> Any:
    from transformers import MaskFormerConfig, MaskFormerForInstanceSegmentation, SwinConfig

    backbone = SwinConfig(**SWIN["base"], out_features=["stage1", "stage2", "stage3", "stage4"])
    return MaskFormerForInstanceSegmentation(
        MaskFormerConfig(backbone_config=backbone, num_labels=133)
    )


def sd2_inpainting() -> Any:
    from diffusers import AutoencoderKL, UNet2DConditionModel
    from transformers import CLIPTextConfig, CLIPTextModel

    unet = UNet2DConditionModel(
        sample_size=64,
        in_channels=9,
        attention_head_dim=[5, 10, 20, 20],
        cross_attention_dim=1024,
        use_linear_projection=True,
    )
    vae = AutoencoderKL(
        down_block_types=("DownEncoderBlock2D",) * 4,
        up_block_types=("UpDecoderBlock2D",) * 4,
        block_out_channels=(128, 256, 512, 512),
        layers_per_block=2,
        latent_channels=4,
    )
    text = CLIPTextModel(
        CLIPTextConfig(
            hidden_size=1024,
            intermediate_size=4096,
            num_hidden_layers=23,
            num_attention_heads=16,
            projection_dim=512,
        )
    )
    return torch.nn.ModuleList([unet, vae, text])


def bert_small(layers: int, middle: int = 1536) -> Any:
    from transformers import BertConfig, BertModel

    return BertModel(
        BertConfig(
            hidden_size=384,
            num_hidden_layers=layers,
            num_attention_heads=12,
            intermediate_size=middle,
        )
    )


NETWORKS: Mapping[str, Callable[[], Any]] = {
    "Qwen/Qwen3-VL-2B-Instruct": lambda: qwen3_vl_sized(2048, 6144, 28, 16, True),
    "Qwen/Qwen3-VL-4B-Instruct": lambda: qwen3_vl_sized(2560, 9728, 36, 32, True),
    "Qwen/Qwen3-VL-8B-Instruct": lambda: qwen3_vl_sized(4096, 12288, 36, 32, False),
    "Qwen/Qwen3-VL-30B-A3B-Instruct": qwen3_vl_moe,
    "Qwen/Qwen2.5-Coder-7B-Instruct": lambda: qwen2(3584, 18944, 28, 28, 4, 152064),
    "Qwen/Qwen2.5-14B-Instruct": lambda: qwen2(5120, 13824, 48, 40, 8, 152064),
    "Qwen/Qwen2.5-VL-3B-Instruct": lambda: qwen2_5_vl(2048, 11008, 36, 16, 2, True),
    "Qwen/Qwen2.5-VL-7B-Instruct": lambda: qwen2_5_vl(3584, 18944, 28, 28, 4, False),
    "google/owlv2-base-patch16-ensemble": lambda: owlv2(large=False),
    "google/owlv2-large-patch14-ensemble": lambda: owlv2(large=True),
    "iSEE-Laboratory/llmdet_base": lambda: grounding_dino("base"),
    "IDEA-Research/grounding-dino-base": lambda: grounding_dino("base", original=True),
    "depth-anything/Depth-Anything-V2-Small-hf": depth_anything_small,
    "Intel/dpt-hybrid-midas": dpt_hybrid,
    "facebook/sam2.1-hiera-tiny": lambda: sam2("tiny"),
    "facebook/sam2.1-hiera-large": lambda: sam2("large"),
    "hf-hub:timm/ViT-B-16-SigLIP2": lambda: open_clip_model("ViT-B-16-SigLIP2"),
    "hf-hub:timm/ViT-SO400M-14-SigLIP2-378": lambda: open_clip_model("ViT-SO400M-14-SigLIP2-378"),
    "hf-hub:timm/ViT-SO400M-14-SigLIP-384": lambda: open_clip_model("ViT-SO400M-14-SigLIP-384"),
    "hf-hub:timm/vit_large_patch14_clip_224.openai": lambda: open_clip_model("ViT-L-14-quickgelu"),
    "Salesforce/blip-vqa-base": blip_vqa,
    "Salesforce/blip2-flan-t5-xxl": blip2,
    "llava-hf/llava-1.5-7b-hf": llava,
    "facebook/maskformer-swin-base-coco": maskformer,
    "sd2-community/stable-diffusion-2-inpainting": sd2_inpainting,
    "sentence-transformers/all-MiniLM-L6-v2": lambda: bert_small(6),
}
"""The networks of the catalogue's checkpoints by their names, with published hyper-parameters."""


def recounted(name: str) -> dict[str, float]:
    """Return ``parameters``, and ``kv_kib_per_token`` of a language model with keys and values."""
    with torch.device("meta"):
        model = NETWORKS[name]()
    sizes = {"parameters": float(sum(weights.numel() for weights in model.parameters()))}
    config = getattr(model, "config", None)
    text = config.get_text_config(decoder=True) if hasattr(config, "get_text_config") else None
    heads = getattr(text, "num_key_value_heads", None)
    if heads and hasattr(text, "num_hidden_layers"):
        width = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
        sizes["kv_kib_per_token"] = 2 * text.num_hidden_layers * heads * width * 2 / 1024
    return sizes


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="names that contain this text")
    parser.add_argument("--json", action="store_true", help="print the recounted figures as JSON")
    options = parser.parse_args()
    stated = tomllib.loads(CATALOGUE.read_text("utf-8")) if CATALOGUE.exists() else {}
    figures = {name: recounted(name) for name in NETWORKS if options.only in name}
    if options.json:
        print(json.dumps(figures, indent=1))
        return 0
    wrong = 0
    for name, sizes in figures.items():
        for key, value in sizes.items():
            said = stated.get(name, {}).get(key)
            off = said is None or abs(said - value) > TOLERANCE * value
            wrong += off
            print(f"{name:46} {key:17} {value:16,.0f}  {f'catalogue: {said}' if off else 'same'}")
    for name in sorted(stated.keys() - NETWORKS.keys()):
        print(f"{name:46} not recounted")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())

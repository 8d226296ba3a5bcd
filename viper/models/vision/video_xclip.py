"""Events in a clip by X-CLIP, which compares short pieces of video with texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from viper.errors import ToolError
from viper.models.libraries import functional, torch
from viper.models.loading import PictureTextCheckpoint, in_batches
from viper.models.options import checked_texts
from viper.models.vision.boxes import require_finite
from viper.models.vision.image_processing import preprocess
from viper.models.vision.roles import Floats, Pixels
from viper.models.vision.video_windows import WindowedClip, WindowVideo, overlapping, spread

# Texts that an event must be likelier than. Similarities mean something only beside others, and
# these fit a clip in which the event does not happen.
NEUTRAL = ("a video in which nothing happens", "a still scene", "something else")


@dataclass(frozen=True)
class WindowFeatures(WindowedClip):
    """Features of W windows.

    Attributes:
        videos: float [W, D], the feature of each whole window.
        patches: float [W, P, D], its picture features over time, which adapt the texts.
    """

    videos: Any
    patches: Any


class XClipVideo(WindowVideo, PictureTextCheckpoint):
    """A :class:`~viper.models.vision.roles.VideoModel` on ``XCLIPModel``.

    The clip is cut into windows of as many frames as the model reads at once, each half over the
    previous one. A shorter clip is one window whose frames repeat. The video tower runs once per
    window, and texts are compared with its output.

    X-CLIP compares and cannot write, so a description is chosen from a list.

    Args:
        model: an ``XCLIPModel``.
        neutral: texts that an event is compared against, at least one.
        descriptions: sentences that :meth:`describe` chooses from.
        batch_size: maximum number of windows in one forward pass.

    Raises:
        ProfileError: neutral or descriptions is not a list of texts.

    Source: Ni et al. 2022, "Expanding Language-Image Pretrained Models for General Video
    Recognition".
    """

    network = "transformers:XCLIPModel"

    def __init__(
        self,
        *parts: Any,
        neutral: Sequence[str] = NEUTRAL,
        descriptions: Sequence[str] = (),
        batch_size: int = 4,
    ) -> None:
        super().__init__(*parts, batch_size=batch_size)
        self._neutral = checked_texts("neutral", neutral, at_least=1)
        self._descriptions = checked_texts("descriptions", descriptions)

    def encode(self, frames: Pixels) -> WindowFeatures:
        """Return the features of every window of a clip ``uint8 [T, H, W, 3]``."""
        model, count = self._model, self._model.config.vision_config.num_frames
        windows = overlapping(len(frames), count)

        def forward(batch: Sequence[tuple[int, int]]) -> list[tuple[Any, Any]]:
            window_frames = [frames[i] for window in batch for i in spread(*window, count)]
            pixels = preprocess(self._processor, window_frames)["pixel_values"]
            # Some processors take a list as one clip and add an axis for it.
            pixels = pixels.reshape(-1, *pixels.shape[-3:])
            output = model.vision_model(**self._fitted({"pixel_values": pixels}))
            tokens = model.visual_projection(output.pooler_output)
            videos = model.mit(tokens.view(len(batch), -1, tokens.shape[-1])).pooler_output
            patches = model.prompts_visual_layernorm(output.last_hidden_state[:, 1:])
            patches = patches @ model.prompts_visual_projection
            patches = patches.view(len(batch), -1, *patches.shape[1:]).mean(dim=1)
            return list(zip(videos, patches, strict=True))  # [W, D] and [W, P, D]

        with torch.inference_mode():
            pairs = in_batches(windows, self._batch_size, forward)
            if not pairs:
                return WindowFeatures(len(frames), (), None, None)
            videos, patches = (torch.stack(part) for part in zip(*pairs, strict=True))
        return WindowFeatures(len(frames), tuple(windows), videos, patches)

    def _event_scores(self, encoding: WindowFeatures, event: str) -> Floats:
        """Return the event's share of a softmax over its similarity and those of the neutral
        texts.
        """
        return self._chances(encoding, [event, *self._neutral])[:, 0]

    def _texts(self, encoding: WindowFeatures, rows: Sequence[int]) -> list[str]:
        """Return each window's likeliest description unless a neutral text is likelier."""
        if not self._descriptions:
            raise ToolError(
                f"{self.model_id} locates events and cannot write: list sentences in the option "
                'descriptions, or give the video role to a backend that captions ("frames", '
                '"chat_vlm")'
            )
        chances = self._chances(encoding, [*self._descriptions, *self._neutral])
        best = [int(chances[row].argmax()) for row in rows]
        return [self._descriptions[i] for i in best if i < len(self._descriptions)]

    def _chances(self, encoding: WindowFeatures, texts: Sequence[str]) -> Floats:
        """Return for each window a softmax over its similarities to the texts, float32 [W, M]."""
        model = self._model
        inputs = self._text_inputs(self._tokenizer, texts)
        with torch.inference_mode():
            embedded = model.text_projection(model.text_model(**inputs).pooler_output)
            embedded = embedded[None].expand(len(encoding.windows), -1, -1)
            embedded = embedded + model.prompts_generator(embedded, encoding.patches)
            videos = functional.normalize(encoding.videos, dim=-1)
            similar = torch.einsum("wd,wmd->wm", videos, functional.normalize(embedded, dim=-1))
            chances = (model.logit_scale.exp() * similar).float().softmax(dim=-1).cpu().numpy()
        require_finite(self.model_id, "scores", chances)
        return chances

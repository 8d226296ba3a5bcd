"""A small network that finds described events in a clip.

A convolution tower reads every frame together with its change since the previous frame.
``CLIPTextModel`` reads the description. Two object queries (the actor and the object acted on) are
sums of the text's plain word embeddings, so "red cone" works even if that pair was never trained.
Each query attends to the cells of every frame or to nothing. The attended features and places go
through a transformer encoder over time with one set of heads per frame. A timm tower names the
attended objects from crops, because shapes are too fine for the cells of the first tower.

Letters in shapes: B clips, M texts per clip, T frames, S cells, L tokens, 2 roles.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import timm
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import CLIPTextConfig, CLIPTextModel, PreTrainedConfig, PreTrainedModel

# The actor and the object acted on.
ROLES = 2

# A cell of the feature map covers CELL x CELL pixels: the tower halves a frame three times.
CELL = 8

# Side in pixels of the crops that name objects, and after enlarging a crop. A crop holds an object
# of the world's clips and some of its surroundings; the timm tower halves its input several times.
# The weights depend on both.
CROP = 40
CROP_INPUT = 64

# Most objects that are named: clips have 2 to 4, and a question may name more that must be tried.
MAX_OBJECTS = 6

# Least number of frames in which an object must be seen, so that one wrong frame makes none.
SEEN_FRAMES = 2

# Number of frames with a crop of an object. Their mean outvotes those in which it is hidden.
CROPS = 8

# Most places whose crops are classified: several texts may point at parts of one object, and each
# place costs CROPS runs of the crops' tower.
MAX_PLACES = 14

# Texts that point at places fewer pixels apart than this mean the same object: before the crops are
# classified (less than a cell), and after both have the same colour (two cells).
SAME_PLACE, SAME_OBJECT = 6.0, 16.0

# Least log-probability of a name, colour and shape together, for the object at a place: 8 %,
# because a wrong name of one part costs less than a missing object.
MIN_FIT = -2.5

# About the mean and deviation of the grey levels of the world's frames; the weights depend on it.
GREY, SPREAD = 115, 60


class VideoEventsConfig(PreTrainedConfig):
    """Sizes of the network and the words of its description bank.

    ``colours`` and ``shapes`` are the words of object names. ``templates`` are the sentences by
    kind of event (``{a}`` acts, ``{b}`` is acted upon), from which a backend composes descriptions.
    ``crop_tower`` names a timm architecture. ``presence_threshold`` is the calibrated score above
    which an event counts as present. If two detected events of one kind are closer than
    ``rival_frames``, only the likelier one counts.
    """

    model_type = "viper_video_events"
    sub_configs: ClassVar[dict[str, type]] = {"text_config": CLIPTextConfig}

    def __init__(
        self,
        text_config: CLIPTextConfig | dict[str, Any] | None = None,
        image_width: int = 160,
        image_height: int = 120,
        stem_width: int = 24,
        tower_width: int = 48,
        tower_blocks: int = 2,
        query_width: int = 64,
        crop_tower: str = "test_resnet",
        time_width: int = 128,
        time_layers: int = 2,
        time_heads: int = 4,
        colours: list[str] | None = None,
        shapes: list[str] | None = None,
        templates: dict[str, str] | None = None,
        presence_threshold: float = 0.5,
        rival_frames: float = 0.0,
        **kwargs: Any,
    ) -> None:
        if not isinstance(text_config, CLIPTextConfig):
            text_config = CLIPTextConfig(**(text_config or {}))
        self.text_config = text_config
        self.image_width, self.image_height = image_width, image_height
        self.stem_width, self.tower_width, self.tower_blocks = stem_width, tower_width, tower_blocks
        self.query_width, self.crop_tower = query_width, crop_tower
        self.time_width, self.time_layers, self.time_heads = time_width, time_layers, time_heads
        self.colours, self.shapes = list(colours or ()), list(shapes or ())
        self.templates = dict(templates or {})
        self.presence_threshold, self.rival_frames = presence_threshold, rival_frames
        super().__init__(**kwargs)


class TextFeatures(NamedTuple):
    """Features of N texts: ``queries`` [N, 2, D] object queries, ``summary`` [N, E] of the whole
    text.

    ``nouns`` [N, 2, E] is the source of the queries (for the noun loss).
    """

    queries: Tensor
    summary: Tensor
    nouns: Tensor


class ClipFeatures(NamedTuple):
    """Features of B clips: ``keys`` [B, T, S, D] for queries, ``values`` [B, T, S, V] to fetch."""

    keys: Tensor
    values: Tensor


@dataclass(frozen=True)
class EventOutput:
    """Output of the network for M texts on B clips.

    Attributes:
        presence: [B, M] logit that the event happens in the clip at all.
        inside: [B, M, T] logit that a frame is within it.
        start: [B, M, T] logits of its first frame.
        end: [B, M, T] logits of its last frame (inclusive).
        attention: [B, M, 2, T, S + 1] log-probabilities; the last entry is "not in view".
    """

    presence: Tensor
    inside: Tensor
    start: Tensor
    end: Tensor
    attention: Tensor


class _Block(nn.Module):
    """A depthwise and two pointwise convolutions around a residual connection.

    A quarter of the input channels comes from the previous frame and a quarter from the next one,
    which passes motion on at no cost (the temporal shift of Lin et al. 2019, TSM).
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.shifted, hidden = width // 4, width + width // 2
        self.depthwise = nn.Conv2d(width, width, 3, padding=1, groups=width, bias=False)
        self.norm = nn.BatchNorm2d(width)
        self.widen, self.narrow = nn.Conv2d(width, hidden, 1), nn.Conv2d(hidden, width, 1)

    def forward(self, x: Tensor, frames: int) -> Tensor:
        moved = _images(self._shift(_channels_last(x, frames)))
        return x + self.narrow(F.relu(self.widen(self.norm(self.depthwise(moved)))))

    def _shift(self, x: Tensor) -> Tensor:  # [B, T, h, w, C]
        past, future, same = x.split([self.shifted, self.shifted, x.shape[4] - 2 * self.shifted], 4)
        past = torch.cat([past[:, :1], past[:, :-1]], 1)
        future = torch.cat([future[:, 1:], future[:, -1:]], 1)
        return torch.cat([past, future, same], 4)


def _channels_last(x: Tensor, frames: int) -> Tensor:
    """Return [B * T, C, h, w] as [B, T, h, w, C]; a view if the memory is channels-last already."""
    return x.permute(0, 2, 3, 1).unflatten(0, (-1, frames))


def _images(x: Tensor) -> Tensor:
    """Invert :func:`_channels_last`; keeps the memory layout that convolves fastest."""
    return x.flatten(0, 1).permute(0, 3, 1, 2)


class _Tower(nn.Module):
    """Frames uint8 [B, T, H, W, 3] -> features [B, T, S, C]."""

    def __init__(self, config: VideoEventsConfig) -> None:
        super().__init__()
        stem, width = config.stem_width, config.tower_width
        self.moving = stem // 3
        self.first = nn.Conv2d(12, stem, 3, stride=2, padding=1, bias=False)
        self.first_norm = nn.BatchNorm2d(stem)
        self.second = nn.Conv2d(stem, width, 3, stride=2, padding=1, bias=False)
        self.second_norm = nn.BatchNorm2d(width)
        self.blocks = nn.ModuleList(_Block(width) for _ in range(config.tower_blocks))
        self.last_norm = nn.BatchNorm2d(width)

    def forward(self, frames: Tensor) -> Tensor:
        batch, count, height, width, _ = frames.shape
        squares = frames.view(batch * count, height // 2, 2, width // 2, 2, 3)
        x = squares.permute(0, 1, 3, 2, 4, 5).flatten(3).to(self.first.weight.dtype)
        x = self.first(x.sub_(GREY).mul_(1 / SPREAD).permute(0, 3, 1, 2))
        x = _channels_last(x, count)
        # Some channels are replaced by their change since the previous frame: the layer is linear.
        still, moving = x.split([x.shape[4] - self.moving, self.moving], 4)
        x = torch.cat([still, torch.diff(moving, dim=1, prepend=moving[:, :1])], 4)
        x = self.first_norm(_images(x))
        x = self.second_norm(self.second(F.relu(x)))
        for block in self.blocks:
            x = block(x, count)
        return _channels_last(self.last_norm(x), count).flatten(2, 3)


class VideoEventsModel(PreTrainedModel):
    """Described events in clips; see the module's docstring."""

    config_class = VideoEventsConfig
    base_model_prefix = "video_events"
    main_input_name = "frames"

    def __init__(self, config: VideoEventsConfig) -> None:
        super().__init__(config)
        text, width = config.text_config.hidden_size, config.tower_width
        self.text_model = CLIPTextModel(config.text_config)
        self.role_queries = nn.Linear(text, ROLES * text)
        self.to_query = nn.Linear(text, config.query_width)
        self.query_absent = nn.Linear(text, ROLES)
        self.noun_colour = nn.Linear(text, len(config.colours) + 1)
        self.noun_shape = nn.Linear(text, len(config.shapes) + 1)

        self.tower = _Tower(config)
        self.to_key = nn.Linear(width, config.query_width)
        self.to_value = nn.Linear(width, width)
        self.seen_colour = nn.Linear(width, len(config.colours))
        self.seen_shape = nn.Linear(width, len(config.shapes))

        time = config.time_width
        self.gather = nn.Linear(ROLES * (width + 5) + 2 + text, time)
        self.neighbours = nn.Conv1d(time, time, 7, padding=3, groups=time)
        layer = nn.TransformerEncoderLayer(
            time, config.time_heads, 2 * time, 0.0, F.gelu, batch_first=True, norm_first=True
        )
        self.over_time = nn.TransformerEncoder(
            layer, config.time_layers, nn.LayerNorm(time), enable_nested_tensor=False
        )
        self.frame_heads = nn.Linear(time, 3)
        self.presence_head = nn.Sequential(nn.Linear(2 * time, time), nn.GELU(), nn.Linear(time, 1))

        crops: Any = timm.create_model(config.crop_tower, pretrained=False, num_classes=0)
        self.crop_tower = crops
        self.crop_colour = nn.Linear(crops.num_features, len(config.colours) + 1)
        self.crop_shape = nn.Linear(crops.num_features, len(config.shapes) + 1)
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        """Keep torch's own initial weights; the text model initialises its own."""

    def encode_texts(self, input_ids: Tensor, attention_mask: Tensor) -> TextFeatures:
        """Return the features of N texts from ids and mask [N, L]."""
        out = self.text_model(input_ids=input_ids, attention_mask=attention_mask)
        summary = out.pooler_output
        words = self.text_model.embeddings.token_embedding(input_ids)  # [N, L, E]
        roles = self.role_queries(summary).unflatten(-1, (ROLES, -1))
        logits = roles @ out.last_hidden_state.transpose(1, 2) / summary.shape[-1] ** 0.5
        logits = logits.masked_fill(attention_mask[:, None] == 0, -1e4)
        nouns = logits.softmax(-1) @ words * words.shape[-1] ** 0.5
        return TextFeatures(self.to_query(nouns), summary, nouns)

    def encode_clips(self, features: Tensor) -> ClipFeatures:
        """Return keys and values for queries, from features [B, T, S, C] of ``tower``."""
        return ClipFeatures(self.to_key(features), self.to_value(features))

    def attend(self, clips: ClipFeatures, texts: TextFeatures) -> Tensor:
        """Return log-probabilities [B, M, 2, T, S + 1] of the place of each role's object, or of
        its absence.

        The texts' first dimension is B * M.
        """
        batch = clips.keys.shape[0]
        queries = texts.queries.unflatten(0, (batch, -1))  # [B, M, 2, D]
        logits = torch.einsum("bmrd,btsd->bmrts", queries, clips.keys)
        logits = logits / queries.shape[-1] ** 0.5
        absent = self.query_absent(texts.summary).unflatten(0, (batch, -1))  # [B, M, 2]
        # In an untrained network "not in view" has e^4 = 55 times the share of one of 300 cells.
        absent = absent[..., None, None].expand(*logits.shape[:-1], 1) + 4.0
        return torch.cat([logits, absent], -1).log_softmax(-1)

    def looks(self, crops: Tensor) -> tuple[Tensor, Tensor]:
        """Classify the middle of crops uint8 [N, CROP, CROP, 3].

        Returns:
            Log-probabilities of the colours [N, colours + 1] and the shapes
            [N, shapes + 1]; the last entry of both is "nothing".
        """
        pixels = crops.permute(0, 3, 1, 2).to(self.crop_colour.weight.dtype)
        pixels = F.interpolate(pixels.sub(GREY).mul(1 / SPREAD), (CROP_INPUT,) * 2, mode="bilinear")
        features = self.crop_tower(pixels.contiguous(memory_format=torch.channels_last))
        return self.crop_colour(features).log_softmax(-1), self.crop_shape(features).log_softmax(-1)

    def forward(self, clips: ClipFeatures, texts: TextFeatures) -> EventOutput:
        """Return the events of M texts per clip (the texts' first dimension is B * M)."""
        attention = self.attend(clips, texts)
        weights = attention.exp()
        cell_weights = weights[..., :-1]  # [B, M, 2, T, S]
        fetched = torch.einsum("bmrts,btsv->bmrtv", cell_weights, clips.values)
        total = cell_weights.sum(-1, keepdim=True)
        # The centres [S, 2] of the cells, in [-1, 1].
        columns = self.config.image_width // CELL
        rows = cell_weights.shape[-1] // columns
        x = torch.linspace(-1, 1, columns).repeat(rows)
        y = torch.linspace(-1, 1, rows).repeat_interleave(columns)
        grid = torch.stack([x, y], -1).to(cell_weights)
        # .05 keeps the place of an object that is not in view near the middle instead of at random.
        places = (cell_weights @ grid) / (total + 0.05)  # [B, M, 2, T, 2]
        # 12 and 4 bring moves between frames and gaps between objects to the size of the features.
        steps = torch.diff(places, dim=3, prepend=places[:, :, :, :1]) * 12
        gap = (places[:, :, 0] - places[:, :, 1]) * 4
        roles = torch.cat([fetched, places, steps, total], -1).transpose(2, 3).flatten(3)
        summary = texts.summary.unflatten(0, (len(cell_weights), -1))
        summary = summary[:, :, None].expand(-1, -1, cell_weights.shape[3], -1)
        x = self.gather(torch.cat([roles, gap, summary], -1)).flatten(0, 1)  # [B * M, T, E]
        x = x + self.neighbours(F.gelu(x).transpose(1, 2)).transpose(1, 2)
        x = self.over_time(x)
        frames = self.frame_heads(x)
        focus = (frames[..., :1].softmax(1) * x).sum(1)
        presence = self.presence_head(torch.cat([focus, x.amax(1)], -1))[:, 0]
        shape = cell_weights.shape[:2]
        inside, start, end = (frames[..., k].unflatten(0, shape) for k in range(3))
        return EventOutput(presence.unflatten(0, shape), inside, start, end, attention)


def names_in_view(
    model: VideoEventsModel,
    frames: Tensor,
    attention: Tensor,
    names: Sequence[str],
    named: Collection[str],
) -> list[str]:
    """Return the names of the objects in a clip; no two names for the same place.

    Args:
        model: classifies crops.
        frames: uint8 [T, H, W, 3], the clip at the model's own size.
        attention: log-probabilities [M, T, S + 1] of where each name's text attends.
        names: M names, every colour with every shape in the model's order.
        named: names that must be in the clip, so they are chosen first.
    """
    maps = attention[..., :-1].exp()  # [M, T, S]
    # The places (x, y in pixels) of the maps; strong cells count most.
    sharp = maps.square() / maps.square().sum(-1, keepdim=True).clamp(min=1e-12)
    cell, columns = torch.arange(maps.shape[-1], device=maps.device), frames.shape[2] // CELL
    middles = torch.stack([cell % columns, cell // columns], -1).to(maps) + 0.5
    tracks = _Tracks(maps.sum(-1), sharp @ middles * CELL)
    places: list[int] = []  # texts that point at an object, the strongest first, each elsewhere
    for i in tracks.weights.sum(-1).argsort(descending=True).tolist():
        is_seen = int(tracks.sure(i).sum()) >= SEEN_FRAMES
        if is_seen and not any(tracks.together(i, j, SAME_PLACE) for j in places):
            places.append(i)
    places = places[:MAX_PLACES]
    if not places:
        return [name for name in names if name in named]
    fits = _fits(model, frames, tracks, places)
    best, own = fits.max(-1)
    required = [i for i, name in enumerate(names) if name in named]
    claims = [(int(fits[:, i].argmax()), i) for i in required]
    claims += [
        (p, int(own[p])) for p in best.argsort(descending=True).tolist() if best[p] > MIN_FIT
    ]
    chosen: dict[int, int] = {}  # place -> name
    for place, name in claims:
        blocked = place in chosen or name in chosen.values() or len(chosen) == MAX_OBJECTS
        if not blocked and not any(
            names[name].split()[0] == names[other].split()[0]
            and tracks.together(places[place], places[at], SAME_OBJECT)
            for at, other in chosen.items()
        ):
            chosen[place] = name
    in_view = [names[i] for i in chosen.values()]
    return in_view + [names[i] for i in required if names[i] not in in_view]


@dataclass(frozen=True)
class _Tracks:
    """Weights [M, T] and places [M, T, 2] (x, y in pixels) that M texts attend to."""

    weights: Tensor
    centres: Tensor

    def sure(self, text: int) -> Tensor:
        """Return the frames, bool [T], in which a text attends to an object rather than to
        nothing.
        """
        return self.weights[text] > 0.5  # likelier in some cell than not in view

    def together(self, first: int, second: int, distance: float) -> bool:
        """Return True if two texts point at nearly the same place in most of their common
        frames.
        """
        both = self.sure(first) & self.sure(second)
        gaps = (self.centres[first] - self.centres[second])[both].norm(dim=-1)
        return bool(both.any()) and float(gaps.median()) < distance


def _fits(
    model: VideoEventsModel, frames: Tensor, tracks: _Tracks, places: Sequence[int]
) -> Tensor:
    """Return log-probabilities [P, M] of each name for the object at each place.

    They are the mean over the crops with the highest weight, and very low for an empty place.
    """
    count = min(CROPS, len(frames))
    crops = []
    for place in places:
        moments = tracks.weights[place].topk(count).indices
        crops.append(crops_at(frames[moments], tracks.centres[place, moments].tolist()))
    looks = model.looks(torch.cat(crops))
    colours, shapes = (part.unflatten(0, (len(places), count)).mean(1) for part in looks)
    fits = (colours[:, :-1, None] + shapes[:, None, :-1]).flatten(1)
    empty = (colours[:, -1] > colours[:, :-1].amax(-1)) | (shapes[:, -1] > shapes[:, :-1].amax(-1))
    # 100 is more than any log-probability here, so an empty place gets no name.
    return fits - 100 * empty[:, None].to(fits)


def crops_at(frames: Tensor, centres: Sequence[Sequence[float]]) -> Tensor:
    """Return crops uint8 [N, CROP, CROP, 3] around pixels (x, y) of frames uint8 [N, H, W, 3].

    Beyond the borders the outermost pixels are repeated.
    """
    height, width = frames.shape[1:3]
    offsets = torch.arange(CROP, device=frames.device) - CROP // 2
    crops = []
    for image, (x, y) in zip(frames, centres, strict=True):
        rows = (int(y) + offsets).clamp(0, height - 1)
        crops.append(image[rows][:, (int(x) + offsets).clamp(0, width - 1)])
    return torch.stack(crops)

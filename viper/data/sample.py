"""Protocol of data sets: labelled samples, and a check of their files.

A `DataSet` returns the samples of a `DatasetSpec`: query, right answer and groups. Their media are
read later, by `MediaFiles`, where a sample is answered. Sets that draw their samples also are a
`DrawnSet` or an `EndlessSet`. `EditTarget` is the label of an instruction to edit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from viper.schema import PixelBox, Query


@dataclass(frozen=True)
class Sample:
    """One labelled sample.

    Attributes:
        sample_id: unique in its set and split, and the same on every machine.
        text: the question, the statement, or what to find.
        task: ``ground``, ``question``, ``choice``, ``statement``, ``edit``, ``tag`` or ``extract``.
        media: ``image``, ``images`` or ``video``.
        target: the right answer. ``ground``: ``(x0, y0, x1, y1)`` in pixels from the top-left
            corner; ``question``: a text, or all annotators' texts; ``choice``: the index of
            the option, from 0; ``statement``: a truth value; ``tag``: pairs of label and box;
            ``extract``: texts by field; ``edit``: None, or whatever the set's metric compares.
        load: reads the files; returns what :func:`viper.models.media.media_from` takes.
        options: options of a choice, in order.
        fields: what an ``extract`` reads, each as ``name:type``.
        groups: groups in reports, as ``{"semantic": "rel"}``.
        cluster: samples of one cluster are not independent (same sentence or picture). Consistency
            metrics and bootstrap intervals use clusters. Empty: the sample is alone.
        files: names of the media for reports, relative to the set's root if it has one.
        like: boxes of examples that the query marks.
    """

    sample_id: str
    text: str
    task: str
    media: str
    target: Any
    load: Callable[[], Any] = field(repr=False, compare=False)
    options: tuple[str, ...] = ()
    groups: Mapping[str, str] = field(default_factory=dict)
    cluster: str = ""
    files: tuple[str, ...] = ()
    like: tuple[PixelBox, ...] = ()
    fields: tuple[str, ...] = ()

    @property
    def query(self) -> Query:
        """Return the query as the Reasoner takes it."""
        asked = self.sample_id, self.like, self.fields
        return Query(self.text, self.task, self.media, self.options, *asked)


def kind_of(groups: Mapping[str, str]) -> str:
    """Name the type of a query: ``query_type`` if the set has one, else its first group, or ""."""
    return groups.get("query_type") or next(iter(groups.values()), "")


@dataclass(frozen=True)
class MediaFiles:
    """Callable that returns the paths of a sample's media. It can be pickled."""

    root: Path
    names: tuple[str, ...]

    def __call__(self) -> list[Path]:
        return [self.root / name for name in self.names]


@dataclass(frozen=True)
class DatasetSpec:
    """Selection of samples from a data set.

    Attributes:
        root: folder of the set's official files; None for sets that need none.
        split: name of the split; None is the set's first.
        seed: random seed of sets that generate samples (the embedded world).
        limit: number of samples of such sets; None is the set's default. Other sets return all
            samples, and :func:`viper.data.registry.choose` selects some.
    """

    root: Path | None = None
    split: str | None = None
    seed: int = 0
    limit: int | None = None


@dataclass(frozen=True)
class Finding:
    """One line of ``viper data check``.

    Attributes:
        ok: whether the file or folder exists and is readable.
        what: the file, folder or fact, as ``dev/dev.json``.
        says: the finding in words, and the origin of missing files.
    """

    ok: bool
    what: str
    says: str


@runtime_checkable
class DataSet(Protocol):
    """A set of labelled samples.

    Attributes:
        name: as typed on the command line.
        splits: names of its splits, the default one first.
        metric: name of its metric, see ``viper.evaluate.metrics``.
        summary: one line for ``viper data list``.
    """

    @property
    def name(self) -> str: ...

    @property
    def splits(self) -> Sequence[str]: ...

    @property
    def metric(self) -> str: ...

    @property
    def summary(self) -> str: ...

    def samples(self, spec: DatasetSpec) -> Sequence[Sample]:
        """Return the samples of a split in the order of the official file. Media are not read.

        Raises:
            DataError: files missing or not in the official format; says which and what to do.
            UnknownNameError: no such split.
        """

    def check(self, spec: DatasetSpec) -> Sequence[Finding]:
        """Report what is present and what is missing, in words. Never raise for missing files."""


@runtime_checkable
class DrawnSet(Protocol):
    """Protocol of a data set that generates its samples, in addition to :class:`DataSet`."""

    def by_id(self, spec: DatasetSpec, ids: Iterable[str]) -> Mapping[str, Sample]:
        """Return the samples with these ids; ids that nothing has are absent.

        Args:
            spec: only its split counts, where one is given.
        """

    @property
    def families(self) -> Sequence[str]:
        """Return the kinds of query, drawn equally often; each has a split ``SPLIT:FAMILY``."""


@runtime_checkable
class EndlessSet(Protocol):
    """Protocol of a data set that draws each sample by its number, in addition to
    :class:`DataSet`.
    """

    def sample(self, spec: DatasetSpec, number: int) -> Sample:
        """Return the sample of a number from 0; split and seed are those of the specification."""


Operation = Literal["replace", "color_pop", "blur_background", "put_emoji"]

# How far an edit may reach beyond a box: a share of its longer side and some pixels more. Boxes and
# outlines that tools find are not exact to the pixel.
REACH_SHARE, REACH_PX = 0.15, 2.0


@dataclass(frozen=True)
class EditTarget:
    """Label of an instruction to edit a picture.

    Attributes:
        operation: name of the tool that makes the edit.
        old: the objects in words, as ``red cube``.
        new: the new content in words, as ``blue metal ball``; the emoji's name for ``put_emoji``;
            empty for other operations.
        boxes: boxes of the objects before the edit, ``(x0, y0, x1, y1)`` from the top-left corner.
        outlines: outlines of the same objects, ``{"size": [H, W], "counts": […]}`` as
            :func:`viper.data.coco_masks.mask_of` takes them.
    """

    operation: Operation
    old: str
    new: str
    boxes: tuple[PixelBox, ...]
    outlines: tuple[Mapping[str, Any], ...] = field(repr=False)

    @property
    def words(self) -> str:
        """Describe the wanted picture, as ``blue ball in place of red cube``, for reflection."""
        return {
            "replace": f"{self.new} in place of {self.old}",
            "put_emoji": f"the emoji {self.new} over {self.old}",
            "color_pop": f"only {self.old} in color",
            "blur_background": f"only {self.old} sharp",
        }[self.operation]

    @property
    def reach(self) -> NDArray[np.bool_]:
        """Return bool [H, W]: the pixels an edit may touch, or may leave alone if it keeps objects.

        An emoji is square, as wide as the longer side of the box.
        """
        height, width = self.outlines[0]["size"]
        return reach(self.boxes, (height, width), square=self.operation == "put_emoji")


def reach(
    boxes: Iterable[Sequence[float]], shape: tuple[int, int], *, square: bool = False
) -> NDArray[np.bool_]:
    """Return bool [H, W] of ``shape``: the boxes, slightly grown, or squares around them."""
    mask = np.zeros(shape, np.bool_)
    for x0, y0, x1, y1 in boxes:
        longer = max(x1 - x0, y1 - y0)
        by = REACH_SHARE * longer + REACH_PX
        across, down = (longer, longer) if square else (x1 - x0, y1 - y0)
        x, y = (x0 + x1) / 2, (y0 + y1) / 2
        left, top = (max(0, round(edge)) for edge in (x - across / 2 - by, y - down / 2 - by))
        mask[top : round(y + down / 2 + by), left : round(x + across / 2 + by)] = True
    return mask

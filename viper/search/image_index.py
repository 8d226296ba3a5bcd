"""Search for similar pictures of a folder: nearest neighbours with their notes.

Names, vectors and notes lie in the SQLite file of a
:class:`~viper.search.picture_index.PictureIndex`. Beside it lies a graph over the vectors, which
can be rebuilt from it. The graph lists its own vectors, so an outdated graph is detected and
updated.

Source: HNSW (Malkov and Yashunin 2018), as implemented by usearch.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from viper.errors import StoreError
from viper.models.vision.roles import Matcher, Pixels
from viper.search.findings import SimilarPicture, check_search
from viper.search.picture_index import PictureIndex, Progress, RejectedFile, read_note, thumbnail

# Graph settings: neighbours of each vector; candidates while adding and while searching. The usual
# values for embeddings; ``benchmarks/search_pictures.py`` compares results with an exact search.
CONNECTIVITY, EXPANSION_ADD, EXPANSION_SEARCH = 16, 128, 128

# Two thumbnails with a smaller mean difference (of 255) show the same picture: another size or
# encoding changes less, another view more.
SAME_PICTURE = 6.0

# Vectors between two reports of progress: enough for usearch to add them in parallel, few enough
# that their copies take some megabytes.
_ADDED_AT_ONCE = 4096


class ImageIndex:
    """Search (:class:`~viper.search.findings.ImageSearch`) over the pictures of a folder.

    Args:
        folder: folder of pictures; see :class:`~viper.search.picture_index.PictureIndex`.
        matcher: embeds the query picture and the folder's pictures.
        state: the folder of the user's state.

    Raises:
        UsageError: there is no such folder.
    """

    def __init__(self, folder: Path, matcher: Matcher, state: Path) -> None:
        # Import this first: if usearch comes first, a later import of onnxruntime crashes.
        import torch  # noqa: F401
        import usearch.index

        self._usearch: Any = usearch.index
        self._pictures = PictureIndex(folder, matcher, state)
        self._matcher = matcher
        self._graph: Any = None
        self.name = f"pictures:{self._pictures.folder.name}"
        self.graph_path = self._pictures.path.with_suffix(".usearch")

    @property
    def state_id(self) -> str:
        """Return an id that changes with the index; "" without an index."""
        if not self.graph_path.is_file():
            return ""
        status = self.graph_path.stat()
        return f"{status.st_size:x}-{status.st_mtime_ns:x}"

    def update(
        self, progress: Progress | None = None, on_graph: Progress | None = None
    ) -> tuple[RejectedFile, ...]:
        """Bring vectors and graph up to date with the folder. Return the rejected files.

        Finished work is stored, so an interrupted update resumes.

        Args:
            progress: called with the processed files and all files.
            on_graph: called with the added vectors and all new vectors.

        Raises:
            UsageError: the folder holds too many files.
            DataError: a ``metadata.jsonl`` is invalid.
            StoreError: the index cannot be written.
        """
        refused = self._pictures.update(progress)
        with self._pictures.opened() as database:
            self._graph = graph = self._read_graph(database)
            if graph is None:
                return refused
            have = {int(key) for key in graph.keys}
            numbers = {number for number, _ in self._pictures.numbered(database)}
            for number in have - numbers:
                graph.remove(number)
            missing = sorted(numbers - have)
            query = "SELECT number, vector FROM contents WHERE number BETWEEN ? AND ?"
            for start in range(0, len(missing), _ADDED_AT_ONCE):
                some = missing[start : start + _ADDED_AT_ONCE]
                rows = database.execute(query, (some[0], some[-1])).fetchall()
                chosen = [row for row in rows if row[0] not in have and row[1] is not None]
                keys = np.array([number for number, _ in chosen], np.uint64)
                matrix = np.frombuffer(b"".join(row[1] for row in chosen), "<f4")
                graph.add(keys, matrix.reshape(len(chosen), -1))
                if on_graph is not None:
                    on_graph(min(start + _ADDED_AT_ONCE, len(missing)), len(missing))
        if missing or have - numbers or not self.graph_path.is_file():
            part = self.graph_path.with_name(f".{self.graph_path.name}.{os.getpid()}.part")
            try:
                graph.save(str(part))
                part.replace(self.graph_path)
            except (OSError, RuntimeError) as error:
                raise StoreError(f"{self.graph_path}: cannot be written ({error})") from None
            finally:
                part.unlink(missing_ok=True)
        return refused

    def __len__(self) -> int:
        with self._pictures.opened() as database:
            count = "SELECT COUNT(*) FROM files JOIN contents USING (content) "
            return int(database.execute(count + "WHERE vector IS NOT NULL").fetchone()[0])

    def similar(self, pixels: Pixels, limit: int) -> Sequence[SimilarPicture]:
        """See :meth:`viper.search.findings.ImageSearch.similar`. Ties are sorted by name."""
        check_search(None, limit)
        query = (
            "SELECT files.name, note, thumbnail FROM contents JOIN files USING (content) "
            "LEFT JOIN notes ON notes.name = files.name WHERE number = ? ORDER BY files.name"
        )
        with self._pictures.opened() as database:
            if not self._graph:
                self._graph = self._read_graph(database)
            if not self._graph:
                return []
            vector = np.asarray(self._matcher.encode_images([pixels])[0], np.float32)
            if vector.shape != (self._graph.ndim,):
                raise StoreError(f"{self.graph_path}: made by another matcher; index anew")
            matches = self._graph.search(vector, limit)
            small = thumbnail(pixels).astype(np.int16)
            similar: list[SimilarPicture] = []
            for number, distance in zip(matches.keys, matches.distances, strict=True):
                score = round(1.0 - float(distance), 4)
                # all files with one content, each with its note
                for name, note, stored in database.execute(query, (int(number),)):
                    other = np.frombuffer(stored, np.uint8).reshape(small.shape)
                    same = float(np.abs(small - other).mean()) < SAME_PICTURE
                    similar.append(SimilarPicture(name, score, *read_note(note), same))
        return sorted(similar, key=lambda p: (not p.identical, -p.score, p.picture_id))[:limit]

    def _read_graph(self, database: sqlite3.Connection) -> Any:
        """Read the graph if its file is readable and as wide as the vectors, else begin a new one.

        Return None without vectors.
        """
        first = next(iter(self._pictures.numbered(database)), None)
        if first is None:
            return None
        with suppress(RuntimeError, ValueError, OSError):
            graph = self._usearch.Index.restore(str(self.graph_path), view=False)
            if graph is not None and graph.ndim == len(first[1]) // 4:
                graph.expansion_search = EXPANSION_SEARCH
                return graph
        return self._usearch.Index(
            ndim=len(first[1]) // 4,
            metric="cos",
            dtype="f32",
            connectivity=CONNECTIVITY,
            expansion_add=EXPANSION_ADD,
            expansion_search=EXPANSION_SEARCH,
        )

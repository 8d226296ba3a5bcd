"""An index of many synthetic passages: how long it takes, how much it needs, what it finds.

    python benchmarks/search_texts.py [--passages 1000000] [--queries 200] [--keep DIR]

Passages are of words drawn by Zipf's law, 20 to 60 each, in JSON lines; a query is four words of a
passage and four others. Prints the seconds and the memory of building (in a process of its own),
the bytes on disk, the median and the 95th percentile of a query's time, and how many of the first
ten are among the ten that exact BM25 finds (k1 = 1.2, b = 0.75; equal scores count as equal).
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from apart import apart

from viper.search.text_index import TextIndex

VOCABULARY = 200_000
BLOCK = 10_000


def main() -> None:
    given = _arguments()
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        texts = folder / f"passages-{given.passages}.jsonl"
        if not texts.is_file():
            _write(texts, given.passages)
        seconds, memory = apart(_build, folder / "index", texts)
        index = TextIndex(folder / "index")
        disk = sum(one.stat().st_size for one in index.folder.rglob("*") if one.is_file())
        print(
            f"{len(index):,} passages built in {seconds:.0f} s, at most {memory:,.0f} MB of "
            f"memory, {disk / 1e6:,.0f} MB on disk"
        )
        queries, exact = _exact(given.passages, given.queries)
        times, recalls = [], []
        for query, best in zip(queries, exact, strict=True):
            started = time.perf_counter()
            found = index.search(" ".join(f"w{word}" for word in query), 10)
            times.append(1000 * (time.perf_counter() - started))
            numbers = [int(one.title) for one in found.passages]
            least = sorted(best.values())[-10]
            recalls.append(np.mean([best.get(n, 0.0) >= least - 1e-4 for n in numbers]))
        print(
            f"{len(queries)} queries of 8 words: median {np.median(times):.1f} ms, 95 % within "
            f"{np.quantile(times, 0.95):.1f} ms; recall@10 of exact BM25 {np.mean(recalls):.3f}"
        )


def _blocks(count: int) -> Iterator[tuple[int, list[np.ndarray]]]:
    """Passages as numbers of words, the same in every pass."""
    shares = 1 / np.arange(1, VOCABULARY + 1) ** 1.07
    edges = np.cumsum(shares / shares.sum())
    for start in range(0, count, BLOCK):
        rng = np.random.default_rng([17, start])
        lengths = rng.integers(20, 61, BLOCK)
        words = np.searchsorted(edges, rng.random((BLOCK, 60)))
        rows = [row[:length] for row, length in zip(words, lengths, strict=True)]
        yield start, rows[: count - start]


def _write(path: Path, count: int) -> None:
    part = path.with_suffix(".part")
    with part.open("w") as file:
        for start, rows in _blocks(count):
            for place, row in enumerate(rows, start):
                text = " ".join(f"w{word}" for word in row)
                file.write(json.dumps({"title": str(place), "text": text}) + "\n")
    part.replace(path)


def _exact(count: int, queries: int) -> tuple[list[list[int]], list[dict[int, float]]]:
    """Queries, and the BM25 score of every passage that has one of their words."""
    rng = np.random.default_rng(5)
    chosen = set(rng.integers(0, count, queries).tolist())
    asked: list[list[int]] = []
    lengths = np.zeros(count, np.float32)
    for start, rows in _blocks(count):
        lengths[start : start + len(rows)] = [len(row) + 1 for row in rows]  # and its title
        for place in sorted(chosen & set(range(start, start + len(rows)))):
            others = np.random.default_rng([6, place]).integers(0, VOCABULARY // 4, 4)
            asked.append([*map(int, rng.choice(rows[place - start], 4)), *map(int, others)])
    wanted = {word for query in asked for word in query}
    held: dict[int, dict[int, int]] = {word: {} for word in wanted}
    for start, rows in _blocks(count):
        for place, row in enumerate(rows, start):
            for word in row.tolist():
                if word in held:
                    held[word][place] = held[word].get(place, 0) + 1
    mean, scores = float(lengths.mean()), []
    for query in asked:
        found: dict[int, float] = {}
        for word in dict.fromkeys(query):
            holding = len(held[word])
            rarity = np.log(1 + (count - holding + 0.5) / (holding + 0.5))
            for place, times in held[word].items():
                weight = times * 2.2 / (times + 1.2 * (0.25 + 0.75 * lengths[place] / mean))
                found[place] = found.get(place, 0.0) + float(rarity * weight)
        scores.append(found)
    return asked, scores


def _build(folder: Path, texts: Path) -> None:
    def told(passages: int, read: int, total: int) -> None:
        print(f"\r{passages:,} passages, {100 * read // total} %", end="", flush=True)

    TextIndex(folder).update([texts], told)
    print()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--passages", type=int, default=1_000_000)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--keep", type=Path, help="keep texts and index here, and use them again")
    return parser.parse_args()


if __name__ == "__main__":
    main()

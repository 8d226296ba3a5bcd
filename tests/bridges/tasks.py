"""Ten small programs over a tool, and what CPython makes of them."""

from __future__ import annotations

from typing import Any


def rows(table: str) -> list[dict[str, Any]]:
    """Return the rows of a table."""
    if table != "cups":
        raise ValueError(f"no table {table!r}")
    return [
        {"color": "red", "size": 3, "box": [0, 0, 10, 10]},
        {"color": "blue", "size": 5, "box": [20, 0, 40, 30]},
        {"color": "red", "size": 4, "box": [50, 5, 60, 25]},
    ]


TASKS = [
    "answer = len(rows('cups'))",
    "answer = sum(row['size'] for row in rows('cups'))",
    "answer = sorted({row['color'] for row in rows('cups')})",
    "answer = max(rows('cups'), key=lambda row: row['size'])['color']",
    "from collections import Counter\n"
    "answer = Counter(row['color'] for row in rows('cups')).most_common(1)[0][0]",
    "def area(box):\n    return (box[2] - box[0]) * (box[3] - box[1])\n"
    "answer = [area(row['box']) for row in rows('cups')]",
    "import math\nanswer = round(math.hypot(3, 4), 2)",
    "answer = {row['color']: row['size'] for row in rows('cups')}",
    "try:\n    rows('plates')\n    answer = 'yes'\nexcept Exception:\n    answer = 'no'",
    "answer = ', '.join(f\"{row['color']} {row['size']:02d}\" for row in rows('cups'))",
]


def value_of(program: str) -> Any:
    """Return the answer of a program of this file, run by CPython itself."""
    names: dict[str, Any] = {"rows": rows}
    exec(program, names)  # noqa: S102 - a program of this file
    return names["answer"]

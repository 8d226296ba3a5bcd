"""Tables and claims of ``viper lab reproduce jobs``, from the rows that were measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean, median
from typing import Any

from viper.evaluate.intervals import mean, paired, proportion
from viper_lab.jobs.study import Row, realised
from viper_lab.papers.result import Claim, Gain, Reproduction, TableCell, in_percent

TITLE = "One question about many pictures, from a few labels"

# Claims, each with its bound, in the order of the table that was set before anything was measured.
LEAST_GAIN, MOST_LOSS, HELD, BROKEN = 0.10, 0.03, 0.85, 0.10
_WIDTHS = {20: 0.40, 60: 0.25}
_KINDS = ("fitted", "zero_shot", "neighbours", "majority")


def reproduction(rows: Sequence[Row], facts: Mapping[str, Any]) -> Reproduction:
    """Return all tables and claims; those of a size that was not measured stay open."""
    sizes = sorted({row.size for row in rows})
    cells = [
        TableCell.of_scores(
            f"{size} labels",
            kind.replace("_", "-"),
            group,
            [[float(x) for row in part if row.seed == seed for x in getattr(row, kind)]
             for seed in sorted({row.seed for row in part})],
        )
        for size in sizes
        for group in sorted({row.group for row in rows})
        for part in [[row for row in rows if row.size == size and row.group == group]]
        if part
        for kind in _KINDS
    ]  # fmt: skip
    gains = [
        Gain(f"{row.size} labels", f"{row.job}, fitted over zero-shot, seed {row.seed}", row.group,
             paired([float(x) for x in row.zero_shot], [float(x) for x in row.fitted]).difference)
        for row in rows
    ]  # fmt: skip
    return Reproduction(TITLE, cells, gains, _claims(rows, gains), facts)


def _claims(rows: Sequence[Row], gains: Sequence[Gain]) -> list[Claim]:
    differences = [gain.difference for gain in gains]
    by_job = mean([d.value for d in differences], clusters=[row.job for row in rows])
    worse = [gain.name for gain in gains if gain.difference.high < -MOST_LOSS]
    wins = [_wins(row) for row in rows]
    told = [row.warned for row, won in zip(rows, wins, strict=True) if not won]
    held = [row.low <= fmean(row.fitted) <= row.high for row in rows]
    above = [realised(row)[1] for row in rows if row.certified]
    covered = [fmean(row.given) for row in rows if row.risk == 0.10 and row.size >= 60]
    claims = [
        Claim.of_gain("fitted above zero-shot by 10 points on average", by_job,
                      holds=by_job.value >= LEAST_GAIN and by_job.low > 0),
        Claim("no job worse by more than 3 points beyond its interval", not worse,
              ", ".join(worse) or "none"),
        Claim("wins or ties with neighbours and majority in 30 of 36", fmean(wins) >= 30 / 36,
              in_percent(proportion(sum(wins), len(wins)))),
        Claim("where it loses the report said so: 80 %", fmean(told) >= 0.8 if told else None,
              f"{sum(told)} of {len(told)}"),
        Claim("the interval holds the test accuracy in 85 % of jobs", fmean(held) >= HELD,
              in_percent(proportion(sum(held), len(held)))),
    ]  # fmt: skip
    for size, width in _WIDTHS.items():
        widths = [row.high - row.low for row in rows if row.size == size]
        claims.append(
            Claim(f"mean width at {size} labels at most {width:.2f}",
                  fmean(widths) <= width if widths else None,
                  f"{fmean(widths):.3f}" if widths else "not measured")
        )  # fmt: skip
    claims.append(
        Claim("a promised risk is surely broken in at most 10 % of jobs",
              fmean(above) <= BROKEN if above else None, f"{sum(above)} of {len(above)} promised")
    )  # fmt: skip
    claims.append(
        Claim("median coverage at risk .10 at least 50 %",
              median(covered) >= 0.5 if covered else None,
              f"{100 * median(covered):.0f} %, n = {len(covered)}" if covered else "not measured")
    )  # fmt: skip
    slow = [row for row in rows if row.size == 20]
    claims.append(
        Claim("20 labels: at most 3 minutes and 40 requests",
              all(row.seconds <= 180 and row.requests <= 40 for row in slow) if slow else None,
              f"at most {max((row.seconds for row in slow), default=0):.0f} s, "
              f"{max((row.requests for row in slow), default=0)} requests")
    )  # fmt: skip
    return claims


def _wins(row: Row) -> bool:
    """Return whether neither baseline is surely better."""
    fitted = [float(x) for x in row.fitted]
    for baseline in (row.neighbours, row.majority):
        if paired([float(x) for x in baseline], fitted).difference.high < 0:
            return False
    return True

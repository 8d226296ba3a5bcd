"""Tables and claims of ``viper lab reproduce jobs``, from the rows that were measured."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean, median
from typing import Any

from viper.evaluate.intervals import mean, over_seeds, paired, proportion, ratio
from viper_lab.jobs.simulated import FIRST, Simulated
from viper_lab.jobs.study import SIZES, Row, realised
from viper_lab.papers.result import Claim, Gain, Reproduction, TableCell, in_percent

TITLE = "One question about many pictures, from a few labels"

# Claims, each with its bound, in the order of the table that was set before anything was measured.
LEAST_GAIN, MOST_LOSS, HELD, BROKEN = 0.10, 0.03, 0.85, 0.10
LEAST_SAVED, LEAST_FOUND = 0.25, 0.60
_WIDTHS = {20: 0.40, 60: 0.25}
_KINDS = ("fitted", "zero_shot", "neighbours", "majority")


def reproduction(
    rows: Sequence[Row], simulated: Sequence[Simulated], facts: Mapping[str, Any]
) -> Reproduction:
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
    claims = [*_claims(rows, gains), *_simulated(simulated)]
    return Reproduction(TITLE, [*cells, *_simulated_cells(simulated)], gains, claims, facts)


def _simulated_cells(rows: Sequence[Simulated]) -> list[TableCell]:
    """Return the labels that were needed, and the planted labels that were found, by group."""
    cells = []
    for group in sorted({row.group for row in rows}):
        part = [row for row in rows if row.group == group]
        for name, needed in (("review", [row.review for row in part]),
                             ("random order", [row.random for row in part])):  # fmt: skip
            figure = over_seeds([fmean(needed)])
            cells.append(TableCell("labels needed", name, group, figure, len(part), unit="labels"))
        for name, found in (("programs", [row.found / row.planted for row in part]),
                            ("a detector's score",
                             [row.by_detector / row.planted for row in part])):  # fmt: skip
            cells.append(TableCell.of_scores("planted labels found", name, group, [found]))
    return cells


def _simulated(rows: Sequence[Simulated]) -> list[Claim]:
    """Return the claims about review and audit."""
    # where the first labels suffice, or all of them do not, no order can matter
    open_rows = [row for row in rows if not (row.review == row.random and (
        row.random <= FIRST or row.random > row.folder))]  # fmt: skip
    saved = ratio([float(row.random - row.review) for row in open_rows],
                  [float(row.random) for row in open_rows],
                  [row.job for row in open_rows])  # fmt: skip
    planted = [float(row.planted) for row in rows]
    jobs = [row.job for row in rows]
    found = ratio([float(row.found) for row in rows], planted, jobs)
    by_score = ratio([float(row.by_detector) for row in rows], planted, jobs)
    return [
        Claim("review needs 25 % fewer labels than random order, interval above 0",
              saved.value >= LEAST_SAVED and saved.low > 0 if open_rows else None,
              f"{in_percent(saved)}; {len(rows) - len(open_rows)} of {len(rows)} splits where the "
              "order cannot matter are left out" if open_rows else "not measured"),
        Claim("of planted wrong labels 60 % are in the most suspected tenth",
              found.value >= LEAST_FOUND if rows else None,
              f"{in_percent(found)}, by a detector's score {in_percent(by_score)}"
              if rows else "not measured"),
    ]  # fmt: skip


def _claims(rows: Sequence[Row], gains: Sequence[Gain]) -> list[Claim]:
    differences = [gain.difference for gain in gains]
    by_job = mean([d.value for d in differences], clusters=[row.job for row in rows])
    worse = [gain.name for gain in gains if gain.difference.high < -MOST_LOSS]
    wins = [_wins(row) for row in rows]
    told = [row.warned for row, won in zip(rows, wins, strict=True) if not won]
    held = [row.low <= fmean(row.fitted) <= row.high for row in rows]
    asked = [row for row in rows if row.size > min(SIZES)]
    above = [realised(row)[1] for row in asked]
    broken = sum(realised(row)[1] for row in asked if row.certified)
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
        Claim("from 60 labels on the risk is surely broken in at most 10 % of jobs",
              fmean(above) <= BROKEN if above else None,
              f"{sum(above)} of {len(above)}; {broken} of the "
              f"{sum(row.certified for row in asked)} that were promised")
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

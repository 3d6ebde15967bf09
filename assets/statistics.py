"""Intervals and paired tests, for every link that states a figure.

A benchmark is a sample of the cases it could have asked, so a score without an interval says little. Two models are
compared case by case on the same cases: that removes the difficulty of the cases from the noise. Cases that share a
screenshot are not independent, so everything here can be told which cases belong together (`clusters`).
See Miller, "Adding Error Bars to Evals" (arXiv:2411.00640), for the case for clusters and for pairing.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Interval:
    """An estimate, its confidence interval and the number of cases it rests on."""

    value: float
    low: float
    high: float
    n: int

    def __str__(self) -> str:
        return f"{self.value:.3f} [{self.low:.3f}, {self.high:.3f}]"

    @property
    def excludes_zero(self) -> bool:
        """Whether zero lies outside the interval: a difference that is more than noise."""
        return self.low > 0 or self.high < 0


def wilson(successes: int, n: int, confidence: float = CONFIDENCE) -> Interval:
    """Wilson's score interval of a proportion (Wilson 1927; `scipy.stats.binomtest(...).proportion_ci`).

    Good for small n and at the ends, where the normal approximation gives an interval of width zero. With n = 0
    nothing is known: the value is NaN and the interval [0, 1].

    Raises:
        ValueError: not 0 <= successes <= n.
    """
    from scipy.stats import binomtest

    if not 0 <= successes <= n:
        raise ValueError(f"{successes} successes of {n} cases")
    if n == 0:
        return Interval(math.nan, 0.0, 1.0, 0)
    limits = binomtest(successes, n).proportion_ci(confidence, method="wilson")
    return Interval(successes / n, float(limits.low), float(limits.high), n)


def proportion(
    outcomes: Sequence[bool], clusters: Sequence[Hashable] | None = None, confidence: float = CONFIDENCE
) -> Interval:
    """Wilson's interval at the effective number of independent cases.

    That is the number of independent cases whose mean would vary, p(1 - p) / (m - 1), as much as this one does by
    clusters (linearised: the sum of squared cluster residuals / n^2, times C / (C - 1)); the score interval is taken at
    m, as Korn and Graubard (Survey Methodology 24, 1998) do for the exact interval. It is never more than n, so that
    luck never narrows an interval. When every outcome is the same it can't be estimated and each cluster counts as one.

    Args:
        outcomes: one truth value a case.
        clusters: for each case, what it shares with others (a screenshot, an episode); None: all independent.

    Raises:
        ValueError: the lengths differ.
    """
    import numpy as np

    n = len(outcomes)
    successes = sum(map(bool, outcomes))
    if clusters is None or n == 0:
        return wilson(successes, n, confidence)
    groups = _cluster_index(clusters, n)
    count = int(groups.max()) + 1
    value = successes / n
    if successes in (0, n):
        effective = float(count)
    elif count == 1:
        effective = 1.0
    else:
        residuals = np.bincount(groups, weights=np.asarray(outcomes, float) - value)
        variance = float((residuals**2).sum()) / n**2 * count / (count - 1)
        effective = min(float(n), value * (1 - value) / variance + 1) if variance > 0 else float(n)
    low, high = _score_limits(value, effective, confidence)
    return Interval(value, low, high, n)


def bootstrap_mean(
    values: Sequence[float],
    seed: int,
    clusters: Sequence[Hashable] | None = None,
    confidence: float = CONFIDENCE,
    resamples: int = 2000,
) -> Interval:
    """Percentile bootstrap of a mean, resampling whole clusters (Efron and Tibshirani 1993, chapters 8 and 13).

    The same values and seed give the same interval. No values: NaN, [-inf, inf].
    """
    import numpy as np

    n = len(values)
    if n == 0:
        return Interval(math.nan, -math.inf, math.inf, 0)
    array = np.asarray(values, float)
    means = _resampled_means(array, clusters, seed, resamples)
    low, high = np.quantile(means, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(float(array.mean()), float(low), float(high), n)


def paired_bootstrap(
    before: Sequence[float],
    after: Sequence[float],
    seed: int,
    clusters: Sequence[Hashable] | None = None,
    confidence: float = CONFIDENCE,
    resamples: int = 2000,
) -> Interval:
    """The mean of `after - before` over the same cases, with its bootstrap interval.

    Raises:
        ValueError: the two don't have one value for each case.
    """
    if len(before) != len(after):
        raise ValueError(f"not paired: {len(before)} values against {len(after)}")
    differences = [float(b) - float(a) for a, b in zip(before, after, strict=True)]
    return bootstrap_mean(differences, seed, clusters, confidence, resamples)


def stratified_paired_bootstrap(
    strata: Sequence[tuple[Sequence[float], Sequence[float], Sequence[Hashable] | None]],
    seed: int,
    confidence: float = CONFIDENCE,
    resamples: int = 2000,
) -> Interval:
    """The unweighted mean, over strata, of the mean of `after - before` within each, with its bootstrap interval.

    Each stratum (a domain, say) is `(before, after, clusters)` and is resampled by itself, so that every one weighs the
    same however many cases it has. Strata without cases are left out.
    """
    import numpy as np

    total = np.zeros(resamples)
    values, n = [], 0
    for index, (before, after, clusters) in enumerate(strata):
        if len(before) != len(after):
            raise ValueError(f"not paired: {len(before)} values against {len(after)}")
        if len(before) == 0:
            continue
        differences = np.asarray(after, float) - np.asarray(before, float)
        total += _resampled_means(differences, clusters, seed + index, resamples)
        values.append(float(differences.mean()))
        n += len(differences)
    if not values:
        return Interval(math.nan, -math.inf, math.inf, 0)
    low, high = np.quantile(total / len(values), [(1 - confidence) / 2, (1 + confidence) / 2])
    return Interval(sum(values) / len(values), float(low), float(high), n)


def mcnemar(before: Sequence[bool], after: Sequence[bool]) -> float:
    """Two-sided p-value of McNemar's exact test: are changes for the better and for the worse equally likely?

    A binomial test of the cases on which the two disagree (McNemar 1947, in its exact form). It takes the cases as
    independent: where they share screens, read the clustered interval beside it. 1.0 when nothing changed.

    Raises:
        ValueError: the two don't have one outcome for each case.
    """
    from scipy.stats import binomtest

    if len(before) != len(after):
        raise ValueError(f"not paired: {len(before)} outcomes against {len(after)}")
    better = sum(not a and bool(b) for a, b in zip(before, after, strict=True))
    worse = sum(bool(a) and not b for a, b in zip(before, after, strict=True))
    return float(binomtest(better, better + worse, 0.5).pvalue) if better + worse else 1.0


def difference(before: Interval, after: Interval) -> Interval:
    """`after - before` of two proportions measured on different cases, from their own intervals.

    Newcombe's hybrid score interval (Statistics in Medicine 17, 1998, method 10), which takes nothing but the two
    estimates and their limits. For the same cases use `paired_bootstrap`, which is narrower.
    """
    value = after.value - before.value
    low = value - math.hypot(after.value - after.low, before.high - before.value)
    high = value + math.hypot(after.high - after.value, before.value - before.low)
    return Interval(value, low, high, min(before.n, after.n))


def _score_limits(value: float, n: float, confidence: float) -> tuple[float, float]:
    """Wilson's limits for a number of cases that need not be whole."""
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    centre = (value + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(value * (1 - value) / n + z * z / (4 * n * n))
    return max(0.0, min(centre - half, value)), min(1.0, max(centre + half, value))


def _cluster_index(clusters: Sequence[Hashable], n: int) -> np.ndarray:
    import numpy as np

    if len(clusters) != n:
        raise ValueError(f"{len(clusters)} clusters for {n} cases")
    order: dict[Hashable, int] = {}
    return np.asarray([order.setdefault(cluster, len(order)) for cluster in clusters])


def _resampled_means(array: np.ndarray, clusters: Sequence[Hashable] | None, seed: int, resamples: int) -> np.ndarray:
    """[resamples]: the mean of each resample of whole clusters, as the ratio of their sum and their size."""
    import numpy as np

    groups = np.arange(len(array)) if clusters is None else _cluster_index(clusters, len(array))
    sums, sizes = np.bincount(groups, weights=array), np.bincount(groups)
    draws = np.random.default_rng(seed).integers(0, len(sums), (resamples, len(sums)))
    return np.asarray(sums[draws].sum(1) / sizes[draws].sum(1))

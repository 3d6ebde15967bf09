"""Intervals hold the estimate, cover what they claim, and pairing and clusters do what they are for."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest

from assets.statistics import (
    Interval,
    bootstrap_mean,
    difference,
    mcnemar,
    paired_bootstrap,
    proportion,
    stratified_paired_bootstrap,
    wilson,
)

outcomes = st.lists(st.booleans(), min_size=1, max_size=60)


def test_wilson_gives_the_published_example() -> None:
    # Newcombe 1998, Statistics in Medicine 17:857, table I: 81 of 263 and 15 of 148, score without correction.
    assert (round(wilson(81, 263).low, 4), round(wilson(81, 263).high, 4)) == (0.2553, 0.3662)
    assert (round(wilson(15, 148).low, 4), round(wilson(15, 148).high, 4)) == (0.0624, 0.1605)


@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_is_ordered_inside_zero_and_one_and_mirrors(case: tuple[int, int]) -> None:
    successes, n = case
    interval, mirror = wilson(successes, n), wilson(n - successes, n)
    assert 0 <= interval.low <= interval.value <= interval.high <= 1
    assert interval.low == pytest.approx(1 - mirror.high, abs=1e-9)
    assert interval.high - interval.low > wilson(successes * 4, n * 4).high - wilson(successes * 4, n * 4).low


def test_no_cases_tell_nothing() -> None:
    nothing = wilson(0, 0)
    assert math.isnan(nothing.value)
    assert (nothing.low, nothing.high, nothing.n) == (0.0, 1.0, 0)
    with pytest.raises(ValueError, match="3 successes of 2"):
        wilson(3, 2)


def test_wilson_covers_the_truth_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    for truth in (0.05, 0.3, 0.8):
        draws = rng.binomial(40, truth, 2000)
        limits = {k: wilson(int(k), 40) for k in set(draws.tolist())}
        covered = np.mean([limits[k].low <= truth <= limits[k].high for k in draws.tolist()])
        assert 0.92 <= covered <= 0.985


@given(outcomes)
def test_clusters_of_one_case_change_nothing(values: list[bool]) -> None:
    plain, alone = proportion(values), proportion(values, list(range(len(values))))
    assert (alone.value, alone.low, alone.high) == pytest.approx((plain.value, plain.low, plain.high), abs=1e-9)


@given(st.lists(st.booleans(), min_size=2, max_size=30), st.integers(2, 6))
def test_repeating_every_case_adds_no_certainty(values: list[bool], times: int) -> None:
    repeated = [value for value in values for _ in range(times)]
    clusters = [index for index in range(len(values)) for _ in range(times)]
    once, many = proportion(values, list(range(len(values)))), proportion(repeated, clusters)
    assert (many.low, many.high) == pytest.approx((once.low, once.high), abs=1e-9)
    naive = proportion(repeated)
    assert naive.high - naive.low < many.high - many.low


def test_clustered_interval_covers_where_the_naive_one_does_not() -> None:
    rng = np.random.default_rng(1)
    covered = {"naive": 0, "clustered": 0}
    for _ in range(300):
        chances = rng.beta(1.4, 0.6, 40)  # some screens are easy, some hard: mean 0.7
        cases = [bool(rng.random() < chance) for chance in chances for _ in range(6)]
        screens = [screen for screen in range(40) for _ in range(6)]
        for name, interval in (("naive", proportion(cases)), ("clustered", proportion(cases, screens))):
            covered[name] += interval.low <= 0.7 <= interval.high
    assert covered["naive"] < 0.85 * 300
    assert covered["clustered"] > 0.91 * 300


@settings(max_examples=40)
@given(st.lists(st.floats(-1e3, 1e3, allow_subnormal=False), min_size=1, max_size=40), st.integers(0, 2**31))
def test_bootstrap_is_seeded_and_holds_its_estimate(values: list[float], seed: int) -> None:
    first, second = bootstrap_mean(values, seed, resamples=400), bootstrap_mean(values, seed, resamples=400)
    assert first == second
    assert min(values) - 1e-6 <= first.low <= first.high <= max(values) + 1e-6
    assert first.n == len(values)


def test_bootstrap_agrees_with_the_normal_interval() -> None:
    values = np.random.default_rng(3).normal(5, 2, 400)
    interval = bootstrap_mean(values.tolist(), 7, resamples=8000)
    half = 1.96 * values.std() / 20
    assert interval.low == pytest.approx(values.mean() - half, abs=0.03)
    assert interval.high == pytest.approx(values.mean() + half, abs=0.03)
    assert bootstrap_mean(values.tolist(), 8).low != interval.low


@settings(max_examples=40)
@given(st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=40), st.integers(0, 1000))
def test_pairing_is_antisymmetric_and_agrees_with_the_means(pairs: list[tuple[bool, bool]], seed: int) -> None:
    before, after = [a for a, _ in pairs], [b for _, b in pairs]
    gain, loss = paired_bootstrap(before, after, seed), paired_bootstrap(after, before, seed)
    assert gain.value == pytest.approx(np.mean(after) - np.mean(before))
    assert (gain.low, gain.high) == pytest.approx((-loss.high, -loss.low), abs=1e-12)
    assert mcnemar(before, after) == mcnemar(after, before)
    assert paired_bootstrap(before, before, seed) == Interval(0.0, 0.0, 0.0, len(before))


def test_pairing_sees_what_two_separate_intervals_can_not() -> None:
    before = [index % 2 == 0 for index in range(200)]
    after = [value or index < 20 for index, value in enumerate(before)]
    assert paired_bootstrap(before, after, 1).excludes_zero
    assert mcnemar(before, after) < 0.01
    assert not difference(proportion(before), proportion(after)).excludes_zero


def test_mcnemar_is_the_binomial_test_of_the_changes() -> None:
    before = [True] * 30 + [False] * 12 + [True] * 3
    after = [True] * 30 + [True] * 12 + [False] * 3
    assert mcnemar(before, after) == binomtest(12, 15, 0.5).pvalue
    assert mcnemar([True, False], [True, False]) == 1.0
    with pytest.raises(ValueError, match="not paired"):
        mcnemar([True], [True, False])


def test_every_stratum_weighs_the_same() -> None:
    big = ([0.0] * 900, [1.0] * 900, None)
    small = ([1.0] * 10, [0.0] * 10, None)
    assert stratified_paired_bootstrap([big, small], 0).value == pytest.approx(0.0)
    assert stratified_paired_bootstrap([big, ([], [], None)], 0) == Interval(1.0, 1.0, 1.0, 900)
    assert math.isnan(stratified_paired_bootstrap([], 0).value)


def test_newcombes_difference_gives_his_example() -> None:
    # Newcombe 1998, Statistics in Medicine 17:873, table II, method 10: 56/70 - 48/80.
    gap = difference(wilson(48, 80), wilson(56, 70))
    assert (round(gap.value, 4), round(gap.low, 4), round(gap.high, 4)) == (0.2, 0.0524, 0.3339)

"""The exponent: the slope in the logarithms over the larger sizes, and how sure it is."""

from __future__ import annotations

import pytest

from attention_conformance.benching.growth import fit, larger, noise_of

SIZES = (128, 256, 512, 1024)


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0, 2.0, 3.0])
@pytest.mark.parametrize("factor", [1e-9, 1.0, 1e9])
def test_a_power_of_l_is_found_exactly(power: float, factor: float) -> None:
    growth = fit(SIZES, [factor * size**power for size in SIZES])
    assert growth is not None
    assert growth.exponent == pytest.approx(power, abs=1e-9)
    assert growth.error == pytest.approx(0.0, abs=1e-6)
    assert growth.sizes == (256, 512, 1024)


def test_overhead_at_small_sizes_does_not_count() -> None:
    values = [max(500.0, (size / 16) ** 2) for size in (16, 32, 64, 128, 512, 1024, 2048, 4096)]
    growth = fit((16, 32, 64, 128, 512, 1024, 2048, 4096), values)
    assert growth is not None
    assert growth.exponent == pytest.approx(2.0)


def test_the_order_of_the_sizes_does_not_matter() -> None:
    shuffled = fit((1024, 128, 512, 256), [size**2.0 for size in (1024, 128, 512, 256)])
    assert shuffled == fit(SIZES, [size**2.0 for size in SIZES])


def test_points_off_the_line_make_it_less_sure() -> None:
    exact, bent = (fit(SIZES, [1.0, 4.0, middle, 64.0]) for middle in (16.0, 24.0))
    assert exact is not None
    assert bent is not None
    assert bent.error > exact.error + 0.1


def test_noise_of_the_values_makes_it_less_sure_even_where_they_lie_on_a_line() -> None:
    # Twice the distance of the ends of log 4 wide, 10% each: 0.1 * sqrt(2) / log 4.
    growth = fit((64, 128, 256), [1.0, 2.0, 4.0], [0.1, 0.1, 0.1])
    assert growth is not None
    assert growth.error == pytest.approx(0.1020, abs=1e-4)


@pytest.mark.parametrize(
    ("sizes", "values"),
    [((), ()), ((8, 16), (1.0, 2.0)), ((8, 16, 32), (0.0, 1.0, 2.0)), ((8, 8, 8), (1.0, 1.0, 1.0))],
)
def test_what_cannot_be_fitted_is_none(sizes: tuple[int, ...], values: tuple[float, ...]) -> None:
    assert fit(sizes, values) is None


@pytest.mark.parametrize(("count", "used"), [(3, 3), (4, 3), (6, 3), (7, 4), (10, 5)])
def test_the_larger_half_is_fitted_and_three_at_least(count: int, used: int) -> None:
    assert larger(count) == used


def test_the_noise_of_a_median_falls_with_the_rounds_and_ignores_outliers() -> None:
    few = noise_of([0.9, 1.0, 1.1])
    many = noise_of([0.9, 1.0, 1.1] * 16)
    assert 0 < many < few
    assert noise_of([0.9, 1.0, 1.1] * 16 + [100.0]) == pytest.approx(many, rel=0.1)
    assert noise_of([1.0]) == noise_of([1.0, 1.0, 1.0]) == 0.0


def test_the_exponent_is_written_with_its_uncertainty() -> None:
    growth = fit((64, 128, 256), [1.0, 4.0, 16.0], [0.1, 0.1, 0.1])
    assert growth is not None
    assert growth.text() == "2.00 ± 0.10"

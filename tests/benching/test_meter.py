"""Memory: the peak of one call, counted from what torch's allocator is asked for."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from attention_conformance.benching.growth import fit
from attention_conformance.benching.meter import peak_bytes, peak_of
from attention_conformance.reference.attention import attention

MIB = 2**20


def block(mib: float) -> torch.Tensor:
    return torch.empty(int(mib * MIB), dtype=torch.uint8)


def test_what_is_held_at_once_counts_and_what_was_freed_before_does_not() -> None:
    def in_turn() -> None:
        for _ in range(3):
            block(2)

    def together() -> object:
        return [block(2) for _ in range(3)]

    def released() -> None:
        first = block(5)
        del first
        block(1)

    assert peak_bytes(in_turn, "cpu") == 2 * MIB
    assert peak_bytes(together, "cpu") == 6 * MIB
    assert peak_bytes(released, "cpu") == 5 * MIB


def test_the_result_of_a_call_counts() -> None:
    assert peak_bytes(lambda: block(3), "cpu") == 3 * MIB


def test_what_was_there_before_does_not_count_even_if_the_call_frees_it() -> None:
    held = [block(8)]

    def call() -> torch.Tensor:
        held.clear()
        return block(1)

    assert peak_bytes(call, "cpu") == 1 * MIB


def test_a_peak_inside_one_operation_is_seen() -> None:
    # The scores, and their softmax beside them: two of (2, 64, 64) in fp32, of which nothing is left in the end.
    query = torch.zeros(2, 64, 1)
    found = peak_bytes(lambda: torch.softmax(query @ query.mT, -1).sum().item(), "cpu")
    assert found is not None
    assert 2 * (2 * 64 * 64 * 4) <= found < 2.5 * (2 * 64 * 64 * 4)


def test_it_is_the_same_each_time() -> None:
    query = torch.zeros(2, 32, 8)
    assert len({peak_bytes(lambda: attention(query, query, query), "cpu") for _ in range(3)}) == 1


def test_the_documents_kernel_grows_as_the_square_and_the_fused_one_as_l() -> None:
    sizes = (256, 512, 1024)

    def peaks(kernel: object) -> list[float]:
        found = []
        for size in sizes:
            query = torch.zeros(1, 1, size, 8)
            peak = peak_bytes(lambda query=query: kernel(query, query, query), "cpu")  # type: ignore[operator,misc]
            assert peak is not None
            found.append(float(peak))
        return found

    plain, fused = fit(sizes, peaks(attention)), fit(sizes, peaks(torch.nn.functional.scaled_dot_product_attention))
    assert plain is not None
    assert fused is not None
    assert plain.exponent == pytest.approx(2.0, abs=0.05)
    assert fused.exponent < 1.5


def test_where_nothing_is_asked_of_torch_nothing_is_told() -> None:
    assert peak_bytes(lambda: np.zeros(MIB), "cpu") is None


def test_a_device_without_a_statistic_is_not_told() -> None:
    assert peak_bytes(lambda: None, "meta") is None


def test_an_error_of_the_call_passes_through() -> None:
    def broken() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        peak_bytes(broken, "cpu")


def test_events_at_addresses_that_nobody_took_are_ignored() -> None:
    events = [{"args": {"Bytes": size, "Addr": address}} for size, address in ((-9, 1), (4, 2), (-4, 2), (3, 2))]
    assert peak_of(events) == 4
    assert peak_of([]) is None

"""Where each kernel of a chain waits for the one ahead."""

from __future__ import annotations

import pytest

from pulsemd.device.overlap import Wait
from pulsemd.schedule.chain import KernelChain


@pytest.mark.parametrize("overlaps", [True, False])
def test_kernels_behind_the_first_of_a_chain_run_beside_it(overlaps):
    chain = KernelChain()
    chain.begin(overlaps)
    assert chain.join() == (Wait.LATER if overlaps else None)
    assert [chain.join(), chain.join()] == [Wait.LAST, Wait.LAST]
    chain.begin(overlaps)
    assert chain.join(first=Wait.FIRST) == (Wait.FIRST if overlaps else None)


def test_the_reader_of_what_a_kernel_writes_waits_before_it_reads():
    chain = KernelChain()
    chain.begin(overlaps=True)
    assert chain.join() is Wait.LATER
    assert chain.join(first=Wait.FIRST, then=Wait.FIRST) is Wait.LAST
    assert chain.join() is Wait.FIRST

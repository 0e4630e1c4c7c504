"""The longest chain of a captured graph."""

import pytest

from pulsemd.base.errors import TransportError
from pulsemd.device.graph import checked, longest_chain


def test_longest_chain_of_a_line_counts_every_node() -> None:
    assert longest_chain(range(5), [(k, k + 1) for k in range(4)]) == 5


def test_longest_chain_of_branches_takes_the_longer_one() -> None:
    edges = [(0, 1), (1, 2), (2, 5), (0, 3), (3, 5), (4, 5)]
    assert longest_chain(range(6), edges) == 4


def test_longest_chain_without_nodes_is_zero() -> None:
    assert longest_chain([], []) == 0


def test_checked_with_a_failed_call_names_the_error() -> None:
    class Driver:
        class CUresult:
            CUDA_SUCCESS = 0

        @staticmethod
        def cuGetErrorName(code: int) -> tuple[int, bytes]:
            return 0, b"CUDA_ERROR_OUT_OF_MEMORY"

    assert checked(Driver, (0, 7)) == (7,)
    with pytest.raises(TransportError, match="OUT_OF_MEMORY"):
        checked(Driver, (2,))

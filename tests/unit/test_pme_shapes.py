"""How a PME mesh is divided for the transforms on a device."""

from __future__ import annotations

import pytest

from pulsemd.kernels.pme.cuda_programs import COLUMNS, MOST_IN_REGISTERS, PlaneShape, two_factors
from pulsemd.kernels.pme.mesh import mesh_size

H200 = 227 * 1024


@pytest.mark.parametrize(
    ("n", "factors"), [(56, (7, 8)), (100, (10, 10)), (13, (1, 13)), (1, (1, 1)), (17, None)]
)
def test_factors_are_the_most_equal_ones_that_fit_into_registers(n, factors):
    assert two_factors(n) == factors


def test_even_meshes_up_to_168_points_are_divided():
    for n in range(20, 168):
        (size,) = set(mesh_size([[n, 0, 0], [0, n, 0], [0, 0, n]], 1.0, 4))
        shape = PlaneShape.of((size,) * 3, False, H200)
        if size % 2:
            assert shape is None
            continue
        assert shape is not None
        for first, second in (shape.a, shape.b, shape.c):
            assert 1 <= first <= second <= MOST_IN_REGISTERS
        assert shape.a[0] * shape.a[1] == shape.b[0] * shape.b[1] == 2 * shape.c[0] * shape.c[1] == size
        assert shape.row % 2 == 0
        assert shape.row > size // 2
        assert shape.column_blocks * COLUMNS >= size * shape.row


@pytest.mark.parametrize("shape", [(56, 56, 25), (56, 34, 56), (17, 56, 56), (200, 56, 56)])
def test_meshes_that_do_not_divide_go_to_the_library(shape):
    assert PlaneShape.of(shape, False, H200) is None


def test_planes_must_fit_into_shared_memory():
    needed = 100 * 51 * 8
    assert PlaneShape.of((100, 100, 100), False, needed) is not None
    assert PlaneShape.of((100, 100, 100), False, needed - 1) is None
    assert PlaneShape.of((100, 100, 100), True, 2 * needed) is not None
    assert PlaneShape.of((100, 100, 100), True, 2 * needed - 1) is None
    assert (
        PlaneShape.of((208, 56, 56), True, H200) is None
    )  # lines along a, for which a block asks for no more

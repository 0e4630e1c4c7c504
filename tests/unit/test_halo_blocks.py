"""How many blocks share the rows of a message of an exchange on the GPU."""

import pytest

from pulsemd.halo.device.blocks import blocks_of_message
from pulsemd.halo.device.cuda_programs import THREADS
from pulsemd.halo.device.tables import MOST_PARTS

TURNS = pytest.mark.parametrize(("direction", "turns"), [("forward", 32), ("reverse", 8)])


def test_blocks_are_as_many_as_have_rows():
    assert [blocks_of_message("forward", n, 1, 132) for n in (0, 1, THREADS, THREADS + 1)] == [1, 1, 1, 2]


@TURNS
@pytest.mark.parametrize(("messages", "blocks"), [(4, 33), (12, 11), (32, 4), (132, 1), (400, 1)])
def test_blocks_of_all_messages_are_at_most_one_for_each_multiprocessor(direction, turns, messages, blocks):
    assert blocks_of_message(direction, turns * THREADS * blocks, messages, 132) == blocks


@TURNS
def test_blocks_of_many_rows_are_more_than_multiprocessors(direction, turns):
    assert blocks_of_message(direction, turns * THREADS * 10, 32, 132) == 10


def test_blocks_are_at_most_as_many_as_there_are_words():
    assert blocks_of_message("reverse", 2**24, 32, 132) == MOST_PARTS

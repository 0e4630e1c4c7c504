"""What the host's thread spends between searches, by the clock and by its own."""

from __future__ import annotations

from time import sleep, thread_time

from pulsemd.schedule.phase import PhaseTimer


def test_time_of_the_host_between_searches_tells_work_from_waits():
    timer = PhaseTimer()
    with timer.between_searches():
        sleep(0.05)
    assert timer.host_wall >= 0.05
    assert timer.host_cpu < 0.02
    waited = timer.host_cpu
    with timer.between_searches():
        end = thread_time() + 0.02  # of this thread: what else the machine does is not counted
        while thread_time() < end:
            pass
    assert timer.host_cpu >= waited + 0.02
    timer.reset()
    assert (timer.host_wall, timer.host_cpu) == (0.0, 0.0)

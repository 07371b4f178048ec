# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""Several tests at once (pytest -n 2, by xdist), but nothing beside one that measures time (the
mark `alone`)."""

import fcntl

import pytest

from runner import waits
from runner.places import BUILD, RUN

ALONE = pytest.StashKey()
HELD = pytest.StashKey()


def needs_quiet(item):
    return item.stash.get(ALONE, False) or item.get_closest_marker("alone") is not None


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Tests go to whoever is free, in their order; xdist itself would hand them out by the dozen,
    which is for short ones that are all alike."""
    from xdist.scheduler import LoadScheduling

    class InOrder(LoadScheduling):
        def _send_tests(self, node, num):
            # Beside the one that runs a process must know the next.
            super()._send_tests(node, max(0, min(num, 2 - len(self.node2pending[node]))))

    return InOrder(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    if not hasattr(item.config, "workerinput"):
        return
    kind = fcntl.LOCK_EX if needs_quiet(item) else fcntl.LOCK_SH
    place = BUILD / "check"
    place.mkdir(parents=True, exist_ok=True)
    # Whoever waits at the door keeps others from going in, so that it gets its turn.
    with open(place / f".door.{RUN}", "w") as door:
        waits.lock(door, fcntl.LOCK_EX)
        held = open(place / f".room.{RUN}", "w")
        waits.lock(held, kind)
    item.stash[HELD] = held


@pytest.hookimpl(hookwrapper=True, tryfirst=True)
def pytest_runtest_teardown(item):
    yield  # perhaps with an exception: the second try would wait for this one's place
    held = item.stash.get(HELD, None)
    if held:
        held.close()
        del item.stash[HELD]


def pytest_sessionfinish(session):
    if not hasattr(session.config, "workerinput"):
        for name in ("door", "room"):
            (BUILD / f"check/.{name}.{RUN}").unlink(missing_ok=True)

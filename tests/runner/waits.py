# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""Time that a test waits for others: for its turn, or for a build that another process makes. It does
not count as time that the test takes."""

import fcntl
import time

_waited = 0.0


def lock(file, kind):
    """As fcntl.flock()."""
    global _waited
    begun = time.monotonic()
    fcntl.flock(file, kind)
    _waited += time.monotonic() - begun


def take():
    """Seconds since the last call."""
    global _waited
    waited, _waited = _waited, 0.0
    return waited

# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""Files of jobs, as ib_top, ib_stats, ib_trace and ib_connectivity read them: anybody may have put anything there."""

import json
import os
import stat

SCHEMA, VERSION = "btl_ib stats", 1
LARGEST = 256 << 20  # bytes of a file of counters: some 400 for each peer


# What a file of counters has at least: values by their type, lists by that of their entries, tables by "*", and by
# the names that they have at least.
SHAPE = {
    "component": str, "openmpi": str, "host": str, "job": str, "rank": int, "processes": int, "pid": int,
    "seconds": float, "counters": {"*": int}, "samples": {"seconds": [float], "counters": {"*": [int]}},
    "peers": [{
        "job": str, "rank": int, "rail": int, "dead": bool, "host": str, "address": str,
        "counters": {"retransmits": int, "sent_segments": int, "*": int},
        "levels": {name: int for name in ("srtt", "window", "in_flight", "datagram_max")},
    }],
}


class Bad(Exception):
    """A file that cannot be read, or that is none of ours: the text says which, and why."""


def shown(text):
    """Returns text for a terminal, in which nothing of it can move the cursor, colour, or write backwards."""
    return "".join(c if c.isprintable() else "?" for c in text)


def printable(value):
    """Returns what JSON told with texts that a terminal can show."""
    if isinstance(value, dict):
        return {shown(name): printable(each) for name, each in value.items()}
    if isinstance(value, list):
        return list(map(printable, value))
    return shown(value) if isinstance(value, str) else value


def read(path, most=None):
    """Returns the bytes of a regular file. What else there may be, as a FIFO or a device, is not waited for."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise Bad(f"{shown(path)} is no regular file")
            if most is not None and status.st_size > most:
                raise Bad(f"{shown(path)} is too large for a file of ours")
            return file.read()
    except OSError as error:
        raise Bad(f"{shown(path)}: {error.strerror}") from error


def names_in(path, ending):
    """Returns the paths with that ending in a directory, in order; of all else the path itself."""
    if not os.path.isdir(path):
        return [path]
    try:
        return [os.path.join(path, name) for name in sorted(os.listdir(path)) if name.endswith(ending)]
    except OSError as error:
        raise Bad(f"{shown(path)}: {error.strerror}") from error


def misfit(value, shape, name):
    """Returns the name of the first part of a value that is not as the shape has it; '' if all is."""
    if isinstance(shape, dict) and isinstance(value, dict):
        parts = [(f"{name}.{key}", value.get(key), shape.get(key, shape.get("*")))
                 for key in ({*value, *shape} - {"*"} if "*" in shape else shape)]
    elif isinstance(shape, list) and isinstance(value, list):
        parts = [(f"{name}[{i}]", each, shape[0]) for i, each in enumerate(value)]
    elif shape in (int, float):  # true is an int, and NaN a float
        return "" if type(value) in (int, shape) and 0 <= value < 2**64 else name
    else:
        return "" if isinstance(shape, type) and isinstance(value, shape) else name
    return next((found for part in parts if (found := misfit(part[1], part[2], part[0]))), "")


def counters(path):
    """Returns what btl_ib_stats_file wrote; None if that is nothing yet."""
    text = read(path, LARGEST)
    if not text:
        return None
    path = shown(path)
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Bad(f"{path} is no JSON: {error}") from error
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        raise Bad(f"{path} was not written by btl_ib_stats_file")
    if data.get("version") != VERSION:
        raise Bad(f"{path} has version {shown(str(data.get('version')))} of the format, not {VERSION}")
    part = misfit(data, SHAPE, "")
    samples = data.get("samples")
    if not part and any(len(each) != len(samples["seconds"]) for each in samples["counters"].values()):
        part = ".samples"
    if part:
        raise Bad(f"{path} was not written by btl_ib_stats_file: {shown(part[1:])} is missing, or not as that writes it")
    data.setdefault("running", False)  # of a component that wrote at the end only
    return data

# Copyright (c) 2026 The btl_ib developers. All rights reserved.
# SPDX-License-Identifier: BSD-3-Clause
"""How the plots of tools/bench, ib_stats, ib_trace and the simulator's look. All else of a tool works without matplotlib."""

import sys

COLOURS = ["#1b6ca8", "#d98e04", "#2a9d6f", "#b23a48", "#7b5ea7", "#555555"]


class Missing(RuntimeError):
    """There is no matplotlib."""


def pyplot(option):
    """matplotlib.pyplot, for files, with our style. The same data make the same bytes."""
    try:
        import matplotlib
    except ImportError as error:
        raise Missing(f"{option} needs matplotlib, which {sys.executable} does not have"
                      " (Debian: apt install python3-matplotlib)") from error
    matplotlib.use("Agg")
    from matplotlib import cycler
    from matplotlib import pyplot as plots

    matplotlib.rcParams.update({
        "axes.axisbelow": True,
        "axes.grid": True,
        "axes.prop_cycle": cycler(color=COLOURS),
        "axes.spines.right": False,
        "axes.spines.top": False,
        "font.size": 9,
        "grid.color": "#e2e2e2",
        "legend.fontsize": "small",
        "legend.frameon": False,
        "svg.fonttype": "none",
        "svg.hashsalt": "btl_ib",
    })
    return plots


def save(figure, path):
    """Its name chooses the format: .svg, .png, .pdf."""
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None} if str(path).endswith(".svg") else None)

"""Plots as SVG, by Matplotlib without a display."""

from __future__ import annotations

import io
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from msmq.pipeline.reports.model import Plot, Series, plain

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS: Final = ("#2f6f9f", "#c8741f", "#4c9a5b", "#b5433f", "#7a5ea8", "#8a6d52", "#c76fa5", "#6f7680")
"""Colours of series, each with a contrast of at least 3 to the light and the dark background of a page."""

_INK: Final = "#010203"
"""Stands for the colour of the page's text, which Matplotlib cannot name."""

_STYLE: Final[dict[Any, Any]] = {
    "svg.fonttype": "none",
    "font.size": 9,
    "text.color": _INK,
    "axes.edgecolor": _INK,
    "axes.labelcolor": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "grid.color": _INK,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "legend.facecolor": "none",
}

_ATTRIBUTE: Final = re.compile(r'style="[^"<>]*"')
_NARROWEST: Final = timedelta(minutes=30)
"""The time that is drawn before and after a single moment."""

_LONGEST: Final = 34
_MOST_NAMES: Final = 12


def svg(plot: Plot) -> str:
    """Render a plot as an SVG element for a page; the result is deterministic."""
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context({**_STYLE, "svg.hashsalt": ascii(plot.title)}):
        figure = Figure(figsize=(7.5, 3.2), layout="constrained")
        axes = figure.add_subplot()
        axes.set_prop_cycle(color=COLOURS)
        if plot.kind == "lines":
            _lines(axes, plot)
        else:
            _bars(axes, plot)
        axes.set_title(_plain(plot.title))
        axes.set_xlabel(_plain(plot.across))
        axes.set_ylabel(_plain(plot.up))
        axes.set_ylim(bottom=0)
        axes.grid(axis="y", alpha=0.3)
        if len(plot.series) > 1:
            axes.legend(fontsize="small")
        drawn = io.StringIO()
        figure.savefig(drawn, format="svg", metadata={"Date": None, "Creator": None})
    text = drawn.getvalue()
    return _ATTRIBUTE.sub(lambda style: style[0].replace(_INK, "currentColor"), text[text.index("<svg") :])


def _lines(axes: Axes, plot: Plot) -> None:
    from matplotlib.dates import ConciseDateFormatter

    for series in plot.series:
        axes.plot(_places(plot, series), series.values, marker=".", label=_plain(series.name))
    if plot.is_timed:
        moments = {moment for series in plot.series for moment in _places(plot, series)}
        if len(moments) == 1:
            # Matplotlib would show the four years around it.
            [moment] = moments
            axes.set_xlim(moment - _NARROWEST, moment + _NARROWEST)
        # Short names of the hours, and the date once.
        locator = axes.xaxis.get_major_locator()
        axes.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]


def _bars(axes: Axes, plot: Plot) -> None:
    names = list(dict.fromkeys(place for series in plot.series for place in series.places))
    share = 0.8 if plot.kind == "stack" else 0.8 / max(len(plot.series), 1)
    below = [0.0] * len(names)
    for number, series in enumerate(plot.series):
        known = dict(zip(series.places, series.values, strict=True))
        values = [known.get(name, 0.0) for name in names]
        shift = 0.0 if plot.kind == "stack" else (number - (len(plot.series) - 1) / 2) * share
        places = [position + shift for position in range(len(names))]
        bottom = below if plot.kind == "stack" else None
        drawn = axes.bar(places, values, width=share, bottom=bottom, label=_plain(series.name))
        if plot.kind == "bars" and len(names) <= _MOST_NAMES:
            axes.bar_label(drawn, [f"{value:,.0f}" if value else "" for value in values], fontsize="small")
        below = [one + two for one, two in zip(below, values, strict=True)]
    turned = len(names) > _MOST_NAMES // 3
    axes.set_xticks(
        range(len(names)),
        [_plain(_short(str(name))) for name in names],
        rotation=30 if turned else 0,
        ha="right" if turned else "center",
    )


def _places(plot: Plot, series: Series) -> list[Any]:
    if not plot.is_timed:
        return list(series.places)
    return [datetime.fromtimestamp(float(place) / 1_000_000, UTC) for place in series.places]


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"...{text[3 - _LONGEST :]}"


def _plain(text: str) -> str:
    """The text without characters that Matplotlib reads as mathematics or that SVG does not allow."""
    return plain(text).replace("$", r"\$")

"""A report as one self-contained HTML page: no script, no network, plots inside."""

from __future__ import annotations

from html import escape
from typing import Final

from msmq.pipeline.reports.model import Cell, JobReport, Section, Table, cell_text
from msmq.pipeline.reports.plots import svg

_STYLE: Final = """
:root { color-scheme: light dark }
:root { --ink: #222; --page: #ffffff; --line: #ddd; --faint: #5d6670; --note: #eef4f8 }
@media (prefers-color-scheme: dark) {
:root { --ink: #e4e6e8; --page: #15181c; --line: #3a4048; --faint: #9aa3ad; --note: #1d2a35 }
}
body { font: 15px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 96em; padding: 0 1em }
body { color: var(--ink); background: var(--page) }
h1 { font-size: 1.6em } h2 { font-size: 1.2em; margin-top: 2em; border-bottom: 1px solid var(--line) }
.verdict { font-size: 1.15em; padding: .6em .9em; background: var(--note); border-left: 4px solid #2f6f9f }
table { border-collapse: collapse; margin: .8em 0; font-size: .9em }
table.wide { font-size: .78em }
caption { text-align: left; font-weight: 600; padding: .3em 0 }
th, td { padding: .25em .5em; border-bottom: 1px solid var(--line); text-align: left; vertical-align: top }
td.long { overflow-wrap: anywhere }
td.number { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums }
figure { margin: 1em 0 } svg { max-width: 100%; height: auto }
dl { display: grid; grid-template-columns: max-content auto; gap: .1em 1.2em }
dt { color: var(--faint) } dd { margin: 0; overflow-wrap: anywhere }
"""

_WIDE: Final = 8
"""The number of columns from which a table has smaller letters, so that it fits the page."""

_LONG: Final = 20


def html_page(report: JobReport) -> str:
    """Render a report as an HTML page."""
    facts = "".join(
        f"<dt>{escape(name)}</dt><dd>{escape(cell_text(fact))}</dd>" for name, fact in report.facts
    )
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>{escape(report.title)}</title><style>{_STYLE}</style></head><body>\n"
        f"<h1>{escape(report.title)}</h1>\n"
        f'<p class="verdict">{escape(report.verdict)}</p>\n'
        f"<dl>{facts}</dl>\n{''.join(_section(section) for section in report.sections)}</body></html>\n"
    )


def _section(section: Section) -> str:
    text = f"<p>{escape(section.text)}</p>\n" if section.text else ""
    tables = "".join(_table(table) for table in section.tables)
    plots = "".join(f"<figure>{svg(plot)}</figure>\n" for plot in section.plots if not plot.is_empty)
    return f"<section><h2>{escape(section.title)}</h2>\n{text}{tables}{plots}</section>\n"


def _table(table: Table) -> str:
    caption = f"<caption>{escape(table.title)}</caption>"
    if not table.rows:
        return f"<table>{caption}<tr><td>nothing</td></tr></table>\n"
    head = "".join(f"<th>{escape(name)}</th>" for name in table.columns)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in table.rows)
    more = (
        f"<tr><td colspan={len(table.columns)}>and {table.left_out:,} more</td></tr>"
        if table.left_out
        else ""
    )
    width = " class=wide" if len(table.columns) >= _WIDE else ""
    return f"<table{width}>{caption}<tr>{head}</tr>{body}{more}</table>\n"


def _cell(cell: Cell) -> str:
    text = cell_text(cell)
    if isinstance(cell, int | float):
        kind = " class=number"
    else:
        # Only such words are broken, so that short names stay whole.
        kind = " class=long" if any(len(word) > _LONG for word in text.split()) else ""
    return f"<td{kind}>{escape(text)}</td>"

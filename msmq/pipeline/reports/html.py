"""A report as one self-contained HTML page: no script, no network, plots inside."""

from __future__ import annotations

from html import escape
from typing import Final

from msmq.pipeline.reports.model import JobReport, Section, Table, cell_text
from msmq.pipeline.reports.plots import svg

_STYLE: Final = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 72em; padding: 0 1em; color: #222 }
h1 { font-size: 1.6em } h2 { font-size: 1.2em; margin-top: 2em; border-bottom: 1px solid #ddd }
.verdict { font-size: 1.15em; padding: .6em .9em; background: #eef4f8; border-left: 4px solid #2f6f9f }
table { border-collapse: collapse; margin: .8em 0; font-size: .9em; display: block; overflow-x: auto }
caption { text-align: left; font-weight: 600; padding: .3em 0 }
th, td { padding: .25em .7em; border-bottom: 1px solid #e4e4e4; text-align: left; white-space: nowrap }
td.number { text-align: right; font-variant-numeric: tabular-nums }
figure { margin: 1em 0 } svg { max-width: 100%; height: auto }
dl { display: grid; grid-template-columns: max-content auto; gap: .1em 1.2em }
dt { color: #666 } dd { margin: 0 }
"""


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
    body = "".join(
        "<tr>"
        + "".join(
            f"<td{' class=number' if isinstance(cell, int | float) else ''}>{escape(cell_text(cell))}</td>"
            for cell in row
        )
        + "</tr>"
        for row in table.rows
    )
    more = (
        f"<tr><td colspan={len(table.columns)}>and {table.left_out:,} more</td></tr>"
        if table.left_out
        else ""
    )
    return f"<table>{caption}<tr>{head}</tr>{body}{more}</table>\n"

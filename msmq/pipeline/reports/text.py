"""A report as text, without its plots."""

from __future__ import annotations

from msmq.pipeline.reports.model import JobReport, Table, cell_text, plain

_LONGEST = 60


def text_page(report: JobReport) -> str:
    """Render a report as text; every line has a line end."""
    lines = [report.title, "=" * len(report.title), "", report.verdict, ""]
    width = max((len(name) for name, _ in report.facts), default=0)
    lines += [f"{name:<{width}}  {cell_text(fact)}" for name, fact in report.facts]
    for section in report.sections:
        lines += ["", section.title, "-" * len(section.title)]
        lines += [section.text] if section.text else []
        for table in section.tables:
            lines += ["", *_table(table)]
    return "".join(f"{plain(line)}\n" for line in lines)


def _table(table: Table) -> list[str]:
    lines = [table.title]
    if not table.rows:
        return [*lines, "  nothing"]
    cells = [[_short(cell_text(cell)) for cell in row] for row in table.rows]
    numeric = [
        all(isinstance(row[column], int | float | None) for row in table.rows)
        for column in range(len(table.columns))
    ]
    widths = [
        max(len(name), *(len(row[column]) for row in cells)) for column, name in enumerate(table.columns)
    ]
    for row in [list(table.columns), *cells]:
        shown = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, numeric, strict=True)
        ]
        lines.append("  " + "  ".join(shown).rstrip())
    if table.left_out:
        lines.append(f"  and {table.left_out:,} more")
    return lines


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."

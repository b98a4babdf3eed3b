"""Reports of jobs, as text and as one HTML page with plots.

Nothing here needs Spark: a report is a few values that a job has computed.
"""

from msmq.pipeline.reports.html import html_page
from msmq.pipeline.reports.model import JobReport, Plot, Section, Series, Table
from msmq.pipeline.reports.text import text_page

__all__ = ["JobReport", "Plot", "Section", "Series", "Table", "html_page", "text_page"]

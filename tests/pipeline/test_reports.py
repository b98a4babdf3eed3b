"""Reports: the text that people read, and the page with its plots."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from msmq.pipeline.reports import JobReport, Plot, Section, Series, Table, html_page, text_page
from msmq.pipeline.reports.model import cell_text, time_text
from msmq.pipeline.reports.plots import COLOURS, svg

HOUR = 3600 * 1_000_000
BARS = Plot("Fates", "bars", [Series("messages", ["lost", "delivered"], [1, 20])])
LINES = Plot("Growth", "lines", [Series("a", [0, HOUR], [1, 2])], "UTC", "bytes", is_timed=True)


PAGES = ("#ffffff", "#15181c")
"""The backgrounds of a page, light and dark."""


def luminance(colour: str) -> float:
    """The relative luminance as WCAG defines it."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    """The contrast of two colours as WCAG defines it."""
    lower, higher = sorted((luminance(one), luminance(other)))
    return (higher + 0.05) / (lower + 0.05)


def report(*sections: Section) -> JobReport:
    return JobReport(
        "Results of messages", "1 lost", [("input ALPHA", "/data"), ("messages", 1234)], sections
    )


class Reader(HTMLParser):
    """The elements and the text of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.elements.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


class TextTests(SynchronousTestCase):
    """A report as text."""

    def test_layout(self) -> None:
        """Title, verdict, facts and tables, with numbers to the right."""
        table = Table("By fate", ["fate", "messages"], [["lost", 1], ["delivered", 12345]], 7)
        self.assertEqual(
            text_page(report(Section("Fates", "Each once.", [table]))),
            "Results of messages\n"
            "===================\n\n"
            "1 lost\n\n"
            "input ALPHA  /data\n"
            "messages     1,234\n\n"
            "Fates\n-----\nEach once.\n\n"
            "By fate\n"
            "  fate       messages\n"
            "  lost              1\n"
            "  delivered    12,345\n"
            "  and 7 more\n",
        )

    def test_empty_table(self) -> None:
        """A table without rows says so."""
        self.assertIn(
            "  nothing\n", text_page(report(Section("Fates", "", [Table("By fate", ["fate"], [])])))
        )

    def test_cells(self) -> None:
        """A cell has no control characters and no line breaks; an unknown value is a dash."""
        self.assertEqual(cell_text("a\x1b[2J\nb"), "a\ufffd[2J\ufffdb")
        self.assertEqual(
            [cell_text(cell) for cell in (None, True, 1.5, 1000)], ["-", "yes", "1.500", "1,000"]
        )
        self.assertEqual(time_text(0), "1970-01-01 00:00:00")
        self.assertEqual((time_text(1 << 62), time_text(None)), ("never", None))

    def test_lines(self) -> None:
        """Nor in a verdict that quotes an exception, which the sender of the message chose."""
        text = text_page(JobReport("What failed", "the largest has 3: Evil\x1b[2J\nException"))
        self.assertIn("\nthe largest has 3: Evil\ufffd[2J\ufffdException\n", text)


class PageTests(SynchronousTestCase):
    """A report as a page."""

    def test_plots(self) -> None:
        """Each plot with anything in it is drawn inside the page; nothing is fetched or run."""
        empty = Plot("Nothing", "bars", [Series("messages", [], [])])
        page = html_page(report(Section("Fates", plots=[BARS, LINES, empty])))
        elements = Reader(page).elements
        self.assertEqual(elements.count("svg"), 2)
        self.assertFalse({"script", "link", "img", "iframe", "object"} & set(elements))
        self.assertNotIn("url(http", page)
        self.assertIn("Growth", page)

    def test_each_kind(self) -> None:
        """Bars, stacks and lines are drawn, with their names, and the same each time."""
        for kind in ("bars", "stack", "lines"):
            places: list[str | float] = [1, 2] if kind == "lines" else ["one", "two"]
            series = [Series("first", places, [1, 2]), Series("second", places[:1], [3])]
            plot = Plot(f"Plot of {kind}", kind, series)
            drawn = svg(plot)
            self.assertEqual(drawn, svg(plot))
            text = "".join(ElementTree.fromstring(drawn).itertext())
            for word in ("first", "second", kind):
                self.assertIn(word, text)

    def test_single_moment(self) -> None:
        """A plot over time of one moment shows the minutes around it, not years."""
        moment = 1_700_000_000 * 1_000_000
        drawn = svg(Plot("Growth", "lines", [Series("a", [moment], [1])], "UTC", is_timed=True))
        ticks = re.findall(r">(\d[^<]*)<", drawn)
        self.assertLessEqual({"22:00", "22:10", "22:20", "2023-Nov-14"}, set(ticks))

    def test_colour_schemes(self) -> None:
        """A page follows the reader's colour scheme; its plots have the page's ink, and distinct lines."""
        page = html_page(report(Section("Fates", plots=[BARS, LINES])))
        self.assertIn("color-scheme: light dark", page)
        self.assertIn("prefers-color-scheme: dark", page)
        for background in PAGES:
            self.assertIn(f"--page: {background}", page)
            for colour in COLOURS:
                self.assertGreaterEqual(contrast(colour, background), 3, (colour, background))
        for plot in re.findall(r"<svg.*?</svg>", page, re.DOTALL):
            for element in ElementTree.fromstring(plot).iter("{http://www.w3.org/2000/svg}text"):
                self.assertIn("fill: currentColor", element.get("style", ""))
            # No background of its own, and nothing in a colour that one of the schemes hides.
            self.assertFalse({"#ffffff", "#000000"} & set(re.findall(r"#[0-9a-f]{6}", plot)))

    def test_wide_table(self) -> None:
        """A table of many columns fits the page: texts wrap, and nothing has to be scrolled."""
        names = [f"column {number}" for number in range(14)]
        page = html_page(report(Section("Fates", tables=[Table("Wide", names, [["text"] * 14])])))
        style = page[: page.index("</style>")]
        self.assertNotIn("overflow-x", style)
        for rule in re.findall(r"([^{}]+)\{[^}]*nowrap", style):
            self.assertIn(".number", rule)
        self.assertIn("<table class=wide>", page)

    @given(st.text(max_size=30))
    def test_any_text(self, text: str) -> None:
        """The name of a queue, with any characters, is text in the page."""
        table = Table(text, [text], [[text]])
        page = Reader(html_page(report(Section("Fates", text, [table]))))
        self.assertEqual(page.elements.count("table"), 1)
        self.assertFalse({"script", "b", "i"} & set(page.elements))
        if text.strip() and text.isprintable():
            self.assertIn(text, page.text)

    def test_strange_names(self) -> None:
        """A plot takes names that are no mathematics and no markup."""
        name = "a$b$ <script>&amp; \x00\ud800 \\frac{1}"
        drawn = svg(Plot(name, "bars", [Series(name, [name], [1])], name, name))
        self.assertIn("script", "".join(ElementTree.fromstring(drawn).itertext()))
        self.assertNotIn("<script", drawn)

"""Makes the documentation site in C{build/docs}: C{make docs}.

The pages are gathered in a tree that looks like the repository, so that links work as they do there.
Sphinx makes the pages, and pydoctor, which knows zope.interface, the reference of the Python API.
A warning of either is an error: a broken link, a page without navigation, a docstring that cannot be read.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, Final

PROJECT: Final = Path(__file__).resolve().parent.parent.parent
SITE: Final = PROJECT / "docs" / "site"

FIRST_PAGE: Final = PROJECT / "docs" / "index.md"
"""It becomes the first page of the site, with the navigation."""

GATHERED: Final = ("docs", "examples", "bench", "news", "packaging")
"""Directories whose pages are part of the site."""

LINKED: Final = re.compile(r"\[[^\]]*\]\(([^)#\s]+)")
MERMAID: Final = re.compile(r"```mermaid\n.*?```\n", re.DOTALL)


def main() -> int:
    """Make the site; the status is 0 only without warnings."""
    build = PROJECT / "build" / "docs"
    shutil.rmtree(build, ignore_errors=True)
    source, html = build / "source", build / "html"
    source.mkdir(parents=True)
    gather(source)
    generate(source)
    status = subprocess.run(
        [
            *(sys.executable, "-m", "sphinx", "--builder", "html", "--fail-on-warning", "--keep-going"),
            *("--quiet", "--conf-dir", SITE, "--doctree-dir", build / "doctrees", source, html),
        ]
    ).returncode
    faults = make_api(html / "api")
    for fault in faults:
        print(f"pydoctor: {fault}", file=sys.stderr)
    if not status and not faults:
        print(f"{html / 'index.html'}")
    return 1 if status or faults else 0


def gather(source: Path) -> None:
    """Copy the tracked pages, and the files that they link to."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=PROJECT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    for name in listed:
        path = Path(name)
        is_fragment = path.parts[0] == "news" and path.name != "README.md"
        if (len(path.parts) > 1 and path.parts[0] not in GATHERED) or is_fragment:
            continue
        if not (PROJECT / path).exists():
            continue
        target = source / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(adapted(source, path), encoding="utf-8")
    shutil.copytree(SITE / "static", source / "static")


def adapted(source: Path, path: Path) -> str:
    """A page as Sphinx takes it: diagrams as directives, and links to files that are part of the site."""
    text = (PROJECT / path).read_text(encoding="utf-8")
    if shutil.which("dot") is not None:
        # Each machine is drawn twice, for readers of the repository and for Graphviz.
        text = MERMAID.sub("", text).replace("```dot\n", "```{graphviz}\n")
    else:
        text = text.replace("```mermaid\n", "```text\n")

    def linked(match: re.Match[str]) -> str:
        link = match.group(1)
        if "://" in link:
            return match.group()
        target = (PROJECT / path).parent / link
        if target.resolve() == FIRST_PAGE:
            return match.group().replace(f"({link}", f"({os.path.relpath('index.md', path.parent)}")
        if target.is_dir():
            return match.group().replace(f"({link}", f"({link.rstrip('/')}/index.md")
        if target.is_file() and target.suffix != ".md":
            copied = source / target.resolve().relative_to(PROJECT)
            copied.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(target, copied)
        return match.group()

    return LINKED.sub(linked, text)


def generate(source: Path) -> None:
    """Write the pages that are made from the code: the index, the examples, the command, the APIs."""
    (source / "reference").mkdir()
    (source / "reference" / "cli.md").write_text(command_reference(), encoding="utf-8")
    (source / "reference" / "api.md").write_text(API_PAGE, encoding="utf-8")
    import references

    (source / "reference" / "metrics.md").write_text(references.metrics_reference(), encoding="utf-8")
    (source / "reference" / "http.md").write_text(references.http_reference(), encoding="utf-8")
    (source / "examples" / "index.md").write_text(examples_page(source), encoding="utf-8")
    (source / "index.md").write_text(index_page(source), encoding="utf-8")


API_PAGE: Final = """# Reference of the Python API

The <a href="../api/index.html">reference of the public doors</a> describes every name of `msmq`,
`msmq.interfaces`, `msmq.client` and `msmq.testing`, with its methods, arguments and errors.
Everything else is internal.
"""


def index_page(source: Path) -> str:
    """The first page, with the navigation of all others."""
    lines = [(source / "docs" / "index.md").read_text(encoding="utf-8").replace("](", "](docs/")]
    rest = {str(path.relative_to(source)) for path in source.rglob("*.md")} - {"index.md", "docs/index.md"}
    sections: list[dict[str, Any]] = tomllib.loads((SITE / "navigation.toml").read_text())["section"]
    first = {page for section in sections for page in section.get("pages", ())}
    for section in sections:
        pages = [page for page in section.get("pages", ()) if page in rest]
        for directory in section.get("directories", ()):
            pages += sorted(each for each in rest - first if each.startswith(f"{directory}/"))
        rest -= set(pages)
        lines += [f"```{{toctree}}\n:caption: {section['title']}\n:maxdepth: 1\n"]
        lines += [f"/{page}" for page in dict.fromkeys(pages)]
        lines += ["```\n"]
    (source / "docs" / "index.md").unlink()
    return "\n".join(lines)


def examples_page(source: Path) -> str:
    """The examples, each with the first line of its docstring or its README."""
    lines = ["# Examples", "", "| example | what it shows |", "|---|---|"]
    examples = PROJECT / "examples"
    for path in sorted(examples.iterdir()):
        if path.is_dir() and (path / "README.md").exists():
            title = (path / "README.md").read_text(encoding="utf-8").splitlines()[0].lstrip("# ")
            lines.append(f"| [`examples/{path.name}`]({path.name}/README.md) | {title} |")
        elif path.suffix == ".py":
            text = path.read_text(encoding="utf-8")
            found = re.match(r'"""(.+?)(?:"""|\n\n)', text, re.DOTALL)
            summary = " ".join(found.group(1).split()) if found else ""
            shutil.copy(path, source / "examples" / path.name)
            lines.append(f"| [`examples/{path.name}`]({path.name}) | {markdown(summary)} |")
    return "\n".join(lines) + "\n"


def markdown(text: str) -> str:
    """A line of a docstring as Markdown."""
    return re.sub(r"[CLI]\{([^{}]*)\}", r"`\1`", text).replace("|", "\\|")


def command_reference() -> str:
    """The help of every verb of C{msmq}, from the code."""
    import click

    from msmq.cli.command import command

    lines = ["# Help of every command", "", "[The command `msmq`](../docs/commands.md) explains them.", ""]

    def describe(verb: click.Command, context: click.Context, depth: int) -> None:
        lines.extend([f"{'#' * depth} `{context.command_path}`", "", "```text"])
        lines.extend([verb.get_help(context), "```", ""])
        if isinstance(verb, click.Group):
            for name in verb.list_commands(context):
                inner = verb.get_command(context, name)
                if inner is not None and not inner.hidden:
                    describe(inner, click.Context(inner, info_name=name, parent=context), min(depth + 1, 4))

    describe(command, click.Context(command, info_name="msmq", terminal_width=90), 2)
    return "\n".join(lines)


UNKNOWN: Final = (
    # What twisted and zope define is not part of the reference.
    r'Class "msmq\.interfaces\.\S+" is not an interface',
    r'Interface "msmq\.interfaces\.\S+" not found',
    r'Cannot find link target for "(?:twisted|zope|importlib|typing|asyncio|pytest)\.',
)
FAULT: Final = re.compile(r"^\S*?/?(msmq/\S+\.py:\d+: .*)$", re.MULTILINE)


def faults_of(output: str) -> list[str]:
    """The warnings of pydoctor, apart from those about names that are not ours."""
    return [line for line in FAULT.findall(output) if not any(re.search(each, line) for each in UNKNOWN)]


def make_api(target: Path) -> list[str]:
    """Make the reference of the public doors with pydoctor; its warnings about modules that are shown."""
    doors = ["msmq", "msmq.interfaces"]
    public = [*doors, "msmq.testing", "msmq.client"]
    shown = {"msmq/__init__.py"}
    for door in doors:
        module = __import__(door, fromlist=["__all__"])
        public += [f"{door}.{name}" for name in module.__all__]
        shown |= {home.replace(".", "/") + ".py" for home in module._MODULES}
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pydoctor", "--project-name", "msmq", "--docformat", "epytext"),
            *("--project-url", "../index.html", "--html-output", target, "--privacy", "HIDDEN:msmq.*"),
            *(f"--privacy=PUBLIC:{name}" for name in public),
            *("--privacy=PUBLIC:msmq.testing.**", "--privacy=PUBLIC:msmq.client.**", PROJECT / "msmq"),
        ],
        cwd=PROJECT,
        capture_output=True,
        text=True,
    )
    output = done.stdout + done.stderr
    faults = [
        fault
        for fault in faults_of(output)
        if (file := fault.partition(":")[0]) in shown
        or file.startswith(("msmq/interfaces/", "msmq/testing/", "msmq/client/"))
    ]
    # pydoctor counts docstrings of modules that are not shown too.
    return faults if (target / "index.html").exists() else [output[-2000:]]


if __name__ == "__main__":
    sys.exit(main())

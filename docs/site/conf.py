"""Sphinx's settings for the documentation; C{docs/site/build.py} gathers the pages and runs it."""

from __future__ import annotations

import os
import shutil
from importlib.metadata import version as installed_version

project = "msmq"
author = "The msmq authors"
copyright = author
version = release = installed_version("msmq")

extensions = ["myst_parser", "sphinx.ext.graphviz"]
source_suffix = {".md": "markdown"}
root_doc = "index"
nitpicky = True

myst_heading_anchors = 6
myst_enable_extensions = ["colon_fence"]
# Fences of shell sessions, HTTP and Windows batch files are shown without colours.
highlight_language = "text"

html_theme = "furo"
html_title = f"msmq {release}"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
# The theme has no fonts and scripts of other servers: the pages work from a disk.
html_theme_options = {"navigation_with_keys": True}

graphviz_output_format = "svg"
if shutil.which("dot") is None and not os.environ.get("CI"):
    extensions.remove("sphinx.ext.graphviz")

"""Settings of Sphinx for the site; ``docs/website.py`` runs it on a copy of the pages."""

from __future__ import annotations

from typing import Any

from resume_dl import __version__

project = "resume-dl"
author = "The resume-dl founders"
release = version = __version__
language = "en"
extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
root_doc = "index"
nitpicky = True
smartquotes = False  # a quote in a command stays what is typed
myst_heading_anchors = 4  # links to headings, as in the pages' own repository
html_theme = "furo"  # its fonts are the system's, and it loads nothing from elsewhere
html_title = "resume-dl"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_copyright = False
html_use_index = False
html_domain_indices = False


def mark_language(app: Any, page: str, template: str, context: dict[str, Any], doctree: Any) -> None:
    """Give a Chinese page the Chinese sidebar, and say its language in the HTML, by which browsers choose glyphs."""
    del template, doctree
    if not page.endswith(".zh-CN"):
        return
    context["language"] = "zh-CN"
    context["root_doc"] = context["master_doc"] = "index.zh-CN"  # where the sidebar's title leads
    toctree = context["toctree"]

    def from_the_chinese_page(**options: Any) -> str:
        _set_root(app, "index.zh-CN")
        try:
            return str(toctree(**options))
        finally:
            _set_root(app, root_doc)

    context["toctree"] = from_the_chinese_page


def _set_root(app: Any, page: str) -> None:
    app.config.root_doc = page
    vars(app.env).pop("master_doctree", None)  # which remembers the page from which sidebars are drawn


def setup(app: Any) -> None:
    """Register what is ours, before the theme draws the sidebar."""
    app.connect("html-page-context", mark_language, priority=400)

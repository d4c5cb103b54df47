# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
"""How Sphinx renders the site. tools/site/make.py writes the pages that it reads, and starts it."""

project = "muster"
copyright = "the muster authors"
html_show_sphinx = False
html_title = "muster"

extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
root_doc = "index"
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 6
myst_links_external_new_tab = False
smartquotes = False
suppress_warnings = ["myst.header", "misc.highlighting_failure"]
highlight_language = "none"  # our fences name their language

html_theme = "furo"
html_static_path = ["_static"]
html_css_files = ["muster.css"]
html_copy_source = False
html_show_sourcelink = False
html_permalinks_icon = "#"
html_theme_options = {"navigation_with_keys": True, "top_of_page_buttons": []}
pygments_style = "friendly"
pygments_dark_style = "github-dark"

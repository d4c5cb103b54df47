# SPDX-FileCopyrightText: the muster authors
# SPDX-License-Identifier: Apache-2.0
"""Make a drawn figure fit to stand inside the page, beside others and in both colour schemes."""

from __future__ import annotations

import io
import re

from matplotlib import pyplot

from styles import recolor


def to_svg(figure, prefix: str, label: str) -> str:
    buffer = io.StringIO()
    figure.savefig(
        buffer, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None}
    )
    pyplot.close(figure)
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    for pattern in (r"<!--.*?-->", r"<metadata>.*?</metadata>", r"<style.*?</style>"):
        text = re.sub(pattern, "", text, flags=re.S)
    view = re.search(r'viewBox="[^"]*"', text).group(0)
    name = label.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
    text = re.sub(r"<svg.*?>", f'<svg {view} role="img" aria-label="{name}">', text, count=1, flags=re.S)
    text = text.replace("xlink:href=", "href=")
    text = re.sub(r'\bid="', f'id="{prefix}-', text)
    text = re.sub(r'href="#', f'href="#{prefix}-', text)
    text = re.sub(r"url\(#", f"url(#{prefix}-", text)
    # The page chooses the font family; the drawing keeps size and weight.
    text = re.sub(
        r"font: ((?:bold|700|600) )?([\d.]+)px [^;\"]*",
        lambda m: f"font-size: {m[2]}px{'; font-weight: 600' if m[1] else ''}",
        text,
    )
    replacement = recolor()
    return re.sub(r": (#[0-9a-f]{6})\b", lambda m: f": {replacement.get(m[1], m[1])}", text).strip()

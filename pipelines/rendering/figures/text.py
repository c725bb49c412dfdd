"""Text of figures: widths estimated without a font file, so generously, and labels wrapped and cut by them."""

import functools
import re
import unicodedata

from pipelines.clean_text import one_line

_EMS = {
    **dict.fromkeys(" .,:;'`!|ijlftrIJ()[]/\\-", 0.41),
    **dict.fromkeys("mwMWOQ@%+=<>#~^&\N{HORIZONTAL ELLIPSIS}\N{MINUS SIGN}", 0.93),
    **dict.fromkeys('\N{EN DASH}_*"{}?$', 0.64),
}
"""Widths relative to the font's size, of the widest common sans-serif fonts."""
_PART = re.compile(r"\s*(?:[^\s/_-]+[/_-]*|[/_-]+)")
"""What is kept in one line where it fits: words, and parts of names such as `model-7b-instruct`."""
_MAX_CHARS = 400
_ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"


def text_width(text: str, size: float) -> float:
    """Return the width of one line at a font size, at least that of common sans-serif fonts."""
    return size * sum(map(_em, text))


def widest_part(text: str, size: float) -> float:
    """Return the width below which a word or a part of a name would be broken."""
    return max((text_width(part.strip(), size) for part in _PART.findall(one_line(text)[:_MAX_CHARS])), default=0.0)


def wrap(text: str, width: float, *, size: float, lines: int) -> list[str]:
    """Return at most `lines` lines of cleaned text that fit into `width`; an ellipsis marks what was cut."""
    cleaned, rows = one_line(text), [""]
    for part in _PART.findall(cleaned[:_MAX_CHARS]):
        if text_width(rows[-1] + part, size) <= width:
            rows[-1] += part
            continue
        rows.append("")
        for char in part.lstrip():
            if rows[-1] and text_width(rows[-1] + char, size) > width:
                rows.append("")
            rows[-1] += char
    rows = [row.strip() for row in rows if row.strip()]
    if len(rows) > lines or len(cleaned) > _MAX_CHARS:
        rows = rows[:lines]
        while rows[-1] and text_width(rows[-1] + _ELLIPSIS, size) > width:
            rows[-1] = rows[-1][:-1]
        rows[-1] = rows[-1].rstrip() + _ELLIPSIS
    return rows


@functools.cache
def _em(char: str) -> float:
    category = unicodedata.category(char)
    if char in _EMS or category in ("Mn", "Me", "Cf"):
        return _EMS.get(char, 0.0)
    if unicodedata.east_asian_width(char) in ("W", "F"):
        return 1.3 if category == "So" else 1.0
    return {"Ll": 0.64, "Nd": 0.64, "Lu": 0.78}.get(category, 0.93)

"""Clean VAGUE's outputs before an answer is parsed, and find where the second of two answers begins."""

import re

from pipelines.benchmarks.text_cleaning import after_reasoning, canonical, straight_quotes, without_fences

_LATEX = re.compile(r"\\(?:boxed|text|textbf|textrm|mathrm|mathbf)\s*+\{([^{}]*+)\}")
_EMPHASIS = re.compile(r"\*|__|`")
_HEADING = re.compile(r"^[ \t]*+#[# \t]*+", re.MULTILINE)
_BRACKETED = re.compile(r"\((?:[^()\n]|\([^()\n]*+\))*+\)|\[[^\[\]\n]*+\]|<[^<>\n]*+>")
_MENTIONS_LETTER = re.compile(r"\bletters?\b", re.IGNORECASE)
# A full stop or a line end ends such a run: in "A. B, C and D are wrong" the A is the answer.
_WORD_SEPARATOR = r"(?:and/or|and|or)\b"
_SEPARATOR = (
    rf"(?:[)\]}}>\"']?+[ \t]*+(?:[,;/|&+](?:[ \t]*+{_WORD_SEPARATOR})?+|{_WORD_SEPARATOR})[ \t]*+[(\[{{<\"']?+|[ \t]++)"
)
_ALL_FOUR = re.compile(
    rf"(?<![^\W_])(?:A{_SEPARATOR}B{_SEPARATOR}C{_SEPARATOR}D|a{_SEPARATOR}b{_SEPARATOR}c{_SEPARATOR}d"
    r"|A(?:[-–—]|\s(?:to|through)\s)D)(?![^\W_]|'\w)"
)
_OPTION_TEXT = r"[)\].:](?:(?!(?i:answer))[^\n])++"
_CHOICE_LIST = re.compile(
    r"^[ \t]*+" + r"\n\s*+".join(rf"[(\[]?+{letter}{_OPTION_TEXT}" for letter in "ABCD"), re.MULTILINE
)
"""The prompt's four choices, repeated one a line: they name no choice, and rule R2 would read the first."""
_EMPTY_BRACKETS = re.compile(r"\(\s*+\)|\[\s*+\]|\{\s*+\}|<\s*+>")


def clean_output(raw: str) -> str | None:
    """Remove reasoning, markup and echoes of the requested format; None for unclosed reasoning."""
    text = after_reasoning(straight_quotes(canonical(raw)))
    if text is None:
        return None
    for _ in range(3):  # a wrapped letter may be wrapped again
        text = _LATEX.sub(r"\1", text)
    text = _HEADING.sub("", _EMPHASIS.sub("", without_fences(text)))
    text = _BRACKETED.sub(lambda match: "" if _MENTIONS_LETTER.search(match[0]) else match[0], text)
    text = _CHOICE_LIST.sub("", _ALL_FOUR.sub("", text))
    return _EMPTY_BRACKETS.sub("", text).strip()


_MARKER = re.compile(
    r"\banswer[\s#_-]{0,3}2(?![^\W_])\s*+(?:[(\[]\s*+intention\s*+[)\]]\s*+)?+[:–—-]?+"
    r"|[(\[]\s*+intention\s*+[)\]]\s*+[:–—-]?+",
    re.IGNORECASE,
)


def second_answer(text: str) -> str | None:
    """Return the text after the last marker of the second answer, which may be empty; None without a marker."""
    end = None
    for marker in _MARKER.finditer(text):
        end = marker.end()
    return None if end is None else text[end:].strip()

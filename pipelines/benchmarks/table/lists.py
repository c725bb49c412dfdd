"""Read a list that stands in a cell as text: JSON, as Python or NumPy prints it, or a line for each letter."""

import ast
import json
import re
from string import ascii_uppercase
from typing import Any, Final

FORMS: Final = """a list, JSON text (["cat", "dog"]), Python text (['cat', 'dog']) or a line for each letter (A. cat)"""
_MAX_LENGTH: Final = 100_000  # characters of a list as text
_ARRAY = re.compile(r"\A(?:np\.|numpy\.)?array\(\s*(\[.*\])\s*(?:,\s*dtype=[^()]*)?\)\Z", re.DOTALL)
_TEXT: Final = r"[uU]?(?:'(?:[^'\\]|\\.)*+'|\"(?:[^\"\\]|\\.)*+\")"
_TOKEN = re.compile(rf"\s*+(?:(?P<text>{_TEXT})|(?P<word>[-+]?[\w.]++)|(?P<sign>[\[\](){{}},:]))\s*+", re.DOTALL)
_MISSING: Final = frozenset(("nan", "None", "null", "NaN"))
_LINE = re.compile(r"[(\[]?([A-Z])(?:[)\].:]|\s-)\s")


def listed(text: str) -> list[Any] | dict[str, Any] | None:
    """Return the list or object that a text is; None for any other text.

    Raises:
        ValueError: the text begins as a list of quoted texts, and is none.
    """
    text = text.strip()
    bare = array[1] if (array := _ARRAY.match(text)) else text
    if not re.match(r"""[\[{]|\(\s*['"]""", bare):  # `(1, 2)` is a point
        return None
    try:
        value = json.loads(bare)
    except (ValueError, RecursionError):
        value = _python_value(bare) if len(bare) <= _MAX_LENGTH else None
    if isinstance(value, list | dict):
        return value
    if re.match(r"""\[\s*['"]""", bare):
        raise ValueError(f"{text[:40]!r} begins as a list and is none; write it as {FORMS}")
    return None


def _python_value(text: str) -> list[Any] | dict[str, Any] | None:
    """Return a flat list, tuple or dict of Python; NumPy prints no commas, which Python would join."""
    tokens: list[tuple[str, str]] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            return None
        tokens.append((match.lastgroup or "", match[match.lastgroup or 0]))
        position = match.end()
    values = [_value(*token) for token in tokens if token[0] != "sign"]
    if any(value is _NO_VALUE for value in values):
        return None
    signs = "".join(value if kind == "sign" else "v" for kind, value in tokens)
    if signs[:1] + signs[-1:] == "{}":
        if not re.fullmatch(r"\{v:v(,v:v)*,?\}", signs):
            return None
        return {str(key): value for key, value in zip(values[::2], values[1::2], strict=True)}
    if not re.fullmatch(r"\[(v+|v(,v)*,?)?\]|\(v(,v)+,?\)|\(v,\)", signs):
        return None
    return values


_NO_VALUE: Final = object()


def _value(kind: str, token: str) -> Any:
    if token in _MISSING:
        return None
    try:
        value = ast.literal_eval(token.lstrip("uU") if kind == "text" else token)
    except (ValueError, SyntaxError):
        return _NO_VALUE
    return value if isinstance(value, str | int | float) else _NO_VALUE


def lettered_lines(text: str) -> list[str] | None:
    """Return the options of a text with a line for each letter, in order; None for any other text."""
    lines = text.split("\n")
    options: list[str] = []
    for line in lines:
        match = _LINE.match(line.strip())
        if match and match[1] == ascii_uppercase[len(options) : len(options) + 1]:
            options.append(line.strip())
        elif not options:
            return None
        else:
            options[-1] += "\n" + line
    return [option.strip() for option in options] if len(options) > 1 else None

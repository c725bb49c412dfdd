"""Read numbers as people write them: digits, words, fractions, scale words, signs, currencies and units.

docs/answers.md states the grammar with examples; its tables are tests. All functions take time linear in the text.
"""

import math
import re
import unicodedata
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Final

from pipelines.benchmarks.readers.cues import CUE, NEGATION
from pipelines.benchmarks.text_cleaning import (
    UNSPACED,
    canonical,
    straight_quotes,
    superscripts_as_powers,
    without_latex,
)

MAX_DIGITS: Final = 300  # of a number; longer runs of digits are none
_MAX_POWER: Final = 400  # of ten; larger ones leave the range of a float

# ------------------------------------------------------------------------------------------------ words

_UNITS: Final = "zero|one|two|three|four|five|six|seven|eight|nine"
_TEENS: Final = "ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|seventeen|eighteen|nineteen"
_TENS: Final = "twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety"
_VALUES: Final = {
    **{word: value for value, word in enumerate(f"{_UNITS}|{_TEENS}".split("|"))},
    **{word: 10 * value for value, word in enumerate(_TENS.split("|"), start=2)},
}
_SPELLED_SCALES: Final = {"hundred": 100, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_ORDINALS: Final = "first|third|fourth|fifth|sixth|seventh|eighth|ninth"
_BELOW_100: Final = (
    rf"(?:(?:{_TENS})(?!-(?:{_ORDINALS})\b)(?:[- ](?:{_UNITS.removeprefix('zero|')}))?|{_UNITS}|{_TEENS})"
)
_BELOW_1000: Final = rf"(?:{_BELOW_100}(?:[- ]hundred(?:[- ](?:and[- ])?{_BELOW_100})?)?)"
_LARGE: Final = "thousand|million|billion|trillion"
_BEFORE: Final = rf"(?<![^\W{UNSPACED}])"  # the edges of a word, also between Chinese, Japanese or Korean ones
_BEHIND: Final = rf"(?![^\W{UNSPACED}])"
_SPELLED = re.compile(
    rf"{_BEFORE}{_BELOW_1000}(?:[- ](?:{_LARGE})(?:[- ](?:and[- ])?{_BELOW_1000})?){{0,4}}{_BEHIND}", re.IGNORECASE
)
_DENOMINATORS: Final = {
    "half": 2, "halves": 2, "third": 3, "thirds": 3, "quarter": 4, "quarters": 4, "fourths": 4, "fifth": 5,
    "fifths": 5, "sixth": 6, "sixths": 6, "seventh": 7, "sevenths": 7, "eighth": 8, "eighths": 8, "ninth": 9,
    "ninths": 9, "tenth": 10, "tenths": 10, "hundredth": 100, "hundredths": 100, "thousandth": 1000,
    "thousandths": 1000, "millionth": 10**6, "millionths": 10**6,
}  # fmt: skip
_SPELLED_FRACTION = re.compile(
    rf"{_BEFORE}(?:(\d{{1,9}})[ -]and[ -])?(?:(an?|\d{{1,9}})[ -])?({'|'.join(_DENOMINATORS)})\b"
    rf"(?:[ ](?:of[ ])?an?(?=[ ](?:hundred|{_LARGE}|dozen)\b))?",
    re.IGNORECASE,
)
_SPELLED_DIGITS = re.compile(rf"(?:(?<=\w)[ ]|{_BEFORE})point((?:[ ](?:{_UNITS}))+){_BEHIND}", re.IGNORECASE)
_HALF_BEHIND = re.compile(rf"[ ]({_LARGE})[ ]and[ ]a[ ]half{_BEHIND}", re.IGNORECASE)
_SPELLED_DECIMAL = re.compile(r"(?<![\d.,])(\d{1,9}) point ((?:\d )*\d)\b", re.IGNORECASE)
_ARTICLE_FOR_1 = re.compile(
    rf"(?<!half )(?<!quarter of ){_BEFORE}an?(?=[ ](?:hundred|{_LARGE}|dozen)\b)", re.IGNORECASE
)

_SCALE_WORDS: Final = {
    10**3: "mille mila mil duizend tausend tusen tys tysiąc tysiące tysięcy тысяча тысячи тысяч тыс k 千 천",
    10**6: "mio mn mln millionen millón millones milione milioni milhão milhões miljoen miljon miljoner milion miliony"
    " milionów milyon миллион миллиона миллионов млн",
    10**9: "bn mrd mld mlrd milliard milliarde milliarden miliardo miliardi miljard miljarder miliard miliardy"
    " miliardów milyar bilhão bilhões миллиард миллиарда миллиардов млрд",
    10**12: "tn billionen billón billones trilhão trilhões триллион триллиона триллионов трлн 兆 조",
    10**2: "hundert 百 백",
    10**4: "万 萬 만",
    10**8: "亿 億 억",
    12: "dozen",
    10**5: "lakh",
    10**7: "crore",
}
SCALES: Final = {
    **_SPELLED_SCALES,
    **{word: scale for scale, words in _SCALE_WORDS.items() for word in words.split()},
}
# Small ones are units, except for `k`, and `m` behind a currency.
_CAPITAL_SCALES: Final = {"K": 10**3, "M": 10**6, "B": 10**9, "T": 10**12, "m": 10**6}


def with_digits(text: str) -> str:
    """Return a text with digits in place of numbers in words."""
    return _SPELLED.sub(_digits, text)


def _digits(match: re.Match[str]) -> str:
    total = part = 0
    for word in re.findall("[a-z]+", match[0].casefold()):
        scale = _SPELLED_SCALES.get(word, 0)
        if scale > 100:
            total, part = total + part * scale if part else total * scale, 0
        else:
            part = part * (scale or 1) + _VALUES.get(word, 0)
    return str(total + part)


def _fraction_digits(match: re.Match[str]) -> str:
    whole, count, noun = match[1], (match[2] or "").casefold(), match[3].casefold()
    if not count and not (noun == "half" and match[0].casefold() != "half"):
        return match[0]  # "the left half", "the third"
    if count in ("a", "an") and noun not in ("half", "quarter"):
        return match[0]
    return f"{whole + ' ' if whole else ''}{count if count.isdigit() else 1}/{_DENOMINATORS[noun]}"


# ------------------------------------------------------------------------------------------- characters

_FOREIGN_DIGIT = re.compile(r"[^\x00-\x7f\D]")
_SEPARATORS: Final = str.maketrans(
    {"٫": ".", "٬": ",", "−": "-", "’": "'", "⋅": "×", "·": "×", "÷": "/", "\u2044": "/", "\u2215": "/"}
)
_POWER = re.compile(r"(?<=\d)\*\*(?=\d)")
_EMPHASIS = re.compile(r"\*\*|__|`|(?<![\w)\s])\*(?=\S)|(?<=\S)\*(?![\w(\s])|^\*(?=\S)", re.MULTILINE)


def plain_numbers(raw: str) -> str:
    """Return a text where all numbers stand in ASCII digits, without TeX and emphasis; lines stay."""
    text = straight_quotes(canonical(superscripts_as_powers(raw))).translate(_SEPARATORS)
    text = _FOREIGN_DIGIT.sub(lambda match: str(unicodedata.digit(match[0])), text)
    text = without_latex(text)
    text = _HALF_BEHIND.sub(r" and a half \1", _ARTICLE_FOR_1.sub("one", _EMPHASIS.sub("", _POWER.sub("^", text))))
    text = with_digits(_SPELLED_DIGITS.sub(lambda match: f".{with_digits(match[1]).replace(' ', '')}", text))
    text = "1/2" if text.strip(_ENDS).casefold() == "half" else text
    text = _SPELLED_FRACTION.sub(_fraction_digits, text)
    return _SPELLED_DECIMAL.sub(lambda match: f"{match[1]}.{match[2].replace(' ', '')}", text)


# ----------------------------------------------------------------------------------------------- amounts

_GROUPED: Final = (
    r"[1-9]\d{0,2}(?:,\d{3}(?!\d))+(?:\.\d++)?|[1-9]\d?(?:,\d\d(?!\d))++,\d{3}(?!\d)(?:\.\d++)?"  # 1,234.5; 1,00,000
    r"|[1-9]\d{0,2}(?:\.\d{3}(?!\d))+,\d++|[1-9]\d{0,2}(?:\.\d{3}(?!\d)){2,}"  # 1.234,5; 1.234.567
    r"|[1-9]\d{0,2}(?:(?:[ ]\d{3}(?!\d))+|(?:'\d{3}(?!\d))+|(?:_\d{3}(?!\d))+)(?:[.,]\d++)?"  # 1 234,5
)
_LETTER: Final = rf"[^\W\d_{UNSPACED}]"  # Chinese, Japanese and Korean put no space around a number
_WORDS: Final = "|".join(sorted((word for word in SCALES if word.isascii() or len(word) > 1), key=len, reverse=True))
_GLUED_UNITS: Final = (
    r"mm|cm|dm|km|m|in|inch|ft|yd|mi|mg|kg|g|t|lbs?|oz|ml|cl|l|L|ms|(?<!\d{3})s|sec|min|h|hrs?|d|yrs?|kWh|Wh|kW|MW|W|mV|V|mA|A|Hz|kHz"
    "|MHz|GHz|px|pt|KB|MB|GB|TB|kB|kcal|cal|kJ|J|N|Pa|kPa|mph|kmh|km/h|m/s|dB|x|USD|EUR"
)
_AMOUNT = re.compile(
    rf"(?<!{_LETTER})(?<![\d_^])(?<!\^[-{{])(?<!\d[.,':/])(?<!{_LETTER}[-‐])"
    rf"(?P<sign>(?:(?<![\d_)%])[-+–](?=[\d.$€£¥₹₩]|(?:US|[RAC]|HK)\$)|{_BEFORE}(?i:minus|negative)\s)?)"
    r"(?:(?P<currency>(?:US|[RAC]|HK)?[$€£¥₹₩]|(?:USD|EUR|GBP|CHF|Rs\.?)[^\S\n])[^\S\n]?(?P<inner>[-–]?))?"
    rf"(?:(?:(?P<whole>\d{{1,9}})[^\S\n])?(?P<top>\d{{1,15}})[^\S\n]?/[^\S\n]?(?P<bottom>\d{{1,15}})(?![.,]?\d)"
    rf"|(?P<digits>{_GROUPED}|\d++[.,]\d++|\d++|\.\d++)"
    r"(?P<exponent>[eE][-+]?\d{1,3}(?!\w)|(?:[^\S\n]?[×x*][^\S\n]?10)?\^\{?[-+]?\d{1,3}\}?)?)"
    r"(?![/:]\d|[^\S\n]/[^\S\n]\d|[.,']\d|_)"
    r"(?P<scale>(?:[^\S\n]?[MB]|T|(?(currency)m|(?!)))(?!\w|')"
    rf"|(?:[^\S\n-]?-?(?i:{_WORDS})s?\b\.?|[百백千천万萬만亿億억兆조])*)"
    rf"(?:[^\S\n]?(?:%|[$€£¥₹₩°](?!\d))|(?:{_GLUED_UNITS})(?:\^?[23])?(?![^\W_]))?"
    rf"(?!{_LETTER}|\d)"
)


@dataclass(frozen=True, slots=True)
class Amount:
    """A number in a text."""

    start: int
    end: int
    value: float
    scale: int  # of its last scale word; 1 without


def amounts_in(text: str) -> list[Amount]:
    """Return the numbers of a text that `plain_numbers` returned, in their order; negated ones do not count."""
    amounts: list[Amount] = []
    for match in _AMOUNT.finditer(text):
        amount = _amount(match)
        if amount is None or NEGATION.search(text, max(0, match.start() - 20), match.start()):
            continue
        before = amounts[-1] if amounts else None
        if before and _continues(before, amount, text[before.end : amount.start]):
            amounts[-1] = Amount(before.start, amount.end, before.value + amount.value, amount.scale)
        else:
            amounts.append(amount)
    return amounts


def _continues(before: Amount, amount: Amount, between: str) -> bool:
    """Return whether two numbers are one, as in `1 million 200 thousand`."""
    joins = (" ", " and ", ", ") if amount.scale > 1 else (" ", " and ")
    return before.scale > max(amount.scale, amount.value) and amount.value > 0 and between in joins


def _amount(match: re.Match[str]) -> Amount | None:
    """Return the number of a match; None if it has two signs, or leaves the range of a float."""
    sign = match["sign"] + (match["inner"] or "")
    if match.end() - match.start() > 2 * MAX_DIGITS or (match["inner"] and match["sign"]):
        return None
    scales = [_scale_of(piece) for word in re.findall(r"[^\W\d_]+", match["scale"]) for piece in _pieces(word)]
    try:
        number = float(_magnitude(match) * math.prod(scales))
    except (OverflowError, ZeroDivisionError):
        return None
    value = number if sign in ("", "+") else -number
    return Amount(match.start(), match.end(), value, scales[-1] if scales else 1)


def _magnitude(match: re.Match[str]) -> Fraction:
    """Return the value of fraction or digits and power; OverflowError for more digits than a number has."""
    if match["bottom"]:
        return int(match["whole"] or 0) + Fraction(int(match["top"]), int(match["bottom"]))
    if len(match["digits"]) > MAX_DIGITS:
        raise OverflowError
    value, exponent = Fraction(_decimal(match["digits"])), match["exponent"] or ""
    if not exponent:
        return value
    power = int(re.sub(r"[^-\d]", "", exponent.rpartition("^")[2].lstrip("eE")))
    is_base = "^" in exponent and "10" not in exponent.partition("^")[0]  # `10^6`, not `1.5 × 10^6`
    if abs(power) * (len(match["digits"]) if is_base else 1) > _MAX_POWER:
        raise OverflowError
    return value**power if is_base else value * Fraction(10) ** power


def _pieces(word: str) -> Sequence[str]:
    """Return the scales of a word; Chinese ones stand together, as in `千万`."""
    return word if re.fullmatch(f"[{UNSPACED}]+", word) else (word,)


def _scale_of(word: str) -> int:
    if word in _CAPITAL_SCALES:
        return _CAPITAL_SCALES[word]
    folded = word.casefold()
    return SCALES.get(folded) or SCALES[folded.removesuffix("s")]


def _decimal(digits: str) -> Decimal:
    """Return the value of digits with separators: the last mark is the decimal one, unless it stands before groups."""
    digits = re.sub(r"[\s'_]", "", digits)
    marks = [sign for sign in digits if sign in ".,"]
    if len({*marks}) == 2:
        return Decimal(digits.replace(marks[0], "").replace(",", "."))
    is_grouped = len(marks) > 1 or re.fullmatch(r"[1-9]\d{0,2},\d{3}", digits)
    return Decimal(re.sub("[.,]", "", digits) if is_grouped else digits.replace(",", "."))


# ----------------------------------------------------------------------------------------------- readers

_FILLER = re.compile(
    r"(?:[\s:=(\[{\"'~≈>]|\b(?:about|approximately|approx\.?|around|roughly|circa|ca\.|exactly|precisely|only|just|probably"
    r"|likely|equal(?:s| to)|a total of|indeed|now|then|simply|clearly|therefore|hence|etwa|ungefähr|genau|environ"
    r"|около|примерно)(?!\w))*+"
)
_OPERATOR = re.compile(r"[^\S\n]*(?:[+×*/^]|x|[^\S\n]-[^\S\n]|plus|minus|times|divided by|mod)[^\S\n]*", re.IGNORECASE)
_ALTERNATIVE = re.compile(
    r"[^\S\n]*(?:[-–—~/]|,?[^\S\n]*(?:to|or|through|bis|oder|ou|o|или)\b)[^\S\n]*(?:maybe|perhaps|even)?[^\S\n]*",
    re.IGNORECASE,
)
_LISTED = re.compile(r"[^\S\n]*(?:[,;&]|,?[^\S\n]*(?:and|und|et|e|y|и)\b)[^\S\n]*", re.IGNORECASE)
_CLAUSE_END = re.compile(r"[^\S\n]*(?:\Z|[.,;!?)\]\n]|(?:and|or)\b)")
_BOUNDARY = re.compile(
    r"[\"')\]*]*+(?:[^\S\n]*+(?:\Z|[\n(\[;!?=]|[-–—][^\S\n]|,(?=\s)|because\b|since\b|as\b|weil\b|car\b|perché\b)|[.:](?=\s|\Z))",
    re.IGNORECASE,
)
_POINTER = re.compile(r"(?:\b(?:is|are|was|makes|gives|equals|ist|sind|est|è|es|это)|[=:≈])\s*+(?:[$€£¥]\s?)?\Z")
_EQUALS = re.compile(r"=[\s$]*\Z")
_LIST_MARK = re.compile(r"[.)][^\S\n]")
_ENDS: Final = " \t*_\"'().,:;!$[]#>|"


def read_number(reply: str) -> float | None:
    """Return the number of a reply: behind the last cue, or first, or alone on a line, or the only one of the reply."""
    text = plain_numbers(reply)
    reader = _NumberReader(text, amounts_in(text))
    if not reader.amounts:
        return None
    for rule in (reader.behind_cue, reader.alone_on_a_line, reader.in_front):
        value, decided = rule()
        if decided:
            return value
    values = {amount.value for amount in reader.amounts}
    return reader.amounts[0].value if len(values) == 1 else None


@dataclass(frozen=True, slots=True)
class _NumberReader:
    """The rules; each returns a value, and whether it decides."""

    text: str
    amounts: Sequence[Amount]

    def behind_cue(self) -> tuple[float | None, bool]:
        """Take the number right behind the last cue; else the only one there, or the last behind `is` or `=`."""
        cues = list(CUE.finditer(self.text))
        places = {amount.start: place for place, amount in enumerate(self.amounts)}
        for cue in reversed(cues):
            filler = _FILLER.match(self.text, cue.end())
            for start in (cue.end(), filler.end() if filler else cue.end()):
                if start in places:
                    return self._settled(places[start]), True
        if not cues:
            return None, False
        later = self.amounts[bisect_left(self.amounts, cues[-1].end(), key=lambda amount: amount.start) :]
        pointed = [amount for amount in later if _POINTER.search(self.text, max(0, amount.start - 20), amount.start)]
        if len({amount.value for amount in later}) == 1:
            return later[0].value, True
        return (pointed[-1].value, True) if pointed else (None, False)

    def in_front(self) -> tuple[float | None, bool]:
        """Take the number that the reply begins with, if its statement ends there."""
        first, filler = self.amounts[0], _FILLER.match(self.text)
        if first.start not in (0, filler.end() if filler else 0):
            return None, False
        is_list_mark = first.value == 1 and _LIST_MARK.match(self.text, first.end)
        is_joined = len(self.amounts) > 1 and self._joins(0)
        if is_joined or (_BOUNDARY.match(self.text, first.end) and not is_list_mark):
            return self._settled(0), True
        return None, False

    def alone_on_a_line(self) -> tuple[float | None, bool]:
        """Take the number of the lines that are a number alone, if they agree."""
        values, position, place = set[float](), 0, 0
        for line in self.text.split("\n"):
            end, first = position + len(line), place
            while place < len(self.amounts) and self.amounts[place].start <= end:
                place += 1
            if place == first + 1:
                amount = self.amounts[first]
                around = self.text[position : amount.start] + self.text[amount.end : end]
                if not around.strip(_ENDS):
                    values.add(amount.value)
            position = end + 1
        return (next(iter(values)) if len(values) == 1 else None), bool(values)

    def _joins(self, place: int) -> re.Match[str] | None:
        between = self.text[self.amounts[place].end : self.amounts[place + 1].start]
        return _OPERATOR.fullmatch(between) or _ALTERNATIVE.fullmatch(between)

    def _settled(self, place: int) -> float | None:
        """Return the value of a number that may begin a calculation, a range or a list; None for the last two."""
        amount = self.amounts[place]
        if place + 1 == len(self.amounts):
            return amount.value
        following = self.amounts[place + 1]
        between = self.text[amount.end : following.start]
        if _OPERATOR.fullmatch(between):
            return self._result(place)
        if _ALTERNATIVE.fullmatch(between) and following.value != amount.value:
            return None
        is_listed = _LISTED.fullmatch(between) and _CLAUSE_END.match(self.text, following.end)
        return None if is_listed else amount.value

    def _result(self, place: int) -> float | None:
        """Return what stands behind the last equals sign of a calculation; None without one."""
        line_end = self.text.find("\n", self.amounts[place].end)
        value = None
        for later in self.amounts[place + 1 :]:
            if 0 <= line_end < later.start:
                break
            if _EQUALS.search(self.text, max(0, later.start - 9), later.start):
                value = later.value
        return value


def parse_number(value: object) -> float:
    """Return a number as data gives it; ValueError for anything else, NaN and infinity too."""
    if isinstance(value, bool) or value is None:
        raise ValueError(f"{value!r} is no number")
    if isinstance(value, int | float | Decimal):
        number = float(value)
    else:
        text = str(value).strip()
        plain = plain_numbers(text[: 2 * MAX_DIGITS]).strip().removesuffix(".")
        amounts = amounts_in(plain)
        if len(amounts) != 1 or (amounts[0].start, amounts[0].end) != (0, len(plain)) or len(text) > 2 * MAX_DIGITS:
            raise ValueError(f"{text[:80]!r} is no number")
        number = amounts[0].value
    if not math.isfinite(number):
        raise ValueError(f"{value!r} is no finite number")
    return number


def is_within(number: float, gold: float, tolerance: float, *, exact: bool) -> bool:
    """Return whether a number is right: equal where it must be exact, else within a relative tolerance."""
    return number == gold or (not exact and abs(number - gold) <= tolerance * abs(gold))


def is_exact_gold(gold: float) -> bool:
    """Return whether a gold number allows no tolerance: a whole number below 10, or one that may be a year."""
    return gold.is_integer() and (abs(gold) < 10 or 1500 <= gold <= 2100)

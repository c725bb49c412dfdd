"""Replies with known answers, drawn from the written rules of docs/answers.md: equal seeds give equal replies."""

from __future__ import annotations

import random
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

LABELS: Final = ("red", "dark red", "blue", "C++", "C")
OPTIONS: Final = {"A": "the cat", "B": "a dog", "C": "-5", "D": "5"}

_UNITS: Final = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"),
    *("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
)
_TENS: Final = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_FRACTIONS: Final = {"½": Fraction(1, 2), "¼": Fraction(1, 4), "¾": Fraction(3, 4), "⅓": Fraction(1, 3)}
_SCALES: Final = {
    "hundred": 100, "thousand": 10**3, "million": 10**6, "billion": 10**9, "Mio.": 10**6, "Milliarden": 10**9,
    "crore": 10**7, "dozen": 12,
}  # fmt: skip
_GLUED_SCALES: Final = {"k": 10**3, "K": 10**3, "M": 10**6, "B": 10**9, "bn": 10**9, "万": 10**4, "億": 10**8}
_NUMBER_FRAMES: Final = (
    "{}", "{}.", "**{}**", "The answer is {}.", "Answer: {}", "**Answer:** {}", "\\boxed{{{}}}", "$\\boxed{{{}}}$",
    "Final answer: {}\n2 red, 5 blue", "{} (2 red, 5 blue)", "2 red, 5 blue\n{}", "{}\nbecause 3 and 4",
    "The answer is {}, because 2 are red and 5 are blue.", "Answer: {} (see the 2 red and 5 blue balls)",
    "I count 2 red and 5 blue. The answer is {}.", "The answer to question 2 is {}.",
    "So it is 2 + 5 = {}, so the answer is {}", "Antwort: {} (2 rote, 5 blaue)", "Die richtige Antwort ist {}.",
    "La réponse est {} (2 et 5)", "答案是{}", "Answer: about {}", "It is not 2 but {}.",
    "We have \\boxed{{E = mc^2}}. The answer is {}.", "<result>ok</result> Answer: {}",
    "<answer>{}</answer> and not <answer>2</answer>",
)  # fmt: skip
_NO_NUMBER_FRAMES: Final = (
    "{} or 15", "The answer is {} or 15", "{} to 15", "{}-15", "between {} and 15", "{} red and 15 blue", "1, {}, 15",
    "{}:30", "{}th", "The answer is not {}.", "1. {}\n2. 15",
)  # fmt: skip
_LETTER_FRAMES: Final = (
    "{}", "({})", "{}.", "**{}**", "{})", "\\boxed{{{}}}", "<answer>{}</answer>", "The answer is {}.", "Answer: {}",
    "Antwort: {}", "Ответ: {}", "答案是{}", "La réponse est {}.", "Option {}",
    "First \\boxed{{x}}. So the correct option is {}.", "<result>13</result>\nAnswer: {}",
    "<answer>{}</answer> and not <answer>x</answer>", "USER: {}", "It's {}, because the others are wrong.",
)  # fmt: skip
_SCRIPTS: Final = (
    {"A": "A", "B": "B", "C": "C", "D": "D"},
    {"A": "А", "B": "В", "C": "С"},
    {"A": "Α", "B": "Β"},
    {letter: chr(0xFF21 + place) for place, letter in enumerate("ABCD")},
    {letter: chr(0x24B6 + place) for place, letter in enumerate("ABCD")},
    {letter: chr(0x1D400 + place) for place, letter in enumerate("ABCD")},
    {letter: chr(0x1F170 + place) for place, letter in enumerate("ABCD")},
)  # fmt: skip
_TEXTS: Final = ("red car", "C", "B", "5", "2/3", "CO2", "21 dogs", "-5", "C++", "$5", "10%", "USA", "3.5", "Na+", "x")
_SAME_FRAMES: Final = (
    "{}", " {} ", "{}.", "The answer is {}.", "Answer: {}", "**{}**", "*{}*", '"{}"', "“{}”", "the {}", "({})", "{}!",
    "- {}", "{}\u200b", "I think.\nAnswer: {}", "__{}__", "The answer is **{}**.",
)  # fmt: skip
_SIGN_FRAMES: Final = (
    "{}+", "{}%", "{}°", "<{}", ">{}", "±{}", "{}#", "€{}", "{}/2", "≈{}", "{}*2", "√{}", "{}=1", "{}♯", "2^{}",
    "#{}", "@{}",
)  # fmt: skip
_LABEL_FRAMES: Final = (
    "{}", "{}.", "**{}**", "The answer is {}.", "{}: the car", "{} (of the car)", "It is {}.",
    "Answer: {}, as one sees", "\\boxed{{{}}}", "We count \\boxed{{2}}. The answer is {}.", "<answer>{}</answer>",
    "Antwort: {}", "{}\nThe car is so.",
)  # fmt: skip
_YES_NO_FRAMES: Final = (
    "{}", "{}.", "{}, it is.", "The answer is {}", "**{}**", "\\boxed{{{}}}", "<answer>{}</answer>", "Answer: {}",
    "No doubt, {}", "We have \\boxed{{x}}. The answer is {}.", "Antwort: {}",
    "<answer>{}</answer> and not <answer>both</answer>",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Case:
    """One reply; `answer` is None where nothing can be read, and of `equal` and `different` texts the other text."""

    kind: str
    reply: str
    answer: str | float | None


def cases(count: int) -> list[Case]:
    """Return so many cases of all kinds, in turn."""
    makers = (_number, _number, _no_number, _letter, _no_letter, _label, _yes_no, _equal, _different)
    return [makers[seed % len(makers)](random.Random(seed)) for seed in range(count)]


def _number(draw: random.Random) -> Case:
    text, value = draw.choice((_whole, _grouped, _decimal, _fraction, _spelled, _scaled, _decorated))(draw)
    if draw.random() < 0.2 and value:
        text, value = draw.choice(("-", "−", "minus ")) + text, -value
    return Case(
        "number", draw.choice(_NUMBER_FRAMES).replace("{}", text).replace("{{", "{").replace("}}", "}"), float(value)
    )


def _no_number(draw: random.Random) -> Case:
    return Case("number", draw.choice(_NO_NUMBER_FRAMES).format(draw.randrange(3, 13)), None)


def _whole(draw: random.Random) -> tuple[str, Fraction]:
    number = draw.randrange(10 ** draw.randrange(1, 10))
    return str(number), Fraction(number)


def _grouped(draw: random.Random) -> tuple[str, Fraction]:
    mark = draw.choice((",", ".", " ", "\u00a0", "\u202f", "'", "’"))
    number = draw.randrange(10**6, 10**12) if mark == "." else draw.randrange(10**3, 10**12)
    text = f"{number:,}".replace(",", mark)
    if mark in ",." and draw.random() < 0.5:
        cents = draw.randrange(100)
        return f"{text}{'.' if mark == ',' else ','}{cents:02}", number + Fraction(cents, 100)
    return text, Fraction(number)


def _decimal(draw: random.Random) -> tuple[str, Fraction]:
    whole, digits = draw.randrange(1000), draw.choice((1, 2, 4))
    part = draw.randrange(10**digits)
    return f"{whole}{draw.choice('.,')}{part:0{digits}}", whole + Fraction(part, 10**digits)


def _fraction(draw: random.Random) -> tuple[str, Fraction]:
    if draw.random() < 0.4:
        sign, value = draw.choice(list(_FRACTIONS.items()))
        whole = draw.choice((0, draw.randrange(1, 20)))
        return f"{whole or ''}{sign}", whole + value
    top, bottom = draw.randrange(1, 20), draw.randrange(2, 20)
    return draw.choice(("{}/{}", "\\frac{{{}}}{{{}}}", "\\dfrac{{{}}}{{{}}}")).format(top, bottom), Fraction(
        top, bottom
    )


def _spelled(draw: random.Random) -> tuple[str, Fraction]:
    number = draw.randrange(10 ** draw.randrange(1, 7))
    return _in_words(number), Fraction(number)


def _in_words(number: int) -> str:
    if number < 20:
        return _UNITS[number]
    if number < 100:
        return _TENS[number // 10 - 2] + (f"-{_UNITS[number % 10]}" if number % 10 else "")
    if number < 1000:
        return f"{_UNITS[number // 100]} hundred" + (f" and {_in_words(number % 100)}" if number % 100 else "")
    return f"{_in_words(number // 1000)} thousand" + (f" {_in_words(number % 1000)}" if number % 1000 else "")


def _scaled(draw: random.Random) -> tuple[str, Fraction]:
    count = Fraction(draw.randrange(1, 999), 10)
    text = f"{float(count):g}"
    if draw.random() < 0.5:
        word, scale = draw.choice(list(_SCALES.items()))
        return f"{text} {word}", count * scale
    word, scale = draw.choice(list(_GLUED_SCALES.items()))
    return text + word, count * scale


def _decorated(draw: random.Random) -> tuple[str, Fraction]:
    number = draw.randrange(1, 10**4)
    return draw.choice(("${}", "€ {}", "{}%", "{} %", "{}cm", "{}kg", "{} €", "{}°", "US${}", "{}m²")).format(
        number
    ), Fraction(number)


def _letter(draw: random.Random) -> Case:
    script = draw.choice(_SCRIPTS)
    letter = draw.choice([*script])
    return Case("choice", draw.choice(_LETTER_FRAMES).format(script[letter]), letter)


def _no_letter(draw: random.Random) -> Case:
    script = draw.choice(_SCRIPTS[:-1])
    first, second = draw.sample([*script.values()], 2)
    word = draw.choice(("or", "and", "und", "oder", "et", "ou", "и", "или"))
    return Case("choice", f"{draw.choice(('', 'The answer is ', 'Answer: '))}{first} {word} {second}", None)


def _label(draw: random.Random) -> Case:
    label = draw.choice(LABELS)
    return Case("label", draw.choice(_LABEL_FRAMES).format(label), label)


def _yes_no(draw: random.Random) -> Case:
    word = draw.choice(("yes", "no", "Yes", "NO"))
    return Case("yes-no", draw.choice(_YES_NO_FRAMES).format(word), word.casefold())


def _equal(draw: random.Random) -> Case:
    text = draw.choice(_TEXTS)
    reply = draw.choice(_SAME_FRAMES).format(draw.choice((text, text.upper(), text.lower())))
    return Case("equal", reply, text)


def _different(draw: random.Random) -> Case:
    text = draw.choice(_TEXTS)
    pair = [text, draw.choice(_SIGN_FRAMES).format(text)]
    draw.shuffle(pair)
    return Case("different", *pair)

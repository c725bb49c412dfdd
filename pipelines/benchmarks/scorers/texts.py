"""Scorers of short texts."""

import re
from functools import lru_cache
from typing import Final

from pipelines.benchmarks.readers.short_answers import edit_distance
from pipelines.benchmarks.scorers.records import Gold, Scored

_ASCII_SIGNS: Final = str.maketrans("", "", "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
_FULL_WIDTH: Final = {0x3000: " ", **{0xFEE0 + code: chr(code) for code in range(0x21, 0x7F)}}
_ANLS_THRESHOLD: Final = 0.5


def exact(reply: str, gold: Gold) -> Scored:
    """Score equality with a reference; case and signs count."""
    return Scored(float(reply.strip() in [reference.strip() for reference in gold.references]), reply.strip() or None)


def _plain(text: str) -> str:
    return " ".join(text.lower().translate(_ASCII_SIGNS).split())


def exact_lower(reply: str, gold: Gold) -> Scored:
    """Score equality in lower case without ASCII punctuation."""
    answer = _plain(reply)
    return Scored(float(answer in map(_plain, gold.references)), answer or None)


def contains(reply: str, gold: Gold) -> Scored:
    """Score whether a reference is part of the reply; `is_exact` keeps case and deletes blanks."""

    def form(text: str) -> str:
        text = " ".join(text.translate(_FULL_WIDTH).splitlines()).strip()
        return "".join(text.split()) if gold.is_exact else text.lower()

    answer = form(reply)
    return Scored(float(any(form(reference) in answer for reference in gold.references)), answer or None)


def anls(reply: str, gold: Gold) -> Scored:
    """Score the average normalised Levenshtein similarity; below 0.5 it is 0."""
    answer = " ".join(reply.lower().split())
    best = 0.0
    for reference in gold.references:
        longest = max(len(reply), len(reference))
        distance = edit_distance(answer, " ".join(reference.lower().split()))
        best = max(best, 1 - distance / longest if longest else 1.0)
    return Scored(best if best >= _ANLS_THRESHOLD else 0.0, answer or None)


# ------------------------------------------------------------------------------------------- VQA's words

_VQA_SIGNS: Final = ';/[]"{}()=+\\_-><@`,?!'
_COMMA_IN_NUMBER = re.compile(r"(?<=\d),+(?=\d)")
_STOP = re.compile(r"\.(?!\d)")
_DIGITS: Final = {
    "none": "0",
    **dict(
        zip(
            ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
            map(str, range(11)),
            strict=True,
        )
    ),
}
_ARTICLES: Final = ("a", "an", "the")
_CONTRACTED: Final = """
    ain't aren't can't could've couldn't didn't doesn't don't hadn't hasn't haven't he'd he's how'd how'll how's isn't
    it'd it'll ma'am mightn't might've mustn't must've needn't not've o'clock oughtn't shan't should've shouldn't
    somebody'll somebody's someone'd someone'll someone's something'd something'll that's there'd there're there's
    they'd they'll they're they've 'twas wasn't weren't what'll what're what's what've when's where'd where's where've
    who'd who'll who's who've why'll why're why's won't would've wouldn't y'all you'd you'll you're you've we've
    couldn't've hadn't've he'd've it'd've mightn't've 'ow's'at she'd've shouldn't've somebody'd've someone'd've
    something'd've there'd've they'd've we'd've who'd've wouldn't've y'all'll y'all'd've you'd've
"""
_CONTRACTIONS: Final = {
    word[:place] + word[place + 1 :]: word
    for word in _CONTRACTED.split()
    for place, sign in enumerate(word)
    if sign == "'"
}
"""Words that lack one apostrophe, and the words with it."""


@lru_cache(1 << 14)
def vqa_form(text: str) -> str:
    """Return an answer as VQA's evaluation compares it."""
    text = text.lower().replace(",", "").replace("?", "").replace("'s", " 's")
    text = before = re.sub(r"[\n\t]", " ", text.strip()).strip()
    has_number = _COMMA_IN_NUMBER.search(before) is not None
    for sign in _VQA_SIGNS:
        is_at_blank = f"{sign} " in before or f" {sign}" in before
        text = text.replace(sign, "" if is_at_blank or has_number else " ")
    words = (_DIGITS.get(word, word) for word in _STOP.sub("", text).split())
    return " ".join(_CONTRACTIONS.get(word, word) for word in words if word not in _ARTICLES)


def vqa(reply: str, gold: Gold) -> Scored:
    """Score agreement with annotators: over each set of all but one, min(1, equal answers / 3), on average."""
    answer = vqa_form(reply)
    equal = [vqa_form(reference) == answer for reference in gold.references]
    scores = [min(1.0, (sum(equal) - is_equal) / 3) for is_equal in equal]
    return Scored(sum(scores) / len(scores) if scores else 0.0, answer or None)

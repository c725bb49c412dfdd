"""UNPIE's kinds of pun, and the category of the mean of both."""

from typing import Final

KINDS: Final = ("Homo", "Hetero")
ALL: Final = "All"  # category of the mean of both kinds; the pooled value has category ''

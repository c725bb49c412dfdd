"""Rows of CSV files: a field that is too long costs its own row and no other."""

import csv
import io
from collections.abc import Collection, Iterator
from typing import Any, Final

MAX_FIELD_CHARS: Final = 131_072


class CsvRows:
    """The rows of a CSV text with a header, by the number of their last line.

    Raises csv.Error, here or while it yields, where the text is no CSV.
    """

    def __init__(
        self, text: str, *, strict: bool = True, max_chars: int = MAX_FIELD_CHARS, delimiter: str = ","
    ) -> None:
        # A row with a longer field than this process-wide limit takes the lines that its quotes span with it.
        csv.field_size_limit(max(csv.field_size_limit(), len(text) + 1))
        self._reader = csv.DictReader(
            io.StringIO(text.removeprefix("\ufeff"), newline=""), strict=strict, delimiter=delimiter
        )
        self._max_chars = max_chars
        names = self._reader.fieldnames or ()
        if len({name.strip() for name in names}) == len(names):
            self._reader.fieldnames = [name.strip() for name in names]
        self.columns: Collection[str] = tuple(self._reader.fieldnames or ())

    def read(self, columns: Collection[str] = ()) -> Iterator[tuple[int, dict[str, Any] | ValueError]]:
        """Yield each row, or what is wrong with it; of `columns` alone the length matters, without them of all."""
        for row in self._reader:
            texts = {name: row[name] or "" for name in columns or self.columns if name in row}
            longest = max(texts, key=lambda name: len(texts[name]), default="")
            if longest and len(texts[longest]) > self._max_chars:
                problem = f"{longest} has {len(texts[longest]):,} characters, at most {self._max_chars:,} are read"
                yield self._reader.line_num, ValueError(problem)
            else:
                yield self._reader.line_num, row

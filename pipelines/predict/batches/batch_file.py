"""The file of a batch while it is filled, within the limits of the provider."""

from collections.abc import Callable
from tempfile import TemporaryFile
from typing import IO

from pipelines.predict.batches.records import BatchRecord


class BatchFile:
    """Collects lines for the next batch on the local disk."""

    def __init__(self, *, max_requests: int, max_bytes: int) -> None:
        self._max_requests, self._max_bytes = max_requests, max_bytes
        self._clear()

    def _clear(self) -> None:
        self._file: IO[bytes] | None = None
        self._bytes = 0
        self._custom_ids: list[str] = []
        self._request_ids: dict[str, None] = {}
        self._folders: dict[str, None] = {}
        self._omitted: tuple[str, ...] = ()
        self.dollars = 0.0  # what its requests may cost at the most

    def __len__(self) -> int:
        return len(self._custom_ids)

    def has_room(self, line: bytes, omitted: tuple[str, ...]) -> bool:
        """Return whether a line without these parameters fits the file's present lines; any fits an empty file.

        The lines of a file lack the same parameters.
        """
        return not self._custom_ids or (
            omitted == self._omitted
            and len(self._custom_ids) < self._max_requests
            and self._bytes + len(line) <= self._max_bytes
        )

    def add(
        self, custom_id: str, line: bytes, *, omitted: tuple[str, ...], request_id: str, folder: str, dollars: float
    ) -> None:
        """Add the line of a call that serves a request, whose part goes to a folder."""
        self._omitted = omitted
        if self._file is None:
            self._file = TemporaryFile(prefix="vlmsweep-batch-")  # noqa: SIM115  closed by `send`
        self._file.write(line)
        self._bytes += len(line)
        self._custom_ids.append(custom_id)
        self._request_ids[request_id] = self._folders[folder] = None
        self.dollars += dollars

    def send(self, created: float, key: str, submit: Callable[[BatchRecord, IO[bytes]], None]) -> None:
        """Hand record and content to `submit`, and begin an empty file."""
        assert self._file is not None
        record = BatchRecord(
            key=key,
            created=created,
            custom_ids=tuple(self._custom_ids),
            request_ids=tuple(self._request_ids),
            folders=tuple(self._folders),
            dollars=self.dollars,
            omitted=self._omitted,
        )
        with self._file as file:
            file.seek(0)
            self._clear()
            submit(record, file)

"""Sets of request ids with 16 bytes an id: Python's sets take 100."""

from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from pipelines.storage.parts import batched

DIGITS = 32  # of an id, in hex
_DIGEST = "S16"  # compared byte by byte, as ids have one length
_CHUNK = 4096


class IdSet:
    """Ids of 32 hex digits as a sorted array."""

    def __init__(self, ids: Iterable[str] = ()) -> None:
        """Store these ids, each once; ValueError for one that is not hex."""
        content = bytearray()
        for chunk in batched(ids, _CHUNK):
            content += bytes.fromhex("".join(chunk))
        self._digests = np.frombuffer(content, _DIGEST)
        self._digests.sort()
        repeated = self._digests[1:] == self._digests[:-1]
        self.repeated = frozenset(digest.hex() for digest in _to_bytes(self._digests[1:][repeated]))
        """Those that were given more than once."""
        if self.repeated:
            self._digests = self._digests[np.concatenate([[True], ~repeated])]

    def __len__(self) -> int:
        return len(self._digests)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IdSet) and np.array_equal(self._digests, other._digests)

    __hash__ = None  # type: ignore[assignment]  # it can grow

    def __contains__(self, request_id: str) -> bool:
        return bool(self.contains([request_id])[0])

    def contains(self, ids: Sequence[str]) -> npt.NDArray[np.bool_]:
        """Return for each id whether it is in the set."""
        return self._find(_digests(ids))[1]

    def add(self, ids: Sequence[str]) -> npt.NDArray[np.bool_]:
        """Add ids; return for each whether it is new: neither in the set nor earlier in `ids`."""
        digests = _digests(ids)
        is_new = np.zeros(len(ids), dtype=bool)
        is_new[np.unique(digests, return_index=True)[1]] = True
        is_new &= ~self._find(digests)[1]
        added = np.sort(digests[is_new])
        self._digests = np.insert(self._digests, self._find(added)[0], added)
        return is_new

    def _find(self, digests: npt.NDArray[np.bytes_]) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.bool_]]:
        """Return where digests are or belong, and which of them are there."""
        positions = np.searchsorted(self._digests, digests)
        if not len(self._digests):
            return positions, np.zeros(len(digests), dtype=bool)
        return positions, self._digests[np.minimum(positions, len(self._digests) - 1)] == digests


def _digests(ids: Sequence[str]) -> npt.NDArray[np.bytes_]:
    return np.frombuffer(bytes.fromhex("".join(ids)), _DIGEST)


def _to_bytes(digests: npt.NDArray[np.bytes_]) -> list[bytes]:
    content = digests.tobytes()  # elements alone would lose their last zeros
    return [content[start : start + DIGITS // 2] for start in range(0, len(content), DIGITS // 2)]

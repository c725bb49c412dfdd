"""A cluster that is connected when it is first needed: small work on one machine needs none."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from cluster.connection import ClusterInfo, connect, refresh


class LazyCluster:
    """A cluster for the length of a block; the embedded one is started by the first call of `connect`."""

    def __init__(self, address: str | None, stack: ExitStack) -> None:
        self._address, self._stack = address, stack
        self._info: ClusterInfo | None = None

    @property
    def is_embedded(self) -> bool:
        """Whether it is this process's own, on this machine: what is small need not be sent to it."""
        return self._address is None

    def connect(self) -> ClusterInfo:
        """Return its present capacity; ClusterError if it cannot be joined."""
        if self._info is None:
            self._info = self._stack.enter_context(connect(self._address))
        return refresh(self._info)


_OPEN: dict[str | None, LazyCluster] = {}  # clusters of open blocks, by address: an inner block uses the outer block's


@contextmanager
def open_cluster(address: str | None) -> Iterator[LazyCluster]:
    """Join the cluster at `address` now, or for None start an embedded one when it is first needed.

    Raises:
        ClusterError: the cluster cannot be joined.
    """
    if address in _OPEN:
        yield _OPEN[address]
        return
    with ExitStack() as stack:
        cluster = LazyCluster(address, stack)
        if not cluster.is_embedded:
            cluster.connect()
        _OPEN[address] = cluster
        stack.callback(_OPEN.pop, address)
        yield cluster

"""Errors of the cluster package, each with the command line's exit code."""

from typing import ClassVar


class ClusterError(Exception):
    """The cluster cannot be joined or started, or it died. The message says what to check."""

    exit_code: ClassVar[int] = 3


class AddressError(ClusterError):
    """The address does not have the form that the command needs."""

    exit_code = 2


class EncryptionError(ClusterError):
    """Variables cannot be encrypted or decrypted. The message says why and how to fix it, never their values."""

    exit_code = 2


class PostponedError(ClusterError):
    """No node for a model can be had now: others go first, and it is tried again."""


class RunCancelledError(ClusterError):
    """The sweep ends early because another model failed; committed rows stay."""

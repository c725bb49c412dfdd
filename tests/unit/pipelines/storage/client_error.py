"""An error of the object store's library."""


class ClientError(Exception):
    """Like botocore's: the response holds the code."""

    def __init__(self, status: int, code: str) -> None:
        super().__init__(code)
        self.response = {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}}


ClientError.__module__ = "botocore.exceptions"

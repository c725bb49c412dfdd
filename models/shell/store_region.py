"""Buckets of object stores in another region than the client's."""

from collections.abc import Mapping
from typing import Any

from models.guards.redaction import shown_address

REDIRECTED = "response-received.s3.HeadBucket"
"""The event of botocore to which `end_redirect` belongs."""
_REDIRECTS = (301, 302, 307)
_CODES = (
    "PermanentRedirect",
    "TemporaryRedirect",
    "AuthorizationHeaderMalformed",
    "IllegalLocationConstraintException",
)


def end_redirect(response_dict: Mapping[str, Any] | None = None, **_event: object) -> None:
    """Raise botocore's ClientError where a store redirects the question of a bucket's region: it is asked for ever."""
    from botocore.exceptions import ClientError

    status = response_dict["status_code"] if response_dict else 0
    if response_dict and status in _REDIRECTS:
        metadata = {"HTTPStatusCode": status, "HTTPHeaders": dict(response_dict["headers"])}
        raise ClientError({"Error": {"Code": str(status)}, "ResponseMetadata": metadata}, "HeadBucket")


def region_problem(response: Mapping[str, Any], meta: Any) -> str:
    """Return what to set where a store's response says that the bucket is in another region; '' for other responses.

    `meta` is that of the client, which knows its region and address.
    """
    error, metadata = response.get("Error", {}), response.get("ResponseMetadata", {})
    if metadata.get("HTTPStatusCode") not in _REDIRECTS and error.get("Code") not in _CODES:
        return ""
    region = metadata.get("HTTPHeaders", {}).get("x-amz-bucket-region") or error.get("Region")
    setting = f"AWS_REGION={region}" if region else "AWS_REGION to the bucket's region"
    return (
        f"the store at {shown_address(meta.endpoint_url)} says that the bucket is not in region {meta.region_name}; "
        f"set {setting}, and AWS_ENDPOINT_URL to that region's address or to none"
    )

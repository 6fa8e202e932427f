"""Artifacts in MinIO or any S3."""

import json
import time
from collections.abc import Callable
from typing import Any, TypeVar

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from .errors import Failure, Refusal
from .limits import Sleep, retried
from .settings import Settings

RETRIES = 3
MAX_OBJECT = 512 << 20
WRONG_KEYS = ("InvalidAccessKeyId", "SignatureDoesNotMatch", "AccessDenied", "InvalidClientTokenId", "403")
Result = TypeVar("Result")


class Store:
    """The bucket of a job."""

    def __init__(self, settings: Settings, sleep: Sleep = time.sleep) -> None:
        self.settings, self.sleep = settings, sleep
        self.client = boto3.client(
            "s3",
            endpoint_url=settings.minio_url,
            region_name="us-east-1",
            aws_access_key_id=settings.secret("minio-keys", "accesskey"),
            aws_secret_access_key=settings.secret("minio-keys", "secretkey"),
            # retries are ours, so that they are counted once; the old checksums are all that every S3 knows
            config=Config(
                retries={"total_max_attempts": 1},
                connect_timeout=5,
                read_timeout=30,
                s3={"addressing_style": "path"},
                request_checksum_calculation="when_required",
                response_checksum_validation="when_required",
                proxies={},
            ),
        )

    def attempt(self, what: str, action: Callable[[], Result]) -> Result:
        """Runs one call, three times more if it fails in a way that may pass."""
        place = f"{what} at {self.settings.minio_url}, bucket {self.settings.bucket}"

        def once() -> Result:
            try:
                return action()
            except ClientError as error:
                raise self.translated(place, error) from None
            except (BotoCoreError, OSError) as error:
                raise Failure(f"S3: {place}: {error}") from None

        return retried(once, retries=RETRIES, sleep=self.sleep)

    def translated(self, place: str, error: ClientError) -> Failure:
        code = str(error.response.get("Error", {}).get("Code", ""))
        status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
        if code in WRONG_KEYS or status == 403:
            folder = self.settings.secrets / "minio-keys"
            return Refusal(f"S3: {place}: the keys of Secret minio-keys ({folder}) were refused: {code}")
        if code == "NoSuchBucket":
            return Refusal(f"S3: {place}: there is no such bucket")
        if status == 404:
            return Missing(f"S3: {place}: it is not there")
        if 400 <= status < 500 and status not in (408, 429):
            return Refusal(f"S3: {place}: {code}: {error}")
        return Failure(f"S3: {place}: {error}")

    def put(self, name: str, content: bytes, content_type: str) -> str:
        """Uploads an artifact and says where it is."""
        key = self.settings.key(name)
        self.attempt(
            f"upload of {key}",
            lambda: self.client.put_object(Bucket=self.settings.bucket, Key=key, Body=content, ContentType=content_type),
        )
        return self.address(name)

    def put_json(self, name: str, value: Any) -> str:
        return self.put(name, json.dumps(value, ensure_ascii=False, indent=1).encode(), "application/json")

    def get(self, name: str) -> bytes:
        key = self.settings.key(name)

        def read() -> bytes:
            answer = self.client.get_object(Bucket=self.settings.bucket, Key=key)
            if answer["ContentLength"] > MAX_OBJECT:
                raise Refusal(f"S3: {key} has {answer['ContentLength']} bytes, more than {MAX_OBJECT}")
            return bytes(answer["Body"].read())

        return self.attempt(f"download of {key}", read)

    def get_json(self, name: str) -> Any:
        try:
            return json.loads(self.get(name))
        except ValueError as error:
            raise Refusal(f"S3: {self.settings.key(name)} is no JSON: {error}") from None

    def check(self) -> None:
        """Fails early and clearly where the bucket is not there or the keys are wrong."""
        self.attempt("look", lambda: self.client.list_objects_v2(Bucket=self.settings.bucket, Prefix=self.settings.key(""), MaxKeys=1))

    def names(self) -> dict[str, int]:
        """The artifacts of this job and their sizes, at most a thousand."""
        prefix = self.settings.key("")
        answer = self.attempt("list", lambda: self.client.list_objects_v2(Bucket=self.settings.bucket, Prefix=prefix))
        return {entry["Key"].removeprefix(prefix): entry["Size"] for entry in answer.get("Contents", [])}

    def address(self, name: str) -> str:
        return f"s3://{self.settings.bucket}/{self.settings.key(name)}"


class Missing(Refusal):
    """An object is not there."""

"""Exception class -> exit code, over all exception classes of the packages."""

from __future__ import annotations

import importlib
import inspect
import pkgutil

import pytest

import cluster
import jobs
import models
import pipelines
from cluster.errors import ClusterError
from models.errors import ModelError
from pipelines.errors import PipelineError

EXIT_CODES = {
    "cluster.job_client._UnknownJobError": 3,
    "cluster.errors.AddressError": 2,
    "cluster.errors.ClusterError": 3,
    "cluster.errors.EncryptionError": 2,
    "cluster.errors.PostponedError": 3,
    "cluster.errors.RunCancelledError": 3,
    "models.errors.BatchApiError": 3,
    "models.errors.EngineContractError": 70,
    "models.errors.EngineDiedError": 3,
    "models.errors.DeviceFailedError": 3,
    "models.errors.EngineStalledError": 3,
    "models.errors.EngineUnreachableError": 3,
    "models.errors.HubUnreachableError": 3,
    "models.errors.MissingSecretError": 2,
    "models.errors.ModelError": 2,
    "models.errors.ModelsFileError": 2,
    "models.errors.PrefixSharingUnsupportedError": 70,
    "models.errors.ScratchError": 3,
    "models.errors.ShellSettingError": 2,
    "models.errors.TrainingDataError": 2,
    "models.errors.TrainingStateError": 2,
    "models.errors.UnknownModelError": 2,
    "models.errors.UnknownRevisionError": 2,
    "models.errors.UnlistedBatchError": 3,
    "models.errors.YamlFileError": 2,
    "pipelines.benchmarks.unpie.download.PictureError": 2,
    "pipelines.benchmarks.unpie.download._TransientError": 2,
    "pipelines.errors.CostLimitReachedError": 3,
    "pipelines.errors.DamagedPartError": 3,
    "pipelines.errors.DatasetError": 2,
    "pipelines.errors.DecodeError": 2,
    "pipelines.errors.FencedError": 3,
    "pipelines.errors.InternalError": 70,
    "pipelines.errors.LayoutError": 2,
    "pipelines.errors.LockedError": 3,
    "pipelines.errors.ModelUnavailableError": 3,
    "pipelines.errors.PipelineError": 2,
    "pipelines.errors.SourceError": 2,
    "pipelines.errors.StoreError": 3,
    "pipelines.errors.TooLargeError": 2,
    "pipelines.errors.UnknownNameError": 2,
    "pipelines.errors.UsageError": 2,
    "pipelines.metrics.scorer_checkpoint.ScorerUnavailableError": 3,
}
WITHOUT_EXIT_CODE = {
    "models.engines.endpoints.bounded.TooLongError",  # becomes the failure of a row
    "models.engines.endpoints.replies.NoCompletionError",
    "models.guards.regular_files.NotRegularError",  # becomes the error of its store or reader, else a UsageError
    "pipelines.benchmarks.table.files.RepeatedNameError",  # becomes a SourceError with its file
    "pipelines.ingest.ingest._TooLongError",  # becomes a rejected row
    "models.strict_yaml._RefusedError",
    "pipelines.benchmarks.foreign_files.archives.UnreadableError",  # become listed rows, or a UsageError or SourceError
    "pipelines.json_records.MalformedError",
    "models.errors.RankBugError",  # a bug, as an AttributeError is
    "pipelines.benchmarks.unpie.source._BadRowError",  # become rejected rows, or a SourceError
    "jobs.finetune.ray_train._WorkersDiedError",  # starts the training again, or becomes a ModelUnavailableError
    "jobs.serve.chat_api.BadRequestError",  # become replies with a status
    "jobs.serve.http_api._GoneError",
    "pipelines.worker_errors.WorkerError",  # carries one of the others through Ray
}
NOT_HERE = "models.engines.vllm"  # imports what is installed on GPU machines only


def exception_classes() -> dict[str, type[Exception]]:
    classes: dict[str, type[Exception]] = {}
    for package in (cluster, jobs, models, pipelines):
        for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if info.name.startswith(NOT_HERE):
                continue
            for value in vars(importlib.import_module(info.name)).values():
                if inspect.isclass(value) and issubclass(value, Exception) and value.__module__ == info.name:
                    classes[f"{value.__module__}.{value.__qualname__}"] = value
    return classes


def test_every_exception_class_has_its_exit_code() -> None:
    classes = exception_classes()
    codes = {name: getattr(error, "exit_code", None) for name, error in classes.items()}
    assert {name: code for name, code in codes.items() if code is not None} == EXIT_CODES
    assert {name for name, code in codes.items() if code is None} == WITHOUT_EXIT_CODE


@pytest.mark.parametrize("name", EXIT_CODES)
def test_an_error_with_an_exit_code_derives_from_its_package_s_root(name: str) -> None:
    root = {"cluster": ClusterError, "models": ModelError, "pipelines": PipelineError}[name.partition(".")[0]]
    module, _, class_name = name.rpartition(".")
    assert issubclass(getattr(importlib.import_module(module), class_name), root)
    assert not issubclass(root, (ValueError, RuntimeError))

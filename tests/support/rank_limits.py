"""Ranks that run out of memory at batches above a limit, as on a GPU that is too small, or that note what they do."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from multiprocessing import connection
from pathlib import Path
from typing import Any

FITTING_ROWS = 16


def rank_main_with_limit(config: Any, pipe: connection.Connection) -> None:
    """Run a rank in which larger batches do not fit; each load is a line of the file `loads` beside the weights."""
    from models.engines.tensor_parallel import worker
    from models.engines.transformers.padded_batch import PaddedBatchModel
    from models.engines.transformers.prefix_sharing import SharedModel

    for model in (SharedModel, PaddedBatchModel):
        _limit(model, model.generate)
    with Path(config.model.source, "loads").open("a", encoding="ascii") as file:
        file.write(f"{config.rank}\n")
    worker.rank_main(config, pipe)


def rank_main_with_limit_in_one(config: Any, pipe: connection.Connection) -> None:
    """Run a rank whose batches do not fit if it is the second of its group."""
    from datetime import timedelta

    from models.engines.tensor_parallel import worker
    from models.engines.transformers import row_errors

    row_errors.RankAgreement.__init__.__defaults__ = (timedelta(seconds=3),)
    (rank_main_with_limit if config.rank else worker.rank_main)(config, pipe)


def rank_main_that_notes_pixels(config: Any, pipe: connection.Connection) -> None:
    """Run a rank in which each use of the processor is a line of the file `processed` beside the weights."""
    from models.engines.tensor_parallel import worker
    from models.engines.transformers.prompts import PromptMaker

    run = PromptMaker._run_processor

    def noted(self: Any, *arguments: Any) -> Any:
        with Path(config.model.source, "processed").open("a", encoding="ascii") as file:
            file.write(f"{config.rank}\n")
        return run(self, *arguments)

    PromptMaker._run_processor = noted  # type: ignore[method-assign]
    worker.rank_main(config, pipe)


def _limit(model: Any, generate: Any) -> None:
    import torch

    def check(rows: int) -> None:
        if rows > FITTING_ROWS:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 9 GiB")

    def limited(self: Any, batch: Sequence[Any]) -> Any:
        check(len(batch))
        return generate(self, batch)

    def limited_stream(self: Any, batch: Sequence[Any], *, max_rows: int) -> Any:
        check(max_rows)
        yield from generate(self, batch, max_rows=max_rows)

    model.generate = limited_stream if inspect.isgeneratorfunction(generate) else limited

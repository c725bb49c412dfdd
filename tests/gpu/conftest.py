"""Skip these tests without a CUDA device."""

import pytest
import torch


@pytest.fixture(autouse=True)
def cuda() -> torch.device:
    if not torch.cuda.is_available():
        pytest.skip("torch sees no CUDA device on this machine")
    return torch.device("cuda", torch.cuda.current_device())

import pytest

from jobs.finetune.options import TrainingSettings, epoch_order, learning_rate_factor, step_batch


@pytest.mark.parametrize(("examples", "epochs", "steps"), [(4578, 3, 216), (275_815, 1, 4310), (280_393, 2, 8764)])
def test_steps_of_the_paper(examples: int, epochs: int, steps: int) -> None:
    # The authors' checkpoints are of step 144, the second epoch of VF, and 4310, the end of eViL.
    assert TrainingSettings(epochs=epochs).total_steps(examples) == steps


def test_learning_rate_is_that_of_transformers() -> None:
    import torch
    from transformers import get_cosine_schedule_with_warmup

    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=1.0)
    schedule = get_cosine_schedule_with_warmup(optimizer, num_warmup_steps=3, num_training_steps=100)
    for step in range(100):
        assert learning_rate_factor(step, 100, 0.03) == pytest.approx(schedule.get_last_lr()[0])
        optimizer.step()
        schedule.step()
    assert learning_rate_factor(0, 10, 0.0) == 1.0


def test_batches_of_an_epoch_hold_every_example_once_in_an_order_by_epoch_and_seed() -> None:
    order = epoch_order(10, 0, seed=1)
    batches = [step_batch(order, step, 4) for step in range(3)]
    assert [len(batch) for batch in batches] == [4, 4, 2]
    assert sorted(index for batch in batches for index in batch) == list(range(10))
    assert epoch_order(50, 0, seed=1) == epoch_order(50, 0, seed=1)
    assert len({tuple(epoch_order(50, epoch, seed)) for epoch, seed in [(0, 1), (1, 1), (0, 2)]}) == 3

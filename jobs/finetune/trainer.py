"""Train the adapter of one model: optimizer steps over all workers, validation loss, and bit-exact state."""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import torch
from torch import Tensor

from jobs.finetune.examples import Batch, EncodedExample, batches
from jobs.finetune.options import MemorySettings, TrainingSettings, learning_rate_factor
from models.engines.transformers.checkpoint import Checkpoint
from models.errors import TrainingStateError
from models.scratch import scratch

_PROJECTORS: Final = ("multi_modal_projector", "merger", "connector")
"""Names of the modules between vision tower and language model: LLaVA and InternVL, Qwen-VL, Idefics."""
_FILES: Final = ("adapter_config.json", "adapter_model.safetensors")
_MOMENTS = ("exp_avg", "exp_avg_sq")  # Adam's state of a parameter, by torch's names


class Trainer:
    """One worker's copy of the model; workers with equal arguments but for `rank` hold equal weights.

    A step depends on the settings, the weights and the batch alone: dropout is drawn by seed, step and rank. The loss
    is the mean over all answer tokens of the batch, over all workers, in nats.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        settings: TrainingSettings,
        memory: MemorySettings,
        *,
        rank: int = 0,
        workers: int = 1,
    ) -> None:
        self._settings, self._memory = settings, memory
        self._rank, self._workers = rank, workers
        self._device = checkpoint.device
        self._pad_id = checkpoint.pad_id
        if memory.gradient_checkpointing:
            _checkpoint_activations(checkpoint.model)
        self._model = add_lora(checkpoint.model, settings)
        self.parameters: dict[str, Tensor] = {
            name: parameter for name, parameter in self._model.named_parameters() if parameter.requires_grad
        }
        self._optimizer = self._make_optimizer()
        self.step = 0  # optimizer steps taken

    def _make_optimizer(self) -> Any:
        settings = self._settings
        projector = [p for name, p in self.parameters.items() if is_projector(name)]
        others = [p for name, p in self.parameters.items() if not is_projector(name)]
        groups = [(others, settings.learning_rate), (projector, settings.projector_learning_rate)]
        return torch.optim.AdamW(
            [{"params": members, "lr": rate, "initial_lr": rate} for members, rate in groups if members],
            betas=settings.adam_betas,
            eps=settings.adam_epsilon,
            weight_decay=settings.weight_decay,
        )

    def train_step(self, examples: Sequence[EncodedExample], total_steps: int) -> float:
        """Take one optimizer step on this worker's share of a batch, which may be empty; return the batch's loss."""
        self._model.train()
        tokens = self._summed(sum(example.answer_tokens for example in examples))
        loss = 0.0
        for number, batch in enumerate(batches(examples, self._memory.micro_batch_size, self._pad_id)):
            with self._dropout_seed(number):
                summed = self._loss_sum(batch)
                (summed / tokens).backward()
            loss += float(summed.detach())
        self._combine_gradients()
        torch.nn.utils.clip_grad_norm_(list(self.parameters.values()), self._settings.max_grad_norm)
        factor = learning_rate_factor(self.step, total_steps, self._settings.warmup_ratio)
        for group in self._optimizer.param_groups:
            group["lr"] = group["initial_lr"] * factor
        self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        self.step += 1
        return self._summed(loss) / tokens

    def loss_sum(self, examples: Sequence[EncodedExample]) -> tuple[float, int]:
        """Return the summed loss of examples without dropout, and the number of answer tokens; of this worker alone."""
        self._model.eval()
        with torch.no_grad():
            parts = [float(self._loss_sum(batch)) for batch in self._batches(examples)]
        return sum(parts), sum(example.answer_tokens for example in examples)

    def mean_over_workers(self, total: float, count: int) -> float:
        """Return the sum of all workers' totals over the sum of their counts."""
        return self._summed(total) / self._summed(count)

    def _batches(self, examples: Sequence[EncodedExample]) -> Iterator[Batch]:
        return batches(examples, self._memory.micro_batch_size, self._pad_id)

    def _loss_sum(self, batch: Batch) -> Tensor:
        inputs = {name: tensor.to(self._device) for name, tensor in batch.inputs.items()}
        answer = batch.answer_tokens
        reduced = self._settings.dtype == "bfloat16"
        with torch.autocast(self._device.type, dtype=torch.bfloat16, enabled=reduced):
            # Logits of the answers alone: those of a whole batch take gigabytes.
            logits = self._model(**inputs, use_cache=False, logits_to_keep=answer + 1).logits[:, -answer - 1 : -1]
        targets = batch.labels[:, -answer:].to(self._device)
        return torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), targets.flatten(), reduction="sum")

    @contextmanager
    def _dropout_seed(self, micro_batch: int) -> Iterator[None]:
        text = f"{self._settings.seed}|{self.step}|{self._rank}|{micro_batch}"
        seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big", signed=True)
        with torch.random.fork_rng(devices=[self._device] if self._device.type == "cuda" else []):
            torch.manual_seed(seed)
            yield

    def _combine_gradients(self) -> None:
        for parameter in self.parameters.values():
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            if self._workers > 1:
                torch.distributed.all_reduce(parameter.grad)

    def _summed(self, value: float) -> float:
        if self._workers == 1:
            return value
        total = torch.tensor(value, dtype=torch.float64, device=self._device)
        torch.distributed.all_reduce(total)
        return float(total)

    def state(self, history: Mapping[str, Any]) -> bytes:
        """Return weights, optimizer and step as one safetensors file; `history` is JSON that `load_state` returns."""
        from safetensors.torch import save

        tensors = {f"weight/{name}": tensor.detach().cpu() for name, tensor in self.parameters.items()}
        for name, parameter in self.parameters.items():
            moments = self._optimizer.state.get(parameter, {})
            tensors |= {f"{moment}/{name}": moments[moment].cpu() for moment in _MOMENTS if moment in moments}
        return bytes(save(tensors, {"training": json.dumps({"step": self.step, "history": dict(history)})}))

    def load_state(self, content: bytes, where: str) -> dict[str, Any]:
        """Restore what `state` returned; return the history. TrainingStateError names `where`."""
        from safetensors import SafetensorError
        from safetensors.torch import load

        try:
            tensors = load(content)
            length = int.from_bytes(content[:8], "little")
            training: dict[str, Any] = json.loads(json.loads(content[8 : 8 + length])["__metadata__"]["training"])
        except (SafetensorError, ValueError, KeyError) as error:
            raise TrainingStateError(f"{where} is damaged ({error}); delete it, or use another --out") from error
        self.load_weights(tensors, where)
        self.step = int(training["step"])
        for name, parameter in self.parameters.items():
            moments = {moment: tensors[f"{moment}/{name}"].to(self._device) for moment in _MOMENTS if self.step}
            self._optimizer.state[parameter] = {"step": torch.tensor(float(self.step)), **moments}
        history: dict[str, Any] = training["history"]
        return history

    def load_weights(self, tensors: Mapping[str, Tensor], where: str) -> None:
        """Replace the trained weights by those of a state."""
        expected = {f"weight/{name}": tensor.shape for name, tensor in self.parameters.items()}
        stored = {name: tensor.shape for name, tensor in tensors.items() if name.startswith("weight/")}
        if stored != expected:
            raise TrainingStateError(f"{where} is of another model or other settings; use another --out")
        for name, parameter in self.parameters.items():
            parameter.data.copy_(tensors[f"weight/{name}"])

    def weights(self) -> bytes:
        """Return the trained weights alone as one safetensors file, for `load_weights`."""
        from safetensors.torch import save

        return bytes(save({f"weight/{name}": tensor.detach().cpu() for name, tensor in self.parameters.items()}))

    def adapter(self, base: str, revision: str | None) -> dict[str, bytes]:
        """Return file name -> content of the adapter as PEFT and the engines load it."""
        return adapter_files(self._model, base, revision)


def _checkpoint_activations(model: Any) -> None:
    """Enable gradient checkpointing: activations are recomputed in the backward pass."""
    if hasattr(model, "activation_checkpointing_enable"):
        model.activation_checkpointing_enable()
    else:  # its name before transformers 5.23
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})


def add_lora(model: Any, settings: TrainingSettings) -> Any:
    """Freeze a model and insert trainable layers in float32; return the `PeftModel`.

    As in LLaVA's code these are low-rank layers at every linear layer of the language model, and the projector as a
    whole. The initial weights are a function of the seed.

    Raises:
        TrainingStateError: no linear layers are found.
    """
    from peft import LoraConfig, get_peft_model

    config = LoraConfig(
        r=settings.lora_rank,
        lora_alpha=settings.lora_alpha,
        lora_dropout=settings.lora_dropout,
        target_modules=_language_layers(model),
        modules_to_save=projector_names(model) if settings.train_projector else None,
    )
    with torch.random.fork_rng(devices=()):
        torch.manual_seed(settings.seed)
        tuned = get_peft_model(model, config)
    for parameter in tuned.parameters():
        if parameter.requires_grad:
            parameter.data = parameter.data.float()  # the projector's copy has the dtype of the base
    return tuned


def projector_names(model: Any) -> list[str]:
    """Return the last part of the names of the model's projectors."""
    names = {name.rpartition(".")[2] for name, _ in model.named_modules()}
    return [name for name in _PROJECTORS if name in names]


def is_projector(parameter: str) -> bool:
    """Return whether a parameter, by its full name, belongs to a projector."""
    return any(name in parameter.split(".") for name in _PROJECTORS)


def adapter_files(tuned: Any, base: str, revision: str | None) -> dict[str, bytes]:
    """Return file name -> content of the adapter's folder; `base` is the name of the base model that it states."""
    config = tuned.peft_config["default"]
    config.base_model_name_or_path, config.revision = base, revision
    with scratch() as folder:
        tuned.save_pretrained(folder, save_embedding_layers=False)  # "auto" asks the hub about the base
        return {name: Path(folder, name).read_bytes() for name in _FILES}


def _language_layers(model: Any) -> str:
    """Return a pattern of the full names of all linear layers of the language model but its head."""
    decoder = model.get_decoder()
    prefix = next(name for name, module in model.named_modules() if module is decoder)
    linear = [name for name, module in decoder.named_modules() if isinstance(module, torch.nn.Linear)]
    if not linear:
        raise TrainingStateError(f"{type(model).__name__}: no linear layers in its language model to fine-tune")
    last_parts = sorted({re.escape(name.rpartition(".")[2]) for name in linear})
    return rf"{re.escape(prefix)}\..*\.({'|'.join(last_parts)})"

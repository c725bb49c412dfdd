"""Token vectors of one layer of an encoder, equal to those of the bert-score package 0.3.13.

Texts for RoBERTa and GPT-2 get a leading blank, as the package did under transformers 4, with which the published
baselines were made (transformers 5 ignores the package's option).
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from pipelines.errors import UsageError
from pipelines.metrics.scorer_checkpoint import CheckpointSource, load_model

_LONGEST_STATED_LIMIT: Final = 1_000_000  # tokenizers without a limit state 1e30
_LAYER_PATHS: Final = (
    "encoder.layer",  # BERT, RoBERTa, DeBERTa, ELECTRA and most others
    "transformer.layer",  # DistilBERT
    "layers",  # ModernBERT
)
_PREFIXED_FAMILIES: Final = frozenset({"roberta", "gpt2"})


class TokenEncoder:
    """An encoder up to one layer, with its tokenizer. `special_ids` are those of the opening and closing tokens."""

    def __init__(self, source: CheckpointSource, layer: int, *, device: str, batch_size: int) -> None:
        """Load a float32 encoder without the layers above `layer` (0: the embeddings); UsageError beyond the last."""
        from transformers import AutoConfig, AutoModel, AutoTokenizer

        # Loaded first: an unreachable hub is then tried once, for some 20 s, and not once per file.
        with source.obtaining("configuration"):
            config = AutoConfig.from_pretrained(source.model, **source.options())
        with source.obtaining("tokenizer"):
            self._tokenizer = AutoTokenizer.from_pretrained(source.model, config=config, **source.options())
        # Masked language models have no pooler, and token vectors do not need it.
        self._encoder = load_model(source, AutoModel, device=device, may_lack="pooler.", config=config)
        _keep_layers(self._encoder, layer, source)
        if self._tokenizer.pad_token_id is None:
            raise source.refuse("its tokenizer has no padding token.")
        self.special_ids = frozenset({self._tokenizer.cls_token_id, self._tokenizer.sep_token_id})
        self._limit = _token_limit(self._tokenizer, self._encoder)
        self._prefix = " " if _needs_blank(self._tokenizer, self._encoder) else ""
        self._device, self._batch_size = device, batch_size

    def tokens(self, texts: Sequence[str]) -> list[list[int]]:
        """Return token ids of stripped, non-empty texts, with special ones, truncated at the model's limit."""
        if not texts:
            return []
        encoding = self._tokenizer(
            [self._prefix + text for text in texts],
            truncation=self._limit is not None,
            max_length=self._limit,
            return_attention_mask=False,
            return_token_type_ids=False,
        )
        return [list(ids) for ids in encoding["input_ids"]]

    def vectors(self, tokens: Sequence[Sequence[int]]) -> list[Any]:
        """Return unit vectors of N token lists: N float32 tensors (tokens, width) on the CPU."""
        import torch

        longest_first = sorted(range(len(tokens)), key=lambda i: -len(tokens[i]))
        vectors: list[Any] = [None] * len(tokens)
        for batch in batches(longest_first, self._batch_size):
            ids = torch.full((len(batch), len(tokens[batch[0]])), self._tokenizer.pad_token_id)
            mask = torch.zeros_like(ids)
            for row, i in enumerate(batch):
                ids[row, : len(tokens[i])] = torch.tensor(tokens[i])
                mask[row, : len(tokens[i])] = 1
            output = self._encoder(ids.to(self._device), attention_mask=mask.to(self._device))
            unit = torch.nn.functional.normalize(output[0], dim=-1).cpu()
            for row, i in enumerate(batch):
                # A copy: a slice would keep the whole padded batch in memory.
                vectors[i] = unit[row, : len(tokens[i])].clone()
        return vectors


def batches(items: Sequence[int], size: int) -> Iterator[Sequence[int]]:
    """Yield consecutive slices of at most `size` items."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def _keep_layers(encoder: Any, layer: int, source: CheckpointSource) -> None:
    import torch

    if encoder.config.is_encoder_decoder:
        raise source.refuse("it has a decoder, so that its output is not the encoder's.")
    for path in _LAYER_PATHS:
        owner: Any = encoder
        *parents, name = path.split(".")
        for parent in parents:
            owner = getattr(owner, parent, None)
        layers = getattr(owner, name, None)
        if isinstance(layers, torch.nn.ModuleList):
            if not 0 <= layer <= len(layers):
                raise UsageError(f"layer {layer} of {source.model!r}: it has {len(layers)}")
            setattr(owner, name, layers[:layer])
            return
    raise source.refuse("the names of its layers are unknown.")


def _token_limit(tokenizer: Any, encoder: Any) -> int | None:
    """Return the tokenizer's token limit, bounded by the number of positions."""
    limits = [int(tokenizer.model_max_length)] if tokenizer.model_max_length < _LONGEST_STATED_LIMIT else []
    positions = getattr(encoder.config, "max_position_embeddings", None)
    if isinstance(positions, int) and positions > 0:
        table = getattr(getattr(encoder, "embeddings", None), "position_embeddings", None)
        # RoBERTa counts positions from the padding index on.
        first = getattr(table, "padding_idx", None)
        limits.append(positions if first is None else positions - first - 1)
    return min(limits, default=None)


def _needs_blank(tokenizer: Any, encoder: Any) -> bool:
    from transformers import GPT2Tokenizer, RobertaTokenizer

    # The class is not enough: BART's tokenizer is RoBERTa's now, and the package adds no blank for it.
    family = encoder.config.model_type in _PREFIXED_FAMILIES
    return family and isinstance(tokenizer, (GPT2Tokenizer, RobertaTokenizer))

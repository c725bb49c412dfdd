"""Token vectors of one layer of an encoder, as the bert-score package 0.3.13 makes them.

Equal also in what a text is to the tokenizer: RoBERTa and GPT-2 get one blank in front, as the package did with
the tokenizers of transformers 4, under which the published baselines were made (transformers 5 ignores the
package's request).
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from pipelines.errors import UsageError
from pipelines.metrics.scorer_checkpoint import Source, load_model

_LONGEST_STATED_LIMIT: Final = 1_000_000  # tokenizers that know no limit state 1e30
_LAYER_PATHS: Final = (
    "encoder.layer",  # BERT, RoBERTa, DeBERTa, ELECTRA and most others
    "transformer.layer",  # DistilBERT
    "layers",  # ModernBERT
)
_PREFIXED_FAMILIES: Final = frozenset({"roberta", "gpt2"})


class TokenEncoder:
    """An encoder cut off above one layer, with its tokenizer.

    Attributes:
        special_ids: The ids of the opening and closing tokens.
    """

    def __init__(self, source: Source, layer: int, *, device: str, batch_size: int) -> None:
        """Loads the encoder in float32 and drops the layers above the one in use.

        Args:
            source: Where the model comes from.
            layer: Which layer's vectors are wanted, 0 being the embeddings.
            device: Torch device.
            batch_size: Texts a batch.

        Raises:
            ScorerUnavailableError: The model cannot be had or is not an encoder whose layers are known.
            ValueError: The encoder has fewer layers.
        """
        from transformers import AutoConfig, AutoModel, AutoTokenizer

        # By itself and first: a hub that cannot be reached is then tried once, some 20 s, and not once a file.
        with source.obtaining("configuration"):
            config = AutoConfig.from_pretrained(source.model, **source.options())
        with source.obtaining("tokenizer"):
            self._tokenizer = AutoTokenizer.from_pretrained(source.model, config=config, **source.options())
        # Masked language models are published without a pooler, and token vectors do not need it.
        self._encoder = load_model(source, AutoModel, device=device, may_lack="pooler.", config=config)
        _keep_layers(self._encoder, layer, source)
        if self._tokenizer.pad_token_id is None:
            raise source.refuse("its tokenizer has no padding token.")
        self.special_ids = frozenset({self._tokenizer.cls_token_id, self._tokenizer.sep_token_id})
        self._limit = _token_limit(self._tokenizer, self._encoder)
        self._prefix = " " if _wants_blank(self._tokenizer, self._encoder) else ""
        self._device, self._batch_size = device, batch_size

    def tokens(self, texts: Sequence[str]) -> list[list[int]]:
        """Token ids of N stripped, non-empty texts, with the special ones, cut at the model's limit."""
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
        """Unit vectors of N token lists: N float32 tensors (tokens, width) in main memory."""
        import torch

        longest_first = sorted(range(len(tokens)), key=lambda i: -len(tokens[i]))
        own: list[Any] = [None] * len(tokens)
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
                own[i] = unit[row, : len(tokens[i])].clone()
        return own


def batches(items: Sequence[int], size: int) -> Iterator[Sequence[int]]:
    """Consecutive runs of at most `size` items."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def _keep_layers(encoder: Any, layer: int, source: Source) -> None:
    """Drops the layers above the one in use, so that the output is that layer's and nothing else is run."""
    import torch

    if encoder.config.is_encoder_decoder:
        raise source.refuse("it is an encoder with a decoder, whose output would not be the encoder's.")
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
    raise source.refuse("it is not an encoder whose layers are known.")


def _token_limit(tokenizer: Any, encoder: Any) -> int | None:
    """The longest text in tokens: what the tokenizer states, bounded by the positions there are."""
    limits = [int(tokenizer.model_max_length)] if tokenizer.model_max_length < _LONGEST_STATED_LIMIT else []
    positions = getattr(encoder.config, "max_position_embeddings", None)
    if isinstance(positions, int) and positions > 0:
        table = getattr(getattr(encoder, "embeddings", None), "position_embeddings", None)
        # RoBERTa counts positions from behind the padding index.
        first = getattr(table, "padding_idx", None)
        limits.append(positions if first is None else positions - first - 1)
    return min(limits, default=None)


def _wants_blank(tokenizer: Any, encoder: Any) -> bool:
    from transformers import GPT2Tokenizer, RobertaTokenizer

    # The class alone does not tell: BART's tokenizer has become RoBERTa's, and the package left it alone.
    family = encoder.config.model_type in _PREFIXED_FAMILIES
    return family and isinstance(tokenizer, (GPT2Tokenizer, RobertaTokenizer))

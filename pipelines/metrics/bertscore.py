"""BERTScore (Zhang et al. 2020) as in bert-score 0.3.13, except that padding never matches: batches do not matter."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
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


DEFAULT_LAYERS: Final[Mapping[str, int]] = MappingProxyType(
    {
        "bert-base-multilingual-cased": 9,
        "google-bert/bert-base-multilingual-cased": 9,
        "roberta-large": 17,
        "FacebookAI/roberta-large": 17,
        "microsoft/deberta-xlarge-mnli": 40,
    }
)  # the package's layer by hub id

ENGLISH_BASELINES: Final[Mapping[tuple[str, int], float]] = MappingProxyType(
    {("roberta-large", 17): 0.83122575, ("FacebookAI/roberta-large", 17): 0.83122575}
)  # the package's baselines for English, by hub id and layer: mean F1 of unrelated sentences

_WINDOW: Final = 1024  # pairs with token vectors in memory; some 0.4 MB per text of width 1024


@dataclass(frozen=True, slots=True)
class _Encoded:
    """One text: unit vectors (tokens, width) and token weights (tokens,), which sum to 1 or to 0."""

    vectors: Any
    weights: Any


class BertScorer:
    """An encoder that scores pairs of texts; identical texts within 1,024 pairs are encoded once."""

    def __init__(
        self,
        model: str,
        layer: int | None = None,
        *,
        device: str = "cpu",
        batch_size: int = 64,
        revision: str | None = None,
        local_files_only: bool = False,
    ) -> None:
        """Load the encoder (directory or hub id, safetensors) in float32, without the layers above `layer`.

        Layer 0 is the embeddings, None the package's choice; UsageError if it is unknown.
        """
        if layer is None:
            if model not in DEFAULT_LAYERS:
                raise UsageError(f"no default layer is known for {model!r}: give one, as in 'bertscore=DIR:17'")
            layer = DEFAULT_LAYERS[model]
        source = CheckpointSource(model=model, revision=revision, local_files_only=local_files_only)
        self._encoder = TokenEncoder(source, layer, device=device, batch_size=batch_size)
        self._device, self._batch_size = device, batch_size
        self.model, self.layer, self.revision = model, layer, revision

    def score(self, candidates: Sequence[str], references: Sequence[str]) -> list[float]:
        """Return F1 of N pairs, -1..1 and in practice 0..1; 0 if a text is blank or has no token with a weight."""
        if len(candidates) != len(references):
            raise ValueError(f"{len(candidates)} candidates but {len(references)} references")
        pairs = [(c.strip(), r.strip()) for c, r in zip(candidates, references, strict=True)]
        scores: list[float] = []
        for start in range(0, len(pairs), _WINDOW):
            scores.extend(self._score_window(pairs[start : start + _WINDOW]))
        return scores

    def _score_window(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        import torch

        scores = [0.0] * len(pairs)
        with torch.inference_mode():
            encoded = self._encode(sorted({text for pair in pairs for text in pair if text}))
            full = [i for i, (c, r) in enumerate(pairs) if c and r]
            full.sort(key=lambda i: -sum(len(encoded[text].weights) for text in pairs[i]))
            for batch in batches(full, self._batch_size):
                sides = [[encoded[pairs[i][side]] for i in batch] for side in (0, 1)]
                for i, score in zip(batch, _match(sides[0], sides[1], self._device), strict=True):
                    scores[i] = score
        return scores

    def _encode(self, texts: Sequence[str]) -> dict[str, _Encoded]:
        import torch

        tokens = self._encoder.tokens(texts)
        rows = zip(texts, self._encoder.vectors(tokens), tokens, strict=True)
        return {text: _Encoded(vectors, torch.tensor(self._weights(ids))) for text, vectors, ids in rows}

    def _weights(self, ids: Sequence[int]) -> list[float]:
        """Return the weights of a text's tokens: equal, and 0 for special ones."""
        raw = [float(token not in self._encoder.special_ids) for token in ids]
        total = sum(raw)
        return [weight / total for weight in raw] if total > 0 else raw


def _match(candidates: Sequence[_Encoded], references: Sequence[_Encoded], device: str) -> list[float]:
    """Return F1 of a batch of pairs, matched greedily by cosine; special tokens can be matched but have no weight."""
    import torch
    from torch.nn.utils.rnn import pad_sequence

    def padded(tensors: list[Any]) -> Any:
        return pad_sequence(tensors, batch_first=True).to(device)

    def present(side: Sequence[_Encoded]) -> Any:
        return padded([torch.ones(len(item.weights), dtype=torch.bool) for item in side])

    cosines = torch.bmm(
        padded([item.vectors for item in candidates]), padded([item.vectors for item in references]).transpose(1, 2)
    )
    to_reference = cosines.masked_fill(~present(references)[:, None, :], -torch.inf).amax(2)
    to_candidate = cosines.masked_fill(~present(candidates)[:, :, None], -torch.inf).amax(1)
    precision = (to_reference * padded([item.weights for item in candidates])).sum(1)
    recall = (to_candidate * padded([item.weights for item in references])).sum(1)
    f1 = 2 * precision * recall / (precision + recall)
    scores: list[float] = torch.where(f1.isnan(), 0.0, f1).tolist()  # neither text has a weight
    return scores

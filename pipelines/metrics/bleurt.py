"""BLEURT-20 (Sellam et al. 2020, Pu et al. 2021) in batches, from the PyTorch port's checkpoints.

The port's package (`lucadiliello/BLEURT-20` and its distilled D12, D6 and D3) does not work with transformers 5. So its
checkpoints are loaded into transformers' RemBERT under other names, and its SentencePiece tokenizer is used directly.
"""

from collections.abc import Sequence
from typing import Any, Final

from pipelines.metrics.bertscore import batches
from pipelines.metrics.scorer_checkpoint import CheckpointSource, load_model

_RENAMED_WEIGHTS: Final = {
    r"^bleurt\.encoder\.embedding_projection\.": "rembert.encoder.embedding_hidden_mapping_in.",
    r"^bleurt\.": "rembert.",
}
_SHARED_SETTINGS: Final = (
    *("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "hidden_act"),
    *("max_position_embeddings", "type_vocab_size", "layer_norm_eps", "pad_token_id"),
)
_VOCABULARY_FILE: Final = "spm.model"
_OPENING, _CLOSING = "[CLS]", "[SEP]"
_N_SPECIAL: Final = 3  # opening, closing after the reference, closing after the candidate


class BleurtScorer:
    """A BLEURT-20 model that scores pairs of texts; identical pairs are scored once."""

    def __init__(
        self,
        model: str = "lucadiliello/BLEURT-20",
        *,
        device: str = "cpu",
        batch_size: int = 32,
        revision: str | None = None,
        local_files_only: bool = False,
    ) -> None:
        """Load a checkpoint of the port in float32; raise ScorerUnavailableError if it is not available."""
        from transformers import RemBertForSequenceClassification

        source = CheckpointSource(model=model, revision=revision, local_files_only=local_files_only)
        config = _rembert_config(source)
        self._pieces = _load_pieces(source)
        self._opening, self._closing = (_special_id(self._pieces, piece, source) for piece in (_OPENING, _CLOSING))
        self._model = load_model(
            source, RemBertForSequenceClassification, device=device, config=config, key_mapping=dict(_RENAMED_WEIGHTS)
        )
        self._padding: int = config.pad_token_id
        self._limit: int = config.max_position_embeddings
        self._device, self._batch_size = device, batch_size
        self.model, self.revision = model, revision

    def score(self, references: Sequence[str], candidates: Sequence[str]) -> list[float]:
        """Score N pairs (also empty candidates), the reference first; raw regression values, mostly within 0..1."""
        if len(references) != len(candidates):
            raise ValueError(f"{len(references)} references but {len(candidates)} candidates")
        import torch

        pairs = list(zip(references, candidates, strict=True))
        unique = sorted(set(pairs))
        encoded = [self._encode(*pair) for pair in unique]
        scores: dict[tuple[str, str], float] = {}
        with torch.inference_mode():
            longest_first = sorted(range(len(unique)), key=lambda i: -len(encoded[i][0]))
            for batch in batches(longest_first, self._batch_size):
                values = self._forward([encoded[i] for i in batch])
                scores.update((unique[i], value) for i, value in zip(batch, values, strict=True))
        return [scores[pair] for pair in pairs]

    def _encode(self, reference: str, candidate: str) -> tuple[list[int], int]:
        """Return the pair's token ids, and how many belong to the reference's segment."""
        first, second = (list(self._pieces.encode(text, out_type=int)) for text in (reference, candidate))
        budget = self._limit - _N_SPECIAL
        for _ in range(len(first) + len(second) - budget):
            # The longer text is truncated first; the candidate if both are equal.
            (first if len(first) > len(second) else second).pop()
        ids = [self._opening, *first, self._closing, *second, self._closing]
        return ids, len(first) + 2

    def _forward(self, batch: Sequence[tuple[list[int], int]]) -> list[float]:
        import torch

        width = len(batch[0][0])
        ids = torch.full((len(batch), width), self._padding)
        mask, segments = torch.zeros_like(ids), torch.zeros_like(ids)
        for row, (tokens, boundary) in enumerate(batch):
            ids[row, : len(tokens)] = torch.tensor(tokens)
            mask[row, : len(tokens)] = 1
            segments[row, boundary : len(tokens)] = 1
        output = self._model(
            input_ids=ids.to(self._device),
            attention_mask=mask.to(self._device),
            token_type_ids=segments.to(self._device),
        )
        return [float(value) for value in output.logits[:, 0].tolist()]


def _rembert_config(source: CheckpointSource) -> Any:
    from transformers import PreTrainedConfig, RemBertConfig

    with source.obtaining("configuration"):
        config, _ = PreTrainedConfig.get_config_dict(source.model, **source.options())
    if config.get("model_type") != "bleurt" or not config.get("embedding_size"):
        raise source.refuse("it is not a BLEURT-20 checkpoint of the PyTorch port.")
    with source.obtaining("configuration"):
        return RemBertConfig(
            input_embedding_size=config["embedding_size"],
            num_labels=1,
            bos_token_id=None,
            eos_token_id=None,
            **{name: config[name] for name in _SHARED_SETTINGS if name in config},
        )


def _load_pieces(source: CheckpointSource) -> Any:
    import sentencepiece
    from transformers.utils import cached_file

    with source.obtaining("vocabulary"):
        options = source.options()
        del options["trust_remote_code"]
        path = cached_file(source.model, _VOCABULARY_FILE, **options)
        return sentencepiece.SentencePieceProcessor(model_file=path)


def _special_id(pieces: Any, piece: str, source: CheckpointSource) -> int:
    number = int(pieces.piece_to_id(piece))
    if number == pieces.unk_id():
        raise source.refuse(f"its vocabulary has no {piece}.")
    return number

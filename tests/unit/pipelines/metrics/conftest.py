"""Tiny scorer checkpoints, the same bytes on every machine: hand-made vocabularies, weights by formula."""

import json
import string
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from sentencepiece import sentencepiece_model_pb2
from transformers import (
    AutoModel,
    BertConfig,
    DebertaConfig,
    DebertaV2Config,
    RemBertConfig,
    RemBertForSequenceClassification,
    RobertaConfig,
)

POSITIONS = 40  # short, so that truncation is met
N_LAYERS = 3
SIZES = {
    "hidden_size": 32, "num_hidden_layers": N_LAYERS, "num_attention_heads": 4, "intermediate_size": 48,
    "max_position_embeddings": POSITIONS,
}  # fmt: skip
LETTERS = string.ascii_letters + string.digits + string.punctuation + "àèéìòù"
SYLLABLES = ["the", "in", "on", "lo", "se", "do", "or", "ca", "ne", "il", "ing"]


def by_formula(name: str, shape: torch.Size) -> torch.Tensor:
    """Return weights that depend on their name and shape only."""
    phase = zlib.crc32(name.encode()) % 997
    indices = torch.arange(shape.numel(), dtype=torch.float64)
    noise = torch.frac(torch.sin(indices * 12.9898 + phase) * 43758.5453)
    if name.endswith("LayerNorm.weight"):
        return (1.0 + 0.1 * noise).reshape(shape).float()
    # Strong embeddings and faint biases keep the token vectors of unlike words apart.
    scale = 2.0 if "word_embeddings" in name else 0.02 if name.endswith("bias") else 0.4
    return (scale * noise).reshape(shape).float()


def _byte_letters() -> list[str]:
    """Return the letters of the 256 bytes in byte-level vocabularies."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    escaped = [byte for byte in range(256) if byte not in plain]
    return [chr(byte) for byte in plain] + [chr(256 + i) for i in range(len(escaped))]


def _write_byte_level(folder: Path, specials: list[str]) -> int:
    merges = ["t h", "th e", "Ġ the", "Ġ t", "Ġ a", "i n", "in g", "o n", "l o", "s e", "lo se", "d o", "Ġ do"]
    tokens = [*specials, *_byte_letters(), *(merge.replace(" ", "") for merge in merges)]
    (folder / "vocab.json").write_text(json.dumps({token: i for i, token in enumerate(tokens)}))
    (folder / "merges.txt").write_text("#version: 0.2\n" + "\n".join(merges) + "\n")
    return len(tokens)


def _write_word_pieces(folder: Path) -> int:
    starts = [*LETTERS, *SYLLABLES]
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *starts, *("##" + piece for piece in starts)]
    (folder / "vocab.txt").write_text("\n".join(tokens) + "\n")
    return len(tokens)


def _write_sentence_pieces(folder: Path) -> int:
    proto = sentencepiece_model_pb2.ModelProto()  # type: ignore[attr-defined]  # generated
    proto.trainer_spec.model_type = 1  # unigram
    proto.trainer_spec.unk_id, proto.trainer_spec.pad_id = 1, 0
    proto.trainer_spec.bos_id, proto.trainer_spec.eos_id = 2, 3
    proto.trainer_spec.pad_piece, proto.trainer_spec.unk_piece = "[PAD]", "[UNK]"
    proto.trainer_spec.bos_piece, proto.trainer_spec.eos_piece = "[CLS]", "[SEP]"
    proto.normalizer_spec.name = "identity"
    proto.normalizer_spec.add_dummy_prefix = True
    proto.normalizer_spec.remove_extra_whitespaces = True
    proto.normalizer_spec.escape_whitespaces = True
    kinds = sentencepiece_model_pb2.ModelProto.SentencePiece  # type: ignore[attr-defined]  # generated
    for piece, kind in (
        ("[PAD]", kinds.CONTROL),
        ("[UNK]", kinds.UNKNOWN),
        ("[CLS]", kinds.CONTROL),
        ("[SEP]", kinds.CONTROL),
    ):
        proto.pieces.add(piece=piece, score=0.0, type=kind)
    for rank, piece in enumerate(["▁", *("▁" + s for s in SYLLABLES), *SYLLABLES, *LETTERS]):
        proto.pieces.add(piece=piece, score=-1.0 - 0.01 * rank - (2.0 if len(piece) == 1 else 0.0))
    proto.pieces.add(piece="[MASK]", score=0.0, type=kinds.CONTROL)
    (folder / "spm.model").write_bytes(proto.SerializeToString())
    return len(proto.pieces)


def make_encoder(folder: Path, family: str) -> Path:
    """Write a tiny encoder of a family with its tokenizer's files."""
    folder.mkdir(parents=True)
    if family == "bert":
        (folder / "tokenizer_config.json").write_text('{"do_lower_case": false, "model_max_length": 40}')
        config = BertConfig(vocab_size=_write_word_pieces(folder), **SIZES)
    elif family == "roberta":
        # Positions start behind the padding index, so the table is two longer than the limit.
        specials = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
        sizes = SIZES | {"max_position_embeddings": POSITIONS + 2}
        (folder / "tokenizer_config.json").write_text('{"model_max_length": 40}')
        config = RobertaConfig(vocab_size=_write_byte_level(folder, specials), type_vocab_size=1, **sizes)
    elif family == "deberta":
        specials = ["[CLS]", "[PAD]", "[SEP]", "[UNK]", "[MASK]"]
        (folder / "tokenizer_config.json").write_text('{"model_max_length": 40}')
        config = DebertaConfig(
            vocab_size=_write_byte_level(folder, specials), pad_token_id=1, type_vocab_size=0, relative_attention=True,
            max_relative_positions=-1, position_biased_input=False, pos_att_type=["c2p", "p2c"], **SIZES,
        )  # fmt: skip
    else:
        (folder / "tokenizer_config.json").write_text('{"do_lower_case": false, "model_max_length": 40}')
        config = DebertaV2Config(
            vocab_size=_write_sentence_pieces(folder), type_vocab_size=0, relative_attention=True, position_buckets=8,
            norm_rel_ebd="layer_norm", share_att_key=True, position_biased_input=False, pos_att_type=["c2p", "p2c"],
            **SIZES,
        )  # fmt: skip
    model = AutoModel.from_config(config)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            weight.copy_(by_formula(name, weight.shape))
    model.save_pretrained(folder)
    return folder


def make_bleurt(folder: Path) -> Path:
    """Write a tiny BLEURT-20 in the form of the PyTorch port."""
    from safetensors.torch import save_file

    folder.mkdir(parents=True)
    vocab_size = _write_sentence_pieces(folder)
    config = RemBertConfig(vocab_size=vocab_size, input_embedding_size=16, num_labels=1, **SIZES)
    model = RemBertForSequenceClassification(config)
    ported = {
        name.replace("rembert.", "bleurt.").replace("embedding_hidden_mapping_in", "embedding_projection"): shape
        for name, shape in ((name, weight.shape) for name, weight in model.named_parameters())
    }
    tensors = {name: by_formula(name, shape) for name, shape in ported.items()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    config = {
        "model_type": "bleurt", "architectures": ["BleurtForSequenceClassification"], "vocab_size": vocab_size,
        "embedding_size": 16, "hidden_act": "gelu", "type_vocab_size": 2, "layer_norm_eps": 1e-12, "pad_token_id": 0,
        "num_labels": 1, **SIZES,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": false, "model_max_length": 40}')
    return folder


@pytest.fixture(scope="session")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return a function that builds the encoder of a family, once a session."""
    root = tmp_path_factory.mktemp("encoders")

    def path_of(family: str) -> Path:
        folder = root / family
        return folder if folder.exists() else make_encoder(folder, family)

    return path_of


@pytest.fixture(scope="session")
def bleurt_checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_bleurt(tmp_path_factory.mktemp("scorers") / "bleurt")

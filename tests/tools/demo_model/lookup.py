"""Layers that look values up in a text and copy them, put behind the layers of a trained model.

From random weights so small a model does not begin to copy within an hour of two cores. Its new layers therefore begin
as the circuits that larger models form by themselves (induction heads, https://arxiv.org/abs/2209.11895), written into
directions of the hidden states that the trained layers hardly use; training then adjusts all weights.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch
from torch import Tensor, nn

_NUMBERS: Final = tuple(f"{number:03d}" for number in range(1000))
_FIELDS: Final = {'"name": ': "name", '"size": ': "size", '"rotation": ': "rotation", '"3d_coords": [': "coordinates"}
"""A field's beginning in the JSON, and the word for it in a question."""
_OBJECTS: Final = {f'"Object_{number}"': f"Object_{number}" for number in range(10)}
_CAMERA: Final = '{"camera_location": [9.915478112284436, 0, 5.34366512298584], "objects": ['
_OTHER_TEXTS: Final = ('"shape": "', '"material": "', '"color": "', '{"answer": ', "metal", "rubber", _CAMERA)
_OF: Final = " of"

_QUIET: Final = 132
"""Directions of the hidden states with the least energy: 2% of it in the model before."""
_CODE: Final = 18
"""Numbers that identify a token in a head: as many of its 32 channels are hardly turned by the rotary embedding."""
_SLOW: Final = torch.tensor([*range(7, 16), *range(23, 32)])
_SLOWER: Final = torch.tensor([*range(6, 16), *range(22, 32)])
_GATE: Final = 13
"""Channel of a head that tells whether a token is of the kind it looks for."""
_FAST_SCORES: Final = (30.0, 20.0, 20.0, 20.0)
"""Attention scores of the fastest pairs of channels, which tell tokens from their neighbours."""
_MATCH_SCORE: Final = 25.0
_MARK_SCORE: Final = 60.0
_RECENT_SCORES: Final = (20.0, 40.0)
"""Attention scores of slower pairs, which tell how far back a token is in a few hundred."""
_AMPLITUDE: Final = 4.0
"""Of embeddings in quiet directions, whose hidden states are about 5 there and elsewhere."""
_MARK: Final = 12.0
_RMS: Final = 6.0
_WRITE: Final = 6.0
_COPY: Final = 20.0
LOOKUP_HEAD: Final = 4
"""Query head of the last layer that begins to look at the asked field of the pointed object."""
_TYPICAL: Final = 0.65
"""Amplitude of an embedding after the norm before a layer."""


def quiet_directions(model: Any, texts: Sequence[Sequence[int]]) -> Tensor:
    """Return orthonormal directions [hidden, 132] in which the last hidden states of `texts` have the least energy."""
    core, outputs = model.model.language_model, []
    handle = core.layers[-1].register_forward_hook(lambda _module, _inputs, output: outputs.append(output))
    with torch.inference_mode():
        for ids in texts:
            positions = torch.arange(len(ids))[None, None].expand(3, 1, -1)
            core(inputs_embeds=core.embed_tokens(torch.tensor([ids])), position_ids=positions, use_cache=False)
    handle.remove()
    states = torch.cat([(output[0] if isinstance(output, tuple) else output)[0] for output in outputs]).clone()
    states = states / states.pow(2).mean(-1, keepdim=True).sqrt()
    _, vectors = torch.linalg.eigh(states.T @ states / len(states))
    return vectors[:, :_QUIET]


def is_extended(tokenizer: Any) -> bool:
    """Tell whether `extend` added its tokens."""
    return _NUMBERS[0] in tokenizer.get_vocab()


def extend(model: Any, tokenizer: Any, quiet: Tensor) -> None:
    """Add tokens for three digits, fields and names of objects, and four layers that look up and copy; in place."""
    first_new = len(tokenizer)
    tokenizer.add_tokens([*_NUMBERS, *_FIELDS, *_FIELDS.values(), *_OBJECTS, *_OBJECTS.values(), *_OTHER_TEXTS])
    model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    with torch.no_grad():
        spaces = _Spaces.draw(quiet)
        field_mark = _write_embeddings(model, tokenizer, first_new, quiet, spaces)
        core = model.model.language_model
        layers = [_new_layer(core) for _ in range(4)]
        attentions = [_Attention(layer.self_attn, core.config) for layer in layers]
        _see_neighbours(attentions[0], spaces)
        _find_pointed_object(attentions[1], spaces)
        attentions[2].attend_recent(0, spaces.marks[:, 2], spaces.pointed, 2 * spaces.pointed)
        _copy(attentions[3], spaces, field_mark)
        core.layers.extend(layers)
    for place, layer in enumerate(core.layers):
        layer.self_attn.layer_idx = place
    core.config.num_hidden_layers = len(core.layers)
    core.config.layer_types = ["full_attention"] * len(core.layers)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Spaces:
    """Orthonormal directions of the hidden states, [hidden, n] each."""

    previous: Tensor  # code of the token before
    second_previous: Tensor
    object: Tensor  # code of the object that the text is about
    pointed: Tensor  # codes of objects that the last tokens were about before
    field: Tensor  # code of the field that is asked for
    tokens: Tensor  # embeddings of numbers, fields and objects
    marks: Tensor  # kinds of tokens: names of objects; " of"; three digits and names
    code: Tensor  # [18, hidden]: reads the code of a token
    turn: Tensor  # [hidden, hidden]: from an embedding to what predicts the same token

    @classmethod
    def draw(cls, quiet: Tensor) -> _Spaces:
        mixed = quiet @ _rotation(quiet.shape[1])
        *codes, rest = mixed.split([_CODE] * 5 + [quiet.shape[1] - 5 * _CODE], dim=1)
        marks, tokens = rest[:, :3], rest[:, 3:]
        width = tokens.shape[1]
        return cls(
            previous=codes[0],
            second_previous=codes[1],
            object=codes[2],
            pointed=codes[3],
            field=codes[4],
            tokens=tokens,
            marks=marks,
            code=torch.randn(_CODE, width) @ tokens.T / width**0.5,
            turn=tokens @ _rotation(width) @ tokens.T,
        )

    def embeddings(self, count: int) -> Tensor:
        """Draw embeddings [count, hidden]."""
        return torch.randn(count, self.tokens.shape[1]) @ self.tokens.T * _AMPLITUDE


def _write_embeddings(model: Any, tokenizer: Any, first_new: int, quiet: Tensor, spaces: _Spaces) -> Tensor:
    """Draw the embeddings of the tokens from `first_new` on and of the digits; return what those of fields share."""
    inputs, outputs = model.get_input_embeddings().weight, model.lm_head.weight
    size = float(outputs[:first_new].std()) * outputs.shape[1] ** 0.5
    outputs[:first_new] -= outputs[:first_new] @ quiet @ quiet.T
    drawn = spaces.embeddings(len(tokenizer) - first_new)
    field_mark = spaces.embeddings(1)[0]

    def place(text: str) -> int:
        return int(tokenizer.convert_tokens_to_ids(text)) - first_new

    for text, word in {**_FIELDS, **_OBJECTS}.items():
        drawn[place(text)] = 0.3 * drawn[place(text)] + drawn[place(word)]
    for text in _FIELDS:
        drawn[place(text)] += field_mark
    digits = [tokenizer.convert_tokens_to_ids(str(digit)) for digit in range(10)]
    drawn_digits = spaces.embeddings(len(digits))
    inputs[first_new:], outputs[first_new:] = drawn, _normal(drawn) @ spaces.turn.T * size
    inputs[digits] += drawn_digits
    outputs[digits] += _normal(drawn_digits) @ spaces.turn.T * size
    names = [first_new + place(text) for text in (*_OBJECTS, *_OBJECTS.values())]
    inputs[names] += spaces.marks[:, 0] * _MARK
    inputs[[*names, *tokenizer.convert_tokens_to_ids(list(_NUMBERS))]] += spaces.marks[:, 2] * _MARK
    inputs[tokenizer.encode(_OF, add_special_tokens=False)] += spaces.marks[:, 1] * _MARK
    return field_mark


def _see_neighbours(attention: _Attention, spaces: _Spaces) -> None:
    """Write the codes of the two tokens before, and of the last object's name."""
    attention.attend_back(0, 1, spaces.code, spaces.previous)
    attention.attend_back(1, 2, spaces.code, spaces.second_previous)
    attention.attend_recent(2, spaces.marks[:, 0], spaces.code.T, spaces.object)


def _find_pointed_object(attention: _Attention, spaces: _Spaces) -> None:
    """Write which object the same token, or the same two, were about before, and the field before the last " of"."""
    attention.match(0, _SLOW, spaces.previous.T, spaces.code)
    attention.match(1, _SLOW, spaces.second_previous.T, spaces.previous.T)
    for pair in range(2):
        attention.move(pair, spaces.object, spaces.pointed)
    attention.attend_recent(2, spaces.marks[:, 1], spaces.previous, spaces.field)


def _copy(attention: _Attention, spaces: _Spaces, field_mark: Tensor) -> None:
    """Predict what followed the same token, the same two tokens, or the asked field of the pointed object."""
    for pair in range(attention.pairs):
        read = (spaces.tokens @ _rotation(spaces.tokens.shape[1]))[:, : attention.width]
        attention.move(pair, read, spaces.turn @ read * (_COPY / _WRITE), heads=2)
    attention.match(0, _SLOW, spaces.previous.T, spaces.code)
    attention.match(1, _SLOW, spaces.second_previous.T, spaces.previous.T)
    half = len(_SLOWER) // 2
    field, thing = (1.3 * torch.randn(half, _CODE) / _CODE**0.5 for _ in range(2))
    attention.match(2, _SLOWER[:half], 1.2 * field @ spaces.previous.T, 1.2 * field @ spaces.field.T)
    attention.match(2, _SLOWER[half:], thing @ spaces.object.T, thing @ spaces.pointed.T, calm=False)
    attention.ask(2, _SLOWER[:half], 1.2 * field @ (spaces.code @ field_mark) * 0.1)


class _Attention:
    """Self-attention of a new layer by pairs of query heads that share a key-value head; the first one is written."""

    def __init__(self, attention: Any, config: Any) -> None:
        self._parts = attention
        self.width = config.hidden_size // config.num_attention_heads
        self.pairs: int = config.num_key_value_heads
        base = config.rope_parameters["rope_theta"]
        self._turns = base ** (-torch.arange(0, self.width, 2).float() / self.width)
        attention.o_proj.weight *= 0.3

    def attend_back(self, pair: int, distance: int, read: Tensor, write: Tensor) -> None:
        """Attend to the token `distance` before; write what `read` [code, hidden] finds there."""
        roots = torch.zeros(len(self._turns))
        roots[: len(_FAST_SCORES)] = (torch.tensor(_FAST_SCORES) * self.width).sqrt()
        angles = distance * self._turns
        self._calm(pair)
        self._parts.k_proj.bias[self._keys(pair)] = torch.cat([roots, torch.zeros_like(roots)])
        self._parts.q_proj.bias[self._queries(pair)] = torch.cat([roots * angles.cos(), -roots * angles.sin()])
        self.move(pair, read.T, write)

    def attend_recent(self, pair: int, mark: Tensor, read: Tensor, write: Tensor) -> None:
        """Attend to the last token with a mark."""
        roots = torch.zeros(len(self._turns))
        roots[5:7] = (torch.tensor(_RECENT_SCORES) * self.width**0.5).sqrt()
        self._calm(pair)
        for part, rows in ((self._parts.k_proj, self._keys(pair)), (self._parts.q_proj, self._queries(pair))):
            part.bias[rows] = torch.cat([roots, torch.zeros_like(roots)])
        gate = (_MARK_SCORE * self.width**0.5 * _RMS / _MARK) ** 0.5
        self._parts.q_proj.bias[self._queries(pair)][_GATE] = gate
        self._parts.k_proj.weight[self._keys(pair)][_GATE] += gate * mark
        self.move(pair, read, write)

    def match(self, pair: int, channels: Tensor, keys: Tensor, queries: Tensor, *, calm: bool = True) -> None:
        """Attend where what `keys` [channels, hidden] reads is what `queries` reads here."""
        if calm:
            self._calm(pair)
        self._parts.k_proj.weight[self._keys(pair)][channels] += self._match_scale * keys
        self._parts.q_proj.weight[self._queries(pair)][channels] += self._match_scale * queries

    def ask(self, pair: int, channels: Tensor, query: Tensor) -> None:
        """Add a constant to the queries."""
        self._parts.q_proj.bias[self._queries(pair)][channels] += self._match_scale * query

    def move(self, pair: int, read: Tensor, write: Tensor, *, heads: int = 1) -> None:
        """Write into directions [hidden, n] what `read` [hidden, n] finds at the tokens attended to."""
        values = self._parts.v_proj.weight[self._keys(pair)]
        values[:] = 0
        values[: read.shape[1]] = read.T
        for head in range(heads):
            first = (2 * pair + head) * self.width
            self._parts.o_proj.weight[:, first : first + write.shape[1]] = write * _WRITE

    @property
    def _match_scale(self) -> float:
        return math.sqrt(_MATCH_SCORE * self.width**0.5 / (_CODE * _TYPICAL**2))

    def _calm(self, pair: int) -> None:
        self._parts.k_proj.weight[self._keys(pair)] *= 0.05
        self._parts.q_proj.weight[self._queries(pair)] *= 0.05

    def _keys(self, pair: int) -> slice:
        return slice(pair * self.width, (pair + 1) * self.width)

    def _queries(self, pair: int) -> slice:
        return slice(2 * pair * self.width, (2 * pair + 1) * self.width)


def _new_layer(core: Any) -> Any:
    layer = type(core.layers[0])(core.config, 0).float()
    for name, values in layer.named_parameters():
        if values.dim() == 2:
            nn.init.normal_(values, std=core.config.hidden_size**-0.5)
        elif name.endswith("bias"):
            nn.init.zeros_(values)
    nn.init.zeros_(layer.mlp.down_proj.weight)
    return layer


def _rotation(size: int) -> Tensor:
    return torch.linalg.qr(torch.randn(size, size))[0]


def _normal(vectors: Tensor) -> Tensor:
    return vectors / vectors.norm(dim=1, keepdim=True)

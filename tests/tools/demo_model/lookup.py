"""Layers that look values up in a scene as text and copy them, put behind the layers of a trained model.

From random weights so small a model does not begin to copy within an hour of two cores. Its new layers therefore begin
as circuits of the kind that larger models form by themselves (https://arxiv.org/abs/2209.11895), written into
directions of the hidden states that the trained layers hardly use; training then adjusts all weights:

1. each token sees the two tokens before it, the last object's name and the last field;
2. the value in the question finds the object that has it in the same field, and " of" keeps the field before it;
3. the answer collects the objects that the question's value was found in, and the field that is asked for;
4. it attends to that field of that object, where the tokens so far are those of the answer so far, and copies.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import torch
from torch import Tensor, nn

_NUMBERS: Final = tuple(f"{number:03d}" for number in range(1000))
_DIGITS: Final = tuple("0123456789")
_SIGNS: Final = (".", ",", "-", "[", "]", "Ġ")
_FIELDS: Final = {"name": '{"name": ', "size": 'size": ', "rotation": 'rotation": ', "coordinates": '3d_coords": '}
"""The word for a field in a question, and the field's beginning in the JSON."""
_OTHER_FIELDS: Final = ('shape": "', 'material": "', 'color": "')
_NAMES: Final = {f"Object_{number}": f'"Object_{number}"' for number in range(10)}
_ANSWER: Final = '{"answer": '
VALUE_END: Final = ', "'
"""What follows a value in the JSON; in an answer it is "}"."""
ANSWER_END: Final = "}"
_CAMERA: Final = '{"camera_location": [9.915478112284436, 0, 5.34366512298584], "objects": ['
_LINK: Final = "Ġof"

_SIZES: Final = {
    "token": 32,  # what is copied
    "output": 32,  # the token that comes next
    "gram": 6,  # which token it is, to be compared with others
    "gram_before": 6,
    "gram_second": 2,  # of two tokens before
    "gram_last": 2,  # of the token before
    "name": 5,
    "object": 5,  # that the text is about
    "pointed": 5,  # objects in which the token was found
    "target": 5,  # objects in which the question's value was found
    "kind": 2,  # of a field's beginning or word
    "field": 2,  # that the text is about
    "asked": 2,
    "word": 1,  # of a field's word, which only questions have
    "question": 1,  # the last field was a word
    "marks": 5,  # fields, names, " of", numbers, nothing
}
"""Directions of the hidden states by what they hold."""
_FIELD, _NAME_MARK, _LINK_MARK, _NUMBER, _FILLER = range(5)
_QUIET: Final = 132
"""Directions with the least energy: 2% of it in the model before."""

_LENGTHS: Final = (98.0, 135.0, 160.0, 165.0)
"""Of the hidden states before each new layer; behind the trained layers they are about 70."""
_CODE: Final = 40.0
"""Length of what a token holds, or a layer writes, about itself."""
_NAME_CODE: Final = 60.0
_NAME_MARK_LENGTH: Final = 100.0
_NAME_LENGTH: Final = 165.0
_FIELD_MARK, _FIELD_CODE, _START, _FIELD_QUIET = 200.0, 60.0, 120.0, 280.0
_FIELD_LENGTH: Final = 288.0
_ANSWER_START, _ANSWER_QUIET, _ANSWER_LENGTH = 50.0, 120.0, 138.0
"""Tokens of fields are long, and all alike, so that their marks hardly differ."""
_NUMBER_QUIET: Final = 70.0
_ASKED: Final = 80.0
_COPIED: Final = 100.0
_COPIED_NORMAL: Final = 7.0
"""Length of a copied token after the last norm."""
_LOGIT: Final = 30.0

_OBJECT_CHANNELS: Final = torch.tensor([13, 14, 15, 29, 30])
_FIELD_CHANNELS: Final = torch.tensor([12, 28])
_GRAM_CHANNELS: Final = torch.tensor([9, 10, 11, 25, 26, 27])
_SECOND_CHANNELS: Final = torch.tensor([8, 24])
_MARK_CHANNEL: Final = 31
"""Channels of a head that the rotary embedding hardly turns within a prompt."""
_NEIGHBOURS: Final = {0: 170.0, 1: 113.0, 2: 113.0, 3: 113.0}
_NEAR: Final = {3: 64.0, 4: 75.0, 5: 62.0, 6: 86.0}
_FAR: Final = {3: 2.0, 4: 8.0, 5: 14.0, 6: 16.0}
_FARTHER: Final = {5: 30.0, 6: 40.0}
_FARTHEST: Final = {5: 8.0, 6: 40.0}
"""Attention scores of pairs of channels: those of a distance, and those that fall with it within 35 and 100 tokens."""
LOOKUP_HEAD: Final = 4
"""Query head of the last layer that begins to look at the asked field of the pointed object."""


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
    others = (*_OTHER_FIELDS, _ANSWER, VALUE_END, "metal", "rubber", _CAMERA)
    tokenizer.add_tokens([*_NUMBERS, *_FIELDS.values(), *_FIELDS, *_NAMES.values(), *_NAMES, *others])
    model.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    with torch.no_grad():
        parts = (quiet @ _rotation(_QUIET))[:, : sum(_SIZES.values())].split(list(_SIZES.values()), dim=1)
        spaces = dict(zip(_SIZES, parts, strict=True))
        _Embeddings(model, tokenizer, first_new, quiet, spaces).write()
        core = model.model.language_model
        layers = [_new_layer(core) for _ in _LENGTHS]
        attentions = [_Attention(layer.self_attn, core.config) for layer in layers]
        _see_context(attentions[0], spaces)
        _find_question(attentions[1], spaces)
        _collect(attentions[2], spaces)
        _copy(attentions[3], spaces)
        core.layers.extend(layers)
    for place, layer in enumerate(core.layers):
        layer.self_attn.layer_idx = place
    core.config.num_hidden_layers = len(core.layers)
    core.config.layer_types = ["full_attention"] * len(core.layers)


class _Embeddings:
    """Embeddings of the tokens in quiet directions, and what predicts them."""

    def __init__(self, model: Any, tokenizer: Any, first_new: int, quiet: Tensor, spaces: Mapping[str, Tensor]) -> None:
        self._inputs, self._outputs = model.get_input_embeddings().weight, model.lm_head.weight
        self._tokenizer, self._first_new = tokenizer, first_new
        self._quiet, self._spaces = quiet, spaces
        self._marks = spaces["marks"].unbind(1)

    def write(self) -> None:
        """Write all of them."""
        first_new = self._first_new
        self._outputs[:first_new] -= self._outputs[:first_new] @ self._quiet @ self._quiet.T
        self._inputs[first_new:] = 0
        self._outputs[first_new:] = 0
        self._write_fields()
        self._write_values()
        self._add([_LINK], self._marks[_LINK_MARK] * 2 * _CODE)

    def _write_fields(self) -> None:
        start = self._spaces["gram"][:, 0]
        for axis, (word, beginning) in zip(_both_ways(_SIZES["kind"]), _FIELDS.items(), strict=True):
            self._add([word, beginning], axis @ self._spaces["kind"].T * _FIELD_CODE)
            self._add([word], self._spaces["word"][:, 0] * _FIELD_CODE)
            self._add([beginning], start * _START)
        fields = [*_FIELDS.values(), *_FIELDS, *_OTHER_FIELDS]
        self._add(fields, self._marks[_FIELD] * _FIELD_MARK)
        self._fill(fields, _FIELD_QUIET)
        self._add([_ANSWER], self._marks[_FIELD] * _FIELD_MARK * _ANSWER_LENGTH / _FIELD_LENGTH + start * _ANSWER_START)
        self._fill([_ANSWER], _ANSWER_QUIET)

    def _write_values(self) -> None:
        numbers = (*_NUMBERS, *_DIGITS)
        grams = self._draw_grams(len(numbers) + len(_SIGNS) + len(_NAMES))
        for text, gram in zip((*numbers, *_SIGNS), grams, strict=False):
            self._add([text], gram * _CODE)
        self._add(_NUMBERS, self._marks[_NUMBER] * _CODE)
        self._add(_DIGITS, self._marks[_NUMBER] * _CODE * 0.6)
        names = zip(_NAMES.items(), _both_ways(_SIZES["name"]), grams[-len(_NAMES) :], strict=True)
        for (word, written), axis, gram in names:
            self._add([word, written], (axis @ self._spaces["name"].T + gram) * _NAME_CODE)
            self._add([word, written], self._marks[_NAME_MARK] * _NAME_MARK_LENGTH)
        self._add([*_NAMES], self._marks[_NUMBER] * _NAME_CODE)
        copied = {text: text for text in (*numbers, *_SIGNS, *_NAMES.values())} | {VALUE_END: ANSWER_END}
        codes = _unit(len(copied), _SIZES["token"])
        for (read, predicted), code in zip(copied.items(), codes, strict=True):
            length = _NAME_CODE if read in _NAMES.values() else _CODE
            self._add([read], code @ self._spaces["token"].T * length)
            if read not in _NAMES.values():
                self._fill([read], _NUMBER_QUIET)
            self._outputs[self._places([predicted])] += code @ self._spaces["output"].T * _LOGIT / _COPIED_NORMAL

    def _draw_grams(self, count: int) -> Tensor:
        """Draw codes [count, hidden] that no token shares with a field's beginning."""
        drawn = _unit(count, _SIZES["gram"])
        drawn[:, 0] = -drawn[:, 0].abs()
        return drawn @ self._spaces["gram"].T

    def _add(self, texts: Sequence[str], code: Tensor) -> None:
        self._inputs[self._places(texts)] += code

    def _fill(self, texts: Sequence[str], length: float) -> None:
        """Make tokens so long in quiet directions."""
        rows = self._inputs[self._places(texts)]
        self._add(texts, (length**2 - rows.pow(2).sum(1, keepdim=True)).sqrt() * self._marks[_FILLER])

    def _places(self, texts: Sequence[str]) -> list[int]:
        return [int(place) for place in self._tokenizer.convert_tokens_to_ids(list(texts))]


def _see_context(attention: _Attention, spaces: Mapping[str, Tensor]) -> None:
    """Write the two tokens before, the last object's name and the last field."""
    shorter = spaces["gram"].T @ spaces["gram"] @ _rotation(_SIZES["gram"])[:, :2]
    attention.prefer(0, _NEIGHBOURS, distance=1)
    attention.prefer(1, _NEIGHBOURS, distance=2)
    attention.read(0, spaces["gram"], _CODE, _LENGTHS[0])
    attention.write(0, spaces["gram_before"] + spaces["gram_last"] @ shorter.T, _CODE)
    attention.write(1, spaces["gram_second"] @ shorter.T, _CODE)
    attention.prefer(2, _FAR)
    attention.gate(2, _MARK_CHANNEL, spaces["marks"][:, _NAME_MARK], 100.0, _NAME_MARK_LENGTH / _NAME_LENGTH)
    attention.read(1, spaces["name"], _NAME_CODE, _NAME_LENGTH)
    attention.write(2, spaces["object"], _CODE)
    attention.prefer(4, _NEAR)
    attention.gate(4, _MARK_CHANNEL, spaces["marks"][:, _FIELD], 200.0, _FIELD_MARK / _FIELD_LENGTH)
    attention.read(2, torch.cat([spaces["kind"], spaces["word"]], dim=1), _FIELD_CODE, _FIELD_LENGTH)
    attention.write(4, torch.cat([spaces["field"], spaces["question"]], dim=1), _CODE)


def _find_question(attention: _Attention, spaces: Mapping[str, Tensor]) -> None:
    """Write the objects that have the same token in the same field, and the field before the last " of"."""
    length = _CODE / _LENGTHS[1]
    for channels, name, score in (
        (_FIELD_CHANNELS, "field", 60.0),
        (_GRAM_CHANNELS, "gram", 50.0),
        (_SECOND_CHANNELS, "gram_last", 20.0),
    ):
        attention.match(LOOKUP_HEAD, channels, spaces[name], spaces[name], score, length, length)
    attention.gate(LOOKUP_HEAD, _MARK_CHANNEL, -spaces["question"][:, 0], 100.0, length)
    attention.read(2, spaces["object"], _CODE, _LENGTHS[1])
    attention.write(LOOKUP_HEAD, spaces["pointed"], _CODE)
    attention.prefer(2, _FARTHER)
    attention.gate(2, _MARK_CHANNEL, spaces["marks"][:, _LINK_MARK], 60.0, 2 * _CODE / _LENGTHS[1])
    attention.read(1, spaces["field"], _CODE, _LENGTHS[1])
    attention.write(2, spaces["asked"], _ASKED)


def _collect(attention: _Attention, spaces: Mapping[str, Tensor]) -> None:
    """Write the objects in which the tokens of the question's value were found."""
    attention.prefer(0, _FARTHEST)
    for channel, code in ((_MARK_CHANNEL, spaces["question"][:, 0]), (_MARK_CHANNEL - 1, spaces["marks"][:, _NUMBER])):
        attention.gate(0, channel, code, 20.0, _CODE / _LENGTHS[2])
    attention.read(0, spaces["pointed"], _CODE, _LENGTHS[2])
    attention.write(0, spaces["target"], _ASKED)


def _copy(attention: _Attention, spaces: Mapping[str, Tensor]) -> None:
    """Predict what follows the tokens so far in the asked field of the pointed object."""
    length, target_length = _CODE / _LENGTHS[3], _ASKED / _LENGTHS[3]
    for channels, key, query, score, query_length in (
        (_OBJECT_CHANNELS, "object", "target", 100.0, target_length),
        (_FIELD_CHANNELS, "field", "asked", 80.0, target_length),
        (_GRAM_CHANNELS, "gram_before", "gram", 80.0, length),
        (_SECOND_CHANNELS, "gram_second", "gram_last", 20.0, length),
    ):
        attention.match(LOOKUP_HEAD, channels, spaces[key], spaces[query], score, length, query_length)
    attention.gate(LOOKUP_HEAD, _MARK_CHANNEL, -spaces["question"][:, 0], 100.0, length)
    attention.read(2, spaces["token"], _CODE, _LENGTHS[3])
    attention.write(LOOKUP_HEAD, spaces["output"], _COPIED)


class _Attention:
    """Self-attention of a new layer: heads, by number, of which each two share keys and values; none writes yet."""

    def __init__(self, attention: Any, config: Any) -> None:
        self._parts = attention
        self._width = config.hidden_size // config.num_attention_heads
        self._scale = self._width**0.5
        self._norm = config.hidden_size**0.5
        base = config.rope_parameters["rope_theta"]
        self._turns = base ** (-torch.arange(0, self._width, 2).float() / self._width)
        self._written: set[str] = set()
        attention.o_proj.weight.zero_()

    def prefer(self, head: int, scores: Mapping[int, float], distance: int = 0) -> None:
        """Attend to what is `distance` tokens before, by pairs of channels that the rotary embedding turns."""
        self._clear(head)
        roots = torch.zeros(len(self._turns))
        roots[list(scores)] = (torch.tensor([*scores.values()]) * self._scale).sqrt()
        angles = distance * self._turns
        self._parts.k_proj.bias[self._rows(head // 2)] = torch.cat([roots, torch.zeros_like(roots)])
        self._parts.q_proj.bias[self._rows(head)] = torch.cat([roots * angles.cos(), -roots * angles.sin()])

    def gate(self, head: int, channel: int, mark: Tensor, score: float, length: float) -> None:
        """Add a score to keys with a mark [hidden] of a `length` in terms of the hidden state."""
        self._clear(head)
        root = (score * self._scale) ** 0.5
        self._parts.q_proj.bias[self._rows(head)][channel] = root
        self._parts.k_proj.weight[self._rows(head // 2)][channel] = mark * root / (length * self._norm)

    def match(
        self, head: int, channels: Tensor, key: Tensor, query: Tensor, score: float, key_length: float, length: float
    ) -> None:
        """Add a score where what `key` [hidden, channels] reads there is what `query` reads here."""
        self._clear(head)
        root = (score * self._scale) ** 0.5 / self._norm
        self._parts.k_proj.weight[self._rows(head // 2)][channels] = key.T * root / key_length
        self._parts.q_proj.weight[self._rows(head)][channels] = query.T * root / length

    def read(self, pair: int, code: Tensor, length: float, hidden: float) -> None:
        """Take a code [hidden, n] as the values, one long where it has this length in hidden states so long."""
        values = self._parts.v_proj.weight[self._rows(pair)]
        values.zero_()
        values[: code.shape[1]] = code.T * hidden / (length * self._norm)

    def write(self, head: int, code: Tensor, length: float) -> None:
        """Write the values into directions [hidden, n]."""
        first = head * self._width
        self._parts.o_proj.weight[:, first : first + code.shape[1]] = code * length

    def _clear(self, head: int) -> None:
        for part, number in (("q_proj", head), ("k_proj", head // 2)):
            if f"{part}{number}" not in self._written:
                getattr(self._parts, part).weight[self._rows(number)] = 0
                self._written.add(f"{part}{number}")

    def _rows(self, number: int) -> slice:
        return slice(number * self._width, (number + 1) * self._width)


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


def _unit(count: int, size: int) -> Tensor:
    """Draw directions [count, size]."""
    return nn.functional.normalize(torch.randn(count, size), dim=1)


def _both_ways(size: int) -> Tensor:
    """Return the axes of a space and their opposites, [2 size, size]."""
    return torch.cat([torch.eye(size), -torch.eye(size)])

"""Remove from a model's reply what is not its answer, before any benchmark or judge reads it.

Chat tokens, thoughts, wrappers such as `<answer>` and a first paragraph that only announces are dropped, and each drop
is named. Every function takes time linear in the text. What a benchmark's own rules say about the rest stays theirs.
"""

import re
from typing import Final

from pipelines.benchmarks.replies.announcements import without_announcement

CLEANING_VERSION: Final = 2
"""Part of the inputs of a score: scores of another version are computed anew."""

DROPPED: Final = ("thoughts", "open_thoughts", "chat_tokens", "answer_tag", "boxed", "preamble", "fence", "bold")
"""Names of what may be dropped: flags of a row's score."""

_THOUGHT = r"(?:think|thinking|thoughts?|reasoning|reflection|scratchpad|analysis|seed:think|seed:cot_budget_reflect)"
_THOUGHT_OPEN = (
    rf"<[^\S\n]?{_THOUGHT}[^\S\n]?>|\[(?:THINK|REASONING)\]|◁think▷|<\|START_THINKING\|>|<unused94>"
    r"|<\|(?:(?:begin|start)_(?:of_)?)?+(?:think|thinking|thought)\|>"
)
_THOUGHT_CLOSE = (
    rf"<[^\S\n]?/[^\S\n]?{_THOUGHT}[^\S\n]?>|\[/(?:THINK|REASONING)\]|◁/think▷|<\|END_THINKING\|>|<unused95>"
    r"|<\|(?:/|end_(?:of_)?)(?:think|thinking|thought)\|>"
)
_THOUGHT_EDGE = re.compile(f"(?P<open>{_THOUGHT_OPEN})|(?P<close>{_THOUGHT_CLOSE})", re.IGNORECASE)
# gpt-oss: `<|channel|>analysis<|message|>...<|end|><|start|>assistant<|channel|>final<|message|>...<|return|>`. Where
# a server skips special tokens, `analysis...assistantfinal...` is left. Gemma 4: `<|channel>thought ... <channel|>`.
_FINAL_CHANNEL = re.compile(
    r"<\|channel\|>\s*+final(?:\s*+<\|constrain\|>\s*+\w++)?\s*+<\|message\|>|<channel\|>|\A\s*+(?:analysis|commentary)(?s:.)*?assistant\s*+final"
)
_OTHER_CHANNEL = re.compile(r"<\|channel\|>\s*+(?:analysis|commentary)|<\|channel>\s*+thought|\Aanalysis(?=[A-Z][a-z])")
_MODEL_TURN = (
    r"<\|(?:im_start|start_header_id|start_of_role|start|turn)\|?>[^\S\n]*+(?:assistant|model)?+(?:<\|end_(?:header_id|of_role)\|>)?+"
    r"|<start_of_turn>(?:model\b)?+|<\|(?:assistant|CHATBOT_TOKEN)\|>|<[｜|]Assistant[｜|]>|\[\|assistant\|\]|<s>|<bos>"
    r"|\A\s*+(?:ASSISTANT|Assistant):|\A\s*+(?:assistant|model)[^\S\n]*+\n"
)
_TURN_START = re.compile(_MODEL_TURN)
_USER = r"(?:user|system|tool|human|developer|observation)"
_USER_TURN = (
    rf"(?:<\|(?:im_start|start_header_id|start_of_role|start|turn)\|?>[^\S\n]*+{_USER}|<start_of_turn>{_USER}|<\|{_USER}\|>"
    r"|<\|(?:USER|SYSTEM)_TOKEN\|>|<[｜|]User[｜|]>|\[\|(?:user|system)\|\]|(?:\A|(?<=\n))USER:|(?<=\n)\#\#\#[^\S\n](?:Human|User|Instruction):)"
    rf"(?:(?!(?:<\|(?:im_start|start_header_id|start_of_role|start|turn)\|?>|<start_of_turn>)[^\S\n]*+(?:assistant|model)"
    r"|<\|(?:assistant|CHATBOT_TOKEN)\|>|<[｜|]Assistant[｜|]>|\[\|assistant\|\]|\nASSISTANT:)(?s:.))++"
    r"|\[INST\](?s:.*?)(?:\[/INST\]|\Z)"
)
_TURN_END = re.compile(
    rf"{_USER_TURN}|</s>|</S>|</assistant>|<\|(?:im_end|eot_id|eom_id|eot|endoftext|end_of_text|end_of_turn|endofturn|end|return|eos)\|>"
    r"|<\|END_OF_TURN_TOKEN\|>|<(?:end_of_turn|end_of_utterance|eos|EOS|eod|EOD|eot|EOT|eoa|endoftext|turn\|)>"
    r"|<[｜|]end▁of▁sentence[｜|]>|\[EOS\]|\[\|endofturn\|\]"
)
_OTHER_TOKEN = re.compile(
    r"<\|[^<>|\n]{1,64}+\|>|<\|[\w:/-]{1,64}+>|<[\w:/-]{1,64}+\|>|\[\|[\w:/-]{1,64}+\|\]|\[(?:BOS|PAD|SEP|CLS|[gs]MASK|/INST)\]"
    r"|<(?:pad|unk|image|video|sop|eop|eoh|_end|0x[0-9A-F]{2}|(?:unused|reserved_|extra_id_|SPECIAL_)\d{1,6})>|<\|\w{0,32}+\|?+\Z"
)
_WRAPPER = r"answer|final_answer|final|response|output|result|translation|conclusion|solution"
_ANSWER_TAG = re.compile(rf"<({_WRAPPER})>((?:(?!</?\1>)(?s:.))*+)(?:</\1>|\Z)", re.IGNORECASE)
_BRACES = r"[^{}]|\{(?:[^{}]|\{[^{}]*+\})*+\}"
_BOXED = re.compile(rf"\\(?:boxed|fbox)\s*+\{{((?:{_BRACES})*+)(?:\}}|\Z)")
_LATEX_TEXT = re.compile(r"\\(?:text|textbf|mathrm|mathbf)\s*+\{([^{}]*+)\}")
_WHOLE_FENCE = re.compile(
    "|".join(
        rf"\A{mark}{{3,}}+(?:text|txt|plaintext|markdown|md)?+[^\S\n]*+\n(?!\s*+[\[{{])((?:(?!{mark}{{3}})(?s:.))*+)(?:{mark}++)?+\Z"
        for mark in "`~"
    )
    + r"|\A(?:```|`)([^`\n]++)(?:```|`)\Z"
)
_WHOLE_BOLD = re.compile(r"\A(?:\*{1,3}(?=\S)([^*]++)\*{1,3}|__([^_]++)__)\Z")


def clean_reply(raw: str) -> tuple[str, tuple[str, ...]]:
    """Return a reply without what is not its answer, and the names of what was dropped.

    Names: `thoughts`; `open_thoughts`, never closed, for which `<think>` stands at the end; `chat_tokens`, with the
    turns behind them; `answer_tag`, `boxed`, `fence` and `bold`, wrappers of the answer; `preamble`, a first paragraph
    that only announces what follows.
    """
    text, dropped = _without_thoughts(raw)
    for name, drop in (("chat_tokens", _without_chat_tokens), ("answer_tag", _in_answer_tag), ("boxed", _in_box)):
        if (rest := drop(text)) != text:
            text = rest
            dropped.append(name)
    if (rest := without_announcement(text)) != text:
        text = rest
        dropped.append("preamble")
    for name, wrapper in (("fence", _WHOLE_FENCE), ("bold", _WHOLE_BOLD)):
        if match := wrapper.match(text.strip()):
            text = next(part for part in match.groups() if part is not None)
            dropped.append(name)
    return (text.strip() if dropped else text), tuple(dropped)


def _without_thoughts(text: str) -> tuple[str, list[str]]:
    """Drop blocks of thoughts, also those whose start the chat template has written."""
    channels = list(_FINAL_CHANNEL.finditer(text))
    if channels:
        return text[channels[-1].end() :], ["thoughts"]
    if channel := _OTHER_CHANNEL.search(text):
        return f"{text[: channel.start()]}<think>", ["open_thoughts"]
    parts: list[str] = []
    position, depth, closed = 0, 0, False
    end = len(text.rstrip())
    for edge in _THOUGHT_EDGE.finditer(text):
        if edge["open"]:
            if depth == 0:
                parts.append(text[position : edge.start()])
            depth = 1
        elif depth or not closed or edge.end() < end:
            parts = parts if depth else []  # text before an end without a start was thought
            depth, closed = 0, True
            position = edge.end()
    if depth:
        return f"{''.join(parts)}<think>", ["open_thoughts"]
    return ("".join([*parts, text[position:]]), ["thoughts"]) if closed else (text, [])


def _without_chat_tokens(text: str) -> str:
    """Return the first turn that holds a word, without tokens of the chat template."""
    turns = [_OTHER_TOKEN.sub("", _TURN_START.sub("", turn)) for turn in _TURN_END.split(text)]
    if len(turns) == 1:
        return turns[0]
    return next((turn for turn in turns if turn.strip()), "")


def _in_answer_tag(text: str) -> str:
    answers = [match for _, match in _ANSWER_TAG.findall(text) if match.strip()]
    return answers[-1] if answers else text


def _in_box(text: str) -> str:
    answers = [match for match in _BOXED.findall(text) if match.strip()]
    return _LATEX_TEXT.sub(r"\1", answers[-1]) if answers else text

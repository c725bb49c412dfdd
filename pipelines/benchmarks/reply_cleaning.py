"""Remove from a model's reply what is not its answer, before any benchmark or judge reads it.

Chat tokens, thoughts, wrappers such as `<answer>` and a first paragraph that only announces are dropped, and each drop
is named. Every function takes time linear in the text. What a benchmark's own rules say about the rest stays theirs.
"""

import re
from typing import Final

CLEANING_VERSION: Final = 1
"""Part of the inputs of a score: scores of another version are computed anew."""

DROPPED: Final = ("thoughts", "open_thoughts", "chat_tokens", "answer_tag", "boxed", "preamble", "fence", "bold")
"""Names of what may be dropped: flags of a row's score."""

_THOUGHT_OPEN = r"<(?:think|thinking|thought|seed:think)>|\[THINK\]|◁think▷"
_THOUGHT_CLOSE = r"</(?:think|thinking|thought|seed:think)>|\[/THINK\]|◁/think▷"
_THOUGHT_EDGE = re.compile(f"(?P<open>{_THOUGHT_OPEN})|(?P<close>{_THOUGHT_CLOSE})", re.IGNORECASE)
# gpt-oss: `<|channel|>analysis<|message|>...<|end|><|start|>assistant<|channel|>final<|message|>...<|return|>`. Where
# a server skips special tokens, `analysis...assistantfinal...` is left. Gemma 4: `<|channel>thought ... <channel|>`.
_FINAL_CHANNEL = re.compile(
    r"<\|channel\|>\s*+final(?:\s*+<\|constrain\|>\s*+\w++)?\s*+<\|message\|>|<channel\|>|\Aanalysis(?s:.)*?assistantfinal"
)
_OTHER_CHANNEL = re.compile(r"<\|channel\|>\s*+(?:analysis|commentary)|<\|channel>\s*+thought|\Aanalysis(?=[A-Z][a-z])")
_TURN_START = re.compile(
    r"<\|(?:im_start|start_header_id|start)\|>[^\S\n]*+(?:assistant|model)?+(?:<\|end_header_id\|>)?+"
    r"|<start_of_turn>(?:model\b)?+|<\|assistant\|>|<[｜|]Assistant[｜|]>|\[/INST\]|<s>|<bos>"
)
_TURN_END = re.compile(
    r"</s>|<\|(?:im_end|eot_id|eom_id|endoftext|end_of_text|end|return|eos)\|>|<(?:end_of_turn|end_of_utterance|eos|endoftext|EOT|turn\|)>"
    r"|<[｜|]end▁of▁sentence[｜|]>"
)
_OTHER_TOKEN = re.compile(r"<\|[^<>|\n]{1,64}+\|>|<(?:pad|unk)>")
_ANSWER_TAG = re.compile(r"<answer>((?:(?!</?answer>)(?s:.))*+)(?:</answer>|\Z)", re.IGNORECASE)
_BOXED = re.compile(r"\\boxed\s*+\{((?:[^{}]|\{[^{}]*+\})*+)\}")
_LATEX_TEXT = re.compile(r"\\(?:text|textbf|mathrm|mathbf)\s*+\{([^{}]*+)\}")
_WHOLE_FENCE = re.compile(
    r"\A`{3,}+(?:text|txt|plaintext|markdown|md)?+[^\S\n]*+\n(?!\s*+[\[{])((?:(?!```)(?s:.))*+)\n?`{3,}+\Z"
)
_WHOLE_BOLD = re.compile(r"\A\*\*([^*]++)\*\*\Z")

_YES = (
    r"(?:sure(?: thing)?|certainly|of course|okay|ok|absolutely|got it|great question|no problem"
    r"|natürlich|gerne?|klar|selbstverständlich|sicher|bien sûr|certainement|avec plaisir|d'accord|volontiers"
    r"|certo|certamente|volentieri|va bene|naturalmente|물론(?:입니다|이죠|이에요)?|네|알겠습니다)"
)
_NOUN = (
    r"(?:translations?|translated (?:sentence|text)|answers?|responses?|sentences?|interpretations?|descriptions?|reply"
    r"|übersetzung(?:en)?|antwort|satz|traductions?|réponse|phrase|traduzion[ei]|risposta|frase|descrizione"
    r"|(?:번역|답변?|대답|문장)[가-힣]{0,3})"
)
_NOUN_TAIL = (
    r"(?:[^\S\n]++(?:is|are|would be|in|into|of|for|to|lautet|ist|wäre|auf|est|serait|en|è|sarebbe|alla|corretta|giusta"
    r"|다음과)\b[^:：\n\d(]{0,60})?+"
)
_PRESENT = (
    r"(?:here(?:'s| is| are)|below is|this is|the following is|hier ist|das ist|voici|ceci est|ecco|questa è"
    r"|di seguito|다음은|아래는)"
)
_ANNOUNCEMENT = re.compile(
    rf"(?:{_YES}[^\S\n]*+[!.,]*+[^\S\n]*+)?+"
    rf"(?:{_PRESENT}\b[^:：\n]{{0,100}}[:：]|(?:[^\s:：\n]++[^\S\n]++){{0,5}}?{_NOUN}\b{_NOUN_TAIL}[^\S\n]*+[:：])?+[^\S\n*_]*+",
    re.IGNORECASE,
)
_PRESENTED = re.compile(
    rf"\A(?:{_YES}[!.,]*+\s++)?+{_PRESENT}\b[^:：\n]{{0,60}}{_NOUN}\b[^:：\n]{{0,40}}[:：][^\S\n]*+(?=\S)",
    re.IGNORECASE,
)
_MARKUP = "*_#> \t"


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
    if (rest := _without_preamble(text)) != text:
        text = rest
        dropped.append("preamble")
    for name, wrapper in (("fence", _WHOLE_FENCE), ("bold", _WHOLE_BOLD)):
        if match := wrapper.match(text.strip()):
            text = match[1]
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
    for edge in _THOUGHT_EDGE.finditer(text):
        if edge["open"]:
            if depth == 0:
                parts.append(text[position : edge.start()])
            depth = 1
        elif depth or not closed:
            parts = parts if depth else []  # text before an end without a start was thought
            depth, closed = 0, True
            position = edge.end()
    if depth:
        return f"{''.join(parts)}<think>", ["open_thoughts"]
    return ("".join([*parts, text[position:]]), ["thoughts"]) if closed else (text, [])


def _without_chat_tokens(text: str) -> str:
    """Return the first turn that holds a word, without tokens of the chat template."""
    bare = _TURN_START.sub("", text)
    turns = [_OTHER_TOKEN.sub("", turn) for turn in _TURN_END.split(bare)]
    if len(turns) == 1:
        return turns[0]
    return next((turn for turn in turns if turn.strip()), "")


def _in_answer_tag(text: str) -> str:
    answers = [match for match in _ANSWER_TAG.findall(text) if match.strip()]
    return answers[-1] if answers else text


def _in_box(text: str) -> str:
    answers = [match for match in _BOXED.findall(text) if match.strip()]
    return _LATEX_TEXT.sub(r"\1", answers[-1]) if answers else text


def _without_preamble(text: str) -> str:
    """Drop first paragraphs that only announce, as long as something follows them."""
    for _ in range(3):
        head, _, rest = text.lstrip().partition("\n")
        line = head.strip(_MARKUP)
        if not rest.strip() or not line or len(line) > 160 or not _ANNOUNCEMENT.fullmatch(line.rstrip(_MARKUP + "!.")):
            break
        text = rest
    return _PRESENTED.sub("", text.lstrip()) if _PRESENTED.match(text.lstrip()) else text

"""Remove from a model's reply what is not its answer, before any benchmark or judge reads it.

Chat tokens, thoughts, wrappers such as `<answer>` and a first paragraph that only announces are dropped, and each drop
is named. Every function takes time linear in the text. What a benchmark's own rules say about the rest stays theirs.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from pipelines.benchmarks.readers.cues import EXPLICIT, is_denied
from pipelines.benchmarks.text_cleaning import JOINING_WORDS

CLEANING_VERSION: Final = 4  # part of the inputs of a score: scores of another version are computed anew

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
    r"<\|(?:im_start|start_header_id|start_of_role|start|turn)\|?>[^\S\n]*+(?:assistant|model)?+(?:<\|end_(?:header_id|role_words)\|>)?+"
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
_MAX_DEPTH: Final = 3  # of wrappers in wrappers
_MAX_TRIED: Final = 8  # wrappers, from the last on, whose content is tried as the answer
_JOINED = re.compile(rf"[\s$]*+(?:[,/&]|,?\s*+(?:{JOINING_WORDS})\b)[\s$]*+", re.IGNORECASE)
_ROLE = re.compile(r"\A\s*+USER:\s*+")
_LATEX_TEXT = re.compile(r"\\(?:text|textbf|mathrm|mathbf)\s*+\{([^{}]*+)\}")
_WHOLE_FENCE = re.compile(
    "|".join(
        rf"\A{mark}{{3,}}+(?:text|txt|plaintext|markdown|md)?+[^\S\n]*+\n(?!\s*+[\[{{])((?:(?!{mark}{{3}})(?s:.))*+)(?:{mark}++)?+\Z"
        for mark in "`~"
    )
    + r"|\A(?:```|`)([^`\n]++)(?:```|`)\Z"
)
_WHOLE_BOLD = re.compile(r"\A(?:\*{1,3}(?=\S)([^*]++)\*{1,3}|__([^_]++)__)\Z")


def clean_reply(raw: str, is_answer: Callable[[str], bool] = bool) -> tuple[str, tuple[str, ...]]:
    """Return a reply without what is not its answer, and the names of what was dropped.

    Names: `thoughts`; `open_thoughts`, never closed, for which `<think>` stands at the end; `chat_tokens`, with the
    turns behind them; `answer_tag`, `boxed`, `fence` and `bold`, wrappers of the answer; `preamble`, a first paragraph
    that only announces what follows. Of a reply with tags or boxes the first of these texts that `is_answer` accepts
    counts: an explicit statement behind the last of them, their contents from the last to the first, the whole reply.
    """
    text, thoughts = _without_thoughts(raw)
    rest = _without_chat_tokens(text)
    dropped = (*thoughts, *(("chat_tokens",) if rest != text else ()))
    *wrapped, whole = _answer_texts(rest)
    for candidate in wrapped:
        cleaned, names = _finished(*candidate)
        if is_answer(cleaned):
            return cleaned, (*dropped, *names)
    cleaned, names = _finished(*whole)
    return (cleaned if names or not dropped else cleaned.strip()), (*dropped, *names)


def _finished(text: str, names: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
    """Drop what announces and what surrounds the whole of a text."""
    dropped = [*names]
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
    # "USER: A" alone is an answer behind the wrong role, and no turn of the user.
    answer = _TURN_END.split(_ROLE.sub("", text))[0] if _ROLE.match(text) else ""
    return next((turn for turn in turns if turn.strip()), answer)


@dataclass(frozen=True, slots=True)
class _Wrapper:
    """A tag or a box around a part of a reply."""

    start: int
    end: int
    content: str
    name: str


def _wrappers(text: str) -> list[_Wrapper]:
    """Return the outermost tags and boxes with content, in their order."""
    tags = [_Wrapper(match.start(), match.end(), match[2], "answer_tag") for match in _ANSWER_TAG.finditer(text)]
    boxes = [
        _Wrapper(match.start(), match.end(), _LATEX_TEXT.sub(r"\1", match[1]), "boxed")
        for match in _BOXED.finditer(text)
    ]
    wrappers: list[_Wrapper] = []
    for wrapper in sorted((each for each in (*tags, *boxes) if each.content.strip()), key=lambda each: each.start):
        if not wrappers or wrapper.start >= wrappers[-1].end:
            wrappers.append(wrapper)
    return wrappers


def _answer_texts(text: str, depth: int = 0) -> list[tuple[str, tuple[str, ...]]]:
    """Return the texts that may be the answer, the likeliest first and the whole last, with names of their wrappers."""
    wrappers = _wrappers(text) if depth < _MAX_DEPTH else []
    if not wrappers:
        return [(text, ())]
    names = tuple(name for name in ("answer_tag", "boxed") if any(wrapper.name == name for wrapper in wrappers))
    candidates: list[tuple[str, tuple[str, ...]]] = []
    if explicit := [*EXPLICIT.finditer(text, wrappers[-1].end)]:
        candidates.append((text[explicit[-1].start() :], names))
    for wrapper in [] if _are_joined(text, wrappers) else wrappers[: -_MAX_TRIED - 1 : -1]:
        if not is_denied(text, wrapper.start, wrapper.end):
            candidates += [(inner, (wrapper.name, *more)) for inner, more in _answer_texts(wrapper.content, depth + 1)]
    ends = [0, *(wrapper.end for wrapper in wrappers)]
    pieces = [text[end : wrapper.start] + wrapper.content for end, wrapper in zip(ends, wrappers, strict=False)]
    return [*candidates, ("".join([*pieces, text[ends[-1] :]]), names)]


def _are_joined(text: str, wrappers: Sequence[_Wrapper]) -> bool:
    """Return whether the last two wrappers hold different texts with a comma or a word such as `or` between them."""
    if len(wrappers) < 2 or wrappers[-2].content.strip() == wrappers[-1].content.strip():
        return False
    return bool(_JOINED.fullmatch(text, wrappers[-2].end, wrappers[-1].start))


_MAX_LINE: Final = 160  # of an announcement
_MARKUP: Final = "*_#> \t"
_B = r"[^\S\n]"  # a blank

_YES = (
    r"(?:sure(?: thing)?|certainly|of course|okay|ok|alright|all right|absolutely|definitely|got it|understood"
    r"|great(?: question)?|no problem|gladly|happy to help|with pleasure"
    r"|(?:aber )?(?:natürlich|gerne?|klar|selbstverständlich|sicher)|verstanden|in ordnung|kein problem"
    r"|bien sûr|bien entendu|certainement|avec plaisir|d'accord|volontiers|entendu|pas de problème"
    r"|certo|certamente|volentieri|va bene|naturalmente|d'accordo|con piacere|nessun problema"
    r"|물론(?:입니다|이죠|이에요|이지요)?|알겠습니다|알겠어요|네, 알겠습니다|claro|por supuesto|当然|好的)"
)
_GREETING = rf"(?:yes|ja|sì|oui|네|예){_B}*+[!.,]++{_B}*+"
_AND_YES = rf"(?:(?:{_GREETING})?+{_YES}{_B}*+[!.,！。]*+{_B}*+|{_GREETING})"
_ADJECTIVE = (
    r"(?:the|my|your|an?|this|final|correct|right|best|most|likely|short|brief|direct|literal|possible|suggested|english"
    r"|german|french|korean|italian|translated|original|requested|one-sentence"
    r"|die|der|das|den|meine?|deine?|ihre?|eine?|richtige?|korrekte?|kurze?|endgültige?|englische[rn]?|deutsche[rn]?"
    r"|französische[rn]?|koreanische[rn]?|übersetzter?"
    r"|l[ae]s?|ma|mon|votre|une?|finale?|bonne|correcte|courte|proposée|anglaise|allemande|française|coréenne"
    r"|il|lo|mia|tua|sua|una|corretta|giusta|breve|inglese|tedesca|francese|coreana|영어|독일어|프랑스어|한국어|최종|제)"
)
_NOUN = (
    r"(?:translations?|translated|answers?|responses?|sentences?|interpretations?|descriptions?|reply|text|output|result"
    r"|solution|conclusion|übersetzung(?:en)?|antwort|satz|lösung|ergebnis|traductions?|réponse|phrase|résultat"
    r"|traduzion[ei]|risposta|frase|descrizione|risultato|soluzione|traducción|respuesta"
    r"|(?:번역|답변?|정답|대답|문장|결과)[가-힣]{0,4}|翻译|译文|答案|回答)"
)
_LANGUAGE = (
    r"(?:english|german|french|korean|italian|englisch|deutsch|französisch|koreanisch|anglais|allemand|français|coréen"
    r"|inglese|tedesco|francese|coreano|italiano|영어|독일어|프랑스어|한국어)(?:e|로)?"
)
_TAIL = (
    rf"(?:{_B}++(?:is|are|would be|in|into|of|for|to|as|with|using|lautet|ist|wäre|ins|auf|für|est|serait|en|pour"
    rf"|è|e'|sarebbe|alla|al|corretta|giusta|breve|finale|correcte|anglaise|allemande|다음과|결과|below|here)\b[^:：\n\d(]{{0,60}})?+"
    rf"(?:{_B}*+\([^()\n:]{{1,30}}\))?+"
)
_PRESENTED_BY = (
    r"(?:here(?:['’]s| is| are| you go| it is)|below (?:is|are)|hier (?:ist|sind|die|der|das|meine)"
    r"|nachfolgend|im folgenden|voici|voilà|ci-dessous|ecco(?:ti)?|di seguito|qui di seguito|다음은|아래는|aquí está)"
)
_PRESENT = rf"(?:{_PRESENTED_BY}|this is|the following is|das ist|ceci est|questa è)"
_BASIS = (
    r"(?:based on|given|according to|judging by|looking at|from|after (?:watching|viewing|looking|analyzing|reviewing)"
    r"|basierend auf|laut|nach|auf grundlage|d'après|selon|en se basant sur|basandomi s\w{1,4}|in base a\w{0,3}"
    r"|secondo|dal)\b[^,:：\n]{0,80},[^\S\n]*+"
)
_OFFER = (
    r"(?:i['’]d be (?:happy|glad) to|i (?:can|will|would)|i['’]ll|let me|let['’]s|allow me to"
    r"|ich (?:werde|helfe|kann|übersetze)|lass(?:en sie)? (?:mich|uns)"
    r"|je (?:vais|peux)|laissez-moi|permettez-moi de|posso|lascia che|permettimi di)\b"
    r"[^:：.!?\n]{0,60}\b(?:help|assist|translat\w{1,4}|answer|describe|provide|explain|analy[sz]e|look|think|break|helfen"
    r"|übersetzen|beantworten|traduire|aider|répondre|tradurre|aiutart[ie]|aiutare|rispondere|dir)\b[^:：.!?\n]{0,60}[:：.!]*+"
    r"|[가-힣 ]{0,20}(?:번역|답변|설명|도와)(?:을|를|해)?+ ?(?:드리겠습니다|드릴게요|드립니다)[.!:]*+"
)
_NAMED = (
    rf"(?:(?:{_ADJECTIVE}{_B}++){{0,5}}?{_NOUN}\b{_TAIL}"
    rf"|(?:(?:in|auf|ins|en){_B}++)?+{_LANGUAGE}(?:{_B}++(?:translation|übersetzt))?)"
)
_COLON = rf"{_B}*+[:：]"
_ANNOUNCEMENT = re.compile(
    rf"{_AND_YES}?+(?:{_BASIS})?+(?:(?:{_OFFER}){_B}*+)?+"
    rf"(?:(?:{_PRESENT}\b[^:：\n]{{0,100}}|(?:여기|以下是)[^:：\n]{{0,30}}|[가-힣 ]{{1,30}}다음과 같습니다|{_NAMED})"
    rf"{_COLON})?+"
    r"[^\S\n*_]*+",
    re.IGNORECASE,
)
_HEADING = re.compile(rf"(?:{_ADJECTIVE}{_B}++){{0,3}}?{_NOUN}", re.IGNORECASE)
_ONLY_YES = re.compile(r"(?:yes|ja|sì|oui|네|예)[\s!.,]*+", re.IGNORECASE)
_PRESENTED = re.compile(
    rf"\A{_AND_YES}?+{_PRESENTED_BY}\b[^:：\n]{{0,60}}{_NOUN}\b[^:：\n]{{0,40}}[:：]{_B}*+(?=\S)", re.IGNORECASE
)


def without_announcement(text: str) -> str:
    """Drop first paragraphs that only announce, as long as something follows them."""
    for _ in range(3):
        head, _, rest = text.lstrip().partition("\n")
        if not rest.strip() or not _announces(head):
            break
        text = rest
    start = text.lstrip()
    return _PRESENTED.sub("", start) if _PRESENTED.match(start) else text


def _announces(head: str) -> bool:
    line = head.strip(_MARKUP)
    if not line or len(line) > _MAX_LINE or _ONLY_YES.fullmatch(line):
        return False
    return bool(_ANNOUNCEMENT.fullmatch(line.rstrip(_MARKUP + "!.")) or _HEADING.fullmatch(line))

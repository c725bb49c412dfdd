"""Recognise a first paragraph of a reply that only announces what follows, in the five languages of the benchmarks.

Every function takes time linear in the text.
"""

import re
from typing import Final

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

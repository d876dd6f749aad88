"""Reads which option an LM's text chose, in a fixed order of steps that prefers "unreadable" to a
guess.

The words around a mention of an option say whether it is a decision ("the answer is B", "B is
correct"), a denial ("not B", "B is wrong"), half of an open alternative ("B or C"), or none of
these.
"""

import re
from collections.abc import Mapping
from itertools import islice, pairwise

from .mentions import (
    ANSWER_NOUN,
    TEXT_ENDS,
    Mention,
    find_mentions,
    one_option,
    pattern,
    same_text,
    tokens,
    without_typography,
)

# What may stand between a marker and the option it introduces.
_GAP = r"[\s:,\"'(\[{<-]"
_FILL = (
    rf"(?:{_GAP}+(?:the|an?|to|be|option|choice|letter|label|answer|number|correct|best|right|final|clearly|most|"
    r"definitely|certainly|probably|likely|simply|just|indeed|now|still|actually|obviously|obvious|clear|thus|"
    rf"therefore|that|it|it's|at|going)(?!\w))*{_GAP}*$"
)
_NOUN = (
    rf"(?<![a-z])(?:{ANSWER_NOUN}|正解|故选|choice|option|selection|selected|pick|decision|verdict|conclusion|response|prediction|"
    r"vote|label|letter)(?:\s+(?:correct[ae]|corret[ao]|corretta|juste|final))?"
)
_LINK = (
    r"(?:[\"']?\s*(?::|=|->|=>|→)|(?:\s+(?:here|then|now|to [\w ]{1,30}?))?"
    r"(?:\s*(?:是|为|為|应为|選|选|は|은|는)(?:选项|選項)?|"
    r"\s+(?:is|es|ist|est|è|é|lautet|was|becomes|remains|stays|changes to|changed to)|'s|"
    r"\s+(?:would|should|must|will|has to|may|might|could) be))"
)
_VERB = (
    r"\b(?:I|we)(?:'d|'ll|'m|'ve| would| will| am| have| now| still| also| then| must| do| \w+ly)*"
    r"\s+(?:think|believe|guess|say|choose|chose|pick|picked|select|selected|vote for|go with|"
    r"going with|settle on|stick with|stay with|keep|commit to|agree with|switch to|change to|"
    r"lean towards?|conclude|answer)"
    r"(?: with)?(?: that)?(?: (?:it|this)(?:'s| is| would be| must be| has to be))?"
)
_MARKED = pattern(rf"(?:{_NOUN}{_LINK}|\bfinal answer|####|{_VERB}){_FILL}", re.I)
# Weaker words introduce a label only: "so B", "no, C"; an ordinary noun after them decides nothing.
_WEAK = pattern(
    r"(?:\b(?:so|therefore|thus|hence|then|finally|actually|wait|rather|ultimately|definitely|"
    r"certainly|choose|pick|select|leaves|leaving)|\bno,|"
    rf"\b(?:it|that)(?:'s| is| must be| has to be)){_FILL}",
    re.I,
)
_DENIED_LEFT = pattern(
    r"(?:\b(?:not|cannot|never|neither|nor|except|than|over|unlike|instead of|disagree with|against"
    rf"|eliminat\w+|exclud\w+|rul\w+ out|reject\w*|dismiss\w*|discard\w*|avoid\w*)|n't){_FILL}",
    re.I,
)
_DENIED_RIGHT = pattern(
    r"[\"')\]]*,?\s*(?:(?:is|are|was|were|seems?|looks?|would be|must be|can be)\s+"
    r"(?:\w+ly\s+|also\s+|just\s+|too\s+)*"
    r"(?:not|never|wrong|incorrect|false|out|unlikely|implausible|impossible|ruled|eliminated|excluded|irrelevant|"
    r"less|a distractor)\b|(?:is|are|was|were|would|could|should|does|do|ca|wo)n't\b|cannot\b|"
    r"(?:does|do|would|could|can|should|will) not\b|makes no sense)",
    re.I,
)
_DECIDED_RIGHT = pattern(
    r"[\"')\]]*,?\s*(?:"
    r"(?:is|are|seems?|appears?|looks?|would be|must be|should be|has to be|remains)\s+(?:(?:to be|"
    r"the|my|our|clearly|definitely|probably|therefore|thus|only|single|most|still|indeed)\s+)*"
    r"(?:correct|right|best|answer|choice|likely|logical|appropriate|sensible|plausible|suitable|reasonable|final)"
    r"\b(?!\s+(?:next|by|near|in|on|at|beside|behind|there|to|not|wrong|incorrect|false))|"
    r"fits best|makes (?:the )?most sense)",
    re.I,
)
_CONNECTIVE = (
    r"(?:because|since|as|for|due|given|with|which|and|or|but|over|rather|not|instead|based|by|from|considering|"
    r"so|then|however|though|although)\b"
)
_ENDED = pattern(rf"[ \t]*(?:$|[.,;:!?)\]}}\"'(\n/&–-]|{_CONNECTIVE})", re.I)
_SENTENCE_END = pattern(r"[\s\"')\]]*(?:$|[.!;:\n]|,?\s*(?:because|since)\b)", re.I)
_ALTERNATIVE = pattern(
    r"[\"')\]]*\s*(?P<link>,\s*or|,\s*and|[,;]|/|&|or|and|nor)"
    r"(?:\s+(?:answer:|the|an?|maybe|perhaps|possibly|option|choice))*[\s\"'(\[]*",
    re.I,
)
_INSTEAD = pattern(
    r"[\"')\]]*,?\s*(?:but|instead|rather)(?:\s+(?:rather|the|an?|option|choice))*\s+", re.I
)
_CLAUSE = pattern(r"[.;,:!?\n–]|\b(?:but|and|so|because|therefore|thus|hence|then)\b", re.I)
# A clause that denies, supposes, asks, or reports somebody else's answer decides nothing.
_UNDECIDED = pattern(
    r"\b(?:not|never|if|whether|unless|cannot|hardly|nobody|why|wrong|(?<!no )doubt)\b|n't|"
    r"(?:'s|s'|\b(?:their|your|his|her|other|another|previous))(?:\s+\w+)?\s*$",
    re.I,
)
_NO_ANSWER = pattern(
    rf"{_NOUN}{_LINK}[\s:\"'-]*(?:none|neither|unknown|unclear|not (?:listed|given))\b", re.I
)
_REFUSAL = pattern(
    r"\b(?:cannot|can't|can not|unable to|not able to|won't|will not|refuse to|decline to|"
    r"impossible to)\s+(?:\w+\s+){0,2}?"
    r"(?:answer|determine|decide|choose|say|select|pick|tell|help|assist|know)\b|"
    r"\b(?:don't|do not) know\b|\bnone of (?:the|these|those|them)\b|"
    r"\bno (?:option|choice|answer)\b",
    re.I,
)
_WINDOW = 120  # characters before a mention that are searched; bounds the work on long replies


def read_choice(text: str, choices: Mapping[str, str]) -> str | None:
    """Return the label of the option that `text` chose, or None when it names none, several, or
    contradicts itself.

    Reading order (the first step that applies decides):

    1. the whole text is a label ("B", "b", "(B).") or an option's text: literally, then without
       regard to punctuation, then case, then articles; if different options become equal by that,
       it decides nothing;
    2. the last explicit decision: "answer: B", "the answer is bank", a LaTeX box, "I choose B", "B
       is right", "so C". An open alternative ("B or C"), "none of them" or a later "B is wrong"
       makes it None;
    3. a line that is nothing but one option, then an option that opens the text ("B. bank, because
      …");
    4. a refusal is None;
    5. the only option named unmistakably and not denied: "(B)", "option B", "B) bank";
    6. the only option whose text occurs as whole words and is not denied.

    "a", and "A" before an ordinary word, is the article and never a label, and so is the pronoun
    "I" before a word. Options with the same text are equal: their text gives the first label.
    Labels may have any spelling and are matched without regard to case.
    """
    if not text or not text.strip():
        return None
    # First as it is written: an option may contain the signs that are removed next.
    if (whole := _whole(text.strip(), choices)) is None:
        text = without_typography(text)
        whole = _whole(text, choices)
    if whole is not None:
        return whole
    mentions = [m for m in find_mentions(text, choices) if not _is_prose(text, m)]
    _weigh(text, mentions)
    undecided = _alternatives(text, mentions, choices)

    decided = [m for m in mentions if m.decided]
    if decided:
        last = decided[-1]
        retracted = any(
            m.start > last.start and m.label == last.label and m.denied for m in mentions
        )
        if retracted or last.start in undecided or _NO_ANSWER.search(text, last.end):
            return None
        return last.label
    if _NO_ANSWER.search(text):
        return None
    alone = [m for m in mentions if not m.denied and _alone_on_line(text, m)]
    if alone:
        return _only(alone, choices)
    if mentions and _leads(text, mentions[0]):
        is_open = mentions[0].start in undecided or _goes_through(text, choices)
        return None if is_open else mentions[0].label
    if _REFUSAL.search(text):
        return None
    explicit = [m for m in mentions if m.explicit and not m.denied]
    if explicit:
        return _only(explicit, choices)
    ruled_out = {m.label for m in mentions if m.denied}
    return _only([m for m in mentions if not m.by_label and m.label not in ruled_out], choices)


def _whole(text: str, choices: Mapping[str, str]) -> str | None:
    """Step 1: the text is a label or an option's text and nothing else."""
    if text in choices:
        return text
    for label, option in choices.items():
        if option.strip() == text:
            return label
    bare = re.fullmatch(r"[\"'(\[{*_`\s]*(\w+)[\"')\]}*_`\s.:,;!]*", text)
    if bare:
        labels = [label for label in choices if label.casefold() == bare[1].casefold()]
        if len(labels) == 1:
            return labels[0]
    for label, option in choices.items():
        if option.strip() == text.rstrip("."):
            return label
    for case, articles in ((True, True), (False, True), (False, False)):
        wanted = tokens(text, case=case, articles=articles)
        same = [
            label
            for label, option in choices.items()
            if wanted and tokens(option, case=case, articles=articles) == wanted
        ]
        if same:
            # None if this makes different options equal: the text does not say which is meant.
            return one_option(same, choices)
    return None


def _is_prose(text: str, m: Mention) -> bool:
    """Return whether a label's letter is in fact an article, a pronoun or part of a sentence."""
    if not m.by_label or m.explicit or m.numbering:
        return False
    written = text[m.start : m.end]
    ended = _ENDED.match(text, m.end) is not None
    # A small letter is mostly a word: it is a label only after a marker, and if its phrase ends.
    if written.islower() or text[m.start : m.end + 1] == "I,":
        return not (ended and _MARKED.search(text[max(0, m.start - _WINDOW) : m.start]))
    judged = _DECIDED_RIGHT.match(text, m.end) or _DENIED_RIGHT.match(text, m.end)
    return written in {"A", "I"} and not ended and (written == "I" or not judged)


def _weigh(text: str, mentions: list[Mention]) -> None:
    """Mark each mention as decided or denied by what stands directly before and after it."""
    for m in mentions:
        before = text[max(0, m.start - _WINDOW) : m.start]
        if _DENIED_RIGHT.match(text, m.end) or _DENIED_LEFT.search(before):
            m.denied = True
            continue
        marked = _MARKED.search(before)
        first = text[m.start]
        if marked is None and m.by_label and not first.islower() and not first.isdigit():
            marked = _WEAK.search(before)
        if marked and not m.numbering and (m.explicit or _ENDED.match(text, m.end)):
            clause = before[: marked.start()]
        elif _DECIDED_RIGHT.match(text, m.end):
            clause = before
        else:
            continue
        # "Is it B?" asks, and decides nothing.
        asked = re.match(r"[\s\"')\]]*\?", text[m.end :]) is not None
        m.decided = not asked and not _UNDECIDED.search(_CLAUSE.split(clause)[-1])


def _alternatives(text: str, mentions: list[Mention], choices: Mapping[str, str]) -> set[int]:
    """Start offsets of the mentions that "B or C" leaves open. Denials are also passed along a list
    here ("neither B nor C").
    """
    for m, other in pairwise(mentions):
        instead = m.denied and not other.denied and _INSTEAD.fullmatch(text, m.end, other.start)
        if instead and _ENDED.match(text, other.end):
            other.decided = True  # "not B but C"
    left_open: set[int] = set()
    for m, other in pairwise(mentions):
        link = _ALTERNATIVE.match(text, m.end)
        if (
            link is None
            or not link.end("link") <= other.start <= link.end()
            or same_text(m.label, other.label, choices)
        ):
            continue
        by_word = link["link"] not in {",", ";"}
        # "neither B nor C" denies both; after a mere comma, C may begin another statement.
        if m.denied and by_word:
            other.denied, other.decided = True, False
        elif other.denied and not m.decided:
            m.denied = True
        # "B or C" leaves both open; "B, C" only if the phrase ends there.
        elif not (m.denied or other.denied) and (by_word or TEXT_ENDS.match(text, other.end)):
            left_open |= {m.start, other.start}
    return left_open


def _alone_on_line(text: str, m: Mention) -> bool:
    """Return whether a mention's line has no other word and no question mark."""
    line_start = text.rfind("\n", 0, m.start) + 1
    line_end = text.find("\n", m.end)
    if line_end < 0:
        line_end = len(text)
    return not re.search(r"[\w?]", text[line_start : m.start] + text[m.end : line_end])


def _leads(text: str, m: Mention) -> bool:
    """Return whether a mention opens the text as an answer: "B. …", "Bank. …", but not "Bank, like
    …".
    """
    if m.denied or m.numbering or text[: m.start].strip("\"'([{ "):
        return False
    if not m.by_label:
        return _SENTENCE_END.match(text, m.end) is not None
    return m.explicit or _ENDED.match(text, m.end) is not None


def _goes_through(text: str, choices: Mapping[str, str]) -> bool:
    """Return whether a text takes the options one after another ("A: no, B: yes"), so that the one
    that opens it is not what it decides for.
    """
    first, second = map(re.escape, islice(choices, 2))
    each = rf"\W*{first}(?P<sign>\W*[:.)=–-]\W*)(?s:.*?)(?:^|[,;])\W*{second}(?P=sign)"
    return re.match(each, text, re.I | re.M) is not None


def _only(mentions: list[Mention], choices: Mapping[str, str]) -> str | None:
    """Return the option that all the mentions agree on, else None."""
    return one_option([mention.label for mention in mentions], choices)

"""llama.cpp grammars (GBNF) that restrict a plain-text reply to its fields; pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

MAX_TEXT_CHARS = 120
MAX_SPAN_CHARS = 80

# "<" is left out of free text because the texts of special tokens, such as <eos>, start with it and
# would match like any other text.
_FIRST = r"[^ \t\r\n<]"
_FURTHER = r"[^\t\r\n<]"
_END = r'"\n"'
# After free text an untuned LM may want a blank line, which is one token of its own: were it not
# allowed, the LM would go on talking.
_FREE_END = r'("\n" | "\n\n")'

BOOLEAN_RULE = '" " ("yes" | "no")'
ACTION_RULE = r'" " ("Search" | "Lookup" | "Finish") "[" [^\t\r\n<\[\] ] [^\t\r\n<\[\]]{0,79} "]"'
NUMBER_RULE = '" " "-"? [0-9]{1,12} ("." [0-9]{1,6})?'


def reply_grammar(
    fields: Sequence[Mapping[str, Any]],
    tokens: Mapping[str, Sequence[int]],
    *,
    max_text_chars: int = MAX_TEXT_CHARS,
) -> str:
    """The grammar of a reply that starts right after the label of its first field.

    Args: fields: the output fields in order, each with `name`, `type` (text, span, open, task,
        option, boolean, number or action) and, for an option, its `options`.
        tokens: the token ids of each option with a leading space. max_text_chars: the most
            characters of a field of type text.

    Between two fields stand a newline, the second one's capitalised name and a colon; the reply
    ends with a newline.
    """
    rules = []
    for index, field in enumerate(fields):
        if index:
            rules.append(rf'"\n{field["name"].capitalize()}:"')
        rules.append(_field_rule(field, tokens, max_text_chars))
    rules.append(_FREE_END if fields[-1]["type"] in ("text", "span", "open", "task") else _END)
    return "root ::= " + " ".join(rules)


def choice_rule(sequences: Iterable[Sequence[int]]) -> str:
    """One of these token sequences, exactly as tokenised.

    A rule over characters would let greedy decoding begin an option with a token that real text
    never contains. Equal sequences count once; one may be a prefix of another, since the text after
    the rule decides.
    """
    distinct = dict.fromkeys(tuple(sequence) for sequence in sequences)
    alternatives = (" ".join(f"<[{token}]>" for token in sequence) for sequence in distinct)
    return f"({' | '.join(alternatives)})"


def text_rule(max_chars: int) -> str:
    """A space, then 1 to `max_chars` characters on one line, the first of which is not a space.

    llama.cpp refuses repetitions not far above 1000.
    """
    return f'" " {_FIRST} {_FURTHER}{{0,{max_chars - 1}}}'


def _field_rule(
    field: Mapping[str, Any], tokens: Mapping[str, Sequence[int]], max_text_chars: int
) -> str:
    if field["type"] == "option":
        return choice_rule(tokens[option] for option in field["options"])
    rules = {
        "boolean": BOOLEAN_RULE,
        "number": NUMBER_RULE,
        "action": ACTION_RULE,
        "span": text_rule(MAX_SPAN_CHARS),
    }
    return rules.get(field["type"], text_rule(max_text_chars))

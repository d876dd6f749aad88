"""Quotes text from outside (passages, other agents' words) in a prompt so that it cannot break out.

Nothing here judges what the text says. It makes sure that the text stays inside its quotation:
invisible and control characters go, whatever looks like a delimiter of the fence or like a control
token of a chat template or prompt adapter is made harmless, and the length is bounded.
"""

import re
from functools import cache, lru_cache

OPEN, CLOSE = "<<<", ">>>"
"""The fence's delimiters: short, since every quoted passage of every prompt pays for them."""

LABEL_CHARS = 120
ELLIPSIS = "…"

# Line ends of every kind; all become "\n", so that no reader sees a line that another does not.
_LINE_ENDS = re.compile("\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]")

# C0/C1 controls (but \n), every bidi and zero-width character, variation selectors and tags (both
# used to smuggle text past a reader), characters drawn as nothing, halves of surrogate pairs and
# non-characters. The ranges follow Unicode's Default_Ignorable_Code_Point, which is stable: new
# characters only enter ranges listed here.
_UNSEEN = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u202a-\u202e\u2060-\u206f\u2800\u3164\ud800-\udfff\ufdd0-\ufdef\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\ufffe\uffff\U0001bca0-\U0001bca3\U0001d159\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
    + "".join(
        f"{chr(plane + 0xFFFE)}{chr(plane + 0xFFFF)}" for plane in range(0x10000, 0x110000, 0x10000)
    )
    + "]"
)

# Characters that an LM may read as "<" or ">", with how many of them each looks like. Some are
# written as escapes, because NFC normalisation of this file would replace them.
_LESS = (
    dict.fromkeys("<˂‹❮❬ᐸᚲ〈⟨\u2329⦑⧼﹤＜︿≮≺\u2280⪦\U0001d236", 1)
    | dict.fromkeys("«≪《⟪❰︽⪡⫷", 2)
    | {"⋘": 3}
)
_MORE = (
    dict.fromkeys(">˃›❯❭ᐳ〉⟩\u232a⦒⧽﹥＞﹀≯≻\u2281⪧\U00016f3f", 1)
    | dict.fromkeys("»≫》⟫❱︾⪢⫸", 2)
    | {"⋙": 3}
)
_GAP = r"\s\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f"
# What would stick to the opening delimiter if a label began with it.
_STICKY = re.compile(f"^[{_GAP}{re.escape(''.join(_LESS | _MORE))}]+")

# `<|im_end|>`, `<end_of_turn>`, `</s>`: a local server may read these in a message as a change of
# speaker.
_TOKEN = re.compile(r"<(/?[|｜]?[\w▁:/.-]{1,64}[|｜]?)>")
# `[INST]`, `[/INST]`, `[TOOL_CALLS]`, `[|user|]`, `[gMASK]`; `]~b]` and `[e~[`; and the field
# headers `[[ ## answer ## ]]` of DSPy's chat adapter.
_BRACKETS = re.compile(r"\[(/?[gs]?[A-Z_]{3,32}|[|｜]\w{1,32}[|｜])\]")
_TILDES = re.compile(r"[\[\]](~!?b|e~)[\[\]]")
_HEADER_OPENS = re.compile(r"\[(?=\s{0,8}#\s{0,8}#)")
_HEADER_CLOSES = re.compile(r"(#\s{0,8}#\s{0,8})\]")
# Text without one of these characters has none of the above and no delimiter of the fence.
_ACTS = re.compile(f"[{re.escape(''.join(_LESS | _MORE))}\\[\\]]")


def clean(text: str) -> str:
    """Return `text` without control, bidi and invisible characters; line ends become "\\n", tabs
    spaces.
    """
    if text.isascii() and text.isprintable():
        return text
    text = _LINE_ENDS.sub("\n", text).replace("\t", " ")
    return _UNSEEN.sub("", text)


def one_line(text: str) -> str:
    """Return `clean(text)` with every run of white space, line ends included, as a single space."""
    return " ".join(clean(text).split())


def cut(text: str, max_chars: int) -> str:
    """Return `text` if it has at most `max_chars` characters, else its start with "…" in the last
    place.

    Raises ValueError when `max_chars` is below 1.
    """
    if max_chars < 1:
        raise ValueError(f"max_chars is {max_chars}; it must be at least 1.")
    return text if len(text) <= max_chars else text[: max_chars - 1].rstrip() + ELLIPSIS


def disarm(text: str) -> str:
    """Return `clean(text)` in which nothing can be read as a delimiter of the fence or as a control
    token.

    Three or more angle brackets in a row become a single `‹` or `›`. Look-alikes count too (« as
    two), also with white space or combining marks between them. The brackets of what may be a chat
    template's token or a field's header are replaced. Other single brackets and pairs, as in
    `x > 3` or « mot », stay as they are.
    """
    text = clean(text)
    if _ACTS.search(text) is None:
        return text
    text = _TOKEN.sub(r"‹\1›", text)
    text = _TILDES.sub(r"(\1)", _BRACKETS.sub(r"(\1)", text))
    text = _HEADER_CLOSES.sub(r"\1)", _HEADER_OPENS.sub("(", text))
    return _shortened(_shortened(text, _LESS, "‹"), _MORE, "›")


def _shortened(text: str, brackets: dict[str, int], single: str) -> str:
    """Return the text with `single` in place of each run of brackets that reads as long as a
    delimiter.
    """

    def shorter(run: re.Match[str]) -> str:
        read_as = sum(brackets.get(character, 0) for character in run[0])
        return single if read_as >= len(OPEN) else run[0]

    return _run_of("".join(brackets)).sub(shorter, text)


@cache
def _run_of(brackets: str) -> re.Pattern[str]:
    """Return a pattern for brackets in a row, whatever invisible or white characters stand
    between.
    """
    bracket = f"[{re.escape(brackets)}]"
    return re.compile(f"{bracket}(?:[{_GAP}]*{bracket})*")


def fence(text: str, label: str, max_chars: int) -> str:
    """Return `text` quoted between `<<<label` and `>>>`, each on its own line.

    `text` and `label` may both come from strangers: neither can close the fence or open another,
    whatever they hold. The quoted part has at most `max_chars` characters, ending in "…" if it was
    cut; the label at most `LABEL_CHARS`. Raises ValueError when `max_chars` is below 1.
    """
    # Invisible padding could be long, so the text is cleaned before it is cut.
    body = cut(disarm(text).strip(), max_chars)
    return "\n".join(part for part in (OPEN + _head(label), body, CLOSE) if part)


@lru_cache(maxsize=1024)
def _head(label: str) -> str:
    """Return the label as it stands behind the opening delimiter: one line, disarmed and cut."""
    return cut(_STICKY.sub("", " ".join(disarm(label).split())), LABEL_CHARS)

"""How an LM is asked: its settings, the layout of the prompt, the form of the answer, and how the
form is enforced.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple


@dataclass(frozen=True)
class Profile:
    """How one LM is asked, attached to it as `lm.profile`.

    `layout`: `chat` sends messages with instructions and asks for a JSON object; `plain` sends bare
    text (`Question: … Answer:`), for base models without instruction tuning. `answer_form`: a
    choice is answered by its `label` or by the `text` of the option. `list_options`: whether the
    prompt lists the options. `constrain`: `schema` sends a JSON schema as `response_format`;
    `grammar` lets the endpoint constrain the decoding of every output field; `none` does neither.
    """

    layout: Literal["chat", "plain"] = "chat"
    answer_form: Literal["label", "text"] = "label"
    list_options: bool = True
    constrain: Literal["schema", "grammar", "none"] = "schema"


DEFAULT_PROFILE = Profile()

SAMPLING = ("temperature", "max_tokens", "top_p", "top_k", "seed", "stop")
PASSED = (
    *("reasoning_effort", "thinking", "max_completion_tokens", "verbosity", "service_tier"),
    *("frequency_penalty", "presence_penalty", "logit_bias", "logprobs", "extra_body"),
)
"""Settings of an LM that are sent unchanged; fields that only its endpoint knows go into
`extra_body`.
"""
SETTINGS = (*SAMPLING, *PASSED)


class Wording(NamedTuple):
    """Where and how an agent's instructions stand in a chat request.

    `role_first`: in the system message, as in the papers; else after the material that all agents
    share, so that their requests have a common prefix. `verbatim`: the instructions keep their line
    breaks.
    """

    role_first: bool = False
    verbatim: bool = False

"""The dialogues most worth reading, as one HTML page; everything that a model or a file said is escaped."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any

from jinja2 import Environment

from ...modules.reading.answers import same_answer

MOST_DIALOGUES = 25
LONGEST_TEXT = 4000


def most_informative(
    rows: Iterable[Mapping[str, Any]], most: int = MOST_DIALOGUES
) -> list[Mapping[str, Any]]:
    """Of all rows with a dialogue those worth reading, the best first; ties keep their order.

    First come questions that were argued over and lost, of these the ones that somebody once had right, then
    the other disagreements and the other wrong ones; among equals the one with more changes of mind. Holds
    at most `most` rows at a time.
    """
    return heapq.nlargest(most, (row for row in rows if row["transcript"]), key=_interest)


def _interest(row: Mapping[str, Any]) -> tuple[int, bool, int]:
    kind = row["kind"]
    turns = [turn for turn in row["transcript"] if not turn.get("step")]  # the others give no answer
    answers = [turn["answer"] for turn in turns]
    argued = any(not same_answer(one, other, kind) for one, other in pairwise(answers))
    had_it = not row["correct"] and any(same_answer(said, row["gold"], kind) for said in answers)
    return argued + (not row["correct"]), had_it, _changes(turns)


def _changes(turns: Sequence[Mapping[str, Any]]) -> int:
    last: dict[str, str | None] = {}
    changes = 0
    for turn in turns:
        changes += turn["agent"] in last and last[turn["agent"]] != turn["answer"]
        last[turn["agent"]] = turn["answer"]
    return changes


def dialogues_page(rows: Sequence[Mapping[str, Any]], title: str, total: int) -> str:
    """A page without scripts or links: question, options, every turn, the decision and the gold answer.

    A worker's turn shows its steps, a supervisor's its decision and suggestion.
    """
    return _PAGE.render(rows=rows, title=title, total=total, longest=LONGEST_TEXT)


_PAGE = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(
    """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>Dialogues: {{ title }}</title>
<style>
  :root { color-scheme: light; }
  body { font: 15px/1.5 system-ui, sans-serif; color: #222; background: #fff; }
  body { max-width: 60rem; margin: 1.5rem auto; padding: 0 1rem; }
  h1 { font-size: 1.3rem; } h2 { font-size: 1.05rem; margin: 0 0 .5rem; }
  article { border: 1px solid #ddd; border-left: 6px solid #b33; border-radius: 6px; }
  article { padding: 1rem; margin: 1.2rem 0; }
  article.right { border-left-color: #2a7; }
  .id, .round, .cut { color: #666; font-size: .85rem; }
  ul.options { list-style: none; padding: 0; margin: .5rem 0; }
  .gold { font-weight: 600; color: #175; }
  table { border-collapse: collapse; width: 100%; }
  th, td { text-align: left; vertical-align: top; padding: .4rem .6rem; border-top: 1px solid #eee; }
  td.text { white-space: pre-wrap; overflow-wrap: anywhere; }
  ol.trace { margin: 0; padding-left: 1.4rem; white-space: normal; }
  ol.trace li { padding: .2rem 0; }
  .action { font-family: ui-monospace, monospace; font-size: .9rem; color: #036; }
  .observation { color: #555; border-left: 3px solid #ddd; padding-left: .6rem; }
  .problem { color: #b33; font-size: .85rem; }
  .decision { margin: .6rem 0 0; font-weight: 600; }
</style>
</head>
<body>
<h1>{{ title }}</h1>
<p>{{ rows|length }} of {{ total }} questions: first those that were argued over and lost, then other
disagreements and other wrong answers. All of them are in <code>results.jsonl</code>.</p>
{% macro shown(text) %}
{{ text[:longest] }}
{%- if text|length > longest %}
 <span class="cut">… {{ text|length - longest }} more characters</span>
{%- endif %}
{% endmacro %}
{% for row in rows %}
<article class="{{ 'right' if row.correct else 'wrong' }}">
<h2>{{ row.question or '(the question is not in the row)' }}</h2>
<div class="id">{{ row.id }}</div>
{% if row.choices %}
<ul class="options">
{% for label, text in row.choices.items() %}
{% if label == row.gold %}
  <li class="gold">{{ label }}. {{ text }} (gold)</li>
{% else %}
  <li>{{ label }}. {{ text }}</li>
{% endif %}
{% endfor %}
</ul>
{% endif %}
<table>
<tr><th>speaker</th><th>answer</th><th>argument</th></tr>
{% for turn in row.transcript %}
<tr>
  <td>{{ turn.agent }}<div class="round">round {{ turn.round }}</div></td>
  <td>{{ turn.answer if turn.answer is not none else turn.step or 'unreadable' }}
{%- if turn.forced %}
<div class="round">asked for at the step limit</div>
{%- endif %}
{%- if turn.raw %}
<div class="round">said: {{ turn.raw[:longest] }}</div>
{%- endif %}</td>
  <td class="text">
{%- if turn.suggestion and turn.trace %}
<div class="round">after the suggestion: {{ turn.suggestion[:longest] }}</div>
{%- endif %}
{%- if turn.trace %}
<ol class="trace">
{% for step in turn.trace %}
<li>{{ shown(step.thought)|trim }}
<div class="action">{{ shown(step.action)|trim }}
{%- if step.problem %}
 <span class="problem">{{ step.problem }}</span>
{%- endif %}</div>
<div class="observation">{{ shown(step.observation)|trim }}</div></li>
{% endfor %}
</ol>
{%- else %}
{{- shown(turn.text)|trim }}
{%- endif %}
{%- if turn.worker and not turn.trace %}
<div class="decision">{{ 'sent back' if turn.step == 'retry' else 'accepted' }}: {{ turn.worker }}
{%- if turn.suggestion %}
 with “{{ turn.suggestion[:longest] }}”
{%- endif %}</div>
{%- endif %}
{% for found in turn.evidence or [] %}
<div class="round">looked up: {{ found.title }}</div>
{%- endfor %}</td>
</tr>
{% endfor %}
</table>
<p class="decision">{{ 'Right' if row.correct else 'Wrong' }}:
{{ row.answer if row.answer is not none else 'no answer' }}
by {{ row.decided_by }} after {{ row.rounds }} round{{ '' if row.rounds == 1 else 's' }};
gold: {{ row.gold }}</p>
</article>
{% endfor %}
</body>
</html>
"""
)

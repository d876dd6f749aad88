"""A CrewAI crew: two agents work on the question, and a judge decides. Not a line is changed.

folkmoot evaluate "cmd:python crewai_team.py" --data questions.csv --lm openai/gpt-4o-mini
"""

import json
import sys

from crewai import Agent, Crew, Task

MODEL = "gpt-4o-mini"


def crew_for(text: str) -> Crew:
    intuitive = Agent(role="Intuitive", goal="Answer at once.", backstory="You guess.", llm=MODEL)
    careful = Agent(role="Careful", goal="Answer correctly.", backstory="You think.", llm=MODEL)
    judge = Agent(role="Judge", goal="Choose the best answer.", backstory="You weigh.", llm=MODEL)
    first = Task(description=text, expected_output="An answer.", agent=intuitive)
    second = Task(description=text, expected_output="A reasoned answer.", agent=careful)
    last = Task(
        description=text,
        expected_output="The answer alone.",
        agent=judge,
        context=[first, second],
    )
    return Crew(agents=[intuitive, careful, judge], tasks=[first, second, last])


if __name__ == "__main__":
    question = json.load(sys.stdin)
    options = [f"{label}. {text}" for label, text in (question["choices"] or {}).items()]
    result = crew_for("\n".join([question["question"], *options])).kickoff()
    print(json.dumps({"answer": result.raw}))

"""A LangGraph graph: two agents answer side by side, and a judge decides. Not a line is changed.

folkmoot evaluate "cmd:python langgraph_team.py" --data questions.csv --lm openai/gpt-4o-mini
"""

import json
import operator
import sys
from typing import Annotated, TypedDict

from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, StateGraph

llm = ChatOpenAI(model="gpt-4o-mini")


class State(TypedDict):
    question: str
    opinions: Annotated[list[str], operator.add]
    answer: str


def intuitive(state: State) -> dict:
    reply = llm.invoke(f"{state['question']}\nGive the first answer that comes to your mind.")
    return {"opinions": [reply.text]}


def careful(state: State) -> dict:
    reply = llm.invoke(f"{state['question']}\nThink step by step, then answer.")
    return {"opinions": [reply.text]}


def judge(state: State) -> dict:
    opinions = "\n\n".join(state["opinions"])
    asked = f"{state['question']}\n\nTwo opinions:\n{opinions}\n\nReply with the answer alone."
    return {"answer": llm.invoke(asked).text}


graph = StateGraph(State)
for node in (intuitive, careful, judge):
    graph.add_node(node.__name__, node)
graph.add_edge(START, "intuitive")
graph.add_edge(START, "careful")
graph.add_edge(["intuitive", "careful"], "judge")
graph.add_edge("judge", END)
team = graph.compile()

if __name__ == "__main__":
    question = json.load(sys.stdin)
    options = [f"{label}. {text}" for label, text in (question["choices"] or {}).items()]
    result = team.invoke({"question": "\n".join([question["question"], *options])})
    print(json.dumps({"answer": result["answer"]}))

"""An AutoGen group chat: two agents speak in turn, and a judge decides. Not a line is changed.

folkmoot evaluate "cmd:python autogen_team.py" --data questions.csv --lm openai/gpt-4o-mini
"""

import asyncio
import json
import sys

from autogen_agentchat.agents import AssistantAgent
from autogen_agentchat.conditions import MaxMessageTermination
from autogen_agentchat.teams import RoundRobinGroupChat
from autogen_ext.models.openai import OpenAIChatCompletionClient

ROLES = {
    "intuitive": "Give the first answer that comes to your mind.",
    "careful": "Think step by step, then answer.",
    "judge": "Weigh what the others said, and reply with the answer alone.",
}


async def answer(text: str) -> str:
    client = OpenAIChatCompletionClient(model="gpt-4o-mini")
    agents = [AssistantAgent(name, client, system_message=words) for name, words in ROLES.items()]
    team = RoundRobinGroupChat(agents, termination_condition=MaxMessageTermination(4))
    result = await team.run(task=text)
    await client.close()
    return result.messages[-1].to_text()


if __name__ == "__main__":
    question = json.load(sys.stdin)
    options = [f"{label}. {text}" for label, text in (question["choices"] or {}).items()]
    said = asyncio.run(answer("\n".join([question["question"], *options])))
    print(json.dumps({"answer": said}))

"""A mini-swe-agent: of a question, what it submits is the answer; of a task, what it leaves in the
folder. Its address comes from the environment; not a line is changed.

folkmoot evaluate "cmd:python mini_swe_agent.py" --data questions.csv --lm openai/gpt-4o-mini
folkmoot try tasks/ --baseline "cmd:python mini_swe_agent.py" --with "cmd:python crew.py" \\
    --check "python -m pytest -q" --lm openai/gpt-4o-mini
"""

import json
import sys

import yaml
from minisweagent.agents.default import DefaultAgent
from minisweagent.config import get_config_path
from minisweagent.environments.local import LocalEnvironment
from minisweagent.models.litellm_model import LitellmModel

if __name__ == "__main__":
    question = json.load(sys.stdin)
    options = [f"{label}. {text}" for label, text in (question["choices"] or {}).items()]
    model = LitellmModel(model_name="openai/gpt-4o-mini", cost_tracking="ignore_errors")
    settings = yaml.safe_load(get_config_path("mini").read_text())["agent"]
    names = ("system_template", "instance_template")
    agent = DefaultAgent(model, LocalEnvironment(), **{name: settings[name] for name in names})
    result = agent.run("\n".join([question["question"], *options]))
    print(json.dumps({"answer": result["submission"].strip()}))

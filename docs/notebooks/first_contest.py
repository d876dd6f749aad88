# %% [markdown]
# # A first contest
#
# Is a team of two worth more than one agent at the same price? A contest asks both, and one agent
# as often as the team costs, here on twenty sample questions and an embedded LM (Gemma 3 270M): no
# key, no network, a few minutes.
# It needs `pip install 'folkmoot[local]' ipykernel`.

# %%
from IPython.display import Image

import folkmoot as fm

lm = fm.lm("local/gemma-3-270m")  # or "openai/gpt-4o-mini", or any other LiteLLM name
questions = fm.load("sample-choice", split="test", limit=20)  # or a file of yours
print(questions[0].question, questions[0].choices)

# %% [markdown]
# Two agents, which talk for up to two rounds, and a judge if they do not agree. Without
# `tracking=False` the contest would also be a run in MLflow.

# %%
team = fm.Deliberation(["intuitive", "reasoner"], tie_break="judge", max_rounds=2)
contest = fm.contest(
    questions, field={"two who talk": team}, lm=lm, out="runs/contest", tracking=False
)
print(*contest.sentences, sep="\n")

# %% [markdown]
# The standings: how often each program is right, how far it is from one prompt, with the ends of
# the 95% interval, and its price as a multiple. Those that are `free` were never asked: their
# answers follow from those of others.

# %%
contest.standings[
    ["name", "right", "difference", "difference_low", "difference_high", "multiple", "state"]
].round(2)

# %% [markdown]
# Twenty questions show large differences only.

# %%
Image(contest.plot("contest.png"))

# %% [markdown]
# Every answer can be read. This is the first question on which the two differ.

# %%
one, talk = contest.runs["one prompt"].rows, contest.runs["two who talk"].rows
pairs = zip(one, talk, strict=False)
row = next((after for before, after in pairs if before["answer"] != after["answer"]), talk[0])
print(row["question"], row["choices"], "right:", row["gold"])
for turn in row["transcript"]:
    print(f"- {turn['agent']}: {turn['answer']}, {turn['text']}")
print("decided by", row["decided_by"], "for", row["answer"])

# %%
talk.to_pandas()[["question", "answer", "gold", "correct", "decided_by"]].head()

# %% [markdown]
# The winner can be asked, and its folder is a program for `fm.load_program` and `folkmoot serve`.

# %%
contest.winner(question="Where do people keep savings?", choices=["bank", "mall"]).answer

# %% [markdown]
# The same on one page, with every question and dialogue: open `report.html`.

# %%
contest.report("report.html").path.name

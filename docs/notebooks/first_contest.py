# %% [markdown]
# # A first contest
#
# Does a team of two answer better than one agent? Two evaluations and a comparison show it, here on
# twenty sample questions and an embedded LM (Gemma 3 270M): no key, no network, a minute or two.
# It needs `pip install 'folkmoot[local]' ipykernel`.

# %%
import folkmoot as fm

lm = fm.lm("local/gemma-3-270m")  # or "openai/gpt-4o-mini", or any other LiteLLM name
questions = fm.load("sample-choice", split="test", limit=20)  # or a file of yours
print(questions[0].question, questions[0].choices)

# %% [markdown]
# One agent, which answers at once. Without `tracking=False` this would also be a run in MLflow.

# %%
one = fm.evaluate(fm.SingleAgent("simple"), questions, lm=lm, out="runs/one", tracking=False)
one

# %% [markdown]
# Two agents, which talk for up to two rounds, and a judge if they do not agree.

# %%
program = fm.Deliberation(["intuitive", "reasoner"], tie_break="judge", max_rounds=2)
talk = fm.evaluate(program, questions, lm=lm, out="runs/talk", tracking=False)
talk

# %% [markdown]
# The comparison pairs the answers question by question. A program that leads without evidence is
# *ahead so far, undecided*. The program to take is the cheapest that nothing is shown to beat.

# %%
found = fm.compare(one, talk, names=["one agent", "two who talk"])
found

# %% [markdown]
# Every answer can be read. This is the first question on which the two differ.

# %%
pairs = zip(one.rows, talk.rows, strict=True)
row = next((after for before, after in pairs if before["answer"] != after["answer"]), talk.rows[0])
print(row["question"], row["choices"], "right:", row["gold"])
for turn in row["transcript"]:
    print(f"- {turn['agent']}: {turn['answer']}, {turn['text']}")
print("decided by", row["decided_by"], "for", row["answer"])

# %%
talk.to_pandas()[["question", "answer", "gold", "correct", "decided_by"]].head()

# %% [markdown]
# The same on one page, with every question and dialogue: open `report.html`.

# %%
page = fm.report([one, talk], names=["one agent", "two who talk"], out="report.html")
page.path.name

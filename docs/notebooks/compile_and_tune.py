# %% [markdown]
# # Compile and tune
#
# An optimizer of DSPy improves an agent's prompts (compile), and a study of Optuna searches for the
# structure of a team (tune). Both choose on training questions and are judged on others. This
# notebook uses sample questions and an embedded LM (Gemma 3 270M): no key, no network, a few
# minutes.
# It needs `pip install 'folkmoot[local]' ipykernel`.

# %%
import folkmoot as fm

lm = fm.lm("local/gemma-3-270m")
train = fm.load("sample-choice", split="train", limit=10)
held_out = fm.load("sample-choice", split="test", limit=16)

# %% [markdown]
# ## Compile
#
# `bootstrap_rs` tries demonstrations from answers that were right.

# %%
agent = fm.SingleAgent("simple")
better = fm.compile(
    agent, train, held_out, optimizer="bootstrap_rs", lm=lm, out="runs/compiled", tracking=False
)
print(better.compilation.verdict)

# %% [markdown]
# Its cost, and the winner, which is saved as a folder of JSON.

# %%
print(better.compilation.calls_made, "calls; the winner is", better.compilation.winner)
better.save("compiled")
fm.load_program("compiled").describe()["program"]

# %% [markdown]
# ## Tune
#
# How long should two agents talk, and who decides? Every combination is tried; calls that trials
# share are made once.

# %%
space = {
    "program": "deliberation",
    "roles": [["intuitive", "reasoner"]],
    "max_rounds": {"from": 1, "to": 2},
    "tie_break": ["judge", "strongest"],
    "sampling": {"temperature": None},
}
study = fm.tune(
    space, train, held_out, lm=lm, trials=4, sampler="grid", out="runs/tuned", tracking=False
)
for trial in study.trials:
    print(f"{trial.value('accuracy'):.0%}", trial.setting)

# %% [markdown]
# The winner's training score is the best of several, and so biased upwards; the held-out questions
# measure its accuracy.

# %%
print(study.report.verdict)
study.best.save("winner")

# %% [markdown]
# The study is Optuna's own, with all its plots and importances.

# %%
study.study.trials_dataframe().filter(regex="^(number|value|params)")

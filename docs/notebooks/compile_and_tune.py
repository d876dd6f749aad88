# %% [markdown]
# # Compile and tune
#
# An optimizer of DSPy improves an agent's prompts (compile), and a study of Optuna searches for the
# best settings (tune). Both choose on training questions and are judged on others. This notebook
# uses an embedded LM (Gemma 3 270M): no key, no network, a few minutes.
# It needs `pip install 'folkmoot[local]' ipykernel`.

# %% [markdown]
# ## Compile
#
# Which team of yours gets a ticket? No LM knows what your teams are called, so here is what
# examples can teach.

# %%
import random

from IPython.display import Image

import folkmoot as fm

lm = fm.lm("local/gemma-3-270m")  # or "openai/gpt-4o-mini", or any other LiteLLM name

TICKETS = {
    "billing": [
        "My card was charged twice for one month.",
        "The invoice shows a price that I did not agree to.",
        "How do I get my money back for a plan that I ended?",
        "The receipt lacks our tax number.",
        "A discount was promised and is not on the bill.",
        "Please change the bank account that you charge.",
        "Why did my subscription become dearer this month?",
        "I paid, and the bill still says unpaid.",
        "Two invoices have the same number.",
        "Can I pay by bank transfer instead of by card?",
        "You took money after I had cancelled.",
        "The refund is smaller than what I paid.",
    ],
    "shipping": [
        "The parcel was due on Monday and is not here.",
        "The courier left the box in the rain.",
        "Can you send it to another address?",
        "The tracking page has not changed for a week.",
        "One of the three boxes never arrived.",
        "Do you deliver to islands?",
        "The driver did not ring the bell.",
        "The package came open and half empty.",
        "The parcel went to my old street.",
        "How long does delivery abroad take?",
        "The courier says that nobody was at home.",
        "I got the box of another customer.",
    ],
    "login": [
        "I forgot my password and the reset mail does not come.",
        "The code on my phone is refused.",
        "My account is locked after five tries.",
        "How do I sign in on a new laptop?",
        "The page says that my user name does not exist.",
        "I cannot log in since I changed my mail address.",
        "It asks for a second factor that I never set.",
        "Somebody else is signed in as me.",
        "The link to confirm my address has expired.",
        "My new password is not accepted.",
        "I am signed out every five minutes.",
        "The app does not recognise my fingerprint.",
    ],
    "repair": [
        "The screen stays black when I switch it on.",
        "The battery lasts ten minutes.",
        "It makes a grinding noise since yesterday.",
        "A key of the keyboard fell off.",
        "The fan never stops.",
        "The lid does not close any more.",
        "Water got into the charger.",
        "The printer eats paper.",
        "The camera shows only stripes.",
        "The left speaker is silent.",
        "The hinge of the lid broke.",
        "It gets so hot that it turns itself off.",
    ],
}
tickets = [
    fm.Question(id=text, question=f"Which team gets this ticket? {text}", answer=team, kind="span")
    for team, texts in TICKETS.items()
    for text in texts
]
random.Random(1).shuffle(tickets)
train, held_out = tickets[:28], tickets[28:]

# %% [markdown]
# `labeled_few_shot` puts training questions with their answers into the prompt.

# %%
agent = fm.SingleAgent("simple")
better = fm.compile(
    agent,
    train,
    held_out,
    optimizer="labeled_few_shot",
    metric="exact",
    lm=lm,
    out="runs/compiled",
    tracking=False,
)
better.compilation

# %% [markdown]
# The gain on tickets that the optimizer has not seen, with its intervals.

# %%
print(better.compilation.verdict)
Image(better.compilation.plot("gain.png"))

# %% [markdown]
# The winner is a folder of JSON, which any process can load, with its LM.

# %%
program = fm.load_program("runs/compiled")
program("Which team gets this ticket? The mouse is broken.").answer

# %% [markdown]
# ## Tune
#
# Which prompting strategy, and with or without examples? Every combination is tried; the default
# is the first of each. Where prompts are compiled, trials are scored on the other half of the
# training questions.

# %%
space = {
    "program": "single",
    "strategy": ["simple", "zero_shot"],
    "sampling": {"temperature": None},
    "compile": {"optimizer": ["none", "labeled_few_shot"], "preset": "light"},
}
study = fm.tune(
    space,
    train,
    held_out,
    metric="exact",
    lm=lm,
    trials=4,
    sampler="grid",
    out="runs/tuned",
    tracking=False,
)
study.to_pandas()

# %% [markdown]
# The winner's training score is the best of several, and so biased upwards; tickets that no trial
# saw measure its accuracy.

# %%
print(study.report.verdict)
study.best.save("winner")
Image(study.plot("study.png"))

# %% [markdown]
# What each choice changes, paired by question.

# %%
study.effects

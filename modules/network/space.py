"""The search space of a strategy network that a study trains."""

from __future__ import annotations

from ..base.space import Parameter, Space, When, choice

PAPER_STRATEGIES = (
    "zero_shot", "few_shot", "cot", "self_consistency", "self_ask",
    "decomposition", "least_to_most",
)  # fmt: skip

SPACE: Space = {
    "agents": Parameter(choice(5, 3, 7)),
    "strategies": Parameter(
        choice(
            list(PAPER_STRATEGIES),
            ["zero_shot", "few_shot", "cot"],
            ["zero_shot", "cot", "self_ask"],
            ["cot", "self_ask", "least_to_most"],
            ["self_ask", "decomposition", "least_to_most"],
            ["cot", "self_consistency"],
        )
    ),
    "gamma": Parameter(choice(0.0, 0.1, 0.3, 0.7)),
    # Three agents and fewer are all connected whatever k and p are.
    "k": Parameter(choice(2, 4), When("agents", above=3)),
    # From k = N - 1 on the graph is complete whatever p is.
    "p": Parameter(choice(0.0, 0.1, 0.5), When("agents", above=1, less="k")),
    "top": Parameter(choice(None, 1, 3), When("agents", above=3)),
    "tie_break": Parameter(choice("first", "weight", "random"), default="first"),
    "alpha": Parameter(choice(0.1, 0.3), When("gamma", above=0)),
    "choice": Parameter(choice("sample", "argmax")),
    "weight": Parameter(choice("mean_trust", "accuracy", "log_odds", "fitted", "conditional")),
    "lr": Parameter(choice(0.001, 0.01)),
    "sampling.temperature": Parameter(choice(None, 0.5, 1.0)),
}
"""Settings by the names of NetworkConfig and TrainingSettings; the paper's are among the values."""

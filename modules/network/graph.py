"""The graph of agents: a small world first, then changed by trust (MARL-GAT, 4.1 and 4.8)."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..base.errors import UserError
from .settings import Chance, CheckedFields, Whole
from .trust import Trust

Adjacency = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Limits(CheckedFields):
    """The limits of a graph: the degrees of its agents, the trust below which an edge is dropped,
    and the trust above which one is added.

    Raises UserError unless 1 <= min_degree <= max_degree and 0 <= drop <= add <= 1.
    """

    min_degree: Whole = 1
    max_degree: Whole = 6
    drop: Chance = 0.3
    add: Chance = 0.8

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.min_degree > self.max_degree:
            raise UserError(
                f"degrees from {self.min_degree} to {self.max_degree} cannot be kept: "
                "give 1 <= min_degree <= max_degree."
            )
        if self.drop > self.add:
            raise UserError(
                f"edges cannot go below trust {self.drop} and come above {self.add}: "
                "give 0 <= drop <= add <= 1."
            )

    def bounds(self, n: int) -> tuple[int, int]:
        """Return the least and the greatest degree that every one of n agents can have at once.

        At most n - 1. An odd number of agents cannot all have the same odd degree, so one more is
        allowed.
        """
        low, high = min(self.min_degree, n - 1), min(self.max_degree, n - 1)
        return low, high + (low == high and n * low % 2)


def small_world(n: int, k: int, p: float, limits: Limits, seed: int) -> Adjacency:
    """Return adjacency (n, n) of a Watts-Strogatz graph: a ring of k neighbours, each edge rewired
    with chance p.

    Symmetric, diagonal false. From k = n - 1 on it is complete; below, an odd k gives k - 1.
    Degrees are then brought within `limits` by removing or adding edges at random. The same seed
    gives the same graph.
    """
    import networkx  # type: ignore[import-untyped]  # with PyTorch, of the extra `network`

    world = networkx.watts_strogatz_graph(n, n if k >= n - 1 else k, p, seed=seed)
    graph = networkx.to_numpy_array(world, dtype=bool)
    # Random numbers in the place of trust, the same for both directions of a pair.
    liking = np.random.default_rng(seed).random((n, n))
    return _within(graph, liking + liking.T, limits)


def evolve(graph: Adjacency, trust: Trust, limits: Limits) -> Adjacency:
    """Return the graph (N, N) that follows from trust (N, N), in the paper's four stages:

    1. edges with trust below `limits.drop` go, 2. pairs with trust above `limits.add` are
    connected, most trusted first, while both have room, 3. agents below the least degree get their
    most trusted partners back, 4. each agent swaps its least trusted edge for the most trusted pair
    it lacks, if that is better and all degrees stay in bounds.

    Symmetric, diagonal false, degrees within `limits.bounds(N)`, so nobody is isolated. Pure; equal
    trust goes by index. Trust that is not symmetric counts as the mean of both directions. Raises
    ValueError for a graph that is not symmetric.
    """
    if (graph != graph.T).any():
        raise ValueError("a graph is a symmetric matrix of truth values")
    mutual = (trust + trust.T) / 2
    _, high = limits.bounds(len(graph))
    n = len(graph)
    edges = graph.astype(bool) & ~np.eye(n, dtype=bool) & (mutual >= limits.drop)
    for i, j in _ranked(_pairs(~edges & (mutual > limits.add)), mutual):
        if max(edges[i].sum(), edges[j].sum()) < high:
            edges[i, j] = edges[j, i] = True
    edges = _within(edges, mutual, limits)
    for i in range(n):
        # In turn: a swap changes the degrees that the next agent finds.
        _swap(edges, mutual, i, limits)
    return edges


def _swap(edges: Adjacency, trust: Trust, i: int, limits: Limits) -> None:
    """Carry out stage 4 for agent i, in place: replace its least trusted edge that may go by an
    edge to the most trusted agent with room.
    """
    low, high = limits.bounds(len(edges))
    degree = edges.sum(axis=1)
    spare = [j for j in np.flatnonzero(edges[i]) if degree[j] > low]
    open_ = [j for j in np.flatnonzero(~edges[i]) if j != i and degree[j] < high]
    if not spare or not open_:
        return
    worst, best = min(spare, key=lambda j: trust[i, j]), max(open_, key=lambda j: trust[i, j])
    if trust[i, best] > trust[i, worst]:
        edges[i, worst] = edges[worst, i] = False
        edges[i, best] = edges[best, i] = True


def _within(graph: Adjacency, trust: Trust, limits: Limits) -> Adjacency:
    """Return the graph with all degrees within limits: the least trusted edges are dropped, the
    most trusted pairs connected.
    """
    n = len(graph)
    low, high = limits.bounds(n)
    edges = graph.copy()
    for i, j in _ranked(_pairs(edges), trust)[::-1]:
        if max(edges[i].sum(), edges[j].sum()) > high:
            edges[i, j] = edges[j, i] = False
    while (short := np.flatnonzero(edges.sum(axis=1) < low)).size:
        degree = edges.sum(axis=1)
        lacking, room = degree < low, degree < high
        fitting = lacking[:, None] & room[None, :]
        wanted = _pairs(~edges & (fitting | fitting.T))
        if wanted:
            i, j = _ranked(wanted, trust)[0]
            edges[i, j] = edges[j, i] = True
        else:
            _make_room(edges, trust, int(short[0]), limits)
    return edges


def _pairs(matrix: Adjacency) -> list[tuple[int, int]]:
    """Return the pairs i < j for which a symmetric matrix is true, in order."""
    return [(int(i), int(j)) for i, j in np.argwhere(np.triu(matrix, 1))]


def _ranked(pairs: list[tuple[int, int]], trust: Trust) -> list[tuple[int, int]]:
    """Return the pairs by trust, the highest first; equal trust in the given order."""
    return sorted(pairs, key=lambda pair: -trust[pair])


def _make_room(edges: Adjacency, trust: Trust, i: int, limits: Limits) -> None:
    """Raise the degree of agent i, in place, when all agents that it is not connected to are full.

    An edge v-w of a full v goes, i is connected to v, and w keeps its degree or can do without: it
    has more than the least degree, or is connected to i too, or to the other agent that is short.
    One of these always exists, since the sum of all degrees is even. The least trusted such edge is
    taken.
    """
    low, high = limits.bounds(len(edges))
    degree = edges.sum(axis=1).tolist()
    partners = [int(j) for j in np.flatnonzero(edges.sum(axis=1) < low) if j != i]
    if degree[i] + 2 <= high:  # it may be connected to w, too
        partners.append(i)
    ways: list[tuple[float, int, int, int | None]] = []
    strangers = [v for v in np.flatnonzero(~edges[i]).tolist() if v != i]
    for v in strangers:
        for w in np.flatnonzero(edges[v]).tolist():
            if degree[w] > low:
                ways.append((trust[v, w], v, w, None))
            ways += [(trust[v, w], v, w, j) for j in partners if j != w and not edges[j, w]]
    _, v, w, partner = min(ways, key=lambda way: way[0])
    edges[v, w] = edges[w, v] = False
    edges[i, v] = edges[v, i] = True
    if partner is not None:
        edges[partner, w] = edges[w, partner] = True

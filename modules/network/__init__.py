"""The pure parts of the strategy network (MARL-GAT): trust, graph, tracker, rewards, weights and
policies.
"""

"""Deliberation (Agents of Commonsense): agents who speak in turn, the tie-breaks, and replays."""

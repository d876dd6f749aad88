"""Answers questions over HTTP with a program that was evaluated, compiled or saved."""

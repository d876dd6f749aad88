"""Reproduction: runs rows of published tables again, and compares the measured figures with the
published ones.
"""

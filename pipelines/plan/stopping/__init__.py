"""Runs that stop before everything is asked: the condition, the order, and the record of it."""

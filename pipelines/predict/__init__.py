"""Predict."""

"""Tensor parallel."""

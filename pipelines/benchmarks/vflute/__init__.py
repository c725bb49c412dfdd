"""Vflute."""

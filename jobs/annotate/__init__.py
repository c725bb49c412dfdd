"""Annotation forms: a stratified draw of an output's items, and one self-contained page per person."""

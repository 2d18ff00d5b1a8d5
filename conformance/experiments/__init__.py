"""Experiments that a rule makes and that are longer than a rule."""

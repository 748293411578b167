"""Runs: data, teachers and a recipe become a model folder."""

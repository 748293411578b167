"""Comparisons: a file describes rows and tables; what is not done yet is trained, evaluated, kept and told."""

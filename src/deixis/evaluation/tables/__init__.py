"""Comparisons of methods: a TOML file describes rows and tables; missing runs are trained, evaluated and reported."""

"""Comparisons of portbar with its peers; each prints ratios from one run."""

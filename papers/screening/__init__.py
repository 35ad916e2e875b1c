"""Paper D: annealed DP-SGD, and what screening leaks."""

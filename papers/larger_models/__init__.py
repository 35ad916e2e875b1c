"""Paper A: a private mixture of Gaussians, the distance criterion, and DFS."""

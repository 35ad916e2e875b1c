"""Paper C: labels that are randomised once, what they tell, and what is learned from them."""

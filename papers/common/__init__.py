"""What the experiments of several papers use: one training of a printed network, and what is printed of networks."""

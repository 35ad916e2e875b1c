"""Paper B: what privacy costs a network, crossovers, feature selection, searches."""

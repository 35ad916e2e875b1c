"""When larger is better: width, records, budget and steps on one bench, across the papers (chapter 14)."""

"""pytest: what a test module registered becomes items, and what comes of them a report."""

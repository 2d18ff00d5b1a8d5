"""How long judging takes, where the time goes, and how it grows with the number of implementations."""

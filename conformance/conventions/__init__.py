"""The questions on which sound implementations differ: one table, and how an answer is read off."""

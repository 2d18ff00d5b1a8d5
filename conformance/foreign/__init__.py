"""The edge to foreign code: what it raises and says, what it does to its process, how much memory it takes."""

"""How a target is called, how its modules are built, and what comes back: recognised by names where that is safe."""

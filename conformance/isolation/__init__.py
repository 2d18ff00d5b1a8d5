"""Child processes, so that a crash, a hang or a leak costs nobody else: the parent's side and the child's."""

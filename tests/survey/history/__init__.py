"""torch's own attention under several versions of torch, judged with one set of declarations."""

"""The page of models: what is on this computer, what fits, what each file says, and what can be done with it."""

"""The page that converts models: what it would become, the jobs under way, and what came of them. Converts nothing."""

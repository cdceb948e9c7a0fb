"""The families of models, one file each: their names and forms in every direction, as data. No torch."""

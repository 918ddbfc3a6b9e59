"""How fast this machine trains: updates, ensembles, files, starts, many runs, simulation, reports."""

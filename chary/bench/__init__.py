"""How fast this machine trains: updates, kinds of ensembles, memory and files, starts, many runs."""

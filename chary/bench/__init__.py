"""How fast this machine trains: updates of MSG, kinds of ensembles side by side, memory and files."""

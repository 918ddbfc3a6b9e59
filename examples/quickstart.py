"""Load a dataset, train MSG, act, and ask how sure the ensemble is."""

import chary

dataset = chary.load("pointmaze-umaze")  # collected on first use, then cached
agent = chary.train("msg", dataset, preset="small", steps=6_000, run="runs/first")
observations = dataset.observations[:5]
actions = agent.act(observations)
values = agent.uncertainty(observations, actions)  # per member, and their mean, std, bound
print(values.mean, values.std, values.lcb)
print("success:", agent.evaluate(episodes=50).success)
again = chary.open_run("runs/first")  # the same agent, from its folder

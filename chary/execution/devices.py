"""The members of an ensemble on several devices.

A device is a window that does not move: it holds the parameters, averages and moments of its own members
and goes through them by itself. Batch, policy and noise are the same everywhere, each device makes them
for itself, and what a step needs of all members, their values and gradients, is gathered.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

import equinox as eqx
import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as Spec

from chary.config import Positive
from chary.errors import CharyError
from chary.execution.windows import Window

Tree = TypeVar("Tree")
Made = TypeVar("Made")
Devices: TypeAlias = Positive | Literal["all"]

AXIS = "members"
BY_MEMBER = Spec(AXIS)
"""The first axis of an array is members, and each device has its own."""
EVERYWHERE = Spec()
"""Every device has all of it."""


def counted(devices: Devices) -> int:
    """A number of devices: what was said, or how many there are; several processes use all they have."""
    everything = devices == "all" or (devices == 1 and jax.process_count() > 1)
    return jax.device_count() if everything else int(devices)


class Shards(NamedTuple):
    """Members divided among devices. On a single one nothing here leaves a trace in the program."""

    devices: int
    members: int
    """Of each device."""

    def here(self) -> Window:
        """The members of the device at hand."""
        if self.devices == 1:
            return Window(0, self.members, whole=True)
        return Window(jax.lax.axis_index(AXIS) * self.members, self.members, whole=False)

    def gathered(self, tree: Tree) -> Tree:
        """What all devices have of arrays whose first axis is members."""
        return tree if self.devices == 1 else jax.lax.all_gather(tree, AXIS, tiled=True)

    def across(self, work: Callable[..., Any]) -> Callable[..., Any]:
        """The same work for the members here, where its first argument must be of all members."""

        def work_of_all(values: Any, *others: Any) -> Any:
            return self.here().of(work(self.gathered(values), *others))

        return work if self.devices == 1 else work_of_all


def shards_of(members: int, devices: Devices, *, divisible: bool) -> Shards:
    """Members divided among that many devices, if they can be."""
    count = counted(devices)
    if count > 1 and not divisible:
        raise CharyError(
            f"--devices {count}: the members of this kind of ensemble share weights, and only separate "
            "networks can be divided among devices. Use --ensemble deep or prior, or one device."
        )
    return Shards(count, members // count)


class Spread(NamedTuple):
    """Where the arrays of an algorithm's state are."""

    mesh: Mesh
    specs: Any
    """In the structure of the state."""

    @classmethod
    def over(cls, devices: int, specs: Any) -> "Spread":
        """On the first so many devices, of all processes."""
        there = jax.devices()
        if devices > len(there):
            kind = there[0].platform
            raise CharyError(
                f"--devices {devices}: there {'are' if len(there) > 1 else 'is'} {len(there)} here "
                f"({kind}). To try it on a CPU, set XLA_FLAGS="
                f"--xla_force_host_platform_device_count={devices}. To resume a run on fewer devices, "
                "with the same result up to rounding: `chary resume RUN --devices 1`."
            )
        if jax.process_count() > 1 and devices < len(there):
            raise CharyError(
                f"--devices {devices}: the {jax.process_count()} processes have {len(there)} together, "
                "and must use them all. Leave --devices out."
            )
        return cls(Mesh(np.array(there[:devices]), (AXIS,)), specs)

    def split(self, update: Callable[..., Any]) -> Callable[..., Any]:
        """`update(state, batch, key)` written for one device's part of the state, for all of it."""
        return jax.shard_map(
            update,
            mesh=self.mesh,
            in_specs=(self.specs, EVERYWHERE, EVERYWHERE),
            out_specs=(self.specs, EVERYWHERE),
            check_vma=False,  # what is gathered is the same everywhere, which JAX cannot see
        )

    def place(self, state: Tree, *, runs: int = 1) -> Tree:
        """A state, or those of several runs along a leading axis, each array where it belongs."""
        leading = () if runs == 1 else (None,)
        return jax.tree.map(
            lambda spec, part: self._put(part, Spec(*leading, *spec)),
            self.specs,
            state,
            is_leaf=lambda x: isinstance(x, Spec),
        )

    def everywhere(self, tree: Tree) -> Tree:
        """Arrays that every device has."""
        return self._put(tree, EVERYWHERE)

    def whole(self, tree: Tree) -> Tree:
        """All of what is spread, on one device of this process; all processes must ask for it."""
        if jax.process_count() == 1:
            return jax.device_put(tree, jax.devices()[0])
        everywhere = NamedSharding(self.mesh, EVERYWHERE)
        return local(jax.jit(lambda tree: tree, out_shardings=everywhere)(tree))

    def _put(self, tree: Any, spec: Spec) -> Any:
        sharding = NamedSharding(self.mesh, spec)

        def put(array: Any) -> jax.Array:
            host = np.asarray(array)  # the same in every process, which makes its own parts
            return jax.make_array_from_callback(host.shape, sharding, host.__getitem__)

        return jax.tree.map(put, tree)


def divided(made: Made, devices: int, by_member: Callable[[Any], Any]) -> Made:
    """An algorithm whose update is written for the members of one device, with the members of all.

    `by_member(state)` gives the parts of its state whose first axis is members.
    """
    if devices == 1:
        return made
    algorithm: Any = made
    everywhere = jax.tree.map(
        lambda _: EVERYWHERE, jax.eval_shape(algorithm.init, jax.random.key(0))
    )
    specs = eqx.tree_at(by_member, everywhere, replace_fn=lambda _: BY_MEMBER)
    spread = Spread.over(devices, specs)
    return replace(algorithm, update=spread.split(algorithm.update), spread=spread)


def local(tree: Tree) -> Tree:
    """What this process has of arrays that are everywhere."""
    return jax.tree.map(lambda x: x.addressable_data(0) if isinstance(x, jax.Array) else x, tree)

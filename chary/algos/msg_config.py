"""MSG's settings, those of its targets and ensembles included."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from annotated_types import Gt, Lt

from chary.algos.critics import TargetEntropy
from chary.config import (
    Checked,
    Count,
    Fraction,
    Layers,
    Pessimism,
    Positive,
    Rate,
    Several,
    Share,
    Weight,
    require,
)
from chary.ensembles import EnsembleShape, check_name
from chary.errors import CharyError, unknown_name
from chary.networks.categorical import Bins
from chary.networks.targets import TARGETS

TargetName = Literal["independent", "double-q", "shared-mean", "shared-lcb", "shared-min"]
Modulation = Literal["sign", "gaussian"]
MemberRows = Literal["auto", "whole", "split"]
Bound = Literal["state", "expectation", "relative"]


@dataclass(frozen=True)
class MSGConfig(Checked):
    """Settings of MSG; the defaults are the paper's and its authors'."""

    members: Positive = 64
    """Number N of Q-functions in the ensemble. --ensemble none always has 1."""
    beta: Pessimism = -4.0
    """Pessimism: weight of the ensemble's standard deviation in the policy's objective, at most
    0."""
    alpha: float = 0.1
    """Weight of the support regulariser H; 0 turns it off and saves its cost."""
    regulariser_samples: Literal["shared", "own"] = "shared"
    """Which sampled actions the regulariser H uses. shared: the same sample as the policy update
    (two of nine network passes cheaper). own: a separate sample for each member, as in the
    paper."""
    ensemble: str = "deep"
    """Kind of ensemble: deep, multihead, mimo, batch, tree, prior, dropout, none (a single
    Q-function), or your own module:Name."""
    targets: TargetName = "independent"
    """TD targets. independent: each member's own. double-q: each member's own, the smaller value of
    its two networks. shared-mean, shared-lcb, shared-min: one target for all members, from their
    mean, lower confidence bound or minimum."""
    target_beta: Pessimism | None = None
    """Weight of the standard deviation in the target of shared-lcb, at most 0. If omitted: beta."""
    next_actions: Literal["own", "shared"] = "own"
    """Next actions in shared targets. own: each member samples its own, as in the authors' code.
    shared: one for all members."""
    min_over: Literal["members", "batch"] = "members"
    """What the policy maximises with shared-min. members: the minimum over members in each state,
    as in the paper. batch: the single minimum over members and batch, as in the authors' code."""
    double_q: Literal["mean", "sum"] = "mean"
    """TD loss of a double-q member. mean: half the mean over the batch and both networks, with
    separate random weights, as in the authors' code. sum: the sum over both networks with one
    random weight, as in chary before 0.2."""
    bound: Bound = "state"
    """What the policy maximises. state: the mean over states of the bound (Eq. 7). expectation: the
    bound of the mean value (Appendix G). relative: the bound of Q_i(s, pi(s)) - Q_i(s, logged
    action), in which offsets between members cancel."""
    ddof: Literal[0, 1] | None = None
    """Number subtracted from N in the variance of the bound. If omitted: 1 for multihead and mimo,
    0 for all others, as in the authors' code."""
    hidden: Layers = (256, 256, 256)
    """Sizes of the hidden layers of the policy and of each Q-function."""
    layer_norm: bool = False
    """Layer normalisation in each hidden layer of the Q-functions, before the ReLU."""
    mimo_repetition: Fraction = 0.5
    """Share of a batch, from 0 to 1, whose rows all members of a mimo ensemble see in the same
    order."""
    modulation: Modulation = "sign"
    """Initial vectors of a batch ensemble. sign: random signs. gaussian: normal around 1."""
    shared_layers: Count = 1
    """Number of hidden layers that the members of a tree ensemble share."""
    prior_scale: Weight = 1.0
    """Weight of the fixed random networks in a prior ensemble, at least 0."""
    dropout: Annotated[float, Gt(0.0), Lt(1.0)] = 0.1
    """Dropout rate of a dropout ensemble, above 0 and below 1."""
    batch_size: Positive = 256
    """Transitions per batch."""
    member_rows: MemberRows = "auto"
    """Rows of a batch that each member learns from. whole: all. split: its own share. auto: split
    for batch ensembles, whole for all others, as in the authors' code."""
    discount: Fraction = 0.99
    """Discount factor gamma."""
    critic_learning_rate: Rate = 3e-4
    """Adam's learning rate for the Q-functions."""
    policy_learning_rate: Rate = 3e-5
    """Adam's learning rate for the policy."""
    tau: Share = 0.005
    """Target networks move by this share towards the new parameters at every step."""
    random_weights: bool = True
    """Multiply each squared TD error by a random number from U[0, 2], separately for every
    member."""
    warmup_steps: Count = 50_000
    """Number of first steps in which the policy is cloned from the data. The critics learn as
    usual."""
    entropy: Literal["tuned", "fixed", "off"] = "tuned"
    """Entropy bonus of the policy. tuned: its temperature is tuned to a target entropy. fixed:
    constant temperature. off: no bonus."""
    temperature: Rate = 1.0
    """Weight of the entropy bonus: the initial value if tuned, else the fixed value."""
    temperature_learning_rate: Rate = 3e-4
    """Adam's learning rate for the logarithm of the temperature."""
    target_entropy: TargetEntropy = "auto"
    """Target entropy of the policy, in nats over all action dimensions (auto: minus their
    number)."""

    cloning: Weight = 0.0
    """Weight nu of a permanent cloning penalty on the policy; 0 for none. The bound is divided by
    E|Q|, or by E|D| with --bound relative, so that nu does not depend on the rewards' scale."""
    cloning_loss: Literal["squared", "likelihood"] = "squared"
    """The cloning penalty. squared: squared distance between the policy's mode and the logged
    action. likelihood: minus the logged action's log-likelihood."""
    policy: Literal["gaussian", "deterministic"] = "gaussian"
    """gaussian: a squashed Gaussian. deterministic: one action per state, with clipped noise in TD
    targets as in TD3; samples have the same noise. Needs --entropy off."""
    target_noise: Weight = 0.2
    """Standard deviation of the noise of a deterministic policy."""
    target_noise_clip: Weight = 0.5
    """Largest magnitude of that noise."""
    policy_every: Positive = 1
    """Update the policy once in this many critic updates."""
    policy_average: Fraction = 0.0
    """Rate of the moving average of the policy's weights that acts, from 0 to 1; 0 acts with the
    weights themselves."""
    critic_loss: Literal["squared", "hl-gauss"] = "squared"
    """squared: squared TD error. hl-gauss: cross-entropy over bins of values."""
    bins: Several = 101
    """Number of value bins of hl-gauss, at least 2."""
    value_range: tuple[float, float] | Literal["auto"] = "auto"
    """Lowest and highest value of the bins. auto: the smallest and largest possible return with the
    data's rewards."""
    sass: Weight = 0.0
    """Weight of the authors' self-supervised loss on the critics' features; 0 as in the paper's
    runs, 1 is the authors' value."""

    BEFORE: ClassVar[dict[str, Any]] = {
        "next_actions": "shared",
        "double_q": "sum",
        "ddof": 0,
        "member_rows": "whole",
    }
    """What runs did before these were settings."""

    def __post_init__(self) -> None:
        check_name(self.ensemble)
        if self.targets not in TARGETS:
            raise unknown_name("rule for targets", self.targets, TARGETS)
        if self.ensemble == "none":
            object.__setattr__(self, "members", 1)  # the class is frozen, for everybody else
            if TARGETS[self.targets].shared:
                raise CharyError(
                    f"--ensemble none cannot be combined with --targets {self.targets}: one Q-function "
                    "has nobody to share a target with. Use --targets independent or double-q."
                )
        super().__post_init__()
        # Gradients are divided by alpha: it must not vanish among the smallest numbers.
        require(
            self.alpha == 0.0 or self.alpha >= 1e-12, "alpha", self.alpha, "0, or at least 1e-12"
        )
        if self.ensemble == "tree":
            require(
                self.shared_layers <= len(self.hidden),
                "shared-layers",
                self.shared_layers,
                f"from 0 to the number of hidden layers ({len(self.hidden)})",
            )
        if self.policy == "deterministic" and self.entropy != "off":
            raise CharyError(
                "--policy deterministic has no entropy to give a bonus for: add --entropy off."
            )
        self._check_rows()
        self._check_critics()

    def _check_rows(self) -> None:
        if not self.splits_rows:
            return
        require(
            self.batch_size % self.members == 0,
            "batch-size",
            self.batch_size,
            f"a multiple of the number of members ({self.members}) that divide the batch among "
            "them, or use --member-rows whole",
        )
        if TARGETS[self.targets].shared or self.ensemble == "mimo" or ":" in self.ensemble:
            raise CharyError(
                f"--member-rows split cannot be combined with --targets {self.targets} and --ensemble "
                f"{self.ensemble}: members that see different rows have no next value to share, and "
                "mimo and ensembles of your own arrange rows themselves. Use --member-rows whole."
            )
        if self.bound == "relative":
            raise CharyError(
                "--bound relative cannot be combined with --member-rows split: every member must know "
                "the logged actions of all rows. Use --member-rows whole."
            )

    def _check_critics(self) -> None:
        if self.value_range != "auto":
            low, high = self.value_range
            require(low < high, "value-range", self.value_range, "a lower and a higher value")
        if self.critic_loss == "hl-gauss" and ":" in self.ensemble:
            raise CharyError(
                f"--critic-loss hl-gauss cannot be combined with --ensemble {self.ensemble}: an "
                "ensemble of your own gives values, not bins of them."
            )
        if self.sass and self.ensemble not in ("deep", "none"):
            raise CharyError(
                f"--sass cannot be combined with --ensemble {self.ensemble}: it trains the features of "
                "separate networks. Use --ensemble deep."
            )

    @property
    def splits_rows(self) -> bool:
        """Whether the batch is divided among the members."""
        chosen = self.member_rows
        return chosen == "split" or (chosen == "auto" and self.ensemble == "batch")

    def value_bins(self) -> Bins | None:
        """The bins of a critic's values; None where it gives a value itself."""
        if self.critic_loss == "squared":
            return None
        if self.value_range == "auto":
            raise CharyError(
                "--critic-loss hl-gauss needs a range of values: --value-range LOW HIGH, or data to "
                "take it from."
            )
        return Bins(*self.value_range, self.bins)

    def shape(self, observation_size: int, action_size: int) -> EnsembleShape:
        """What the ensemble is built from."""
        return EnsembleShape(
            members=self.members,
            heads=TARGETS[self.targets].heads,
            observation_size=observation_size,
            action_size=action_size,
            hidden=self.hidden,
            layer_norm=self.layer_norm,
            outputs=self.bins if self.critic_loss == "hl-gauss" else 1,
            complete_heads=self.double_q == "mean",
            mimo_repetition=self.mimo_repetition,
            modulation=self.modulation,
            shared_layers=self.shared_layers,
            prior_scale=self.prior_scale,
            dropout=self.dropout,
        )
